"""The trade plan: how much is bought, how many positions there are, when, and how they end."""

from __future__ import annotations

import difflib
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import Field, dataclass
from decimal import Decimal
from fractions import Fraction
from functools import cached_property
from typing import Any, ClassVar, Literal, Self, TypeAlias, cast, get_args

from quantgraph._util.values import is_whole
from quantgraph.errors import BadOption
from quantgraph.market.money import CENT, to_decimal

Reentry = Literal["new_signal", "any"]
ExitOn = Literal["trade_on", "every"]
EntryRow = Literal["any", "last"]
Schedule: TypeAlias = Literal["every", "week_start", "month_start", "quarter_start"] | int
MOST_POSITIONS = 10
"""Default of the largest number of positions."""
FOR_ANYONE = frozenset(
    {
        *("cash", "commission", "slippage_bps", "benchmark"),
        *("stop_loss", "take_profit", "trailing_stop", "max_holding", "reentry"),
    }
)
"""The words that are carried out for any decider: cash, costs, the benchmark, and what ends positions."""
_SCHEDULES = ("every", "week_start", "month_start", "quarter_start")
_NAMED = ("equal_slots", "equal_weight", "weights")
_SIZES = ("percent", "cash", "shares", "weights")
_AMOUNTS = ("amount", "percent", "shares")
_ON = ("schedule", "rise", "fall")
_NUMBERED = {"weekdays": 7, "months": 12, "sessions": 23}
"""Days without purchases: the largest number of each kind."""
_LONGEST_CODE = 32
_SIGNS = {"stop_loss": -1, "trailing_stop": -1, "take_profit": 1}
_MOST = 10**9
"""Largest number that is not a fraction of something."""
_MOST_CASH = 10**15
_WINDOW = 14
"""Default of the sessions of an average true range."""
_Number: TypeAlias = Decimal | float | str


class _PlanPart:
    """Words as plain JSON, and the levels of those that end a position; the base of two dataclasses."""

    __dataclass_fields__: ClassVar[dict[str, Field[Any]]]

    def _check(self, where: str) -> None:
        """Read the values that are set, and refuse a value outside of its range."""
        for name in self.__dataclass_fields__:
            value = getattr(self, name)
            if value is not None:
                object.__setattr__(self, name, _CHECKS[name](f"{where}.{name}", value))
        if len(self._windows) > 1:
            raise _bad(f"{where}.window", sorted(self._windows), "one for all average true ranges")

    @classmethod
    def of(cls, values: Mapping[str, Any]) -> Self:
        """Read plain JSON, as :meth:`to_json` gives it; ``BadOption`` for an unknown word or a bad value."""
        known = tuple(cls.__dataclass_fields__)
        for word in values:
            _one_of("a word of the plan", word, known)
        return cls(**values)

    def to_json(self) -> dict[str, Any]:
        """The values that differ from the defaults, plain JSON with exact numbers as text."""
        defaults = {name: each.default for name, each in self.__dataclass_fields__.items()}
        values = {name: getattr(self, name) for name in defaults}
        return {name: _plain(value) for name, value in values.items() if value != defaults[name]}

    @property
    def _levels(self) -> dict[str, Any]:
        values = {name: getattr(self, name) for name in _SIGNS}
        return {name: far for name, far in values.items() if far is not None}

    @cached_property
    def changes(self) -> dict[str, Decimal]:
        """How far each of its levels is from the price that it is counted from: below 0 for a stop."""
        return {name: _SIGNS[name] * far for name, far in self._levels.items() if isinstance(far, Decimal)}

    @cached_property
    def ranges(self) -> dict[str, Decimal]:
        """The same in average true ranges."""
        levels = self._levels.items()
        return {name: _SIGNS[name] * far["atr"] for name, far in levels if isinstance(far, Mapping)}

    @property
    def window(self) -> int:
        """Sessions of the average true range."""
        return next(iter(self._windows), _WINDOW)

    @property
    def _windows(self) -> set[int]:
        return {int(far["window"]) for far in self._levels.values() if isinstance(far, Mapping)}

    @property
    def needs_range(self) -> bool:
        """Whether it reads the high and the low of sessions."""
        return bool(self.changes or self.ranges)


@dataclass(frozen=True, kw_only=True)
class ExitRule(_PlanPart):
    """How one position ends: the broker sells when a level is reached, see ``docs/execution-semantics.md``.

    A :class:`Decision` gives one for a symbol, in place of the plan's exits: for the position that is there
    after the session's orders, until it ends or gets another. It counts from that session on, after its
    open, and takes back no exit that was reached before. A rule that says nothing lets the position be.

    Attributes
    ----------
    symbol
        ``ts_code``.
    stop_loss, take_profit, trailing_stop, max_holding
        As in :class:`TradePlan`. Average true ranges are of the close before the rule was set.
    basis
        Price of the session in which it is set that stop and target are counted from; dividends and splits
        move it. Default: the average fill price.

    Raises
    ------
    BadOption
        If a value is not of its range; its parameter is ``exits.NAME``.

    Examples
    --------
    >>> ExitRule(symbol="600519.SH", stop_loss=0.08).to_json()
    {'symbol': '600519.SH', 'stop_loss': '0.08'}
    """

    symbol: str
    stop_loss: _Number | Mapping[str, Any] | None = None
    take_profit: _Number | Mapping[str, Any] | None = None
    trailing_stop: _Number | Mapping[str, Any] | None = None
    max_holding: int | None = None
    basis: Decimal | None = None

    def __post_init__(self) -> None:
        self._check("exits")


@dataclass(frozen=True, kw_only=True)
class TradePlan(_PlanPart):
    """How much is bought, how many positions there are, when, and how they end; None is the default.

    The signal rule carries out sizes and schedules; the broker carries out exits, for any decider. See
    ``docs/execution-semantics.md``. Fractions of the equity are of the *investable* equity at the open:
    cash, dividends on their way and holdings, less ``cash_reserve``.

    Attributes
    ----------
    size
        Cash of an entry: ``"equal_slots"``, the equity over ``max_positions`` (the default);
        ``"equal_weight"``, the equity over all that is held, which is sized again on ``trade_on``;
        ``{"percent": 0.3}`` of the equity; ``{"cash": 20000}``, fees included; ``{"shares": 500}``;
        ``{"weights": {"600519.SH": 0.5}}`` of the equity, other symbols are not bought; ``"weights"``, as the
        rows of the data's weights say.
    max_positions
        Largest number of positions. Default: as many as have a signal, at most 10; with weights as many as
        have one.
    rank
        Field by which entries are taken where there is not room for all, ``"ohlcv.amount"``: highest first,
        ``"-ohlcv.amount"``: lowest first. Default: by code.
    accumulate
        Buys more of what is held: one of ``amount`` (cash), ``percent`` (of the equity) and ``shares``, with
        ``on``: ``"schedule"`` (``trade_on``), or ``"rise"`` or ``"fall"`` with ``by``, the fraction from the
        last purchase's price to a close; ``times``, at most so often in a position. On schedule it is the
        size of the entry, too, if it has none.
    rebalance
        When holdings are traded to their size, as ``trade_on``.
    band
        How far the fraction of a holding may be from its size before it is traded, in [0, 1).
    trade_on
        When it buys, and sells by the signal: ``every`` session, the first of a week, month or quarter, or
        every n-th session of the run. The last 1 or -1 since the time before counts.
    exit_on
        When it sells by the signal: on ``trade_on``, or in ``every`` session.
    entry_row
        Which row buys on ``trade_on``: ``any``, the last 1 or -1 since the time before; or the ``last``.
    no_entry_on
        Days at whose open nothing is bought: ``weekdays`` (1 is Monday), ``months``, and ``sessions``, the
        n-th of a month by the exchange's calendar, from its end where negative: ``{"sessions": [1, -1]}``.
    cooldown
        Sessions after that of a sale of all shares in which the symbol is not bought; at least 1.
    cash
        Starting cash of a run whose caller names none, in whole cents.
    cash_reserve
        Fraction of the equity that stays in cash, in [0, 1).
    stop_loss
        Loss, as a fraction of the average fill price, that sells a position, in (0, 1); or ``{"atr": 2}``, so
        many average true ranges of the close before the entry, over 14 sessions or a ``window``.
    take_profit
        The same of a gain, above 0.
    trailing_stop
        Fraction below the highest close since the entry at which it is sold, in (0, 1); or average true
        ranges of the close before each session.
    max_holding
        Sessions after the entry until it is sold, at the open of the last; at least 1.
    min_holding
        Sessions after the entry until a signal may sell it, at the open of the last at the earliest; at
        least 1.
    commission
        Fraction of a fill's amount that the broker takes, in [0, 0.003], in place of the rulebook's; taxes
        and the exchange's fees are added.
    slippage_bps
        Slippage of a fill in hundredths of a percent of its amount, in place of the rulebook's.
    benchmark
        Index or symbol of the source that the result is compared with, ``000300.SH``. Default: the index
        that is traded.
    reentry
        When the signal rule buys a symbol again that the plan has sold: ``new_signal``, on a 1 after
        another row than 1 (the row that the sale's session knew counts), or ``any``.

    Raises
    ------
    BadOption
        If a value is not of its range; its parameter is ``plan.NAME``.

    Examples
    --------
    >>> TradePlan(size={"percent": 0.3}, stop_loss=0.08, max_holding=20).to_json()
    {'size': {'percent': '0.3'}, 'stop_loss': '0.08', 'max_holding': 20}
    """

    size: str | Mapping[str, Any] | None = None
    max_positions: int | None = None
    rank: str | None = None
    accumulate: Mapping[str, Any] | None = None
    rebalance: Schedule | None = None
    band: _Number | None = None
    trade_on: Schedule = "every"
    exit_on: ExitOn = "trade_on"
    entry_row: EntryRow = "any"
    no_entry_on: Mapping[str, Sequence[int]] | None = None
    cooldown: int | None = None
    cash: _Number | None = None
    cash_reserve: _Number | None = None
    stop_loss: _Number | Mapping[str, Any] | None = None
    take_profit: _Number | Mapping[str, Any] | None = None
    trailing_stop: _Number | Mapping[str, Any] | None = None
    max_holding: int | None = None
    min_holding: int | None = None
    commission: _Number | None = None
    slippage_bps: _Number | None = None
    benchmark: str | None = None
    reentry: Reentry = "new_signal"

    def __post_init__(self) -> None:
        self._check("plan")
        kind = next(iter(self.size)) if isinstance(self.size, Mapping) else ""
        if self.size == "weights" and self.max_positions is not None:
            raise _bad(
                "plan.max_positions",
                self.max_positions,
                "left out: each row of the weights says what is held",
            )
        if self.rebalance is not None and kind in {"cash", "shares"}:
            raise _bad("plan.rebalance", self.rebalance, f"a fraction of the equity as size, not {kind}")
        if self.band is not None and not self.resizes:
            raise _bad("plan.band", self.band, "with rebalance, or with size equal_weight or weights")
        if self.accumulate is not None and self.resizes:
            raise _bad(
                "plan.accumulate", dict(self.accumulate), "without rebalance, equal_weight and weights"
            )

    @property
    def exits(self) -> bool:
        """Whether it ends positions."""
        return self.needs_range or self.max_holding is not None

    def exit_rule(self, symbol: str) -> ExitRule:
        """The exits of each position without a rule of its own."""
        words = {name: getattr(self, name) for name in (*_SIGNS, "max_holding")}
        return ExitRule(symbol=symbol, **words)

    @property
    def follows(self) -> bool:
        """Whether the broker follows what each position was bought at, and when it was sold."""
        return self.exits or self.accumulate is not None or self.cooldown is not None

    @property
    def resizes(self) -> bool:
        """Whether holdings are traded to their size."""
        return self.rebalance is not None or self.size in ("equal_weight", "weights")

    @property
    def addition_reason(self) -> str:
        """Why more of a holding is bought, as the ledger has it: ``accumulate fall 5%``."""
        adds = self.accumulate or {}
        by = f" {(100 * adds['by']).normalize():f}%" if "by" in adds else ""
        return f"accumulate {adds.get('on')}{by}"

    def slots(self, traded: int) -> int:
        """The largest number of positions of so many symbols with a signal."""
        if self.max_positions is not None:
            return self.max_positions
        if isinstance(self.size, Mapping) and "weights" in self.size:
            return max(1, len(self.size["weights"]))
        if self.size == "weights":
            return max(1, traded)
        return max(1, min(traded, MOST_POSITIONS))

    def sizing(self, traded: int) -> tuple[str, Any]:
        """How an entry is sized: a kind of ``size`` with its number, as a fraction where it is one.

        >>> TradePlan().sizing(4), TradePlan(size={"cash": 20_000}).sizing(4)
        (('percent', Fraction(1, 4)), ('cash', Decimal('20000')))
        """
        if isinstance(self.size, Mapping):
            kind, value = next(iter(self.size.items()))
        elif self.size is None and self.accumulate is not None and self.accumulate["on"] == "schedule":
            kind, value = self.addition
        elif self.size in ("equal_weight", "weights"):
            return ("rows" if self.size == "weights" else "equal_weight"), None
        else:
            return "percent", Fraction(1, self.slots(traded))
        if kind == "weights":
            return kind, {symbol: Fraction(weight) for symbol, weight in value.items()}
        return kind, Fraction(value) if kind == "percent" else value

    @property
    def addition(self) -> tuple[str, Decimal]:
        """Kind and number of what :attr:`accumulate` buys; its ``amount`` is the kind ``cash``."""
        values = self.accumulate or {}
        kind = next(name for name in _AMOUNTS if name in values)
        return "cash" if kind == "amount" else kind, values[kind]


def _plain(value: object) -> Any:
    if isinstance(value, Mapping):
        return {name: _plain(part) for name, part in value.items()}
    if isinstance(value, tuple):
        return list(value)
    return f"{value.normalize():f}" if isinstance(value, Decimal) else value


def _bad(name: str, value: object, valid: str, guess: str = "") -> BadOption:
    values = name.removeprefix("plan.").removeprefix("exits.")
    return BadOption(f"{values}={value!r}; {guess}must be {valid}", parameter=name)


def _one_of(name: str, value: object, valid: Collection[str], more: str = "") -> str:
    """The word, if it is valid; the error has the nearest one."""
    if isinstance(value, str) and value in valid:
        return value
    near = difflib.get_close_matches(str(value).lower(), valid, n=1)
    guess = f"did you mean {near[0]}? It " if near else ""
    raise _bad(name, value, f"{', '.join(valid)}{more}", guess)


def _fraction(interval: str) -> Callable[[str, Any], Decimal]:
    """A check for a number in an interval between 0 and 1, such as ``(0, 1]``, or of any above 0."""

    def check(name: str, value: Any) -> Decimal:
        number = to_decimal(value, name=name)
        above = number > 0 or (number == 0 and interval[0] == "[")
        most = _MOST if interval == "(0," else 1
        below = number < most or (number == most and interval[-1] != ")")
        if not (above and below):
            of_any = f"a fraction above 0, at most {_MOST:,}"
            valid = of_any if interval == "(0," else f"a fraction in {interval}, 0.08 for 8 %"
            raise _bad(name, value, valid)
        return number

    return check


def _far(interval: str) -> Callable[[str, Any], Any]:
    """A check for a fraction, or for a number of average true ranges."""

    def check(name: str, value: Any) -> Any:
        if not isinstance(value, Mapping):
            return _fraction(interval)(name, value)
        for word in value:
            _one_of(f"a word of {name}", word, ("atr", "window"))
        if "atr" not in value:
            raise _bad(name, dict(value), '{"atr": 2}')
        return {
            "atr": _fraction("(0,")(f"{name}.atr", value["atr"]),
            "window": _whole(f"{name}.window", value.get("window", _WINDOW)),
        }

    return check


def _whole(name: str, value: Any) -> int:
    if not is_whole(value) or value < 1:
        raise _bad(name, value, "a whole number >= 1")
    return int(value)


def _schedule(name: str, value: Any) -> Schedule:
    if is_whole(value):
        return _whole(name, value)
    return cast("Schedule", _one_of(name, value, _SCHEDULES, " or a number of sessions"))


def _no_entry_on(name: str, value: Any) -> dict[str, tuple[int, ...]]:
    """Numbers of days by kind, those from the end of a month last."""
    if not isinstance(value, Mapping) or not value:
        raise _bad(name, value, '{"weekdays": [5], "months": [4, 8], "sessions": [1, -1]}')
    for kind, numbers in value.items():
        most = _NUMBERED[_one_of(f"a word of {name}", kind, _NUMBERED)]
        listed = numbers if isinstance(numbers, list | tuple) else ()
        least = -most if kind == "sessions" else 1
        if not listed or not all(is_whole(each) and each and least <= each <= most for each in listed):
            without_0 = " without 0" if least < 0 else ""
            raise _bad(
                f"{name}.{kind}", numbers, f"a list of whole numbers from {least} to {most}{without_0}"
            )
    return {
        kind: tuple(sorted({int(each) for each in value[kind]}, key=lambda each: (each < 0, each)))
        for kind in _NUMBERED
        if kind in value
    }


def _amount(name: str, value: Any) -> Decimal:
    number = to_decimal(value, name=name)
    if not 0 < number <= _MOST_CASH or number % CENT:
        raise _bad(name, value, f"an amount above 0 in whole cents, at most {_MOST_CASH:,}")
    return number


def _above_0(name: str, value: Any) -> Decimal:
    number = to_decimal(value, name=name)
    if not 0 < number <= _MOST:
        raise _bad(name, value, f"a number above 0, at most {_MOST:,}")
    return number


def _weights(name: str, value: Any) -> dict[str, Decimal]:
    if not isinstance(value, Mapping) or not value:
        raise _bad(name, value, "a fraction by symbol, {'600519.SH': 0.5}")
    weights = {str(symbol): _fraction("[0, 1]")(f"{name}[{symbol}]", part) for symbol, part in value.items()}
    if sum(weights.values()) > 1:
        raise BadOption(f"weights add up to {sum(weights.values()):f}; must be at most 1", parameter=name)
    return weights


def _cost(most: str) -> Callable[[str, Any], Decimal]:
    """A check for a number from 0 to the largest."""

    def check(name: str, value: Any) -> Decimal:
        number = to_decimal(value, name=name)
        if not 0 <= number <= Decimal(most):
            raise _bad(name, value, f"from 0 to {most}")
        return number

    return check


def _code(name: str, value: Any) -> str:
    if not (isinstance(value, str) and value.strip() and value.isprintable() and len(value) <= _LONGEST_CODE):
        raise _bad(name, value, "the code of an index or a symbol, 000300.SH")
    return value.strip()


_OF_A_SIZE: dict[str, Callable[[str, Any], Any]] = {
    "percent": _fraction("(0, 1]"),
    "cash": _amount,
    "amount": _amount,
    "shares": _above_0,
    "weights": _weights,
}


def _size(name: str, value: Any) -> str | dict[str, Any]:
    if not isinstance(value, Mapping):
        return _one_of(name, value, _NAMED, f', or one of {{"{"|".join(_SIZES)}": number}}')
    if len(value) != 1:
        raise _bad(name, dict(value), f"one of {', '.join(_SIZES)}")
    ((kind, number),) = value.items()
    _one_of(name, kind, _SIZES)
    return {kind: _OF_A_SIZE[kind](f"{name}.{kind}", number)}


def _accumulate(name: str, value: Any) -> dict[str, Any]:
    if not isinstance(value, Mapping):
        raise _bad(name, value, '{"amount": 5000, "on": "schedule"}')
    for word in value:
        _one_of(name, word, (*_AMOUNTS, "on", "by", "times"))
    kinds, on = [kind for kind in _AMOUNTS if kind in value], value.get("on", "schedule")
    if len(kinds) != 1:
        raise _bad(name, dict(value), f"with one of {', '.join(_AMOUNTS)}")
    _one_of(f"{name}.on", on, _ON)
    if (on == "schedule") == ("by" in value):
        raise _bad(name, dict(value), "with by, a fraction such as 0.05, on rise and fall, and there alone")
    values = {kinds[0]: _OF_A_SIZE[kinds[0]](f"{name}.{kinds[0]}", value[kinds[0]]), "on": on}
    if "by" in value:
        values["by"] = _fraction("(0," if on == "rise" else "(0, 1)")(f"{name}.by", value["by"])
    return values | ({"times": _whole(f"{name}.times", value["times"])} if "times" in value else {})


def _rank(name: str, value: Any) -> str:
    panel, _, field = str(value).removeprefix("-").partition(".")
    if not isinstance(value, str) or not (panel and field):
        raise _bad(name, value, 'PANEL.FIELD, "ohlcv.amount" for the highest first, "-ohlcv.amount" lowest')
    return value


_CHECKS: dict[str, Callable[[str, Any], Any]] = {
    "size": _size,
    "max_positions": _whole,
    "rank": _rank,
    "accumulate": _accumulate,
    "rebalance": _schedule,
    "band": _fraction("[0, 1)"),
    "trade_on": _schedule,
    "exit_on": lambda name, value: _one_of(name, value, get_args(ExitOn)),
    "entry_row": lambda name, value: _one_of(name, value, get_args(EntryRow)),
    "no_entry_on": _no_entry_on,
    "cooldown": _whole,
    "cash": _amount,
    "cash_reserve": _fraction("[0, 1)"),
    "stop_loss": _far("(0, 1)"),
    "take_profit": _far("(0,"),
    "trailing_stop": _far("(0, 1)"),
    "max_holding": _whole,
    "min_holding": _whole,
    "commission": _cost("0.003"),
    "slippage_bps": _cost("1000"),
    "benchmark": _code,
    "symbol": _code,
    "basis": _above_0,
    "reentry": lambda name, value: _one_of(name, value, get_args(Reentry)),
}
