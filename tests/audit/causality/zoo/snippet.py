"""What one specimen is, and the files that hold them."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

__all__ = ["BOTH", "Fires", "Only", "PanelName", "Snippet", "read_snippets"]

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


def read_snippets(name: str) -> tuple[Snippet, ...]:
    """The specimens of a file beside this one: a heading has the name; below it stand why, other values, the cells."""
    text = Path(__file__).with_name(name).read_text(encoding="utf-8")
    found = []
    for part in re.split(r"^### ", text, flags=re.MULTILINE)[1:]:
        head, *cells = re.split(r"^```python\n", part, flags=re.MULTILINE)
        title, told, *_ = head.split("\n\n")
        why, *values = told.splitlines()
        more: dict[str, Any] = dict(line.split(": ") for line in values)
        codes = tuple(cell.split("\n```")[0] + "\n" for cell in cells)
        found.append(Snippet(name=title, cells=codes, why=why, **more))
    return tuple(found)
