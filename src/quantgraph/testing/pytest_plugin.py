"""Fixtures for projects that build on quantgraph; pytest finds them once quantgraph is installed.

A node is tested in three lines::

    def test_my_fetch(quantgraph_state, quantgraph_resources):
        update = my_fetch_node(quantgraph_state("data_fetch"), resources=quantgraph_resources())
        assert update["data_ready"]

Importing this module loads pytest only; the fixtures import the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from quantgraph.runtime import OpenResources
    from quantgraph.state import DataState
    from quantgraph.subgraphs.signal import SignalSubgraphState
    from quantgraph.testing._openai import OpenAIStub
    from quantgraph.testing._scripted import ScriptedChatModel


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
def quantgraph_store() -> DataState:
    """New data state with two months of three sample stocks."""
    from quantgraph.testing import sample_store

    return sample_store()


@pytest.fixture
def quantgraph_state(quantgraph_store: DataState) -> Callable[..., SignalSubgraphState]:
    """``quantgraph_state("data_fetch")``: see :func:`quantgraph.testing.signal_state`."""
    from quantgraph.testing import signal_state

    def make(node: Any, **changes: Any) -> SignalSubgraphState:
        return signal_state(node, store=quantgraph_store, **changes)

    return make


@pytest.fixture
def quantgraph_resources(quantgraph_store: DataState) -> Callable[..., OpenResources]:
    """``quantgraph_resources(model=...)``: a node's ``resources``: the sample source and the test's store.

    For the options see :class:`quantgraph.runtime.Resources`; the default model is the keyless planner.
    """
    from quantgraph.runtime import Resources, open_resources

    def make(**options: Any) -> OpenResources:
        options = {"model": "keyless", "source": "sample", "store": quantgraph_store, **options}
        return open_resources(Resources(**options))

    return make
