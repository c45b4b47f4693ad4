"""The dual agent in a run: what is asked, refused by the market, decided again, noted, replayed, and kept in a budget."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from dual_agent_models import Models, decision
from langgraph.store.memory import InMemoryStore

from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.loop._fundamentals import FUNDAMENTALS
from quantgraph.agents.memory import EpisodicMemory
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption
from quantgraph.runs import replay, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

FIRST, SECOND = "000341.SZ", "600958.SH"
FILTERED = {"features": {"filter": True}}
SENTENCE = f"{FIRST}, {SECOND}, 20250102 to 20250106"


def run(models, folder, sentence=SENTENCE, cfg=None, **settings):
    """Run with scripted agents; the result and its folder."""
    resources = Resources(settings=load_settings(**settings))
    by_role = {"filter": models.model, "decision": models.model}
    done = run_strategy(sentence, decider=DualAgent(cfg), model=by_role, out=folder, resources=resources)
    return done, Path(done["run_dir"])


def sessions(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return list(book.results(folder.name))


def both(first, second):
    return {FIRST: first, SECOND: second}


@pytest.fixture(scope="module")
def refused(tmp_path_factory):
    """The first session: one increase is smaller than a lot, and is decided again."""
    models = Models(
        both(decision("increase", 50_000, 0.8), decision("increase", 100)),
        {SECOND: decision("increase", 30_000, reasons=["Enough for a lot"])},
        both(decision("hold"), decision("close")),
        both(decision("hold", 60_000), decision("hold")),
        need=(FIRST,),
    )
    done, folder = run(models, tmp_path_factory.mktemp("runs"), cfg=FILTERED)
    assert done["ended_because"] == "done", done
    return models, folder


def test_what_the_market_refuses_is_decided_again_and_only_the_last_is_traded(refused):
    models, folder = refused
    first, second, third = sessions(folder)
    assert [fill.order.symbol for fill in first.fills] == [FIRST, SECOND]
    assert first.rejections == ()
    again = models.asked[1][-1]
    assert f"- {SECOND}: the market refuses it, lot_size: target_value=100.00" in again
    # The open of 600958.SH is 5.47: a lot costs 547, 5 are the least commission, and 0.01 is for the transfer.
    assert "a buy is at least 100 shares, in steps of 100, and costs at least 552.01 at the open" in again
    assert "missing" not in again  # cash is not what was refused
    assert FIRST not in again  # what was accepted stands
    assert [(fill.order.symbol, fill.side) for fill in second.fills] == [(SECOND, "sell")]
    assert third.fills == ()
    assert len(models.filters) == 3  # a renewed decision does not filter again


def test_the_ledger_keeps_why(refused):
    _, folder = refused
    first, _, third = (result.notes for result in sessions(folder))
    assert first["decisions"][FIRST]["tags"][:2] == ["increase", "high_confidence"]
    assert first["decisions"][SECOND]["reasons"] == ["Enough for a lot"]
    assert first["filter"] == {FIRST: f"why {FIRST}"}
    assert (first["meta"]["calls"], first["meta"]["parse_errors"]) == (3, 0)
    held = third["decisions"][FIRST]
    assert held["hold_reason"] == "model"
    # A hold that names another value holds at the current one, and says so.
    assert "60000.00" in held["note"]
    assert "latency_ms_sum" not in first["meta"]


def test_the_decision_sees_what_is_known_at_the_open(refused):
    models, folder = refused
    first, last = models.facts[0], models.facts[-1]
    assert first["date"] == "2025-01-02"
    assert len(first["symbols"][FIRST]["close_7d"]) == 7
    assert first["symbols"][FIRST]["pe_ratio"] is not None
    assert "own_return" not in first["portfolio_info"]
    assert {"own_return", "equal_parts_return"} <= last["portfolio_info"].keys()
    position = last["symbols"][FIRST]
    fills = [fill for result in sessions(folder) for fill in result.fills if fill.order.symbol == FIRST]
    assert position["shares"] == float(fills[0].quantity)
    assert position["holding_days"] == 2
    # Of a sale of 100,000: 25 commission, 50 stamp duty, 1 transfer fee.
    assert last["limits"] == {"cost_rate": 0.00076}


def test_the_memory_is_of_what_was_filled_and_is_read_from_the_ledger(refused):
    models, _ = refused
    before, _, second, third = models.facts
    assert before["history"] == {}
    assert second["history"][FIRST] == (
        "Previous decisions:\n2025-01-02: increase to ¥50000 (confidence: 0.8), bought 49714; Strong momentum"
    )
    # The increase that the market refused is no memory, its renewal is; then the close.
    assert third["history"][SECOND].splitlines()[1:] == [
        "2025-01-02: increase to ¥30000 (confidence: 0.75), bought 29538; Enough for a lot",
        "2025-01-03: close to ¥0 (confidence: 0.75), sold 30240; Strong momentum",
    ]


def test_a_replay_asks_nothing(refused):
    models, folder = refused
    asked = len(models.asked)
    replayed = replay(folder, decider=DualAgent(FILTERED))
    assert replayed.identical, replayed.differences
    assert len(models.asked) == asked


def test_the_end_of_a_sessions_budget_is_a_fallback_for_it(tmp_path):
    hold = both(decision("hold"), decision("hold"))
    models = Models(*[hold] * 3)
    done, folder = run(models, tmp_path, cfg=FILTERED, session_budget="calls=1")
    assert done["ended_because"] == "done"
    notes = sessions(folder)[0].notes
    assert notes["decisions"][FIRST]["hold_reason"] == "fallback"
    assert notes["meta"]["failed"].startswith("budget_exceeded")
    assert any(note.startswith("6 decisions in 3 sessions are fallback holds") for note in done["notes"])


def test_a_symbol_whose_attempts_are_spent_is_held_with_the_markets_reason(tmp_path):
    small = decision("increase", 100)
    models = Models(both(decision("hold"), small), {SECOND: small}, {SECOND: small})
    done, folder = run(models, tmp_path, f"{FIRST}, {SECOND}, 20250102 to 20250102")
    assert done["ended_because"] == "done"
    (session,) = sessions(folder)
    held = session.notes["decisions"][SECOND]
    assert (held["action"], held["hold_reason"]) == ("hold", "rejected")
    assert "lot_size" in held["reasons"][0]
    assert held["reasons"][1] == "Strong momentum"
    assert held["note"] == "increase to 100.00 was refused"
    assert "1 holds stand in for orders that the market or the cash refused" in done["notes"]
    assert session.fills == ()
    # The first answer and two more: three attempts of the model and the market together.
    assert len(models.asked) == 3


def test_a_rule_in_words_reaches_both_agents(tmp_path):
    hold = both(decision("hold"), decision("hold"))
    models = Models(hold)
    sentence = f"{FIRST}, {SECOND}, buy when RSI(14) is below 30, 20250102 to 20250102"
    done, folder = run(models, tmp_path, sentence, FILTERED)
    assert "RSI(14)" in models.facts[0]["rule"]
    assert "RSI(14)" in models.filters[0]["rule"]
    assert not any("does not execute" in note for note in done["notes"])
    replayed = replay(folder, decider=DualAgent(FILTERED))
    assert replayed.identical, replayed.differences


def test_a_rule_that_the_reading_invents_is_told_to_no_model(tmp_path):
    invented = "buy when the 5-day average crosses above the 20-day average"
    reading = {
        "task_type": "mixed",
        "user_intent": {
            "type": "mixed",
            "params": {
                "ts_code": f"{FIRST},{SECOND}", "start_date": "20250102", "end_date": "20250102",
                "strategy_desc": invented, "required_indicators": [],
            },
            "needs_clarification": False,
        },
    }  # fmt: skip
    models = Models(both(decision("hold"), decision("hold")))
    reader = ScriptedChatModel([json.dumps(reading)])
    done = run_strategy(
        f"dual agent on {FIRST}, {SECOND}, 20250102 to 20250102",
        decider=DualAgent(),
        model={"reflection": reader, "filter": models.model, "decision": models.model},
        out=tmp_path,
    )
    assert done["ended_because"] == "done", done
    assert "rule" not in models.facts[0]
    assert f"a model read a rule that the sentence does not have; it is left out: {invented}" in done["notes"]
    assert not any("in your words" in note for note in done["notes"])


def test_an_outage_of_a_sessions_budget_keeps_the_decisions_that_are_valid(tmp_path):
    faulty = both(decision("increase", 50_000), decision("nope"))
    models = Models(*[faulty] * 3)
    done, folder = run(models, tmp_path, cfg=FILTERED, session_budget="calls=2")
    assert done["ended_because"] == "done"
    first = sessions(folder)[0]
    assert [fill.order.symbol for fill in first.fills] == [FIRST]
    held = first.notes["decisions"][SECOND]
    assert held["hold_reason"] == "fallback"
    assert "budget" in held["reasons"][0]
    assert first.notes["meta"]["calls"] == 2
    assert done["reply_errors"] == {"replies": 6, "schema": 0, "logic": 3, "cash": 0}
    told = "of 6 replies of the decider's models 0 (0%) had an error of form, 3 (50%) contradicted the facts"
    assert any(note.startswith(told) for note in done["notes"]), done["notes"]
    replayed = replay(folder, decider=DualAgent(FILTERED))
    assert replayed.identical, replayed.differences


@pytest.mark.parametrize(
    ("said", "rule"),
    [
        (
            f"dual agent on {FIRST}, {SECOND}, 20250102 to 20250102, never hold more than two stocks, "
            "buy only what is near its 52-week low",
            "never hold more than two stocks; buy only what is near its 52-week low",
        ),
        (f"dual agent on {FIRST}, {SECOND}, 20250102 to 20250102", None),
        (f"双代理，{FIRST}、{SECOND}，20250102到20250102", None),
    ],
)
def test_a_rule_that_code_cannot_read_is_handed_over_whole(tmp_path, said, rule):
    models = Models(both(decision("hold"), decision("close")))
    done, folder = run(models, tmp_path, said)
    assert models.facts[0].get("rule") == rule
    assert done["ended_because"] == "done"
    handed = [clause["words"] for clause in done["understanding"]["clauses"] if clause["words"]]
    assert handed == ([rule] if rule else [])
    assert any("no code checks" in note for note in done["notes"]) == bool(rule)
    # Nobody chose the window but the user, and there was nothing to close.
    assert not any(clause["status"] == "default" for clause in done["understanding"]["clauses"])
    closed = sessions(folder)[0].notes["decisions"][SECOND]
    assert (closed["action"], closed["note"]) == ("hold", "there was no position to close")


def test_the_prompts_follow_the_language(tmp_path):
    hold = both(decision("hold"), decision("hold"))
    models = Models(hold)
    run(models, tmp_path, f"{FIRST}、{SECOND}，2025年1月2日到2025年1月2日")
    assert models.asked[0][0].startswith("你管理")


def test_without_a_key_the_planner_answers_both_roles(tmp_path, monkeypatch):
    monkeypatch.delenv("OPENAI_API_KEY", raising=False)
    sentence = f"{FIRST}, {SECOND}, buy when RSI(14) is below 30, 20250102 to 20250110"
    done = run_strategy(sentence, decider=DualAgent(), out=tmp_path)
    assert done["ended_because"] == "done"
    reasons = [
        reason
        for result in sessions(Path(done["run_dir"]))
        for each in result.notes["decisions"].values()
        for reason in each["reasons"]
    ]
    assert all("keyless" in reason for reason in reasons)
    assert any(note.startswith("no language model decides") for note in done["notes"])
    # It executes no rule in words, and says so.
    assert any("RSI(14)" in note for note in done["notes"])
    replayed = replay(Path(done["run_dir"]), decider=DualAgent())
    assert replayed.identical, replayed.differences


@pytest.mark.parametrize(
    ("cfg", "told"),
    [
        ({"llm": {"budget": {"max_prompt_tokens": 5}}}, "one budget for all its models"),
        ({"agents": {"dual_agent": {"decision_agent": {"prompt": "none.txt"}}}}, "decision_agent_v1.txt"),
        ({"agent": {}}, "did you mean 'agents'"),
    ],
)
def test_a_configuration_that_a_run_cannot_take(cfg, told):
    with pytest.raises(BadOption, match=told):
        DualAgent(cfg)


def test_a_memory_without_a_store_is_none_to_share():
    with pytest.raises(BadOption, match="a resumed run would not find it"):
        DualAgent(memory=EpisodicMemory())


def test_what_it_fixes_is_part_of_the_identity():
    decider = DualAgent({"llm": {"model": "a", "temperature": 0.7}, "portfolio": {"min_cash_ratio": 0.1}})
    assert decider.options["cfg"]["portfolio"] == {"min_cash_ratio": 0.1}
    assert decider.model_settings["decision"] == {"name": "a", "temperature": 0.7}
    assert {"filter_en", "decision_zh"} <= decider.prompts.keys()


def test_runs_share_a_memory_by_name_cut_by_the_simulated_day(tmp_path):
    store = InMemoryStore()
    hold = both(decision("hold"), decision("hold"))

    def shared(models, sentence):
        by_role = {"filter": models.model, "decision": models.model}
        decider = DualAgent(memory=EpisodicMemory(store))
        done = run_strategy(sentence, decider=decider, model=by_role, out=tmp_path / "runs")
        assert done["ended_because"] == "done"
        return Path(done["run_dir"])

    first = Models(both(decision("increase", 50_000), decision("hold")), *[hold] * 4)
    shared(first, f"{FIRST}, {SECOND}, 20250102 to 20250108")
    line = "2025-01-02: increase to ¥50000 (confidence: 0.75), bought 49714; Strong momentum"
    others = "Decisions of other runs, which are not of this account:"
    # The morning of that day, and the next one: the result of three sessions is not known yet.
    early = Models(hold, hold)
    folder = shared(early, f"{FIRST}, {SECOND}, 20250102 to 20250103")
    assert [facts["history"] for facts in early.facts] == [{}, {FIRST: f"{others}\n{line}"}]
    late = Models(hold)
    shared(late, f"{FIRST}, {SECOND}, 20250110 to 20250110")
    (text,) = late.facts[0]["history"].values()
    assert text.startswith(f"{others}\n{line.partition(';')[0]} -> ")
    # What other runs add later changes no replay, and a replay adds nothing.
    written = EpisodicMemory(store).query(limit=None)
    other = Models(both(decision("hold"), decision("increase", 40_000)), hold)
    shared(other, f"{FIRST}, {SECOND}, 20250102 to 20250103")
    more = EpisodicMemory(store).query(limit=None)
    assert len(more) > len(written)
    assert [each for each in more if each in written] == written
    empty = EpisodicMemory(InMemoryStore())
    for memory in (EpisodicMemory(store), empty):
        replayed = replay(folder, decider=DualAgent(memory=memory))
        assert replayed.identical, replayed.differences
    assert EpisodicMemory(store).query(limit=None) == more
    assert empty.query() == []


def test_a_clause_of_a_trade_plan_is_named_as_not_executed(tmp_path):
    hold = both(decision("hold"), decision("hold"))
    models = Models(hold)
    sentence = (
        f"{FIRST}, {SECOND}, buy when RSI(14) is below 30, stop loss 8%, 2x leverage, 20250102 to 20250102"
    )
    done, _ = run(models, tmp_path, sentence)
    assert done["ended_because"] == "done"
    assert any("does not execute" in note and "leverage" in note for note in done["notes"])
    clauses = {clause["words"]: clause["status"] for clause in done["understanding"]["clauses"]}
    assert (clauses["stop loss 8%"], clauses["2x leverage"]) == ("done", "not_done")
    assert done["plan"] == {"stop_loss": "0.08"}
    (facts,) = models.facts
    assert "RSI(14)" in facts["rule"]
    assert facts["plan"] == "carried out by code: stop loss 8%"
    # A lot of the mainland is 100 shares, and 5 are the least commission; the open is 3.71.
    assert facts["symbols"][FIRST]["least_buy"] == 376.0


def test_what_is_switched_off_is_not_asked_for(tmp_path):
    hold = both(decision("hold"), decision("hold"))
    models = Models(hold)
    cfg = {"features": {"fundamentals": False, "news": False}}
    done, folder = run(models, tmp_path, f"{FIRST}, {SECOND}, 20250102 to 20250102", cfg=cfg)
    assert done["ended_because"] == "done"
    assert (models.filters, len(models.facts)) == ([], 1)
    for each in models.facts[0]["symbols"].values():
        assert not {*FUNDAMENTALS, "filter_reasoning"} & each.keys()
    (session,) = sessions(folder)
    assert session.notes["reply_errors"] == {"replies": 1, "schema": 0, "logic": 0, "cash": 0}


def facts_of_home_depot(folder, bars, window):
    """What the decision is shown on 11 March 2025 of a run over a window."""
    models = Models(*[{"HD": decision("hold")}] * 9, need=("HD",))
    done = run_strategy(
        f"dual agent on HD, {window}",
        decider=DualAgent(),
        model={"filter": models.model, "decision": models.model},
        source=bars,
        out=folder,
    )
    assert done["ended_because"] == "done", done
    (of_day,) = (each["symbols"]["HD"] for each in models.facts if each["date"] == "2025-03-11")
    return {name: of_day.get(name) for name in FUNDAMENTALS}


def test_the_fundamentals_of_a_day_do_not_depend_on_the_window_of_the_run(tmp_path, shared_data):
    bars = shared_data / "stockbench"
    alone = facts_of_home_depot(tmp_path, bars, "20250311 to 20250311")
    assert facts_of_home_depot(tmp_path, bars, "20250311 to 20250314") == alone
    assert facts_of_home_depot(tmp_path, bars, "20250305 to 20250313") == alone
    # dividends.csv: 2.30 was declared on 2025-02-25 and goes ex on the 13th, which the first run does not reach.
    assert alone["quarterly_dividend"] == 2.3
    # Three of 2.25 went ex since 2024-03-11, before the bars begin; the close of the 10th is 374.65.
    assert alone["dividend_yield"] == round(100 * 6.75 / 374.65, 2)


def test_a_session_of_eight_symbols_asks_with_at_most_4200_tokens(tmp_path, shared_data):
    """Ten sessions of real prices, news and filings, with earlier decisions of every symbol; of 4 characters each."""
    symbols = ("AAPL", "AMGN", "BA", "GS", "HD", "JPM", "UNH", "V")
    reason = "The close is above that of seven sessions before, and earnings beat what was expected of them."
    days = [
        {name: decision("increase", 2_000 * (day + 1), reasons=[reason]) for name in symbols[day % 2 :: 2]}
        | {name: decision("hold") for name in symbols[1 - day % 2 :: 2]}
        for day in range(10)
    ]
    models = Models(*days)
    done = run_strategy(
        f"dual agent on {', '.join(symbols)}, 20250303 to 20250314",
        decider=DualAgent(),
        model={"filter": models.model, "decision": models.model},
        source=shared_data / "stockbench",
        out=tmp_path,
    )
    assert done["ended_because"] == "done", done
    assert (len(models.asked), models.filters) == (10, [])
    assert max(sum(map(len, messages)) / 4 for messages in models.asked) <= 4_200
    last = models.facts[-1]
    assert {"past_20", "volatility_20", "volume_ratio", "pe_ratio", "dividend_yield"} <= last["symbols"][
        "GS"
    ].keys()
    assert len(last["news"]) == len(set(last["news"])) > 15
    assert len(last["history"]) == 8
