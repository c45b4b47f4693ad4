"""The ledger: an append-only journal of runs in a database, and its fills as files.

The names are imported on first use, because :class:`Ledger` loads SQLAlchemy.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker.ledger.fills_file import import_fills, read_fills, write_fills, write_rejections
    from quantgraph.broker.ledger.ledger import CHARGES, Ledger
    from quantgraph.broker.ledger.ledger_frames import fills_table, rejections_table

__all__ = [
    "CHARGES",
    "Ledger",
    "fills_table",
    "import_fills",
    "read_fills",
    "rejections_table",
    "write_fills",
    "write_rejections",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__ = lazy_names(
        __name__,
        {
            "fills_file": ("import_fills", "read_fills", "write_fills", "write_rejections"),
            "ledger": ("CHARGES", "Ledger"),
            "ledger_frames": ("fills_table", "rejections_table"),
        },
    )
