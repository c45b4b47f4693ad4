"""The words and the numbers of a part of the trade plan."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

from quantgraph.sentences.coverage._words import numbers_in, plain


def says_part(words: str, name: str, value: Any) -> bool:
    """Whether words say a part of a plan: one of its words and, if it has numbers, one of these.

    >>> says_part("止损8%", "stop_loss", "0.08"), says_part("2x leverage", "max_positions", 2)
    (True, False)
    """
    words = plain(words)
    numbers = [*plan_numbers(value, name)]
    named = name not in PLAN_WORDS or PLAN_WORDS[name].search(words) is not None
    return named and (not numbers or any(each.is_one_of(numbers) for each in numbers_in(words)))


def plan_numbers(value: Any, key: str = "") -> Iterator[float]:
    """The numbers of a trade plan or a part of it; slippage as a fraction."""
    if isinstance(value, Mapping):
        for name, each in value.items():
            yield from plan_numbers(each, str(name))
    elif isinstance(value, list | tuple):
        for each in value:
            yield from plan_numbers(each, key)
    elif key == "rank":
        yield from map(float, re.findall(r"\d+(?:\.\d+)?", str(value)))
    elif not isinstance(value, bool):
        try:
            number = float(str(value).rstrip("%"))
        except ValueError:
            return
        yield number / 1e4 if key == "slippage_bps" else number / 100 if str(value).endswith("%") else number


def _compiled(pattern: str) -> re.Pattern[str]:
    """A pattern whose English words begin as words; Chinese has no bounds."""
    return re.compile(
        rf"(?:(?<![a-z])(?=[a-z])(?:{pattern})|(?![a-z])(?:{pattern}))"
    )  # "never", not in "whenever"


_SCHEDULE = (
    r"每个?(?:周|星期|礼拜|月|季|\d+\s*个?(?:交易)?[日天])|(?:周|星期|礼拜)[一二三四五](?![线均])|按[周月季]|月[初末底]|[周月季]度|第一个交易日|最后一?个?交易日|调仓|换仓|定投|再平衡|"
    r"weekly|monthly|quarterly|(?:every|each|once a|per|of the|a) (?:trading )?(?:week|month|quarter)|(?:mon|tues|wednes|thurs|fri)days?|rebalanc\w*|month[ -]end|turn of the month|every \w+ (?:sessions|days|weeks|months)"
)
PLAN_WORDS: dict[str, re.Pattern[str]] = {
    name: _compiled(pattern)
    for name, pattern in {
        "trailing_stop": r"移动止|跟踪止|追踪止|回撤|回落|高点|最高|吐|trail\w*|(?:from|off|below|under) (?:its|the|their)? ?(?:highest|peak|high|top)|peak|give\w* back",
        "stop_loss": r"止损|割肉|亏|套|成本|买入价|进场价|stop\w*|loss|lose|cut|(?:below|under) (?:the |my |its )?(?:entry|cost|purchase|buy)|跌",
        "take_profit": r"止盈|赚|盈利|获利|目标|涨|翻|take\w*[ -]?profit|profit|target|gain|(?<!\w)up(?!\w)|\+|bank",
        "max_holding": r"持|拿|天|日|周|月|后|hold\w*|day|session|week|month|after|later|time",
        "min_holding": r"至少|最少|起码|满|以上|不到|before|at least|min(?:imum)?(?![a-z])|not? .*(?:until|before)",
        "cooldown": r"歇|停|等|别|alone|[内再]不|rest|sit out|不再|冷却|隔|再(?:次)?买|cool\w*|again|re-?ent\w*|re-?buy|wait\w*|(?:no|not) .*(?:after|within|for)",
        "no_entry_on": r"不|别|除|no|not|don't|doesn't|isn't|won't|hasn't|haven't|aren't|wasn't|can't|never|except|skip|avoid|only|只",
        "size": r"仓|成|资金|等权|平均|均分|分之|一半|各|股|手|元|块|%|\$|万|equal\w*|shares?|of (?:the |my |our )?(?:account|equity|cash|capital|money|portfolio)|half|third|quarter|each|position|k(?!\w)|worth",
        "max_positions": r"前\s*[\d一二三四五六七八九十]|只|个|支|名|选|持仓|同时|two|three|five|ten|names?|stocks?|positions?|top|best|strongest|weakest|cheapest|largest|smallest|at (?:a|one) time|at once",
        "rank": r"按|排|优先|先|rank|prefer|by|first|大|小|高|低",
        "accumulate": r"定投|加|补|再买|摊|每[涨跌]|add\w*|averag\w*|pyramid\w*|every|each|more|dca|invest",
        "commission": r"手续费|佣金|费|commis\w*|fee",
        "slippage_bps": r"滑点|slippage",
        "benchmark": r"基准|对比|比较|跑赢|benchmark|against|compare|versus|vs",
        "cash": r"本金|资金|初始|万|元|块|账户|capital|cash|account|start\w*|\$|with|k(?!\w)",
        "cash_reserve": r"现金|留|备|cash|reserve|keep",
        "band": r"偏离|超过|幅度|band|drift|within",
        "reentry": r"再|重新|again|re-?ent",
    }.items()
} | dict.fromkeys(("trade_on", "rebalance", "exit_on"), _compiled(_SCHEDULE))  # fmt: skip
"""What a quote has a word of, if a part of the plan is said in it."""
