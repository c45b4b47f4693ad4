"""The stepwise agent in a run: orders after all have decided, notes, budgets, time, a failing model, replay."""

from __future__ import annotations

import json
import threading
import time
from pathlib import Path

import pytest
from langchain_core.messages import AIMessage

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption, ModelUnavailable, QuantGraphError
from quantgraph.llm.messages import read
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runs._page import view_run
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

FIRST, SECOND = "000341.SZ", "600958.SH"
SENTENCE = f"execution agent on {FIRST}, {SECOND}, 20250102 to 20250106"


def act(kind, **payload):
    return json.dumps({"type": kind, "reasoning": "because", "action": payload})


def decide(action, confidence=0.5, reason="as told"):
    return act("decision", action=action, reason=reason, confidence=confidence)


BARS = act("tool_call", tool_name="get_kline_data", params={
    "exchange": "", "symbol": FIRST, "timeframe": "1d", "limit": 5,
})  # fmt: skip


class Player:
    """Plays ``script(symbol, session, step)``; it keeps what was asked, by symbol and session."""

    def __init__(self, script):
        self.script, self.asked, self.lock = script, {}, threading.Lock()
        self.model = ScriptedChatModel(self.play)

    def play(self, messages):
        facts = json.loads(read("execution_facts", messages[0].text))
        step = next(
            json.loads(told)["current_step"]
            for message in reversed(messages)
            if (told := read("execution_step", message.text)) is not None
        )
        symbol, session = facts["symbol"], facts["session"].replace("-", "")
        with self.lock:
            self.asked.setdefault((symbol, session), []).append(messages)
        return self.script(symbol, session, step)

    def facts(self, symbol, session):
        return json.loads(read("execution_facts", self.asked[symbol, session][0][0].text))


def run(player, folder, sentence=SENTENCE, decider=None, **settings):
    resources = Resources(settings=load_settings(**settings))
    done = run_strategy(
        sentence,
        decider=decider or ExecutionAgent(),
        model={"execution": player.model},
        out=folder,
        resources=resources,
    )
    return done, Path(done["run_dir"])


def sessions(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return list(book.results(folder.name))


@pytest.fixture(scope="module")
def traded(tmp_path_factory):
    """Both are bought in the first session, the second symbol first; one is sold in the second."""

    def script(symbol, session, step):
        if step == 1 and session == "20250102":
            time.sleep(0.2 if symbol == FIRST else 0)
            return BARS
        if session == "20250102":
            return decide("buy", 0.8 if symbol == FIRST else 0.4)
        if session == "20250103":
            return decide("sell" if symbol == FIRST else "hold", 0.9, "enough")
        return decide("hold")

    player = Player(script)
    done, folder = run(player, tmp_path_factory.mktemp("runs"), decider=ExecutionAgent(share=0.1, parallel=2))
    assert done["ended_because"] == "done", done
    return player, folder, done


def test_orders_are_sent_once_in_symbol_order_after_all_have_decided(traded):
    _, folder, _ = traded
    first, second, third = sessions(folder)
    orders = [fill.order for fill in first.fills]
    # A tenth of 1,000,000 times the confidence.
    assert [(each.symbol, each.target_value, each.sequence) for each in orders] == [
        (FIRST, 80_000, 1),
        (SECOND, 40_000, 2),
    ]
    assert [(fill.order.symbol, fill.side) for fill in second.fills] == [(FIRST, "sell")]
    assert third.outcomes == ()


def test_the_ledger_keeps_why_of_each_symbol(traded):
    _, folder, done = traded
    first, second, _ = (result.notes["executions"] for result in sessions(folder))
    assert first[FIRST] == {"action": "buy", "reason": "as told", "confidence": 0.8, "steps": 2}
    assert second[SECOND] == {
        "action": "hold", "reason": "enough", "confidence": 0.9, "hold_reason": "model", "steps": 1,
    }  # fmt: skip
    assert list(first) == [FIRST, SECOND]
    assert not any("did not choose" in note for note in done["notes"])


def test_the_agent_is_told_its_position_and_what_became_of_its_order(traded):
    player, folder, _ = traded
    fill = sessions(folder)[0].fills[0]
    facts = player.facts(FIRST, "20250103")
    assert facts["runtime_status"]["shares"] == float(fill.quantity)
    (line,) = facts["earlier_decisions"]
    assert line.startswith(f"01-02 buy 0.8; bought {fill.quantity} at {fill.price}; ")
    assert line.endswith(": as told")
    first = player.facts(FIRST, "20250102")
    assert "earlier_decisions" not in first
    assert first["order_size"].startswith("a buy raises the position to 100000.00 x confidence; least buy")


def test_the_page_shows_each_result_once_though_earlier_ones_are_shortened(tmp_path):
    looks = [BARS.replace('"limit": 5', f'"limit": {limit}') for limit in (5, 6, 7)]
    player = Player(lambda symbol, session, step: [*looks, decide("hold")][step - 1])
    _, folder = run(player, tmp_path, f"execution agent on {FIRST}, 20250102 to 20250102")
    ((_, *later),) = [story.calls for story in view_run(folder).stories]
    shown = [
        json.loads(read("observation", text)) for call in later for _, text in call.asked if "<obs" in text
    ]
    assert [len(each["result"]["rows"]) for each in shown] == [5, 6, 7]


def test_a_replay_asks_nothing_whatever_the_number_of_threads(traded):
    player, folder, _ = traded
    asked = len(player.asked)
    replayed = replay(folder, decider=ExecutionAgent(share=0.1, parallel=1))
    assert replayed.identical, replayed.differences
    assert len(player.asked) == asked


def test_other_options_are_another_run(traded):
    _, folder, _ = traded
    with pytest.raises(Exception, match="share"):
        replay(folder, decider=ExecutionAgent(share=0.2))


def test_the_end_of_a_sessions_budget_is_a_hold_of_the_symbol_that_met_it(tmp_path):
    player = Player(lambda symbol, session, step: BARS if step == 1 else decide("buy"))
    done, folder = run(player, tmp_path, session_budget="calls=3")
    assert done["ended_because"] == "done"
    for session in sessions(folder):
        notes = session.notes["executions"]
        why = sorted(each.get("hold_reason", "bought") for each in notes.values())
        assert why == ["bought", "budget"]
        bought = next(name for name, each in notes.items() if each["action"] == "buy")
        assert [each.order.symbol for each in session.outcomes] in ([bought], [])
    assert any("did not choose" in note for note in done["notes"])
    replayed = replay(folder, decider=ExecutionAgent(parallel=1))
    assert replayed.identical, replayed.differences


@pytest.mark.proof
def test_the_end_of_the_time_is_recorded_and_had_again_in_a_replay(tmp_path):
    def script(symbol, session, step):
        if symbol == FIRST and session == "20250103":
            time.sleep(0.6)
        return BARS if step == 1 else decide("buy")

    done, folder = run(Player(script), tmp_path, decider=ExecutionAgent(time_limit=0.5))
    assert done["ended_because"] == "done"
    late = sessions(folder)[1].notes["executions"]
    assert (late[FIRST]["hold_reason"], late[FIRST]["steps"]) == ("time", 2)
    assert late[SECOND]["action"] == "buy"
    replayed = replay(folder, decider=ExecutionAgent(time_limit=0.5))
    assert replayed.identical, replayed.differences


def test_a_model_that_is_gone_ends_the_run_which_a_resume_completes(tmp_path):
    broken = threading.Event()
    broken.set()

    def script(symbol, session, step):
        if session == "20250103" and symbol == SECOND and broken.is_set():
            raise ModelUnavailable("the server is gone")
        return decide("buy" if session == "20250102" else "hold")

    player = Player(script)
    done, folder = run(player, tmp_path)
    assert done["ended_because"] == "model_unavailable"
    assert len(sessions(folder)) == 1
    broken.clear()
    again = resume_run(folder, decider=ExecutionAgent(parallel=1), model={"execution": player.model})
    assert again["ended_because"] == "done"
    assert len(sessions(folder)) == 3
    # What was answered before is not asked again.
    assert len(player.asked[FIRST, "20250103"]) == 1


@pytest.mark.parametrize(
    "sentence",
    [
        "执行代理，000341.SZ，2025年1月2日到2025年1月6日：收盘价站上20日均线买入，跌破卖出",
        "execution agent on 000341.SZ, 20250102 to 20250106: buy above the 20-day average, sell below",
    ],
)
def test_a_rule_that_no_model_reads_is_named_as_not_executed(tmp_path, sentence):
    """The planner could read it as a signal's rule, but it is not what the planner's own five steps do."""
    done = run_strategy(sentence, decider="execution", model="keyless", out=tmp_path)
    clauses = [(each["words"], each["status"]) for each in done["understanding"]["clauses"]]
    assert len(clauses) == 1
    assert clauses[0][1] == "not_done"
    assert "跌破卖出" in clauses[0][0] or "sell below" in clauses[0][0]
    assert "代理" not in clauses[0][0]


@pytest.mark.parametrize(
    ("sentence", "rule"),
    [
        (
            f"execution agent on {FIRST}, 20250102 to 20250102: buy above the 20-day average, sell below",
            "buy above the 20-day average, sell below",
        ),
        (
            f"execution agent on {FIRST}, 20250102 to 20250102: buy above the 20-day average, sell on bad news",
            "buy above the 20-day average; sell on bad news",
        ),
        (
            f"执行代理，{FIRST}，20250102到20250102：收盘价站上20日均线买入，有坏消息就卖出",
            "收盘价站上20日均线买入; 有坏消息就卖出",
        ),
    ],
)
def test_the_whole_rule_reaches_the_model_and_no_date_of_the_run(tmp_path, sentence, rule):
    player = Player(lambda symbol, session, step: decide("hold"))
    done, _ = run(player, tmp_path, sentence)
    assert done["ended_because"] == "done"
    ((asked,),) = player.asked.values()
    assert json.loads(read("execution_facts", asked[0].text))["user_requirements"] == rule


def test_it_has_a_name_for_the_command_and_in_python(tmp_path):
    done = run_strategy(SENTENCE, decider="execution", model="keyless", out=tmp_path)
    assert done["ended_because"] == "done"
    assert replay(done["run_dir"]).identical


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"rounds": 0}, "rounds=0; must be a whole number from 1 to 50"),
        ({"rounds": 2.5}, r"rounds=2\.5; must be"),
        ({"time_limit": 0}, "time_limit=0; must be seconds above 0"),
        ({"tool_timeout": "1"}, "tool_timeout='1'; must be seconds"),
        ({"parallel": 65}, "parallel=65; must be a whole number from 1 to 64"),
        ({"calling": "xml"}, "calling='xml'; must be one of json, native"),
        ({"tools": [len]}, "is not a tool; make one with langchain_core.tools.tool"),
        ({"size": "all"}, "size='all'; must be one of"),
    ],
)
def test_an_option_out_of_its_range_is_refused(given, said):
    with pytest.raises(BadOption, match=said):
        ExecutionAgent(**given)


def test_replies_that_were_sent_back_are_counted_by_run_and_replayed(tmp_path):
    """One reply of each symbol in each of two sessions is no action."""
    asked = []

    def script(symbol, session, step):
        asked.append((symbol, session))
        return "what?" if asked.count((symbol, session)) == 1 else decide("hold")

    done, folder = run(
        Player(script), tmp_path, f"execution agent on {FIRST}, {SECOND}, 20250102 to 20250103"
    )
    assert done["ended_because"] == "done"
    errors = {"replies": 4, "schema": 2, "logic": 0, "cash": 0}
    assert [result.notes["reply_errors"] for result in sessions(folder)] == [errors, errors]
    assert replay(folder, decider=ExecutionAgent()).identical


def test_another_prompt_is_another_run_which_is_not_resumed(tmp_path):
    own = tmp_path / "mine.txt"
    own.write_text("You are careful.", encoding="utf-8")

    def script(symbol, session, step):
        return ModelUnavailable("the server is gone") if session == "20250103" else decide("hold")

    player = Player(script)
    done, folder = run(player, tmp_path / "runs", decider=ExecutionAgent(prompt=str(own)))
    assert done["ended_because"] == "model_unavailable"
    assert player.asked[FIRST, "20250102"][0][0].text.startswith(
        "You are careful.\n\nA reply is one JSON object"
    )
    own.write_text("You are bold.", encoding="utf-8")
    with pytest.raises(QuantGraphError, match=r"prompt\.execution_en"):
        resume_run(folder, decider=ExecutionAgent(prompt=str(own)), model={"execution": player.model})
    moved = tmp_path / "moved.txt"
    moved.write_text("You are careful.", encoding="utf-8")
    calm = Player(lambda symbol, session, step: decide("hold"))
    again = resume_run(folder, decider=ExecutionAgent(prompt=str(moved)), model={"execution": calm.model})
    assert again["ended_because"] == "done"


@pytest.mark.parametrize(("calling", "most"), [("json", 6_000), ("native", 8_000)])
def test_an_execution_of_five_rounds_takes_at_most_so_many_tokens(tmp_path, calling, most):
    """Of four characters each, with 25 bars and five earlier decisions; tools that are bound count each time."""
    rsi = {"symbol": FIRST, "name": "RSI", "params": {"period": 14}}
    average = {"calculation_type": "MA", "formula": "MA20 = sum(close[-20:]) / 20", "inputs": {"period": 20}}
    reasoning, sizes = "The rule needs this number before the decision. " * 3, {}
    plays = [
        ("get_kline_data", {"symbol": FIRST, "timeframe": "1d", "limit": 25}),
        ("calculation", {**average, "intermediate_result": {"ma20": 3.7}}),
        ("get_indicator", rsi),
        ("get_position", {"symbol": FIRST}),
        ("place_order", {"action": "buy", "reason": "the close is above its average", "confidence": 0.6}),
    ]

    def script(symbol, session, step):
        name, args = plays[step - 1]
        if calling == "native":
            return AIMessage(reasoning, tool_calls=[{"name": name, "args": args, "id": f"a{step}"}])
        if name == "calculation":
            return json.dumps({"type": name, "reasoning": reasoning, **args})
        return act("tool_call", tool_name=name, params=args)

    player = Player(script)
    _, folder = run(
        player,
        tmp_path,
        f"execution agent on {FIRST}, 20250102 to 20250110: buy above its average",
        ExecutionAgent(calling=calling),
    )
    assert len(sessions(folder)) == 7
    for call in player.model.calls:
        facts = json.loads(read("execution_facts", call.messages[0].text))
        calls = [
            one["args"] for each in call.messages if isinstance(each, AIMessage) for one in each.tool_calls
        ]
        sent = [*(each.text for each in call.messages), *map(json.dumps, [*calls, *call.tools])]
        sizes[facts["session"]] = sizes.get(facts["session"], 0) + sum(map(len, sent))
    assert bool(player.model.calls[0].tools) == (calling == "native")
    assert max(sizes.values()) < 4 * most
