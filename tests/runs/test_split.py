"""A strategy is made with data before a date, and traded on both sides of it."""

import pandas as pd
import pytest
from tests.support.judged import walk

from quantgraph.errors import BadOption
from quantgraph.judgement import card_rows
from quantgraph.runs import open_run, replay, run_strategy
from quantgraph.state import DataState

SENTENCE = "合成30, 5日均线上穿20日均线买入, 下穿卖出, 止损8%, 2024-2025"
SPLIT = "20250601"


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    return run_strategy(
        SENTENCE, source="sample", out=tmp_path_factory.mktemp("runs"), model="keyless", split=SPLIT
    )


def test_what_makes_the_strategy_sees_no_later_row(result):
    (first,) = [each for each in result.folder.parent.glob("*/") if each != result.folder]
    made = open_run(first)
    assert made["window"]["end"] == "20250530"
    assert made.signal.index[-1] < pd.Timestamp(SPLIT)
    bars = DataState(first / "data").snapshot(made["data_ref"])["ohlcv"]["close"]
    assert bars.index[-1] < pd.Timestamp(SPLIT)
    assert made["account"] is None


def test_both_sides_are_one_account_that_replays(result):
    assert result["ended_because"] == "done"
    assert result["plan"] == {"stop_loss": "0.08"}
    split, equity = result["judgement"]["split"], result.equity["account"]
    before = equity[equity.index < pd.Timestamp(SPLIT)].iloc[-1]
    assert split["before"]["return"] == pytest.approx(before / equity.iloc[0] - 1)
    assert split["after"]["return"] == pytest.approx(equity.iloc[-1] / before - 1)
    assert split["before"]["sessions"] + split["after"]["sessions"] == len(equity) - 1
    gap = split["after"]["difference"] - split["before"]["difference"]
    assert split["gap"]["value"] == pytest.approx(gap)
    assert split["gap"]["low"] < gap < split["gap"]["high"]
    assert result["judgement"]["tries"]["counted"] == 1
    assert any("20250601" in label for label, _ in card_rows(result["judgement"], "en"))
    assert replay(result.folder).identical


def test_a_rule_that_worked_before_alone_shows_its_gap(tmp_path):
    bars = walk(5, 500, 2)
    days = bars["close"].index
    trend = pd.Series([1.003] * 250 + [0.999] * 250, days).cumprod()
    rising = {name: frame.mul(trend, axis=0).round(2) for name, frame in bars.items()}
    frames = {
        code: pd.DataFrame({name: frame[code] for name, frame in rising.items()}) for code in bars["close"]
    }

    def by_the_past(data):
        close = data["ohlcv"]["close"]
        return (close > close.rolling(10).mean()) * 2.0 - 1

    split = run_strategy(by_the_past, source=frames, out=tmp_path, split=f"{days[250]:%Y%m%d}")["judgement"][
        "split"
    ]
    assert split["after"]["return"] < split["before"]["return"]
    assert (split["before"]["sessions"], split["after"]["sessions"]) == (240, 250)  # ten sessions warm up


@pytest.mark.parametrize(
    ("split", "said"),
    [
        ("20300101", "not within the sessions of sample, 20230103 - 20251231"),
        ("20230101", "not within the sessions"),
        ("20231229", "is not within the window"),
        ("2025-13-01", "is not a date"),
    ],
)
def test_a_date_that_has_no_two_sides_is_refused(split, said, tmp_path):
    with pytest.raises(BadOption, match=said):
        run_strategy(SENTENCE, source="sample", out=tmp_path, model="keyless", split=split)
