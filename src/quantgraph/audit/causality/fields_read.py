"""The fields that a strategy reads: what it is not given it cannot use, and need not be made or moved."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence

import numpy as np

from quantgraph.audit.causality._panel_slices import only_fields, panel_name
from quantgraph.audit.causality.trials import CodeTrials, TrialOutcome
from quantgraph.sandbox.wire import Frames
from quantgraph.state.cut import FieldKey
from quantgraph.state.frames import FrozenFrame

Reads = frozenset[FieldKey] | None
"""Panels and names of fields; None is all."""


def run_again(
    trials: CodeTrials, panel: Frames, is_same: Callable[[FrozenFrame], bool]
) -> tuple[TrialOutcome, Reads]:
    """Run a strategy again, on the fields that its code names if it gives the same signal on those.

    Parameters
    ----------
    panel
        The panel that the strategy ran on before.
    is_same
        Whether a signal is the one that it gave then.

    Returns
    -------
    tuple
        The outcome, and what was read.
    """
    again, reads = _run_on_named(trials, panel, is_same)
    return (again, reads) if again else (trials.whole(panel), None)


def read_part(trials: CodeTrials, panel: Frames, signal: FrozenFrame) -> Frames:
    """The part of a panel on which a strategy gives the signal that it gave on all of it."""
    _, reads = _run_on_named(trials, panel, lambda other: _is_equal(signal, other))
    return panel if reads is None else only_fields(panel, reads)


def _run_on_named(
    trials: CodeTrials, panel: Frames, is_same: Callable[[FrozenFrame], bool]
) -> tuple[TrialOutcome | None, Reads]:
    """The outcome on the fields that the code names, and these; nothing if they do not do.

    Which fields the code names is only a guess: if its signal is another one without the rest, or none, all
    of them count as read. If it is the same, then whatever is proved of the strategy on those fields alone
    holds for the signal that it gave on all.
    """
    named = _fields_named(trials.cells, panel)
    part = only_fields(panel, named)
    if sum(map(len, part.values())) < sum(map(len, panel.values())):
        again = trials.whole(part)
        if again.signal is not None and is_same(again.signal):
            return again, named
    return None, None


def _is_equal(one: FrozenFrame, other: FrozenFrame) -> bool:
    return (
        one.symbols == other.symbols
        and np.array_equal(one.sessions, other.sessions)
        and np.array_equal(one.values, other.values, equal_nan=True)
    )


def _fields_named(cells: Sequence[str], panel: Frames) -> frozenset[FieldKey]:
    """Fields whose names are words of the source; adjusted prices and actions are read from many bars."""
    text = "\n".join(cells)
    words, every_bar = {*re.findall(r"\w+", text)}, "adjusted" in text or "actions" in text
    return frozenset(
        (panel_name(key), name)
        for key, fields in panel.items()
        for name in fields
        if name in words or (every_bar and panel_name(key) == "ohlcv")
    )
