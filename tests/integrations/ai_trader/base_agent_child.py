"""A process that trades as ``BaseAgent`` until its model has replied once, and is killed at the next question.

Usage: ``base_agent_child.py PRICES LOG_PATH CALLS``; each reply is a line in the file ``CALLS``.
"""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from pathlib import Path

from langchain_core.messages import AIMessage

from quantgraph.integrations.ai_trader import BaseAgent
from quantgraph.testing import ScriptedChatModel


def main(prices: str, log_path: str, calls: str) -> None:
    replied = False

    def reply(messages):
        nonlocal replied
        if replied:
            os.kill(os.getpid(), signal.SIGKILL)
        replied = True
        day, answers = messages[1].text.partition("(")[2][:10], len(messages) - 2
        with Path(calls).open("a") as file:
            file.write(f"{day} {answers}\n")
        if day == "2025-08-29" and answers < 4:
            args = {"symbol": ("AAA", "BBB")[answers // 2], "amount": 3}
            return AIMessage("", tool_calls=[{"name": "buy", "args": args, "id": "1"}])
        return AIMessage("Done. <FINISH_SIGNAL>")

    agent = BaseAgent(
        "tester",
        ScriptedChatModel(reply),
        source=prices,
        log_path=log_path,
        init_date="2025-08-28",
        end_date="2025-09-02",
        initial_cash=1_000,
    )
    for day in agent.get_trading_dates():
        asyncio.run(agent.run_trading_session(day))


if __name__ == "__main__":
    main(*sys.argv[1:])
