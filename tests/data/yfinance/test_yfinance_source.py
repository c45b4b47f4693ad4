"""What a source of Yahoo's data answers, with the real package on a loopback server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from yahoo_stub import Fault, Security, YahooStub

from quantgraph.data import DescribedSource, MarketDataSource, open_source
from quantgraph.data.yfinance import YfinanceClient, YfinanceSource
from quantgraph.errors import BadOption, NoData, NotConfigured, RateLimited, SourceUnavailable, UnknownSymbol
from quantgraph.market import Rulebook, sessions

DAYS = sessions("2020-08-24", "2020-09-11", exchange="XNYS")  # 31 August: the split of Apple, four for one
FIRST, LAST = DAYS[0], DAYS[-1]
# Closes of Apple as they were traded on the last days before the split and the first ones after it.
CLOSES = [
    503.43,
    499.30,
    506.09,
    500.04,
    499.23,
    129.04,
    134.18,
    131.40,
    120.88,
    120.96,
    112.82,
    117.32,
    113.49,
    112.00,
]


def bars(closes: list[float]) -> pd.DataFrame:
    close = np.array(closes)
    volume = np.arange(1, len(closes) + 1) * 1_000_000
    return pd.DataFrame(
        {"open": close - 1, "high": close + 2, "low": close - 2, "close": close, "volume": volume},
        index=pd.DatetimeIndex(DAYS[: len(closes)]),
    )


@pytest.fixture
def stub() -> Iterator[YahooStub]:
    apple = Security(bars(CLOSES), dividends={"2020-08-25": 0.82}, splits={"2020-08-31": (4, 1)})
    index = Security(bars([3400.0 + n for n in range(len(DAYS))]))
    london = Security(bars([100.0] * len(DAYS)), currency="GBp", zone="Europe/London")
    with YahooStub({"AAPL": apple, "^GSPC": index, "VOD": london}) as running:
        yield running


def source_on(
    stub: YahooStub,
    folder: Path,
    symbols: str = "AAPL,^GSPC,VOD,GONE",
    *,
    day: str = "2020-09-14",
    timeout=20.0,
) -> YfinanceSource:
    client = YfinanceClient(folder / "session", address=stub.address, timeout=timeout)
    return YfinanceSource(
        symbols,
        client=client,
        cache_dir=folder,
        now=lambda: pd.Timestamp(f"{day} 12:00", tz="America/New_York"),
    )


@pytest.fixture
def source(stub: YahooStub, tmp_path: Path) -> Iterator[YfinanceSource]:
    made = source_on(stub, tmp_path / "kept")
    yield made
    made.close()


def kept(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "kept").glob("history/*"))


def test_prices_are_as_they_were_traded_with_the_split_as_an_action(source: YfinanceSource) -> None:
    panel = source.bars(["AAPL"], FIRST, LAST)
    assert panel["close"]["AAPL"].tolist() == CLOSES
    assert panel["open"]["AAPL"].tolist() == [round(close - 1, 2) for close in CLOSES]
    assert panel["vol"]["AAPL"].tolist() == [10_000.0 * n for n in range(1, 15)]
    assert panel["split"]["AAPL"].dropna().to_dict() == {pd.Timestamp("2020-08-31"): 4.0}
    assert panel["dividend"]["AAPL"].dropna().to_dict() == {pd.Timestamp("2020-08-25"): 0.82}
    assert panel["pre_close"].isna().all().all()
    assert panel["close"].index.tolist() == DAYS.tolist()


def test_what_is_kept_does_not_change_with_a_later_split(stub, source, tmp_path) -> None:
    last = pd.Timestamp("2020-09-03")
    before = source.bars(["AAPL"], FIRST, last)
    stub.securities["AAPL"].splits["2020-09-10"] = (2, 1)
    stub.securities["AAPL"].bars.loc["2020-09-10":, ["open", "high", "low", "close"]] /= 2
    panel = source.bars(["AAPL"], FIRST, LAST)
    for field in ("open", "close", "vol", "dividend"):
        pd.testing.assert_series_equal(panel[field]["AAPL"][:last], before[field]["AAPL"])
    assert panel["close"]["AAPL"]["2020-09-08"] == 112.82
    assert panel["split"]["AAPL"].dropna().tolist() == [4.0, 2.0]


def test_a_second_request_is_served_from_the_cache_without_a_server(stub, source, tmp_path) -> None:
    first = source.bars(["AAPL"], FIRST, LAST)
    source.bars(["AAPL"], FIRST, LAST)
    assert stub.asked == ["AAPL"]
    stub.__exit__()
    offline = source_on(stub, tmp_path / "kept")
    panel = offline.bars(["AAPL"], FIRST, LAST)
    for field in first:
        pd.testing.assert_frame_equal(first[field], panel[field])


def test_symbols_indices_and_what_there_is_not(source: YfinanceSource) -> None:
    assert isinstance(source, MarketDataSource)
    assert isinstance(source, DescribedSource)
    assert source.symbols() == ("AAPL", "GONE", "VOD")
    assert source.opens() == "yfinance:AAPL,GONE,VOD,^GSPC"
    assert source.index_bars("^GSPC", FIRST, LAST)["close"].tolist() == [3400.0 + n for n in range(len(DAYS))]
    assert "for personal use" in source.provenance("en")[0]
    assert "仅限个人使用" in source.provenance("zh")[0]
    with pytest.raises(UnknownSymbol, match=r"Yahoo has no GONE: No data found, symbol may be delisted"):
        source.bars(["GONE"], FIRST, LAST)
    with pytest.raises(UnknownSymbol, match=r"VOD is VOD, in GBp, zone Europe/London; this source has"):
        source.bars(["VOD"], FIRST, LAST)
    with pytest.raises(
        UnknownSymbol, match=r"MSFT: not among the symbols of this source \(AAPL, GONE, VOD\)"
    ):
        source.bars(["MSFT"], FIRST, LAST)
    with pytest.raises(NoData, match=r"yfinance has no bars of AAPL in 2019-01-02 to 2019-01-31"):
        source.bars(["AAPL"], pd.Timestamp("2019-01-02"), pd.Timestamp("2019-01-31"))


def set_close(value: object):
    def change(result: dict) -> None:
        result["indicators"]["quote"][0]["close"][3] = value

    return change


def without_volume(result: dict) -> None:
    del result["indicators"]["quote"][0]["volume"]


@pytest.mark.parametrize(
    ("fault", "kind", "said"),
    [
        (Fault(status=429, body="Too Many Requests"), RateLimited, "Yahoo limits the rate of requests; wait"),
        (Fault(status=500, body="<html>oops</html>"), SourceUnavailable, "no answer that can be read"),
        (Fault(body="{"), SourceUnavailable, "no answer that can be read"),
        (Fault(body="Will be right back"), SourceUnavailable, "CURRENTLY DOWN"),
        (Fault(change=without_volume), SourceUnavailable, "no answer that can be read (KeyError)"),
        (Fault(change=set_close("n/a")), SourceUnavailable, "no answer that can be read"),
        (Fault(change=set_close(-5.0)), SourceUnavailable, "prices that cannot be: AAPL on 2020-08-27"),
        (Fault(change=set_close(None)), SourceUnavailable, "prices that cannot be: AAPL on 2020-08-27"),
        (Fault(change=lambda r: r["meta"].update(symbol="MSFT")), UnknownSymbol, "AAPL is MSFT"),
    ],
)
def test_a_wrong_answer_is_one_line_and_is_not_kept(stub, source, tmp_path, *, fault, kind, said) -> None:
    stub.faults.extend([fault, fault])  # the package asks once more after a bad status
    with pytest.raises(kind) as caught:
        source.bars(["AAPL"], FIRST, LAST)
    assert said in caught.value.message
    assert "\n" not in caught.value.message
    assert kept(tmp_path) == []
    stub.faults.clear()
    assert source.bars(["AAPL"], FIRST, LAST)["close"]["AAPL"].tolist() == CLOSES


@pytest.mark.proof
def test_a_server_that_says_nothing_is_left_in_time(stub, tmp_path) -> None:
    source = source_on(stub, tmp_path, timeout=2.0)
    stub.faults.extend([Fault(silence=True)] * 2)
    begun = time.monotonic()
    with pytest.raises(SourceUnavailable, match=r"no answer"):
        source.bars(["AAPL"], FIRST, LAST)
    assert time.monotonic() - begun < 20
    source.close()


CHILD = """
import sys
from pathlib import Path
import pandas as pd
from quantgraph.data.yfinance import YfinanceClient, YfinanceSource
folder = Path(sys.argv[2])
source = YfinanceSource(
    "AAPL,MSFT", client=YfinanceClient(folder / "session", address=sys.argv[1]), cache_dir=folder,
    now=lambda: pd.Timestamp("2020-09-14 12:00", tz="America/New_York"),
)
source.bars(["AAPL", "MSFT"], pd.Timestamp("2020-08-24"), pd.Timestamp("2020-09-11"))
"""


@pytest.mark.proof
def test_a_fetch_that_is_killed_goes_on_where_it_was(stub, tmp_path) -> None:
    stub.securities["MSFT"] = Security(bars([200.0 + n for n in range(len(DAYS))]))
    stub.faults.extend([Fault(), Fault(silence=True)])
    child = subprocess.Popen([sys.executable, "-c", CHILD, stub.address, str(tmp_path / "kept")])
    deadline = time.monotonic() + 60
    while len(stub.asked) < 2 and time.monotonic() < deadline:
        time.sleep(0.02)
    child.kill()
    child.wait()
    assert len(kept(tmp_path)) == 1
    source = source_on(stub, tmp_path / "kept", "AAPL,MSFT")
    panel = source.bars(["AAPL", "MSFT"], FIRST, LAST)
    assert stub.asked == ["AAPL", "MSFT", "MSFT"]
    assert panel["close"]["MSFT"].tolist() == [200.0 + n for n in range(len(DAYS))]
    source.close()


def test_symbols_are_named_and_what_is_missing_is_said(monkeypatch) -> None:
    with pytest.raises(
        BadOption, match=r"no list of symbols; name those to fetch, like source='yfinance:AAPL,MSFT'"
    ):
        open_source("yfinance")
    with pytest.raises(BadOption, match=r"600519.SH: not a US symbol of Yahoo; valid is for example AAPL or"):
        open_source("yfinance:AAPL,600519.SH")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(NotConfigured, match=r"not installed; run: pip install 'quantgraph\[yfinance\]'"):
        open_source("yfinance:AAPL").bars(["AAPL"], FIRST, LAST)


@pytest.mark.proof
def test_a_run_by_the_command_under_us_rules(stub, tmp_path) -> None:
    sentence = "AAPL, buy when close is above 100, sell when close is below 115, 20200901 to 20200911"
    done = subprocess.run(
        [sys.executable, "-m", "quantgraph", "run", sentence, "--source", "yfinance:AAPL", "--headless"],
        capture_output=True,
        text=True,
        cwd=tmp_path,
        check=False,
        env={**os.environ, "YFINANCE_URL": stub.address},
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert "for personal use" in done.stdout
    (record,) = tmp_path.glob("runs/*/run.json")
    stored = json.loads(record.read_text())
    assert stored["source"]["open"] == "yfinance:AAPL"
    assert Rulebook.us().name in json.dumps(stored)
