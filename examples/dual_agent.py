"""The dual agent trades three symbols of the sample, with scripted models in place of those of the settings.

`quantgraph run "dual agent on 000341.SZ, January 2025" --decider dual_agent` is the same without Python.
"""

from __future__ import annotations

import json
from typing import Any

from langchain_core.messages import BaseMessage

from quantgraph import run_strategy
from quantgraph.agents.dual_agent import DualAgent
from quantgraph.broker.ledger import Ledger
from quantgraph.llm.messages import read
from quantgraph.testing import ScriptedChatModel


def chooses(messages: list[BaseMessage]) -> str:
    """Choose every symbol that has news: each story stands behind its symbols."""
    facts = json.loads(read("filter_facts", messages[1].text) or "")
    need = [name for name in facts["symbols"] if any(name in story for story in facts.get("news", ()))]
    return json.dumps({"stocks_need_fundamental": need, "reasoning": {}})


def decides(messages: list[BaseMessage]) -> str:
    """Buy what rose over seven sessions, sell what fell."""
    decisions: dict[str, dict[str, Any]] = {}
    facts = json.loads(read("decision_facts", messages[1].text) or "")
    for name, values in facts["symbols"].items():
        row = dict(zip(facts["columns"], values, strict=True))
        value, closes = row["current_position_value"], row["close_7d"]
        rose = closes[-1] / closes[0] - 1
        decisions[name] = {"action": "hold", "reasons": [f"{rose:+.1%} in seven sessions"]}
        if rose > 0 and not value:
            decisions[name] |= {"action": "increase", "target_cash_amount": 100_000}
        elif rose < 0 and value:
            decisions[name] |= {"action": "close"}
    return json.dumps({"decisions": decisions})


if __name__ == "__main__":
    models = {"filter": ScriptedChatModel(chooses), "decision": ScriptedChatModel(decides)}
    sentence = "dual agent on 000341.SZ, 000342.SZ, 600958.SH, 20250102 to 20250127"
    done = run_strategy(sentence, decider=DualAgent({"features": {"filter": True}}), model=models, out="runs")
    with Ledger(f"{done['run_dir']}/ledger.sqlite") as book:
        for day, notes in list(book.notes(done["run_id"]).items())[:3]:
            print(f"{day:%m-%d}", {name: each["action"] for name, each in notes["decisions"].items()})
    print(done["ended_because"], done["account"]["trades"], "trades")
