"""The four groups of the key ``quantgraph``: their types, readers and writer."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal, NotRequired, TypeVar, cast

from typing_extensions import TypedDict

from quantgraph._util.texts import Language
from quantgraph.errors import BadOption

Update = dict[str, Any]
"""The fields that a step changed, or, once :func:`written`, what its node returns."""
S = TypeVar("S", bound=Mapping[str, Any])


EndedBecause = Literal[
    "done",
    "needs_answer",
    "declined",
    "max_retries",
    "repeated_error",
    "no_progress",
    "budget_calls",
    "budget_tokens",
    "budget_money",
    "timeout",
    "causality_failed",
    "meaning_failed",
    "data_unavailable",
    "no_open_prices",
    "cancelled",
    "model_unavailable",
    "code_unavailable",
]


ClarificationKind = Literal[
    "symbol",
    "window",
    "strategy",
    "fields",
    "plan",
    "bars",
    "moves",
    "confirmation",
    "failure",
    "approval",
    "meaning",
]


MovesTaken = Literal["action", "keep", "leave_out"]


class DecidedMoves(TypedDict):
    """What was decided about moves that no action in the data explains, see :mod:`quantgraph.audit.bars`."""

    taken: MovesTaken
    symbols: dict[str, list[Any]]


class QuestionAnswered(TypedDict):
    """A question and its answer, as plain JSON."""

    question: str
    answer: str
    by: Literal["person", "callable", "default"]
    """Who answered; a ``default`` is not from a person."""
    message: str
    """Id of the answer's message."""


class Clarification(TypedDict):
    """A question to the user, as plain JSON: the value of ``interrupt()``.

    It is answered with a text, or with ``{"answer": text, "id": id}``, which no other question accepts.
    """

    id: str
    """Made of the run, the place in its graph, and the content."""
    kind: ClarificationKind
    reason: str
    """Why it is asked."""
    worded: NotRequired[Literal["", "code", "model"]]
    """Who made ``reason`` a question already, which no model words again; absent once it is asked."""
    also_open: NotRequired[list[str]]
    """What else is open when it is asked; part of ``question`` once it is worded."""
    also_unread: NotRequired[list[str]]
    """The words of what else is open, which an answer may give up, too."""
    question: str
    """Empty until it is worded."""
    options: list[str]
    """Suggested answers. Any text is valid; for an ``approval``, also numbers or symbols of orders."""
    default: str | None
    """What the answer "default" stands for; for an ``approval``, the answer without asking."""
    answer_schema: dict[str, Any]
    """JSON schema of the answer."""
    rounds_left: int
    """How many questions may follow."""
    language: Language
    """The user's language."""
    unread: list[str]
    """The user's words that were not understood; for ``fields``, the unknown fields; for ``plan``, the words
    that nothing executes."""
    error: NotRequired[str]
    """What was wrong with the last answer, which did not count."""
    orders: NotRequired[list[dict[str, Any]]]
    """For an ``approval``, see :class:`~quantgraph.broker.session.OrderProposal`."""


class Clause(TypedDict):
    """A piece of the sentence: its words, what it became, and whether that is done.

    The words of a ``default`` are empty. What is ``unparsed`` changes no trade; others say where they did.
    """

    words: str
    became: str
    status: Literal["done", "default", "not_done", "unparsed"]
    mattered: NotRequired[dict[Literal["zh", "en"], str]]


class RuleWords(TypedDict):
    """Entry and exit in the user's words."""

    entry: str
    exit: str
    exit_is_default: bool


class Understanding(TypedDict):
    """The request as understood, plain JSON."""

    watch: list[str]
    """Codes whose data the rule reads, if they are not the traded ones; an index is a series of its own."""
    trade: list[str]
    """Codes that orders may name; an index stands for its members."""
    index: list[str]
    """The indices among ``watch``."""
    windows: list[list[str]]
    """Start and end of each span, ``YYYYMMDD``."""
    rule: RuleWords
    plan: dict[str, Any]
    """Stops, sizes, holding time."""
    clauses: list[Clause]
    changed: NotRequired[list[str]]
    """What a message changes in the request before it, as two lines: before, now."""


class Attempt(TypedDict):
    """One attempt at a signal, as plain JSON."""

    request: dict[str, Any]
    """The request that it was for."""
    cells: list[str]
    """The cells that it ran; if none ran, the last that failed."""
    said: str
    """Its closing words."""
    errors: list[str]
    """What was wrong with it; empty while nothing is."""
    made: str | None
    """Content hash of the request with the sessions that its signal needs; None without a signal."""
    question: NotRequired[str]
    """What it asks the user in place of a signal."""
    answer: NotRequired[str]


class RequestGroup(TypedDict):
    """What is wanted."""

    given: dict[str, str]
    """``ts_code``, ``start_date``, ``end_date`` fixed by the caller; they override the sentence."""
    edited: dict[str, dict[str, Any]]
    """Requests that were edited in the state, by their place on the thread: ``words`` ``instead`` of messages
    with these ids, and what is ``given``."""
    own: dict[str, Any] | None
    """A signal of the caller's that is traded in place of a model's, see
    :class:`~quantgraph.runs._specification.OwnSignal`."""
    as_of: str | None
    """Last session that the run may know, ``YYYYMMDD``; default: the source's last."""
    given_ref: str | None
    """The commit that the host gave: its data win over the source's. Empty without one."""
    left_ref: str | None
    """The commit that the thread's previous request left in ``data_ref``."""
    language: Language | None
    """The user's language."""
    params: dict[str, Any]
    """The parameters as read, of which a later request may change one."""
    checked: dict[str, Any]
    """The intent as checked by code: ``{ts_code, trade, index, start, end, indicators, strategy, notes,
    index_code}``, ``data_start`` if data from before ``start`` are needed, and ``records``: the kinds that
    were fetched. Empty until then."""
    understanding: Understanding | None


class DialogueGroup(TypedDict):
    """What was asked and answered."""

    clarification: Clarification | None
    """The open question."""
    open_question: Clarification | None
    """The unanswered question that ended the graph."""
    answering: Clarification | None
    """The question whose answer reflection reads next."""
    answers: list[QuestionAnswered]
    """The questions of this request with their answers."""
    assumptions: list[str]
    """Answers not from a person, as ``kind: answer (default)`` or ``(callable)``."""
    waived: list[str]
    """What the user goes on without: unknown fields, symbols without data, words that are not executed."""
    waived_symbols: list[str]
    """The symbols among ``waived``."""
    accepted_bars: list[str]
    """Symbols whose impossible bars the user goes on with."""
    moves: list[DecidedMoves]
    """What was decided about moves that no action explains."""
    accepted_code: str | None
    """Hash of the code that the user goes on with, though it departs from the sentence."""
    confirmed: str | None
    """Hash of the understanding that the user has confirmed."""
    reflected_on: str | None
    """Id of the newest user message that reflection has read."""
    ignored_message_ids: list[str]
    """Ids of the user's messages that are ignored: answers that were not understood."""
    last_request: dict[str, Any]
    """Parameters of the thread's previous request, which a new message may change."""
    last_cells: list[str]
    """The code of the previous request, from which a changed one starts."""


class ProgressGroup(TypedDict):
    """What was tried."""

    attempts: list[Attempt]
    """The attempts at this signal: the conversation in which a model writes its code."""
    generated: int
    """How often code was asked for in this request."""
    sent_back: list[str]
    """Kinds of findings that went back to the model since the start or the last answer."""
    failures: list[str]
    """First error of each failed attempt since the start or the last answer."""
    validation: dict[str, Any]
    """The last validation report."""
    calls: dict[str, int]
    """Model calls so far by node path: ``{"signal/reflection": 3}``. Never reset: a call is identified by its
    number, also in a resumed or replayed run."""
    trail: list[str]
    """The state that each step since the last answer left, as ``node:hash``, to detect loops."""
    ended: bool
    """Whether the request has ended: the next message is another one."""


class Groups(TypedDict, total=False):
    """The value of the state's key ``quantgraph``."""

    request: RequestGroup
    strategy: dict[str, Any]
    """``{name, signals, cells, code_hash, data_ref, request, warm_up, said}``; ``signals`` are
    the names that its code hands over, ``name`` the last, which alone is proved and traded; ``data_ref`` is
    the data it ran on, ``warm_up`` the sessions that a row needs, ``said`` what its model says about it. Once
    validated, ``evaluated_from``: the first session that counts. Empty without one."""
    dialogue: DialogueGroup
    progress: ProgressGroup
    result: dict[str, Any]
    """How the request ended: ``{ended_because, data_ref, name, run_id}``, ``name`` of the signal, or ""."""


def replace_groups(old: Groups | None, new: Groups | None) -> Groups:
    """Return the groups, each as it came last: the reducer of the key ``quantgraph``.

    Raises
    ------
    BadOption
        If a host has something else under this key.
    """
    for value in (old, new):
        if not _are_groups(value):
            raise BadOption(
                f"the state's quantgraph={value!r:.60} is not what quantgraph keeps there; rename it",
                parameter="quantgraph",
            )
    return {**(old or {}), **(new or {})}


def _are_groups(value: object) -> bool:
    if not isinstance(value, Mapping):
        return value is None
    return value.keys() <= Groups.__annotations__.keys() and all(
        isinstance(group, Mapping) for group in value.values()
    )


def request_of(state: Mapping[str, Any]) -> RequestGroup:
    """Return the request."""
    empty: RequestGroup = {
        "given": {},
        "edited": {},
        "own": None,
        "as_of": None,
        "given_ref": None,
        "left_ref": None,
        "language": None,
        "params": {},
        "checked": {},
        "understanding": None,
    }
    return cast("RequestGroup", {**empty, **_group(state, "request")})


def strategy_of(state: Mapping[str, Any]) -> dict[str, Any]:
    """Return the strategy that made the signal; empty without one."""
    return dict(_group(state, "strategy"))


def dialogue_of(state: Mapping[str, Any]) -> DialogueGroup:
    """Return what was asked and answered."""
    empty: DialogueGroup = {
        "clarification": None,
        "open_question": None,
        "answering": None,
        "answers": [],
        "assumptions": [],
        "waived": [],
        "waived_symbols": [],
        "accepted_bars": [],
        "moves": [],
        "accepted_code": None,
        "confirmed": None,
        "reflected_on": None,
        "ignored_message_ids": [],
        "last_request": {},
        "last_cells": [],
    }
    return cast("DialogueGroup", {**empty, **_group(state, "dialogue")})


def progress_of(state: Mapping[str, Any]) -> ProgressGroup:
    """Return what was tried."""
    empty: ProgressGroup = {
        "attempts": [],
        "generated": 0,
        "sent_back": [],
        "failures": [],
        "validation": {},
        "calls": {},
        "trail": [],
        "ended": False,
    }
    return cast("ProgressGroup", {**empty, **_group(state, "progress")})


def _group(state: Mapping[str, Any], name: str) -> Mapping[str, Any]:
    return (state.get("quantgraph") or {}).get(name) or {}


_READERS: dict[str, Callable[[Mapping[str, Any]], Any]] = {
    "request": request_of,
    "dialogue": dialogue_of,
    "progress": progress_of,
}
_FIELDS = frozenset({"strategy", "quantgraph"}.union(*(read({}) for read in _READERS.values())))


def written(state: Mapping[str, Any], changes: Mapping[str, Any]) -> Update:
    """Return the update of a node for what it changed: the groups that did are whole, and in ``quantgraph``.

    >>> written({}, {"current_task": "clarify", "waived": ["roe"]})["quantgraph"]["dialogue"]["waived"]
    ['roe']
    """
    update = {name: value for name, value in changes.items() if name not in _FIELDS}
    groups: dict[str, Any] = dict(changes.get("quantgraph") or {})
    now = {"quantgraph": replace_groups(state.get("quantgraph"), cast("Groups", groups))}
    there = now["quantgraph"]  # a group that is not is written: side by side, the whole of one result stays
    for name, read in _READERS.items():
        before: Mapping[str, Any] = read(now)
        own = {field: changes[field] for field in before if field in changes}
        if own and (name not in there or any(before[field] != value for field, value in own.items())):
            groups[name] = {**before, **own}
    if "strategy" in changes and ("strategy" not in there or changes["strategy"] != strategy_of(now)):
        groups["strategy"] = changes["strategy"]
    return {**update, "quantgraph": groups} if groups else update


def changed(state: S, changes: Mapping[str, Any]) -> S:
    """Return a state with what a step changed in it."""
    update = written(state, changes)
    groups = replace_groups(state.get("quantgraph"), update.get("quantgraph"))
    return cast("S", {**state, **update, "quantgraph": groups})


def check_messages(state: Mapping[str, Any]) -> None:
    """Refuse a host without messages, which have the request; a graph that runs alone asks for it.

    Raises
    ------
    BadOption
        If the state has no field ``messages``, or an empty one inside another graph.
    """
    from langgraph.runtime import get_runtime  # a second: the command line reads EndedBecause alone

    try:
        info = get_runtime().execution_info
    except RuntimeError:  # outside of a graph
        info = None
    if "messages" not in state or (not state["messages"] and info and "|" in info.checkpoint_ns):
        raise BadOption(
            "the host's state has no messages: add the field messages, as langgraph.graph.MessagesState has "
            "it, with the request as a message of the user",
            parameter="messages",
        )
