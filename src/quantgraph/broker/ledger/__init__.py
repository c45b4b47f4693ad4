"""The append-only journal of runs: orders, fills, rejections, values and logged steps, exactly once.

``Ledger`` is SQLite in a file or PostgreSQL. A day is never written in part; cash, positions and value are
derived from its lines, and a forged or missing line is found when they are read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker.ledger._files import (
        IMPORTED,
        Opening,
        import_fills,
        imported_sessions,
        write_fills,
        write_rejections,
    )
    from quantgraph.broker.ledger._frames import OrderTable, fills_frame, orders_frame
    from quantgraph.broker.ledger._journal import CHARGES
    from quantgraph.broker.ledger._ledger import Ledger
    from quantgraph.broker.ledger._steps import LoggedExecution, LoggedStep

__all__ = [
    "CHARGES",
    "IMPORTED",
    "Ledger",
    "LoggedExecution",
    "LoggedStep",
    "Opening",
    "OrderTable",
    "fills_frame",
    "import_fills",
    "imported_sessions",
    "orders_frame",
    "write_fills",
    "write_rejections",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
