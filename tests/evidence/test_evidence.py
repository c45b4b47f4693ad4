"""Placebos of noise, of an edge and of a decider, room by hand, and the command."""

import json
import math
import os
import subprocess
import sys
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from tests.support.judged import walk

from quantgraph.broker import Market, TradePlan
from quantgraph.errors import BadOption
from quantgraph.evidence import EVIDENCE_FILE, evidence
from quantgraph.evidence._placebos import of_signal
from quantgraph.evidence._room import room_of
from quantgraph.market import Rulebook
from quantgraph.runs import RunResult, run_strategy
from quantgraph.state import DataState

SENTENCE = "合成30, 5日均线上穿20日均线买入, 下穿卖出, 2025年"
PLAN = TradePlan(size={"percent": 0.2})


def placebos_of(bars, signal, *, count=60, seed=0):
    store = DataState()
    store.update("ohlcv", bars)
    market = Market(store=store, data_ref=store.head, rules=Rulebook.zero_cost(), blocks_from=0)
    days = bars["close"].index
    made, cash = {"signal": signal}, Decimal(1_000_000)
    return of_signal(market, days, made, name="s", plan=PLAN, cash=cash, count=count, seed=seed)


def noise(bars, seed):
    drawn = np.random.default_rng(seed).random(bars["close"].shape)
    return pd.DataFrame(
        np.where(drawn < 0.05, 1.0, np.where(drawn > 0.95, -1.0, 0.0)),
        bars["close"].index,
        bars["close"].columns,
    )


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_p_of_noise_is_uniform():
    passed = 0
    for seed in range(20):
        found = []
        for rule in range(30):
            bars = walk(1_000 * seed + rule, 120, 4, drift=0.0)
            found.append(placebos_of(bars, noise(bars, 7_000 + 1_000 * seed + rule), count=19).p)
        ordered, count = np.sort(found), len(found)
        steps = np.arange(1, count + 1) / count
        # p has steps of 1/20: each is held against the middle of its step.
        apart = np.abs(np.r_[steps - (ordered - 1 / 40), ordered - 1 / 40 - (steps - 1 / count)]).max()
        passed += apart <= 1.358 / math.sqrt(count)  # Kolmogorov and Smirnov at 5 %
    assert passed >= 17


def test_an_edge_stands_above_its_placebos():
    bars = walk(3, 300, 6, drift=0.0)
    close, draws = bars["close"], np.random.default_rng(1).random(bars["close"].shape)
    tomorrow = np.sign(bars["open"].shift(-2) - bars["open"].shift(-1))
    known = tomorrow.where(draws < 0.6, -tomorrow).fillna(0.0)
    found = placebos_of(bars, pd.DataFrame(known, close.index, close.columns))
    assert found.p <= 0.05
    assert {kind: len(returns) for kind, returns in found.returns.items()} == dict.fromkeys(
        ("rotated", "shuffled", "permuted"), 20
    )


def test_one_symbol_has_no_other_to_permute():
    bars = walk(4, 120, 1)
    assert [*placebos_of(bars, noise(bars, 1), count=20).returns] == ["rotated", "shuffled"]


def test_room_by_hand():
    days = pd.to_datetime(["2024-01-02", "2024-01-03"])
    volumes = pd.DataFrame({"A": [100.0, 50.0], "B": [np.nan, 200.0]}, days)  # hands of 100 shares
    fills = pd.DataFrame(
        {"trade_date": days[[0, 1, 0]], "ts_code": ["A", "B", "B"], "quantity": [1_000, 400, 100]}
    )
    room = room_of(fills, {"vol": volumes})
    # 1,000 of 10,000 and 400 of 20,000 shares; without a volume a fill does not count.
    assert room.largest == pytest.approx({"1": 0.1, "10": 1.0, "100": 10.0})
    assert room.median["1"] == pytest.approx(0.06)
    assert room_of(fills, {}) is None


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_strategy(SENTENCE, source="sample", out=tmp_path_factory.mktemp("runs"), model="keyless")


def test_the_run_itself_is_traded_as_it_was(result):
    found = evidence(result, placebos=21)
    returns = result.returns
    assert found.placebos.own == pytest.approx(returns.mean() * result["periods_per_year"])
    stored = json.loads((result.folder / EVIDENCE_FILE).read_text())
    assert stored["placebos"]["rank"] == found.placebos.rank
    assert evidence(result, placebos=21) == found
    assert evidence(result, placebos=21, seed=1) != found


def test_a_decider_without_a_signal_has_random_ones_of_its_turnover(tmp_path):
    held = run_strategy(SENTENCE, source="sample", out=tmp_path, model="keyless", decider="buy_and_hold")
    found = evidence(held, placebos=20)
    assert [*found.placebos.returns] == ["random"]
    assert found.placebos.own == pytest.approx(held.returns.mean() * held["periods_per_year"])
    assert np.std(found.placebos.returns["random"]) < 0.02  # it buys all thirty, as the run did


@pytest.mark.parametrize("placebos", [0, 19, 10_001])
def test_too_few_and_too_many_placebos_are_refused(placebos, result):
    with pytest.raises(BadOption, match=r"must be from 20 to 10,000"):
        evidence(result, placebos=placebos)


def test_a_run_without_an_account_and_no_run_are_refused(tmp_path):
    with pytest.raises(BadOption, match="has no account"):
        evidence(RunResult({"run_id": "1", "account": None}))
    with pytest.raises(BadOption):
        evidence(tmp_path / "nothing")


@pytest.mark.parametrize(
    ("sentence", "words"),
    [
        (SENTENCE, ("安慰剂", "容量")),
        (
            "000341.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2025",
            ("placebos", "room"),
        ),
    ],
)
def test_the_command_speaks_the_language_of_the_sentence(sentence, words, tmp_path):
    run_strategy(sentence, source="sample", out=tmp_path, model="keyless")
    command = [sys.executable, "-m", "quantgraph", "evidence", "--out", str(tmp_path), "--placebos", "20"]
    told = [
        subprocess.run(command, capture_output=True, text=True, env=os.environ, check=False) for _ in range(2)
    ]
    assert told[0].returncode == 0, told[0].stderr
    assert told[0].stdout == told[1].stdout
    labels = [line.partition(":")[0] for line in told[0].stdout.splitlines()]
    assert labels[-2:] == list(words)
