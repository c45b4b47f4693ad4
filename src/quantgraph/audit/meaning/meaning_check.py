"""The check of a signal against what was said."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

import pandas as pd

from quantgraph.audit.findings import Finding
from quantgraph.audit.meaning.position_comparison import Comparison, Difference, Reading, compare_positions
from quantgraph.audit.meaning.signal_structure import Said, structural_findings

_DECIDED_BY_READING = ("meaning_never_buys", "meaning_never_sells", "meaning_alike")
"""Structural findings that say nothing where the positions were compared."""


def check_meaning(
    signal: pd.DataFrame,
    close: pd.DataFrame,
    said: Said,
    readings: Iterable[Iterable[Reading]] | None = None,
    *,
    first: pd.Timestamp | None = None,
) -> tuple[Finding, ...]:
    """Return how a signal departs from what was said, as warnings; the difference of positions comes first.

    Parameters
    ----------
    signal, close
        Sessions x symbols. NaN in ``close`` is a session without trading.
    readings
        The signals that the words mean, see :func:`.compare_positions`; None if code cannot read them whole.
    first
        First session that counts.
    """
    found = list(structural_findings(signal, close, said, first=first))
    if readings is None:
        return tuple(found)
    compared = compare_positions(signal, close, readings, first=first, state=said.state)
    if compared is None:
        return tuple(found)
    found = [_with_words(each, compared) for each in found if each.code not in _DECIDED_BY_READING]
    difference = compared.difference
    return (*([] if difference is None else [_difference_finding(compared, difference, said)]), *found)


def _with_words(finding: Finding, compared: Comparison) -> Finding:
    if finding.code != "meaning_not_an_event":
        return finding
    return replace(finding, message=f"{finding.message} The words buy on {compared.words_counts[0]} cells.")


def _difference_finding(compared: Comparison, difference: Difference, said: Said) -> Finding:
    session = f"{difference.session:%Y-%m-%d}"
    ours, theirs = ("long", "out") if difference.code_long else ("out", "long")
    (buys, sells), (said_buys, said_sells) = compared.code_counts, compared.words_counts
    waits = said.state and difference.waits and not difference.code_long
    state = " The words say a state, which holds already; the code waits for its beginning." if waits else ""
    quote = f" The words: «{said.sentence}»." if said.sentence else ""
    return Finding(
        severity="warning",
        code="meaning_differs",
        message=(
            f"The code does not do what was said. At {session} {difference.symbol} the code is {ours}, "
            f"the words are {theirs}: {difference.explanation}. The code buys {buys} times and sells "
            f"{sells} times, the words {said_buys} and {said_sells}; {difference.cells} positions "
            f"differ.{state}{quote}"
        ),
        session=session,
        symbol=difference.symbol,
        count=difference.cells,
    )
