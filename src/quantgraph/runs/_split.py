"""A strategy that is made and checked with what was known before a date, and traded on both sides of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

from quantgraph._util.files import new_run_id
from quantgraph.broker import TradePlan
from quantgraph.data import AsOfSource, MarketDataSource
from quantgraph.errors import BadOption
from quantgraph.market import Moment, session_of
from quantgraph.runs._result import RunResult
from quantgraph.runs._specification import RunSpec
from quantgraph.runtime import Resources
from quantgraph.subgraphs.signal import words_in


def first_part(
    spec: RunSpec, folder: Path, resources: Resources, market: MarketDataSource
) -> tuple[RunSpec, Path, Resources]:
    """What makes the signal in a run of its own beside ``folder``: no later row is in its source.

    Raises
    ------
    BadOption
        If the source has no session before the date, or none from it on.
    """
    span, split = market.sessions(), session_of(spec.split, name="split")
    if not span[0] < split <= span[-1]:
        raise BadOption(
            f"split={spec.split} is not within the sessions of {market.name}, "
            f"{span[0]:%Y%m%d} - {span[-1]:%Y%m%d}",
            parameter="split",
        )
    read = words_in(spec.question, market).read
    start = spec.start or (read.start if read else "")
    if start and session_of(start) >= split:
        raise BadOption(
            f"split={spec.split} is not within the window, which begins on {start}", parameter="split"
        )
    last = span[span < split][-1]
    early = replace(spec, end=f"{last:%Y%m%d}", split="", trade=False, approve=False)
    return early, folder.parent / new_run_id(), replace(resources, source=AsOfSource(market, Moment(last)))


def second_part(spec: RunSpec, made: RunResult) -> tuple[RunSpec, Path]:
    """The specification of the whole window, and the strategy that the first part made."""
    understood = made["understanding"]
    said = understood["plan"] | (spec.plan.to_json() if spec.plan else {})
    whole = replace(
        spec,
        question="",
        symbols=tuple(understood["trade"]),
        start=made["window"]["start"],
        plan=TradePlan.of(said),
        confirm=False,
    )
    return whole, made.folder / "strategy.py"
