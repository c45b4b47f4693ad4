"""What one specimen is."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["BOTH", "Fires", "Only", "PanelName", "Snippet"]

PanelName = Literal["sse50", "sample"]
"""The SSE 50's real bars of 2025, 200 sessions, and the embedded sample market's 727 with indicators."""

Fires = Literal["dense", "sparse", "once"]
Only = Literal["exhaustive", ""]

BOTH: tuple[PanelName, ...] = ("sse50", "sample")


@dataclass(frozen=True, kw_only=True)
class Snippet:
    """A strategy as a language model writes it.

    Attributes
    ----------
    name
        Unique among all snippets, also the name of the signal it hands over.
    cells
        Code in the order it was run in. In scope are ``pd``, ``np``, ``GLOBAL_DATA_STATE`` and ``snapshot``.
    why
        Leaky: what the row uses that came later. Honest: why it uses nothing later, though it may look so.
    fires
        How often a leak shows, by the share of sessions after which the data may be cut so that a known row
        changes: ``dense`` at least a fifth on each panel, ``sparse`` fewer, ``once`` at most two cuts a year.
    only
        ``exhaustive`` if only a check of every session is sure to see it, empty otherwise.
    panels
        Data sets on which a leak changes what is traded.
    """

    name: str
    cells: tuple[str, ...]
    why: str
    fires: Fires = "dense"
    only: Only = ""
    panels: tuple[PanelName, ...] = BOTH
