"""The causality gate: a signal's row t uses only what was known at t, proved or refuted by running it."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from quantgraph.audit.causality._future_tests import beyond_rounding, other_futures, remembered
from quantgraph.audit.causality._lookahead_hints import code_hints
from quantgraph.audit.causality._minimize import Minimizer
from quantgraph.audit.causality._panel_slices import axes_of, read_panels
from quantgraph.audit.causality._proof_state import ProofState
from quantgraph.audit.causality._signal_comparison import Bools, first_row
from quantgraph.audit.causality._walk_forward import walked
from quantgraph.audit.causality.counterexample import Counterexample
from quantgraph.audit.causality.trials import FunctionTrials, TrialOutcome, Trials
from quantgraph.audit.causality.verdict import MAX_FLIPPED_SHARE, Method, Result, Verdict
from quantgraph.audit.causality.warm_up_length import start_of
from quantgraph.errors import BadOption
from quantgraph.market.moment import PHASES, Phase
from quantgraph.sandbox.wire import Frames

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
    seed: int | None = None,
    whole: TrialOutcome | None = None,
    warm_up: bool = True,
) -> Verdict:
    """Prove that row t of a strategy's signal uses only what is known at t, or show a cell that does not.

    Where every session is proved, the strategy is walked through them, in a process that is sent a session's
    rows when their turn has come, and what it says in each is :attr:`.Verdict.signal`. Elsewhere sessions
    are sampled: the strategy is run up to secret cuts, and on panels with other futures after them. In both
    it is run twice on the whole panel, and from later starts; a function also after it saw a longer panel.

    Comparison is exact. Cells that only rounding turns over are counted and do not fail; a walked signal has
    the value of the walk there, and where sessions are sampled they may be few.

    Parameters
    ----------
    strategy
        Trials, or a function ``panel -> signal``, see :class:`FunctionTrials`.
    panels
        A view, frames by panel and field, or frames by field.
    exhaustive
        Prove every session (True), ``cuts`` of them where a leak would show (False), or every one if that
        takes no more than ``cells``. What is proved does not depend on how fast the machine is.
    cuts, cells
        See ``exhaustive``. Every session of T with N symbols takes the T (T + 1) / 2 * N cells of its
        prefixes, and 10,000 for each run: some 250 sessions of 100 symbols, or 350 of 30, are 6 million.
    lookback
        Declared number of sessions that a row needs; a note says if it is too short.
    decide_at
        Phase of session t at which row t is decided: at ``open`` its close is not known yet.
    seed
        Equal seeds give equal samples: cuts and futures. None draws one, so that no code can know where it
        is looked at; the verdict has it.
    whole
        What the strategy gives on the whole panel, if it is known to give it again; it is not run for it.
    warm_up
        Whether to measure the warm-up.

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
    every = _cells_of(panel) <= cells if exhaustive == "auto" else bool(exhaustive)
    case = ProofState(trials, panel, decide_at, 0 if every else _drawn(seed), whole)
    if whole is None and not _repeats(case):
        return _verdict(case, started, "not_deterministic", every=every)
    verdict = _walked(case, started) if every else _sampled(case, started, cuts)
    if verdict.causal and isinstance(trials, FunctionTrials) and (kept := remembered(case, trials)):
        verdict = _refuted(case, started, kept, every=every)
    if verdict.causal and warm_up:
        with case.trials.series() as run:
            start = start_of(run, case.panel, case.reference, case.nudges)
        verdict = replace(
            verdict, warm_up=start.warm_up, starts=start.starts, evaluations=case.trials.evaluations
        )
    return replace(verdict, lookback=lookback, seconds=time.perf_counter() - started)


def _check_options(exhaustive: object, cuts: int, cells: int, lookback: int | None, decide_at: str) -> None:
    if exhaustive not in (True, False, "auto"):
        raise BadOption(f"exhaustive={exhaustive!r}; it must be True, False or 'auto'")
    if cuts < 1:
        raise BadOption(f"cuts={cuts}; it must be >= 1")
    if cells < 0:
        raise BadOption(f"cells={cells}; it must be >= 0")
    if lookback is not None and lookback < 1:
        raise BadOption(f"lookback={lookback} sessions; it must be >= 1")
    if decide_at not in PHASES:
        raise BadOption(f"decide_at={decide_at!r} is not one of {', '.join(PHASES)}")


def _cells_of(panel: Frames) -> int:
    """What proving every session takes."""
    axes = axes_of(panel)
    total = len(axes.sessions)
    return total * _RUN + total * (total + 1) // 2 * len(axes.symbols)


def _drawn(seed: int | None) -> int:
    return secrets.randbits(32) if seed is None else seed


def _repeats(case: ProofState) -> bool:
    """Whether the strategy gives the same on the whole panel in another process."""
    again = case.trials.whole(case.panel)
    return (
        again.signal is not None and not case.reference.differing(again, len(case.reference.sessions)).any()
    )


def _walked(case: ProofState, started: float) -> Verdict:
    """Every session: what was computed without the future is the signal."""
    with case.trials.series() as run:
        found = walked(case, run)
    if isinstance(found, Counterexample):
        return _refuted(case, started, found, every=True)
    return replace(_verdict(case, started, "causal", every=True), signal=found.frame)


def _sampled(case: ProofState, started: float, cuts: int) -> Verdict:
    """Some sessions: the plainest tests first, until one refutes it."""
    rows, drawn = case.cuts(min(cuts, case.total), case.seed)
    found = _cut_at(case, rows) or other_futures(case)
    if found:
        return _refuted(case, started, found, every=False)
    verdict = replace(_verdict(case, started, "causal", every=False), drawn=drawn)
    if case.refused or verdict.turned > MAX_FLIPPED_SHARE:
        return replace(verdict, result="undecided", refused=case.refused)
    return verdict


def _refuted(case: ProofState, started: float, found: Counterexample, *, every: bool) -> Verdict:
    verdict = _verdict(case, started, "not_causal", every=every)
    return replace(verdict, counterexample=replace(found, places=code_hints(case.trials.cells)))


def _verdict(case: ProofState, started: float, result: Result, *, every: bool) -> Verdict:
    method: Method = "walked" if every else "sampled"
    return Verdict(
        result=result,
        sessions=case.total,
        proved=len(case.proved),
        method=method,
        sealed=case.trials.sealed,
        seed=None if every else case.seed,
        corruptions=dict(case.tried),
        evaluations=case.trials.evaluations,
        near_threshold=int(np.count_nonzero(case.near)),
        turned=case.turned_share,
        seconds=time.perf_counter() - started,
    )


def _cut_at(case: ProofState, rows: Sequence[int]) -> Counterexample | None:
    """Prefixes of the panel up to ascending rows: narrow down the first difference."""
    hit = _first_difference(case, rows)
    if hit is None:
        return None
    # An earlier session may show it too, those with an opinion first of all.
    earliest = case.reference.sessions[first_row(hit[0])]
    before = min(int(np.searchsorted(case.axes.sessions, earliest)), hit[1])
    told = np.asarray(case.reference.opinions.any(axis=1))
    open_rows = [row for row in range(before) if row not in case.proved]
    likely = [row for row in open_rows if told[case.rows_to(row) - 1]] or open_rows
    better = _first_difference(case, likely[:: 1 + len(likely) // _EARLIER])
    with case.trials.series() as run:
        return Minimizer(run, case.panel, case.reference, case.phase).truncation(*(better or hit))


def _first_difference(case: ProofState, rows: Sequence[int]) -> tuple[Bools, int] | None:
    """The first row after which a cut changes known cells, and which; rows before it are proved.

    None is any more once the strategy has failed on another future.
    """
    walk = case.trials.walk(case.panel, [case.moment(row) for row in rows])
    for row, outcome in zip(rows, walk, strict=True):
        rows_known = case.rows_to(row)
        case.last[rows_known - 1] = True
        # Where it failed, nothing is said of its own session; what was said in those before stands.
        first = rows_known - 1 if outcome.signal is None else 0
        differing = case.reference.differing(outcome, rows_known, first)
        if differing.any():
            theirs = case.reference.of(outcome)
            beyond = beyond_rounding(case, differing, theirs, row, trust_nudges=False)
            if beyond.any():
                return beyond, row
        if not case.refused:
            case.proved.add(row)
    return None
