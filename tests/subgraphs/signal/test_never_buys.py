"""A rule that holds nowhere in its window is a question before anything is traded."""

import pytest

from quantgraph.runs import RunSpec, resume_run, run_strategy

NEVER = {
    "beyond its range": "合成30，RSI低于1买入，RSI高于99卖出，2024年",
    "a contradiction": "合成30，RSI低于20且RSI高于80买入，跌破20日均线卖出，2024年",
    "two sides of one average": "000341.SZ, buy when the close is above its 20-day average and below its 20-day "
    "average, sell after 10 days, 2024",
    "no price": "合成30，收盘价低于0买入，跌破20日均线卖出，2024年",
    "too rare": "000341.SZ，连续涨12天买入，跌破5日均线卖出，2024年",
}
RARE = "000341.SZ，RSI低于1买入，RSI高于60卖出，2024年"


def asked(sentence, folder):
    return run_strategy(
        RunSpec(question=sentence, on_clarify="ask"), source="sample", out=folder, model="keyless"
    )


@pytest.mark.parametrize("kind", NEVER)
def test_what_holds_nowhere_is_asked_about(kind, tmp_path):
    result = asked(NEVER[kind], tmp_path)
    assert result["ended_because"] == "needs_answer"
    assert result["account"] is None
    assert len(result["open_question"]["options"]) == 2
    assert "一次也没有成立" in result["error"] or "holds nowhere" in result["error"]


def test_its_answers_go_on_stop_or_say_another_condition(tmp_path):
    def answered(folder, answer):
        return resume_run(asked(RARE, tmp_path / folder).folder, answer=answer)

    all_the_same = answered("one", "照样运行")
    assert (all_the_same["ended_because"], all_the_same["judgement"]["verdict"]) == ("done", "never traded")
    other = answered("two", "RSI低于35买入，RSI高于60卖出")
    assert other["ended_because"] == "done"
    assert other["account"]["trades"] > 0
    stopped = answered("three", "停止")
    assert stopped["ended_because"] == "cancelled"
    assert stopped["account"] is None


def test_where_defaults_are_taken_the_verdict_says_it(tmp_path):
    result = run_strategy(RARE, source="sample", out=tmp_path, model="keyless")
    assert result["ended_because"] == "done"
    assert result.verdict.startswith("从未成交：")
    assert "完成" not in result.verdict


def test_a_short_window_without_a_purchase_is_no_question(tmp_path):
    result = asked("000341.SZ，RSI低于1买入，RSI高于60卖出，2024年3月", tmp_path)
    assert (result["ended_because"], result["judgement"]["verdict"]) == ("done", "never traded")
