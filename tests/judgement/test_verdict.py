"""Verdicts of noise, of planted edges, and of what makes a judgement impossible."""

import math
from statistics import NormalDist

import numpy as np
import pandas as pd
import pytest
from tests.support.judged import AccountOf, judged, walk
from tests.support.plain_prices import a_share

from quantgraph.broker import TradePlan
from quantgraph.judgement import Circumstances, Tries, card_rows, verdict_line
from quantgraph.judgement._verdict import VERDICTS
from quantgraph.market import Rulebook

NORMAL = NormalDist()
FREE = Rulebook.zero_cost()
NO_SKILL = {*VERDICTS} - {"weak", "some", "strong"}
YEARS, PERIODS = 3, 252
COUNT = YEARS * PERIODS


def random_signal(bars, seed, part=0.04):
    random, shape = np.random.default_rng(seed), bars["close"].shape
    drawn = random.random(shape)
    signal = np.where(drawn < part, 1.0, np.where(drawn > 1 - part, -1.0, 0.0))
    return pd.DataFrame(signal, bars["close"].index, bars["close"].columns)


def with_edge(seed, ratio):
    """Returns that differ by an edge of a yearly ratio from half a benchmark's, and the benchmark's."""
    random = np.random.default_rng(seed)
    benchmark, noise = random.normal(0.0003, 0.012, COUNT), random.normal(0, 0.008, COUNT)
    return 0.5 * benchmark + noise + 0.008 * ratio / math.sqrt(PERIODS), benchmark


@pytest.mark.proof
@pytest.mark.timeout(900)
def test_noise_has_no_evidence_an_edge_is_found_as_often_as_it_should_and_the_best_of_many_is_seen_through():
    plans = [None, TradePlan(stop_loss=0.08, max_holding=20)]
    shares = {
        name: frame.iloc[:, :10]
        for name, frame in a_share().items()
        if name in {"open", "high", "low", "close", "pre_close"}
    }
    verdicts = [
        judged(bars, random_signal(bars, seed), plan=plans[seed % 2])["verdict"]
        for seed in range(400)
        for bars in [walk(seed, COUNT) if seed < 300 else shares]
    ]
    without = sum(verdict in NO_SKILL for verdict in verdicts)
    assert without >= 0.95 * 400
    assert verdicts.count("no evidence") >= 200

    for ratio in (0.8, 1.6):
        found = [
            AccountOf(returns).judged(benchmark)
            for returns, benchmark in (with_edge(seed, ratio) for seed in range(300))
        ]
        seen = np.mean([judgement["verdict"] not in NO_SKILL for judgement in found])
        textbook = 1 - NORMAL.cdf(NORMAL.inv_cdf(0.975) - ratio * math.sqrt(YEARS))
        assert seen == pytest.approx(textbook, abs=0.05)

    best = max(
        (with_edge(seed, 0.0) for seed in range(1_000, 1_200)),
        key=lambda pair: np.mean(pair[0] - 0.5 * pair[1]),
    )
    alone, among = (AccountOf(best[0]).judged(best[1], tries) for tries in (Tries(), Tries(counted=200)))
    assert alone["verdict"] not in NO_SKILL
    assert among["verdict"] == "no evidence"


@pytest.fixture(scope="module")
def bars():
    return walk(1, COUNT)


def once(bars, *cells):
    signal = bars["close"] * 0.0
    for row, column, value in cells:
        signal.iloc[row, column] = value
    return signal


IMPOSSIBLE = {
    "synthetic data": ({}, {"circumstances": Circumstances(synthetic=True)}),
    "data questions open": (
        {},
        {"circumstances": Circumstances(questions=[{"zh": "少了拆分", "en": "a split is missing"}])},
    ),
    "never traded": ({"signal": []}, {}),
    "too short": ({"rows": 200}, {}),
    "sampled proof": ({}, {"circumstances": Circumstances(proof="sampled")}),
    "one position": ({"signal": [(5, 0, 1.0), (50, 0, -1.0)]}, {}),
}


@pytest.mark.parametrize("verdict", IMPOSSIBLE)
@pytest.mark.parametrize("language", ["zh", "en"])
def test_what_makes_a_judgement_impossible_comes_first(bars, verdict, language):
    how, more = IMPOSSIBLE[verdict]
    part = {name: frame.iloc[: how.get("rows", COUNT)] for name, frame in bars.items()}
    signal = once(part, *how["signal"]) if "signal" in how else random_signal(part, 3)
    judgement = judged(part, signal, **more)
    assert judgement["verdict"] == verdict
    line = verdict_line(judgement, language)
    assert "\n" not in line
    assert all("None" not in text and "nan" not in text for _, text in card_rows(judgement, language))


def test_a_gain_of_what_is_still_held_is_no_judgement(bars):
    rising = {name: frame * np.linspace(1, 3, COUNT)[:, None] for name, frame in bars.items()}
    rising = {name: frame.round(2) for name, frame in rising.items()}
    held = once(rising, *((5, column, 1.0) for column in range(4)))
    assert judged(rising, held, rules=FREE)["verdict"] == "gain is from open positions"


def test_a_leaky_rule_collapses_a_session_later(bars):
    close = bars["close"]
    leak = pd.DataFrame(np.where(close.shift(-1) > close, 1.0, -1.0), close.index, close.columns)
    judgement = judged(bars, leak, rules=FREE)
    assert judgement["net"]["return"] > 5
    assert judgement["delays"]["1"] < 0.2 * judgement["net"]["return"]
    assert judgement["verdict"] not in {"some", "strong"}


def test_what_lives_on_one_stock_shows_it(bars):
    one = {name: frame.copy() for name, frame in bars.items()}
    for frame in one.values():
        frame.iloc[:, 2] = (frame.iloc[:, 2] * np.linspace(1, 6, COUNT)).round(2)
    judgement = judged(one, random_signal(one, 4), rules=FREE)
    assert judgement["shares"]["symbol"] > 0.6


def test_numbers_of_a_card_by_hand(bars):
    signal = once(bars, (9, 0, 1.0), (19, 0, -1.0), (29, 1, 1.0), (39, 1, -1.0))
    judgement = judged(bars, signal, rules=FREE, plan=TradePlan(size={"shares": 1_000}))
    opens = bars["open"].to_numpy()
    profits = [1_000 * (opens[20, 0] - opens[10, 0]), 1_000 * (opens[40, 1] - opens[30, 1])]
    assert judgement["gain"] == pytest.approx(sum(profits))
    traded = 1_000 * (opens[10, 0] + opens[20, 0] + opens[30, 1] + opens[40, 1])
    assert judgement["costs"]["break_even"] == pytest.approx(sum(profits) / traded)
    assert judgement["costs"]["5"] == pytest.approx(judgement["net"]["return"])
    if sum(profits) > 0:
        assert judgement["shares"]["trade"] == pytest.approx(max(profits) / sum(profits))
    later = 1_000 * (opens[21, 0] - opens[11, 0] + opens[41, 1] - opens[31, 1]) / 1e6
    assert judgement["delays"]["1"] == pytest.approx(later, abs=2e-4)
    assert (judgement["opened"], judgement["closed"], judgement["trades"]) == (2, 2, 4)


@pytest.mark.parametrize(
    "returns",
    [
        np.zeros(COUNT),
        np.full(COUNT, 0.001),
        np.array([0.01]),
        np.r_[np.zeros(COUNT - 1), -1.0],
        np.full(2, 0.01),
    ],
    ids=["constant", "always the same", "one session", "all lost", "two sessions"],
)
def test_accounts_at_the_edge_are_judged_in_words(returns):
    judgement = AccountOf(np.r_[returns, np.zeros(max(0, 2 - len(returns)))]).judged(
        np.zeros(max(2, len(returns)))
    )
    assert judgement["verdict"] in NO_SKILL
    for language in ("zh", "en"):
        assert verdict_line(judgement, language)
        assert all("nan" not in text for _, text in card_rows(judgement, language))


def test_ten_thousand_tries_leave_nothing_of_a_good_year():
    returns, benchmark = with_edge(3, 2.0)
    assert AccountOf(returns).judged(benchmark)["verdict"] in {"weak", "some", "strong"}
    assert AccountOf(returns).judged(benchmark, Tries(counted=10_000))["verdict"] == "no evidence"
