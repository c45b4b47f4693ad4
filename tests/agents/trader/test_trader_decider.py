"""The trader in a run: what its tools said is what the ledger has, and how a day ended is told."""

from __future__ import annotations

import inspect
from pathlib import Path

import pytest
from trader_play import STOP, buys, says, sells, table_of
from trader_script import FIRST, SECOND, SENTENCE, Script, executions, run, sessions

import quantgraph
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import Rejection, Session, TradePlan
from quantgraph.errors import BadOption, ModelUnavailable, RunMismatch
from quantgraph.runs import RunSpec, read_result, replay, resume_run, run_strategy
from quantgraph.state import DataState
from quantgraph.tools.news._gate import NewsItem


@pytest.fixture(scope="module")
def script():
    return Script(
        {
            "2025-01-02": [
                says(
                    "look",
                    ("get_positions", {}),
                    ("get_price_local", {"symbol": FIRST, "date": "2025-01-02"}),
                ),
                says(
                    "trade",
                    ("buy", {"symbol": FIRST, "amount": 300}),
                    ("buy", {"symbol": FIRST, "amount": 50}),
                ),
                buys(SECOND, 100),
                STOP,
            ],
            "2025-01-03": [sells(FIRST, 100), sells(FIRST, 100), sells(FIRST, 100, STOP)],
        }
    )


@pytest.fixture(scope="module")
def traded(script, tmp_path_factory):
    return run(script, tmp_path_factory.mktemp("runs"))


def test_the_run_is_done_and_each_session_says_how_it_ended(traded):
    done, folder = traded
    assert done["ended_because"] == "done"
    notes = [each.notes["trader"] for each in sessions(folder)]
    assert [each["ended"] for each in notes] == ["stop_signal"] * 3
    assert [each["steps"] for each in notes] == [4, 3, 1]
    assert [each["tool_calls"] for each in notes] == [5, 3, 0]
    assert [each["traded"] for each in notes] == [True, True, False]


def test_an_order_is_at_most_eight_frames_of_ours_below_its_node(tmp_path, monkeypatch):
    """From ``decision_node`` to the session that the order is submitted to."""
    ours, place, stacks = Path(quantgraph.__file__).parent, Session.place, []

    def watched(self, *args, **more):
        frames = [each for each in inspect.stack()[1:] if Path(each.filename).is_relative_to(ours)]
        names = [each.function for each in frames if not Path(each.filename).is_relative_to(ours / "testing")]
        stacks.append(names[: names.index("decision_node")])
        return place(self, *args, **more)

    monkeypatch.setattr(Session, "place", watched)
    run(Script({"2025-01-02": [buys(FIRST, 300), sells(FIRST, 100, STOP), STOP]}), tmp_path)
    assert [names[0] for names in stacks] == ["buy", "sell"]
    assert max(len(names) for names in stacks) <= 8, stacks


def test_what_a_tool_said_is_what_the_ledger_has(traded):
    _, folder = traded
    (first, *_), (log, *_) = sessions(folder), executions(folder)
    answers = [each for step in log.steps for each in (step.result or []) if each["name"] == "buy"]
    assert [each["result"].get("code") for each in answers] == [None, "lot_size", None]
    held = first.account.positions
    last = answers[-1]["result"]
    assert {name: last[name] for name in (FIRST, SECOND)} == {name: held[name].quantity for name in held}
    assert last["CASH"] == float(first.account.cash)
    assert [each.code for each in first.outcomes if isinstance(each, Rejection)] == ["lot_size"]


def test_fills_are_in_the_order_of_the_calls(traded):
    second = sessions(traded[1])[1]
    assert [(fill.order.symbol, fill.side, fill.quantity) for fill in second.fills] == [
        (FIRST, "sell", 100)
    ] * 3


def test_each_reply_is_a_step_of_the_log(traded):
    logs = executions(traded[1])
    assert [(each.symbol, each.rule_name, len(each.steps)) for each in logs] == [
        ("*", "trader", 4),
        ("*", "trader", 3),
        ("*", "trader", 1),
    ]
    steps = logs[0].steps
    assert [step.action["content"] for step in steps] == ["look", "trade", "", STOP]
    assert [call["name"] for call in steps[0].action["tool_calls"]] == ["get_positions", "get_price_local"]
    assert steps[0].result[1]["result"]["high"] is None
    assert steps[3].result is None


def test_the_prompt_of_the_second_day_has_what_was_bought_on_the_first(script, traded):
    assert traded[0]["ended_because"] == "done"
    system = script.asked["2025-01-03"][0][0].content
    assert [(row["symbol"], row["held"]) for row in table_of(system)] == [(FIRST, "300"), (SECOND, "100")]


def test_a_day_begins_with_a_conversation_of_its_own(script, traded):
    assert traded[0]["ended_because"] == "done"
    assert [message.type for message in script.asked["2025-01-03"][0]] == ["system", "human"]


def test_orders_have_the_text_of_their_reply_as_reason_and_one_without_has_the_text_before(traded):
    first, second, _ = sessions(traded[1])
    assert [fill.order.reason for fill in first.fills] == ["trade", "trade"]
    assert [fill.order.reason for fill in second.fills] == ["", "", "done"]


def test_errors_are_counted_by_kind(tmp_path):
    slips = says(
        "",
        ("short", {"symbol": FIRST}),  # no such tool
        ("buy", {"symbol": FIRST, "amount": "100"}),  # a text
        ("buy", {"symbol": FIRST}),  # no amount
        ("buy", {"symbol": FIRST, "amount": 50}),  # half a lot
        ("sell", {"symbol": FIRST, "amount": 100}),  # none is held
        ("buy", {"symbol": FIRST, "amount": 900_000}),  # too much
    )
    script = Script({"2025-01-02": [slips, "I hold.", STOP]})
    _, folder = run(script, tmp_path)
    first, second, _ = [each.notes["reply_errors"] for each in sessions(folder)]
    assert first == {"replies": 3, "schema": 2, "logic": 1, "cash": 1}  # "I hold." is a reply without a call
    assert second == {"replies": 1, "schema": 0, "logic": 0, "cash": 0}


def test_the_run_replays_without_its_model(traded):
    again = replay(traded[1])
    assert again.identical, again.differences


def test_the_prompt_has_the_last_five_sessions_with_reasons_and_what_became_of_them(tmp_path):
    script = Script({"2025-01-02": [buys(FIRST, 100, "It is cheap."), STOP], "2025-01-03": ["Wait. " + STOP]})
    _, folder = run(script, tmp_path, sentence=f"trader on {FIRST}, 20250102 to 20250110")
    fill = sessions(folder)[0].fills[0]
    asked = {day: asked[0][0].content for day, asked in script.asked.items()}
    assert "Your last sessions" not in asked["2025-01-02"]
    rows = {day: table_of(text) for day, text in asked.items()}
    for day in ("2025-01-03", "2025-01-06", "2025-01-09"):
        opened = next(cell for cell in rows[day] if cell["symbol"] == FIRST)["open"]
        line = f"2025-01-02: bought 100 {FIRST} at {fill.price}, since {float(opened) / float(fill.price) - 1:+.1%}. "
        assert f"{line}Why: It is cheap." in asked[day]
    assert "2025-01-03: no trade. Why: Wait." in asked["2025-01-06"]
    assert "2025-01-02: bought" not in asked["2025-01-10"]  # six sessions ago
    assert "2025-01-03: no trade" in asked["2025-01-10"]
    # The portfolio has lost what the shares did, and its charges; equal parts are that one symbol.
    since = asked["2025-01-10"].partition("; since 2025-01-02: ")[2]
    assert since.startswith("-0.00 %; equal parts of all symbols: ")
    grown = float(rows["2025-01-10"][0]["open"]) / float(fill.price) - 1
    assert f"symbols: {100 * grown:+.2f} %" in since
    assert replay(folder).identical


@pytest.mark.parametrize(
    ("sold", "told"),
    [
        (
            7,
            "2025-01-02: bought 7 AAA at 10, since +0.0%. Why: In.; sold 7 AAA at 10, since +0.0%. Why: Out.",
        ),
        (
            8,
            "bought 7 AAA at 10, since +0.0%. Why: In.; sell 8 AAA: rejected, 8 shares of AAA to sell, 7 held. Why: Out.",
        ),
    ],
)
def test_what_was_bought_and_sold_on_one_day_is_told_with_its_own_reasons(tmp_path, sold, told):
    rows = [f"AAA,2025-01-0{day},10,11,9,10,1000" for day in (2, 3)]
    (tmp_path / "bars.csv").write_text("\n".join(["symbol,date,open,high,low,close,volume", *rows]))
    script = Script({"2025-01-02": [buys("AAA", 7, "In."), sells("AAA", sold, "Out."), STOP]})
    run_strategy(
        "trader on AAA, 20250102 to 20250103",
        source=str(tmp_path / "bars.csv"),
        decider="trader",
        model={"trader": script.model},
        out=tmp_path,
    )
    assert told in script.asked["2025-01-03"][0][0].content


def test_without_memory_no_earlier_session_is_told(tmp_path):
    script = Script({"2025-01-02": [buys(FIRST, 100, "It is cheap."), STOP]})
    _, folder = run(script, tmp_path, decider=TraderAgent(memory=False))
    assert "It is cheap" not in script.asked["2025-01-03"][0][0].content
    assert replay(folder).identical


def test_without_news_none_are_fetched_and_none_can_be_searched(tmp_path):
    script = Script({"2025-01-02": [says("", ("get_information", {"query": FIRST})), STOP]})
    _, folder = run(script, tmp_path, decider=TraderAgent(news=False))
    (answer,) = executions(folder)[0].steps[0].result
    assert "there is no tool 'get_information'" in answer["result"]["error"]
    assert "News:" not in script.asked["2025-01-02"][0][0].content
    data = DataState(folder / "data", read_only=True).snapshot(read_result(folder)["data_ref"])
    assert (bool(data.records("name")), data.records("news")) == (True, ())
    assert replay(folder).identical


def test_the_plan_in_force_is_told_and_what_it_sells_at_the_open(tmp_path):
    script = Script({"2025-01-02": [buys(FIRST, 100), STOP]})
    spec = RunSpec(
        question=f"trader on {FIRST}, 20250102 to 20250108", plan=TradePlan(stop_loss=0.2, max_holding=3)
    )
    run(script, tmp_path, sentence=spec)
    prompts = {day: asked[0][0].content for day, asked in script.asked.items()}
    assert (
        "Trade plan in force:\ncarried out by code: stop loss 20%, held at most 3 sessions"
        in prompts["2025-01-02"]
    )
    told = f"sold by code at this open, do not sell again: {FIRST}"
    assert [day for day, text in prompts.items() if told in text] == ["2025-01-07"]
    assert f"2025-01-07: sold 100 {FIRST}" in prompts["2025-01-08"]
    assert "Why: the plan: max_holding" in prompts["2025-01-08"]


def test_a_chinese_session_is_chinese_from_the_first_message_on(tmp_path):
    script = Script({"2025-01-02": ["我持有。", STOP]})
    run(script, tmp_path, sentence=f"由自主交易员交易 {FIRST}，2025年1月2日到2025年1月6日")
    first, second = script.asked["2025-01-02"]
    assert first[1].content == "请分析并更新今天 (2025-01-02) 的持仓。"
    assert second[-1].content.startswith("这个回复没有调用工具")


def test_a_prompt_of_ones_own_takes_the_place_of_the_shipped_one_and_is_part_of_the_run(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Buy what is red, sell what is blue.", encoding="utf-8")
    script = Script({})
    _, folder = run(script, tmp_path, decider=TraderAgent(prompt=str(file)))
    prompt = script.asked["2025-01-02"][0][0].content
    assert prompt.startswith("Buy what is red, sell what is blue.\n\n<trader_day>Today's date:\n2025-01-02")
    assert "You are a trader" not in prompt
    assert replay(folder, decider=TraderAgent(prompt=str(file))).identical
    with pytest.raises(BadOption, match="a file, and nothing that a folder names is"):
        replay(folder)
    file.write_text("Buy what is blue.", encoding="utf-8")
    with pytest.raises(RunMismatch, match=r"decider.prompt.trader_own"):
        replay(folder, decider=TraderAgent(prompt=str(file)))
    with pytest.raises(BadOption, match=r"none.txt'; must be a text file in UTF-8 .No such file"):
        TraderAgent(prompt=str(tmp_path / "none.txt"))
    file.write_text(" \n")
    with pytest.raises(BadOption, match="it has 0 characters; must be 1 to 100,000"):
        TraderAgent(prompt=str(file))


def test_a_rule_in_the_sentence_reaches_the_prompt(tmp_path):
    script = Script({})
    run(script, tmp_path, sentence=f"{SENTENCE}, hold at most 5% in cash")
    assert "hold at most 5% in cash" in script.asked["2025-01-02"][0][0].content


class Failing(Script):
    """A server that fails from some call on, so often."""

    def __init__(self, days, first, times):
        super().__init__(days)
        self.calls, self.failing = 0, range(first, first + times)

    def play(self, messages):
        self.calls += 1
        if self.calls in self.failing:
            raise ModelUnavailable("the server is down")
        return super().play(messages)


def test_a_failing_model_ends_the_day_and_the_fills_before_stand(tmp_path):
    script = Failing({"2025-01-02": [buys(FIRST, 100), STOP]}, first=2, times=1)
    done, folder = run(script, tmp_path)
    first, second, _ = sessions(folder)
    assert first.notes["trader"]["ended"] == "error"
    assert first.notes["trader"]["errors"] == ["model_unavailable: the server is down"]
    assert [fill.quantity for fill in first.fills] == [100]
    assert second.notes["trader"]["ended"] == "stop_signal"
    assert done["ended_because"] == "done"
    assert any("1 sessions ended before" in line for line in done["notes"]), done["notes"]
    assert replay(folder).identical


def test_a_model_that_never_replied_ends_the_run_which_is_resumed(tmp_path):
    script = Failing({"2025-01-02": [buys(FIRST, 100), STOP]}, first=1, times=1)
    done, folder = run(script, tmp_path)
    assert done["ended_because"] == "model_unavailable"
    assert sessions(folder) == []
    again = resume_run(folder, model={"trader": script.model})
    assert again["ended_because"] == "done"
    assert [len(each.fills) for each in sessions(folder)] == [1, 0, 0]


def test_the_sessions_budget_ends_the_day(tmp_path):
    script = Script({"2025-01-02": [buys(FIRST, 100)] * 5})
    _, folder = run(script, tmp_path, session_budget="calls=2")
    first = sessions(folder)[0]
    assert first.notes["trader"]["ended"] == "budget"
    assert len(first.fills) == 2
    assert replay(folder).identical


class Elsewhere:
    """A source of news: one of yesterday, one of tomorrow, one without a time."""

    name, zone = "elsewhere", None

    def __init__(self, *, live):
        self.live = live

    def search(self, query, moment):
        del query, moment
        return [
            NewsItem(title="old", content="known", published="2025-01-01T03:00:00+08:00"),
            NewsItem(title="new", content="tomorrow", published="2025-01-04T08:00:00+08:00"),
            NewsItem(title="undated", published=None),
        ]


def test_a_live_search_is_refused_unless_it_is_allowed():
    with pytest.raises(BadOption, match="allow_leaky_search=True"):
        TraderAgent(news=Elsewhere(live=True))
    with pytest.raises(BadOption, match="allow_leaky_search=True"):
        TraderAgent(news="jina")
    with pytest.raises(BadOption, match="news='web'; valid are commit, jina, tushare"):
        TraderAgent(news="web")
    assert TraderAgent(news="jina", allow_leaky_search=True).options["news"] == "jina"
    assert TraderAgent(news="commit").options == TraderAgent().options


@pytest.mark.parametrize("live", [True, False])
def test_news_pass_the_gate_drops_are_counted_and_a_live_search_marks_the_result(tmp_path, live):
    script = Script({"2025-01-02": [says("", ("get_information", {"query": FIRST})), STOP]})
    decider = TraderAgent(news=Elsewhere(live=live), allow_leaky_search=live)
    done, folder = run(script, tmp_path, decider=decider)
    told = executions(folder)[0].steps[0].result[0]["result"]["results"]
    assert [each["title"] for each in told] == ["old"]
    dropped = sessions(folder)[0].notes["trader"]["dropped_news"]
    assert dropped == {"not_before_the_moment": 1, "no_time": 1}
    assert any("searched live (elsewhere)" in note for note in done["notes"]) is live
    assert done["ended_because"] == "done"
    assert replay(folder).identical


def test_data_without_names_and_news_are_no_remark_but_for_the_news(tmp_path):
    rows = [f"AAA,2025-01-0{day},10,11,9,10,1000" for day in (2, 3)]
    (tmp_path / "bars.csv").write_text("\n".join(["symbol,date,open,high,low,close,volume", *rows]))
    script = Script({})
    done = run_strategy(
        "trader on AAA, 20250102 to 20250103",
        source=str(tmp_path / "bars.csv"),
        decider="trader",
        model={"trader": script.model},
        out=tmp_path,
    )
    assert "symbol,held,last_close,open" in script.asked["2025-01-02"][0][0].content
    assert not any("of kind name" in note for note in done["notes"])
    assert any("no source gives records of kind news" in note for note in done["notes"])
