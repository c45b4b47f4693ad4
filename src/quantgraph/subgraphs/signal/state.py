"""State of the signal subgraph. Frames are not in it: ``data_ref`` names the commit they are in."""

from __future__ import annotations

from typing import Annotated, Any, NotRequired

from langchain_core.messages import AnyMessage
from langgraph.graph.message import add_messages
from langgraph.managed import RemainingSteps
from typing_extensions import TypedDict

from quantgraph._util.texts import Language
from quantgraph.runtime.state import Clarification, EndedBecause

__all__ = ["SignalSubgraphState"]


class SignalSubgraphState(TypedDict):
    """State of the signal subgraph.

    Only ``messages`` is needed to start. All values are plain JSON, so that any checkpointer takes them.
    """

    messages: Annotated[list[AnyMessage], add_messages]
    current_task: str
    """What is next: ``reflection``, ``data_fetch``, ``signal_gen``, ``validate``, ``clarify`` or ``end``."""
    data_ready: bool
    """The bars that this request needs are in the commit ``data_ref``."""
    indicators_ready: bool
    """The daily indicators that this request needs are there."""
    signal_ready: bool
    """The signal of this strategy on this data is there."""
    user_intent: dict[str, Any]
    """``type``, ``params`` (ts_code, start_date, end_date, strategy_desc, required_indicators) and
    ``needs_clarification``."""
    clarification_needed: str | None
    """Why the user has to be asked, or None."""
    clarification_count: int
    """Questions answered so far for this request."""
    execution_history: list[str]
    """What was done, and what went wrong and was solved."""
    error_messages: list[str]
    """The open errors of the current attempt, one ``code: message`` line each."""
    max_retries: int
    """Failed attempts after which the user is asked."""
    retry_count: int
    """Failed attempts since the start or the last answer."""

    data_ref: NotRequired[str]
    """Commit the run works on."""
    request: NotRequired[dict[str, Any]]
    """The intent as checked by code: ``{ts_code, start, end, indicators, strategy, notes, index_code}``, and
    ``data_start`` where data from before ``start`` were needed."""
    strategy: NotRequired[dict[str, Any]]
    """``{name, cells, code_hash, data_ref, request, warm_up}``; ``data_ref`` is the data it ran on,
    ``warm_up`` the sessions that a row needs. Once validated, ``evaluated_from``: the first one judged."""
    validation: NotRequired[dict[str, Any]]
    """The last validation report."""
    clarification: NotRequired[Clarification | None]
    """The open question."""
    failures: NotRequired[list[str]]
    """First error of each failed attempt since the start or the last answer."""
    assumptions: NotRequired[list[str]]
    """Answers that no person gave, ``kind: answer (default)`` or ``(callable)``."""
    answering: NotRequired[Clarification | None]
    """The question whose answer is to be read next."""
    ignored_message_ids: NotRequired[list[str]]
    """Ids of the user's messages that are no part of the request: answers that could not be read."""
    waived: NotRequired[list[str]]
    """Indicator fields that there are not, and that the user goes on without."""
    given: NotRequired[dict[str, str]]
    """``ts_code``, ``start_date``, ``end_date`` as fixed by the caller; they win over the sentence."""
    as_of: NotRequired[str]
    """Last session the run may know, ``YYYYMMDD``; default: the source's last."""
    reflected_on: NotRequired[str]
    """Id of the newest user message that was reflected on."""
    handled: NotRequired[str]
    """Id of the last user message of the request that ended last."""
    language: NotRequired[Language]
    """The user's."""
    remaining_steps: NotRequired[RemainingSteps]
    """Steps that this call of the graph may still make, by its ``recursion_limit`` or the host's."""
    ended_because: NotRequired[EndedBecause | None]
    """Why the graph ended."""
    run_id: NotRequired[str]
    """Name of the run in its ledger and recording; one is made if the caller gives none."""
    calls: NotRequired[dict[str, int]]
    """Model calls so far by the place they were made at: ``{"signal/reflection": 3}``. Never set back: a call
    is known by its number, in a run that is resumed or replayed too."""
    trail: NotRequired[list[str]]
    """What each step since the last answer left behind, ``node:fingerprint``; a loop shows in it."""
