"""What the caller fixed beside the sentence: it wins, and it is checked before a model is asked."""

from __future__ import annotations

from collections.abc import Mapping

import pandas as pd

from quantgraph._util.input_limits import check_sentence
from quantgraph._util.texts import language_of, say
from quantgraph.data import MarketDataSource, resolve_symbols
from quantgraph.errors import BadWindow
from quantgraph.market.moment import session_of
from quantgraph.tools.window import split_codes

__all__ = ["check_given", "spoken"]


def check_given(given: Mapping[str, str], source: MarketDataSource, last: pd.Timestamp) -> dict[str, str]:
    """The caller's parameters without the empty ones; a start without an end runs to the last session.

    Raises
    ------
    UnknownSymbol, BadWindow, BadOption
        If one of them cannot be meant.
    """
    fixed = {key: value for key, value in given.items() if value}
    for key, value in fixed.items():
        check_sentence(value, key)
    if "ts_code" in fixed:
        resolve_symbols(source, split_codes(fixed["ts_code"]), last)
    if "start_date" in fixed:
        fixed.setdefault("end_date", f"{last:%Y%m%d}")
    dates = {name: session_of(fixed[name], name=name) for name in ("start_date", "end_date") if name in fixed}
    if len(dates) == 2 and dates["start_date"] > dates["end_date"]:
        raise BadWindow(f"start_date={fixed['start_date']} is after end_date={fixed['end_date']}; swap them")
    return fixed | {name: f"{date:%Y%m%d}" for name, date in dates.items()}


def spoken(text: str, given: Mapping[str, str]) -> str:
    """The user's words, with what the caller fixed as a last line of them."""
    lines = [text, given.get("ts_code", "")]
    if "start_date" in given:
        start, end = given["start_date"], given["end_date"]
        lines.append(say(language_of(text), zh=f"{start}到{end}", en=f"from {start} to {end}"))
    return "\n".join(line for line in lines if line)
