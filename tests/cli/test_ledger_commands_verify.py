"""``quantgraph ledger verify``: its output and exit status."""

from __future__ import annotations

import json
import sys

import pytest

from quantgraph.cli import main


@pytest.fixture
def command(monkeypatch, capfd):
    """Run the command in this process: exit status, stdout, stderr."""

    def call(*arguments):
        monkeypatch.setattr(sys, "argv", ["quantgraph", "ledger", *map(str, arguments)])
        try:
            main()
            status = 0
        except SystemExit as ended:
            status = ended.code or 0
        out, err = capfd.readouterr()
        assert "Traceback" not in out + err
        return status, out, err

    return call


@pytest.fixture
def us(shared_data):
    folder = shared_data / "ai-trader" / "us"
    return folder / "positions/qwen3-max.position.jsonl", next(folder.glob("daily_prices_*.csv.gz"))


@pytest.fixture
def damaged(us, tmp_path):
    """Ledger with another amount in its second line."""
    path = tmp_path / "[red]damaged.jsonl"
    text = us[0].read_text()
    path.write_text(text.replace('"symbol": "NVDA", "amount": 40}', '"symbol": "NVDA", "amount": 41}', 1))
    assert path.read_text() != text
    return path


def test_a_ledger_that_follows_exits_with_0(command, us):
    status, out, err = command("verify", us[0], "--prices", us[1], "--market", "us", "--json")
    assert (status, err) == (0, "")
    told = json.loads(out)
    assert told["final_value"] == pytest.approx(10_343.925, abs=1e-9)
    assert told["return"] == pytest.approx(0.0343925, abs=1e-9)
    assert told["max_drawdown"] == pytest.approx(-0.0567118, abs=1e-7)
    assert (told["records"], told["mismatches"], told["sessions"], told["carried"]) == (30, [], 22, 0)
    assert (told["first_date"], told["last_date"]) == ("2025-10-01", "2025-10-30")


def test_the_text_output_has_two_lines(command, us):
    status, out, err = command("verify", us[0], "--prices", us[1], "--market", "us")
    assert (status, err) == (0, "")
    assert out.splitlines() == [
        "qwen3-max.position.jsonl: 2025-10-01 to 2025-10-30, records: 30, sessions: 22, mismatches: 0",
        "final value 10,343.92, return +3.44%, max drawdown -5.67%",
    ]


def test_the_mainland_ledger_follows_by_the_mainland_rules(command, a_share):
    prices = a_share / "daily_prices_sse_50_20251009_20251119.csv"
    ledger = a_share / "positions/claude-3.7-sonnet.position.jsonl"
    status, out, _ = command("verify", ledger, "--source", prices, "--json")
    assert (status, json.loads(out)["final_value"]) == (0, 101_075.0)


def test_a_mismatch_exits_with_1_and_is_named(command, us, damaged):
    status, out, err = command("verify", damaged, "--prices", us[1], "--market", "us", "--json")
    assert (status, err) == (1, "")
    assert json.loads(out)["mismatches"] == [
        {
            "line": 2,
            "id": 1,
            "date": "2025-10-02",
            "field": "this_action.amount",
            "expected": 40,
            "found": 41,
            "message": "amount 41 where the state says 40",
        }
    ]
    status, out, err = command("verify", damaged, "--prices", us[1], "--market", "us")
    assert (status, err) == (1, "")
    assert out.startswith("[red]damaged.jsonl: 2025-10-01")
    assert "mismatches: 1" in out
    assert "amount 41 where the state says 40" in out


def test_a_long_list_is_cut_for_people(command, us, a_share):
    status, out, _ = command("verify", us[0], "--prices", a_share, "--market", "us")
    assert status == 1
    assert "final value unknown, return unknown" in out
    wide = a_share / "positions/claude-3.7-sonnet.position.jsonl"
    status, out, _ = command("verify", wide, "--prices", us[1], "--market", "cn")
    assert status == 1
    assert "more; --json has all" in out


def test_a_single_record_is_not_a_check(command, us, tmp_path):
    first, second, *_ = us[0].read_text().splitlines()
    alone = tmp_path / "alone.jsonl"
    alone.write_text(first + "\n")
    status, out, err = command("verify", alone, "--prices", us[1], "--market", "us", "--json")
    assert (status, out) == (2, "")
    assert err == f"bad_file: {alone}: nothing could be checked, there is no record after the first\n"
    alone.write_text(f"{first}\n{second[:50]}\n")
    status, out, _ = command("verify", alone, "--prices", us[1], "--market", "us")
    assert status == 1
    assert out.startswith("alone.jsonl: 2025-10-01 to 2025-10-01, records: 1, sessions: 1, mismatches: 1\n")


@pytest.mark.parametrize("which", ["missing ledger", "missing prices", "no ledger", "no prices", "folder"])
def test_what_cannot_be_read_exits_with_2_and_one_line(which, command, us, tmp_path):
    text = tmp_path / "notes.csv"
    text.write_text("some,words\n1,2\n")
    ledger, prices = {
        "missing ledger": (tmp_path / "missing.jsonl", us[1]),
        "missing prices": (us[0], tmp_path / "missing.csv"),
        "no ledger": (text, us[1]),
        "no prices": (us[0], text),
        "folder": (tmp_path, us[1]),
    }[which]
    status, out, err = command("verify", ledger, "--prices", prices, "--market", "us", "--json")
    assert (status, out) == (2, "")
    assert err.startswith("bad_option: " if which == "missing prices" else "bad_file: ")
    assert err.count("\n") == 1


@pytest.mark.parametrize(
    ("arguments", "word"),
    [
        (("verify", "x.jsonl", "--prices", "x.csv", "--market", "crypto"), "crypto"),
        (("verify", "x.jsonl", "--market", "us"), "--source"),
        (("verify", "--prices", "x.csv", "--market", "us"), "FILE"),
        (("audit",), "audit"),
    ],
)
def test_bad_usage_exits_with_2(arguments, word, command):
    status, out, err = command(*arguments)
    assert (status, out) == (2, "")
    assert word in err
