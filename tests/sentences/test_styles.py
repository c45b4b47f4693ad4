"""A style without a rule is asked about; only a bare strategy request gets the default."""

from __future__ import annotations

import pytest
from langchain_core.messages import HumanMessage

from quantgraph.runtime import Resources
from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.state import DataState
from quantgraph.subgraphs.signal import create_signal_subgraph

ENGLISH = (
    "mean reversion", "mean-reversion trading", "momentum", "momentum trading", "value", "value stock", "valuation", "breakout",
    "trend", "trend following", "trend-following", "reversal", "contrarian", "growth", "quality", "low volatility", "pairs trading",
    "statistical arbitrage", "market neutral", "market making", "event driven", "sector rotation", "multi-factor", "small cap",
    "high dividend", "index", "indicator", "band trading", "ranking", "swing", "grid", "turtle", "RSI", "KDJ", "Bollinger", "volume",
)  # fmt: skip
CHINESE = (
    "均值回归", "均值回归交易", "回归", "动量", "动量选股", "动量轮动", "价值", "价值投资", "突破", "趋势", "趋势跟踪", "反转", "逆势", "成长",
    "低波动", "配对交易", "统计套利", "做市", "事件驱动", "行业轮动", "多因子", "小市值", "红利", "低估值", "量价", "海龟", "网格", "波段", "区间",
    "区间交易", "指标", "指标的", "排名", "打板", "定投", "均线突破", "RSI", "KDJ", "布林带",
)  # fmt: skip
NAMED = [
    *(f"a {style} strategy on 合成30 in 2025" for style in ENGLISH),
    *(f"合成30成分股，2025年，帮我做个{style}策略" for style in CHINESE),
    "合成30 in 2025, a strategy based on value",
    "strategy by ranking, 合成30, 2025",
    "mean reversion on 合成30 in 2025",
]
CONTEXT = RequestContext(first_session="20230103", last_session="20251231", names={"合成30": "990030.SH"})


def test_a_style_without_a_rule_is_unread_and_asked_about(subtests: pytest.Subtests) -> None:
    for sentence in NAMED:
        with subtests.test(sentence=sentence):
            request = read_request(sentence, CONTEXT)
            assert (request.strategy, request.missing[0]) == (None, "strategy")
            assert request.unparsed or request.open
            assert all(words in sentence for words in request.unparsed)


@pytest.mark.parametrize(
    "sentence",
    [
        "a simple strategy on 合成30 in 2025",
        "合成30 index members in 2025, please write a new trading strategy for these stocks",
        "backtest a classic dual moving average strategy on 合成30 in 2025",
        "合成30指数成分股，2025年，帮我做个简单的策略",
        "合成30 2025年 双均线策略",
        "生成合成30在2025年的交易信号",
    ],
)
def test_the_default_answers_only_its_own_style(sentence: str) -> None:
    request = read_request(sentence, CONTEXT)
    assert (request.strategy, request.missing, request.unparsed) == (None, ("strategy",), ())


def test_a_rule_answers_a_style_and_a_style_takes_back_a_rule() -> None:
    style, rule = "合成30 2025年 动量策略", "MACD金叉买入，死叉卖出"
    assert read_request(f"{style}\n{rule}", CONTEXT).missing == ()
    assert read_request(f"{rule}\n{style}", CONTEXT).missing == ("strategy",)


@pytest.mark.parametrize(
    ("sentence", "style"),
    [("mean reversion strategy on 合成30 in 2025", "mean reversion"), ("合成30 2025年 价值策略", "价值")],
)
def test_no_default_replaces_a_style(sentence: str, style: str) -> None:
    graph = create_signal_subgraph(on_clarify="default", resources=Resources(store=DataState()))
    state = graph.invoke({"messages": [HumanMessage(sentence)]})
    assert (state["ended_because"], state.get("assumptions", [])) == ("needs_answer", [])
    assert style in str(state["messages"][-1].text)
