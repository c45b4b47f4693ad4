"""What was asked: a request that was edited in the state is read again, as the state says it now.

What is derived from a request is derived from the parameters that were read, ``request.params``. While
``user_intent`` has others, no node but reflection does anything, and each route leads there.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import Any

from quantgraph._util.texts import language_of, say
from quantgraph.errors import BadOption
from quantgraph.runtime.endings import messages_by_request
from quantgraph.runtime.graph_state import Update, dialogue_of, request_of
from quantgraph.subgraphs.signal._updates import initial_state

_FIXED = ("ts_code", "start_date", "end_date")
_RULE = ("entry", "exit", "strategy_desc")


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


def is_edited(state: Mapping[str, Any]) -> bool:
    """Whether ``user_intent`` has other parameters than were read."""
    read, params = request_of(state)["params"], (state.get("user_intent") or {}).get("params")
    return bool(read) and params is not None and params != read


def unless_edited(node: Callable[[Any], dict[str, Any]], state: Mapping[str, Any]) -> dict[str, Any]:
    """Run a node, but for a request that is to be read again."""
    return {"current_task": "reflection"} if is_edited(state) else node(state)


def check_unedited(state: Mapping[str, Any]) -> None:
    """Refuse a request that was edited where its signal is traded already (``BadOption``)."""
    if is_edited(state):
        raise BadOption(
            "the request was edited after its signal was made: edit a checkpoint whose next node is signal, "
            "or send what is to change as a message",
            parameter="user_intent",
        )


def fixed_of(state: Mapping[str, Any]) -> dict[str, str]:
    """Return the parameters that override the words: the caller's, and those of an edited request."""
    edited = _edited(state)
    return request_of(state)["given"] | {name: edited[name] for name in _FIXED if name in edited}


def kept_plan(state: Mapping[str, Any]) -> Mapping[str, Any]:
    """Return the plan of a request whose rule was edited, until an answer may change it."""
    plan: Mapping[str, Any] = {} if dialogue_of(state)["answers"] else _edited(state).get("plan", {})
    return plan


def _edited(state: Mapping[str, Any]) -> Mapping[str, Any]:
    return request_of(state)["edited"].get(str(len(messages_by_request(state)) - 1), {})


def edited_update(state: Mapping[str, Any]) -> Update:
    """Return the update that begins an edited request; ``BadOption`` if the edit cannot be read."""
    read, params = request_of(state)["params"], state["user_intent"]["params"]
    changes = {name: params.get(name) for name in {*read, *params} if params.get(name) != read.get(name)}
    _check(changes)
    new_rule = bool(changes.keys() & {*_RULE})
    if new_rule and (params["watch"] or request_of(state)["own"]):
        raise BadOption(
            "a rule that watches others, or a signal of one's own, is not edited: send it as a message",
            parameter="user_intent.params",
        )
    messages = messages_by_request(state)
    said = next((each for each in reversed(messages) if each), [])
    words = _rule(params, changes) if new_rule else "\n".join(str(each.text) for each in said)
    fixed = {name: params[name] for name in _FIXED if new_rule or name in changes or name in fixed_of(state)}
    place, ids = str(len(messages) - 1), " ".join(str(each.id) for each in messages[-1])
    before = {name: _side(read, name) if name in ("entry", "exit") else read.get(name) for name in changes}
    done = ", ".join(f"{name} {before[name]} -> {value}" for name, value in sorted(changes.items()))
    stays = {"plan": params["plan"]} if new_rule and "strategy_desc" not in changes else {}
    dialogue = dialogue_of(state)
    kept = {} if new_rule else {name: dialogue[name] for name in ("waived", "assumptions")}
    return {
        **initial_state(state.get("max_retries", 3)),
        **kept,
        "edited": {**request_of(state)["edited"], place: fixed | {"words": words, "instead": ids} | stays},
        "ended_because": None,
        "execution_history": [*state.get("execution_history", []), f"edited: {done}"],
    }


def _check(changes: Mapping[str, Any]) -> None:
    names = ", ".join((*_FIXED, *_RULE))
    for name, value in sorted(changes.items()):
        if name not in (*_FIXED, *_RULE):
            raise BadOption(f"{name} of a request cannot be edited; valid: {names}", parameter=name)
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
