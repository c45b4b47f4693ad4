"""A batch under 10,000 mutated replies: nothing is raised, all of it is valid, and a bad symbol changes no other."""

from __future__ import annotations

import json
import math
import random
from dataclasses import replace

from dual_agent_models import asked_by, decision, item
from langchain_core.messages import AIMessage

from quantgraph.agents.dual_agent._config import Meter
from quantgraph.agents.dual_agent._loop import Batch, DualLoop, decide_all

SYMBOLS = ("AAPL", "MSFT", "TSLA", "V")
VALUES = dict(zip(SYMBOLS, (5_000.0, 0.0, 3_000.0, 12_000.0), strict=True))
GOOD = {
    "AAPL": decision("increase", 7_500),
    "MSFT": decision("increase", 2_000),
    "TSLA": decision("close"),
    "V": decision("hold", 12_000),
}
TARGETS = {"AAPL": 7_500.0, "MSFT": 2_000.0, "TSLA": 0.0, "V": 12_000.0}
ACTIONS = {"increase", "decrease", "hold", "close"}


def batch(attempts=1, **more):
    features = [item(symbol, value) for symbol, value in VALUES.items()]
    held = sum(VALUES.values())
    portfolio = {"total_assets": 50_000.0 + held, "available_cash": 50_000.0, "position_value": held}
    more = {"min_cash_ratio": 0.0} | more
    return Batch(
        features=features, portfolio=portfolio, prompts={"decision": "Decide."}, max_attempts=attempts, **more
    )


def decide_batch(task, agents):
    """Decide a batch; the decisions, and the replies that it took."""
    state = DualLoop(batch=task, agents=agents).run({})
    return state["decisions"], state["draft"]["attempts"]


def answer(*texts):
    replies = iter(texts)
    return lambda _role, _messages: AIMessage(next(replies))


def is_valid(decisions):
    assert list(decisions) == list(SYMBOLS)
    for symbol, each in decisions.items():
        assert each["action"] in ACTIONS
        assert math.isfinite(each["target_cash_amount"])
        assert each["target_cash_amount"] >= 0
        assert math.isclose(each["cash_change"], each["target_cash_amount"] - VALUES[symbol], abs_tol=1e-9)
        assert 0 <= each["confidence"] <= 1
        assert ("hold_reason" in each) == (each["action"] == "hold")
    spent = sum(each["cash_change"] for each in decisions.values())
    assert spent <= 50_000 + 1e-6


def mutated_value(rng):
    return rng.choice(
        [
            None, True, "", "about half", "NaN", float("nan"), float("inf"), -1, -1e300, 1e300, 10**400, "7,500",
            "7500.0", [], [1], {}, {"amount": 5}, "buy", "HOLD ", "close", 7, "0.5", "½", "\ud800", "x" * 5_000,
            {"action": {"action": "hold"}},
        ]
    )  # fmt: skip


def mutated_symbol(rng):
    """One symbol's decision, broken somehow; None leaves it out."""
    entry = dict(GOOD["TSLA"], target_cash_amount=0)
    way = rng.randrange(5)
    if way == 0:
        return None
    if way == 1:
        return mutated_value(rng)
    if way == 2:
        del entry[rng.choice(list(entry))]
        return entry
    if way == 3:
        entry[rng.choice([*entry, "more"])] = mutated_value(rng)
        return entry
    return {name: mutated_value(rng) for name in entry}


def test_one_broken_symbol_changes_no_other():
    rng, task = random.Random(20250303), batch()
    for _ in range(5_000):
        broken = mutated_symbol(rng)
        told = {name: each for name, each in GOOD.items() if name != "TSLA"}
        if broken is not None:
            told["TSLA"] = broken
        text = json.dumps({"decisions": told} if rng.random() < 0.5 else told)
        if rng.random() < 0.1:  # the symbol once more
            text = (
                text[: text.rindex("}", 0, -1) + 1]
                + ', "TSLA": {"action": "hold"}}'
                + "}" * text.startswith('{"decisions"')
            )
        decisions, _ = decide_batch(task, asked_by(answer(text)))
        is_valid(decisions)
        for name in ("AAPL", "MSFT", "V"):
            assert decisions[name]["target_cash_amount"] == TARGETS[name], text


def test_broken_text_is_never_raised():
    rng, task = random.Random(20250331), batch()
    whole = json.dumps({"decisions": GOOD})
    for _ in range(5_000):
        text = list(whole)
        for _ in range(rng.randint(1, 6)):
            place, way = rng.randrange(len(text)), rng.randrange(4)
            if way == 0:
                del text[place]
            elif way == 1:
                text.insert(place, rng.choice('{}[]",:\\eN0-é\x00'))
            elif way == 2:
                text[place] = rng.choice('{}[]",:9')
            else:
                del text[place : place + rng.randrange(60)]
            if not text:
                text = ["{"]
        decisions, _ = decide_batch(task, asked_by(answer("".join(text))))
        is_valid(decisions)


def test_replies_without_json_end_as_fallbacks_with_the_reason():
    meter = Meter()
    decisions, calls = decide_batch(batch(3), asked_by(answer("no", "", "```json\n```"), meter))
    assert (calls, meter.parse_errors) == (3, 3)
    assert {each["hold_reason"] for each in decisions.values()} == {"fallback"}
    assert "holds no JSON object" in decisions["V"]["reasons"][0]


def test_a_reply_that_was_cut_off_is_recognised():
    cut = AIMessage('{"decisions": {"AAPL": {"action": "incr', response_metadata={"finish_reason": "length"})
    replies = iter([cut, AIMessage(json.dumps({"decisions": GOOD}))])
    asked = []

    def ask(_role, messages):
        asked.append(messages[-1].text)
        return next(replies)

    decisions, _ = decide_batch(batch(2), asked_by(ask))
    assert decisions["AAPL"]["target_cash_amount"] == 7_500
    assert "cut off" in asked[1]


def test_another_order_of_the_symbols_changes_no_decision():
    """Replies of chance that cost too much, with equal confidences, and a second one for those that are open."""
    rng, cut = random.Random(20250307), 0
    for _ in range(300):
        replies = [
            json.dumps({"decisions": {
                symbol: decision("increase", round(VALUES[symbol] + rng.uniform(-2_000, 40_000), 2), rng.choice([0.5, 0.9]))
                for symbol in rng.sample(SYMBOLS, rng.randint(1, 4))
            }})
            for _ in range(2)
        ]  # fmt: skip
        task = batch(2)
        turned = rng.sample(list(task.features), 4)
        decisions, _ = decide_batch(task, asked_by(answer(*replies)))
        again, _ = decide_batch(replace(task, features=turned), asked_by(answer(*replies)))
        assert decisions == again
        is_valid(decisions)
        cut += any("is cut to the cash" in each.get("note", "") for each in decisions.values())
    assert cut > 50


def test_a_decision_that_is_not_read_is_told_with_the_refusals_and_the_replies_that_are_left():
    first = GOOD | {
        "FAKE": decision("increase", 1),
        "TSLA": {"action": "decrease", "target_cash_amount": 4_000},
    }
    second = {"TSLA": {"action": "fly"}, "V": decision("close"), "note": "so be it"}
    seen, replies = [], iter(json.dumps(each) for each in (first, second, {"TSLA": decision("close")}))

    def reply(_role, messages):
        seen.append(messages[-1].text.splitlines()[:2])
        return AIMessage(next(replies))

    decisions, _ = decide_batch(batch(attempts=3), asked_by(reply))
    assert seen[1:] == [
        ["Replies left: 2.", "Not read, as they were not asked for or stand already: FAKE"],
        ["Replies left: 1.", "Not read, as they were not asked for or stand already: V"],
    ]
    assert {name: each["target_cash_amount"] for name, each in decisions.items()} == TARGETS


def test_the_first_batch_of_many_symbols_leaves_the_others_their_part_of_the_cash():
    """Each of 60 symbols wants 4,000 of 120,000: 50 have 100,000 of it, and the last 10 have 20,000."""
    names = [f"S{at:02d}" for at in range(60)]
    portfolio = {"total_assets": 120_000.0, "available_cash": 120_000.0, "position_value": 0.0}
    replies = [
        json.dumps({"decisions": {name: decision("increase", 4_000) for name in part}})
        for part in (names[:50], names[50:])
    ]
    task = replace(batch(), features=[item(name) for name in names], portfolio=portfolio)
    decided = decide_all(task, asked_by(answer(*replies)))["decisions"]
    spent = [sum(decided[name]["target_cash_amount"] for name in part) for part in (names[:50], names[50:])]
    assert [round(part, 2) for part in spent] == [100_000.0, 20_000.0]
