"""Earlier decisions as a text for the prompt, from what a caller gives or a memory has."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from quantgraph.agents.memory import HISTORY_HEADING, PipelineContext, decision_line
from quantgraph.errors import BadOption

_RECORDS = 7
"""Records of one symbol that are shown."""


def past_texts(
    symbols: Iterable[str],
    decision_history: Mapping[str, Any] | None,
    previous_decisions: Mapping[str, Any] | None,
    pipeline: PipelineContext | None,
    *,
    day: str = "",
) -> dict[str, str]:
    """Return the earlier decisions of each symbol that has some.

    The caller's history is used before the memory of the context, and that before the last decisions. Of the
    memory only what was known on the morning of ``day``, ``YYYY-MM-DD``, is read; "": all of it.

    Raises
    ------
    BadOption
        If a history is neither a list of records nor a text.
    """
    if decision_history:
        return {each: _text(each, decision_history[each]) for each in symbols if decision_history.get(each)}
    if pipeline is not None and pipeline.memory_enabled:
        episodes = pipeline.memory.episodes
        recalled = (episodes.at(day) if day else episodes).histories(symbols, pipeline.run_id)
        if recalled:
            return recalled
    last = previous_decisions or {}
    return {each: _text(each, [_dated(last[each])]) for each in symbols if last.get(each)}


def _text(symbol: str, history: Any) -> str:
    if isinstance(history, str):
        return history
    if not isinstance(history, list) or not all(isinstance(each, Mapping) for each in history):
        raise BadOption(
            f"decision_history of {symbol}: {history!r:.60}; must be a list of records or a text",
            parameter="decision_history",
        )
    lines = [_line(symbol, each) for each in history[:_RECORDS]]
    left = len(history) - len(lines)
    return "\n".join([HISTORY_HEADING, *lines, *([f"({left} earlier ones are left out)"] if left else [])])


def _line(symbol: str, record: Mapping[str, Any]) -> str:
    return decision_line(
        str(record.get("date") or ""),
        str(record.get("action") or ""),
        float(record.get("target_cash_amount") or 0.0),
        float(record.get("confidence") or 0.0),
        symbol=symbol,
    )


def _dated(decision: Mapping[str, Any]) -> dict[str, Any]:
    return {"date": str(decision.get("timestamp") or "")[:10], **decision}
