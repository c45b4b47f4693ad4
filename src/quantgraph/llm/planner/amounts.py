"""Amounts of money and small fractions as they are written: ``10万元``, *100k*, ``万分之2.5``, *3 bps*."""

from __future__ import annotations

import re

from quantgraph.llm.planner.normalisation import chinese_number

_UNITS = {
    "万": 10_000.0, "w": 10_000.0, "千": 1000.0, "k": 1000.0, "thousand": 1000.0, "百万": 1_000_000.0, "m": 1_000_000.0,
    "million": 1_000_000.0, "亿": 100_000_000.0,
}  # fmt: skip
_SMALL = re.compile(
    r"(万分之|千分之|万)?\s*([\d.]+|[一二两三四五六七八九十]+)\s*(%|bps?|basis points|个?基点)?",
    re.IGNORECASE,
)
_PARTS = {"万分之": 10_000.0, "万": 10_000.0, "千分之": 1000.0}


def _figure(text: str) -> float | None:
    plain = text.replace(",", "")
    if re.fullmatch(r"\d+(?:\.\d+)?", plain):
        return float(plain)
    return float(chinese_number(text)) if re.fullmatch(r"[一二两三四五六七八九十百]+", text) else None


def money_of(match: re.Match[str]) -> float | None:
    """The amount of a match whose groups are pairs of a figure and its unit; None if it is not a number."""
    groups = match.groups()
    for figure, unit in zip(groups[::2], groups[1::2], strict=True):
        if figure is not None:
            amount = _figure(figure.strip(",."))
            return None if amount is None else amount * _UNITS.get((unit or "").lower(), 1.0)
    return None


def fraction_of(match: re.Match[str]) -> float | None:
    """The fraction that a match names, 0.0001 for ``万分之一``; None if it is not a number."""
    said = next((group for group in match.groups() if group is not None), "")
    found = _SMALL.fullmatch(said.strip())
    number = None if found is None else _figure(found[2])
    if found is None or number is None:
        return None
    if found[1]:
        return round(number / _PARTS[found[1]], 10)
    return round(number / (100.0 if found[3] == "%" else 10_000.0), 10)
