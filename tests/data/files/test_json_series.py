"""Daily series in JSON."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from bar_files import day, everything, refusal

from quantgraph.data.files import FileSource


@pytest.mark.parametrize("keys", [("1. open", "4. close"), ("1. buy price", "4. sell price")])
def test_merged_jsonl_with_a_last_bar_that_has_only_the_open(tmp_path: Path, keys: tuple[str, str]) -> None:
    full = {keys[0]: "10.0", "2. high": "11.0", "3. low": "9.0", keys[1]: "10.5", "5. volume": "12345"}
    lines = [
        {"Meta Data": {"2. Symbol": code, "2.1. Name": name}, "Time Series (Daily)": series}
        for code, name, series in [
            ("600519.SH", "贵州茅台", {"2025-10-10": {keys[0]: "10.6"}, "2025-10-09": full}),
            ("000300.SH", "", {"2025-10-09": full}),
        ]
    ]
    path = tmp_path / "merged.jsonl"
    path.write_text("\n".join(json.dumps(line) for line in lines) + "\n", encoding="utf-8")
    source = FileSource(path)
    panel = everything(source)
    assert source.symbols() == ("600519.SH",)
    assert panel["open"].iloc[:, 0].tolist() == [10.0, 10.6]
    assert panel["vol"].iloc[0, 0] == 123.45
    assert panel["close"].iloc[:, 0].isna().tolist() == [False, True]
    assert source.names() == {"600519.SH": "贵州茅台", "000300.SH": "沪深300"}
    assert source.index_bars("000300.SH", day("2025-10-09"), day("2025-10-09"))["close"].tolist() == [10.5]


def test_a_newer_file_completes_a_bar_that_had_only_its_open(tmp_path: Path) -> None:
    def write(name: str, bar: dict[str, str]) -> None:
        document = {"Meta Data": {"2. Symbol": "AAPL"}, "Time Series (Daily)": {"2025-10-30": bar}}
        (tmp_path / name).write_text(json.dumps(document))

    write("daily_prices_a.json", {"1. open": "271.0"})
    write("daily_prices_b.json", {"1. open": "271.0", "2. high": "275", "3. low": "270", "4. close": "272"})
    assert everything(FileSource(tmp_path))["close"].iloc[0, 0] == 272.0


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"Meta Data": {}, "Time Series (Daily)": {"2024-01-02": {"1. open": "1"}}}, 'has no "2. Symbol"'),
        ({"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {}}, "of A is empty"),
        (
            {"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {"2024-01-02": {"4. close": "1"}}},
            'A 2024-01-02: a bar needs "1. open" or "1. buy price"',
        ),
        (
            {"Meta Data": {"2. Symbol": "A"}, "Time Series (Daily)": {"2024-01-02": {"1. open": "x"}}},
            "A 2024-01-02, column open: 'x' is not a number",
        ),
        (
            {
                "Meta Data": {"2. Symbol": "A"},
                "Time Series (Daily)": {"2024-01-02 10:00:00": {"1. open": "1"}},
            },
            "column trade_date: 2024-01-02 10:00:00 has a time of day",
        ),
    ],
)
def test_bad_series_is_named(tmp_path: Path, document: object, said: str) -> None:
    path = tmp_path / "daily_prices_A.json"
    path.write_text(json.dumps(document))
    assert said in refusal(path)
