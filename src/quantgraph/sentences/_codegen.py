"""A rule as the source of one cell: plain pandas on the wide frames, TA-Lib for RSI.

Formulas
--------
SMA ``rolling(n).mean()``; EMA ``ewm(span=n, adjust=False)`` over the sessions that have a value, first
first value at the n-th; MACD dif = EMA(fast) - EMA(slow), dea = EMA(signal) of dif; RSI Wilder's, by
TA-Lib on each column's own values; Bollinger SMA plus or minus k population standard deviations; KDJ
from RSV over n sessions, ``K = 2/3 K' + 1/3 RSV`` and ``D = 2/3 D' + 1/3 K`` from 50, ``J = 3K - 2D``.
No row uses a later one.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from quantgraph.rules import number_text
from quantgraph.sentences import _rules as tree
from quantgraph.sentences._describe import describe, lookback_of, name_of, slug


@dataclass(frozen=True, kw_only=True)
class Code:
    """Source of one cell and its needs.

    ``lookback`` is the number of sessions up to and including the first one that can have a signal.
    """

    source: str
    name: str
    lookback: int
    fields: tuple[str, ...]


@dataclass(frozen=True, kw_only=True)
class Watched:
    """The one security that a rule watches while others are traded; an index is a column of the panel ``index``."""

    code: str
    is_index: bool
    traded: tuple[str, ...]


@dataclass(kw_only=True)
class _Cell:
    """The lines of a cell; each value is defined once, under its own name."""

    watched: Watched | None = None
    lines: list[str] = field(default_factory=list)
    known: dict[str, None] = field(default_factory=dict)
    names: set[str] = field(default_factory=set)
    market: dict[tree.OfIndex, str] = field(default_factory=dict)

    def define(self, name: str, *lines: str) -> str:
        if name not in self.names:
            self.names.add(name)
            self.lines.extend(lines)
        return name

    def bar(self, name: str) -> str:
        panel = "index" if self.watched and self.watched.is_index else "ohlcv"
        column = f'[["{self.watched.code}"]]' if self.watched else ""
        return self.define(name, f'{name} = snapshot["{panel}"]["{name}"]{column}')

    def indicator(self, name: str) -> str:
        return self.define(name, f'{name} = snapshot["indicators"]["{name}"].reindex_like(close)')

    def value(self, value: tree.Value) -> str:  # noqa: C901, PLR0911 - one case a node
        """Name of a value's frame, or the text of a constant."""
        match value:
            case tree.Number(value=number):
                return number_text(number)
            case tree.Bar(field=name):
                return self.bar(name)
            case tree.Indicator(field=name):
                return self.indicator(name)
            case tree.Average():
                return self._average(value)
            case tree.Scaled(factor=factor, value=average):
                return f"{number_text(factor)} * {self._average(average)}"
            case tree.Macd():
                return self._macd(value)
            case tree.Rsi(period=period):
                return self._rsi(period)
            case tree.Band():
                return self._band(value)
            case tree.Kdj():
                return self._kdj(value)
            case tree.Return(period=period):
                return self.define(f"return_{period}", f"return_{period} = close / close.shift({period}) - 1")
            case tree.Extreme(side=side, period=period):
                bar, name = self.bar(side), f"{'highest' if side == 'high' else 'lowest'}_{period}"
                how = "max" if side == "high" else "min"
                return self.define(name, f"{name} = {bar}.rolling({period}).{how}().shift(1)")

    def _average(self, average: tree.Average) -> str:
        bar = self.bar(average.field)
        name = f"{'vol_' if average.field == 'vol' else ''}{average.kind}_{average.period}"
        if average.kind == "ema":
            return self._ema(name, bar, average.period)
        return self.define(name, f"{name} = {bar}.rolling({average.period}).mean()")

    def _ema(self, name: str, of: str, period: int) -> str:
        return self.define(
            name,
            f"{name} = {of}.ewm(span={period}, adjust=False, min_periods={period}, ignore_na=True).mean()",
            f"{name} = {name}.where({of}.notna())",
        )

    def _macd(self, macd: tree.Macd) -> str:
        fast, slow = (self._ema(f"ema_{n}", "close", n) for n in (macd.fast, macd.slow))
        dif = self.define(f"dif_{macd.fast}_{macd.slow}", f"dif_{macd.fast}_{macd.slow} = {fast} - {slow}")
        if macd.part == "dif":
            return dif
        return self._ema(f"dea_{macd.fast}_{macd.slow}_{macd.signal}", dif, macd.signal)

    def _rsi(self, period: int) -> str:
        self.define(
            "wilder_rsi",
            "",
            "",
            "def wilder_rsi(prices, period):",
            '    """RSI over the sessions that have a price."""',
            "    known = prices.dropna()",
            "    if len(known) <= period:",
            "        return pd.Series(np.nan, index=prices.index)",
            "    return pd.Series(talib.RSI(known.to_numpy(), period), index=known.index).reindex(prices.index)",
            "",
            "",
        )
        return self.define(f"rsi_{period}", f"rsi_{period} = close.apply(wilder_rsi, period={period})")

    def _band(self, band: tree.Band) -> str:
        middle = self._average(tree.Average(period=band.period))
        if band.side == "middle":
            return middle
        sign, name = ("+", "upper") if band.side == "upper" else ("-", "lower")
        name = f"{name}_{band.period}_{slug(band.width)}"
        spread = f"std_{band.period}"
        self.define(spread, f"{spread} = close.rolling({band.period}).std(ddof=0)")
        return self.define(name, f"{name} = {middle} {sign} {number_text(band.width)} * {spread}")

    def _kdj(self, kdj: tree.Kdj) -> str:
        n, m, d = kdj.period, kdj.smooth_k, kdj.smooth_d
        high, low = self.bar("high"), self.bar("low")
        self.define(
            "smooth_from_50",
            "",
            "",
            "def smooth_from_50(values, sessions):",
            '    """New = old + (value - old) / sessions, starting at 50, over the sessions that have a value."""',
            "    known = values.dropna()",
            "    seeded = pd.Series(np.append(50.0, known.to_numpy()))",
            "    smooth = seeded.ewm(alpha=1 / sessions, adjust=False).mean().to_numpy()[1:]",
            "    return pd.Series(smooth, index=known.index).reindex(values.index)",
            "",
            "",
        )
        rsv = self.define(
            f"rsv_{n}",
            f"floor_{n} = {low}.rolling({n}).min()",
            f"range_{n} = {high}.rolling({n}).max() - floor_{n}",
            f"rsv_{n} = 100 * (close - floor_{n}) / range_{n}.where(range_{n} > 0)",
        )
        k = self.define(f"k_{n}_{m}", f"k_{n}_{m} = {rsv}.apply(smooth_from_50, sessions={m})")
        if kdj.part == "k":
            return k
        d_name = self.define(f"d_{n}_{m}_{d}", f"d_{n}_{m}_{d} = {k}.apply(smooth_from_50, sessions={d})")
        if kdj.part == "d":
            return d_name
        return self.define(f"j_{n}_{m}_{d}", f"j_{n}_{m}_{d} = 3 * {k} - 2 * {d_name}")

    def need(self, *names: str) -> None:
        self.known.update({f"{name}.notna()": None for name in names})

    def condition(self, condition: tree.Condition) -> str:
        """A boolean expression; joined parts are in brackets."""
        match condition:
            case tree.Compare(left=left, op=op, right=right):
                self._need_values(left, right)
                return f"({self.value(left)} {op} {self.value(right)})"
            case tree.Cross():
                return self._cross(condition)
            case tree.Rank():
                return self._rank(condition)
            case tree.OfIndex():
                return self._of_index(condition)
            case tree.Not(part=part):
                return f"~{self.condition(part)}"
            case tree.AllOf(parts=parts):
                return "(" + " & ".join(self.condition(part) for part in parts) + ")"
            case tree.AnyOf(parts=parts):
                return "(" + " | ".join(self.condition(part) for part in parts) + ")"

    def _of_index(self, condition: tree.OfIndex) -> str:
        """The frame of a condition on an index, computed apart: its close is not the stocks'."""
        inner = _Cell()
        inner.define(
            "close", f'close = snapshot["index"]["close"][["{condition.code}"]].reindex(stocks.index)'
        )
        holds = inner.condition(condition.part)
        name = f"market_{len(self.market) + 1}"
        if condition not in self.market:
            self.market[condition] = name
            self.lines += [
                *("", "", f"def {name}(stocks):"),
                f'    """Where {condition.code} has {describe(condition.part, "en")}, and where that is known."""',
                *(f"    {line}" if line else "" for line in inner.lines),
                f"    holds, known = {holds}, {' & '.join(inner.known)}",
                "    return [pd.DataFrame({code: each.iloc[:, 0] for code in stocks}) for each in (holds, known)]",
                *("", "", f"on_{name}, {name}_known = {name}(close)"),
            ]
        name = self.market[condition]
        self.known[f"{name}_known"] = None
        return f"on_{name}"

    def _need_values(self, *values: tree.Value) -> None:
        for value in values:
            if isinstance(value, tree.Scaled):
                self.need(self.value(value.value))
            elif not isinstance(value, tree.Number):
                self.need(self.value(value))

    def _cross(self, cross: tree.Cross) -> str:
        self._need_values(cross.left, cross.right)
        left, right = self.value(cross.left), self.value(cross.right)
        before: list[str] = []
        for side, text in ((cross.left, left), (cross.right, right)):
            if isinstance(side, tree.Number):
                before.append(text)
            elif isinstance(side, tree.Scaled):
                name = self.value(side.value)
                before.append(f"{number_text(side.factor)} * {name}.shift(1)")
                self.need(f"{name}.shift(1)")
            else:
                before.append(f"{text}.shift(1)")
                self.need(f"{text}.shift(1)")
        now, then = (">", "<=") if cross.direction == "up" else ("<", ">=")
        return f"(({left} {now} {right}) & ({before[0]} {then} {before[1]}))"

    def _rank(self, rank: tree.Rank) -> str:
        value = self.value(rank.value)
        self.need(value)
        place = f"{'best' if rank.side == 'top' else 'worst'}_{value}"
        self.define(place, f'{place} = {value}.rank(axis=1, ascending={rank.side == "bottom"}, method="max")')
        if rank.unit == "count":
            return f"({place} <= {number_text(rank.amount)})"
        count = self.define(f"symbols_with_{value}", f"symbols_with_{value} = {value}.count(axis=1)")
        return f"(100 * {place}).le({number_text(rank.amount)} * {count}, axis=0)"


def _body(cell: _Cell, entry: str, exit_: str) -> list[str]:
    known = [f"    & {each}" for each in cell.known]
    known[0] = known[0].replace("& ", "", 1)
    return [*cell.lines, "", f"entry = {entry}", f"leave = {exit_}", "known = (", *known, ")"]


def _bare(expression: str) -> str:
    """The expression without enclosing brackets."""
    depth = 0
    for at, letter in enumerate(expression):
        depth += {"(": 1, ")": -1}.get(letter, 0)
        if depth == 0:
            whole = at == len(expression) - 1 and expression[0] == "("
            return expression[1:-1] if whole else expression
    return expression


def _squeeze(lines: list[str]) -> str:
    """The lines as text, with at most two empty lines in a row."""
    kept: list[str] = []
    for line in lines:
        if line or kept[-2:] != ["", ""]:
            kept.append(line)
    return "\n".join(kept) + "\n"


def _spread(watched: Watched) -> list[str]:
    """The lines that give the signal of the watched security to every traded one."""
    traded = ", ".join(f'"{code}"' for code in watched.traded)
    return [
        "",
        f"traded = [{traded}]",
        'sessions = snapshot["ohlcv"]["close"].index',
        f'watched = signal["{watched.code}"].reindex(sessions)',
        "signal = pd.DataFrame({code: watched for code in traded}, index=sessions)",
    ]


def write_code(rule: tree.TradingRule, watched: Watched | None = None) -> Code:
    """The cell that computes a rule's signal and stores it under a descriptive name.

    The cell expects ``pd``, ``np`` and ``GLOBAL_DATA_STATE`` in scope and imports ``talib`` itself. The
    signal has the index and columns of ``close`` and the values 1, -1, 0, and NaN where a needed value is
    missing. With ``watched`` the rule is of one security, and the columns are the traded ones.
    """
    cell = _Cell(watched=watched)
    cell.bar("close")
    entry, exit_ = cell.condition(rule.entry), cell.condition(rule.exit)
    name = name_of(rule)
    about = [f"# Watched: {watched.code}; traded: {', '.join(watched.traded)}"] if watched else []
    lines = [
        f"# Buy: {describe(rule.entry, 'en')}",
        f"# Sell: {describe(rule.exit, 'en')}",
        *about,
        *(["import talib", ""] if any("talib." in line for line in cell.lines) else []),
        "snapshot = GLOBAL_DATA_STATE.snapshot()",
        *_body(cell, _bare(entry), _bare(exit_)),
        "",
        "signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)",
        "signal = signal.mask(entry, 1.0).mask(leave, -1.0).where(known)",
        *(_spread(watched) if watched else []),
        "",
        f'GLOBAL_DATA_STATE.update("signal", {{"{name}": signal}})',
        "sessions, symbols = signal.shape",
        "buys, sells = int((signal == 1).sum().sum()), int((signal == -1).sum().sum())",
        "holds, unknowns = int((signal == 0).sum().sum()), int(signal.isna().sum().sum())",
        f'print(f"signal {name}: {{sessions}} sessions x {{symbols}} symbols")',
        'print(f"buy {buys}, sell {sells}, hold {holds}, no opinion {unknowns}")',
    ]
    return Code(source=_squeeze(lines), name=name, lookback=lookback_of(rule), fields=tree.fields_of(rule))
