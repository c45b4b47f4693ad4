"""AI-Trader: its configuration, its ``BaseAgent`` and its ledgers ``position.jsonl`` and ``log.jsonl``.

``BaseAgent`` runs a configuration as runs of this package and writes AI-Trader's files. ``verify_positions``
replays a ledger against prices and rules and says which line does not hold.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.integrations.ai_trader._base_agent import TRADER_QUESTION, BaseAgent
    from quantgraph.integrations.ai_trader._config import TraderConfig, TraderModel, read_trader_config
    from quantgraph.integrations.ai_trader._replay import (
        Verification,
        export_positions,
        positions_of_results,
        verify_positions,
    )
    from quantgraph.integrations.ai_trader._trades import import_positions, write_positions

__all__ = [
    "TRADER_QUESTION",
    "BaseAgent",
    "TraderConfig",
    "TraderModel",
    "Verification",
    "export_positions",
    "import_positions",
    "positions_of_results",
    "read_trader_config",
    "verify_positions",
    "write_positions",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
