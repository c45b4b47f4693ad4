"""One verdict of a closed set, by the first rule of a list that holds."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

import pandas as pd

from quantgraph._util.texts import table_beside
from quantgraph.judgement._card import JudgedRun, card
from quantgraph.judgement._tries import Tries
from quantgraph.market import sessions_in_a_year

_A_YEAR = 0.95
"""Exchanges are open on so many of the sessions that make a year, or more."""
_LOST = -0.999999
_WEAK, _SOME, _STRONG = 0.975, 0.99, 0.999
"""Least deflated probabilistic ratios of the difference."""


@dataclass(frozen=True, kw_only=True)
class Circumstances:
    """What is known of a run beside its account.

    ``questions`` are those that the data leave open; ``proof`` is ``all``, ``sampled`` or, without one,
    empty; ``split`` is a date whose two sides are compared; ``limits`` are what it cannot tell, by name,
    with what fills their words. Texts are in both languages, by ``zh`` and ``en``.
    """

    synthetic: bool = False
    questions: Sequence[Mapping[str, str]] = ()
    proof: str = ""
    split: str = ""
    limits: Mapping[str, Mapping[str, str]] = field(default_factory=dict)


def judge(
    run: JudgedRun, against: pd.Series[float], tries: Tries, circumstances: Circumstances
) -> dict[str, Any]:
    """The verdict of a run and its card, as plain JSON.

    Parameters
    ----------
    against
        The values of the benchmark, the initial cash first, of the same sessions.

    Returns
    -------
    dict
        ``verdict``, one of :data:`VERDICTS`; ``limits``, what the run cannot tell; and the card.
        ``sessions``, ``periods`` of a year, and whether they are ``short`` of one. ``net``: ``return``, its
        mean ``exposure``, the return of the ``same_exposure`` held in the benchmark. ``difference`` of yearly
        means: ``value``, ``low``, ``high``, the ``smallest`` that such a run shows in four of five cases.
        ``sharpe`` and, of the difference, ``excess``, both yearly, with their ``probabilistic`` and
        ``deflated`` ratios. ``power`` to find a ratio of 1, ``years_needed``, ``tries``, ``shares`` of the
        gain, returns of ``delays`` and at multiples of ``costs``. Fractions; None where one is not defined.
    """
    sessions = pd.DatetimeIndex(run.days.index)
    numbers = card(run, against, tries=tries, periods=sessions_in_a_year(sessions), split=circumstances.split)
    realised, dividends = (float(run.days[name].sum()) for name in ("realised", "dividends"))
    numbers |= {
        "short": numbers["sessions"] < _A_YEAR * numbers["periods"],
        "trades": int(run.days["fills"].sum()),
        "closed": int(run.round_trips["round_trips"]),
        "open_gain": numbers["gain"] - realised - dividends,
        "synthetic": circumstances.synthetic,
        "questions": [*circumstances.questions],
        "proof": circumstances.proof,
        "limits": dict(circumstances.limits),
    }
    return {"verdict": next(name for name, holds in _RULES if holds(numbers)), **numbers}


def _reaches(least: float) -> Callable[[Mapping[str, Any]], bool]:
    """Whether the difference is above 0 with its interval, and so improbable after the tries."""

    def holds(numbers: Mapping[str, Any]) -> bool:
        found, excess = numbers["difference"], numbers["excess"]
        return bool(
            found and (found["low"] or 0.0) > 0 and excess["deflated"] and excess["deflated"] >= least
        )

    return holds


def _survives(numbers: Mapping[str, Any]) -> bool:
    """Whether half of what it earns beyond the same exposure is left a session later, and at double costs.

    Of a run that was split, it earns something after the date, too.
    """
    gone = [
        math.log1p(max(each if each is not None else -1.0, _LOST))
        for each in (
            numbers["net"]["same_exposure"],
            numbers["net"]["return"],
            numbers["delays"]["1"],
            numbers["costs"]["2"],
        )
    ]
    same, net, late, costly = gone
    if (split := numbers["split"]) and not split["after"]["difference"] > 0:
        return False
    return min(late, costly) - same >= (net - same) / 2


_RULES: tuple[tuple[str, Callable[[Mapping[str, Any]], bool]], ...] = (
    ("never traded", lambda numbers: not numbers["trades"]),
    ("synthetic data", lambda numbers: numbers["synthetic"]),
    ("data questions open", lambda numbers: bool(numbers["questions"])),
    ("too short", lambda numbers: numbers["short"]),
    ("sampled proof", lambda numbers: numbers["proof"] == "sampled"),
    ("one position", lambda numbers: numbers["opened"] <= 1),
    (
        "gain is from open positions",
        lambda numbers: numbers["gain"] > 0 and numbers["gain"] <= numbers["open_gain"],
    ),
    ("strong", lambda numbers: _reaches(_STRONG)(numbers) and _survives(numbers)),
    ("some", lambda numbers: _reaches(_SOME)(numbers) and _survives(numbers)),
    ("weak", _reaches(_WEAK)),
    ("no evidence", lambda _: True),
)


VERDICTS: Final = tuple(name for name, _ in _RULES)
"""Every verdict: the first seven say why there can be none. A run has the first whose rule holds."""


def cut_off_of(model: str) -> str | None:
    """The last month of a model's training, ``YYYY-MM``; None if it is not in ``cut_offs.csv``."""
    known = {name: until for name, until, _ in table_beside(__file__, "cut_offs.csv")[1:]}
    found = [name for name in known if model.rpartition("/")[2].startswith(name)]
    return known[max(found, key=len)] if found else None
