"""Whether an anchor comes back in what its clause became, in other words or in the parameters."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from quantgraph.data.symbols import is_index_code
from quantgraph.sentences.coverage._anchored_text import AnchoredText, ReadClause, ReadParameters, anchored
from quantgraph.sentences.coverage._anchors import Anchor, find_anchors, plain
from quantgraph.sentences.coverage._opposites import says_opposite

SCHEDULE_WORDS = {
    "week": r"周|星期|week|day(?<=[nsi]day)|monday|friday",
    "month": r"月|month",
    "quarter": r"季|quarter",
}
_EVENT = re.compile(  # "跌破"
    r"穿|叉|突破|升破|跌破|站上|站稳|收复|失守|转|变为|由|从|首次|cross|break|from|turn|mov|ris|fall|climb|drop|goes|get|clear|reclaim|los|dip|slip",
    re.IGNORECASE,
)
_ZERO = re.compile(r"零|(?<![\d.])0(?![\d.])|zero|正|负|positive|negative|水上|水下", re.IGNORECASE)  # "零"
_INSTEAD_OF_NOT = re.compile(  # "空仓"
    r"仍|守住|保持|维持|一直|始终|否则|取消|停止|放弃|以外|之外|其余|其他|永远|长期|空仓|观望|stay|remain|still|cancel|at or (?:above|below)|forever|outside|other than|else|keep|refrain|no |rule out|out of|block|veto|stand aside|forbid|prohibit|indefinite|at the latest|latest",
    re.IGNORECASE,
)
_ALSO: Mapping[str, str] = {
    "first-session": r"首|第一|头|初|开始|(?<!\d)1(?!\d)|first|open|start|beginning|begins|new",
    "last-session": r"末|底|最后|last|final|end",
    "last-but-one": r"倒数第?二|second[\s-]to[\s-]last|last[\s-]but[\s-]one|penultimate|next[\s-]to[\s-]last",
    "one-day": r"单日|一天|一日|当[天日]|日[内跌涨]|每日|daily|one|single|a day|the day|session",
    "all": r"全|清|所有|全数|all|whole|entire|everything|fully|complete|liquidat",
    "first": r"首|第一|头一|头次|刚|(?:此前|之前).{0,8}[未没]|first|initial|not (?:yet|before)|had not|has not|previously|once|start|earliest",
    "consecutive": r"连|每[天日一]|都|均|consecutive|in a row|straight|successive|each|every|running|all|back to back|streak|and (?:again )?the day before",
    "again": r"再|重|又|回|again|back|re-?|recover|return|once more",
    "back": r"再|重|又|回|穿|突破|升|跌|涨|降|back|re-?|again|ris|climb|fall|drop|cross|above|below|end|inside|return|recover|return|once more",
    "at-least": r"以上|至少|不少|不低|不小|超过|大于|达|多于|高于|及以上|>|≥|at least|or more|more than|over|above|no less|no fewer|not less|exceed|minimum|greater|\+|beyond|or (?:higher|worse|lower)|not (?:below|under|less)|not fallen|worse|no lower|最少|起码|不跌破|守住|超|hold",
    "at-most": r"以内|不超过|不高|不大|不多|至多|最多|小于|低于|少于|不到|<|≤|within|at most|no more|up to|max|under|below|less|limit|cap|不得|only|只|not (?:above|over|exceed|more)|latest|上限|满|期|fewer|之内|near|within|inside|closer",
    "close": r"收|clos|end|finish|settle",
    "same-day": r"当|同|今|一天|那[天日]|该日|信号日|same|that|on (?:a|the|any) day|today|day of|when|signal day|simultan|also|the day's|at the time|while|with",
    "day-before": r"前|昨|上[一个]|之前|t-1|prior|previous|before|yesterday|preceding|last|earlier|一日之前",
    "next-day": r"次|第二|隔|明|下[一个]|之后|t\+1|next|following|after|later|tomorrow",
    "intraday": r"盘中|日内|分时|最高|最低|触|intraday|during|high|low|within the|touch",
    "at-the-end-of-the-day": r"尾盘|收盘|close|end of",
    "only": r"只|仅|才|必须|需|要求|条件|前提|且|同时|并|否则|不|only|must|requir|provided|and|unless|otherwise|just|limit|exclusively|not|condition|while|sole|nothing else|as long as|持有|hold",
    "both": r"都|均(?![线价量值])|同时|且|并|两|both|and|all|each|two|three|together",
    "trailing": r"移动|跟踪|追踪|回撤|回落|高点|峰值|最高|trail|peak|high|drawdown|maximum",
    "stop": r"止损|亏|跌|成本|买入价|入场|割|低于|stop|loss|lose|entry|below|fall|drop|cost|purchase|bought|buy|down|paid|adverse",
    "target": r"止盈|盈|赚|涨|获利|目标|高于|profit|gain|target|rise|above|up|\+",
    "size": r"仓|资金|等权|等额|平均|份|比例|成|金额|一半|%|size|weight|equal|cash|capital|account|equity|portfolio|money|fund|half|position|each|percent|share|alloc|invest",
    "positions": r"最多|不超过|同时|上限|至多|只|at most|max|no more|up to|limit|position|hold|cap|only|simultan",
    "leverage": r"杠杆|融资|倍|lever|margin|borrow|x",
    "short": r"做空|卖空|融券|空头|空|short",
    "accumulate": r"定投|加|补|追加|增|每|再买|定期|accumul|add|more|regular|averag|pyramid|invest|each|every|again|another|increase|buy",
    "rebalance": r"调|换|轮|再平衡|更新|重新|替换|卖出|rebalanc|rotat|replac|swap|refresh|updat|resel|re-|adjust|re?pick|sell|every|each",
    "minutes": r"分钟|小时|分时|minute|hour|tick|min",
    "commission": r"手续费|佣金|费|commission|fee|cost",
    "slippage": r"滑点|slippage|cost",
    "benchmark": r"基准|比较|对比|benchmark|compare",
}  # fmt: skip
"""What a modifier or a word of the plan may have become."""
_PLAN_KEYS: Mapping[str, tuple[str, ...]] = {
    "stop": ("stop_loss",), "target": ("take_profit",), "trailing": ("trailing_stop",), "size": ("size",),
    "positions": ("max_positions", "size"), "commission": ("commission",), "slippage": ("slippage_bps",), "benchmark": ("benchmark",), "rebalance": ("trade_on", "rebalance"), "accumulate": ("accumulate",),
}  # fmt: skip
_FAMILIES = tuple(
    frozenset(row.split())
    for row in (
        "ma ema", "turnover_rate volume amount volume_ratio", "std boll", "total_mv circ_mv", "volatility std atr", "ps pe pb",
        "boll ma", "boll channel",
    )
)  # fmt: skip
_BY_MOVEMENT = frozenset({"return", "candle", "gap", "open", "volatility", "channel"})
"""Fields that a movement says too: ``跌幅`` is a return."""


def returns(anchor: Anchor, whole: AnchoredText, clause: ReadClause, params: ReadParameters) -> bool:
    """Whether an anchor comes back in what its clause became."""
    if not clause.done or (clause.part == "whole" and anchor.kind in ("modifier", "direction", "plan")):
        return True
    became = anchored(clause.became)
    if anchor.kind == "modifier":
        return _has_modifier(anchor, whole, became)
    if anchor.kind == "direction":
        return _has_direction(anchor, whole, became)
    if anchor.kind == "not":
        return bool(became.of("not") or _INSTEAD_OF_NOT.search(became.plain)) or says_opposite(
            anchored(clause.quote), became, flips=False
        )
    if anchor.kind == "market":
        return _names_a_market(became) or _is_universe(anchor, whole, params)
    if anchor.kind == "field":
        return _has_field(anchor, became) or (clause.part == "whole" and _is_listed(anchor, params))
    return is_in_plan(anchor, params) or _says_again(anchor, became)


def _says_again(anchor: Anchor, became: AnchoredText) -> bool:
    """Whether a number, a schedule or a word of the plan comes back; other words need not."""
    if anchor.kind == "number":
        return shares_value(anchor, became.of("number")) or (
            "0" in anchor.values and bool(_ZERO.search(became.plain))
        )
    if anchor.kind == "schedule":
        turns = any(
            _TURNS & each.values and each.unit == "span" and _EVERY.search(became.plain)
            for each in became.of("number")
        )
        return turns or bool(re.search(SCHEDULE_WORDS[anchor.value], became.plain))  # "每月"
    return anchor.kind != "plan" or bool(re.search(_ALSO[anchor.value], became.plain))  # "手续费"


def plan_keys(text: str) -> frozenset[str]:
    """Return the keys of a trade plan that a text speaks of, of which it has one.

    >>> sorted(plan_keys("跌8%止损")), sorted(plan_keys("rebalance")), plan_keys("5日线上穿20日线")
    (['stop_loss'], ['rebalance', 'trade_on'], frozenset())
    """
    named = (each.value for each in find_anchors(plain(text)) if each.kind == "plan")
    return frozenset(key for name in named for key in _PLAN_KEYS.get(name, ()))


def is_in_plan(anchor: Anchor, params: ReadParameters) -> bool:
    """Whether the parameters of the trade plan have an anchor."""
    if anchor.kind == "number":
        return bool(anchor.values & params.plan_numbers)
    if anchor.kind == "schedule":
        return "trade_on" in params.plan
    return anchor.kind == "plan" and any(key in params.plan for key in _PLAN_KEYS.get(anchor.value, ()))


def _has_modifier(anchor: Anchor, whole: AnchoredText, became: AnchoredText) -> bool:
    """Whether a modifier comes back; *at least* and *at most* beside their number."""
    words, value = became.plain, anchor.value
    if value in ("at-least", "at-most"):
        numbers = [
            each
            for each in whole.of("number")
            if -4 <= anchor.begin - each.end <= 4 or -4 <= each.begin - anchor.end <= 12
        ]
        beside = [each for each in became.of("number") if any(each.meets(number) for number in numbers)]
        if not beside:
            return bool(re.search(_ALSO[value], words))  # "手续费"
        ahead = [became.plain[max(0, each.begin - 28) : each.begin] for each in beside]
        behind = [became.plain[each.end : each.end + 14] for each in beside]
        return any(re.search(_ALSO[value], each) for each in ahead) or any(  # "手续费"
            map(_AT_LEAST_BEHIND.match, behind)
        )
    return bool(re.search(_ALSO[value], words))  # "手续费"


def _has_direction(anchor: Anchor, whole: AnchoredText, became: AnchoredText) -> bool:
    crosses = "cross" in anchor.values and bool(re.search(r"上穿|下穿|叉|cross", whole.word(anchor)))  # "叉"
    if crosses and not _EVENT.search(became.plain):
        return False
    return bool(became.of("direction", "extent", "extreme") or re.search(r"[><≥≤+-]", became.plain))  # ">"


_AT_LEAST_BEHIND = re.compile(  # "天以上"
    r"\s*(?:个?(?:交易)?[日天]|[只支]|days?|sessions?|%)?\s*(?:及|或)?(?:以上|以内|之内|以下|更[多高大少低小]|or (?:more|less|higher|lower|worse|above|below)|\+|plus|at (?:least|most)|and (?:more|above)|的?上限)"
)
_EVERY = re.compile(r"每|every|each|rebalanc|调")  # "每月"
_TURNS = frozenset({"5", "7", "20", "21", "22", "60", "63"})
"""Sessions of a week, a month, a quarter."""
_INDEX_CODE = re.compile(r"\d{6}\.(?:sh|sz|csi)")  # "000300.sh"
_MEMBERS = re.compile(  # "成分股"
    r"\s*(?:里|中|内|的|成分|股票池|全部|members?|names?|stocks?|constituents?|components?|universe)"
)


def _names_a_market(became: AnchoredText) -> bool:
    codes = _INDEX_CODE.findall(became.plain)
    return bool(became.of("market")) or any(is_index_code(code.upper()) for code in codes)


def _is_universe(anchor: Anchor, whole: AnchoredText, params: ReadParameters) -> bool:
    """Whether an index says which stocks are traded, as the codes do."""
    traded = "ALL" in params.codes or any(map(is_index_code, params.codes))
    named = _MEMBERS.match(whole.plain, anchor.end)
    return bool(named or (traded and _OF.search(whole.plain, 0, anchor.begin)))


_OF = re.compile(r"(?:\b(?:in|of|from|among|within|rank|across)(?: the)?|在|从)\s*$")  # "across the"


def shares_value(anchor: Anchor, others: Sequence[Anchor]) -> bool:
    return any(anchor.meets(each) for each in others)


def _has_field(anchor: Anchor, became: AnchoredText) -> bool:
    names = {name for each in became.of("field") for name in each.values}
    if anchor.values & names or (
        anchor.values & _BY_MOVEMENT and became.of("direction", "field", "extent", "extreme")
    ):
        return True
    if "volume" in anchor.values or "turnover_rate" in anchor.values:
        return bool(names & {"volume", "turnover_rate", "amount", "volume_ratio"} or "量" in became.plain)
    return same_family(anchor.values, names)


def same_family(ones: Collection[str], others: Collection[str]) -> bool:
    """Whether two sets of fields have members of one family, which may stand for each other."""
    return any(not family.isdisjoint(ones) and not family.isdisjoint(others) for family in _FAMILIES)


def _is_listed(anchor: Anchor, params: ReadParameters) -> bool:
    """Whether a field is among those to be fetched, under any of its names."""
    listed = [each.lower() for each in params.fields]
    return any(value.startswith(each) or each.startswith(value) for each in listed for value in anchor.values)
