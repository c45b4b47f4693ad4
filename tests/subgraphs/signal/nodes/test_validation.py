"""Validation: code is held against the words; a finding goes back once, and what stays is read first."""

import pytest

CROSS = "收盘价上穿20日均线买入，下穿卖出"
RULE = """\
close = snapshot["ohlcv"]["close"]
mean = close.rolling({period}).mean()
above = close > mean
before = above.shift(1, fill_value=False)
known = mean.shift(1).notna()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(above & ~before & known, 1.0).mask(~above & before & known, -1.0)
GLOBAL_DATA_STATE.update("signal", {{"cross": signal}})
"""
RIGHT, WRONG = RULE.format(period=20), RULE.format(period=30)


def answer(play, graph_of, code, **given):
    params = {"strategy_desc": CROSS, "start_date": "20240102", "end_date": "20240628"}
    cast = play.Cast(reflect=play.intent(**params), code=lambda messages, turn: code(turn, messages))
    text = f"{play.ONE}，{CROSS}，2024年1月2日到2024年6月28日"
    return cast, graph_of(cast).invoke({"messages": [("user", text)], **given}, {"recursion_limit": 60})


def cells(play, *turns):
    """The code of each turn: one cell, then a closing word."""

    def code(turn, messages):
        ran = messages[-1].type == "tool"
        return "done" if ran else play.tool_call("python_repl", query=turns[min(turn, len(turns)) - 1])

    return code


def issues(state):
    return [issue["code"] for issue in state["validation"]["issues_found"]]


def test_a_finding_goes_back_once_and_mended_code_ends_done(play, graph_of):
    cast, state = answer(play, graph_of, cells(play, WRONG, RIGHT))
    assert state["ended_because"] == "done"
    assert not [code for code in issues(state) if code.startswith("meaning")]
    assert cast.turns["code"] == 2
    assert "meaning: The code does not do what was said." in cast.said["code"][1]
    assert "close crosses above SMA(20)" in cast.said["code"][1]


def test_a_finding_that_stays_is_the_first_line_of_the_result(play, graph_of):
    cast, state = answer(play, graph_of, cells(play, WRONG))
    assert (state["ended_because"], cast.turns["code"]) == ("done", 2)
    assert issues(state)[0] == "meaning_differs"
    assert (
        state["messages"][-1].text.splitlines()[0].startswith("代码的持仓与所说的规则不一致（000341.SZ 2024-")
    )


def test_right_code_is_not_asked_for_again(play, graph_of):
    cast, state = answer(play, graph_of, cells(play, RIGHT))
    assert cast.turns["code"] == 1
    assert not [code for code in issues(state) if code.startswith("meaning")]


def test_the_last_attempt_keeps_its_signal(play, graph_of):
    _, state = answer(play, graph_of, cells(play, WRONG), max_retries=1)
    assert (state["ended_because"], issues(state)[0]) == ("done", "meaning_differs")


@pytest.mark.parametrize("sentence", ["RSI低于70买入，高于30卖出", "RSI(14) below 70 buy, above 30 sell"])
def test_a_rule_that_buys_and_sells_at_once_is_shown_and_not_sent_back(graph_of, play, sentence):
    graph = graph_of(play.Cast(), model="keyless")
    state = graph.invoke({"messages": [("user", f"{play.ONE} {sentence} 20240102-20240628")]})
    assert (state["ended_because"], issues(state)[0]) == ("done", "meaning_overlap")
