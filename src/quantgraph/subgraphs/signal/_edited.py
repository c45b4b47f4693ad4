"""What was asked: a request that was edited in the state is read again, as the state says it now.

What is derived from a request is derived from the parameters that were read, ``request.params``. While
``user_intent`` has others, no node but reflection does anything, and each route leads there. Securities and
dates are edited as values. A rule is words that bind each other: another one is said in a message.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from quantgraph.errors import BadOption
from quantgraph.runtime.endings import is_edited, messages_by_request
from quantgraph.runtime.graph_state import Update, request_of

_FIXED = ("ts_code", "start_date", "end_date")


def edit(state: Mapping[str, Any], **changes: str) -> dict[str, Any]:
    """Return the update for ``graph.update_state`` that gives the request of a state other values.

    ``ts_code``, ``start_date`` and ``end_date`` are written as in ``user_intent``. The request is read again
    with them, then all that follows from it.

    Raises
    ------
    BadOption
        If the state has no request yet, or if a value is none of these, or empty.
    """
    intent = state.get("user_intent") or {}
    if not intent.get("params"):
        raise BadOption("the state has no request yet: edit it after reflection", parameter="user_intent")
    _check(changes)
    return {"user_intent": {**intent, "params": {**intent["params"], **changes}}}


def unless_edited(node: Callable[[Any], dict[str, Any]], state: Mapping[str, Any]) -> dict[str, Any]:
    """Run a node, but for a request that is to be read again."""
    return {"current_task": "reflection"} if is_edited(state) else node(state)


def given_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that override the words: the caller's, and those of an edited request."""
    request, place = request_of(state), str(len(messages_by_request(state)) - 1)
    edit: Mapping[str, str] = request["edited"].get(place, {}).get("given", {})
    return {**request["given"], **edit}


def edited_update(
    params: object,
    request: Mapping[str, Any],
    dialogue: Mapping[str, Any],
    requests: Sequence[Sequence[AnyMessage]],
) -> Update:
    """Return what an edit changes in a request that begins anew; ``BadOption`` if it cannot be read.

    ``requests`` are the messages of each request of the thread. After its end a request is made once more.
    """
    read, edited = request["params"], request["edited"]
    if not isinstance(params, Mapping):
        raise BadOption(f"user_intent.params={params!r:.60}; must be a dict", parameter="user_intent.params")
    if requests[-1] and str(requests[-1][-1].id) != str(dialogue["reflected_on"]):
        raise BadOption(
            "the request was edited and a message came: continue the edit first, by invoke(None, config)",
            parameter="messages",
        )
    changes = {name: params.get(name) for name in {*read, *params} if params.get(name) != read.get(name)}
    _check(changes)
    last = max((place for place, each in enumerate(requests) if each), default=0)
    dates = {name: params[name] for name in _FIXED[1:] if changes.keys() & {*_FIXED[1:]}}  # both, or none
    given = {**edited.get(str(last), {}).get("given", {}), **dates, **changes}
    words = "\n".join(str(each.text) for each in requests[last])
    new = {"words": words, "instead": " ".join(str(each.id) for each in requests[-1]), "given": given}
    done = ", ".join(f"{name} {read.get(name)} -> {value}" for name, value in sorted(changes.items()))
    return {
        **{name: dialogue[name] for name in ("waived", "assumptions")},
        "edited": {**edited, str(len(requests) - 1): new},
        "ended_because": None,
        "execution_history": [f"edited: {done}"],
    }


def _check(changes: Mapping[Any, Any]) -> None:
    for name, value in sorted(changes.items(), key=str):
        if name not in _FIXED:
            raise BadOption(
                f"{name} of a request cannot be edited; valid: {', '.join(_FIXED)}; rules come by message",
                parameter=str(name),
            )
        if not isinstance(value, str) or not value.strip():
            raise BadOption(f"{name}={value!r:.60}; must be a text that is not empty", parameter=name)
