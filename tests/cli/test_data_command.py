"""``quantgraph data check FILE``: what is taken for what, on one page, in both languages."""

from __future__ import annotations

import json
import re
from pathlib import Path
from textwrap import indent

import pytest
from own_files import OWN_FILES
from typer.testing import CliRunner

from quantgraph.cli._main import app

FILES = {file.name: file for file in OWN_FILES}


def check(folder: Path, name: str, *options: str, answer: str = "", language: str = "en_US.UTF-8"):
    path = folder / name
    if not path.exists():
        FILES[name].write(path)
    environment = {"LC_ALL": language}
    return CliRunner().invoke(app, ["data", "check", str(path), *options], input=answer, env=environment)


@pytest.mark.parametrize("file", OWN_FILES, ids=[file.name for file in OWN_FILES])
def test_each_file_gets_one_page(tmp_path, file):
    said = ["--table", "=".join(*file.options.items())] if file.options else []
    said += ["--symbols", file.symbol] if file.symbol else []
    file.write(tmp_path / file.name)
    facts = json.loads(check(tmp_path, file.name, *said, "--json").stdout)
    expected = file.read(tmp_path / file.name)
    assert facts["symbols"] == sorted(expected["symbol"].unique())
    assert facts["bars"] == len(expected)
    assert [facts["first"], facts["last"]] == [
        f"{day:%Y-%m-%d}" for day in expected["date"].agg(["min", "max"])
    ]
    assert ("open" in facts["fields"]) == ("open" in expected)
    for language in ("en_US.UTF-8", "zh_CN.UTF-8"):
        told = check(tmp_path, file.name, *said, language=language)
        assert told.exit_code == 0, told.output
        assert len(told.stdout.splitlines()) < 40
        assert facts["symbols"][0] in told.stdout


def test_a_page_says_encoding_delimiter_columns_units_adjustment_and_left_out_rows(tmp_path):
    told = check(tmp_path, "SH#600519_2.txt").stdout
    for line in (
        "  symbols: 600519.SH",
        "  sessions: 2024-01-02 … 2024-01-09, 6 (longest gap 3 days, 0 on weekends)",
        "  rules: mainland China, by the codes",
        "  first bar: 600519.SH 2024-01-02: open 1715, high 1718.19, low 1678.1, close 1685.01, vol 32156.44 (100 shares each)",
        "    ts_code = its name (600519.SH)",
        "    close = 收盘",
        "    vol = 成交量 (in shares, inferred from the numbers)",
        "    encoding GB18030",
        "    separated by tabs",
        "    last row left out: 数据来源:通达信",
        "    prices are adjusted, as the name says; orders trade at adjusted prices",
    ):
        assert line in told.splitlines()
    told = check(tmp_path, "SH#600519_2.txt", language="zh_CN.UTF-8").stdout
    for line in (
        "  代码: 600519.SH",
        "  规则: 按代码：中国内地",
        "    编码 GB18030",
        "    价格按名称为复权价，按复权价成交",
    ):
        assert line in told.splitlines()


def test_left_out_files_are_listed_with_the_reason(tmp_path):
    told = check(tmp_path, "downloads").stdout
    assert told.count(" was left out: ") == 6
    assert "  empty.csv was left out: is empty" in told.splitlines()


def test_codes_of_other_markets_and_closes_say_what_they_are_good_for(tmp_path):
    assert (
        "  rules: none here for these codes: a signal can be made (--signal-only), or plain rules trade it"
        in check(tmp_path, "BTC-USD.csv").stdout
    )
    assert (
        "  no open prices: a signal can be made and proved, and no order can fill"
        in check(tmp_path, "closes.csv").stdout
    )


def test_what_is_open_is_asked_or_refused(tmp_path):
    refused = check(tmp_path, "VOW_comma.csv", "--headless")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert refused.stderr.count("\n") == 1
    assert "'373,125' may be 373125 or 373.125" in refused.stderr
    assert "say decimal=point or decimal=comma, with --table" in refused.stderr
    asked = check(tmp_path, "VOW_comma.csv", answer="2\n")
    assert "VOW 2024-01-02: open 373.125" in asked.stdout
    asked = check(tmp_path, "VOW_comma.csv", answer="point\n")
    assert "VOW 2024-01-02: open 373125" in asked.stdout
    assert check(tmp_path, "VOW_comma.csv", answer="perhaps\n").exit_code == 2


def test_a_file_that_is_none_is_one_line(tmp_path):
    (tmp_path / "letter.csv").write_text("dear,reader\n1,2\n")
    for name, told in (
        ("letter.csv", "columns (dear, reader) are not those of bars"),
        ("nosuch.csv", "not a known"),
    ):
        result = CliRunner().invoke(app, ["data", "check", str(tmp_path / name)])
        assert (result.exit_code, result.stderr.count("\n")) == (2, 1)
        assert told in result.stderr
    assert "FILE=sample is a name of a source" in CliRunner().invoke(app, ["data", "check", "sample"]).stderr


def test_the_page_in_the_documents_is_what_the_command_prints(tmp_path):
    documents = (Path(__file__).parents[2] / "docs" / "data.md").read_text(encoding="utf-8")
    printed = check(tmp_path, "MSFT_history.csv").stdout
    printed = printed.replace(str(tmp_path / "MSFT_history.csv"), "MSFT_history.csv")
    assert indent(printed, "    ") in documents


def stockbench(shared_data, *options: str, language: str = "en_US.UTF-8") -> str:
    folder = shared_data / "stockbench"
    told = CliRunner().invoke(app, ["data", "check", str(folder), *options], env={"LC_ALL": language})
    assert told.exit_code == 0, told.output
    return told.stdout


def test_stamps_that_do_not_fit_the_words_are_warned_of_with_publisher_count_and_an_example(shared_data):
    """By the extract's README all headlines of a drop of the Dow lie in New York's hours as they are written."""
    right, wrong = stockbench(shared_data), stockbench(shared_data, "--table", "record_zone=MarketWatch=UTC")
    line = next(each for each in wrong.splitlines() if "news that speak of the session" in each)
    assert "MarketWatch: " in line
    count, total = map(int, re.search(r"(\d+) of (\d+) news that speak of the session", line).groups())
    assert 60 < total <= 150
    assert total / 2 < count < total
    assert re.search(r"such as “.+(point|losses lead).+” \(2025-03-\d\d 0[5-9]:\d\d\)", line)
    assert "is record_zone right?" in line
    assert "MarketWatch: " not in right
    undeclared = next(each for each in right.splitlines() if "not declared" in each)
    # All publishers but MarketWatch (151) and Yahoo (311).
    assert (
        "443 of 905 news are of publishers whose time zone is not declared (Benzinga, DowJones, "
        in undeclared
    )
    chinese = stockbench(shared_data, "--table", "record_zone=MarketWatch=UTC", language="zh_CN.UTF-8")
    assert "条讲到交易时段的新闻" in chinese


@pytest.mark.parametrize(
    ("stamp", "zone", "warning"),
    [
        ("2024-01-{day:02}T{hour:02}:45:00Z", "UTC", "lie between 09:30 and 16:00"),
        ("2024-01-{day:02}T{hour:02}:45:00Z", "exchange", ""),
        ("2024-01-{day:02}T{hour:02}:45:00-05:00", "stamp", ""),
        (
            "2044-01-{day:02}T{hour:02}:45:00Z",
            "exchange",
            "20 news are stamped more than a week after the last",
        ),
        ("2024-01-{day:02}T{hour:02}:45:00", "exchange", ""),
    ],
)
def test_hours_and_stamps_of_the_future_are_warned_of_and_change_nothing(tmp_path, stamp, zone, warning):
    (tmp_path / "bars.csv").write_text(
        "symbol,date,open,high,low,close,volume\nAAPL,2024-01-31,1,1,1,1,100\n"
    )
    items = [
        {
            "ticker": "AAPL",
            "title": "a title",
            "publisher": "Some",
            "published_at": stamp.format(day=1 + place, hour=9 + place % 7),
        }
        for place in range(20)
    ]
    (tmp_path / "news.jsonl").write_text("\n".join(map(json.dumps, items)))
    told = CliRunner().invoke(app, ["data", "check", str(tmp_path), "--table", f"record_zone={zone}"])
    assert told.exit_code == 0, told.output
    lines = [each for each in told.stdout.splitlines() if "Some: " in each or "Some：" in each]
    assert len(lines) == bool(warning)
    assert warning in "".join(lines)
