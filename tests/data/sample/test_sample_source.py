"""The laws of the embedded market, checked with exact decimal arithmetic and the exchange's calendar."""

from __future__ import annotations

import re
import threading
from decimal import ROUND_HALF_UP, Decimal
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from load_script import load_script

from quantgraph.data import BAR_FIELDS, INDICATOR_FIELDS, MarketDataSource, open_source
from quantgraph.data.sample import SampleSource
from quantgraph.data.sample._source import NO_LIMIT

SCRIPT = Path(__file__).resolve().parents[3] / "scripts" / "make_sample.py"
TICK = Decimal("0.01")
# exchange_calendars 4.13 reads time zones in a way that pandas 3.1 is going to change.
calendar_warns = pytest.mark.filterwarnings("ignore:Series.values returning:DeprecationWarning")


@pytest.fixture(scope="module")
def source() -> SampleSource:
    return SampleSource()


@pytest.fixture(scope="module")
def bars(source: SampleSource) -> dict[str, pd.DataFrame]:
    return source.bars(source.symbols(), source.sessions()[0], source.sessions()[-1])


@pytest.fixture(scope="module")
def rows(bars: dict[str, pd.DataFrame]) -> pd.DataFrame:
    return pd.DataFrame({field: frame.unstack() for field, frame in bars.items()}).dropna(subset=["open"])


@pytest.fixture(scope="module")
def indicators(source: SampleSource) -> dict[str, pd.DataFrame]:
    return source.indicators(source.symbols(), source.sessions()[0], source.sessions()[-1])


@cache
def special_treatment(source: SampleSource) -> pd.DataFrame:
    """Intervals under an ST name: ``ts_code``, ``name``, ``start``, ``end`` (exclusive, NaT = open)."""
    rows = []
    for code, names in source.market.dated_names.items():
        ends = [*(start for start, _ in names[1:]), pd.NaT]
        for (start, name), end in zip(names, ends, strict=True):
            if name.lstrip("*").startswith("ST"):
                rows.append({"ts_code": code, "name": name, "start": start, "end": end})
    return pd.DataFrame(rows)


def limit(pre_close: float, percent: int) -> float:
    exact = Decimal(f"{pre_close:.2f}") * (100 + percent) / 100
    return float(exact.quantize(TICK, ROUND_HALF_UP))


def test_it_is_the_default_source_and_says_that_it_is_synthetic(source: SampleSource) -> None:
    assert isinstance(source, MarketDataSource)
    assert isinstance(open_source(), SampleSource)
    assert isinstance(open_source("sample"), SampleSource)
    assert (source.name, source.synthetic) == ("sample", True)
    assert "synthetic" in source.notes[0]
    assert all("合成" in name for name in source.names().values())
    assert set(source.names()) == {*source.symbols(), "990030.SH"}


@calendar_warns
def test_sessions_are_the_exchanges(source: SampleSource) -> None:
    import exchange_calendars

    calendar = exchange_calendars.get_calendar("XSHG", start="2022-12-01", end="2026-01-31")
    expected = calendar.sessions_in_range("2023-01-03", "2025-12-31").tz_localize(None)
    assert source.sessions().tolist() == expected.tolist()


def test_sixty_stocks_on_every_board(source: SampleSource) -> None:
    ranges = {
        "SH main": r"60[0135]\d{3}\.SH",
        "SZ main": r"00[02]\d{3}\.SZ",
        "ChiNext": r"30[01]\d{3}\.SZ",
        "STAR": r"68[89]\d{3}\.SH",
        "Beijing": r"(8\d{5}|920\d{3})\.BJ",
    }
    counts = {
        board: sum(re.fullmatch(codes, code) is not None for code in source.symbols())
        for board, codes in ranges.items()
    }
    assert sum(counts.values()) == len(source.symbols()) == 60
    assert min(counts.values()) >= 6


def test_every_traded_session_has_every_field(bars: dict[str, pd.DataFrame]) -> None:
    assert tuple(bars) == (*BAR_FIELDS[:10], "dividend", "split")
    traded = bars["open"].notna()
    assert all(bars[field].notna().equals(traded) for field in BAR_FIELDS[:10])
    assert all((frame.dtypes == "float64").all() for frame in bars.values())


def test_prices_are_whole_ticks_in_order_and_inside_the_limits(rows: pd.DataFrame) -> None:
    for field in ("open", "high", "low", "close", "pre_close", "up_limit", "down_limit"):
        assert (rows[field] == rows[field].round(2)).all()
        assert (rows[field] > 0).all()
    assert (rows["low"] <= rows[["open", "close"]].min(axis=1)).all()
    assert (rows["high"] >= rows[["open", "close"]].max(axis=1)).all()
    assert (rows["high"] <= rows["up_limit"]).all()
    assert (rows["low"] >= rows["down_limit"]).all()


def test_limits_are_the_boards_band_rounded_half_up(source: SampleSource, rows: pd.DataFrame) -> None:
    special = special_treatment(source)
    free = {"BJ": 1, "SH": 5, "SZ": 5}
    first = source.sessions()[0]
    unlimited = 0
    for code, of_stock in rows.groupby(level=0):
        stock = of_stock.droplevel(0)
        board = 30 if code.endswith("BJ") else 20 if code.startswith(("30", "68")) else 10
        spans = special.loc[special["ts_code"] == code, ["start", "end"]].to_numpy(dtype=object).tolist()
        late = stock.index[0] > first + pd.Timedelta(days=60)
        for number, row in enumerate(stock.itertuples()):
            day = row.Index
            if late and number < free[code[-2:]]:
                assert (row.up_limit, row.down_limit) == NO_LIMIT
                unlimited += 1
                continue
            st = any(begin <= day and (pd.isna(end) or day < end) for begin, end in spans)
            band = 5 if st else board
            assert row.up_limit == limit(row.pre_close, band)
            assert row.down_limit == limit(row.pre_close, -band)
    assert unlimited == 5 + 5 + 1


def test_there_are_limit_sessions_and_some_are_locked_at_the_open(rows: pd.DataFrame) -> None:
    up, down = rows["close"] == rows["up_limit"], rows["close"] == rows["down_limit"]
    assert min(up.sum(), down.sum()) > 30
    flat = rows["high"] == rows["low"]
    assert min((flat & up).sum(), (flat & down).sum()) > 5


def test_amount_is_volume_at_prices_that_were_traded(rows: pd.DataFrame) -> None:
    average = rows["amount"] * 1000 / (rows["vol"] * 100)
    assert (average >= rows["low"] - 1e-9).all()
    assert (average <= rows["high"] + 1e-9).all()
    assert (rows["vol"] == rows["vol"].round()).all()
    assert (rows["vol"] >= 1).all()


def test_pre_close_is_the_last_close_but_for_ex_dividend_sessions(rows: pd.DataFrame) -> None:
    by_stock = rows.groupby(level=0)
    last, factor = by_stock["close"].shift(), by_stock["adj_factor"].shift()
    known = last.notna()
    ex = known & (rows["pre_close"] != last)
    stepped = known & (rows["adj_factor"] != factor)
    assert (stepped & ~ex).sum() == 0
    assert (rows["pre_close"][ex] < last[ex]).all()
    step = rows["adj_factor"][ex] / factor[ex]
    assert np.allclose(step, last[ex] / rows["pre_close"][ex], rtol=2e-6, atol=0)
    years = pd.Series(rows.index.get_level_values("trade_date").year, index=rows.index)[ex]
    assert years.value_counts().between(36, 44).all()
    assert len(years.unique()) == 3


def test_dividends_and_bonus_shares_make_the_pre_close_of_every_ex_date(rows: pd.DataFrame) -> None:
    last = rows.groupby(level=0)["close"].shift()
    ex = rows[last.notna() & (rows["pre_close"] != last)]
    assert ex["dividend"].notna().all()
    assert (rows["dividend"].count(), rows["split"].count()) == (len(ex), 15)
    for place, row in ex.iterrows():
        close, cash, ratio = (
            Decimal(str(float(value))) for value in (last[place], row["dividend"], row.fillna(1.0)["split"])
        )
        reference = ((close - cash) / ratio).quantize(TICK, ROUND_HALF_UP)
        assert reference == Decimal(f"{row['pre_close']:.2f}"), place


def test_there_are_suspensions_of_one_to_twenty_sessions(bars: dict[str, pd.DataFrame]) -> None:
    lengths: list[int] = []
    for code in bars["open"]:
        absent = bars["open"][code].isna()
        inside = absent[bars["open"][code].first_valid_index() :]
        runs = inside.groupby((~inside).cumsum()).sum()
        lengths += [int(length) for length in runs if length]
    assert len(lengths) >= 10
    assert min(lengths) == 1
    assert 10 <= max(lengths) <= 20


def test_st_names_have_their_interval(source: SampleSource) -> None:
    special = special_treatment(source)
    open_ended = special[special["end"].isna()]
    assert len(special) >= 2
    assert len(open_ended) >= 1
    for code in open_ended["ts_code"]:
        assert "ST" in source.names()[code]
    for code in special["ts_code"][special["end"].notna()]:
        assert "ST" not in source.names()[code]


def test_returns_look_like_a_market(rows: pd.DataFrame) -> None:
    returns = (rows["close"] / rows["pre_close"] - 1)[rows["up_limit"] != NO_LIMIT[0]]
    wide = returns.unstack(level=0)
    assert 0.015 < returns.std() < 0.035
    assert returns.kurt() > 1.5
    correlations = wide.corr().to_numpy()[np.triu_indices(60, 1)]
    assert 0.05 < correlations.mean() < 0.6
    clustering = wide.abs().apply(lambda series: series.autocorr(1)).mean()
    assert clustering > 0.05


def test_indicators_agree_with_the_bars(
    bars: dict[str, pd.DataFrame], indicators: dict[str, pd.DataFrame]
) -> None:
    assert tuple(indicators) == INDICATOR_FIELDS
    close, traded = bars["close"], bars["close"].notna()

    def same(one: pd.DataFrame, other: pd.DataFrame, tolerance: float = 1e-4) -> bool:
        return bool((((one - other).abs() <= tolerance + 1e-9 * other.abs()) | ~traded).all().all())

    assert same(indicators["total_mv"], close * indicators["total_share"])
    assert same(indicators["circ_mv"], close * indicators["float_share"])
    # vol in hands of 100 shares, float_share in 10,000 shares, the rate in percent.
    assert same(indicators["turnover_rate"], bars["vol"] * 100 / (indicators["float_share"] * 10_000) * 100)
    assert ((indicators["turnover_rate_f"] >= indicators["turnover_rate"]) | ~traded).all().all()
    assert ((indicators["free_share"] <= indicators["float_share"]) | ~traded).all().all()
    assert ((indicators["float_share"] <= indicators["total_share"]) | ~traded).all().all()
    for field in ("pb", "ps", "ps_ttm", "total_mv"):
        assert indicators[field].notna().equals(traded)
        assert (indicators[field].min() > 0).all()


def test_earnings_move_at_reports_only_and_losses_have_no_multiple(
    source: SampleSource, indicators: dict[str, pd.DataFrame]
) -> None:
    without = indicators["pe_ttm"].isna().all()
    assert 3 <= without.sum() <= 10
    profit = (indicators["total_mv"] / indicators["pe_ttm"]).ffill()
    changed = (profit.pct_change(fill_method=None).abs() > 1e-3).any(axis=1)
    months = {day.strftime("%m") for day in source.sessions()[changed.to_numpy()]}
    assert months <= {"04", "05", "08", "10", "11"}


def test_volume_ratio_is_volume_over_the_mean_of_five_sessions(
    bars: dict[str, pd.DataFrame], indicators: dict[str, pd.DataFrame]
) -> None:
    for code in bars["vol"]:
        vol = bars["vol"][code].dropna()
        expected = vol / vol.rolling(5).mean().shift()
        got = indicators["volume_ratio"][code].reindex(vol.index)
        assert np.allclose(got, expected, atol=6e-5, rtol=0, equal_nan=True)


def test_index_has_thirty_members_by_half_year_and_levels_every_session(source: SampleSource) -> None:
    sessions = source.sessions()
    first = source.members("990030.SH", sessions[0])
    assert first.point_in_time
    lists = {source.members("990030.SH", day).listed_on for day in sessions}
    assert len(lists) == 7
    for on in sorted(lists):
        members = source.members("990030.SH", on)
        assert len(set(members.symbols)) == 30
        assert set(members.symbols) <= set(source.symbols())
    levels = source.index_bars("990030.SH", sessions[0], sessions[-1])
    assert levels.index.tolist() == sessions.tolist()
    assert (levels["low"] <= levels[["open", "close"]].min(axis=1)).all()
    assert (levels["high"] >= levels[["open", "close"]].max(axis=1)).all()


def test_index_moves_with_the_free_float_of_its_members(
    source: SampleSource, bars: dict[str, pd.DataFrame], indicators: dict[str, pd.DataFrame]
) -> None:
    levels = source.index_bars("990030.SH", source.sessions()[0], source.sessions()[-1])["close"]
    value = (bars["close"] * indicators["free_share"]).ffill()
    days = source.sessions()
    for number in range(1, len(days), 37):
        members = list(source.members("990030.SH", days[number - 1]).symbols)
        expected = value.loc[days[number], members].sum() / value.loc[days[number - 1], members].sum()
        assert levels.iloc[number] / levels.iloc[number - 1] == pytest.approx(expected, rel=3e-5)


def test_loading_is_shared_by_all_sources_and_threads() -> None:
    found: list[int] = []
    threads = [threading.Thread(target=lambda: found.append(id(SampleSource().market))) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(set(found)) == 1
    assert len(found) == 8


@calendar_warns
def test_the_script_makes_exactly_what_is_shipped(tmp_path: Path) -> None:
    script = load_script(SCRIPT)
    table, market = script.make_sample()
    assert script.differences(table, market) == []
    assert sum(path.stat().st_size for path in script.FOLDER.iterdir()) < 2_000_000
    script.write(table.slice(1), market + " ", tmp_path)
    assert script.differences(table, market, tmp_path) == ["daily.parquet", "market.json"]
