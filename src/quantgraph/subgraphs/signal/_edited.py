"""What was asked: a request that was edited in the state is read again, as the state says it now.

What is derived from a request is derived from the parameters that were read, ``request.params``. While
``user_intent`` has others, no node but reflection does anything, and each route leads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from langchain_core.messages import AnyMessage

from quantgraph._util.texts import language_of, say
from quantgraph.errors import BadOption
from quantgraph.runtime.endings import is_edited, messages_by_request
from quantgraph.runtime.graph_state import Update, dialogue_of, request_of

_Json = Mapping[str, Any]
_FIXED, _RULE = ("ts_code", "start_date", "end_date"), ("entry", "exit", "strategy_desc")


def edit(state: Mapping[str, Any], **changes: str) -> dict[str, Any]:
    """Return the update for ``graph.update_state`` that gives the request of a state other values.

    ``ts_code``, ``start_date`` and ``end_date`` are written as in ``user_intent``; ``entry`` and ``exit``, or
    the whole rule as ``strategy_desc``, in words. The request is read again, then all that follows from it.

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


def edit_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return what an edit of this request fixes: ``given``, and a ``plan`` until an answer may change it."""
    edit = request_of(state)["edited"].get(str(len(messages_by_request(state)) - 1), {"given": {}})
    return {**edit, "plan": {} if dialogue_of(state)["answers"] else edit.get("plan", {})}


def edited_update(
    params: _Json, request: _Json, dialogue: _Json, requests: Sequence[Sequence[AnyMessage]]
) -> Update:
    """Return what an edit changes in a request, the last of ``requests`` of messages; or ``BadOption``."""
    read = request["params"]
    changes = {name: params.get(name) for name in {*read, *params} if params.get(name) != read.get(name)}
    _check(changes)
    new_rule = bool(changes.keys() & {*_RULE})
    if new_rule and (params["watch"] or request["own"]):
        raise BadOption(
            "a rule that watches others, or a signal of one's own, is not edited: send it as a message",
            parameter="user_intent.params",
        )
    place, ids = str(len(requests) - 1), " ".join(str(each.id) for each in requests[-1])
    said = next((each for each in reversed(requests) if each), [])
    words = _rule(params, changes) if new_rule else "\n".join(str(each.text) for each in said)
    known = request["edited"].get(place, {"given": {}})["given"]
    given = {name: params[name] for name in _FIXED if new_rule or name in changes or name in known}
    plan = params["plan"] if new_rule and "strategy_desc" not in changes else {}
    before = {name: _side(read, name) if name in ("entry", "exit") else read.get(name) for name in changes}
    done = ", ".join(f"{name} {before[name]} -> {value}" for name, value in sorted(changes.items()))
    kept = {} if new_rule else {"waived": dialogue["waived"], "assumptions": dialogue["assumptions"]}
    return {
        **kept,
        "edited": {
            **request["edited"],
            place: {"words": words, "instead": ids, "given": given, "plan": plan},
        },
        "ended_because": None,
        "execution_history": [f"edited: {done}"],
    }


def _check(changes: Mapping[str, Any]) -> None:
    for name, value in sorted(changes.items()):
        if name not in (*_FIXED, *_RULE):
            valid = ", ".join((*_FIXED, *_RULE))
            raise BadOption(f"{name} of a request cannot be edited; valid: {valid}", parameter=name)
        if not isinstance(value, str) or not value.strip():
            raise BadOption(f"{name}={value!r:.60}; must be a text that is not empty", parameter=name)


def _rule(params: Mapping[str, Any], changes: Mapping[str, Any]) -> str:
    """The rule in words: the sides that were edited, else what their clauses became, and the plan's words."""
    if "strategy_desc" in changes:
        return str(changes["strategy_desc"])
    entry, leave = (changes.get(side) or _side(params, side) for side in ("entry", "exit"))
    language = language_of("".join((entry, leave, *(each["quote"] for each in params["clauses"]))))
    plan = [
        each["quote"]
        for each in params["clauses"]
        if each["part"] not in ("entry", "exit") and each["status"] == "done"
    ]
    parts = [say(language, zh=f"{entry}买入", en=f"buy when {entry}")]
    parts += [say(language, zh=f"{leave}卖出", en=f"sell when {leave}")] if leave else []
    return say(language, zh="，", en=", ").join([*parts, *plan])


def _side(params: Mapping[str, Any], side: str) -> str:
    """A side of the rule: a quote such as "above 70" may be of what another one names, which is edited."""
    words = {
        each["name"]: each["became"] if each["rule"] else each["quote"].strip(" ,，.。;；")
        for each in params["clauses"]
    }
    return re.sub(r"\w+", lambda name: words.get(name[0], name[0]), params.get(side) or "")
