"""``quantgraph runs``, ``show`` and ``compare``: what stands in a folder of runs, whatever is in it."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app

pytestmark = pytest.mark.proof

HOSTILE = "buy\x1b[2J [bold red]600519.SH[/] \x9b31m\u202eevil\r\nsecond :smile:"
CONTROL = re.compile(r"[\x00-\x09\x0b-\x1f\x7f-\x9f\u202a-\u202e]")


def call(*arguments: object) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, [*map(str, arguments)])
    assert not CONTROL.search(done.stdout + done.stderr)
    return done.exit_code, done.stdout, done.stderr


def edited(source: Path, folder: Path, name: str, **changes: Any) -> Path:
    """A copy of a run with other values in one of its files."""
    shutil.copytree(source, folder)
    stored = json.loads((folder / name).read_text(encoding="utf-8"))
    for key, value in changes.items():
        inner = stored["spec"] if name == "run.json" and key == "question" else stored
        inner[key] = value
    (folder / name).write_text(json.dumps(stored), encoding="utf-8")
    return folder


def names(*options: str) -> list[str]:
    status, out, err = call("runs", "--json", *options)
    assert (status, err) == (0, "")
    return [row["run"] for row in json.loads(out)["runs"]]


def test_the_list_has_each_run_with_its_numbers_newest_first_and_options_select(two_runs: Any) -> None:
    (first, _, _), (second, _, _) = two_runs
    place = str(first.parent)
    status, out, _ = call("runs", "--out", place, "--json")
    rows = json.loads(out)["runs"]
    assert status == 0
    assert [row["run"] for row in rows] == [second.name, first.name]
    account = json.loads((second / "result.json").read_text())["account"]
    assert (rows[0]["return"], rows[0]["max_drawdown"]) == (account["return"], account["max_drawdown"])
    assert (rows[0]["ended"], rows[0]["decider"], rows[0]["error"]) == ("done", "signal_rule", "")
    assert pd.Timestamp(rows[0]["started"]).tzinfo is not None
    assert names("--out", place, "--contains", "均线") == [first.name]
    assert names("--out", place, "--limit", "1") == [second.name]
    assert names("--out", place, "--ended", "cancelled") == []
    assert names("--out", place, "--decider", "signal_rule", "--since", "20240101") == [
        second.name,
        first.name,
    ]
    assert names("--out", place, "--since", "29990101") == []
    assert names("--out", place, "--decider", "trader") == []


def test_the_list_shows_whole_sentences_and_folders_and_what_is_not_shown(
    two_runs: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    (first, _, _), (second, _, _) = two_runs
    monkeypatch.setenv("LC_ALL", "C")
    status, out, err = call("runs", "--out", first.parent, "--limit", "1")
    head, facts, sentence = out.splitlines()
    assert (status, err) == (0, "1 more, with --limit\n")
    assert head.split() == ["started", "ended", "return", "drawdown", "decided", "by", "folder"]
    account = json.loads((second / "result.json").read_text())["account"]
    assert facts.split()[2:] == [
        "done",
        f"{account['return']:.2%}",
        f"{account['max_drawdown']:.2%}",
        "signal_rule",
        str(second),
    ]
    assert sentence.strip().endswith("from 20240102 to 20240329")
    monkeypatch.setenv("LC_ALL", "zh_CN.UTF-8")
    assert call("runs", "--out", first.parent)[1].split()[:4] == ["开始", "结束", "收益", "最大回撤"]


def test_nothing_to_list_is_a_line_and_no_failure(two_runs: Any) -> None:
    place = two_runs[0][0].parent
    assert call("runs") == (0, "", "no run in runs\n")
    status, out, err = call("runs", "--out", place, "--contains", "[a-z]*")
    assert (status, out, err) == (0, "", f"none of the 2 runs in {place} fits\n")


@pytest.mark.parametrize(
    ("option", "told"),
    [
        (
            ("--ended", "well"),
            "bad_option: --ended well is not an end of a run; must be one of done, needs_answer",
        ),
        (("--since", "soon"), "since='soon' is not a date; write YYYYMMDD"),
        (("--out", "nowhere"), "'nowhere' is not a folder"),
    ],
)
def test_an_option_that_is_none_is_one_line(option: tuple[str, str], told: str) -> None:
    status, out, err = call("runs", *option)
    assert (status, out, err.count("\n")) == (2, "", 1)
    assert told in err


def test_a_run_is_shown_as_it_was_at_its_end(two_runs: Any) -> None:
    for folder, out, err in two_runs:
        status, again, err_again = call("show", folder)
        assert (status, err_again) == (0, "")
        *lines, page = again.splitlines()
        assert lines == out.splitlines()
        assert page.endswith(f": {folder / 'report.html'}")
        status, told, _ = call("show", folder.name, "--out", folder.parent, "--json")
        assert (status, json.loads(told)["run_id"]) == (0, folder.name)
        assert f": {folder / 'report.html'}\n" in err
    latest = call("show", "--out", two_runs[0][0].parent)
    assert latest[1].splitlines()[:-1] == two_runs[1][1].splitlines()
    assert latest[2].startswith(f"run {two_runs[1][0].name}, the latest in ")


def test_the_timings_of_a_run_are_sums_of_its_nodes_with_why_it_went_order_by_order(
    two_runs: Any, tmp_path: Path
) -> None:
    (first, _, _), _ = two_runs
    seconds = {"reflection": 0.25, "data_fetch": 0.5, "daily_loop": 0.25, "decision": 1.5}
    changed = {"seconds": seconds, "order_by_order": "prices finer than four decimals", "question": "buy"}
    status, out, _ = call("show", edited(first, tmp_path / "x", "result.json", **changed), "--timings")
    assert status == 0
    assert out.split("\n")[:4] == [
        "read                0.25 s",
        "fetch               0.50 s",
        "trade, ledger       1.75 s",
        "traded order by order: prices finer than four decimals",
    ]


def test_a_run_that_is_not_done_says_why_and_what_to_do(two_runs: Any, tmp_path: Path) -> None:
    place = tmp_path / "runs"
    ended = CliRunner().invoke(
        app, ["run", "buy 999999.SH when the 5-day average crosses above the 20-day", "--headless"]
    )
    (folder,) = {path.parent for path in place.glob("*/run.json")}
    assert ended.exit_code == 1
    status, _, err = call("show", folder.name)
    assert status == 0
    assert err.startswith("unknown_symbol: '999999.SH' is not known to sample")
    assert "[data_unavailable, " in err
    assert "Check symbols and dates, and of a vendor token and network" in err
    first = two_runs[0][0]
    failed = edited(
        first, place / "failed", "result.json", state="failed", ended_because=None, error="bad: x"
    )
    status, out, err = call("show", "failed")
    *lines, changed = err.splitlines(keepends=True)
    assert changed.startswith(f"bad_file: {failed}/result.json has been changed: its checksum must be ")
    assert (status, out, "".join(lines)) == (
        0,
        json.loads((first / "run.json").read_text())["spec"]["question"] + "\n",
        f"bad: x  [failed, {failed}]\nquantgraph resume {failed}\n",
    )
    (failed / "result.json").unlink()
    status, _, err = call("show", "failed")
    assert (status, err.count("\n")) == (0, 2)
    assert f"quantgraph resume {failed}" in err
    assert "result.json is missing; the run left it there" in err
    assert sorted(names("--ended", "running")) == ["failed"]


def test_what_is_no_run_or_not_whole_is_one_line(two_runs: Any, tmp_path: Path) -> None:
    first, place = two_runs[0][0], tmp_path / "runs"
    (place / "empty").mkdir(parents=True)
    edited(first, place / "older", "run.json", format=1)
    edited(first, place / "torn", "result.json", account={"return": "much"})
    edited(first, place / "lacking", "result.json")
    (place / "lacking" / "strategy.py").unlink()
    for name, told in (
        ("nowhere", "there is no run.json in nowhere or in runs/nowhere"),
        ("empty", "there is no run.json in empty or in runs/empty"),
        ("older", "has format 1, and this quantgraph reads format"),
        ("torn", "is damaged, or lacks a part: ValueError"),
        ("lacking", "strategy.py"),
    ):
        status, _, err = call("show", name, "--code")
        assert (status, err.count("\n")) == (2, 1), err
        assert told in err
        status, _, err = call("compare", name, first)
        assert (status == 2) == (name != "lacking"), err
        assert err.count("\n") == (name != "lacking")
        status, _, err = call("compare", name, first, "--to", "page.html")
        assert (status, err.count("\n")) == (2, 1) if name != "lacking" else (0, 0), err
    status, out, _ = call("runs", "--json")
    ended = {row["run"]: row["ended"] for row in json.loads(out)["runs"]}
    assert (status, ended) == (0, {"older": "unreadable", "torn": "unreadable", "lacking": "done"})
    assert "format 1" in call("runs")[1]


def test_hostile_text_of_a_run_is_shown_and_not_obeyed(two_runs: Any, tmp_path: Path) -> None:
    first = two_runs[0][0]
    folder = edited(first, tmp_path / "runs" / "h\x1b[2J", "run.json", question=HOSTILE)
    stored = json.loads((folder / "result.json").read_text()) | {
        "question": HOSTILE,
        "assumptions": [HOSTILE],
    }
    (folder / "result.json").write_text(json.dumps(stored))
    for arguments in (("runs",), ("runs", "--json"), ("show", folder), ("show", folder, "--json")):
        status, out, err = call(*arguments)
        changed = "run.json has been changed" if arguments[0] == "show" else ""
        assert (status, err.count("\n")) == (0, bool(changed)), arguments
        assert changed in err
        assert "[bold red]600519.SH[/]" in out.replace("\n", " ") or arguments[0] == "show"
    status, out, err = call("compare", folder, first)
    assert (status, err) == (0, "")
    assert "[bold red]600519.SH[/]" in out
    assert json.loads(call("show", folder, "--json")[1])["question"] == HOSTILE


def test_a_comparison_has_the_numbers_of_each_run_and_what_was_said_differently(two_runs: Any) -> None:
    folders = [run[0] for run in two_runs]
    status, out, err = call("compare", *folders, "--json")
    told = json.loads(out)
    assert (status, err) == (0, "")
    assert [*told["runs"].values()] == [folder.name for folder in folders]
    for named, folder in zip(told["runs"], folders, strict=True):
        account = json.loads((folder / "result.json").read_text())["account"]
        assert {key: told["numbers"][key][named] for key in ("return", "sharpe", "trades")} == {
            key: account[key] for key in ("return", "sharpe", "trades")
        }
        assert told["differences"]["window"][named].startswith("20240102 - ")
    status, out, _ = call("compare", "--out", folders[0].parent, *(folder.name for folder in folders))
    assert status == 0
    assert all(f"{named}: {run}" in out for named, run in told["runs"].items())
    for given, told in ((folders[:1], "two runs or more, not 1"), ([folders[0]] * 2, "occurs twice")):
        status, out, err = call("compare", *given)
        assert (status, out, err.count("\n")) == (2, "", 1)
        assert told in err


def test_a_run_of_another_market_names_the_option(tmp_path: Path) -> None:
    days = pd.bdate_range("2024-02-20", "2024-03-28")
    close = [100.0 + day % 7 for day in range(len(days))]
    prices = dict.fromkeys(("open", "high", "low", "close"), close)
    table = pd.DataFrame({"ts_code": "AAPL", "trade_date": days.strftime("%Y%m%d"), **prices, "vol": 1e6})
    table.to_csv("aapl.csv", index=False)
    sentence = "AAPL, buy when the 2-day average crosses above the 5-day average, from 20240220 to 20240328"
    done = CliRunner().invoke(app, ["run", sentence, "--source", "aapl.csv", "--headless", "--market", "cn"])
    assert done.exit_code == 1
    assert "on the command line --market us" in done.stderr
    traded = CliRunner().invoke(app, ["run", sentence, "--source", "aapl.csv", "--headless"])
    assert traded.exit_code == 0, traded.stderr
