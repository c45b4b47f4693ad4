"""What the audit says of sound data: of real files and the sample market, only what is true."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit import Finding
from quantgraph.audit.bars import check_data
from quantgraph.data import MarketDataSource, open_source
from quantgraph.data.files import FileSource
from quantgraph.data.sample import SampleSource
from quantgraph.market import sessions

FIRST = "daily_prices_sse_50_20250102_20251031.csv"
SECOND = "daily_prices_sse_50_20251009_20251119.csv"


def panels_of(source: MarketDataSource, *, indicators: bool = False) -> dict[str, dict[str, pd.DataFrame]]:
    days, symbols = source.sessions(), source.symbols()
    return {
        "ohlcv": source.bars(symbols, days[0], days[-1]),
        "indicators": source.indicators(symbols, days[0], days[-1]) if indicators else {},
    }


def audit(panels: dict[str, dict[str, pd.DataFrame]], exchange: str = "XSHG") -> tuple[Finding, ...]:
    close = panels["ohlcv"]["close"]
    days = pd.DatetimeIndex(close.index)
    expected = sessions(days[0], days[-1], exchange=exchange)
    report = check_data(panels, symbols=list(close.columns), sessions=days, expected_sessions=expected)
    assert report.passed
    return report.findings


def ex_dates(file: Path) -> pd.DataFrame:
    """Rows whose ``pre_close`` is not the close of the row before, read from the file itself."""
    rows = pd.read_csv(file).sort_values(["ts_code", "trade_date"])
    before = rows.groupby("ts_code")["close"].shift()
    return rows[before.notna() & (rows["pre_close"] != before)].sort_values(["trade_date", "ts_code"])


@pytest.mark.parametrize("name", [FIRST, SECOND])
def test_the_sse_50_files_are_sound_but_have_no_dividends(a_share: Path, name: str) -> None:
    (finding,) = audit(panels_of(FileSource(a_share / name)))
    gone = ex_dates(a_share / name)
    first = gone.iloc[0]
    assert (finding.severity, finding.code, finding.count) == ("warning", "no_actions", len(gone))
    assert finding.session == f"{pd.Timestamp(str(first.trade_date)):%Y-%m-%d}"
    # Within a session the first is that of the first column, and columns ascend.
    assert finding.symbol == first.ts_code
    assert len(gone) == {FIRST: 74, SECOND: 12}[name]  # 74 is what the read-me of the files counts


def test_the_two_sse_50_files_together_are_as_sound(a_share: Path) -> None:
    assert [each.code for each in audit(panels_of(FileSource(a_share)))] == ["no_actions"]


def test_the_nasdaq_100_file_is_sound(shared_data: Path) -> None:
    assert audit(panels_of(FileSource(shared_data / "ai-trader" / "us")), "XNYS") == ()


def test_the_holes_of_the_stockbench_bars_are_found_and_nothing_else(shared_data: Path) -> None:
    findings = audit(panels_of(open_source(shared_data / "stockbench")), "XNYS")
    # Its read-me: no row on 01-10 and 01-13, and 02-11 to 02-19 (six sessions) only for four of twenty.
    assert [(each.code, each.session, each.symbol, each.count) for each in findings] == [
        ("calendar_gap", "2025-01-10", None, 2),
        ("thin_session", "2025-02-11", "AAPL", 6),
    ]


def test_the_sample_market_is_sound(shared_data: Path) -> None:
    findings = audit(panels_of(SampleSource(), indicators=True))
    assert [(each.code, each.symbol) for each in findings] == [("many_gaps", "920873.BJ")]
    close = panels_of(SampleSource())["ohlcv"]["close"]["920873.BJ"]
    assert close.isna().mean() > 0.5
    assert close.loc[close.first_valid_index() :].notna().mean() > 0.9, "it was listed late"


@pytest.mark.parametrize("seed", range(20))
def test_any_part_of_the_sse_50_file_is_as_sound(a_share: Path, seed: int) -> None:
    rng, whole = np.random.default_rng(seed), panels_of(FileSource(a_share / FIRST))
    start = int(rng.integers(0, 190))
    rows = slice(start, int(rng.integers(start + 2, 201)))
    columns = np.sort(rng.choice(50, size=int(rng.integers(1, 30)), replace=False))
    part = {name: frame.iloc[rows, columns] for name, frame in whole["ohlcv"].items()}
    told = {each.code for each in audit({"ohlcv": part, "indicators": {}})}
    assert told <= {"no_actions", "many_gaps"}
    assert "many_gaps" not in told or part["close"].isna().mean().max() > 0.5


@pytest.mark.parametrize(
    ("field", "change", "expected"),
    [("close", 1.5, ("error", "bad_bar")), ("pre_close", 1.002, ("warning", "pre_close_break"))],
)
def test_a_fault_in_one_real_cell_is_found_there(
    a_share: Path, field: str, change: float, expected: tuple[str, str]
) -> None:
    panels = panels_of(FileSource(a_share / FIRST))
    frame = panels["ohlcv"][field].copy()
    frame.loc["2025-03-12", "600519.SH"] *= change
    panels["ohlcv"][field] = frame
    close = panels["ohlcv"]["close"]
    findings = check_data(
        panels, symbols=list(close.columns), sessions=pd.DatetimeIndex(close.index)
    ).findings
    new = [each for each in findings if each.code != "no_actions"]
    assert [(each.severity, each.code) for each in new] == [expected]
    assert (new[0].session, new[0].symbol, new[0].count) == ("2025-03-12", "600519.SH", 1)
    assert {each.count for each in findings if each.code == "no_actions"} == {74}


@pytest.mark.proof
def test_three_hundred_symbols_of_five_years_take_no_time() -> None:
    panels = panels_of(SampleSource(), indicators=True)
    days = sessions("2019-01-02", "2024-03-01")[:1250]

    def wide(frame: pd.DataFrame) -> pd.DataFrame:
        values = np.tile(frame.to_numpy()[-625:], (2, 5))
        return pd.DataFrame(values, index=days, columns=[f"{number:06d}.SZ" for number in range(300)])

    made = {panel: {name: wide(frame) for name, frame in fields.items()} for panel, fields in panels.items()}
    made["ohlcv"]["vol"].iloc[:625] *= 1.0001
    spans = []
    for _ in range(3):
        started = time.process_time()
        check_data(made, symbols=list(made["ohlcv"]["close"].columns), sessions=days, expected_sessions=days)
        spans.append(time.process_time() - started)
    assert min(spans) < 0.5
