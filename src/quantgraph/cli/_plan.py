"""The options of a trade plan: sizes, sessions and exits, as people write them."""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.broker import TradePlan

_PANEL = "Trade plan"


def _option(metavar: str, text: str) -> Any:
    return typer.Option(metavar=metavar, help=text, rich_help_panel=_PANEL, show_default=False)


Size = Annotated[
    str | None,
    _option(
        "30%|20000|500shares",
        "Size of a purchase: of the account, cash, shares, equal_weight, CODE=50%,CODE=30%, or weights, as "
        "those of --strategy. Default: the account over --max-positions.",
    ),
]
MaxPositions = Annotated[
    int | None, _option("N", "Largest number of positions. Default: the symbols, at most 10.")
]
Rank = Annotated[
    str | None,
    _option("[-]FIELD", "Buy the highest ohlcv.amount first, or with - the lowest. Default: by code."),
]
Accumulate = Annotated[
    str | None,
    _option("5000", "Buy more of what is held at each --trade-on; or '20% rise 5%', '500shares fall 5% 3'."),
]
TradeOn = Annotated[
    str | None,
    _option("month_start", "Trade on week_start, month_start, quarter_start, or every N sessions."),
]
Rebalance = Annotated[str | None, _option("month_start", "Trade holdings back to their size then.")]
Band = Annotated[str | None, _option("5%", "Leave holdings alone that are off by less.")]
CashReserve = Annotated[str | None, _option("10%", "Part of the account that stays in cash.")]
StopLoss = Annotated[
    str | None, _option("8%|2atr", "Sell at this loss from the mean fill price, or average true ranges.")
]
TakeProfit = Annotated[str | None, _option("20%|3atr", "Sell at this gain from the mean fill price.")]
TrailingStop = Annotated[str | None, _option("10%|3atr", "Sell so far below the highest close since.")]
Commission = Annotated[
    str | None, _option("0.03%", "Commission of each fill, of its amount. Default: the market's.")
]
SlippageBps = Annotated[
    str | None, _option("BPS", "Slippage of each fill, in hundredths of a percent of its amount.")
]
Benchmark = Annotated[str | None, _option("CODE", "Index or symbol to compare with, such as 000300.SH.")]
MaxHolding = Annotated[int | None, _option("N", "Sell at the open, N sessions after the entry.")]

_WEIGHT = re.compile(r"([^=,\s]+)=([^,\s]+)")  # "600519.SH=0.5"
_RANGES = re.compile(r"(\d+(?:\.\d+)?)\s*x?\s*atr(?:\((\d+)\))?")  # "2x atr(14)"
_ADDED = re.compile(r"(\S+?)(?:\s+(rise|fall)\s+(\S+))?(?:\s+(\d+))?")  # "1000 fall 5% 3"


def plan_of(**options: str | int | None) -> TradePlan | None:
    """The plan of the options; None without any. ``8%`` is 0.08; ``BadOption`` names the valid forms."""
    from quantgraph.broker import TradePlan

    parts = {name: _read(name, value) for name, value in options.items() if value is not None}
    return TradePlan(**parts) if parts else None


def _read(name: str, value: Any) -> Any:
    reader: Callable[[str, Any], Any] = _READ.get(name, _fraction)
    return reader(name, value)


def _unreadable(name: str, value: object, valid: str) -> BadOption:
    return BadOption(f"--{name.replace('_', '-')} {value}: must be {valid}", parameter=name)


def _number(name: str, text: str, valid: str) -> Decimal:
    try:
        return Decimal(text.removesuffix("%")) / (100 if text.endswith("%") else 1)
    except ArithmeticError as error:
        raise _unreadable(name, text, valid) from error


def _fraction(name: str, value: Any) -> Decimal:
    return _number(name, value, "a share, such as 8% or 0.08")


def _far(name: str, value: Any) -> Any:
    found = _RANGES.fullmatch(value.strip().lower())
    if found is None:
        return _number(name, value, "a share, such as 8% or 0.08, or average true ranges, 2atr or 2atr(20)")
    return {"atr": Decimal(found[1])} | ({"window": int(found[2])} if found[2] else {})


def _as_is(name: str, value: Any) -> Any:  # noqa: ARG001 - as the others
    return value


def _schedule(name: str, value: Any) -> str | int:  # noqa: ARG001 - as the others
    return int(value) if value.isdecimal() else str(value)


def _size(name: str, value: Any) -> Any:
    if weights := _WEIGHT.findall(value):
        return {"weights": {code: _fraction(name, share) for code, share in weights}}
    return value if value == "weights" or value.startswith("equal") else dict([_amount(name, value, "cash")])


def _amount(name: str, text: str, cash: str) -> tuple[str, Decimal]:
    """The kind of an amount, ``cash`` for a plain number, and the number."""
    valid = "a share such as 30%, cash such as 20000, or 500shares"
    for ending in ("shares", "股"):
        if text.endswith(ending):
            return "shares", _number(name, text.removesuffix(ending).strip(), valid)
    return "percent" if text.endswith("%") else cash, _number(name, text, valid)


def _accumulate(name: str, value: Any) -> dict[str, Any]:
    found = _ADDED.fullmatch(value.strip())
    if found is None:
        raise _unreadable(name, value, "such as 5000, '20% rise 5%' or '500shares fall 5% 3'")
    amount, on, by, times = found.groups()
    parts = dict([_amount(name, amount, "amount")]) | {"on": on or "schedule"}
    return parts | ({"by": _fraction(name, by)} if by else {}) | ({"times": int(times)} if times else {})


_READ: dict[str, Callable[[str, Any], Any]] = {
    "size": _size,
    "max_positions": _as_is,
    "rank": _as_is,
    "accumulate": _accumulate,
    "trade_on": _schedule,
    "rebalance": _schedule,
    "max_holding": _as_is,
    "slippage_bps": _as_is,
    "stop_loss": _far,
    "take_profit": _far,
    "trailing_stop": _far,
    "benchmark": _as_is,
}
