"""Pairs of a sentence and code for it, written apart from the planner, and mutants of the code.

Each kind of rule has a sentence, code in several styles, and numbers and signs that a mutant changes one of.
"""

from dataclasses import dataclass, field, replace
from random import Random

import numpy as np
import pandas as pd

HEAD = """\
import talib
bars = snapshot["ohlcv"]
close, high, low, vol = (bars[name] for name in ("{close}", "{high}", "{low}", "vol"))
def each(function, frame=close):
    return frame.apply(lambda s: pd.Series(function(s.dropna()), index=s.dropna().index).reindex(s.index))
{before}
"""
TAILS = {
    "mask": """\
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask({buy}, 1.0).mask({sell}, -1.0)
""",
    "where": """\
signal = pd.DataFrame(np.where({sell}, -1.0, np.where({buy}, 1.0, 0.0)), index=close.index, columns=close.columns)
""",
    "loop": """\
enter, leave = ({buy}).to_numpy(), ({sell}).to_numpy()
values = np.zeros(close.shape)
for j in range(values.shape[1]):
    held = False
    for i in range(len(values)):
        if leave[i, j]:
            if held:
                values[i, j] = -1.0
            held = False
        elif enter[i, j] and not held:
            values[i, j], held = 1.0, True
signal = pd.DataFrame(values, index=close.index, columns=close.columns)
""",
    "difference": """\
signal = (({buy}) & ~({sell})).astype(float) - ({sell}).astype(float)
""",
}
UPDATE = 'GLOBAL_DATA_STATE.update("signal", {"made": signal})\n'


@dataclass(frozen=True, kw_only=True)
class Kind:
    """A kind of rule: sentences, styles of its body, and its numbers, each with what a mutant may put there.

    A body defines ``buy`` and ``sell``; the operators ``{gt}`` and ``{lt}`` are part of the numbers.
    """

    sentences: tuple[str, ...]
    bodies: tuple[str, ...]
    numbers: dict[str, tuple]
    sides: tuple[tuple[str, str], ...] = ()
    fields: tuple[str, ...] = ("close",)


SMA = ("{a} = close.rolling({n}).mean()", "{a} = each(lambda s: talib.SMA(s.to_numpy(), {n}))")


def mean(name, period, style):
    return SMA[style].replace("{a}", name).replace("{n}", period)


def crossing(one, other):
    """Cross up and down of two names, in two styles."""
    return (
        f"buy = ({one} {{gt}} {other}) & ({one}.shift(1) <= {other}.shift(1))\n"
        f"sell = ({one} {{lt}} {other}) & ({one}.shift(1) >= {other}.shift(1))",
        f"above = {one} {{gt}} {other}\nknown = {one}.shift(1).notna() & {other}.shift(1).notna()\n"
        f"buy = above & ~above.shift(1, fill_value=False) & known\n"
        f"sell = ~above & above.shift(1, fill_value=False) & {one}.notna() & {other}.notna()",
        f"gap = {one} - {other}\nbuy = (gap {{gt}} 0) & (gap.shift(1) <= 0)\nsell = gap {{lt}} 0",
    )


def crosses(*lines):
    """Every style of the lines with every style of the cross."""
    return tuple(f"{line}\n{cross}" for line in lines for cross in crossing("one", "other"))


EMA = "{a} = close.ewm(span={n}, adjust={adjust}).mean()"
KINDS = {
    "sma_cross": Kind(
        sentences=(
            "{fast}日均线上穿{slow}日均线买入，下穿卖出",
            "buy when the {fast}-day average crosses above the {slow}-day average, sell when it crosses below",
        ),
        bodies=crosses(
            *(f"{mean('one', '{fast}', style)}\n{mean('other', '{slow}', style)}" for style in (0, 1))
        ),
        numbers={"fast": (5, 8, 10), "slow": (20, 30, 40)},
    ),
    "price_cross": Kind(
        sentences=(
            "收盘价上穿{n}日均线买入，下穿卖出",
            "buy when the close crosses above the {n}-day average, sell when it crosses below",
        ),
        bodies=crosses(*(f"one = close\n{mean('other', '{n}', style)}" for style in (0, 1))),
        numbers={"n": (10, 20, 30)},
    ),
    "price_state": Kind(
        sentences=(
            "收盘价高于{n}日均线买入，低于{n}日均线卖出",
            "buy when the close is above the {n}-day average, sell when it is below",
        ),
        bodies=tuple(
            f"{mean('line', '{n}', style)}\nbuy, sell = close {{gt}} line, close {{lt}} line"
            for style in (0, 1)
        ),
        numbers={"n": (10, 20, 30)},
    ),
    "ema_cross": Kind(
        sentences=("EMA{fast}上穿EMA{slow}买入，下穿卖出",),
        bodies=crosses(
            *(
                "\n".join(
                    EMA.replace("{a}", a).replace("{n}", n).replace("{adjust}", adjust)
                    for a, n in (("one", "{fast}"), ("other", "{slow}"))
                )
                for adjust in ("False", "True")
            ),
            "one, other = (each(lambda s, n=n: talib.EMA(s.to_numpy(), n)) for n in ({fast}, {slow}))",
        ),
        numbers={"fast": (5, 10, 12), "slow": (20, 26, 35)},
    ),
    "rsi": Kind(
        sentences=(
            "RSI({n})低于{lo}买入，高于{hi}卖出",
            "buy when RSI({n}) is below {lo}, sell when it is above {hi}",
        ),
        bodies=(
            "rsi = each(lambda s: talib.RSI(s.to_numpy(), {n}))\nbuy, sell = rsi {lt} {lo}, rsi {gt} {hi}",
            "move = close.diff()\nup = move.clip(lower=0).ewm(alpha=1 / {n}, adjust=False).mean()\n"
            "down = (-move.clip(upper=0)).ewm(alpha=1 / {n}, adjust=False).mean()\n"
            "rsi = (100 - 100 / (1 + up / down)).where(close.rolling({n} + 1).count() > {n})\n"
            "buy, sell = rsi {lt} {lo}, rsi {gt} {hi}",
            "move = close.diff()\nup = move.where(move > 0, 0.0).rolling({n}).mean()\n"
            "down = (-move).where(move < 0, 0.0).rolling({n}).mean()\nrsi = 100 * up / (up + down)\n"
            "buy, sell = rsi {lt} {lo}, rsi {gt} {hi}",
        ),
        numbers={"n": (6, 9, 14), "lo": (30, 35, 40), "hi": (60, 65, 70)},
    ),
    "bollinger": Kind(
        sentences=("收盘价跌破布林带下轨({n},{k})买入，突破上轨卖出",),
        bodies=(
            "mid, dev = close.rolling({n}).mean(), close.rolling({n}).std()\n"
            "buy, sell = close {lt} mid {minus} {k} * dev, close {gt} mid {plus} {k} * dev",
            "mid, dev = close.rolling({n}).mean(), close.rolling({n}).std(ddof=0)\n"
            "buy, sell = close {lt} mid {minus} {k} * dev, close {gt} mid {plus} {k} * dev",
            "top, mid, bottom = (each(lambda s, at=at: talib.BBANDS(s.to_numpy(), {n}, {k}, {k})[at]) for at in range(3))\n"
            "buy, sell = close {lt} {bottom}, close {gt} {top}",
        ),
        numbers={"n": (15, 20, 25), "k": (1.5, 2)},
        sides=(("{minus}", "{plus}"), ("{bottom}", "{top}")),
    ),
    "macd": Kind(
        sentences=("MACD金叉买入，死叉卖出",),
        bodies=crosses(
            "dif = close.ewm(span={a}, adjust=False).mean() - close.ewm(span={b}, adjust=False).mean()\n"
            "one, other = dif.where(close.rolling({b}).count() == {b}), dif.ewm(span={c}, adjust=False).mean()",
            "one, other = (each(lambda s, at=at: talib.MACD(s.to_numpy(), {a}, {b}, {c})[at]) for at in (0, 1))",
        ),
        numbers={"a": (12, 6), "b": (26, 19), "c": (9, 5)},
    ),
    "breakout": Kind(
        sentences=("突破{n}日新高买入，跌破{m}日新低卖出",),
        bodies=(
            "buy = close {gt} high.shift(1).rolling({n}).max()\nsell = close {lt} low.shift(1).rolling({m}).min()",
            "buy = close {gt} high.rolling({n}).max().shift(1)\nsell = close {lt} low.rolling({m}).min().shift(1)",
            "buy = close {gt} close.shift(1).rolling({n}).max()\nsell = close {lt} close.shift(1).rolling({m}).min()",
        ),
        numbers={"n": (20, 30, 55), "m": (10, 15, 25)},
        fields=("close", "high", "low"),
    ),
    "momentum": Kind(
        sentences=("{n}日涨幅大于{x}%买入，小于-{x}%卖出",),
        bodies=(
            "change = close.pct_change({n}, fill_method=None)\nbuy, sell = change {gt} {x} / 100, change {lt} -{x} / 100",
            "change = each(lambda s: talib.ROC(s.to_numpy(), {n}))\nbuy, sell = change {gt} {x}, change {lt} -{x}",
        ),
        numbers={"n": (10, 20, 30), "x": (3, 5, 8)},
    ),
    "rank": Kind(
        sentences=("{n}日涨幅前{k}买入，其余卖出",),
        bodies=(
            "change = close / close.shift({n}) - 1\nplace = change.rank(axis=1, ascending={down})\n"
            "buy, sell = place {le} {k}, (place {over} {k}) & change.notna()",
            "change = close.pct_change({n}, fill_method=None)\nplace = change.rank(axis=1, ascending={down}, method='first')\n"
            "buy = place {le} {k}\nsell = ~buy & change.notna()",
        ),
        numbers={"n": (10, 20, 30), "k": (2, 3, 4)},
        sides=(("{down}", "{up}"),),
    ),
    "volume": Kind(
        sentences=("成交量大于{f}倍{n}日均量且收盘价高于{m}日均线买入，收盘价低于{m}日均线卖出",),
        bodies=(
            "usual, line = vol.rolling({n}).mean(), close.rolling({m}).mean()\n"
            "buy = (vol {gt} {f} * usual) & (close > line)\nsell = close {lt} line",
            "usual, line = vol.rolling({n}).mean().shift(1), close.rolling({m}).mean()\n"
            "buy = (vol {gt} {f} * usual) & (close > line)\nsell = close {lt} line",
        ),
        numbers={"f": (1.5, 2), "n": (5, 10), "m": (10, 20, 30)},
    ),
    "cheap": Kind(
        sentences=("市盈率最低的{k}只股票买入，其余卖出",),
        bodies=(
            "pe = snapshot['indicators']['{pe}'].reindex_like(close)\nplace = pe.rank(axis=1, ascending={up})\n"
            "buy, sell = place {le} {k}, (place {over} {k}) & pe.notna()",
        ),
        numbers={"k": (2, 3, 4)},
        sides=(("{up}", "{down}"),),
    ),
}
SIGNS = {
    "gt": ">", "lt": "<", "le": "<=", "over": ">", "minus": "-", "plus": "+", "bottom": "bottom", "top": "top",
    "up": "True", "down": "False", "close": "close", "high": "high", "low": "low", "pe": "pe", "before": "",
}  # fmt: skip
FLIPPED = {"gt": "<", "lt": ">", "le": ">", "over": "<="}
OTHER_FIELD = {"close": "low", "high": "low", "low": "high", "pe": "pb"}
OTHER_SYMBOL = (
    "close = close.set_axis(close.columns[1:].append(close.columns[:1]), axis=1)[list(close.columns)]"
)


@dataclass(frozen=True, kw_only=True)
class Pair:
    """A sentence and code for it; ``changed`` says what a mutant has changed, as ``kind of mutation: what``."""

    kind: str
    sentence: str
    body: str
    tail: str
    values: dict = field(default_factory=dict)
    buy: str = "buy"
    sell: str = "sell"
    changed: str = ""

    @property
    def code(self):
        tail = TAILS[self.tail].replace("{buy}", self.buy).replace("{sell}", self.sell)
        code = HEAD + self.body + "\n" + tail
        for name, value in (SIGNS | self.values).items():
            code = code.replace(f"{{{name}}}", str(value))
        return code + UPDATE


def right_pair(random: Random) -> Pair:
    """A sentence and right code for it."""
    name = random.choice(list(KINDS))
    kind = KINDS[name]
    values = {key: random.choice(choices) for key, choices in kind.numbers.items()}
    if name == "macd":
        values = {key: choices[0] for key, choices in kind.numbers.items()}
    sentence = random.choice(kind.sentences)
    for key, value in values.items():
        sentence = sentence.replace(f"{{{key}}}", str(value))
    body = random.choice(kind.bodies)
    return Pair(kind=name, sentence=sentence, body=body, tail=random.choice(list(TAILS)), values=values)


def mutants(pair: Pair) -> list[Pair]:
    """Every mutant of a pair: one operator, number, side, symbol or field changed."""
    kind, found = KINDS[pair.kind], []

    def add(what, **changes):
        found.append(replace(pair, changed=what, **changes))

    for sign, other in FLIPPED.items():
        if f"{{{sign}}}" in pair.body:
            add(f"operator: {sign}", values=pair.values | {sign: other})
    for key, choices in kind.numbers.items():
        for other in choices:
            if other != pair.values[key]:
                add(f"number: {key} {other}", values=pair.values | {key: other})
    for one, other in kind.sides:
        if one in pair.body:
            add(f"side: {one}", body=pair.body.replace(one, other))
    add("side: buy and sell", buy="sell", sell="buy")
    add("symbol: its neighbour", values=pair.values | {"before": OTHER_SYMBOL})
    fields = ("pe",) if "{pe}" in pair.body else kind.fields
    for name in fields:
        add(f"field: {name}", values=pair.values | {name: OTHER_FIELD[name]})
    return found


def run(code: str, frames) -> pd.DataFrame:
    """The signal that code hands over."""
    made: dict[str, pd.DataFrame] = {}

    class State:
        update = staticmethod(lambda panel, signals: made.update(signals))

    exec(code, {"snapshot": frames, "GLOBAL_DATA_STATE": State, "pd": pd, "np": np})
    return made["made"]


def held(signal: pd.DataFrame, close: pd.DataFrame, *, after: int) -> np.ndarray:
    """Whether each cell is held, from a flat start ``after`` sessions on, by a loop; False without trading."""
    values, traded = signal.to_numpy(), close.notna().to_numpy()
    path = np.zeros(values.shape, dtype=bool)
    for column in range(values.shape[1]):
        long = False
        for row in range(after, len(values)):
            long = {1.0: True, -1.0: False}.get(values[row, column], long)
            path[row, column] = long and traded[row, column]
    return path[after:]
