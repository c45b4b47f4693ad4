"""The ledger: an append-only journal of runs in a database, and its fills as files.

The names are imported on first use, because :class:`Ledger` loads SQLAlchemy.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from quantgraph.broker.ledger.fills_file import (
        fills_table,
        import_fills,
        read_fills,
        rejections_table,
        write_fills,
        write_rejections,
    )
    from quantgraph.broker.ledger.ledger import CHARGES, Ledger

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

    def __getattr__(name: str) -> Any:
        if name not in __all__:
            raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
        module = "ledger" if name in ("CHARGES", "Ledger") else "fills_file"
        return getattr(import_module(f"{__name__}.{module}"), name)
