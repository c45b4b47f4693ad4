"""Weights, entries and exits, booleans and scores of one's own as runs."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadFrame, BadOption, NotCausal, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.runs import replay, resume_run, run_signal
from quantgraph.runtime import Resources
from quantgraph.state import DataState

DAYS = pd.bdate_range("2025-01-06", periods=60)
CODES = ["AAPL", "AMZN", "MSFT", "NVDA"]


@pytest.fixture(scope="module")
def close():
    steps = np.random.default_rng(5).normal(0, 0.02, (len(DAYS), len(CODES)))
    return pd.DataFrame(50 * np.exp(steps.cumsum(axis=0)), DAYS, CODES).round(2)


@pytest.fixture(scope="module")
def prices(close):
    fields = dict.fromkeys(("open", "high", "low", "close"), close)
    return {code: pd.DataFrame({name: frame[code] for name, frame in fields.items()}) for code in CODES}


@pytest.fixture(scope="module")
def weights(close):
    return (close > close.rolling(5).mean()) * 0.25


@pytest.fixture
def run(prices, tmp_path):
    return lambda **options: run_signal(prices=prices, out=tmp_path / "runs", **options)


def fills(result):
    with Ledger(Path(result["run_dir"]) / "ledger.sqlite") as book:
        assert book.check(result["run_id"])
        journal = book.journal(result["run_id"])
        return [(row["session"], row["body"]) for row in journal if row["kind"] == "fill"]


def by_weight(panels):
    close = panels["ohlcv"]["close"]
    return {"weights": (close > close.rolling(5).mean()) * 0.25}


def by_events(panels):
    close = panels["ohlcv"]["close"]
    change = close / close.shift(1) - 1
    return {"entries": change > 0.02, "exits": change < -0.02, "size": close * 0 + 0.3}


def by_score(panels):
    return {"score": panels["ohlcv"]["close"].pct_change(5)}


@pytest.mark.parametrize("made", [by_weight, by_events, by_score])
def test_a_frame_and_a_function_of_every_form_have_one_ledger_and_replay(made, run, close, prices, tmp_path):
    frames = made({"ohlcv": {"close": close}})
    own, proved = run(**frames), run_strategy(made, source=prices, out=tmp_path / "function")
    assert own["ended_because"] == proved["ended_because"] == "done"
    assert len(fills(own)) > 3
    assert fills(own) == fills(proved)
    assert replay(own.folder).identical
    assert replay(proved.folder).identical
    assert proved["causality"]["causal"]


def test_a_file_hands_over_weights_too(run, weights, prices, tmp_path):
    file = tmp_path / "half.py"
    file.write_text(
        "close = snapshot['ohlcv']['close']\n"
        "GLOBAL_DATA_STATE.update('weights', {'half': (close > close.rolling(5).mean()) * 0.25})\n"
    )
    sealed = run_strategy(file, source=prices, out=tmp_path / "file")
    assert fills(sealed) == fills(run(weights=weights))
    assert sealed["causality"]["causal"]


def is_above(panels):
    close = panels["ohlcv"]["close"]
    return close > close.rolling(5).mean()


def test_booleans_are_held_while_they_are_true(run, close, prices, tmp_path):
    above = close > close.rolling(5).mean()
    assert fills(run(signal=above)) == fills(run(signal=above * 2.0 - 1.0))
    said = run_strategy(is_above, source=prices, out=tmp_path / "function")
    assert fills(said) == fills(run(signal=above))
    file = tmp_path / "above.py"
    file.write_text(
        "close = snapshot['ohlcv']['close']\n"
        "GLOBAL_DATA_STATE.update('signal', {'held': close > close.rolling(5).mean()})\n"
    )
    sealed = run_strategy(file, source=prices, out=tmp_path / "file")
    assert fills(sealed) == fills(run(signal=above))
    assert replay(sealed.folder).identical


def test_an_exit_wins_over_an_entry(run, close):
    rises, falls = close > close.shift(1), close < close.shift(1)
    everything = close > 0
    assert fills(run(entries=everything, exits=falls)) == fills(run(entries=rises | ~falls, exits=falls))


def test_frames_of_the_caller_stay_as_they_were(run, close):
    entries, exits = close > close.shift(1), close > 0
    before = entries.copy()
    run(entries=entries, exits=exits.where(close > 50, other=False))
    pd.testing.assert_frame_equal(entries, before)


def test_a_score_may_have_any_name(close, prices, run, tmp_path):
    file = tmp_path / "ranks.py"
    file.write_text(
        "close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('score', {'score': close.pct_change(5)})\n"
    )
    sealed = run_strategy(file, source=prices, out=tmp_path / "file")
    assert fills(sealed) == fills(run(**by_score({"ohlcv": {"close": close}})))


def test_weights_of_a_month_are_looked_at_once_a_month(run, weights):
    sessions = {session[:10] for session, _ in fills(run(weights=weights, every="month_start"))}
    assert sessions <= {"2025-02-03", "2025-03-03"}
    assert len(sessions) == 2


def test_a_weight_within_the_band_is_left_alone(run, close):
    even = close * 0 + 0.2
    assert len(fills(run(weights=even, band=0.15))) == 4
    assert len(fills(run(weights=even))) > 40


def test_what_could_not_be_bought_is_a_note(run, close):
    """A dollar of each share of about 50: all of what is left over is less than one."""
    few = run(weights=close * 0 + 0.000001)
    assert not fills(few)
    (note,) = [each for each in few["notes"] if "weights" in each]
    assert note.startswith("236 purchases fell short of their weights")
    assert "AAPL, 2025-01-07, 0 of 0 shares" in note


def test_scores_rank_as_a_plain_loop_does(run, close):
    """Two of four, each session; on equal scores the code decides."""
    score = close.pct_change(5).round(2)
    result = run(score=score, top=2)
    held, bought = set(), []
    for at in range(1, len(DAYS)):
        row = score.iloc[at - 1].dropna()
        best = sorted(row.index, key=lambda code: (-row[code], code))[:2]
        if len(row):
            bought += [(f"{DAYS[at]:%Y-%m-%d}", code) for code in sorted(set(best) - held)]
            held = set(best)
    buys = result.trades[result.trades["side"] == "buy"]
    found = zip(buys["trade_date"].dt.strftime("%Y-%m-%d"), buys["ts_code"], strict=True)
    assert sorted(found) == bought


def test_with_a_bottom_what_is_between_is_kept(run, close):
    fixed = pd.DataFrame([[4.0, 3.0, 2.0, 1.0]] * 30 + [[3.0, 2.5, 4.0, 1.0]] * 30, DAYS, CODES)
    kept, sold = run(score=fixed, top=2, bottom=1), run(score=fixed, top=2)
    assert len(fills(kept)) == 2  # AMZN is third now, and not among the lowest
    assert len(fills(sold)) == 4


def test_a_leak_in_a_weight_is_found_and_shown(prices, tmp_path):
    def leak(panels):
        close = panels["ohlcv"]["close"]
        return {"weights": 0.2 + 0.01 * (close.shift(-1) > close)}

    with pytest.raises(NotCausal, match="uses the future") as caught:
        run_strategy(leak, source=prices, out=tmp_path)
    shown = caught.value.data["verdict"]["counterexample"]
    assert {shown["known"], shown["later"]} == {0.2, 0.21}


def test_noise_of_the_last_digits_is_no_leak(prices, tmp_path):
    def noisy(panels):
        close = panels["ohlcv"]["close"]
        return {"weights": (close > close.rolling(5).mean()) * 0.25 + 1e-15 * len(close)}

    assert run_strategy(noisy, source=prices, out=tmp_path)["causality"]["causal"]


@pytest.mark.parametrize("form", ["weights", "score"])
def test_a_run_of_a_form_grows_by_its_longer_frame(form, prices, tmp_path, weights, close):
    frame = weights if form == "weights" else close.pct_change(5)

    def first(rows):
        part = {code: frame.iloc[:rows] for code, frame in prices.items()}
        return part, {form: frame.iloc[:rows]}

    bars, made = first(40)
    grown = run_signal(**made, prices=bars, out=tmp_path / "grown")
    bars, made = first(60)
    grown = resume_run(
        grown.folder, end=f"{DAYS[-1]:%Y%m%d}", strategy=made, resources=Resources(source=bars)
    )
    assert fills(grown) == fills(run_signal(**made, prices=bars, out=tmp_path / "one"))


BAD = {
    "short": (lambda c: {"weights": c * 0 - 0.1}, BadFrame, "has -0.1 at .*nothing is sold short"),
    "more than 1": (lambda c: {"weights": c * 0 + 0.3}, BadFrame, "adds up to 1.2 on 2025-01-06"),
    "infinite": (lambda c: {"score": c * np.inf}, BadFrame, "has inf at"),
    "a zone": (lambda c: {"weights": (c * 0).tz_localize("Asia/Shanghai")}, BadFrame, "time zone"),
    "unsorted": (lambda c: {"weights": (c * 0).iloc[::-1]}, BadFrame, "is not sorted"),
    "twice": (lambda c: {"weights": pd.concat([c, c]).sort_index() * 0}, BadFrame, "twice"),
    "a holiday": (
        lambda c: {
            "weights": pd.concat([c * 0, c.iloc[[0]].shift(1, freq=pd.Timedelta("5D"))]).sort_index() * 0
        },
        BadFrame,
        "1 rows that are not sessions",
    ),
    "no prices": (lambda c: {"weights": (c * 0).rename(columns={"AAPL": "ZZZ"})}, UnknownSymbol, "ZZZ"),
    "all NaN": (lambda c: {"score": c * np.nan}, BadFrame, "NaN in all"),
    "other shapes": (
        lambda c: {"entries": c > 1, "exits": (c < 1).iloc[:5]},
        BadFrame,
        "60 x 4 and exits 5 x 4",
    ),
    "entries alone": (lambda c: {"entries": c > 1}, BadOption, "give one of"),
    "no booleans": (
        lambda c: {"entries": c, "exits": c < 1},
        BadFrame,
        "entries must be a frame of booleans",
    ),
    "no size": (
        lambda c: {"entries": c > 1, "exits": c < 1, "size": c * np.nan},
        BadFrame,
        r"size has no fraction above 0 at \(2025-01-06, AAPL\)",
    ),
    "two forms": (lambda c: {"weights": c * 0, "score": c}, BadOption, "weights, score; give one of"),
    "nothing": (lambda _: {}, BadOption, "nothing; give one of signal="),
    "numbers": (lambda c: {"signal": c}, BadFrame, "arget weights are weights=, other numbers score="),
    "size": (lambda c: {"weights": c * 0, "size": {"percent": 0.1}}, BadOption, "size= beside weights="),
    "positions": (
        lambda c: {"weights": c * 0, "plan": TradePlan(max_positions=2)},
        BadOption,
        "max_positions",
    ),
    "rank": (lambda c: {"score": c, "plan": TradePlan(rank="ohlcv.vol")}, BadOption, "rank=.*beside score="),
    "twice said": (
        lambda c: {"score": c, "top": 3, "plan": TradePlan(max_positions=2)},
        BadOption,
        "say it once",
    ),
    "top": (lambda c: {"weights": c * 0, "top": 3}, BadOption, "top= is of a score"),
    "bottom": (lambda c: {"score": c, "bottom": 0}, BadOption, "bottom=0"),
    "every 3": (lambda c: {"score": c, "bottom": 1, "every": 3}, BadOption, "bottom= with every=3"),
}


@pytest.mark.parametrize("name", BAD)
def test_one_line_says_what_is_wrong_with_a_form(name, run, close, tmp_path):
    make, error, text = BAD[name]
    with pytest.raises(error, match=text):
        run(**make(close))
    assert not (tmp_path / "runs").exists()


def test_a_column_without_numbers_is_never_traded_and_a_row_without_any_keeps_all(run, close):
    part = (close * 0 + 0.25).assign(AMZN=np.nan)
    part.iloc[1:] = np.nan
    assert sorted({*run(weights=part).trades["ts_code"]}) == ["AAPL", "MSFT", "NVDA"]
    assert len(fills(run(weights=part))) == 3


def test_all_scores_equal_take_the_first_codes(run, close):
    trades = run(score=close * 0 + 1, top=2).trades
    assert trades["ts_code"].tolist() == ["AAPL", "AMZN"]


def test_a_data_state_holds_one_thing_of_a_name_and_a_signal_of_weights():
    store, frame = DataState(), pd.DataFrame({"AAPL": [0.2, 0.0, np.nan]}, DAYS[:3])
    weights = store.update("weights", {"w": frame})
    made = store.snapshot(weights)
    assert made["signal"]["w"]["AAPL"].tolist()[:2] == [1.0, -1.0]
    assert np.isnan(made["signal"]["w"]["AAPL"].iloc[2])
    later = store.snapshot(store.update("score", {"w": frame}))
    assert (list(later["signal"]), list(later["weights"]), list(later["score"])) == ([], [], ["w"])
    assert store.without("signal", weights) == store.empty
    assert store.override(weights={"w": frame}, base=store.empty) == weights
    plain = store.snapshot(store.override(signal={"w": made["signal"]["w"]}, base=weights))
    assert (list(plain["signal"]), list(plain["weights"])) == (["w"], [])
    known = store.view(Moment.at(DAYS[2], "open"), weights)
    assert known["weights"]["w"].index[-1] == known["signal"]["w"].index[-1] == DAYS[1]
    assert list(store.snapshot()) == ["ohlcv", "indicators", "index", "signal", "weights", "score"]
