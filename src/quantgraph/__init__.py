"""A sentence about a trading strategy becomes an audited signal and trades in a ledger, as LangGraph graphs.

Importing this package loads nothing heavy and has no effects; each name is imported when it is first used.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.agents import SignalRule
    from quantgraph.broker import Decider
    from quantgraph.broker.ledger import Ledger
    from quantgraph.data import MarketDataSource, open_source
    from quantgraph.errors import QuantGraphError
    from quantgraph.graph import create_trading_graph
    from quantgraph.llm import get_llm
    from quantgraph.market import Moment, Rulebook
    from quantgraph.runs import run_strategy
    from quantgraph.state import GLOBAL_DATA_STATE, DataState
    from quantgraph.subgraphs.signal import create_signal_subgraph

    __version__: str

__all__ = [  # noqa: RUF022 - grouped by concept
    # from a sentence
    "create_signal_subgraph",
    "create_trading_graph",
    "run_strategy",
    # data
    "GLOBAL_DATA_STATE",
    "DataState",
    "MarketDataSource",
    "Moment",
    "open_source",
    # trading
    "Decider",
    "Ledger",
    "Rulebook",
    "SignalRule",
    # the rest
    "QuantGraphError",
    "__version__",
    "get_llm",
]

_HOME = {
    "DataState": "quantgraph.state",
    "Decider": "quantgraph.broker",
    "GLOBAL_DATA_STATE": "quantgraph.state",
    "Ledger": "quantgraph.broker.ledger",
    "MarketDataSource": "quantgraph.data",
    "Moment": "quantgraph.market",
    "QuantGraphError": "quantgraph.errors",
    "Rulebook": "quantgraph.market",
    "SignalRule": "quantgraph.agents",
    "create_signal_subgraph": "quantgraph.subgraphs.signal",
    "create_trading_graph": "quantgraph.graph",
    "get_llm": "quantgraph.llm",
    "open_source": "quantgraph.data",
    "run_strategy": "quantgraph.runs",
}


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("quantgraph")
    if name not in _HOME:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return sorted(__all__)
