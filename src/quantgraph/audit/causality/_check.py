"""The causality check: it runs a strategy to prove or refute that row t uses only what was known at t."""

from __future__ import annotations

import math
import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, Literal

import numpy as np

from quantgraph.audit.causality._comparison import Reads
from quantgraph.audit.causality._counterexample import Counterexample, code_hints
from quantgraph.audit.causality._proofs import memory_test, prefix_proof, runs_of_samples, sampled_proof
from quantgraph.audit.causality._state import ProofState
from quantgraph.audit.causality._trials import FunctionTrials, TrialOutcome, Trials, read_panels
from quantgraph.audit.causality._verdict import MAX_FLIPPED_SHARE, Result, Verdict
from quantgraph.audit.causality._warm_up import measure_start
from quantgraph.errors import BadOption
from quantgraph.market import PHASES, Phase

_CERTAIN = 4.0
"""A full proof is not begun if its estimate, sessions x half a whole run, is so many times the limit."""


def check_causality(
    strategy: Trials | Callable[[Any], Any],
    panels: object,
    *,
    exhaustive: bool | Literal["auto"] = "auto",
    cuts: int = 40,
    seconds: float = 15.0,
    lookback: int | None = None,
    decide_at: Phase = "post_close",
    seed: int | None = None,
    whole: TrialOutcome | None = None,
    reads: Reads = None,
    warm_up: bool = True,
) -> Verdict:
    """Prove that row t of a strategy's signal uses only what is known at t, or show a cell that does not.

    If every session is proved, the strategy walks through them in a process that receives a session's rows
    when their turn has come; :attr:`.Verdict.signal` is what it computed in each. Otherwise sessions are
    sampled: the strategy runs up to secret cuts, and on panels with alternative futures after cuts. In both
    cases it runs twice on the whole panel, and from later starts; a function also after a longer panel.

    The comparison is exact. Cells that only rounding flips are counted and do not fail; a walked signal has
    the walked value there, and in a sampled one they must be few.

    Parameters
    ----------
    strategy
        Trials, or a function ``panel -> signal``, see :class:`FunctionTrials`.
    panels
        A view, frames by panel and field, or frames by field.
    exhaustive
        True proves every session; False proves ``cuts`` of them, where a leak would show; ``auto`` proves all
        if the proof through them is expected, from its first steps, to take at most ``seconds``. A slower
        machine samples more panels; the verdict says what was done.
    cuts, seconds
        See ``exhaustive``.
    lookback
        Declared number of sessions that a row needs; the verdict has a note if it is too short.
    decide_at
        Phase of session t at which row t is decided: at ``open`` its close is not known yet.
    seed
        Equal seeds give equal cuts and futures. None draws one, so that no code can know where it is tested;
        the verdict has it.
    whole
        Outcome on the whole panel, if it is known to be reproducible; the strategy is not run for it then.
    reads
        Panels and names of the fields that the strategy receives beside the closes, in all runs; ``whole``
        must be of those. Default: all. See :func:`.run_again`.
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
    _check_options(exhaustive, cuts, seconds, lookback, decide_at)
    started = time.perf_counter()
    trials = strategy if isinstance(strategy, Trials) else FunctionTrials(strategy)
    # An older signal in the panel may itself know the future, and so may its prefix.
    panel = {name: fields for name, fields in read_panels(panels).items() if name != "signal"}
    limit = seconds if exhaustive == "auto" else math.inf if exhaustive else 0.0
    state = ProofState(trials, panel, decide_at, 0, whole=whole, reads=reads)
    if whole is None and not _is_reproducible(state):
        verdict: Verdict | None = _verdict(state, "not_deterministic", walked=limit > 0)
    else:
        runs = state.trials.evaluations
        verdict = _full_verdict(state, limit)
    if verdict is None:
        seed = secrets.randbits(32) if seed is None else seed
        state = ProofState(trials, panel, decide_at, seed, whole=state.whole, reads=reads)
        state.trials.evaluations = runs
        verdict = _sampled_verdict(state, cuts)
    if verdict.causal and isinstance(trials, FunctionTrials) and (found := memory_test(state, trials)):
        verdict = _refutation(state, found, walked=verdict.method == "walked")
    if verdict.causal and warm_up:
        start = measure_start(state.trials.one_by_one, state.panel, state.reference, state.perturbations)
        verdict = replace(
            verdict,
            warm_up=start.warm_up,
            later_starts=start.later_starts,
            evaluations=state.trials.evaluations,
        )
    return replace(verdict, lookback=lookback, seconds=time.perf_counter() - started)


def planned_runs(sessions: int, cuts: int) -> int:
    """How often a sampled proof runs a strategy that is causal, without the warm-up."""
    return runs_of_samples(min(cuts, sessions))


def _check_options(
    exhaustive: object, cuts: int, seconds: float, lookback: int | None, decide_at: str
) -> None:
    if exhaustive not in (True, False, "auto"):
        raise BadOption(f"exhaustive={exhaustive!r}; it must be True, False or 'auto'")
    if cuts < 1:
        raise BadOption(f"cuts={cuts}; it must be >= 1")
    if not seconds >= 0:
        raise BadOption(f"seconds={seconds}; it must be >= 0")
    if lookback is not None and lookback < 1:
        raise BadOption(f"lookback={lookback} sessions; it must be >= 1")
    if decide_at not in PHASES:
        raise BadOption(f"decide_at={decide_at!r} is not one of {', '.join(PHASES)}")


def _is_reproducible(state: ProofState) -> bool:
    """Whether the strategy gives the same signal on the whole panel in another process."""
    again = state.trials.whole(state.panel)
    rows = len(state.reference.sessions)
    return again.signal is not None and not state.reference.differing(again, rows).any()


def _full_verdict(state: ProofState, seconds: float) -> Verdict | None:
    """The verdict of a proof of every session; None if it would take longer."""
    if not seconds or state.total * state.whole.seconds / 2 > _CERTAIN * seconds:
        return None
    found = prefix_proof(state, seconds)
    if found is None:
        return None
    if isinstance(found, Counterexample):
        return _refutation(state, found, walked=True)
    return replace(_verdict(state, "causal", walked=True), signal=found.frame)


def _sampled_verdict(state: ProofState, cuts: int) -> Verdict:
    rows, random = state.cuts(min(cuts, state.total))
    found = sampled_proof(state, rows)
    if found:
        return _refutation(state, found, walked=False)
    verdict = replace(_verdict(state, "causal", walked=False), random_cuts=random)
    if state.future_error or verdict.flipped_share > MAX_FLIPPED_SHARE:
        return replace(verdict, result="undecided", future_error=state.future_error)
    return verdict


def _refutation(state: ProofState, found: Counterexample, *, walked: bool) -> Verdict:
    verdict = _verdict(state, "not_causal", walked=walked)
    return replace(verdict, counterexample=replace(found, hints=code_hints(state.trials.cells)))


def _verdict(state: ProofState, result: Result, *, walked: bool) -> Verdict:
    return Verdict(
        result=result,
        sessions=state.total,
        proved=len(state.proved),
        method="walked" if walked else "sampled",
        isolated=state.trials.isolated,
        seed=None if walked else state.seed,
        alternative_futures=dict(state.alternative_futures),
        evaluations=state.trials.evaluations,
        near_threshold=int(np.count_nonzero(state.near_threshold)),
        flipped_share=state.flipped_share,
    )
