"""Short idioms of pandas for the prompt of the generation, chosen by the words of the rule."""

from __future__ import annotations

import re
from collections.abc import Collection
from dataclasses import dataclass


@dataclass(frozen=True, kw_only=True)
class Idiom:
    """A piece of code that is right.

    Attributes
    ----------
    about
        What it does, in Chinese and English.
    words
        Pattern of the words of a rule that need it.
    code
        It makes ``signal`` of what it names: ``close``, ``zero``, and frames such as ``buy`` or ``score``.
    """

    about: str
    words: str
    code: str


IDIOMS: dict[str, Idiom] = {
    "event": Idiom(
        about="crosses 上穿/下穿: one average through another, an event",
        words=r"穿|突破|跌破|站上|金叉|死叉|cross|break|(rise|climb|go)(s|es)? above|"
        r"(fall|drop|go)(s|es)? below",
        code="""\
above = (fast > slow).astype(float).where(fast.notna() & slow.notna()).ffill()
was = above.shift(1)
signal = zero.mask((above == 1) & (was == 0), 1.0).mask((above == 0) & (was == 1), -1.0)
signal = signal.where(slow.notna())""",
    ),
    "rank": Idiom(
        about="the 10 highest 最高的10只: rank within each session",
        words=r"排名|[最前][高低大小强弱多少]?\S{0,3}\s*[\d一二三四五六七八九十]+\s*[只个名支]|\b(top|bottom|rank|"
        r"(high|low|larg|small|strong|weak|cheap)est)",
        code="""\
order = score.rank(axis=1, ascending=False, method="first")
signal = zero.mask(order <= 10, 1.0).mask(order > 10, -1.0).where(score.notna())""",
    ),
    "path": Idiom(
        about="an exit that depends on the entry 与买入后走势有关的卖出: here 8 % below the peak since then",
        words=r"回落|回撤|高点|峰值|止损|止盈|成本|买入价|买入后|持有\S{0,3}\d+|海龟|trail|peak|stop|drawdown|turtle|"
        r"since (the )?(entry|buying)|entry price|below its high|hold(s|ing)? for",
        code="""\
price, enter, marks = close.to_numpy(), buy.to_numpy(), np.zeros(close.shape)
for j in range(close.shape[1]):
    held, peak = False, 0.0
    for i in range(close.shape[0]):
        if np.isnan(price[i, j]):
            continue
        if held:
            peak = max(peak, price[i, j])
            if price[i, j] <= 0.92 * peak:
                marks[i, j], held = -1.0, False
        elif enter[i, j]:
            marks[i, j], held, peak = 1.0, True, price[i, j]
signal = pd.DataFrame(marks, index=close.index, columns=close.columns).where(close.notna())""",
    ),
    "weekly": Idiom(
        about="weekly 每周: decided in the first session of the week",
        words=r"每周|每星期|周[初一二三四五]|周度|\bweek(s|ly)?\b|monday",
        code="""\
week = pd.Series(close.index.to_period("W").astype(str), index=close.index)
first = (week != week.shift(1)).to_numpy()[:, None]
signal = zero.mask(buy & first, 1.0).mask(sell & first, -1.0)""",
    ),
    "monthly": Idiom(
        about="monthly 每月: decided in the first session of the month",
        words=r"每月|每个月|月初|月度|\bmonth(s|ly)?\b",
        code="""\
month = pd.Series(close.index.to_period("M").astype(str), index=close.index)
first = (month != month.shift(1)).to_numpy()[:, None]
signal = zero.mask(buy & first, 1.0).mask(sell & first, -1.0)""",
    ),
    "suspension": Idiom(
        about="windows over suspensions 窗口跨停牌: computed on the sessions that a stock traded",
        words=r"rsi|macd|kdj|atr|ema|boll|布林|指数平均|wilder",
        code="""\
rsi = close.apply(lambda s: talib.RSI(s.dropna(), 14).reindex(s.index))
signal = zero.mask(rsi < 30, 1.0).mask(rsi > 70, -1.0).where(rsi.notna())""",
    ),
    "index": Idiom(
        about="a condition on an index 指数条件, for every column",
        words=r"(?!)",
        code="""\
level = snapshot["index"]["close"][code]
held = np.broadcast_to((level > level.rolling(20).mean()).to_numpy()[:, None], zero.shape)
signal = zero.mask(held, 1.0).mask(~held, -1.0)""",
    ),
}
"""By name. That of the index is for requests that watch one."""


def idioms_for(rule: str, indices: Collection[str] = ()) -> str:
    """Return the idioms that a rule needs, for a prompt; empty if it needs none.

    Parameters
    ----------
    rule
        The rule in the user's words.
    indices
        The indices that it watches as series.

    Examples
    --------
    >>> print(idioms_for("buy the 10 cheapest each month").splitlines()[1])
    # the 10 highest 最高的10只: rank within each session
    >>> idioms_for("buy when the close is above 100")
    ''
    """
    chosen = [
        idiom
        for name, idiom in IDIOMS.items()
        if re.search(idiom.words, rule, re.IGNORECASE) or (name == "index" and indices)
    ]
    if not chosen:
        return ""
    pieces = [f"# {idiom.about}\n{idiom.code}" for idiom in chosen]
    return "\n".join(["Idioms 写法 (zero is the frame of zeros above):", *pieces])
