"""What a person gives up, restates or chooses: clauses of a trade plan, unread parts, what is watched and traded."""

from __future__ import annotations

import pytest

from quantgraph.sentences._request import ParsedRequest, RequestContext, read_request
from quantgraph.sentences._rules import NEVER

RULE = "5日均线上穿20日均线买入，下穿卖出"
STOP = f"600519.SH 2025年 {RULE}，止损5%"
NAMES = {"贵州茅台": "600519.SH", "招商银行": "600036.SH", "中国平安": "601318.SH"}


def read(text: str, *executes: str) -> ParsedRequest:
    return read_request(
        text, RequestContext(last_session="20251031", names=NAMES, executes=frozenset(executes))
    )


def not_done(request: ParsedRequest) -> list[str]:
    return [note.words for note in request.clauses if note.status == "not_done"]


@pytest.mark.parametrize(
    "answer",
    [
        "不要止损了",
        "忽略止损",
        "没有止损也行",
        "去掉止损",
        "不要它，继续",
        "go on without it",
        "without the stop loss",
        "不使用 止损5%",
        RULE,
    ],
)
def test_a_stop_that_ends_asking_or_left_out_is_named_not_done(answer: str) -> None:
    asked, plain = read(STOP), read(f"600519.SH 2025年 {RULE}")
    assert (asked.missing, asked.plan) == (("plan",), {"stop_loss": 0.05})
    answered = read(f"{STOP}\n{answer}")
    assert (answered.missing, answered.plan) == ((), {})
    assert not_done(answered) == ["止损5%"]
    assert answered.strategy == plain.strategy


def test_only_the_clause_that_is_named_ends_asking() -> None:
    request = read(f"{STOP}，止盈10%\n不要止盈")
    assert request.missing == ("plan",)
    assert request.plan == {"stop_loss": 0.05}
    assert not_done(request) == ["止盈10%"]


def test_a_later_stop_replaces_the_earlier_one() -> None:
    assert read(f"{STOP}\n{RULE}，止损8%").plan == {"stop_loss": 0.08}


def test_a_clause_that_the_decider_executes_is_done() -> None:
    request = read(f"{STOP}，杠杆2倍", "stop_loss")
    assert [clause.words for clause in request.open] == ["杠杆2倍"]
    assert [(note.words, note.status) for note in request.clauses] == [("止损5%", "done")]


def test_of_two_values_of_one_word_the_first_is_asked_about() -> None:
    request = read("600519.SH 2025年，5日均线上穿20日均线买入，下穿卖出，止损8%，2倍ATR止损", "stop_loss")
    assert [clause.words for clause in request.open] == ["止损8%"]
    assert request.plan == {"stop_loss": {"atr": 2.0}}


PLANS = {
    "止损5%，止盈10%": {"stop_loss": 0.05, "take_profit": 0.1},
    "stop loss of 5% and take profit of 10%": {"stop_loss": 0.05, "take_profit": 0.1},
    "亏损8%卖出": {"stop_loss": 0.08},
    "移动止损8%": {"trailing_stop": 0.08},
    "5% trailing stop": {"trailing_stop": 0.05},
    "最多持有10天": {"max_holding": 10},
    "最多同时持有5只股票": {"max_positions": 5},
    "每月调仓": {"trade_on": "month_start"},
    "每5个交易日调仓": {"trade_on": 5},
    "等权": {"size": "equal_weight"},
    "每只10%": {"size": {"percent": 0.1}},
    "半仓": {"size": {"percent": 0.5}},
    "用50万资金": {"cash": 500_000.0},
    "with initial capital of 100,000": {"cash": 100_000.0},
    "手续费万分之2.5": {"commission": 0.00025},
    "commission 3 bps": {"commission": 0.0003},
    "滑点千分之一": {"slippage_bps": 10.0},
    "2倍ATR止损": {"stop_loss": {"atr": 2.0}},
    "止损2ATR": {"stop_loss": {"atr": 2.0}},
    "3x ATR(20) trailing stop": {"trailing_stop": {"atr": 3.0, "window": 20}},
    "移动止损3ATR": {"trailing_stop": {"atr": 3.0}},
    "万三佣金": {"commission": 0.0003},
    "基准沪深300": {"benchmark": "000300.SH"},
}


@pytest.mark.parametrize(("words", "plan"), PLANS.items(), ids=list(PLANS))
def test_a_clause_of_the_trade_plan_is_read_and_leaves_the_rule_alone(
    words: str, plan: dict[str, object]
) -> None:
    request = read(f"600519.SH 2025年，{RULE}，{words}")
    assert request.plan == plan
    assert request.missing == ("plan",)
    assert request.trade == ("600519.SH",)
    assert request.strategy == read(f"600519.SH 2025年 {RULE}").strategy


def test_a_stop_joined_to_the_exit_leaves_the_rest_of_the_exit() -> None:
    plain = read("600519.SH 2025: buy when RSI is below 30, sell when above 70")
    request = read("600519.SH 2025: buy when RSI is below 30, sell when above 70 or at a 5% stop loss")
    assert request.strategy == plain.strategy
    chinese = read("600519.SH 2025年 5日均线上穿20日均线买入，5日均线下穿20日均线或亏损5%卖出")
    assert chinese.strategy == read(f"600519.SH 2025年 {RULE}").strategy


def test_an_unread_part_is_left_out_only_when_the_person_says_so() -> None:
    text = f"600519.SH 2025年 {RULE}，北向流入"
    asked = read(text)
    assert (asked.missing, asked.can_go_on) == (("strategy",), True)
    assert not_done(read(f"{text}\n不要它，继续")) == ["北向流入"]


@pytest.mark.parametrize(
    "text", ["北向资金流入买入，高于70卖出", "RSI低于30买入，VWAP下方卖出", "buy wen RSI below 30"]
)
def test_the_rule_itself_cannot_be_left_out(text: str) -> None:
    request = read(f"600519.SH 2025年 {text}\ngo on without it")
    assert request.missing == ("strategy",)


WATCHED = {
    "上证50站上20日均线时买入600519.SH，2025年": ("000016.SH", "600519.SH"),
    "buy 600519.SH when the SSE 50 crosses above its 20-day SMA, sell when it crosses below, 2025": ("000016.SH", "600519.SH"),
    "招商银行RSI低于30时买入贵州茅台，高于70卖出，2025年": ("600036.SH", "600519.SH"),
    "买入贵州茅台当招商银行RSI低于30，高于70卖出，2025年": ("600036.SH", "600519.SH"),
    "600519.SH: buy when SSE 50 is above its 20-day average, sell when below, 2025": ("000016.SH", "600519.SH"),
    "When the RSI of 601318.SH is below 30, buy 600519.SH; sell when the RSI of 601318.SH is above 70; 2025": ("601318.SH", "600519.SH"),
    "观察601318.SH，交易600519.SH，RSI低于30买入，高于70卖出，2025年": ("601318.SH", "600519.SH"),
    "如果上证50的MACD金叉，买入贵州茅台，死叉卖出，2025年": ("000016.SH", "600519.SH"),
    "RSI低于30买入600519.SH，RSI高于70卖出，2025年": ("600519.SH", "600519.SH"),
    "600519.SH in the SSE 50, 5/20 golden cross, 2025": ("600519.SH", "600519.SH"),
    "上证50中的贵州茅台 MACD金叉买入，死叉卖出，2025年": ("600519.SH", "600519.SH"),
    "use 601318.SH instead of 600519.SH, 5/20 golden cross, 2025": ("601318.SH", "601318.SH"),
    "把600519.SH换成601318.SH，MACD金叉买入，死叉卖出，2025年": ("601318.SH", "601318.SH"),
    "buy SSE 50 stocks when RSI is below 30, sell when above 70, 2025": ("000016.SH", "000016.SH"),
}  # fmt: skip


@pytest.mark.parametrize(("text", "codes"), WATCHED.items(), ids=list(WATCHED))
def test_what_is_watched_and_what_is_traded(text: str, codes: tuple[str, str]) -> None:
    request = read(text)
    assert request.missing == ()
    assert (*request.watch, *request.trade) == codes


@pytest.mark.parametrize(
    "text",
    [
        "上证50站上20日均线买入贵州茅台，RSI高于70卖出，2025年",
        "当沪深300突破60日新高时买入600519.SH，2025年",
        "buy SSE 50 stocks when 600519.SH crosses above its 20-day SMA, 2025",
        "上证50贵州茅台，RSI低于30买入，2025年",
        "招商银行，RSI低于30买入贵州茅台，2025年",
        "600519.SH跑赢601318.SH时买入，2025年",
        "SSE 50 except 600519.SH, 5/20 golden cross, 2025",
        "招商银行RSI低于30时买入贵州茅台，高于70卖出，2025年\n中国平安",
    ],
)
def test_securities_that_cannot_be_placed_are_asked_about(text: str) -> None:
    request = read(text)
    assert request.missing == ("strategy",)
    assert request.unparsed


def test_traditional_characters_are_read() -> None:
    request = read("貴州茅台，5日均線上穿20日均線買入，下穿賣出，2025年")
    assert request.missing == ()
    assert request.strategy == read(f"600519.SH 2025年 {RULE}").strategy


def test_a_security_that_only_a_clause_names_is_the_one_that_was_said() -> None:
    request = read_request("Short 600519.SH whenever it closes under its 50-day MA, 2025", RequestContext())
    assert (request.trade, "symbols" in request.missing) == (("600519.SH",), False)


def test_words_behind_a_clause_give_it_up_too() -> None:
    rule = "600519.SH 5日均线上穿20日均线买入，下穿卖出，止损5%，每次只用三成资金，2025年"
    said = read_request(rule, RequestContext())
    assert said.plan == {"stop_loss": 0.05, "size": {"percent": 0.3}}
    later = read_request(f"{rule}\n止损不要了，仓位也不要了", RequestContext())
    assert (later.missing, [note.status for note in later.clauses]) == ((), ["not_done", "not_done"])


CROSS = "收盘价上穿20日线买入，下穿卖出，"
CROSS_EN = "buy when the close crosses above its 20-day average, sell when it crosses below, "
PLANS: dict[str, dict[str, object]] = {
    f"{CROSS}跌破买入价8%止损": {"stop_loss": 0.08},
    f"{CROSS}止盈20%，止损8%": {"take_profit": 0.2, "stop_loss": 0.08},
    f"{CROSS}移动止损10%": {"trailing_stop": 0.1},
    f"{CROSS}最多持有20天": {"max_holding": 20},
    f"{CROSS}三成仓": {"size": {"percent": 0.3}},
    f"{CROSS}每次只用三成资金": {"size": {"percent": 0.3}},
    f"{CROSS}30%仓位": {"size": {"percent": 0.3}},
    f"{CROSS}每只两万": {"size": {"cash": 20_000}},
    f"{CROSS}每次买500股": {"size": {"shares": 500}},
    "RSI低于30买入1万元，高于70卖出": {"size": {"cash": 10_000}},
    f"{CROSS}最多5只": {"max_positions": 5},
    f"{CROSS}每周一调仓": {"trade_on": "week_start"},
    f"{CROSS}每月第一个交易日调仓，等权": {"trade_on": "month_start", "size": "equal_weight"},
    f"{CROSS}每季度调仓": {"trade_on": "quarter_start"},
    f"{CROSS}每5个交易日调仓": {"trade_on": 5},
    "收盘价上穿20日线买三成仓，之后每涨5%加两成仓，下穿卖出": {
        "size": {"percent": 0.3},
        "accumulate": {"percent": 0.2, "on": "rise", "by": 0.05},
    },
    f"{CROSS}每跌5%加仓1000股": {"accumulate": {"shares": 1000, "on": "fall", "by": 0.05}},
    f"{CROSS}每跌5%再加仓两万元": {"accumulate": {"amount": 20_000, "on": "fall", "by": 0.05}},
    "每月第一个交易日买入20日涨幅最大的5只，其余卖出": {"max_positions": 5, "trade_on": "month_start"},
    f"{CROSS_EN}stop loss 8%, take profit 20%": {"stop_loss": 0.08, "take_profit": 0.2},
    f"{CROSS_EN}trailing stop 10%": {"trailing_stop": 0.1},
    f"{CROSS_EN}hold at most 20 days": {"max_holding": 20},
    f"{CROSS_EN}30% of the account each time": {"size": {"percent": 0.3}},
    f"{CROSS_EN}$20,000 per stock": {"size": {"cash": 20_000}},
    f"{CROSS_EN}at most 5 positions": {"max_positions": 5},
    f"{CROSS_EN}rebalance quarterly, equal weight": {"trade_on": "quarter_start", "size": "equal_weight"},
    f"{CROSS_EN}add 20% at each rise of 5%": {"accumulate": {"percent": 0.2, "on": "rise", "by": 0.05}},
    "buy the 3 stocks with the highest 20-day return, sell the rest": {"max_positions": 3},
    "buy the 200 stocks with the highest 20-day return, sell the rest": {},
}


@pytest.mark.parametrize("sentence", PLANS)
def test_the_words_of_a_plan_are_read_beside_the_rule(sentence: str) -> None:
    request = read_request(f"600519.SH,600036.SH {sentence} 2025", RequestContext())
    assert (request.missing, request.unparsed, request.open) == ((), (), ())
    assert (request.strategy is not None, request.plan) == (True, PLANS[sentence])


@pytest.mark.parametrize(
    ("sentence", "plan"),
    [
        ("每个月第一个交易日定投长江电力5000元，一直拿着不卖，2025年", ("month_start", 5000)),
        ("600900.SH，每月定投5000元，长期持有，2025年", ("month_start", 5000)),
        ("600900.SH，每周定投一千元，2025年", ("week_start", 1000)),
        ("Buy $500 of AAPL on the first trading day of each month, 2025", ("month_start", 500)),
        ("AAPL: invest $500 every week, never sell, 2025", ("week_start", 500)),
        ("dollar cost averaging $500 into AAPL every month, 2025", ("month_start", 500)),
    ],
)
def test_regular_buying_alone_is_a_rule_that_never_sells(sentence: str, plan: tuple[str, int]) -> None:
    request = read_request(sentence, RequestContext(names={"长江电力": "600900.SH"}))
    when, amount = plan
    assert (request.missing, request.unparsed, request.open) == ((), (), ())
    assert request.plan == {"trade_on": when, "accumulate": {"amount": amount, "on": "schedule"}}
    assert request.strategy is not None
    assert request.strategy.exit == NEVER


@pytest.mark.parametrize(
    ("said", "exit_", "is_default"),
    [
        ("止盈10%，止损5%", "止盈10%", False),
        ("持有10天卖出", "持有10天卖出", False),
        ("移动止损10%", "移动止损10%", False),
        ("止损5%", "", True),
    ],
)
def test_an_end_that_the_plan_names_is_the_exit_and_a_stop_alone_is_not(
    said: str, exit_: str, is_default: bool
) -> None:
    request = read_request(f"600036.SH RSI低于30买入，{said}，2025年", RequestContext())
    assert request.strategy is not None
    assert (request.exit, request.strategy.exit == NEVER) == (exit_, not is_default)
    assert any(note.status == "default" for note in request.clauses) == is_default


@pytest.mark.parametrize(
    ("words", "kept", "left"),
    [
        ("stop loss 6%, 3x leverage", {"stop_loss": 0.06}, ["3x leverage"]),
        (
            "half of the money each time, stop loss 6%, short it below",
            {"size": {"percent": 0.5}, "stop_loss": 0.06},
            None,
        ),
    ],
)
def test_going_on_without_what_cannot_be_done_keeps_what_can(words, kept, left):
    rule = "000341.SZ, 2025: buy when RSI(14) is below 30, sell when it is above 70"
    read = read_request(f"{rule}, {words}\ngo on without it", RequestContext())
    assert read.plan == kept
    assert read.open == ()
    dropped = [each.words for each in read.clauses if each.status == "not_done"]
    assert dropped == left if left else dropped


@pytest.mark.parametrize("often", ["", " each time", " every time", " per trade"])
@pytest.mark.parametrize(("words", "share"), [("half of the money", 0.5), ("30% of my capital", 0.3)])
def test_a_size_may_say_that_it_is_of_each_purchase(words, share, often):
    rule = "000341.SZ, 2025: buy when RSI(14) is below 30, sell when it is above 70"
    read = read_request(f"{rule}, {words}{often}", RequestContext())
    assert (read.plan, read.unparsed) == ({"size": {"percent": share}}, ())


@pytest.mark.parametrize(
    ("words", "answer", "kept", "asked"),
    [
        ("stop loss 6%", "go on without the stop loss", {}, []),
        ("stop loss 6%", "go on without it", {}, []),
        ("stop loss 6%", "skip it", {}, []),
        ("stop loss 6%", "去掉它", {}, []),
        ("stop loss 6%, 3x leverage", "go on without the stop loss", {}, ["3x leverage"]),
        ("stop loss 6%, 3x leverage", "go on without 3x leverage", {"stop_loss": 0.06}, []),
        ("stop loss 6%, 3x leverage", "go on without 3x leverage, stop loss 6%", {}, []),
        ("stop loss 6% gladly", "go on without it", {"stop_loss": 0.06}, []),
    ],
)
def test_what_is_given_up_is_what_is_named_else_what_was_asked_about(words, answer, kept, asked):
    rule = "000341.SZ, 2025: buy when RSI(14) is below 30, sell when it is above 70"
    read = read_request(f"{rule}, {words}\n{answer}", RequestContext())
    assert read.plan == kept
    assert [each.words for each in read.open] == asked


def test_half_a_position_that_is_sold_is_no_size_of_each_purchase():
    rule = (
        "000341.SZ, 2025: buy when RSI(14) is below 30, sell when above 70, sell half the position each time"
    )
    assert read_request(rule, RequestContext()).unparsed == ("time",)
