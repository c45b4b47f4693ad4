"""A sentence about a trading strategy becomes an audited signal and trades in a ledger, as LangGraph graphs.

Importing this package loads nothing heavy and has no effects; each name is imported when it is first used.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from quantgraph._util.lazy_names import lazy_names

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

_public_name, _ = lazy_names(__name__, __file__)


def __getattr__(name: str) -> Any:
    if name == "__version__":
        from importlib.metadata import version

        return version("quantgraph")
    return _public_name(name)


def __dir__() -> list[str]:
    return sorted(__all__)
