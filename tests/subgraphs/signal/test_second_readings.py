"""Two readings of the same words: those that trade otherwise are found, and those that trade the same are not.

The banks were written by one hand before the code: 40 sentences with faithful and faulty readings, and 24 with two
faithful ones. Numbers are held against the words, and the rest is compared by what the rules do on a market.
"""

import json
from collections import UserDict
from dataclasses import fields
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.broker import TradePlan
from quantgraph.errors import BadOption
from quantgraph.rules import RuleEvaluator, read_condition
from quantgraph.sentences.coverage import QuotedClause, reading_faults
from quantgraph.subgraphs.signal._agents import Params, rule_in
from quantgraph.subgraphs.signal._meaning import ENDS, plans_differ, signal_differs
from quantgraph.subgraphs.signal._plan import with_plan

BANKS = Path(__file__).parents[2] / "data" / "sentences"
NAMES = ("茅台", "宁王", "平安", "五粮液", "招行")
PLAN = frozenset(each.name for each in fields(TradePlan))
DAYS = pd.bdate_range("2019-01-01", periods=1500)
LEVELS = {"dv_ratio": 3.0, "dv_ttm": 3.0, "turnover_rate": 3.0, "pb": 2.0, "pe_ttm": 15.0}


def bank(name):
    return [json.loads(line) for line in (BANKS / f"{name}.jsonl").read_text(encoding="utf-8").splitlines()]


class Fields(UserDict):
    """Fields of securities; one that nothing made is a wave around its usual level."""

    def __missing__(self, name):
        close = self.data["close"]
        lengths = np.random.default_rng(sum(map(ord, name))).uniform(20, 90, close.shape[1])
        waves = np.exp(0.5 * np.sin(np.arange(len(close))[:, None] / lengths))
        self.data[name] = pd.DataFrame(LEVELS.get(name, 20.0) * waves, close.index, close.columns)
        return self.data[name]


class Market(dict):
    def adjusted(self, name):
        return self["ohlcv"][name]


def bars(codes, seed):
    """Walks with calm and wild months, gaps, and days at a limit of 10 %."""
    rng, shape = np.random.default_rng(seed), (len(DAYS), len(codes))
    moves = rng.standard_t(4, size=shape) * 0.016 * np.exp(0.6 * np.sin(np.arange(len(DAYS)) / 40))[:, None]
    moves[rng.random(shape) < 0.02], moves[rng.random(shape) < 0.02] = 0.1, -0.1
    moves = np.clip(moves, -0.1, 0.1)
    steps = np.log1p(moves)
    close = pd.DataFrame(20 * np.exp((steps - steps.mean(axis=0)).cumsum(axis=0)), DAYS, codes)
    before = close.shift(1).fillna(20.0)
    gaps = before * (1 + rng.standard_t(3, size=shape) * 0.012)
    limits = {"up_limit": before * 1.1, "down_limit": before * 0.9}
    close = close.mask(moves >= 0.1, limits["up_limit"]).mask(moves <= -0.1, limits["down_limit"])
    reach = 1 + np.abs(rng.normal(0, 0.006, shape))
    volume = pd.DataFrame(1e6 * np.exp(rng.normal(0, 0.5, shape)), DAYS, codes)
    low, high = np.minimum(gaps, close) / reach, np.maximum(gaps, close) * reach
    made = {"open": gaps, "high": high, "low": low, "close": close, "volume": volume, "pre_close": before}
    return Fields(made | limits | {"amount": volume * close})


def daily(market):
    """What is known of each day: the bars' limits, and the sessions that are left."""
    days = pd.Series(1, index=DAYS)
    left = {}
    for name, period in (("week", "W"), ("month", "M"), ("quarter", "Q")):
        spans = days.groupby(DAYS.to_period(period))
        counted = spans.transform("size") - spans.cumcount() - 1.0
        left[f"left_in_{name}"] = market["close"].mul(0).add(counted, axis=0)
        left[f"nth_in_{name}"] = market["close"].mul(0).add(spans.cumcount() + 1.0, axis=0)
    return Fields({**market, **left})


def read(reading):
    """A reading's rule, its plan, the codes that are traded, and those that are watched."""
    params = Params.model_validate(reading).model_dump()
    watched = params["watch"].split(",")
    traded = [code for code in (params["trade"] or params["ts_code"]).split(",") if code not in watched]
    return rule_in(params), with_plan(params, PLAN)["plan"], traded, [each for each in watched if each]


def asked(reading, other):
    """What two readings trade otherwise."""
    (rule, plan, traded, watched), (meant, meant_plan, _, more) = read(reading), read(other)
    found = plans_differ(plan, meant_plan)
    if rule is None or meant is None or rule == meant:
        return [*found, *([] if rule == meant else ["no rule"])]
    market = bars(list(dict.fromkeys([*traded, *watched, *more, *rule.watched, *meant.watched])), 0)
    index = bars(list(dict.fromkeys([*rule.indices, *meant.indices])) or ["none"], 5)
    view = Market(ohlcv=market, indicators=daily(market), index=index)
    signal = RuleEvaluator(view, traded).signal(rule)
    return [*found, *signal_differs(rule, meant, signal, view, DAYS[300], ends=bool(ENDS & plan.keys()))]


def faults(text, reading):
    """What the numbers of a reading show; one that is none is a fault."""
    params = Params.model_validate(reading).model_dump()
    try:
        rule_in(params)
        clauses = [
            QuotedClause(
                **{name: each[name] for name in ("quote", "name", "plan", "became")},
                rule=read_condition(each["rule"]) if each["rule"] else None,
                done=each["status"] == "done",
            )
            for each in params["clauses"]
        ]
    except BadOption as error:
        return [error]
    codes = [each for name in ("ts_code", "watch") for each in params[name].split(",") if each]
    names = [*NAMES, *codes, *(each.partition(".")[0] for each in codes)]
    used = f"{params['entry']} {params['exit']}"
    unused = [each.name for each in clauses if each.rule and each.name not in used]
    return [*unused, *reading_faults(text, clauses, names=names, traded=len(codes))]


def test_of_forty_faithful_readings_none_is_sent_back():
    assert [each["id"] for each in bank("tree_readings") if faults(each["text"], each["faithful"])] == []


def test_a_second_reading_finds_all_but_two_of_79_faulty_ones():
    faulty = [(each, fault) for each in bank("tree_readings") for fault in each["faulty"]]
    assert len(faulty) == 79
    kept = [
        (each["id"], fault["fault"])
        for each, fault in faulty
        if not faults(each["text"], fault["reading"]) and not asked(fault["reading"], each["faithful"])
    ]
    assert len(kept) <= 2, kept


@pytest.mark.parametrize("pair", bank("tree_pairs"), ids=lambda each: each["id"])
def test_two_faithful_readings_trade_the_same(pair):
    assert not faults(pair["text"], pair["faithful_2"])
    assert asked(pair["faithful"], pair["faithful_2"]) == []


def test_what_is_bought_on_a_schedule_is_bought_again_and_a_name_may_be_a_word_of_python():
    plan = {"accumulate": {"amount": 3000, "on": "schedule"}, "take_profit": 0.25}
    assert with_plan(Params.model_validate({"plan": plan}).model_dump(), PLAN)["plan"]["reentry"] == "any"
    clauses = [{"name": "yield", "quote": "dear", "rule": "close > 1"}]
    params = Params.model_validate({"clauses": clauses, "entry": "not yield", "exit": "yield"})
    assert rule_in(params.model_dump()).expressions == ("not close > 1", "close > 1")
