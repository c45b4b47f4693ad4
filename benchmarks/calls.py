"""Model calls and tokens of a clean run: a sentence read, coded and proved, over HTTP.

Tokens are estimates: a quarter of the ASCII characters of a request's or a reply's JSON, and 0.8 for every
other character.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from typing import Any

from core import missed, show

from quantgraph.llm.messages import _json as tags
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.testing import ChatRequest, OpenAIStub, Reply

SENTENCES = {
    "zh": "000341.SZ,000342.SZ,000343.SZ，收盘价上穿20日均线买入，下穿卖出，2024年",
    "en": "000341.SZ,000342.SZ,000343.SZ, 2024, buy when the close crosses above its 20-day average, "
    "sell when it crosses below",
}
CELL = """\
close = snapshot["ohlcv"]["close"]
ma = close.apply(lambda s: s.dropna().rolling(20).mean().reindex(s.index))
above = (close > ma).astype(float).where(ma.notna()).ffill()
was = above.shift(1)
zero = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = zero.mask((above == 1) & (was == 0), 1.0).mask((above == 0) & (was == 1), -1.0).where(ma.notna())
GLOBAL_DATA_STATE.update("signal", {"close_cross_ma20": signal})
print("close_cross_ma20", signal.shape, signal.stack().value_counts().to_dict())"""
WORDS = {
    "zh": "收盘价上穿20日均线买入，下穿卖出。没有近似或省略。",
    "en": "It buys when the close crosses above its 20-day average and sells below. Nothing is left out.",
}
CALLS, REVIEWS, TOKENS = 4, 3, 6_000
"""Bounds, each one above the most that there may be."""


def tokens(value: object) -> int:
    """Estimate the tokens of a JSON value."""
    text = json.dumps(value, ensure_ascii=False)
    ascii_ = sum(ord(character) < 128 for character in text)
    return int(ascii_ / 4 + (len(text) - ascii_) * 0.8) + 1


def answer(request: ChatRequest, language: str) -> Reply:
    """Read, code, or close, as a model does that makes no mistake."""
    text = "\n".join(str(message["content"]) for message in request.messages if message["role"] != "tool")
    if tags.read("strategy", text) is None:
        return Reply.text(f"```json\n{json.dumps(reflection(language), ensure_ascii=False)}\n```")
    if request.messages[-1]["role"] == "tool":
        return Reply.text(WORDS[language])
    return Reply.call("python_repl", query=CELL)


def reflection(language: str) -> dict[str, Any]:
    codes, rule = "000341.SZ,000342.SZ,000343.SZ", SENTENCES[language].removeprefix("000341.SZ")
    params = {
        "ts_code": codes,
        "start_date": "20240101",
        "end_date": "20241231",
        "strategy_desc": rule.split("343.SZ")[1].strip(",， "),
    }
    intent = {"type": "mixed", "params": params, "needs_clarification": False}
    return {"task_type": "mixed", "next_action": "data_fetch", "user_intent": intent, "unread": []}


def size(body: Mapping[str, Any]) -> int:
    return tokens({key: body.get(key) for key in ("messages", "tools", "response_format")})


def clean_run(language: str) -> None:
    with OpenAIStub(lambda request: answer(request, language)) as server:
        settings = load_settings(openai_base_url=server.base_url, openai_api_key="local", model="stub")
        graph = create_signal_subgraph(
            source="sample", on_clarify="fail", settings=settings, resources=Resources(store=DataState())
        )
        state = graph.invoke({"messages": [("user", SENTENCES[language])]})
        if state["ended_because"] != "done":
            raise SystemExit(state["error_messages"])
        replied = [answer(request, language) for request in server.requests]
        sent = sum(size(request.body) for request in server.requests)
        reviews = sum(tags.read("validate", str(request.messages)) is not None for request in server.requests)
    given = sum(tokens({"content": reply.content, "tool_calls": reply.tool_calls}) for reply in replied)
    show(f"model calls of a clean run, reviews aside ({language})", len(replied) - reviews, CALLS, "")
    show(f"reviews of a clean run ({language})", reviews, REVIEWS, "")
    show(f"tokens of a clean run ({language})", sent + given, TOKENS, "")


def main() -> int:
    for language in SENTENCES:
        clean_run(language)
    return len(missed)


if __name__ == "__main__":
    sys.exit(min(main(), 1))
