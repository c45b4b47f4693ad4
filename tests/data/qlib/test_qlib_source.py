"""A qlib folder: the same bars as from other files, dated members, limits, and damaged files."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from qlib_folder import adjusted, as_float32, write_qlib

from quantgraph import run_strategy
from quantgraph.data import DatedLists, DescribedSource, MarketDataSource, open_source
from quantgraph.data.qlib import QlibSource
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadFile, NoData, UnknownSymbol
from quantgraph.market import Rulebook
from quantgraph.settings import load_settings
from quantgraph.state import DataState

DAYS = pd.bdate_range("2024-01-02", periods=4)
PRICES = ("open", "high", "low", "close")


def stock(first: float = 10.0, days: pd.DatetimeIndex = DAYS) -> pd.DataFrame:
    """Bars in hands and thousands; the average price is the close."""
    close = first + np.arange(len(days)) / 10
    vol = 1000.0 + np.arange(len(days))
    return pd.DataFrame(
        {
            "open": close - 0.01,
            "high": close + 0.05,
            "low": close - 0.07,
            "close": close,
            "vol": vol,
            "amount": vol * 100 * close / 1000,
        },
        index=days,
    )


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    factor = pd.Series([0.25, 0.25, 0.5, 0.5], index=DAYS)
    late = stock(20.0, DAYS[2:])
    tables = {"600519.SH": adjusted(stock(), factor), "000001.SZ": adjusted(late, factor[2:])}
    index = pd.DataFrame(dict.fromkeys(PRICES, 3400.5), index=DAYS)
    spans = [("SH600519", "2024-01-02", "2024-01-03"), ("SZ000001", "2024-01-04", "2024-01-05")]
    return write_qlib(tmp_path / "cn", {**tables, "000300.SH": index}, lists={"csi300": spans})


def everything(source: MarketDataSource) -> dict[str, pd.DataFrame]:
    days = source.sessions()
    return source.bars(source.symbols(), days[0], days[-1])


def real_bars(a_share: Path) -> pd.DataFrame:
    rows = pd.read_csv(a_share / "daily_prices_sse_50_20250102_20251031.csv")
    rows["trade_date"] = pd.to_datetime(rows["trade_date"].astype("str"), format="%Y%m%d")
    return rows.sort_values(["ts_code", "trade_date"], ignore_index=True)


def real_factor(rows: pd.DataFrame) -> pd.Series:
    """The close before over the exchange's reference price, multiplied up, in float32."""
    before = rows["close"].shift().fillna(rows["pre_close"])
    return as_float32((before / rows["pre_close"]).cumprod() * 0.37)


def shortest(ratio: float) -> float:
    """The ratio in two to four decimals if two float32 numbers do not tell it from that."""
    return next((round(ratio, n) for n in (2, 3, 4) if abs(round(ratio, n) / ratio - 1) < 2**-22), ratio)


def test_real_bars_have_one_commit_through_a_qlib_folder_csv_parquet_and_a_frame(
    a_share: Path, tmp_path: Path
) -> None:
    real = real_bars(a_share)
    tables, parts = {}, []
    for code, rows in real.groupby("ts_code"):
        by_day = rows.set_index("trade_date")
        factor = real_factor(by_day)
        tables[code] = adjusted(by_day, factor)
        # float32 holds seven digits. Prices have six at most and must come back to the cent; of the volumes
        # and amounts the other files get what float32 leaves, in whole shares.
        shares = (as_float32(tables[code]["volume"]) * factor * 100).round()
        assert (shares / 100 / by_day["vol"] - 1).abs().max() < 2e-7
        steps = (factor / factor.shift()).map(shortest).where((factor / factor.shift() - 1).abs() > 1e-4)
        left = {"vol": shares / 100, "amount": as_float32(by_day["amount"]), "adj_factor": factor}
        left |= {"split": steps}
        parts.append(by_day.assign(**left).reset_index())
    columns = ["ts_code", "trade_date", *PRICES, "vol", "amount", "adj_factor", "split"]
    same = pd.concat(parts)[columns]
    same.to_csv(tmp_path / "bars.csv", index=False)
    same.to_parquet(tmp_path / "bars.parquet", index=False)
    folder = write_qlib(tmp_path / "cn", tables)
    store = DataState()
    commits = {
        str(name): store.update("ohlcv", everything(open_source(source)), base=store.empty)
        for name, source in {
            "qlib": f"qlib:{folder}",
            "csv": tmp_path / "bars.csv",
            "parquet": tmp_path / "bars.parquet",
            "frame": same,
        }.items()
    }
    assert len(set(commits.values())) == 1, commits
    panel = store.snapshot(commits["qlib"])["ohlcv"]
    for field in PRICES:
        expected = real.pivot_table(index="trade_date", columns="ts_code", values=field)
        assert np.array_equal(panel[field].to_numpy(), expected.to_numpy(), equal_nan=True)


def test_the_folder_tells_codes_units_names_and_dates(folder: Path) -> None:
    source = open_source(f"qlib:{folder}")
    assert isinstance(source, (QlibSource, DatedLists))
    assert isinstance(source, MarketDataSource)
    assert isinstance(source, DescribedSource)
    assert source.symbols() == ("000001.SZ", "600519.SH")
    assert source.sessions().tolist() == DAYS.tolist()
    assert source.names() == {"000300.SH": "沪深300"}
    assert source.symbols_on(DAYS[1]) == ("600519.SH",)
    bars = everything(source)
    assert bars["close"]["600519.SH"].tolist() == [10.0, 10.1, 10.2, 10.3]
    assert bars["vol"]["600519.SH"].tolist() == [1000, 1001, 1002, 1003]
    assert bars["adj_factor"]["600519.SH"].tolist() == [0.25, 0.25, 0.5, 0.5]
    assert bars["split"]["600519.SH"].dropna().to_dict() == {DAYS[2]: 2.0}
    assert bars["close"]["000001.SZ"].isna().tolist() == [True, True, False, False]
    assert bars["amount"]["600519.SH"].tolist() == pytest.approx([1000, 1011.01, 1022.04, 1033.09])
    told = source.provenance("en")
    assert "vol in hands, inferred from the numbers" in told
    assert "amount in thousand yuan, inferred from the numbers" in told
    assert "未复权" in source.provenance("zh")[0]


def test_members_are_those_of_the_day(folder: Path) -> None:
    source = open_source(f"qlib:{folder}")
    for day, symbols, listed_on in (
        ("2024-01-03", ("600519.SH",), "2024-01-02"),
        ("2024-01-04", ("000001.SZ",), "2024-01-04"),
        ("2024-02-01", ("000001.SZ",), "2024-01-04"),
    ):
        members = source.members("000300.SH", pd.Timestamp(day))
        assert (members.symbols, members.listed_on) == (symbols, pd.Timestamp(listed_on))
        assert members.point_in_time
    assert not source.members("000300.SH", pd.Timestamp("2023-12-29")).point_in_time
    with pytest.raises(UnknownSymbol, match=r"no member list of 000905.SH; indices with members: 000300.SH"):
        source.members("000905.SH", DAYS[0])


def test_levels_of_an_index_need_no_factor(folder: Path) -> None:
    levels = open_source(f"qlib:{folder}").index_bars("000300.SH", DAYS[1], DAYS[2])
    assert levels["close"].tolist() == [3400.5, 3400.5]


@pytest.mark.parametrize("kept", ["raw", "adjusted"])
def test_limits_are_read_whether_they_are_adjusted_or_not(folder: Path, kept: str) -> None:
    place = folder / "features" / "sh600519"
    factor = np.array([0.25, 0.25, 0.5, 0.5]) if kept == "adjusted" else np.ones(4)
    for name, limits in (("up_limit", [10.9, 11.0, 11.1, 11.2]), ("limit_down", [9.0, 9.1, 9.2, 9.3])):
        np.concatenate([[0], np.array(limits) * factor]).astype("<f4").tofile(place / f"{name}.day.bin")
    bars = everything(open_source(f"qlib:{folder}"))
    assert bars["up_limit"]["600519.SH"].tolist() == [10.9, 11.0, 11.1, 11.2]
    assert bars["down_limit"]["600519.SH"].tolist() == [9.0, 9.1, 9.2, 9.3]
    assert bars["up_limit"]["000001.SZ"].isna().all()


def test_a_volume_whose_unit_the_numbers_do_not_tell_is_not_there(folder: Path, monkeypatch) -> None:
    for path in (folder / "features").glob("*/amount.day.bin"):
        path.unlink()
    assert "vol" not in everything(open_source(f"qlib:{folder}"))
    monkeypatch.setenv("QUANTGRAPH_TABLES", '{"volume_unit": "shares"}')
    bars = everything(open_source(f"qlib:{folder}", settings=load_settings()))
    assert bars["vol"]["600519.SH"].tolist() == [10, 10.01, 10.02, 10.03]


CLOSE = "features/sh600519/close.day.bin"


@pytest.mark.parametrize(
    ("file", "content", "said"),
    [
        (CLOSE, b"", "0 bytes are not 1 to 5 float32 numbers"),
        (CLOSE, b"\0" * 7, "7 bytes are not 1 to 5 float32"),
        (CLOSE, np.arange(9, dtype="<f4").tobytes(), "36 bytes are not 1 to 5 float32"),
        (CLOSE, np.array([2, 1, 1, 1], "<f4").tobytes(), "its first number is 2: 3 values from that row on"),
        (CLOSE, np.array([0.5, 1], "<f4").tobytes(), "its first number is 0.5"),
        (CLOSE, np.array([np.nan, 1], "<f4").tobytes(), "its first number is nan"),
        (CLOSE, np.array([0, 1, np.inf], "<f4").tobytes(), "value 2 is infinite"),
        (CLOSE, None, "is missing, and instruments/all.txt lists the symbol"),
        ("features/sh600519/factor.day.bin", None, "have no factor.day.bin"),
        ("features/sh600519/factor.day.bin", np.zeros(5, "<f4").tobytes(), "on 2024-01-02 is not above 0"),
        ("calendars/day.txt", b"", "is empty"),
        ("calendars/day.txt", b"2024-01-03\n2024-01-02\n", "line 2: 2024-01-02 is not after the day above"),
        ("calendars/day.txt", b"2024-01-02\nmonday\n", "monday is not a date"),
        ("calendars/day.txt", b"\xff\xfe", "is not text in UTF-8"),
        (
            "instruments/all.txt",
            b"SH600519 2024-01-02\n",
            "line 1: 'SH600519 2024-01-02' is not a symbol and",
        ),
        (
            "instruments/all.txt",
            b"SH600519 2024-01-02 2024-01-01",
            "line 1: the last day is before the first",
        ),
    ],
)
def test_damage_is_one_line_that_names_the_file(folder: Path, file: str, content, said: str) -> None:
    place = folder / file
    place.unlink() if content is None else place.write_bytes(content)
    with pytest.raises(BadFile) as caught:
        everything(open_source(f"qlib:{folder}"))
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert str(folder) in caught.value.message


def test_what_is_not_a_qlib_folder_is_refused_when_it_is_opened(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match=r"has no calendars/day.txt; a qlib folder of daily data has"):
        open_source(f"qlib:{tmp_path}")
    with pytest.raises(BadFile, match=r"nowhere has no calendars/day.txt"):
        open_source("qlib:nowhere")


def test_a_folder_of_the_us_is_traded_under_its_rules_with_volumes_in_shares(tmp_path: Path) -> None:
    table = adjusted(stock(), pd.Series(1.0, index=DAYS)).drop(columns="amount")
    source = open_source(f"qlib:{write_qlib(tmp_path / 'us', {'AAPL': table})}")
    assert everything(source)["vol"]["AAPL"].tolist() == [10, 10.01, 10.02, 10.03]
    assert rules_of(source).name == Rulebook.us().name


def test_what_the_folder_does_not_have_is_said(folder: Path) -> None:
    source = open_source(f"qlib:{folder}")
    with pytest.raises(UnknownSymbol, match=r"has no 600000.SH; it has 2 symbols, for example 000001.SZ"):
        source.bars(["600000.SH"], DAYS[0], DAYS[-1])
    with pytest.raises(
        NoData, match=r"no bars of 000001.SZ from 2024-01-02 to 2024-01-03; calendars/day.txt runs"
    ):
        source.bars(["000001.SZ"], DAYS[0], DAYS[1])
    with pytest.raises(NoData, match="has no daily indicators"):
        source.indicators(["000001.SZ"], DAYS[0], DAYS[1])


def test_the_manifest_of_a_release_must_be_that_of_the_folder(folder: Path) -> None:
    archive = folder.parent / "qlib_bin.tar.gz"
    archive.write_bytes(b"the archive")
    digest = f"sha256:{hashlib.sha256(b'the archive').hexdigest()}"
    path = folder.parent / "qlib_bin.manifest.json"
    told = {"release_tag": "2024-01-06", "target_trade_date": "2024-01-05", "archive_sha256": digest}
    path.write_text(json.dumps(told))
    assert "release 2024-01-06" in open_source(f"qlib:{folder}").provenance("en")
    archive.write_bytes(b"half of it")
    with pytest.raises(BadFile, match=r"qlib_bin.tar.gz is damaged"):
        open_source(f"qlib:{folder}").sessions()
    path.write_text(json.dumps(told | {"target_trade_date": "2024-01-08"}))
    with pytest.raises(
        BadFile, match=r"of a release up to 2024-01-08, and calendars/day.txt ends on 2024-01-05"
    ):
        open_source(f"qlib:{folder}").sessions()
    path.write_text("[]")
    with pytest.raises(BadFile, match=r"is not the manifest of a release"):
        open_source(f"qlib:{folder}").sessions()


def test_a_share_that_is_split_keeps_its_value_in_the_account(tmp_path: Path) -> None:
    days = pd.bdate_range("2024-01-02", periods=60)
    raw = pd.Series(
        np.where(np.arange(60) < 30, 20.0, 10.0), index=days
    )  # two for one, and nothing else moves
    flat = pd.DataFrame(dict.fromkeys(PRICES, raw) | {"vol": 1000.0, "amount": raw * 100}, index=days)
    flat = flat.assign(high=raw + 0.01, low=raw - 0.01)
    table = adjusted(flat, pd.Series(np.where(np.arange(60) < 30, 0.37, 0.74), index=days))
    folder = write_qlib(tmp_path / "cn", {"600519.SH": table})
    sentence = "600519.SH, buy when close is above 15, sell when close is below 5, 2024"
    result = run_strategy(sentence, source=f"qlib:{folder}", out=tmp_path / "runs")
    assert abs(result.metrics.loc["return", "account"]) < 0.001  # the costs


def test_a_run_on_the_folder_says_what_the_numbers_are_and_opens_it_again(tmp_path: Path) -> None:
    days = pd.bdate_range("2024-01-02", periods=60)
    bars = stock(10.0, days).assign(**{field: 10 + np.sin(np.arange(60) / 5) for field in ("open", "close")})
    bars = bars.assign(
        high=bars["close"] + 0.1, low=bars["close"] - 0.1, amount=bars["vol"] * bars["close"] / 10
    )
    folder = write_qlib(tmp_path / "cn", {"600519.SH": adjusted(bars.round(2), pd.Series(0.5, index=days))})
    sentence = (
        "600519.SH, buy when the close crosses above the 5-day average, sell when it crosses below, 2024"
    )
    result = run_strategy(sentence, source=f"qlib:{folder.name}", out=tmp_path / "runs")
    assert result["ended_because"] == "done"
    (record,) = (tmp_path / "runs").glob("*/run.json")
    assert json.loads(record.read_text())["source"]["open"] == f"qlib:{folder}"
    assert any("unadjusted" in line for line in result["source"]["provenance"])
