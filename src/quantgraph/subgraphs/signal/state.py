"""State of the signal subgraph. It holds no frames: ``data_ref`` names their commit."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from pydantic import TypeAdapter, ValidationError
from typing_extensions import TypedDict, get_type_hints

from quantgraph._util.texts import Language
from quantgraph.errors import BadOption
from quantgraph.runtime.endings import Clarification, EndedBecause, QuestionAnswered
from quantgraph.subgraphs.signal._attempts import Attempt
from quantgraph.subgraphs.signal.understanding import Understanding

_KEY_OF = {"strategy": "code_hash", "request": "ts_code"}
"""A key that a field has, unless it is empty."""


class SignalSubgraphState(TypedDict):
    """State of the signal subgraph.

    Only ``messages`` is required to start. All values are plain JSON, which any checkpointer accepts.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    current_task: str
    """The next task: ``reflection``, ``data_fetch``, ``signal_gen``, ``validate``, ``clarify`` or ``end``."""
    data_ready: bool
    """Whether the bars that this request needs are in the commit ``data_ref``."""
    indicators_ready: bool
    """Whether the daily indicators that this request needs are there."""
    signal_ready: bool
    """Whether the signal of this strategy on these data is there."""
    user_intent: dict[str, Any]
    """``type``, ``params`` (ts_code, start_date, end_date, strategy_desc, required_indicators) and
    ``needs_clarification``."""
    clarification_needed: str | None
    """Why the user is to be asked, or None."""
    clarification_count: int
    """Questions answered so far for this request."""
    execution_history: list[str]
    """What was done, and which errors were solved."""
    error_messages: list[str]
    """The open errors of the current attempt, one ``code: message`` line each."""
    max_retries: int
    """Failed attempts after which the user is asked."""
    retry_count: int
    """Failed attempts since the start or the last answer."""

    data_ref: NotRequired[str]
    """The commit that the run works on."""
    given_ref: NotRequired[str]
    """The commit that the host gave: its data win over the source's. Empty without one."""
    left_ref: NotRequired[str | None]
    """The commit that the thread's previous request left in ``data_ref``."""
    request: NotRequired[dict[str, Any]]
    """The intent as checked by code: ``{ts_code, trade, index, start, end, indicators, strategy, notes,
    index_code}``, ``data_start`` if data from before ``start`` are needed, and ``records``: the kinds that
    were fetched."""
    understanding: NotRequired[Understanding]
    """What was said, see :class:`~quantgraph.subgraphs.signal.Understanding`."""
    last_request: NotRequired[dict[str, Any]]
    """Parameters of the thread's previous request, which a new message may change."""
    last_cells: NotRequired[list[str]]
    """The code of the previous request, from which a changed one starts."""
    answers: NotRequired[list[QuestionAnswered]]
    """The questions of this request with their answers."""
    confirmed: NotRequired[str | None]
    """Hash of the understanding that the user has confirmed."""
    strategy: NotRequired[dict[str, Any]]
    """``{name, signals, cells, code_hash, data_ref, request, warm_up, said}``; ``signals`` are the names that
    its code hands over, ``name`` the last, which alone is proved and traded; ``data_ref`` is the data it ran
    on, ``warm_up`` the sessions that a row needs, ``said`` what its model says about it. Once validated,
    ``evaluated_from``: the first session that counts."""
    attempts: NotRequired[list[Attempt]]
    """The attempts at this signal: the conversation in which a model writes its code."""
    validation: NotRequired[dict[str, Any]]
    """The last validation report."""
    clarification: NotRequired[Clarification | None]
    """The open question."""
    failures: NotRequired[list[str]]
    """First error of each failed attempt since the start or the last answer."""
    assumptions: NotRequired[list[str]]
    """Answers not given by a person, as ``kind: answer (default)`` or ``(callable)``."""
    open_question: NotRequired[Clarification | None]
    """The unanswered question that ended the graph."""
    answering: NotRequired[Clarification | None]
    """The question whose answer reflection reads next."""
    ignored_message_ids: NotRequired[list[str]]
    """Ids of the user's messages that are ignored: answers that were not understood."""
    waived: NotRequired[list[str]]
    """What the user goes on without: unknown fields, symbols without data, words that are not executed."""
    waived_symbols: NotRequired[list[str]]
    """The symbols among ``waived``."""
    accepted_bars: NotRequired[list[str]]
    """Symbols whose impossible bars the user goes on with."""
    given: NotRequired[dict[str, str]]
    """``ts_code``, ``start_date``, ``end_date`` fixed by the caller; they override the sentence."""
    as_of: NotRequired[str]
    """Last session that the run may know, ``YYYYMMDD``; default: the source's last."""
    reflected_on: NotRequired[str]
    """Id of the newest user message that reflection has read."""
    handled: NotRequired[str]
    """Id of the last user message of the previous request."""
    language: NotRequired[Language]
    """The user's language."""
    remaining_steps: NotRequired[RemainingSteps]
    """Steps left to this call of the graph, by its ``recursion_limit`` or the host's."""
    ended_because: NotRequired[EndedBecause | None]
    """Why the graph ended."""
    run_id: NotRequired[str]
    """Id of the run in its ledger and recording; made if the caller gives none."""
    calls: NotRequired[dict[str, int]]
    """Model calls so far by node path: ``{"signal/reflection": 3}``. Never reset: a call is identified by its
    number, also in a resumed or replayed run."""
    trail: NotRequired[list[str]]
    """The state that each step since the last answer left, as ``node:hash``, to detect loops."""


def check_fields(state: Mapping[str, Any]) -> None:
    """Refuse a field of a host's that has the name of one of the subgraph's and means something else.

    Raises
    ------
    BadOption
        If a value is none that the subgraph writes there.
    """
    for name, adapter in _adapters().items():
        value = state.get(name)
        if value is None:
            continue
        try:
            adapter.validate_python(value)
            wrong = name in _KEY_OF and value and _KEY_OF[name] not in value
        except ValidationError:
            wrong = True
        if wrong:
            raise BadOption(
                f"the state's {name}={value!r:.60} is not the signal subgraph's, which has such a field too: "
                "rename it, or call the subgraph inside a node with map_to_subgraph_state(state)",
                parameter=name,
            )


@cache
def _adapters() -> dict[str, TypeAdapter[Any]]:
    hints = get_type_hints(SignalSubgraphState)
    return {name: TypeAdapter(hints[name]) for name in hints if name not in ("messages", "remaining_steps")}
