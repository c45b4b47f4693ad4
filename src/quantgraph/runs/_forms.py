"""What people have made: signals, entries and exits, target weights, scores, as one frame and its plan."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any, cast

import numpy as np
import pandas as pd

from quantgraph._util.values import is_whole
from quantgraph.broker import TradePlan
from quantgraph.broker.session import trade_days
from quantgraph.errors import BadFrame, BadOption
from quantgraph.state.frames import MADE, SIZED_ENTRIES, Made, freeze, made_of

OWN_NAME = "yours"
_FORMS = "signal=, entries= with exits=, weights= or score="
_SAID = {"weights": ("size", "max_positions", "rank", "accumulate"), "score": ("rank", "accumulate")}
"""Words of a plan that a form says itself."""


@dataclass(frozen=True, kw_only=True)
class OwnFrame:
    """A frame of the caller's, in the panel ``panel`` of :data:`.MADE`.

    ``bottom`` is of scores: what is held is sold when it is among so many of the lowest; None sells what is
    not among the highest.
    """

    panel: Made
    name: str
    frame: pd.DataFrame
    bottom: int | None = None

    @classmethod
    def of(cls, made: pd.DataFrame | Mapping[str, Any]) -> OwnFrame:
        """Read a signal, or a mapping of ``signal``, ``weights`` or ``score``, or of ``entries``."""
        if isinstance(made, pd.DataFrame):
            made = {"signal": made}
        given = {name: value for name, value in made.items() if value is not None}
        bottom = given.pop("bottom", None)
        panel, frames = made_of("signal", given)
        if frames is given:
            panel = next(iter(given), "")
            frames = {OWN_NAME: held_while_true(given.get(panel))}
            if len(given) != 1 or panel not in MADE:
                raise BadOption(f"the strategy has {', '.join(given) or 'nothing'}; give one of {_FORMS}")
        if bottom is not None and (panel != "score" or not is_whole(bottom) or bottom < 1):
            raise BadOption(
                f"bottom={bottom!r}; must be a whole number from 1, beside a score", parameter="bottom"
            )
        (name, frame), kind = next(iter(frames.items())), cast("Made", panel)
        return cls(panel=kind, name=name, frame=checked(kind, name, frame), bottom=bottom)


def held_while_true(made: Any) -> Any:
    """1 and -1 in place of a frame of booleans; anything else as it is."""
    return made_of("signal", {"held": made})[1]["held"]


def checked(panel: Made, name: str, frame: Any) -> pd.DataFrame:
    """The frame as the data keep it; ``BadFrame`` says what is wrong, and which other form it may be."""
    try:
        return freeze(panel, name, frame).frame
    except BadFrame as error:
        if panel == "signal" and "value" in error.data:
            message = f"{error.message}; target weights are weights=, other numbers score="
            raise BadFrame(message, **error.data) from None
        raise


def with_words(plan: TradePlan | None, words: Mapping[str, Any]) -> TradePlan | None:
    """The plan with more words, None being none; ``BadOption`` for one that it says otherwise."""
    words = {name: word for name, word in words.items() if word is not None}
    if not words:
        return plan
    default, before = TradePlan(), plan or TradePlan()
    made = replace(before, **words)
    for name, word in words.items():
        value = getattr(before, name)
        if value not in (getattr(default, name), getattr(made, name)):
            raise BadOption(f"{name} is {value!r} in plan= and {word!r} beside it; say it once")
    return made


def with_form(plan: TradePlan | None, panel: Made, name: str) -> TradePlan | None:
    """The plan by which a form is traded; ``BadOption`` if the plan says otherwise what the form says."""
    if panel == "signal":
        return plan
    plan, default = plan or TradePlan(), TradePlan()
    form = "entries" if name == SIZED_ENTRIES else panel
    word, said = ("size", "weights") if panel == "weights" else ("rank", f"indicators.{score_name(name)}")
    for each in _SAID[panel]:
        value = getattr(plan, each)
        if value not in (getattr(default, each), said if each == word else None):
            raise BadOption(
                f"{each}={value!r} beside {form}=, which say it; leave it out", parameter=f"plan.{each}"
            )
    return replace(plan, size=said) if word == "size" else replace(plan, rank=said, entry_row="last")


def score_name(name: str) -> str:
    """The name of the scores among a run's indicators, beside the signal that is made of them."""
    return f"{name} (score)"


def ranked(
    score: pd.DataFrame, closes: pd.DataFrame, plan: TradePlan, bottom: int | None = None
) -> pd.DataFrame:
    """The signal of scores: 1 for the highest of a row, as many as the plan's positions; NaN without a score.

    A symbol counts in a row if it has a close there. Equal scores are in the order of the codes. All others
    are -1; with ``bottom`` the so many lowest alone. Rows by which the plan's ``trade_on`` does not decide
    are NaN.
    """
    values = score[sorted(score.columns)]
    values = values.where(closes.reindex(index=values.index, columns=values.columns).notna())
    place, top = values.rank(axis=1, ascending=False, method="first"), plan.slots(values.shape[1])
    leaves = place.gt(top)
    if bottom is not None:
        leaves &= place.gt(values.notna().sum(axis=1) - bottom, axis=0)
        if isinstance(plan.trade_on, int):
            raise BadOption(f"bottom= with every={plan.trade_on}; every must be a name", parameter="bottom")
    if not isinstance(plan.trade_on, int):
        days = values.index.to_numpy()
        decides = np.append(trade_days(days, plan.trade_on, days)[1:], True)
        values.loc[~decides] = np.nan
    signal = np.where(place <= top, 1.0, np.where(leaves, -1.0, 0.0))
    return pd.DataFrame(signal, index=values.index, columns=values.columns).where(values.notna())
