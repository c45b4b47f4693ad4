"""A run that has everything: a question, a failing tool, a failed attempt, forty sessions, in some fifteen steps.

The model is a function of the request alone, so that a request that is sent again is answered alike.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from quantgraph.llm.messages import _json as tags
from quantgraph.testing import ChatRequest, Reply

__all__ = ["ANSWER", "QUESTION", "script", "told"]


CODE = "000341.SZ"
QUESTION = f"{CODE}, buy after an up day and sell after a down day"
ANSWER = "20240102-20240229"
USAGE = (100, 10)
BAD = "1 / 0"
GOOD = """\
close = GLOBAL_DATA_STATE.snapshot()["ohlcv"]["close"]
change = close.diff()
signal = ((change > 0).astype(float) - (change < 0).astype(float)).where(change.notna())
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
signal.shape
"""


def script(request: ChatRequest) -> Reply:
    """What the model says."""
    told = [message for message in request.messages if message["role"] not in {"assistant", "tool"}]
    text = "\n".join(str(message["content"]) for message in told)
    begun = max(place for place, message in enumerate(request.messages) if message["role"] == "user")
    results = [message for message in request.messages[begun:] if message["role"] == "tool"]
    if (wanted := tags.read("fetch", text)) is not None:
        return _text("fetched") if results else _fetch(json.loads(wanted))
    if tags.read("strategy", text) is not None:
        cells = [GOOD if "ZeroDivisionError" in text else BAD]
        calls = [replace(Reply.call("python_repl", query=cell), usage=USAGE) for cell in cells]
        return calls[len(results)] if len(results) < len(calls) else _text("done")
    if tags.read("clarify", text) is not None:
        return _text("Which window?")
    if tags.read("validate", text) is not None:
        return _json({"validation_passed": True, "issues_found": []})
    return _json(_intent(known=ANSWER in text))


def _text(content: str) -> Reply:
    return replace(Reply.text(content), usage=USAGE)


def _json(answer: dict[str, Any]) -> Reply:
    return _text(json.dumps(answer))


def _fetch(wanted: dict[str, Any]) -> Reply:
    window = {name: wanted[name] for name in ("ts_code", "start_date", "end_date")}
    return replace(Reply.call("tushare_daily_bar", **window), usage=USAGE)


def _intent(*, known: bool) -> dict[str, Any]:
    start, end = ANSWER.split("-") if known else (None, None)
    params = {
        "ts_code": CODE,
        "start_date": start,
        "end_date": end,
        "strategy_desc": "buy after an up day, sell after a down day",
        "required_indicators": [],
    }
    question = None if known else "the window is missing"
    return {
        "task_type": "mixed" if known else "unclear",
        "user_intent": {
            "type": "mixed" if known else "unclear",
            "params": params,
            "needs_clarification": not known,
        },
        "clarification_question": question,
    }


def told(contents: Sequence[Any]) -> str:
    """Name of a request by what its messages say, on the wire and in a record alike."""
    return hashlib.blake2b(json.dumps([text or "" for text in contents]).encode(), digest_size=8).hexdigest()
