"""The nodes of the language, a row of ``nodes.csv`` each: a new indicator is one row and its test.

``params`` are the node's in order, with their defaults; their names say what they take. ``formula`` is pandas
of the parameters, the bar fields in ``inputs``, and ``traded``, where securities traded; a field of the data
has none. ``lookback`` is a sum of parameters (``fast|slow``: the larger) and numbers: the sessions before
today's that it needs to be known.
"""

from __future__ import annotations

import csv
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal, cast

Own = Literal["price", "volume", "money", "ratio", "count", "date", "truth", "number"]
Unit = Own | Literal["raw price", "raw volume"]
"""Raw ones are as traded, of another security or of all: own ones compare over ex-dates."""
Kind = Literal["value", "side", "truth", "sessions", "number", "period", "code", "label"]
"""Of a parameter: a value of the market (a side of a cross may be a number), a truth, or a constant."""

_KINDS: Mapping[str, Kind] = {
    **dict.fromkeys(("x", "y"), "value"),
    **dict.fromkeys(("one", "other"), "side"),
    **dict.fromkeys(("truth", "start"), "truth"),
    **dict.fromkeys(("n", "fast", "slow", "signal", "k", "d"), "sessions"),
    "width": "number",
    "period": "period",
}
BARS = ("open", "high", "low", "close", "volume", "amount", "pre_close", "up_limit", "down_limit")
STORED: Mapping[str, str] = {"volume": "vol"}
"""The name of a field in the data, where it is another."""
UNITS: Mapping[str, float] = {
    "volume": 100.0,
    "amount": 1000.0,
    **dict.fromkeys(("total_mv", "circ_mv", "total_share", "float_share", "free_share"), 1e4),
}
"""What a field of the data is multiplied with to be in shares or in units of money."""


@dataclass(frozen=True, kw_only=True)
class Param:
    """A parameter; ``default`` None if it has to be set."""

    name: str
    kind: Kind
    default: float | None = None


@dataclass(frozen=True, kw_only=True)
class Row:
    """One node of the language.

    Attributes
    ----------
    unit
        Of what it is; ``same`` for that of its first value.
    formula
        Pandas; "" for a field of the data.
    needs
        What its lookback is the sum of.
    percent
        What a number beside it is multiplied with to be in percent, as people write it; 0 if they do not.
    zh, en
        Its words, with the parameters in braces.
    """

    name: str
    params: tuple[Param, ...]
    unit: Unit | Literal["same"]
    formula: str
    inputs: tuple[str, ...]
    needs: tuple[str, ...]
    percent: int
    zh: str
    en: str

    @property
    def across(self) -> bool:
        """Whether it compares securities."""
        return "across(" in self.formula or "on_calendar(" in self.formula

    def lookback(self, constants: Mapping[str, Any]) -> int:
        """Sessions before today's that it needs, by its constants."""
        return sum(max(int(constants.get(part, part)) for part in each.split("|")) for each in self.needs)


def _row(line: Mapping[str, str]) -> Row:
    params = (each.partition("=") for each in line["params"].split())
    return Row(
        name=line["name"],
        params=tuple(
            Param(name=name, kind=_KINDS[name], default=float(default) if default else None)
            for name, _, default in params
        ),
        unit=cast("Unit", line["unit"]),
        formula=line["formula"],
        inputs=tuple(line["inputs"].split()),
        needs=tuple(line["lookback"].split()),
        percent=int(line["percent"] or 0),
        zh=line["zh"],
        en=line["en"],
    )


with (Path(__file__).parent / "nodes.csv").open(encoding="utf-8", newline="") as _lines:
    ROWS: Mapping[str, Row] = {line["name"]: _row(line) for line in csv.DictReader(_lines)}
"""By name, in the order of the documents."""
