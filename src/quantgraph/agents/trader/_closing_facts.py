"""The numbers that a day's closing text claims, and whether the ledger, the prices or the day explain them.

Dates, times, numbers of a list, digits of codes and names, durations and counts are no claims.
"""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Final, Literal

import pandas as pd

from quantgraph.broker import Account, DecisionContext, Fill
from quantgraph.tools import ModelNumber

Kind = Literal["percent", "shares", "money", "number"]

_MONTH = r"(?:jan|feb|mar|apr|may|jun|jul|aug|sep|sept|oct|nov|dec)[a-z]*\.?"
_COUNTED = (
    "day|week|month|year|quarter|hour|minute|session|step|stock|holding|position|compan|trade|time|round|"
    "symbol|sector|name|point|tool|call|order|reason|key|lot|purchase|sale|action|pick|candidate|leader|"
    "compon|constituent|component|query|quer|search|headline|article|transaction|bp|basis"
)
_MASKS: Final = tuple(
    re.compile(pattern, re.IGNORECASE | re.MULTILINE)
    for pattern in (
        r"https?://\S+",
        r"(?<![\d.,/])\d{1,2}/\d{1,2}/(?:19|20)\d{2}(?!\d)|(?<=[A-Za-z])[(（][\d,， ]{1,20}[)）]",
        r"(?<!\d)\d{4}[-/.]\d{1,2}[-/.]\d{1,2}(?!\d)|(?<![\d.,])(?:19|20)\d{6}(?![\d.,])",
        r"\d{2,4}\s*年(?:\s*\d{1,2}\s*月)?(?:\s*\d{1,2}\s*日)?|\d{1,2}\s*月(?:\s*\d{1,2}\s*[日号])?",
        rf"\b{_MONTH}\s+\d{{1,2}}(?:st|nd|rd|th)?\b(?:,?\s+(?:19|20)\d{{2}})?|\b{_MONTH}\s+(?:19|20)\d{{2}}\b",
        r"\b\d{1,2}(?:st|nd|rd|th)\b",
        r"\b\d{1,2}:\d{2}(?::\d{2})?\b",
        r"(?<![\d.,$¥￥€+\-])(?:19|20)\d{2}(?![\d,%％]|\.\d|\s*(?:shares?|股))(?=\D|$)",
        r"^[ \t*•#>|-]*\(?\d{1,3}[.)、:：](?=\s|\*|[^\d\s])",
        r"[(（]\d{1,2}[)）](?=\s*\w)|(?:\b(?:step|day|phase|rule|note|no\.|number|top|q)|#)\s*\d{1,3}\b(?:\s*(?:of|/)\s*\d+)?",
        r"(?<![\d.,/])(?:0?[1-9]|1[0-2])/(?:[12]\d|3[01]|0?[1-9])(?![\d/])",
        r"第\s*\d+\s*\w",
        r"\b(?:S&P|SSE|CSI|NASDAQ|Nasdaq|Russell|FTSE|STAR|Hang Seng|Dow|Magnificent)[- ]?\d+\b",
        r"(?:沪深|上证|中证|科创|深证|恒生|创业板)\s*\d+",
        r"\b[A-Za-z_&]+[-.]?\d[\w.-]*|\b\d+(?:\.\d+)?[A-Za-z]{3,}\d*\b",
        r"\b\d{6}\.[A-Z]{2}\b",
        rf"(?<![\d.,$¥￥€])\d+(?:\s*[-–~]\s*\d+)?(?:st|nd|rd|th)?[- ](?:\w+[- ]){{0,2}}?(?:{_COUNTED})\w*",
        r"(?<![\d.,])\d+(?:\.\d+)?\s*[x×](?=\W|$)",
        r"(?<![\d.,$¥￥€])\d+(?:\s*[-–~至到]\s*\d+)?\s*"
        r"(?:个(?!百分点)|只|支|家|次|步|笔|项|轮|季|倍|小时|分钟|天|周|日|条|档|手|点)",
    )
)
_NUMBER = re.compile(
    r"(?P<money>(?:US\$|HK\$|\$|¥|￥|€|USD|CNY|RMB|人民币)\s?)?"
    r"(?<![\d.])(?P<digits>\d{1,3}(?:,\d{3})+(?:\.\d+)?|\d+(?:\.\d+)?)(?![\d]|,\d{3})\s?"
    r"(?P<unit>%|％|个百分点|shares?\b|股|万亿|万|亿|thousand\b|million\b|billion\b|trillion\b|[kmb]\b|元)?",
    re.IGNORECASE,
)
_SCALE: Final = {
    "万": 1e4,
    "亿": 1e8,
    "万亿": 1e12,
    "k": 1e3,
    "thousand": 1e3,
    "m": 1e6,
    "million": 1e6,
    "b": 1e9,
    "billion": 1e9,
    "trillion": 1e12,
}
_ABOUT = re.compile(
    r"(?:~|≈|about|around|roughly|approximately|approx\.?|nearly|almost|over|约|大约|近|超过)\s*[$¥￥€]?\s*$",
    re.IGNORECASE,
)
_SMALL = 10
_ROUGHLY = 0.02
_CASH = re.compile(r"cash|现金", re.IGNORECASE)
_BEFORE = 20
_MOST_OF_LINE = 100
"""Numbers that are read of one line."""
_WHOLE = ("percent", 100.0)


@dataclass(frozen=True, kw_only=True)
class ClaimedNumber:
    """A number of a text."""

    written: str
    number: ModelNumber
    kind: Kind
    symbols: frozenset[str] = frozenset()
    is_cash: bool = False
    is_rough: bool = False

    def is_one_of(self, exact: Collection[float]) -> bool:
        """Whether a number is near enough; signs are in words."""
        slack = _ROUGHLY if self.is_rough else 0.0
        value = abs(self.number.value)
        return any(
            self.number.matches(abs(each)) or abs(value - abs(each)) <= slack * abs(each) for each in exact
        )


@dataclass(frozen=True, kw_only=True)
class NumberFacts:
    """What the numbers of a text may be.

    Attributes
    ----------
    money, percents
        Of the whole account: amounts, and shares of a hundred.
    shares_of, money_of, percents_of
        The same by symbol, and numbers of shares.
    known
        Any other numbers that the writer has read.
    main
        Symbols that lines which name none may be about.
    """

    money: Sequence[float] = ()
    percents: Sequence[float] = ()
    shares_of: Mapping[str, Sequence[float]] = field(default_factory=dict)
    money_of: Mapping[str, Sequence[float]] = field(default_factory=dict)
    percents_of: Mapping[str, Sequence[float]] = field(default_factory=dict)
    known: Collection[float] = ()
    main: Collection[str] = ()


def unresolved_numbers(text: str, facts: NumberFacts) -> list[str]:
    r"""Return the numbers of a text that no fact explains, as they are written, each once.

    A number of shares must be one of the shares, and a number in a line that names symbols must be one of
    theirs, of the account's, or one that was read.

    >>> facts = NumberFacts(money=[5596.0], shares_of={"NVDA": [20]}, main=["NVDA"])
    >>> unresolved_numbers("1. Bought NVDA: 25 shares\n2. Cash left: $5,596 (2025-10-15)", facts)
    ['25 shares']
    """
    names = [*{*facts.shares_of, *facts.money_of}]
    anywhere = {*_named(text, names), *facts.main}
    found = []
    for claim in claimed_numbers(text, names):
        symbols = claim.symbols
        if not _is_explained(claim, facts, symbols or anywhere) and not (
            not symbols and claim.kind == "number" and claim.number.value <= _SMALL
        ):
            found.append(claim.written)
    return list(dict.fromkeys(found))


def claimed_numbers(text: str, names: Collection[str] = ()) -> list[ClaimedNumber]:
    """Return the numbers of a text that claim something."""
    return [claim for line in text.splitlines() for claim in _claims(line, names)]


def numbers_in(text: str) -> set[float]:
    """Return all numbers that are written in a text; ``1.5B`` is both 1.5 and 1.5 billions."""
    found = set()
    for each in _NUMBER.finditer(text):
        number = float(each["digits"].replace(",", ""))
        found |= {number, number * _SCALE.get((each["unit"] or "").lower(), 1.0)}
    return found


def _claims(line: str, names: Collection[str]) -> list[ClaimedNumber]:
    masked = line
    for name in _named(line, names):
        for part in (name, name.partition(".")[0]):
            masked = masked.replace(part, " " * len(part))
    for mask in _MASKS:
        masked = mask.sub(lambda found: " " * len(found[0]), masked)
    symbols, is_cash = frozenset(_named(line, names)), bool(_CASH.search(line))
    found = islice(_NUMBER.finditer(masked), _MOST_OF_LINE)
    return [_claim(each, line, symbols, is_cash=is_cash) for each in found]


def _claim(found: re.Match[str], line: str, symbols: frozenset[str], *, is_cash: bool) -> ClaimedNumber:
    digits, unit = found["digits"].replace(",", ""), (found["unit"] or "").lower()
    scale = _SCALE.get(unit, 1.0)
    kind: Kind = "number"
    if unit in ("%", "％", "个百分点"):
        kind = "percent"
    elif unit == "股" or unit.startswith("share"):
        kind = "shares"
    elif found["money"] or unit == "元" or scale != 1:
        kind = "money"
    value = float(digits) * scale
    half_unit = 0.5 * 10.0 ** -len(digits.partition(".")[2]) * scale
    return ClaimedNumber(
        written=found[0].strip(),
        number=ModelNumber(key="", value=value, half_unit=half_unit, words=(), digits=()),
        kind=kind,
        symbols=symbols,
        is_cash=is_cash,
        is_rough=bool(_ABOUT.search(line, max(0, found.start() - _BEFORE), found.start())),
    )


def _is_explained(claim: ClaimedNumber, facts: NumberFacts, symbols: Collection[str]) -> bool:
    if claim.kind != "shares" and (not claim.number.value or (claim.kind, claim.number.value) == _WHOLE):
        return True
    shares = [number for symbol in symbols for number in facts.shares_of.get(symbol, ())]
    if claim.kind == "shares":
        return claim.is_one_of(shares)
    if claim.kind == "percent":
        own = [number for symbol in symbols for number in facts.percents_of.get(symbol, ())]
        fractions = {100 * each for each in facts.known if abs(each) <= 1}
        return claim.is_one_of([*facts.percents, *own]) or claim.is_one_of({*facts.known, *fractions})
    own = [number for symbol in symbols for number in facts.money_of.get(symbol, ())]
    if claim.is_one_of([*facts.money, *own]):
        return True
    if claim.is_cash and not claim.symbols:
        return False  # the account's own
    return (claim.kind == "number" and claim.is_one_of(shares)) or claim.is_one_of(facts.known)


def _named(text: str, names: Collection[str]) -> set[str]:
    """The symbols that a text names, by the code or its part before the dot."""
    words = {*re.findall(r"[A-Za-z0-9]+(?:[.-][A-Za-z0-9]+)*", text), *re.findall(r"[A-Za-z0-9]+", text)}
    return {name for name in names if name in words or name.partition(".")[0] in words}


_MOST = 20


def unexplained_numbers(text: str, context: DecisionContext, answers: Iterable[str]) -> list[str]:
    """Return the numbers of a day's closing text that nothing of the day explains, at most 20."""
    return unresolved_numbers(text, closing_facts(context, answers))[:_MOST] if text else []


def closing_facts(context: DecisionContext, answers: Iterable[str]) -> NumberFacts:
    """Return what a closing text may say: the account, the fills, the prices, and ratios of them."""
    day = _day_of(context)
    totals, gains = _totals(day), _gains(context, day)
    bases = [each for each in (day.worth, float(day.before.cash)) if each]
    shares, money, percents = (defaultdict[str, list[float]](list) for _ in range(3))
    for symbol in {*day.opens, *day.closes, *day.before.positions, *day.after.positions}:
        shares[symbol] += [float(each.quantity(symbol)) for each in (day.before, day.after)]
        prices, costs, values = _amounts(symbol, day)
        others = [*prices, *costs]
        money[symbol] += [*others, *values, *(one - other for one in prices for other in others)]
        percents[symbol] += [100 * (one / other - 1) for one in prices for other in others if other]
        percents[symbol] += [100 * each / day.worth for each in values if day.worth]
    for fill in day.fills:
        symbol, amount = fill.order.symbol, float(fill.notional)
        shares[symbol].append(float(fill.quantity))
        money[symbol] += [float(fill.price), amount, float(fill.cost), float(-fill.cash_change)]
        percents[symbol] += [100 * amount / each for each in bases]
    return NumberFacts(
        money=[*totals, *(base for base, _ in gains), *(gain for _, gain in gains)],
        percents=[
            *(100 * each / base for each in totals for base in bases),
            *(100 * gain / base for base, gain in gains if base),
        ],
        shares_of=shares,
        money_of=money,
        percents_of=percents,
        known={number for answer in answers for number in numbers_in(answer)},
        main={*day.before.positions, *day.after.positions, *(fill.order.symbol for fill in day.fills)},
    )


@dataclass(frozen=True, kw_only=True)
class _Day:
    """The account before and after the day's trades, today's opens and yesterday's closes."""

    before: Account
    after: Account
    fills: list[Fill]
    opens: Mapping[str, float]
    closes: Mapping[str, float]

    def stocks(self, account: Account, *, by_close: bool = False) -> float:
        """What shares are worth, at today's opens or yesterday's closes."""
        first, other = (self.closes, self.opens) if by_close else (self.opens, self.closes)
        return math.fsum(
            float(held.quantity) * first.get(symbol, other.get(symbol, 0.0))
            for symbol, held in account.positions.items()
        )

    @property
    def worth(self) -> float:
        """The value of the account now."""
        return float(self.after.cash) + self.stocks(self.after)


def _day_of(context: DecisionContext) -> _Day:
    view, market = context.view, context.market
    outcomes = [market.submit(order) for order in market.submitted]
    sessions = view["ohlcv"].frozen("close").sessions
    closes = view.numbers("ohlcv", "close", pd.Timestamp(sessions[-1])) if len(sessions) else {}
    return _Day(
        before=context.account,
        after=market.account,
        fills=[each for each in outcomes if isinstance(each, Fill)],
        opens=_known(view.numbers("ohlcv", "open", context.session)),
        closes=_known(closes),
    )


def _totals(day: _Day) -> list[float]:
    """Amounts of the whole account."""
    bought, sold = (
        math.fsum(float(fill.notional) for fill in day.fills if fill.side == side) for side in ("buy", "sell")
    )
    costs = math.fsum(float(fill.cost) for fill in day.fills)
    cash = [float(each.cash) for each in (day.before, day.after)]
    stocks = [day.stocks(day.after), day.stocks(day.before), day.stocks(day.before, by_close=True)]
    return [day.worth, *cash, cash[1] - cash[0], *stocks, bought, sold, bought + sold, bought - sold, costs]


def _gains(context: DecisionContext, day: _Day) -> list[tuple[float, float]]:
    """Earlier values of the account, and what it has gained since."""
    cash = float(day.before.cash)
    values = [cash + day.stocks(day.before), cash + day.stocks(day.before, by_close=True)]
    if context.history:
        first = context.history[0]
        spent = math.fsum(float(fill.cash_change) for fill in first.fills)
        values += [float(context.history[-1].value), float(first.account.cash) - spent]
    return [(value, day.worth - value) for value in values]


def _amounts(symbol: str, day: _Day) -> tuple[list[float], list[float], list[float]]:
    """Prices of a symbol, average costs, and what the shares of it cost, are worth and have gained."""
    prices = [each[symbol] for each in (day.opens, day.closes) if symbol in each]
    costs, values = [], []
    for account in (day.before, day.after):
        held = account.positions.get(symbol)
        if held is not None:
            quantity, cost = float(held.quantity), float(held.average_cost)
            costs.append(cost)
            values += [quantity * cost, *(quantity * price for price in prices)]
            values += [quantity * (price - cost) for price in prices]
    return prices, costs, values


def _known(numbers: Mapping[str, float]) -> dict[str, float]:
    return {symbol: price for symbol, price in numbers.items() if math.isfinite(price)}
