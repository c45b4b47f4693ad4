"""Verifying a ``position.jsonl`` against prices: whether each record follows, and the account's value.

AI-Trader's ``log.jsonl``: what was said in a session, a JSON object a line.
"""

from __future__ import annotations

import json
import math
from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import pandas as pd

from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption
from quantgraph.integrations.ai_trader._position_file import PositionRecord, scan_positions
from quantgraph.integrations.ai_trader._replay import LedgerMarket, Mismatch, replay_positions


@dataclass(frozen=True, kw_only=True)
class Verification:
    """The value of a ledger, and its lines that do not follow.

    Values come from the recorded states, whether they follow or not: the initial cash, then cash and shares
    at the close of each session of the prices from ``first_date`` to ``last_date``, both inclusive.

    Attributes
    ----------
    records
        Lines that are records.
    mismatches
        At most one a line.
    sessions
        Sessions from the first date to the last.
    carried
        How often a holding without a close in a session was valued at its last one.
    final_value, total_return, max_drawdown
        In the market's currency, and as fractions (drawdown 0 or negative). The value is None where a holding
        never had a close; the fractions also where the account did not open with cash alone, or fell to 0.
    """

    records: int
    mismatches: tuple[Mismatch, ...]
    first_date: str
    last_date: str
    sessions: int
    carried: int
    final_value: float | None
    total_return: float | None
    max_drawdown: float | None

    def as_dict(self) -> dict[str, Any]:
        """For JSON; the total return is called ``return``."""
        return {"return" if name == "total_return" else name: value for name, value in asdict(self).items()}


def verify_positions(
    file: str | Path, prices: str | Path | MarketDataSource, market: LedgerMarket
) -> Verification:
    """Replay a ledger against prices.

    Parameters
    ----------
    file
        A ``position.jsonl``.
    prices
        Daily bars for :func:`~quantgraph.data.open_source`: unadjusted, with every session of the ledger.
    market
        ``cn`` or ``us``: the rules that trades must keep.

    Raises
    ------
    BadFile
        If a file cannot be read or has another format.
    BadOption
        If ``market`` is another one, or ``prices`` is not a source.
    """
    if market not in get_args(LedgerMarket):
        raise BadOption(f"market={market!r}; valid: {', '.join(get_args(LedgerMarket))}", parameter="market")
    scanned = scan_positions(file)
    source = open_source(prices)
    sessions = source.sessions()
    bars = source.bars(source.symbols(), sessions[0], sessions[-1])
    records = [record for _, record in scanned if isinstance(record, PositionRecord)]
    recorded, carried = _values(records, bars["close"])
    values = pd.Series(recorded, dtype="float64")
    measurable = not any(records[0].positions.values()) and bool((values > 0).all())
    return Verification(
        records=len(records),
        mismatches=tuple(replay_positions(scanned, bars, market)),
        first_date=records[0].date,
        last_date=records[-1].date,
        sessions=len(values) - 1,
        carried=carried,
        final_value=None if math.isnan(recorded[-1]) else recorded[-1],
        total_return=float(values.iloc[-1] / values.iloc[0] - 1) if measurable else None,
        max_drawdown=float((values / values.cummax() - 1).min()) if measurable else None,
    )


def _values(records: list[PositionRecord], closes: pd.DataFrame) -> tuple[list[float], int]:
    """The initial cash and the value at each close, and how many closes were carried.

    NaN where a holding never had a close.
    """
    filled, missing = closes.ffill().to_numpy(), closes.isna().to_numpy()
    columns = {symbol: column for column, symbol in enumerate(closes.columns)}
    last_of = {record.date: record for record in records}
    dates = sorted(last_of)
    values, carried = [records[0].cash], 0
    for row, day in enumerate(pd.DatetimeIndex(closes.index).strftime("%Y-%m-%d")):
        if records[0].date <= day <= records[-1].date:
            state = last_of[dates[bisect_right(dates, day) - 1]]
            held = [(columns.get(symbol), shares) for symbol, shares in state.positions.items() if shares]
            known = [(column, shares) for column, shares in held if column is not None]
            worth = sum(shares * float(filled[row, column]) for column, shares in known)
            values.append(state.cash + (worth if len(known) == len(held) else math.nan))
            carried += sum(bool(missing[row, column]) for column, _ in known)
    return values, carried


LogForm = Literal["messages", "ai-trader"]
"""``messages``: ``role`` and ``content`` a line. ``ai-trader``: ``signature`` and ``new_messages``."""


@dataclass(frozen=True, kw_only=True)
class SessionMessage:
    """A message of a session."""

    role: Literal["user", "assistant"]
    content: str
    of_step: bool = False
    unresolved: Sequence[str] = ()


def session_log(
    messages: Iterable[SessionMessage], form: LogForm = "messages", *, signature: str = ""
) -> bytes:
    r"""Write the messages of a session as lines.

    In AI-Trader's own form the first message and the final answer are lists, and the messages of steps are
    objects.

    >>> told = SessionMessage(role="user", content="Begin.")
    >>> session_log([told])
    b'{"role": "user", "content": "Begin."}\n'
    >>> session_log([told], "ai-trader", signature="a")
    b'{"signature": "a", "new_messages": [{"role": "user", "content": "Begin."}]}\n'
    """
    lines = []
    for each in messages:
        told: dict[str, Any] = {"role": each.role, "content": each.content}
        if each.unresolved:
            told["unresolved_numbers"] = list(each.unresolved)
        if form == "ai-trader":
            told = {"signature": signature, "new_messages": told if each.of_step else [told]}
        lines.append(json.dumps(told, ensure_ascii=False) + "\n")
    return "".join(lines).encode("utf-8", "backslashreplace")
