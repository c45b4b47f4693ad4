"""The causality check: it runs a strategy to prove or refute that row t uses only what was known at t."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from dataclasses import replace
from typing import Any, get_args

import numpy as np

from quantgraph.audit.causality._counterexample import Counterexample, code_hints
from quantgraph.audit.causality._first_run import FirstRun, LookLog, SessionsProved, run_first
from quantgraph.audit.causality._proofs import ProofState, sampled_proof, walked_proof
from quantgraph.audit.causality._trials import BuiltTrials, FunctionTrials, Reads, Trials, read_panels
from quantgraph.audit.causality._verdict import MAX_FLIPPED_SHARE, Result, Verdict
from quantgraph.audit.causality._warm_up import measure_start
from quantgraph.errors import BadOption
from quantgraph.market import PHASES, Phase
from quantgraph.state.frames import MADE


def check_causality(
    strategy: Trials | Callable[[Any], Any],
    panels: object,
    *,
    prove: SessionsProved = "auto",
    cuts: int = 40,
    lookback: int | None = None,
    decide_at: Phase = "post_close",
    seed: int | None = None,
    reads: Reads = None,
    looks: LookLog | None = None,
    walked: FirstRun | None = None,
    warm_up: bool = True,
) -> Verdict:
    """Prove that row t of a strategy's signal uses only what is known at t, or show a cell that does not.

    First the strategy runs session by session, in a process that receives a session's rows when their
    turn has come, and before it has run on anything later. :attr:`.Verdict.signal` is what it computed in
    each. Then it runs on the whole panel and, if sessions are sampled, on panels with alternative futures:
    that explains and refutes, and changes nothing in the signal.

    The comparison is exact. Cells that only rounding flips are counted and do not fail; in a sampled proof
    they must be few.

    Parameters
    ----------
    strategy
        Trials, or a function ``panel -> signal``, see :class:`FunctionTrials`.
    panels
        A view, frames by panel and field, or frames by field.
    prove
        ``all`` proves every session; ``sampled`` proves ``cuts`` of them, where a leak would show; ``auto``
        proves all if sessions squared x symbols x fields are at most 6e9.
    cuts
        See ``prove``.
    lookback
        Declared number of sessions that a row needs; the verdict has a note if it is too short.
    decide_at
        Phase of session t at which row t is decided: at ``open`` its close is not known yet.
    seed
        Equal seeds give equal cuts and futures. None draws one, so that no code can know where it is tested;
        the verdict has it.
    reads
        Panels and names of the fields that the strategy receives beside the closes, in all runs. Default:
        all. See :func:`.fields_read`.
    looks
        Counts the looks at these rows on this machine; None does not.
    walked
        A first run that was made before, with the same strategy and panels; else it begins here.
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
    _check_options(prove, cuts, lookback, decide_at)
    started = time.perf_counter()
    trials = strategy if isinstance(strategy, Trials) else FunctionTrials(strategy)
    # An older signal in the panel may itself know the future, and so may its prefix.
    panel = {name: fields for name, fields in read_panels(panels).items() if name not in MADE}
    if walked is None:
        seed = secrets.randbits(32) if seed is None else seed
        options: Any = {"prove": prove, "cuts": cuts, "seed": seed, "decide_at": decide_at}
        walked = run_first(trials, panel, reads=reads, looks=looks, **options)
    if isinstance(trials, BuiltTrials):
        total = len(walked.axes.sessions)
        built = Verdict(
            result="causal", sessions=total, proved=total, method="construction", signal=walked.signal.frame
        )
        return replace(built, lookback=lookback, seconds=time.perf_counter() - started)
    state = ProofState(trials, panel, decide_at, walked.seed or 0, walked)
    verdict = _judge(state, cuts)
    if verdict.causal and warm_up:
        start = measure_start(trials, state.run_each, state.panel, state.reference, state.perturbations)
        verdict = replace(verdict, warm_up=start.warm_up, later_starts=start.later_starts)
    return replace(verdict, lookback=lookback, seconds=time.perf_counter() - started)


def _check_options(prove: object, cuts: int, lookback: int | None, decide_at: str) -> None:
    if prove not in get_args(SessionsProved):
        raise BadOption(f"prove={prove!r}; it must be one of {', '.join(get_args(SessionsProved))}")
    if cuts < 1:
        raise BadOption(f"cuts={cuts}; it must be >= 1")
    if lookback is not None and lookback < 1:
        raise BadOption(f"lookback={lookback} sessions; it must be >= 1")
    if decide_at not in PHASES:
        raise BadOption(f"decide_at={decide_at!r} is not one of {', '.join(PHASES)}")


def _judge(state: ProofState, cuts: int) -> Verdict:
    """Compare what was walked with runs that know more."""
    first = state.first
    found = walked_proof(state) if first.is_whole else sampled_proof(state, min(cuts, state.total))
    if found is not None:
        return _refutation(state, found) if state.is_reproducible() else _verdict(state, "not_deterministic")
    if first.error:
        return replace(_verdict(state, "undecided"), first_error=first.error)
    verdict = _verdict(state, "causal")
    if not first.is_whole:
        verdict = replace(verdict, random_cuts=len(first.rows))
        if state.future_error or verdict.flipped_share > MAX_FLIPPED_SHARE:
            return replace(verdict, result="undecided", future_error=state.future_error)
    return replace(verdict, signal=first.traded(state.whole.signal).frame)


def _refutation(state: ProofState, found: Counterexample) -> Verdict:
    verdict = _verdict(state, "not_causal")
    hints = code_hints(getattr(state.trials, "cells", ()))
    return replace(verdict, counterexample=replace(found, hints=hints))


def _verdict(state: ProofState, result: Result) -> Verdict:
    return Verdict(
        result=result,
        sessions=state.total,
        proved=len(state.proved),
        method="walked" if state.first.is_whole else "sampled",
        isolated=state.trials.isolated,
        seed=state.first.seed,
        earlier_looks=state.first.earlier_looks,
        alternative_futures=dict(state.alternative_futures),
        near_threshold=int(np.count_nonzero(state.near_threshold)),
        flipped_share=state.flipped_share,
    )
