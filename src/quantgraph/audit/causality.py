"""The causality gate: a signal's row t uses only what was known at t, proved or refuted by running it."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Literal

import numpy as np

from quantgraph.audit._case import Case, Longer
from quantgraph.audit._compare import Bools, first_row
from quantgraph.audit._futures import other_futures, remembered
from quantgraph.audit._shrink import Finder
from quantgraph.audit._slices import prefix, read_panels
from quantgraph.audit._suspects import places
from quantgraph.audit.counterexample import Counterexample
from quantgraph.audit.start import start_of
from quantgraph.audit.trials import CodeTrials, FunctionTrials, Run, Trials
from quantgraph.audit.verdict import Method, Result, Verdict
from quantgraph.errors import BadOption
from quantgraph.market.moment import PHASES, Phase

__all__ = ["check_causality"]

_EARLIER = 48
_RUN = 10_000
"""Cells that the run of a prefix takes beside its own: some milliseconds."""


def check_causality(
    strategy: Trials | Callable[[Any], Any],
    panels: object,
    *,
    exhaustive: bool | Literal["auto"] = "auto",
    cuts: int = 40,
    cells: int = 6_000_000,
    lookback: int | None = None,
    decide_at: Phase = "post_close",
    seed: int = 0,
) -> Verdict:
    """Prove that row t of a strategy's signal uses only what is known at t, or show a cell that does not.

    The strategy is run twice on the whole panel, on prefixes of it (every cell that both signals have must
    be equal), on panels with other futures, and from later starts; a function also after it saw a longer
    panel. Comparison is exact. Where a panel has another length, cells that only rounding turns over, and
    other futures of one length do not, are counted and do not fail.

    Parameters
    ----------
    strategy
        Trials, or a function ``panel -> signal``, see :class:`FunctionTrials`.
    panels
        A view, frames by panel and field, or frames by field.
    exhaustive
        Prove every session (True), ``cuts`` of them where a leak would show (False), or every one if that
        takes no more than ``cells``. What is proved is no matter of how fast the machine is.
    cuts, cells
        See ``exhaustive``. Every session of T with N symbols takes the T (T + 1) / 2 * N cells of its
        prefixes, and 10,000 for each run: some 250 sessions of 100 symbols, or 350 of 30, are 6 million.
    lookback
        Declared number of sessions that a row needs; a note says if it is too short.
    decide_at
        Phase of session t at which row t is decided: at ``open`` its close is not known yet.
    seed
        Equal seeds give equal cuts and futures.

    Raises
    ------
    BadOption
        If an option is out of its range.
    BadFrame
        If the panels cannot be read.
    CodeFailed
        If the strategy fails on the whole panel, or takes too long or too much memory on a part.
    """
    _check_options(exhaustive, cuts, cells, lookback, decide_at)
    started = time.perf_counter()
    trials = strategy if isinstance(strategy, Trials) else FunctionTrials(strategy)
    # An older signal in the panel may itself know the future, and a prefix of it as well.
    panel = {name: fields for name, fields in read_panels(panels).items() if name != "signal"}
    case = Case(trials, panel, decide_at, seed)
    every = _cells_of(case) <= cells if exhaustive == "auto" else bool(exhaustive)
    verdict = _judged(case, trials, cuts, every=every)
    if verdict.causal:
        with case.trials.series() as run:
            start = start_of(run, case.panel, case.reference)
        verdict = replace(
            verdict, warm_up=start.warm_up, starts=start.starts, evaluations=case.trials.evaluations
        )
    return replace(verdict, lookback=lookback, seconds=time.perf_counter() - started)


def _check_options(exhaustive: object, cuts: int, cells: int, lookback: int | None, decide_at: str) -> None:
    if exhaustive not in (True, False, "auto"):
        raise BadOption(f"exhaustive={exhaustive!r}; True, False or 'auto' is wanted")
    if cuts < 1:
        raise BadOption(f"cuts={cuts}; at least 1 is wanted")
    if cells < 0:
        raise BadOption(f"cells={cells}; 0 or more is wanted")
    if lookback is not None and lookback < 1:
        raise BadOption(f"lookback={lookback} sessions; at least 1 is wanted")
    if decide_at not in PHASES:
        raise BadOption(f"decide_at={decide_at!r} is not one of {', '.join(PHASES)}")


def _cells_of(case: Case) -> int:
    """What proving every session takes."""
    symbols = int(case.reference.values.shape[1])
    total = case.total
    return case.total * _RUN + total * (total + 1) // 2 * symbols


def _judged(case: Case, trials: Trials, cuts: int, *, every: bool) -> Verdict:
    """Run the tests, the plainest first, until one refutes it."""
    told = partial(_told, case, "exhaustive" if every else "aimed")
    again = case.trials.whole(case.panel)
    if again.signal is None or case.reference.differing(again, len(case.reference.sessions)).any():
        return told("not_deterministic")
    rows = range(case.total) if every else case.aimed(min(cuts, case.total), case.seed)
    with case.trials.series() as run:
        found = _cut_at(case, run, rows)
    if not found:
        found = other_futures(case)
    if not found and not case.tried:  # the code fails on every other future: then no session is left out
        with case.trials.series() as run:
            found = _cut_at(case, run, [row for row in range(case.total) if row not in case.proved])
    if not found and isinstance(trials, FunctionTrials):
        found = remembered(case, trials)
    if not found:
        return told("causal")
    source = trials.cells if isinstance(trials, CodeTrials | FunctionTrials) else ()
    return told("not_causal", replace(found, places=places(source)))


def _told(
    case: Case, method: Method, result: Result, counterexample: Counterexample | None = None
) -> Verdict:
    return Verdict(
        result=result,
        sessions=case.total,
        proved=len(case.proved),
        method=method,
        corruptions=dict(case.tried),
        evaluations=case.trials.evaluations,
        counterexample=counterexample,
        near_threshold=int(np.count_nonzero(case.hair)),
    )


def _cut_at(case: Case, run: Run, rows: Sequence[int]) -> Counterexample | None:
    """Prefixes of the panel up to ascending rows: narrow down the first difference."""
    hit = _first_difference(case, run, rows)
    if hit is None:
        return None
    # An earlier session may show it too, those with an opinion first of all.
    earliest = case.reference.sessions[first_row(hit[0])]
    before = min(int(np.searchsorted(case.axes.sessions, earliest)), hit[1])
    told = np.asarray(case.reference.opinions.any(axis=1))
    open_rows = [row for row in range(before) if row not in case.proved]
    likely = [row for row in open_rows if told[case.rows_to(row) - 1]] or open_rows
    better = _first_difference(case, run, likely[:: 1 + len(likely) // _EARLIER])
    finder = Finder(run, case.panel, case.reference, case.phase)
    return finder.truncation(*(better or hit))


def _first_difference(case: Case, run: Run, rows: Sequence[int]) -> tuple[Bools, int] | None:
    """The first row after which a cut changes known cells, and which; rows before it are proved."""
    whole = Longer(panel=case.panel, reference=case.reference)
    walk = case.trials.walk(case.panel, [case.moment(row) for row in rows])
    for row, outcome in zip(rows, walk, strict=True):
        differing, settled = case.reference.differing(outcome, case.rows_to(row)), True
        if differing.any() and outcome.signal is not None:
            ours, short = case.reference.of(outcome), prefix(case.panel, case.moment(row))
            differing, settled = case.beyond_rounding(
                differing, ours, run, row=row, short=short, longer=whole
            )
        if differing.any():
            return differing, row
        if settled:
            case.proved.add(row)
    return None
