"""The recorded run that is shipped: it replays, by the command alone, and has what a trader's month has."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption
from quantgraph.recording import Recorder
from quantgraph.runs import replay
from quantgraph.runs.folder import example_run_name, unpack_example_run

pytestmark = pytest.mark.proof

ANEW = "the trader's prompts, tools or runs changed: python scripts/make_example_run.py records the run anew"
ARCHIVE = Path(__file__).resolve().parents[2] / "src" / "quantgraph" / "runs" / "trader_month.zip"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return unpack_example_run(tmp_path_factory.mktemp("example"))


@pytest.fixture(scope="module")
def sessions(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return list(book.results(folder.name))


@pytest.fixture(scope="module")
def answers(folder):
    """What each call of a tool answered, by day."""
    with Ledger(folder / "ledger.sqlite") as book:
        logs = book.executions(folder.name)
    return {
        f"{log.steps[0].session:%Y-%m-%d}": [
            (each["name"], each["result"]) for step in log.steps for each in step.result or ()
        ]
        for log in logs
    }


def codes(answered):
    return [each["code"] for _, each in answered if isinstance(each, dict) and "code" in each]


def test_it_replays_identically(folder):
    replayed = replay(folder)
    assert replayed.identical, f"{ANEW}\n{replayed.differences}"


def test_the_command_replays_it_without_a_key_and_leaves_nothing(tmp_path):
    done = subprocess.run(
        [Path(sys.executable).with_name("quantgraph"), "replay", "--example"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    told = f"{example_run_name()}: identical (ledger, execution log, signal, strategy, result)\n"
    assert (done.returncode, done.stdout) == (0, told), f"{ANEW}\n{done.stdout}{done.stderr}"
    assert list(tmp_path.iterdir()) == []


def test_it_is_small_and_names_no_place_of_a_machine(folder):
    assert ARCHIVE.stat().st_size < 300_000
    texts = [path.read_bytes() for path in folder.rglob("*") if path.is_file()]
    for place in (b"/tmp/", b"/home/", b"/root/", str(Path(__file__).resolve().parents[2]).encode()):
        assert not any(place in text for text in texts), place


def test_it_is_unpacked_once(folder):
    with pytest.raises(BadOption, match="cannot hold a run"):
        unpack_example_run(folder.parent)


def test_its_days_end_by_the_models_own_word(sessions):
    assert len(sessions) == 18  # of January 2025: from the 2nd to the 27th
    assert {each.notes["trader"]["ended"] for each in sessions} == {"stop_signal"}
    assert sum(not each.fills for each in sessions) == 9


def test_it_has_refused_orders_and_dead_ends(answers):
    assert codes(answers["2025-01-02"]) == ["lot_size", "insufficient_cash"]
    assert codes(answers["2025-01-03"]) == ["no_data"]
    assert codes(answers["2025-01-07"]) == ["t_plus_one"]
    assert codes(answers["2025-01-08"]) == ["bad_option"]
    assert codes(answers["2025-01-10"]) == ["bad_option", "unknown_symbol", "bad_quantity"]
    assert codes(answers["2025-01-21"]) == ["no_progress"]
    assert codes(answers["2025-01-27"]) == ["insufficient_shares"]


def test_it_has_three_equal_sells_and_a_stop_signal_beside_a_call(sessions, answers):
    days = {f"{each.session:%Y-%m-%d}": each for each in sessions}
    sells = [(fill.order.symbol, fill.side, int(fill.quantity)) for fill in days["2025-01-16"].fills]
    assert sells == [("600958.SH", "sell", 1_000)] * 3
    assert days["2025-01-17"].notes["trader"]["steps"] == 1
    assert [name for name, _ in answers["2025-01-17"]] == ["buy"]


def test_a_failed_and_an_unreadable_reply_were_asked_for_again(folder):
    recorder = Recorder(folder / "ledger.sqlite", mode="replay")
    asked = [each for each in recorder.of(folder.name).entries() if each.key.kind == "model"]
    recorder.close(folder.name)
    failed = [each for each in asked if each.error is not None]
    assert [(each.session, each.final) for each in failed] == [("20250108", False)]
    assert failed[0].error["code"] == "model_unavailable"
    unread = [each for each in asked if "invalid_tool_calls" in (each.reply or "")]
    assert [each.session for each in unread] == ["20250114"]
