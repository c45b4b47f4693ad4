"""Daily bars from a folder in qlib's binary format, read with numpy; qlib itself is not needed."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.data.qlib._source import QlibSource, open_qlib

__all__ = ["QlibSource", "open_qlib"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
