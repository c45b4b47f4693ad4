"""The spans and securities that a sentence names."""

from __future__ import annotations

import pytest

from quantgraph.sentences.phrases._phrases import symbols_in, windows_in

LAST = "20251031"

SPANS = {
    "2025年": [("20250101", "20251231")],
    "2025年3月到10月": [("20250301", "20251031")],
    "1月和3月，2025年": [("20250101", "20250131"), ("20250301", "20250331")],
    "2025年1月、5月": [("20250101", "20250131"), ("20250501", "20250531")],
    "2025年1月，5月": [("20250101", "20250131"), ("20250501", "20250531")],
    "2025年1月、3月和5月": [("20250101", "20250131"), ("20250301", "20250331"), ("20250501", "20250531")],
    "2025Q1 and 2025Q3": [("20250101", "20250331"), ("20250701", "20250930")],
    "in Jan 2025 and in June 2025": [("20250101", "20250131"), ("20250601", "20250630")],
    "Jan and June 2025": [("20250101", "20250131"), ("20250601", "20250630")],
    "2024年和2025年": [("20240101", "20251231")],
    "2024 and 2025": [("20240101", "20251231")],
    "Q2 and Q3 2025": [("20250401", "20250930")],
    "2025年二季度和三季度": [("20250401", "20250930")],
    "2025年1月、2月和5月": [("20250101", "20250228"), ("20250501", "20250531")],
    "比过去一年的均值高，2025年": [("20250101", "20251231")],
    "whichever had the better last month, H2 2025": [("20250701", "20251231")],
    "since 2025-03-01, with volume above that of the previous week": [("20250301", LAST)],
    "训练2025年上半年，测试2025年下半年": [("20250101", "20250630"), ("20250701", "20251231")],
    "between Jan 2025 and March 2025": [("20250101", "20250331")],
    "2025年1月和3月之间": [("20250101", "20250331")],
    "between 2025-01-02 and 2025-10-31": [("20250102", "20251031")],
    "2025年\n2024年": [("20240101", "20241231")],
    "三月到五月\n2024年": [("20240301", "20240531")],
    "2024年\n1月和3月": [("20240101", "20240131"), ("20240301", "20240331")],
    "since 2025-03-01": [("20250301", LAST)],
    "last year": [("20240101", "20241231")],
    "2025年除了3月": [],
    "2025 except March 2025": [],
    "2025年，不要在5月交易": [],
    "20250101，20250630，20251031": [],
    "2025-13-01": [],
    "5日均线上穿20日均线买入": [],
}


@pytest.mark.parametrize(("text", "spans"), SPANS.items(), ids=list(SPANS))
def test_each_span_that_is_said_is_read_alone(text: str, spans: list[tuple[str, str]]) -> None:
    assert windows_in(text, LAST) == tuple(spans)
    assert windows_in(f"600519.SH 5日均线上穿20日均线买入，下穿卖出，{text}", LAST) == tuple(spans)


def test_every_code_that_is_said_is_named_once_in_reading_order() -> None:
    names = {"贵州茅台": "600519.SH", "中国平安": "601318.SH"}
    text = "When SSE 50 closes above its average, buy 600519.SH\n买入中国平安和贵州茅台，SZ000001"
    assert symbols_in(text, names) == ("000016.SH", "600519.SH", "601318.SH", "000001.SZ")
    assert symbols_in("5日均线上穿20日均线买入", names) == ()


@pytest.mark.parametrize(
    ("text", "codes"),
    [
        ("AAPL.US，MSFT.US，金叉买入", ("AAPL.US", "MSFT.US")),
        ("US.AAPL, buy at a golden cross", ("US.AAPL",)),
        ("0700.HK and 7203.T, buy at a golden cross", ("0700.HK", "7203.T")),
        ("when BTC-USD is above its 20-day average, buy BRK-B", ("BTC-USD", "BRK-B")),
        ("AAPL, sell if RSI-14 is above 70 or MACD-DIF below 0, at T-1", ("AAPL",)),
        ("AAPL: close above 1000.5, K-D and KDJ-J", ("AAPL",)),
    ],
)
def test_codes_of_other_markets_are_read_whole(text: str, codes: tuple[str, ...]) -> None:
    assert symbols_in(text, {}) == codes
