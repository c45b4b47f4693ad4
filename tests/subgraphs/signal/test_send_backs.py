"""Each kind of finding goes back at least once; a fault with a cell that shows it never ends done."""

import json

import pytest
from crosses import CROSS, RIGHT, WRONG
from langchain_core.messages import AIMessage
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command
from states import flat

from quantgraph.subgraphs.signal._coding import MAX_GENERATIONS

pytestmark = pytest.mark.proof

UP_DAY = "buy after an up day, sell after a down day"
GOOD = """\
change = snapshot["ohlcv"]["close"].diff()
signal = change.gt(0).astype(float).where(change.notna()).mask(change < 0, -1.0)
GLOBAL_DATA_STATE.update("signal", {"up_day": signal})
"""
LATE = GOOD.replace("change < 0", "change < -0.05")
LOOKS_AHEAD = GOOD.replace(".diff()", ".diff().shift(-1)")
FAULT = {
    "severity": "error",
    "message": "down days are not sold",
    "symbol": "000341.SZ",
    "date": "2024-01-05",
    "expected": -1,
    "why": "the close fell",
    "cell": 'change = snapshot["ohlcv"]["close"]["000341.SZ"].diff().loc["2024-01-05"]\n'
    'assert change > 0 or snapshot["signal"]["up_day"]["000341.SZ"].loc["2024-01-05"] == -1\n',
}
DOUBT = {"severity": "error", "message": "the exit may be another one"}
CONFIG = {"recursion_limit": 80, "configurable": {"thread_id": "t"}}


@pytest.fixture
def begun(play, graph_of):
    """A graph, begun on a sentence whose model hands over these cells, one a turn, the last again and again."""

    def begin(cells, *, sentence=CROSS, review=None, closing="done", **options):
        def code(messages, turn):
            ran = messages[-1].type == "tool"
            return (
                AIMessage(closing)
                if ran
                else play.tool_call("python_repl", query=cells[min(turn, len(cells)) - 1])
            )

        window = {"start_date": "20240102", "end_date": "20240628"} if sentence != UP_DAY else {}
        answers = {"review": review} if review else {}
        cast = play.Cast(reflect=play.intent(strategy_desc=sentence, **window), code=code, **answers)
        graph = graph_of(cast, **options)
        text = f"{play.ONE}, {sentence}, {'20240102-20240628' if window else 'January 2024'}"
        return cast, graph, graph.invoke({"messages": [("user", text)]}, CONFIG)

    return begin


def reviews(*rounds):
    """The issues of each review."""
    return lambda messages, turn: json.dumps({"issues_found": rounds[min(turn, len(rounds)) - 1]})


def codes(state):
    found = flat(state)["validation"]["issues_found"]
    return [each["code"] for each in found if each["code"].startswith("meaning")]


def test_a_difference_that_stays_ends_a_headless_run_with_place_words_and_code(begun):
    cast, _, state = begun([WRONG], on_clarify="fail")
    assert (state["ended_because"], cast.turns["code"]) == ("meaning_failed", 2)
    (fault,) = [each for each in flat(state)["validation"]["issues_found"] if "meaning" in each["code"]]
    for text in (state["error_messages"][-1], state["messages"][-1].text):
        for part in (fault["session"], "000341.SZ", "20日均线买入", "前者持有，后者应空仓"):
            assert part in text


@pytest.mark.parametrize("retries", [1, 3])
def test_it_goes_back_whatever_is_left_of_the_retries_of_code_that_fails(begun, play, graph_of, retries):
    cast, graph, _ = begun([WRONG, RIGHT], on_clarify="fail")
    cast.turns.clear()
    text = f"{play.ONE}, {CROSS}, 20240102-20240628"
    state = graph.invoke({"messages": [("user", text)], "max_retries": retries}, CONFIG)
    assert (state["ended_because"], cast.turns["code"]) == ("done", 2)


def test_a_false_alarm_of_one_kind_leaves_the_others_theirs(begun):
    """A doubt, then a fault with a cell, then look-ahead: each goes back, and right code ends done."""
    review = reviews([DOUBT], [FAULT], [])
    cells = [LATE, LATE.replace("-0.05", "-0.04"), LOOKS_AHEAD, GOOD]
    cast, _, state = begun(cells, sentence=UP_DAY, review=review, on_clarify="fail")
    assert (state["ended_because"], cast.turns["code"]) == ("done", 4), state["error_messages"]
    assert "a reviewer thinks: the exit may be another one" in cast.said["code"][1]
    assert "The review reproduced a fault: down days are not sold" in cast.said["code"][2]
    assert "Its assertion fails" in cast.said["code"][2]
    assert "not_causal" in cast.said["code"][3]
    assert codes(state) == []


def test_code_that_comes_back_as_it_was_is_not_reviewed_again(begun):
    cast, _, state = begun([LATE], sentence=UP_DAY, review=reviews([DOUBT]), on_clarify="fail")
    assert (state["ended_because"], cast.turns["code"], cast.turns["review"]) == ("done", 2, 1)
    assert "hand the same code over again and say why" in cast.said["code"][1]
    first, second = state["messages"][-1].text.splitlines()[:2]
    assert first.startswith("Not compared with the sentence: ")
    assert second.startswith("The review doubts, without a cell that shows it: the exit")


def test_a_fault_of_the_review_that_stays_does_not_end_done(begun):
    cast, _, state = begun([LATE], sentence=UP_DAY, review=reviews([FAULT]), on_clarify="fail")
    assert (state["ended_because"], cast.turns["code"], cast.turns["review"]) == ("meaning_failed", 2, 1)
    assert "At 2024-01-05 000341.SZ the words want -1" in state["messages"][-1].text
    assert "assert" not in state["messages"][-1].text


def test_without_a_checkpointer_nobody_can_be_asked(begun):
    _, _, state = begun([WRONG])
    assert state["ended_because"] == "meaning_failed"


@pytest.fixture
def asked(begun):
    def ask(cells):
        cast, graph, state = begun(cells, on_clarify="ask", checkpointer=InMemorySaver())
        (interrupt,) = state["__interrupt__"]
        return cast, graph, interrupt.value

    return ask


def test_a_person_may_go_on_and_the_first_line_says_so(asked):
    cast, graph, question = asked([WRONG])
    assert (question["kind"], question["options"]) == ("meaning", ["按代码的做法继续", "停止"])
    assert "收盘价上穿20日均线买入" in question["question"]
    state = graph.invoke(Command(resume="1"), CONFIG)
    assert (state["ended_because"], cast.turns["code"], codes(state)) == ("done", 2, ["meaning_differs"])
    assert state["messages"][-1].text.startswith(
        "您选择按代码的做法继续。代码与“收盘价上穿20日均线买入，收盘价下穿20日均线卖出”不一致：2024-"
    )
    assert flat(state)["strategy"]["cells"] == [WRONG]


def test_a_person_may_stop(asked):
    _, graph, _ = asked([WRONG])
    assert graph.invoke(Command(resume="停止"), CONFIG)["ended_because"] == "meaning_failed"


def test_other_words_go_to_the_model_which_mends_the_code(asked):
    cast, graph, _ = asked([WRONG, WRONG, RIGHT])
    state = graph.invoke(Command(resume="请再看看均线的周期"), CONFIG)
    assert (state["ended_because"], cast.turns["code"], codes(state)) == ("done", 3, [])
    assert "请再看看均线的周期" in cast.said["code"][2]


def test_another_rule_is_read_anew(asked):
    """The words of the answer are part of the request: the code of a rule changed so is what was said."""
    cast, graph, _ = asked([WRONG])
    other = CROSS.replace("20", "30")
    cast.answers["reflect"]["user_intent"]["params"]["strategy_desc"] = other
    state = graph.invoke(Command(resume=other), CONFIG)
    assert (state["ended_because"], cast.turns["reflect"], codes(state)) == ("done", 2, [])
    assert f"<strategy>{other}</strategy>" in cast.said["code"][-1]


def test_a_function_is_asked_in_place_of_a_person(begun):
    seen = []

    def answer(question):
        seen.append(question["kind"])
        return question["options"][0]

    _, _, state = begun([WRONG], on_clarify=answer)
    assert (state["ended_because"], seen) == ("done", ["meaning"])
    assert any(line.startswith("meaning: ") for line in flat(state)["assumptions"])


def test_after_so_many_codes_only_an_answer_asks_for_another(begun):
    advice = iter(["look again", "look at the average again", "and again"])
    cast, _, state = begun([WRONG], on_clarify=lambda question: next(advice))
    assert (state["ended_because"], cast.turns["code"]) == ("meaning_failed", MAX_GENERATIONS + 1)


def test_a_number_that_was_said_and_is_in_neither_code_nor_plan_goes_back(play, graph_of):
    said = "EMA50上方收出三颗锤子线买入，跌破EMA50卖出"
    clauses = [{"quote": each, "part": part, "status": "done", "became": each} for each, part in zip(
        said.split("，"), ("entry", "exit"), strict=True)]  # fmt: skip
    code_of = GOOD.replace("change = ", "mean = snapshot['ohlcv']['close'].ewm(span={}).mean()\nchange = ")
    turns = [
        code_of.replace("{}", each).replace("diff()", "diff(3)").replace("up_day", "ema50")
        for each in ("60", "50")
    ]

    def code(messages, turn):
        return (
            "done"
            if messages[-1].type == "tool"
            else play.tool_call("python_repl", query=turns[min(turn, 2) - 1])
        )

    cast = play.Cast(reflect=play.intent(strategy_desc=said, clauses=clauses), code=code)
    state = graph_of(cast, on_clarify="fail").invoke(
        {"messages": [("user", f"{play.ONE}，{said}，2024年1月2日到1月31日")]}, {"recursion_limit": 60}
    )
    assert state["ended_because"] == "done"
    assert "stand neither in the code nor in the trade plan: 50." in cast.said["code"][1]
    codes = [issue["code"] for issue in flat(state)["validation"]["issues_found"]]
    assert "not_compared" in codes
    assert "meaning_lost_number" not in codes
