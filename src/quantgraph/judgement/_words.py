"""The verdict and the card in words."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from quantgraph._util.texts import Language, Note

_VERDICTS: Mapping[str, Note] = {
    "synthetic data": Note(zh="合成数据", en="Synthetic data"),
    "data questions open": Note(zh="数据有疑问", en="Data questions open"),
    "never traded": Note(zh="从未成交", en="Never traded"),
    "too short": Note(zh="时间太短", en="Too short"),
    "sampled proof": Note(zh="只抽样证明", en="Sampled proof"),
    "one position": Note(zh="只有一次持仓", en="One position"),
    "gain is from open positions": Note(zh="盈利来自未平仓", en="Gain is from open positions"),
    "no evidence": Note(zh="没有证据", en="No evidence"),
    "weak": Note(zh="证据较弱", en="Weak evidence"),
    "some": Note(zh="有一定证据", en="Some evidence"),
    "strong": Note(zh="证据较强", en="Strong evidence"),
}
_IMPOSSIBLE: Mapping[str, tuple[Note, Note]] = {
    "synthetic data": (
        Note(
            zh="行情是算出来的；这里的收益不说明任何真实股票",
            en="the prices are computed; a return on them says nothing of any real stock",
        ),
        Note(zh="换成真实行情再跑一次", en="Run it on real prices: --source FILE"),
    ),
    "data questions open": (
        Note(
            zh="{count} 个问题会改变账户；首先：{first}",
            en="{count} of them change the account; first: {first}",
        ),
        Note(zh="先查清数据：quantgraph data check", en="Settle them first: quantgraph data check"),
    ),
    "never traded": (
        Note(
            zh="{sessions} 个交易日没有一笔成交；现金没有变",
            en="no fill in {sessions} sessions; the cash stayed",
        ),
        Note(zh="放宽买入条件，或换一个区间", en="Loosen what buys, or take another window"),
    ),
    "too short": (
        Note(
            zh="{sessions} 个交易日，不到一年；年化数字只是外推",
            en="{sessions} sessions are less than a year; yearly numbers are extrapolated",
        ),
        Note(zh="至少再加 {more} 个交易日", en="Add {more} sessions at least"),
    ),
    "sampled proof": (
        Note(
            zh="信号没有用到未来，只在部分交易日上查过；其余可能用到",
            en="that the signal uses no future was seen at some sessions alone; others may use it",
        ),
        Note(zh="全部证明：audit.prove = all", en="Prove all sessions: audit.prove = all"),
    ),
    "one position": (
        Note(zh="只建过一次仓；一次盈亏看不出规则", en="one position was opened; one outcome shows no rule"),
        Note(zh="更多股票或更长时间", en="Take more symbols, or a longer window"),
    ),
    "gain is from open positions": (
        Note(
            zh="未平仓 {unsold:,.0f}，总盈利 {gain:,.0f}；已平仓的没有赚钱",
            en="{unsold:,.0f} of {gain:,.0f} is not realised; what was closed earned nothing",
        ),
        Note(zh="加上卖出规则，或等它平仓", en="Add a rule that sells, or wait until it has sold"),
    ),
}
"""Reasons and next action where there can be no judgement."""


_LIMITS: Mapping[str, Note] = {
    "survivorship": Note(
        zh="股票是今天选的：当时还不知道哪些会留下来",
        en="the symbols were chosen today: which of them would last was not known then",
    ),
    "unadjusted": Note(
        zh="行情没有昨收，分红和拆分看不出来",
        en="the prices have no previous close: dividends and splits are not seen",
    ),
    "memory": Note(
        zh="决策模型 {model} 的训练截止于 {until}，它可能记得这段行情",
        en="the training of {model} ends in {until}: it may remember these prices",
    ),
    "memory_unknown": Note(
        zh="决策模型 {model} 的训练截止日期未知，它可能记得这段行情（设置 models.cut_off）",
        en="it is not known when the training of {model} ends: it may remember these prices (set "
        "models.cut_off)",
    ),
}

_MANY = 100
"""Years beyond which there is no sense in a number."""
_NONE = "–"
_PROFITABLE = frozenset({"weak", "some", "strong"})

_Numbers = Mapping[str, Any]


def is_judged(judgement: _Numbers) -> bool:
    """Whether the numbers of the run speak for its rule; what does not is not shown in green."""
    return judgement["verdict"] in _PROFITABLE


def verdict_line(judgement: _Numbers, language: Language) -> str:
    """The verdict, the two reasons that decide it, and what to do next, in one line."""
    known = _IMPOSSIBLE.get(judgement["verdict"])
    reasons, action = _filled(known, judgement) if known else (_of_evidence(judgement), _next(judgement))
    colon, stop = ("：", "。") if language == "zh" else (": ", ". ")
    name = _VERDICTS[judgement["verdict"]].text(language)
    return f"{name}{colon}{reasons.text(language)}{stop}{action.text(language)}"


def _filled(notes: tuple[Note, Note], judgement: _Numbers) -> Iterator[Note]:
    sessions, questions = judgement["sessions"], judgement["questions"]
    values = {
        "sessions": sessions,
        "more": judgement["periods"] - sessions,
        "count": len(questions),
        "unsold": judgement["open_gain"],
        "gain": judgement["gain"],
    }
    first: _Numbers = next(iter(questions), {"zh": "", "en": ""})
    return (
        Note(zh=note.zh.format(first=first["zh"], **values), en=note.en.format(first=first["en"], **values))
        for note in notes
    )


def _of_evidence(judgement: _Numbers) -> Note:
    found, excess = judgement["difference"], judgement["excess"]
    if found is None:
        return Note(
            zh="账户与同样仓位的基准没有差别，或差别不变；无从检验",
            en="the account does not vary from the same exposure in the benchmark; nothing can be tested",
        )
    tries, luck = judgement["tries"]["counted"], 1 - (excess["deflated"] or 0.0)
    value, low, high = (_percent(found[name]) for name in ("value", "low", "high"))
    many, times = ("", "1 try") if tries == 1 else ("最好的一次", f"the best of {tries:,} tries")
    return Note(
        zh=f"比同样仓位的基准每年 {value}，95% 区间 {low} 至 {high}；"
        f"试了 {tries:,} 次，没有本事也有 {_probability(luck)} 的机会{many}这样",
        en=f"{value} a year against the same exposure in the benchmark, 95% interval {low} to {high}; "
        f"without skill {times} would be as good in {_probability(luck)} of cases",
    )


def _next(judgement: _Numbers) -> Note:
    needed, years = judgement["years_needed"], judgement["sessions"] / judgement["periods"]
    if judgement["verdict"] in {"some", "strong"}:
        return Note(
            zh="看它在之后的日子里是否成立：留着这条规则不改",
            en="See whether it holds on days to come: leave the rule as it is",
        )
    if judgement["verdict"] == "weak":
        return Note(
            zh="再看延后和成本，或更长的区间", en="Look at the delays and the costs, or take a longer window"
        )
    if needed is None:
        return Note(
            zh="换一条规则：更长的时间也不会变好", en="Take another rule: more time would not help this one"
        )
    more = max(needed - years, 0.0)
    if more < 0.1:
        return Note(
            zh="少试几次，或用没有看过的数据", en="Try less often, or on data that were not looked at"
        )
    times = f"{min(needed / years, _MANY):.0f}"
    return Note(
        zh=f"同样的差别要再有 {_years(more)} 年，或 {times} 倍各自独立的股票才看得出来",
        en=f"A difference like this shows after {_years(more)} more years, or in {times} times as many "
        "symbols that move on their own",
    )


def card_rows(judgement: _Numbers, language: Language) -> list[tuple[str, str]]:
    """The card: a label and a text a row, in its order."""
    return [(label.text(language), text.text(language)) for label, text in _rows(judgement)]


def _rows(judgement: _Numbers) -> Iterator[tuple[Note, Note]]:
    net, found, ratio = judgement["net"], judgement["difference"], judgement["sharpe"]
    part, same = _percent(net["exposure"], signed=False), _percent(net["same_exposure"])
    yield (
        Note(zh="净收益", en="net return"),
        Note(
            zh=f"{_percent(net['return'])}；同样仓位（{part}）的基准 {same}",
            en=f"{_percent(net['return'])}; the same exposure ({part}) in the benchmark {same}",
        ),
    )
    if found is not None:
        value, low, high, least = (_percent(found[name]) for name in ("value", "low", "high", "smallest"))
        yield (
            Note(zh="每年的差别", en="difference a year"),
            Note(
                zh=f"{value}，95% 区间 {low} 至 {high}；这样长的区间能看出的最小差别 {least}",
                en=f"{value}, 95% interval {low} to {high}; the smallest that such a run shows is {least}",
            ),
        )
        yield from _ratios(judgement, ratio)
    if split := judgement["split"]:
        yield _split_row(split)
    yield Note(zh="盈利来自", en="gain rests on"), _shares(judgement["shares"])
    one, two = (_percent(judgement["delays"][late]) for late in ("1", "2"))
    yield (
        Note(zh="晚一天、两天", en="one, two sessions later"),
        Note(zh=f"{one}、{two}", en=f"{one}, {two}"),
    )
    costs = judgement["costs"]
    double, five = _percent(costs["2"]), _percent(costs["5"])
    even, paid = (_points(costs[name]) for name in ("break_even", "paid"))
    yield (
        Note(zh="成本 2 倍、5 倍", en="costs x 2, x 5"),
        Note(
            zh=f"{double}、{five}；成交额的万分之 {even} 是盈亏平衡，付了万分之 {paid}",
            en=f"{double}, {five}; break-even at {even} bp of what was traded, {paid} bp paid",
        ),
    )
    if limits := judgement["limits"]:
        yield Note(zh="看不出的", en="what it cannot tell"), _limits(limits)


def _limits(limits: Mapping[str, Mapping[str, str]]) -> Note:
    notes = [(_LIMITS[name], filled) for name, filled in limits.items()]
    return Note(
        zh="；".join(note.zh.format(**filled) for note, filled in notes),
        en="; ".join(note.en.format(**filled) for note, filled in notes),
    )


def _split_row(split: _Numbers) -> tuple[Note, Note]:
    before, after = (_percent(split[side]["difference"]) for side in ("before", "after"))
    gap, low, high = (_percent(split["gap"][name]) for name in ("value", "low", "high"))
    own, same = _percent(split["after"]["return"]), _percent(split["after"]["same_exposure"])
    return (
        Note(zh=f"{split['date']} 前后", en=f"before, after {split['date']}"),
        Note(
            zh=f"每年的差别 {before}、{after}；相差 {gap}，95% 区间 {low} 至 {high}；"
            f"之后收益 {own}，同样仓位 {same}",
            en=f"difference a year {before}, {after}; gap {gap}, 95% interval {low} to {high}; return after "
            f"{own}, the same exposure {same}",
        ),
    )


def _ratios(judgement: _Numbers, ratio: _Numbers) -> Iterator[tuple[Note, Note]]:
    low, high = _number(ratio["low"]), _number(ratio["high"])
    tries, power = judgement["tries"], _probability(judgement["power"])
    yield (
        Note(zh="夏普比率", en="Sharpe ratio"),
        Note(
            zh=f"每年 {_number(ratio['value'])}，95% 区间 {low} 至 {high}；概率夏普（经典）"
            f"{_probability(ratio['probabilistic'])}，扣除尝试后 {_probability(ratio['deflated'])}",
            en=f"{_number(ratio['value'])} a year, 95% interval {low} to {high}; probabilistic (classic) "
            f"{_probability(ratio['probabilistic'])}, deflated {_probability(ratio['deflated'])}",
        ),
    )
    effective = f"{tries['effective']:,.1f}"
    yield (
        Note(zh="尝试", en="tries"),
        Note(
            zh=f"{tries['counted']:,} 次（程序计数），相当于 {effective} 次独立的",
            en=f"{tries['counted']:,} counted, as good as {effective} independent ones",
        ),
    )
    needed = judgement["years_needed"]
    years = judgement["sessions"] / judgement["periods"]
    yield (
        Note(zh="能看出多少", en="power"),
        Note(
            zh=f"{years:.1f} 年里，真实夏普为 1 的差别有 {power} 的机会被看出；"
            + ("这条规则没有差别可看" if needed is None else f"这样的差别要 {_years(needed)} 年"),
            en=f"in {years:.1f} years a true ratio of 1 is found in {power} of cases; "
            + (
                "this rule has none to find"
                if needed is None
                else f"one like this needs {_years(needed)} years"
            ),
        ),
    )


_SHARES = {
    "trade": Note(zh="最好一笔", en="best trade"),
    "five_trades": Note(zh="最好五笔", en="best five"),
    "symbol": Note(zh="最好的股票", en="best symbol"),
    "month": Note(zh="最好的月份", en="best month"),
    "year": Note(zh="最好的年份", en="best year"),
}


def _shares(shares: _Numbers) -> Note:
    if all(share is None for share in shares.values()):
        return Note(zh="没有盈利", en="there is none")
    texts = {name: f"{share:.0%}" for name, share in shares.items() if share is not None}
    return Note(
        zh="，".join(f"{_SHARES[name].zh} {text}" for name, text in texts.items()),
        en=", ".join(f"{_SHARES[name].en} {text}" for name, text in texts.items()),
    )


def _percent(number: float | None, *, signed: bool = True) -> str:
    return _NONE if number is None else f"{number:+.1%}" if signed else f"{number:.0%}"


def _years(number: float) -> str:
    return f"{number:.1f}" if number <= _MANY else f"> {_MANY}"


def _number(number: float | None) -> str:
    return _NONE if number is None else f"{number:.2f}"


def _probability(number: float | None) -> str:
    """A probability in percent, with more digits where it is small."""
    if number is None or math.isnan(number):
        return _NONE
    return f"{number:.0%}" if 0.01 <= number <= 0.99 else f"{number:.1%}"


def _points(number: float | None) -> str:
    return _NONE if number is None else f"{number * 10_000:.0f}"
