"""More evidence on a finished run: how placebos of its rule do, and how much of the market it took.

``evidence`` trades again from the run's folder, without a model, and writes ``evidence.json`` into it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.evidence._evidence import EVIDENCE_FILE, Evidence, evidence
    from quantgraph.evidence._placebos import Placebos
    from quantgraph.evidence._room import Room

__all__ = ["EVIDENCE_FILE", "Evidence", "Placebos", "Room", "evidence"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
