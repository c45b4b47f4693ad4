"""A sample store, and the state before any node of the signal subgraph, for tests of nodes.

Fixtures for projects that build on quantgraph; pytest finds them once quantgraph is installed.

A node is tested in three lines::

    def test_my_fetch(quantgraph_state, quantgraph_resources):
        update = my_fetch_node(quantgraph_state("data_fetch"), resources=quantgraph_resources())
        assert update["data_ready"]

Importing this module loads pytest only; the fixtures import the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any, Literal, cast, get_args

import pytest
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.memory import InMemorySaver

from quantgraph.data.sample import SampleSource
from quantgraph.errors import BadOption
from quantgraph.market import session_of
from quantgraph.runtime import Resources
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import SignalSubgraphState, create_signal_subgraph

if TYPE_CHECKING:
    from langchain_core.language_models import BaseChatModel

    from quantgraph.runtime import OpenResources
    from quantgraph.testing._openai import OpenAIStub
    from quantgraph.testing._scripted import ScriptedChatModel
    from quantgraph.testing._tushare import TushareStub


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
        Name of the node. ``validation`` is that of the signal, not that of the data.
    store
        Store of the run's data and signal.
    sentence
        The user's sentence. Default: :data:`SENTENCE`; for ``clarify``, the same without a window.
    changes
        Keys of the state to replace.

    Raises
    ------
    BadOption
        If the node is unknown, or a run of the sentence does not reach it.

    Examples
    --------
    >>> state = signal_state("data_fetch", store=sample_store())
    >>> state["request"]["start"], state["data_ready"], state["current_task"]
    ('20240102', False, 'data_fetch')
    """
    if node not in get_args(Node):
        raise BadOption(f"node={node!r}; valid are {', '.join(get_args(Node))}", parameter="node")
    graph = create_signal_subgraph(
        model="keyless",
        source="sample",
        checkpointer=InMemorySaver(),
        resources=Resources(store=store),
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
            return cast("SignalSubgraphState", {**now.values, **changes})


_MISBEHAVING = "quantgraph_misbehaving"


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Run a test with the fixture ``quantgraph_misbehaving`` once for each model."""
    if _MISBEHAVING in metafunc.fixturenames:
        from quantgraph.testing._misbehaving import MISBEHAVING

        metafunc.parametrize(_MISBEHAVING, sorted(MISBEHAVING), indirect=True)


@pytest.fixture
def quantgraph_misbehaving(request: pytest.FixtureRequest) -> BaseChatModel:
    """Each model of :data:`quantgraph.testing.MISBEHAVING` in turn."""
    from quantgraph.testing._misbehaving import MISBEHAVING

    return MISBEHAVING[request.param]()


@pytest.fixture
def quantgraph_model() -> Callable[..., ScriptedChatModel]:
    """``quantgraph_model(script)``: a :class:`~quantgraph.testing.ScriptedChatModel`."""
    from quantgraph.testing._scripted import ScriptedChatModel

    return ScriptedChatModel


@pytest.fixture
def quantgraph_openai() -> Iterator[Callable[..., OpenAIStub]]:
    """``quantgraph_openai(script)``: a running :class:`~quantgraph.testing.OpenAIStub`."""
    from quantgraph.testing._openai import OpenAIStub

    with ExitStack() as running:
        yield lambda *args, **options: running.enter_context(OpenAIStub(*args, **options))


@pytest.fixture
def quantgraph_tushare() -> Iterator[Callable[..., TushareStub]]:
    """``quantgraph_tushare(tables)``: a running :class:`~quantgraph.testing._tushare.TushareStub`."""
    from quantgraph.testing._tushare import TushareStub

    with ExitStack() as running:
        yield lambda *args, **options: running.enter_context(TushareStub(*args, **options))


@pytest.fixture
def quantgraph_store() -> DataState:
    """New data state with two months of three sample stocks."""
    # gone

    return sample_store()


@pytest.fixture
def quantgraph_state(quantgraph_store: DataState) -> Callable[..., SignalSubgraphState]:
    """``quantgraph_state("data_fetch")``: see :func:`quantgraph.testing.signal_state`."""
    # gone

    def make(node: Any, **changes: Any) -> SignalSubgraphState:
        return signal_state(node, store=quantgraph_store, **changes)

    return make


@pytest.fixture
def quantgraph_resources(quantgraph_store: DataState) -> Callable[..., OpenResources]:
    """``quantgraph_resources(model=...)``: a node's ``resources``: the sample source and the test's store.

    Options are those of :class:`quantgraph.runtime.Resources`; the default model is the keyless planner.
    """
    from quantgraph.runtime import Resources, open_resources

    def make(**options: Any) -> OpenResources:
        given = {"model": "keyless", "source": "sample", "store": quantgraph_store, **options}
        return open_resources(Resources(**given))

    return make
