"""Bars and indicators as arrays of one shape, for checks that compare many fields.

Prices: in CNY, positive, in order, moving; consistent with ``pre_close``, ``adj_factor`` and price limits.

Sessions and bars that are missing, repeated, or on days without trading.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.audit._findings import Finding, Severity

Floats = NDArray[np.float64]
Mask = NDArray[np.bool_]

PRICES = ("open", "high", "low", "close")

TICK = 0.01
"""Largest price step in the mainland and the US (CNY, USD); smaller differences may be rounding."""


class BarArrays:
    """Fields on the sessions and symbols of ``close``, shape (T, N), NaN where there is no number.

    A missing field is NaN throughout, so that a check compares with it and finds nothing. ``resumed`` are
    rows and columns of the first bars after a gap in their symbol.
    """

    def __init__(self, close: pd.DataFrame, fields: Mapping[str, pd.DataFrame]) -> None:
        self.sessions = pd.DatetimeIndex(close.index)
        self.symbols = [str(symbol) for symbol in close.columns]
        self.shape = close.shape
        self._close = close
        self._frames = fields
        self._arrays: dict[str, Floats] = {}
        self.traded: Mask = ~np.isnan(self["close"])
        rows = np.arange(len(close), dtype=np.int32)[:, None]
        self.last = np.full(self.shape, -1, dtype=np.int32)
        self.last[1:] = np.maximum.accumulate(np.where(self.traded, rows, np.int32(-1)), axis=0)[:-1]
        self.following = np.minimum.accumulate(np.where(self.traded, rows, rows[-1])[::-1], axis=0)[::-1]
        self.resumed = np.nonzero(self.traded & (self.last >= 0) & (self.last < rows - 1))

    def __contains__(self, name: str) -> bool:
        return name in self._frames

    def __getitem__(self, name: str) -> Floats:
        if name not in self._arrays:
            self._arrays[name] = self.original(name)
        return self._arrays[name]

    def original(self, name: str) -> Floats:
        """A field as it came, with nothing removed."""
        if name not in self._frames:
            return np.broadcast_to(np.float64("nan"), self.shape)
        frame, close = self._frames[name], self._close
        if not (frame.index.equals(close.index) and frame.columns.equals(close.columns)):
            frame = frame.reindex(index=close.index, columns=close.columns)
        return frame.to_numpy(dtype="float64")

    def drop(self, where: Mask, *names: str) -> None:
        """Remove cells; ``where`` broadcasts to (T, N)."""
        for name in names:
            if name in self:
                self._arrays[name] = np.where(where, np.nan, self[name])

    def drop_bars(self, where: Mask) -> None:
        """Remove bars, and ``pre_close`` of the next session, which repeats their close."""
        self.drop(where, *PRICES, "vol", "amount")
        self.drop(where | next_row(where), "pre_close")

    def findings(
        self, severity: Severity, code: str, where: Mask, message: str, **values: Floats
    ) -> Iterator[Finding]:
        """Yield a finding at the first cell of ``where``, none if it is empty.

        The message may use ``{n}``, the number of cells, ``{place}``, and ``values`` there by name.
        """
        if not where.any():
            return
        row, column = divmod(int(where.argmax()), where.shape[1])
        session, symbol, count = f"{self.sessions[row]:%Y-%m-%d}", self.symbols[column], int(where.sum())
        numbers = {name: f"{array[row, column]:g}" for name, array in values.items()}
        yield Finding(
            severity=severity,
            code=code,
            message=message.format(n=count, place=f"({session}, {symbol})", **numbers),
            session=session,
            symbol=symbol,
            count=count,
        )

    def at_last(self, values: Floats) -> Floats:
        """Values at the last bar before each bar, NaN where there is none."""
        before = np.full(self.shape, np.nan)
        before[1:] = values[:-1]
        rows, columns = self.resumed
        before[rows, columns] = values[self.last[rows, columns], columns]
        return before

    def theoretical(self) -> Floats:
        """The close of the last bar, less the dividends and over the split ratios since then."""
        price = self.at_last(self["close"])
        for name, apply in (("dividend", np.subtract), ("split", np.divide)):
            if name in self:
                rows, columns = np.nonzero(self[name] > 0)
                apply.at(price, (self.following[rows, columns], columns), self[name][rows, columns])
        return price


def next_row(where: Mask) -> Mask:
    """The cells one row below a mask."""
    moved = np.zeros_like(where)
    moved[1:] = where[:-1]
    return moved


EXTREME_RETURN = 0.5
"""Beyond every price limit, and beyond what a share moves in a day without news."""

STALE_SESSIONS = 10
"""Four equal closes in a row are the most that 50 large A-shares had in ten months of 2025; a share of one
yuan, which closes unchanged one day in five, has ten once in two million sessions."""

OWN_SHARES = 0.1
"""A company's own shares get no dividend, and the exchange spreads the others' dividend over all shares; a
company may hold a tenth of its shares (Company Law of the PRC, article 162, in force since 2024-07-01)."""

FACTOR_ROUNDING = 1e-3
"""Factors near 1 have three decimals."""

_SLACK = 1e-6

_FEN_SLACK = 0.15
"""In powers of ten, a factor of 1.4: a session's average price is within its limits from the close."""


def prices_above_zero(bars: BarArrays) -> Iterator[Finding]:
    """Check that prices are above zero."""
    for name in (*PRICES, "pre_close"):
        wrong = bars[name] <= 0
        if wrong.any():
            message = f"{name} is {{value}} at {{place}}; prices are above 0"
            yield from bars.findings("error", "bad_price", wrong, message, value=bars[name])
            if name == "pre_close":
                bars.drop(wrong, name)
            else:
                bars.drop_bars(wrong)


def bar_order(bars: BarArrays) -> Iterator[Finding]:
    """Check that a high is not below any price of its bar, nor a low above one."""
    for name, other, word in (
        ("high", "open", "below"),
        ("high", "close", "below"),
        ("high", "low", "below"),
        ("low", "open", "above"),
        ("low", "close", "above"),
    ):
        wrong = bars[name] < bars[other] if word == "below" else bars[name] > bars[other]
        if wrong.any():
            message = f"{name} is {{value}} at {{place}}, {word} {other}"
            yield from bars.findings("error", "bad_bar", wrong, message, value=bars[name])
            bars.drop_bars(wrong)


def prices_in_fen(bars: BarArrays) -> Iterator[Finding]:
    """Find prices in fen: whole numbers, and 100 times the average price of their session, amount / vol."""
    if not ("amount" in bars and "vol" in bars):
        return
    average = bars["amount"] * 10 / np.where(bars["vol"] > 0, bars["vol"], np.nan)
    in_fen = np.abs(np.log10(bars["close"] / average) - 2) < _FEN_SLACK
    in_fen &= np.logical_and.reduce([bars[name] % 1 == 0 for name in PRICES])
    message = (
        "prices of {n} bars look like fen, the first at {place}: whole numbers, and 100 times "
        "amount / vol; they must be in CNY"
    )
    yield from bars.findings("error", "price_unit", in_fen, message)
    if in_fen.any():
        bars.drop_bars(in_fen)
        bars.drop(in_fen, "pre_close")


def extreme_returns(bars: BarArrays) -> Iterator[Finding]:
    """Find extreme returns since ``pre_close``, or without it since the close before and later actions.

    The first bar of a symbol is exempt: a new share may double, and it has no price before.
    """
    before, unknown = bars["pre_close"], np.isnan(bars["pre_close"])
    if (unknown & bars.traded).any():
        before = np.where(unknown, bars.theoretical(), before)
    returns = bars["close"] / np.where(before > 0, before, np.nan) - 1
    wild = (np.abs(returns) > EXTREME_RETURN) & (bars.last >= 0)
    message = f"{{n}} returns are beyond {EXTREME_RETURN:.0%}, the first is {{value}} at {{place}}"
    yield from bars.findings("warning", "extreme_return", wild, message, value=returns)


def stale_prices(bars: BarArrays) -> Iterator[Finding]:
    """Find bars that repeat the one before, volume included, and closes that stand still under trading."""
    fields = [bars[name] for name in (*PRICES, "vol")]
    still = fields[3][1:] == fields[3][:-1]
    still &= bars["vol"][1:] > 0
    repeated = np.zeros(bars.shape, dtype=np.bool_)
    repeated[1:] = still & np.logical_and.reduce([field[1:] == field[:-1] for field in fields])
    message = "{n} bars have the prices and the volume of the one before, the first at {place}"
    yield from bars.findings("warning", "repeated_bar", repeated, message)
    length = len(still) - STALE_SESSIONS + 2
    if length < 1:
        return
    run = np.logical_and.reduce([still[row : row + length] for row in range(STALE_SESSIONS - 1)])
    run &= ~np.logical_and.reduce([repeated[1 + row : 1 + row + length] for row in range(STALE_SESSIONS - 1)])
    starts = run.copy()
    starts[1:] &= ~run[:-1]
    message = (
        f"{{n}} times the close stands still for {STALE_SESSIONS} sessions or more while shares trade, "
        "the first from {place}"
    )
    yield from bars.findings("warning", "stale_price", starts, message)


def reference_prices(bars: BarArrays) -> Iterator[Finding]:
    """Check that ``pre_close`` is the close before, less dividends and splits, to a tick.

    If the data has no dividend, split or factor at all, a lower ``pre_close`` is an ex-date of an action
    that is not in the data.
    """
    pre_close = bars["pre_close"]
    if np.isnan(pre_close).all():
        return
    before, expected = bars.at_last(bars["close"]), bars.theoretical()
    room = TICK + _SLACK + OWN_SHARES * np.abs(before - expected)
    off = np.abs(pre_close - expected) > room
    if "adj_factor" in bars and off.any():
        off &= np.abs(pre_close - before / _factor_step(bars)) > TICK + FACTOR_ROUNDING * pre_close
    silent = not any(name in bars for name in ("dividend", "split", "adj_factor"))
    lower = off & (pre_close < expected) & silent
    message = (
        "pre_close is below the close before on {n} bars, the first at {place}, and the data has no "
        "dividends, splits or adj_factor to say why"
    )
    yield from bars.findings("warning", "no_actions", lower, message)
    off &= ~lower
    message = (
        "pre_close is {found} at {place}; the close before and the actions since then make it {expected}; "
        "so on {n} bars"
    )
    yield from bars.findings("warning", "pre_close_break", off, message, found=pre_close, expected=expected)
    if off.any():
        bars.drop(off, "pre_close")


def adjustment_factor(bars: BarArrays) -> Iterator[Finding]:
    """Check that ``adj_factor`` steps as the close before over ``pre_close``, and without that never down.

    Only a reverse split makes it smaller.
    """
    if "adj_factor" not in bars:
        return
    step, pre_close = _factor_step(bars), bars["pre_close"]
    expected = bars.at_last(bars["close"]) / pre_close
    odd = np.abs(step - expected) > FACTOR_ROUNDING * expected + TICK / pre_close
    odd |= np.isnan(expected) & (step < 1 - FACTOR_ROUNDING) & ~(bars["split"] < 1)
    message = "adj_factor steps by {step} at {place}, and neither pre_close nor a split does; so on {n} bars"
    yield from bars.findings("warning", "bad_factor", odd, message, step=step)


def _factor_step(bars: BarArrays) -> Floats:
    """``adj_factor`` over that at the last bar before."""
    factor = bars["adj_factor"]
    return factor / bars.at_last(factor)


def price_limits(bars: BarArrays) -> Iterator[Finding]:
    """Check that the lower limit is below the upper one, and that prices are within them."""
    up, down = bars["up_limit"], bars["down_limit"]
    wrong = down >= up
    if wrong.any():
        message = "down_limit is {down} at {place}, not below up_limit, which is {up}; so on {n} bars"
        yield from bars.findings("error", "bad_limit", wrong, message, down=down, up=up)
        bars.drop(wrong, "up_limit", "down_limit")
    for name in ("high", "low", "open", "close", "pre_close"):
        price, up, down = bars[name], bars["up_limit"], bars["down_limit"]
        outside = (price > up + _SLACK) | (price < down - _SLACK)
        if outside.any():
            message = (
                f"{name} is {{price}} at {{place}}, its limits are {{down}} and {{up}}; so on {{n}} bars"
            )
            yield from bars.findings(
                "warning", "outside_limits", outside, message, price=price, down=down, up=up
            )
            bars.drop(outside, "up_limit", "down_limit")


THIN_SHARE = 0.5
"""More of the symbols are not suspended on one day; in July 2015, the worst so far, about half were."""

THIN_SYMBOLS = 5
"""Half of fewer symbols may be suspended by chance."""

DUPLICATE_SHARE = 0.5
"""Of the symbols that trade; a volume repeats within a symbol once in thousands of sessions."""

DUPLICATE_SYMBOLS = 3
"""Fewer may repeat a bar by chance, when hardly any shares trade."""

PROBES = 64
"""Least number of symbols, spread over all, whose volumes are compared first."""


def missing_sessions(
    bars: BarArrays, sessions: pd.DatetimeIndex, expected: pd.DatetimeIndex | None
) -> Iterator[Finding]:
    """Compare the data's sessions with the requested ones and with the exchange's."""
    lost = sessions.difference(bars.sessions)
    if len(lost):
        yield _dates_finding(
            "missing_session",
            lost,
            f"close lacks {len(lost)} of {len(sessions)} sessions, the first is {lost[0]:%Y-%m-%d}",
        )
    if expected is None:
        return
    holes = expected.difference(bars.sessions)
    if len(holes):
        yield _dates_finding(
            "calendar_gap",
            holes,
            f"the exchange had {len(holes)} sessions that the data lacks, the first is {holes[0]:%Y-%m-%d}",
        )
        after = bars.sessions.searchsorted(holes)
        jumped = np.zeros((len(bars.sessions) + 1, 1), dtype=np.bool_)
        jumped[after] = True
        bars.drop(jumped[:-1], "pre_close")
    closed = bars.sessions.difference(expected)
    if len(closed):
        yield _dates_finding(
            "no_session",
            closed,
            f"the data has {len(closed)} sessions on which the exchange was closed, the first is "
            f"{closed[0]:%Y-%m-%d}",
        )


def _dates_finding(code: str, days: pd.DatetimeIndex, message: str) -> Finding:
    return Finding(
        severity="error" if code == "missing_session" else "warning",
        code=code,
        message=message,
        session=f"{days[0]:%Y-%m-%d}",
        count=len(days),
    )


def thin_sessions(bars: BarArrays) -> Iterator[Finding]:
    """Find sessions on which most symbols that trade before and after have no bar."""
    missing, alive = _missing_bars(bars)
    thin = _is_thin(missing, alive)
    if thin.any():
        first = f"{bars.sessions[thin][0]:%Y-%m-%d}"
        yield Finding(
            severity="warning",
            code="thin_session",
            message=f"more than {THIN_SHARE:.0%} of the symbols have no bar on {int(thin.sum())} sessions, "
            f"the first is {first}, and have bars before and after",
            session=first,
            symbol=bars.symbols[int(missing[thin][0].argmax())],
            count=int(thin.sum()),
        )


def symbol_gaps(bars: BarArrays) -> Iterator[Finding]:
    """Find bars that a symbol lacks between others and that no suspension explains.

    After a suspension ``pre_close`` is the close before it, less the actions since then.
    """
    missing, alive = _missing_bars(bars)
    missing &= ~_is_thin(missing, alive)[:, None]
    pre_close, resumed = bars["pre_close"], np.zeros(bars.shape, dtype=np.bool_)
    resumed[bars.resumed] = True
    if not resumed.any():
        return
    off = resumed & (np.abs(pre_close - bars.theoretical()) > TICK + _SLACK)
    unknown = resumed & np.isnan(bars.original("pre_close")).all(axis=0)
    kinds: tuple[tuple[Severity, Mask, str], ...] = (
        ("warning", off, "pre_close after it is not the close before it, as after a suspension"),
        ("info", unknown, "without pre_close, suspensions and holes look alike"),
    )
    for severity, where, reason in kinds:
        if not where.any():
            continue
        gaps = missing & np.take_along_axis(where, bars.following, axis=0)
        text = "{n} bars are lacking between others of their symbol, the first at {place}; "
        yield from bars.findings(severity, "symbol_gap", gaps, text + reason)
    bars.drop(off, "pre_close")


def _missing_bars(bars: BarArrays) -> tuple[Mask, Mask]:
    """Cells without a bar between bars of their symbol, and all cells between such bars."""
    later = np.logical_or.accumulate(bars.traded[::-1], axis=0)[::-1]
    alive = later & (bars.traded | (bars.last >= 0))
    return alive & ~bars.traded, alive


def _is_thin(missing: Mask, alive: Mask) -> Mask:
    living = alive.sum(axis=1)
    thin: Mask = (living >= THIN_SYMBOLS) & (missing.sum(axis=1) > THIN_SHARE * living)
    return thin


def duplicate_sessions(bars: BarArrays) -> Iterator[Finding]:
    """Find sessions that repeat another session's bars, for most symbols."""
    repeats, partner = _repeated_volumes(bars)
    trading = (bars["vol"] > 0).sum(axis=1)
    suspects = np.flatnonzero((trading >= DUPLICATE_SYMBOLS) & (repeats.mean(axis=1) > DUPLICATE_SHARE / 2))
    originals: dict[int, int] = {}
    for row in suspects.tolist():
        twin = int(np.bincount(partner[row][repeats[row]]).argmax())
        same = np.logical_and.reduce([bars[name][row] == bars[name][twin] for name in (*PRICES, "vol")])
        if same.sum() > DUPLICATE_SHARE * trading[row]:
            originals[max(row, twin)] = min(row, twin)
    if not originals:
        return
    copies = np.zeros((len(trading), 1), dtype=np.bool_)
    copies[list(originals)] = True
    first = min(originals)
    yield Finding(
        severity="error",
        code="duplicate_session",
        message=f"{len(originals)} sessions have the bars of another one, the first is "
        f"{bars.sessions[first]:%Y-%m-%d} with those of {bars.sessions[originals[first]]:%Y-%m-%d}",
        session=f"{bars.sessions[first]:%Y-%m-%d}",
        count=len(originals),
    )
    bars.drop_bars(copies)
    bars.drop(copies, "up_limit", "down_limit", "adj_factor")


def _repeated_volumes(bars: BarArrays) -> tuple[Mask, NDArray[np.int64]]:
    """Whether a probe has the volume of a session in another one too, and the row of one such session."""
    probes = bars["vol"][:, :: max(1, bars.shape[1] // PROBES)]
    vol = np.ascontiguousarray(np.where(probes > 0, probes, np.nan).T)
    order = np.argsort(vol, axis=1)
    ranked = np.take_along_axis(vol, order, axis=1)
    pairs = ranked[:, 1:] == ranked[:, :-1]
    # A volume that hardly ever changes identifies no session.
    pairs &= pairs.sum(axis=1, keepdims=True) < DUPLICATE_SHARE * pairs.shape[1]
    repeats, partner = np.zeros(vol.shape, dtype=np.bool_), np.zeros(vol.shape, dtype=np.int64)
    for column, place in np.argwhere(pairs).tolist():
        one, other = order[column, place], order[column, place + 1]
        repeats[column, [one, other]] = True
        partner[column, [one, other]] = other, one
    return repeats.T, partner.T
