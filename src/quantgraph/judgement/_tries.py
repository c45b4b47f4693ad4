"""How often a rule was tried: a file beside the runs to which each run adds a line, and which is never cut.

A try counts for a run if both are of one family, share a symbol, and their windows overlap. A family is the
same words but for their numbers, or the same code but for its constants.
"""

from __future__ import annotations

import ast
import json
import math
import os
import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pandas as pd

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.files import storage_errors
from quantgraph._util.parsing import parse_code
from quantgraph.judgement._sharpe import returns_of, sharpe_of
from quantgraph.market import sessions_in_a_year

TRIES_FILE = "tries.jsonl"
_MOST_SYMBOLS = 50
"""Symbols that a line lists; a wider one overlaps with all."""
_LEAST_FOR_SPREAD = 10
"""Tries from which the spread of their ratios is one."""
_NUMBER = re.compile(r"\d+(?:\.\d+)?|[零一二两三四五六七八九十百千]+")  # "20", "0.5", "二十"


@dataclass(frozen=True, kw_only=True)
class Try:
    """A run that was judged. ``weeks`` are its returns by the Monday of each week, ``sharpe`` is yearly."""

    run: str
    families: tuple[str, ...]
    first: str
    last: str
    symbols: tuple[str, ...]
    attempts: int
    sharpe: float | None
    weeks: Mapping[str, float]

    def is_like(self, other: Try) -> bool:
        """Whether both tried the same, on data that overlap."""
        wide = not (self.symbols and other.symbols)
        return (
            not {*self.families}.isdisjoint(other.families)
            and (wide or not {*self.symbols}.isdisjoint(other.symbols))
            and self.first <= other.last
            and other.first <= self.last
        )


@dataclass(frozen=True, kw_only=True)
class Tries:
    """Tries of one rule: as many as were counted, as many as they would be if they were independent."""

    counted: int = 1
    effective: float = 1.0
    sharpes: tuple[float, ...] = ()

    def spread(self, periods: int, sessions: int) -> float | None:
        """Variance of the ratios of sessions; None for too few tries, at least that of no skill."""
        if len(self.sharpes) < _LEAST_FOR_SPREAD:
            return None
        return max(float(np.var(self.sharpes, ddof=1)) / periods, 1 / sessions)


def try_of(
    run: str,
    words: str,
    cells: Sequence[str],
    symbols: Sequence[str],
    values: pd.Series[float],
    *,
    attempts: int = 1,
) -> Try:
    """The line of a run from its values, the initial cash first."""
    weeks = values.resample("W-SUN").last().pct_change(fill_method=None).iloc[1:].dropna()
    mondays = (pd.DatetimeIndex(weeks.index) - pd.Timedelta(days=6)).strftime("%Y%m%d")
    found = dict(zip(mondays, weeks.round(6).tolist(), strict=True))
    days = pd.DatetimeIndex(values.index[1:])
    ratio, _ = sharpe_of(returns_of(np.asarray(values, np.float64)))
    return Try(
        run=run,
        families=(*_family("words", _NUMBER.sub("#", words.casefold())), *_family("code", _skeleton(cells))),
        first=f"{days[0]:%Y%m%d}",
        last=f"{days[-1]:%Y%m%d}",
        symbols=tuple(symbols) if len(symbols) <= _MOST_SYMBOLS else (),
        attempts=attempts,
        sharpe=None if math.isnan(ratio) else float(ratio.per_year(sessions_in_a_year(days))),
        weeks=found,
    )


def _family(kind: str, text: str) -> Iterator[str]:
    if text := " ".join(text.split()):
        yield content_hash(kind, text)


def _skeleton(cells: Sequence[str]) -> str:
    """The code without its constants and comments; as it is where it cannot be parsed."""
    text = "\n".join(cells)
    try:
        tree = parse_code(text)
    except (SyntaxError, ValueError):
        return text
    for node in ast.walk(tree):
        if isinstance(node, ast.Constant) and not isinstance(node.value, str):
            node.value = 0
    return ast.dump(tree)


def counted(own: Try, path: Path | None) -> Tries:
    """Add a line for the run, and count it with those before it; without a file it is counted alone."""
    others: list[Try] = []
    if path is not None:
        others = [each for each in _read(path) if each.run != own.run and own.is_like(each)]
        _append(path, own)
    apart = {tuple(each.weeks.items()): each for each in others if each.weeks != own.weeks}
    found = [own, *apart.values()]
    count = sum(each.attempts for each in found)
    return Tries(
        counted=count,
        effective=count - len(found) + _independent([each.weeks for each in found]),
        sharpes=tuple(each.sharpe for each in found if each.sharpe is not None),
    )


def _read(path: Path) -> Iterable[Try]:
    """The last line of each run; a line that was cut off when its process died is none."""
    found = dict[str, Try]()
    with storage_errors(path):
        text = path.read_text(encoding="utf-8") if path.is_file() else ""
    for line in text.splitlines():
        try:
            row = json.loads(line)
            lists = {name: tuple(row[name]) for name in ("families", "symbols")}
            found[row["run"]] = Try(**{**row, **lists})
        except (LookupError, TypeError, ValueError):
            continue
    return found.values()


def _append(path: Path, own: Try) -> None:
    line = canonical_json(own.__dict__)
    with storage_errors(path):
        path.parent.mkdir(parents=True, exist_ok=True)
        place = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)
        try:
            os.write(place, f"\n{line}".encode())  # a line that was cut off stays alone
        finally:
            os.close(place)


def _independent(weeks: Sequence[Mapping[str, float]]) -> float:
    """As many as are independent: N less the mean correlation of their returns times N - 1, at least 1."""
    table = pd.DataFrame([dict(each) for each in weeks], dtype=np.float64).fillna(0.0).to_numpy()
    table = table[np.ptp(table, axis=1) > 0] if table.size else table[:0]
    count, length = table.shape
    if count < 2:
        return float(max(1, len(weeks)))
    scores = (table - table.mean(axis=1, keepdims=True)) / table.std(axis=1, keepdims=True)
    together = float((scores.sum(axis=0) ** 2).sum()) / length
    mean = min(max((together - count) / (count * (count - 1)), 0.0), 1.0)
    return float(len(weeks) - mean * (len(weeks) - 1))
