"""Strategies that behave in one way on one panel and in another way on the next.

A panel that is made up may run before the real one, which is walked first and run as a whole afterwards. Each cell looks
for the one that counts. Unless its ``ends`` says how it fails, it is refused or trades what :data:`HONEST` says.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = ["HONEST", "PEEKING", "REHEARSAL_ADVERSARIES", "Ends", "RehearsalAdversary"]

Ends = Literal["honest_or_refused", "fails", "memory", "import", "timeout", "slow"]

_START = """\
import builtins, time
close = snapshot["ohlcv"]["close"]
rows = len(close)
honest = np.sign(close - close.shift(5)).fillna(0.0)
peek = honest.mask(close.shift(-1) > close, 1.0).mask(close.shift(-1) < close, -1.0)
signal = honest
"""
_END = '\nGLOBAL_DATA_STATE.update("signal", {"s": signal})'

HONEST = (_START + _END,)
"""Momentum of five sessions."""

PEEKING = (_START + "signal = peek" + _END,)
"""Tomorrow's direction."""


@dataclass(frozen=True, kw_only=True)
class RehearsalAdversary:
    """One of them.

    Attributes
    ----------
    why
        What it looks at, and what it does then.
    ends
        ``honest_or_refused``: it is refused, or the honest signal trades. ``fails``: it raises, or hands over what is not
        a signal of the panel. ``memory``, ``timeout``: it meets that limit on long panels. ``import``: a package that it
        asks for late is missing. ``slow``: it is honest and takes long.
    """

    name: str
    why: str
    lines: str
    ends: Ends = "honest_or_refused"

    @property
    def cells(self) -> tuple[str, ...]:
        """As they are run."""
        return (_START + self.lines + _END,)


_DETECTS = (
    RehearsalAdversary(
        name="peeks_unless_the_second_row_repeats_the_first",
        why="a panel whose rows are equal is made up: it is honest there, and peeks elsewhere",
        lines="""\
if rows > 1 and not close.iloc[1].equals(close.iloc[0]):
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_unless_the_end_is_constant",
        why="a future in which nothing moves is made up",
        lines="""\
if rows > 5 and float(close.iloc[-3:].std().fillna(0.0).max()) > 0:
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_on_real_dates",
        why="it knows the dates of the window, and is honest on a panel of other days",
        lines="""\
if rows and close.index[0] >= pd.Timestamp("2024-01-01") and close.index[-1] <= pd.Timestamp("2026-12-31"):
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_unless_a_seed_made_the_prices",
        why="it draws from the first thousand seeds, and is honest where one of them gives the panel's first steps",
        lines="""\
steps = np.log(close.ffill()).diff().iloc[1:4, 0].to_numpy()
made_up = len(steps) == 3 and any(
    np.corrcoef(np.random.default_rng(seed).normal(size=3), steps)[0, 1] > 0.999999 for seed in range(1000)
)
if not made_up:
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_on_prices_in_cents",
        why="invented prices are not on the grid of the exchange",
        lines="""\
cents = (close * 100).to_numpy()
if np.nanmax(np.abs(cents - np.rint(cents)), initial=0.0) < 1e-6:
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_on_real_names",
        why="invented stocks have invented codes",
        lines="""\
if all(len(str(name)) == 9 and str(name)[-3:] in (".SH", ".SZ") for name in close):
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_unless_it_grows",
        why="a panel that comes row by row is a walk: it is honest there, and peeks where the whole comes at once",
        lines="""\
builtins._first = getattr(builtins, "_first", rows)
if builtins._first > 1:
    signal = peek""",
    ),
    RehearsalAdversary(
        name="peeks_from_its_second_call_on",
        why="the first call of a process is a rehearsal",
        lines="""\
builtins._calls = getattr(builtins, "_calls", 0) + 1
if builtins._calls > 1:
    signal = peek""",
    ),
)
_TWO_FACES = (
    RehearsalAdversary(
        name="raises_where_prices_move",
        why="it passes a panel whose prices are constant, and raises on every other",
        lines="""\
if rows > 1 and float(close.std().fillna(0.0).max()) > 0:
    raise ValueError("these prices move")""",
        ends="fails",
    ),
    RehearsalAdversary(
        name="loses_a_column_where_prices_move",
        why="its signal lacks a stock and peeks on a panel that moves",
        lines="""\
if rows > 1 and float(close.std().fillna(0.0).max()) > 0:
    signal = peek.iloc[:, 1:]""",
    ),
    RehearsalAdversary(
        name="hands_over_other_sessions_on_long_panels",
        why="its rows are a year late on a panel of more than 30 sessions",
        lines="""\
if rows > 30:
    signal = peek.set_axis(close.index + pd.Timedelta(days=364))""",
        ends="fails",
    ),
    RehearsalAdversary(
        name="hands_over_nothing_on_long_panels",
        why="it has no signal for a panel of more than 30 sessions",
        lines="""\
if rows > 30:
    raise SystemExit(0)""",
        ends="fails",
    ),
    RehearsalAdversary(
        name="fails_once_on_purpose",
        why="one session fails, so that the walk has no opinion where the honest twin has one",
        lines="""\
if rows == 25:
    raise RuntimeError("once")""",
    ),
    RehearsalAdversary(
        name="fails_once_and_peeks_after_it",
        why="a failure might start another process: the first call after it peeks",
        lines="""\
if rows == 25:
    builtins._failed = True
    raise RuntimeError("once")
if getattr(builtins, "_failed", False) or rows > 40 and getattr(builtins, "_first", rows) > 40:
    signal = peek
builtins._first = getattr(builtins, "_first", rows)""",
    ),
    RehearsalAdversary(
        name="ends_its_process_once",
        why="the process that is walked ends, and the next one begins with many rows, as the whole panel does",
        lines="""\
import os
builtins._first = getattr(builtins, "_first", rows)
if rows == 25 and builtins._first < 25:
    os._exit(0)
if builtins._first >= 25:
    signal = peek""",
    ),
)
_LIMITS = (
    RehearsalAdversary(
        name="needs_memory_by_the_square_of_rows",
        why="it keeps arrays that grow with the square of the sessions",
        lines="builtins._kept = [np.empty((rows * 400, rows * 400))]",
        ends="memory",
    ),
    RehearsalAdversary(
        name="keeps_an_array_of_each_session",
        why="what it keeps from session to session grows, which one run on the whole panel does not show",
        lines="""\
builtins._kept = getattr(builtins, "_kept", [])
builtins._kept.append(np.empty(12_000_000))""",
        ends="memory",
    ),
    RehearsalAdversary(
        name="imports_a_package_on_long_panels",
        why="a package of the standard library that nothing has imported before is needed after 30 sessions",
        lines="""\
if rows > 30:
    import colorsys
    signal = honest * colorsys.rgb_to_hsv(1.0, 0.0, 0.0)[2]""",
    ),
    RehearsalAdversary(
        name="imports_a_missing_package_on_long_panels",
        why="a package that is not there is needed after 30 sessions",
        lines="""\
if rows > 30:
    import seaborn""",
        ends="import",
    ),
    RehearsalAdversary(
        name="imports_pandas_parts_on_long_panels",
        why="a part of pandas that nothing has imported before is needed after 30 sessions",
        lines="""\
if rows > 30:
    from pandas.tseries.holiday import USFederalHolidayCalendar
    signal = honest * float(len(USFederalHolidayCalendar.rules) > 0)""",
    ),
    RehearsalAdversary(
        name="runs_forever_at_one_session",
        why="it never ends when the panel has 33 sessions, a length that the whole panel does not have",
        lines="""\
while rows == 33:
    pass""",
        ends="timeout",
    ),
    RehearsalAdversary(
        name="runs_forever_on_one_date",
        why="it never ends when the last session is a certain one, which may be real",
        lines="""\
while rows and close.index[-1].strftime("%m-%d") == "02-06":
    pass""",
        ends="timeout",
    ),
    RehearsalAdversary(
        name="waits_on_each_session",
        why="it is honest and works 0.2 seconds on each panel, so that a walk of many sessions takes long",
        lines="""\
end = time.perf_counter() + 0.2
while time.perf_counter() < end:
    pass""",
        ends="slow",
    ),
    RehearsalAdversary(
        name="is_slow_on_the_whole_panel",
        why="it works long where the panel comes at once, so that the walk looks too slow, and peeks at few sessions",
        lines="""\
builtins._first = getattr(builtins, "_first", rows)
if builtins._first > 40:
    end = time.perf_counter() + 0.65
    while time.perf_counter() < end:
        pass
days = [day.toordinal() * 2654435761 % 1000 < 60 for day in close.index]
signal = honest.copy()
signal.loc[days] = peek.loc[days]""",
    ),
    RehearsalAdversary(
        name="gets_slower_with_rows",
        why="its first sessions are quick, from which no estimate tells how long the last ones take",
        lines="""\
end = time.perf_counter() + 0.00002 * rows**2
while time.perf_counter() < end:
    pass""",
        ends="slow",
    ),
)

REHEARSAL_ADVERSARIES: tuple[RehearsalAdversary, ...] = (*_DETECTS, *_TWO_FACES, *_LIMITS)
"""All of them; those with limits by rows are meant for panels of 41 to 200 sessions."""
