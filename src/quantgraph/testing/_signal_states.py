"""A sample store, and the state before any node of the signal subgraph, for tests of nodes."""

from __future__ import annotations

from typing import Any, Literal, cast, get_args

from langchain_core.messages import HumanMessage

from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption
from quantgraph.market import session_of
from quantgraph.runtime import Resources, new_saver
from quantgraph.runtime.graph_state import changed, request_of
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import SignalSubgraphState, create_signal_subgraph

CODES = ("000341.SZ", "000342.SZ", "000343.SZ")
"""Three of the sample's stocks."""
WINDOW = ("20240102", "20240229")
_RULE = f"{','.join(CODES)}，2日均线上穿5日均线买入，下穿卖出"
SENTENCE = f"{_RULE}，{WINDOW[0]}到{WINDOW[1]}"
"""A strategy that the keyless planner reads, over 37 sessions of the sample."""

Node = Literal["reflection", "data_fetch", "signal_generate", "validation", "clarify"]


def sample_store() -> DataState:
    """New data state with the bars and indicators of :data:`SENTENCE`."""
    store, source = DataState(), SampleSource()
    start, end = (session_of(day) for day in WINDOW)
    store.update("ohlcv", source.bars(CODES, start, end))
    store.update("indicators", source.indicators(CODES, start, end, ["pe", "pb"]))
    return store


def signal_state(
    node: Node, *, store: DataState, sentence: str | None = None, **changes: Any
) -> SignalSubgraphState:
    """State of a run on the sample before ``node`` runs, made by the nodes before it.

    Parameters
    ----------
    node
        Name of the node. ``validation`` is the signal's, not the data's.
    store
        Store of the run's data and signal.
    sentence
        The user's sentence. Default: :data:`SENTENCE`; for ``clarify``, the same without a window.
    changes
        Keys of the state to replace, or fields of its groups.

    Raises
    ------
    BadOption
        If the node is unknown, or a run of the sentence does not reach it.

    Examples
    --------
    >>> state = signal_state("data_fetch", store=sample_store())
    >>> state["quantgraph"]["request"]["checked"]["start"], state["data_ready"], state["current_task"]
    ('20240102', False, 'data_fetch')
    """
    if node not in get_args(Node):
        raise BadOption(f"node={node!r}; valid are {', '.join(get_args(Node))}", parameter="node")
    graph = create_signal_subgraph(
        model="keyless", source="sample", checkpointer=new_saver(), resources=Resources(store=store)
    )
    sentence = sentence or (_RULE if node == "clarify" else SENTENCE)
    config: Any = {"configurable": {"thread_id": "test"}}
    place = "validate" if node == "validation" else node
    state: Any = {"messages": [HumanMessage(sentence)]}
    while True:
        graph.invoke(state, config, interrupt_before=[place])
        now, state = graph.get_state(config), None
        if place not in now.next:
            ended = now.values.get("ended_because")
            raise BadOption(
                f"node={node!r}: a run of {sentence!r} ends before it ({ended})", parameter="node"
            )
        if node != "validation" or now.values["signal_ready"]:
            if node == "signal_generate":  # in words alone, which a model writes code for
                changes = {"checked": {**request_of(now.values)["checked"], "trees": None}} | changes
            return cast("SignalSubgraphState", changed(now.values, changes))
