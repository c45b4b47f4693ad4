"""The facts of a session's open, one table for every decider: renderers differ, facts do not.

All are known at the open: of the session's own bar the open alone is read. Earlier prices are adjusted for
dividends and splits up to today, as those of the tools are; ratios are in percent. What is not known is None.
"""

from __future__ import annotations

import math
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime, timedelta
from decimal import Decimal
from functools import lru_cache
from typing import Any, Final

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.agents.loop._fundamentals import fundamental_data, indicator_days
from quantgraph.broker import DataNeeds, DecisionContext, SessionResult
from quantgraph.broker.accounts import Quantity, mark, value_of
from quantgraph.errors import UnknownSymbol
from quantgraph.llm.messages import escape_markup
from quantgraph.market.money import market_value, to_decimal
from quantgraph.state import Record, View
from quantgraph.tools import ToolContext
from quantgraph.tools.trading import SymbolBars, known_bars

DayContext = DecisionContext | ToolContext
"""What facts are read from, at a session's open: its view, account and rulebook; of a run its history."""

NEEDS: Final = DataNeeds(sessions=260, indicators=("pe_ttm",), records=("name", "news", "filing", "action"))
"""A year of bars, in which the slowest usual indicators become stable, and what else the facts read."""

HORIZONS: Final = (1, 5, 20, 60)
"""Sessions of the past returns."""

_MONTH, _YEAR = 20, 252
_CLOSES, _RECENT = 7, 30
_NEWS_DAYS: Final = 14


@dataclass(frozen=True, kw_only=True)
class SymbolFacts:
    """What is known of a symbol.

    Attributes
    ----------
    name
        "" where the data have none.
    held, sellable, average_cost, since
        Shares, those that may be sold today, what one cost with fees, and the session of the first.
    value, weight
        Of what is held, at the open or the last price before, and its share of the account in percent.
    open, last_close
        Today's open, and the close of the last session that is over.
    closes
        Up to seven of the last 30 sessions, oldest first.
    returns
        In percent, by the sessions of :data:`HORIZONS`, those of the data, whether the symbol has a bar there
        or not: it counts with its last close before; None where it has none so early.
    volatility
        Standard deviation of the daily returns of the last 20 of these sessions, in percent, with n - 1.
    volume_ratio
        Volume of the last session over the mean of its bars in the last 20, that one among them.
    least_shares, least_buy
        The smallest buy, and what it costs at the open, without fees.
    fundamentals
        See :func:`.fundamental_data`.
    price_earnings, dividend_yield
        Of them: where the data have filings and dividends, or daily indicators; the yield in percent.
    price_earnings_day
        ``YYYY-MM-DD`` of an indicator from before the eve, else None.
    range_place
        Where the last close lies between the low (0) and the high (100) of the last 252 sessions.
    """

    symbol: str
    name: str
    held: Quantity
    sellable: Quantity
    average_cost: float | None
    since: pd.Timestamp | None
    value: float
    weight: float
    open: float | None
    last_close: float | None
    closes: Sequence[float]
    returns: Mapping[int, float | None]
    volatility: float | None
    volume_ratio: float | None
    least_shares: Quantity | None
    least_buy: float | None
    fundamentals: Mapping[str, float | None]
    price_earnings_day: str | None
    range_place: float | None

    @property
    def price_earnings(self) -> float | None:
        return self.fundamentals["pe_ratio"]

    @property
    def dividend_yield(self) -> float | None:
        return self.fundamentals["dividend_yield"]


@dataclass(frozen=True, kw_only=True)
class AccountFacts:
    """What the account is worth at the open, and what became of it since the run's first session, in percent.

    ``equal_parts`` is what the same money would have gained in equal parts of all symbols that had an open in
    that session, bought there without costs and kept, dividends in the shares that paid them: the mean of
    ``price now / price then - 1``, at today's open or the last close before. Both are None on the first day.
    """

    cash: Decimal
    value: Decimal
    started: pd.Timestamp | None = None
    own_return: float | None = None
    equal_parts: float | None = None


@dataclass(frozen=True, kw_only=True)
class Headline:
    """A news item, once for all symbols that it is of; ``named`` are those that its title or text names.

    ``text`` is its description, "" where that says no more than the title.
    """

    day: str
    title: str
    text: str
    symbols: tuple[str, ...]
    named: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class OpenFacts:
    """The table: symbols in the order in which they were asked for, the account, the news newest first."""

    session: pd.Timestamp
    symbols: Mapping[str, SymbolFacts]
    account: AccountFacts
    news: tuple[Headline, ...] = ()


def facts_at_open(
    context: DayContext,
    symbols: Iterable[str] | None = None,
    *,
    tools: ToolContext | None = None,
    news: int = 0,
    news_days: int = _NEWS_DAYS,
) -> OpenFacts:
    """Return the facts of a session's open.

    Parameters
    ----------
    context
        Of a decision, or of the tools that serve one, which know no run.
    symbols
        Default: all that can be traded.
    tools
        Where bars that are read stay, for the tools of the decision.
    news, news_days
        Headlines of a symbol at most, and of how many days; see :func:`headlines`.
    """
    own = context if isinstance(context, ToolContext) else None
    tools = tools or own or ToolContext(context.view, context.account)
    view, account = context.view, context.account
    listed = tuple(tools.symbols if symbols is None else symbols)
    marks, names = mark(account, view, at="open"), view.names()
    total, fundamentals = value_of(account, marks), fundamental_data(view, listed)
    sessions = view["ohlcv"].frozen("close").sessions
    calendar = sessions[: np.searchsorted(sessions, view.moment.session.to_datetime64())]
    eve = str(calendar[-1].astype("datetime64[D]")) if len(calendar) else ""
    ages = indicator_days(view, listed, "pe_ttm")
    found = {}
    for symbol in listed:
        position, bars = account.positions.get(symbol), known_bars(tools, symbol)
        price = _open_of(tools, symbol)
        value = market_value(marks[symbol].price, position.quantity) if position else Decimal()
        least = _least_shares(context, symbol) if price else None
        found[symbol] = SymbolFacts(
            symbol=symbol,
            name=names.get(symbol, ""),
            held=position.quantity if position else 0,
            sellable=position.sellable if position else 0,
            average_cost=float(position.average_cost) if position else None,
            since=position.entered if position else None,
            value=float(value),
            weight=float(100 * value / total) if total else 0.0,
            open=price,
            least_shares=least,
            least_buy=None if least is None or price is None else float(least) * price,
            fundamentals=fundamentals[symbol],
            price_earnings_day=day if (day := ages.get(symbol)) and day < eve else None,
            **_of_bars(bars, calendar),
        )
    told = _account_facts(context, tools, total)
    shown = headlines(view, listed, most=news, days=news_days) if news else ()
    return OpenFacts(session=view.moment.session, symbols=found, account=told, news=shown)


def _least_shares(context: DayContext, symbol: str) -> Quantity | None:
    try:
        return context.rules.lots(symbol, context.view.moment.session.date()).first
    except UnknownSymbol:
        return None


def _open_of(tools: ToolContext, symbol: str) -> float | None:
    quote = tools.quotes.get(symbol)
    return quote.open if quote and 0 < quote.open < math.inf else None


def _of_bars(bars: SymbolBars, calendar: NDArray[np.datetime64]) -> dict[str, Any]:
    """What the complete sessions of a symbol tell, counted by those of the data: for all symbols alike."""
    closes, volumes = bars.values["close"], bars.values["volume"] / bars.values["factor"]
    known = np.concatenate(([math.nan], closes))[np.searchsorted(bars.sessions, calendar, side="right")]
    month, year, recent = (_last_sessions(bars, calendar, count) for count in (_MONTH, _YEAR, _RECENT))
    steps = known[-_MONTH:] / known[-_MONTH - 1 : -1] - 1 if len(known) > _MONTH else np.empty(0)
    is_fresh = month.any() and bars.sessions[-1] == calendar[-1]
    mean = float(np.mean(volumes[month])) if is_fresh and known.size >= _MONTH else math.nan
    is_year = year.any() and len(calendar) >= _YEAR and bars.sessions[0] <= calendar[-_YEAR]
    high, low = (bars.values[name][year] for name in ("high", "low"))
    top, bottom = (float(np.max(high)), float(np.min(low))) if is_year else (math.nan, math.nan)
    return {
        "last_close": _known(closes[-1]) if len(closes) else None,
        "closes": tuple(closes[recent][-_CLOSES:].tolist()),
        "returns": {
            count: _known(100 * (known[-1] / known[-1 - count] - 1)) if len(known) > count else None
            for count in HORIZONS
        },
        "volatility": _known(100 * float(np.std(steps, ddof=1))) if len(steps) else None,
        "volume_ratio": _known(volumes[-1] / mean) if mean > 0 else None,
        "range_place": _known(100 * (closes[-1] - bottom) / (top - bottom)) if top > bottom else None,
    }


def _last_sessions(bars: SymbolBars, calendar: NDArray[np.datetime64], count: int) -> NDArray[np.bool_]:
    """Which bars are of the last so many sessions of the data."""
    return bars.sessions >= (calendar[-count:][0] if len(calendar) else np.datetime64("NaT"))


def _known(number: float) -> float | None:
    return float(number) if math.isfinite(number) else None


def _account_facts(context: DayContext, tools: ToolContext, total: Decimal) -> AccountFacts:
    history = context.history if isinstance(context, DecisionContext) else ()
    now = AccountFacts(cash=context.account.cash, value=total)
    if not history:
        return now
    first = history[0]
    start = first.session.to_datetime64()
    opens = {symbol: known_bars(tools, symbol).opened(start) for symbol in tools.symbols}
    worth = _worth_at_start(first, context.view)
    gains = [_price_now(tools, symbol) / then - 1 for symbol, then in opens.items() if then is not None]
    return AccountFacts(
        cash=now.cash,
        value=total,
        started=first.session,
        own_return=float(100 * (total / worth - 1)) if worth else None,
        equal_parts=100 * math.fsum(gains) / len(gains) if gains else None,
    )


def _worth_at_start(first: SessionResult, view: View) -> Decimal:
    """What the account was worth at the open of a run's first session, before its orders.

    What had no open there counts with what it cost.
    """
    cash, held = first.account.cash, {name: each.quantity for name, each in first.account.positions.items()}
    for fill in first.fills:
        cash -= fill.cash_change
        bought = fill.quantity if fill.side == "buy" else -fill.quantity
        held[fill.order.symbol] = held.get(fill.order.symbol, 0) - bought
    costs = {name: float(each.average_cost) for name, each in first.account.positions.items()}
    opens = view.numbers("ohlcv", "open", first.session)
    prices = {name: opens[name] if opens[name] > 0 else costs.get(name, 0.0) for name in held}
    worths = (market_value(to_decimal(prices[name]), count) for name, count in held.items() if count)
    return cash + first.account.owed + sum(worths, Decimal())


def _price_now(tools: ToolContext, symbol: str) -> float:
    return _open_of(tools, symbol) or float(known_bars(tools, symbol).values["close"][-1])


def headlines(view: View, symbols: Sequence[str], *, most: int, days: int) -> tuple[Headline, ...]:
    """Return the headlines of symbols, newest first, each story once: at most so many of each symbol.

    Titles that differ by case, punctuation and a source behind a dash are one story, shown as its newest.
    Those that name the symbol come before others, then newer ones before older: by its code, by the name that
    the data have, else by the word that news put before its code, as in ``Boeing (NYSE:BA)``. The view knows
    which are surely published: those of the session's own day only if it was asked for them. The last of the
    ``days`` is that of the session before: on a Monday what is of Friday and the weekend counts as one.
    """
    before = view["ohlcv"].frozen("close").sessions[-1:]
    eve = pd.Timestamp(before[0]) if len(before) else view.moment.session - timedelta(days=1)
    since = (eve - timedelta(days=days - 1)).to_pydatetime()
    items: defaultdict[str, list[tuple[datetime, str, str, str]]] = defaultdict(list)
    for symbol in symbols:
        for record in reversed(view.records("news", symbol)):
            if record.instant is None or record.instant < since:
                break
            title, text = _words_of(record)
            items[_story(title)].append((record.instant, text, title, symbol))
    items.pop("", None)
    newest = {key: max(each) for key, each in items.items()}
    order = sorted(items, key=lambda key: (-newest[key][0].timestamp(), key))
    words = {key: f"{title} {text}" for key, (_, text, title, _) in newest.items()}
    stories: dict[str, list[str]] = {symbol: [] for symbol in symbols}
    for key in order:
        for symbol in {each[3] for each in items[key]}:
            stories[symbol].append(key)
    names, shown, naming = view.names(), set[str](), dict[str, set[str]]()
    for symbol, own in stories.items():
        code = symbol.partition(".")[0]
        found = _naming(code, names.get(symbol) or _name_in([words[key] for key in own], code))
        naming[symbol] = {key for key in own if found.search(words[key])}
        shown.update(sorted(own, key=lambda key: key not in naming[symbol])[:most])
    told = []
    for key in filter(shown.__contains__, order):
        of, (instant, text, title, _) = {each[3] for each in items[key]}, newest[key]
        own_symbols = tuple(sorted(of, key=symbols.index))
        named = tuple(symbol for symbol in own_symbols if key in naming[symbol])
        told.append(
            Headline(day=f"{instant:%Y-%m-%d}", title=title, text=text, symbols=own_symbols, named=named)
        )
    return tuple(told)


_SUFFIX = re.compile(r"(.{12,})\s[-–—|]\s+[A-Z\u4e00-\u9fff][^\d–—|]{1,29}")
"""A title and its source, as in ``… - Reuters``."""


def _story(title: str) -> str:
    """What versions of one title have in common: its words, in lower case, without its source."""
    found = _SUFFIX.fullmatch(title)
    return " ".join(re.findall(r"\w+", (found[1] if found else title).casefold()))


_AS_WORD = ("[(:$] ?{0}(?![A-Za-z0-9])", "(?<![A-Za-z0-9]){0}(?![A-Za-z0-9])")
"""A code in a text; one of a single letter only as ``(V)``, ``:V`` or ``$V``."""
_LEGAL = "Companies|Company|Co|Corporation|Corp|Group|Incorporated|Inc|International"


@lru_cache(maxsize=1 << 14)  # every session reads the news of the same symbols
def _naming(code: str, name: str) -> re.Pattern[str]:
    """What names a symbol in a text: its code, or its name unless that is ""."""
    return re.compile(f"{_AS_WORD[len(code) > 1].format(re.escape(code))}{name and f'|{re.escape(name)}'}")


def _name_in(texts: Sequence[str], code: str) -> str:
    """The word that texts most often put before a code in brackets; "" if none does."""
    counts = Counter(word for text in texts for word in _before(code).findall(text))
    return max(counts, key=lambda word: (counts[word], word), default="")


@lru_cache(maxsize=1 << 14)
def _before(code: str) -> re.Pattern[str]:
    name = rf"(?!(?:{_LEGAL})\b)([A-Z][\w-]*[a-z])(?:['’]s|\.com)?"
    return re.compile(rf"{name},?(?: (?:{_LEGAL})\.?)* ?\((?:[A-Za-z]+: ?)?{re.escape(code)}\)")


def _words_of(record: Record) -> tuple[str, str]:
    """A news item's title and its description, "" where that says no more."""
    body = record.body if isinstance(record.body, Mapping) else {"title": str(record.body or "")}
    parts = (body.get(name) for name in ("title", "description"))
    title, *more = dict.fromkeys(
        line for part in parts if isinstance(part, str) and (line := escape_markup(part))
    ) or [""]
    return title, "".join(more)
