"""Answers that could not be read: they are asked for again, and leave nothing behind."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from quantgraph._util.texts import Language, say
from quantgraph.llm.planner.normalisation import normalise
from quantgraph.runtime.endings import language, user_messages
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.state_updates import question, user_text

__all__ = ["asked_again"]


def asked_again(
    state: SignalSubgraphState, kind: str, params: Mapping[str, Any], unread: Sequence[str], reason: str
) -> dict[str, Any]:
    """The last question once more, or nothing if its answer was of use.

    It was of none if words of it are unread, and either the same is asked as before, or something is lost
    that was known before. Such an answer is no part of the request from then on. A rule may be told in
    several answers: it is kept as long as nothing is lost.

    Parameters
    ----------
    kind, reason
        What is asked now that the answer is there, and why.
    params, unread
        What was read of the request with the answer, and words that were not.
    """
    task = state.get("answering")
    if not task:
        return {}
    answer = user_messages(state)[-1]
    left_out = [*state.get("left_out", []), str(answer.id)]
    earlier = _plain(user_text({**state, "left_out": left_out}))
    strange = [word for word in map(_plain, unread) if word in _plain(answer.text) and word not in earlier]
    known = state.get("user_intent", {}).get("params", {})
    lost = any(known.get(name) and not value for name, value in params.items())
    same = kind == task["kind"]
    if not strange or not (lost or (same and kind != "strategy")):
        return {}
    if not same:
        spoken = language(state)
        before = task["reason"].removeprefix(_not_read(task["unread"], spoken))
        kind, reason = task["kind"], _not_read(unread, spoken) + before
    line = f"{task['kind']}: {answer.text} ("
    return {
        "left_out": left_out,
        "answering": None,
        "reflected_on": answer.id,
        "assumptions": [said for said in state.get("assumptions", []) if not said.startswith(line)],
        **question(state, task["kind"], reason, unread=unread, options=task["options"]),
    }


def _plain(text: object) -> str:
    """A text as whoever reads it may have written it down: widths, number words, case, spaces."""
    return " ".join(normalise(str(text)).casefold().split())


def _not_read(words: Sequence[str], spoken: Language) -> str:
    if not words:
        return ""
    return say(
        spoken,
        zh=f"这部分我没有读懂：{'；'.join(words)}。",
        en=f"I could not read this: {'; '.join(words)}. ",
    )
