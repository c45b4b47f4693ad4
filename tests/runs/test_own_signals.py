"""A signal of one's own as a run: the demo's rule as a frame, as a function and as a file."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import numpy as np
import own_rules
import pandas as pd
import pytest

from quantgraph import run_strategy
from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.errors import (
    BadFile,
    BadFrame,
    BadOption,
    NoSignal,
    NotCausal,
    QuantGraphError,
    UnknownSymbol,
)
from quantgraph.llm import KeylessPlanner
from quantgraph.runs import RunSpec, compare, list_runs, open_run, replay, resume_run, run_signal
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

pytestmark = pytest.mark.proof

SENTENCE = (
    "members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when it crosses "
    "below, 2025"
)
KINDS = ("frame", "function", "file")
FIRST = {
    "frame": "Not proved: the signal is a frame of yours, and nothing shows that it uses no future.",
    "function": "Unsealed: the function average_cross ran with your rights and within reach of all data; its "
    "signal is proved at 3 of 266 sessions.",
}


@pytest.fixture(scope="module")
def demo(tmp_path_factory):
    return run_strategy(SENTENCE, source="sample", model="keyless", out=tmp_path_factory.mktemp("demo"))


@pytest.fixture(scope="module")
def own(demo, tmp_path_factory):
    """The three runs by kind; no model is asked for one of them."""
    out, patch = tmp_path_factory.mktemp("own"), pytest.MonkeyPatch()
    patch.setattr(KeylessPlanner, "_generate", lambda *_, **__: pytest.fail("a model was asked"))
    runs = {kind: own_rules.run_own(kind, demo.folder, out) for kind in KINDS}
    patch.undo()
    return runs


def fills(run):
    """The ledger's lines of fills, without what chains them to the run's name."""
    with Ledger(Path(run["run_dir"]) / "ledger.sqlite") as book:
        assert book.check(run["run_id"])
        rows = [row for row in book.journal(run["run_id"]) if row["kind"] == "fill"]
    return [json.dumps({key: row[key] for key in ("session", "body")}, ensure_ascii=False) for row in rows]


@pytest.mark.parametrize("kind", KINDS)
def test_the_demos_rule_gives_the_demos_fills(kind, demo, own):
    assert own[kind]["ended_because"] == "done"
    assert len(fills(demo)) == 259
    assert fills(own[kind]) == fills(demo)
    assert own[kind]["account"] == demo["account"]


@pytest.mark.parametrize("kind", KINDS)
def test_it_replays_offline_to_the_byte(kind, own):
    assert replay(own[kind].folder).identical


def test_the_first_lines_say_what_is_not_proved_and_what_is_not_sealed(own):
    heads = {kind: repr(own[kind]).splitlines()[:3] for kind in KINDS}
    assert heads["frame"][0].endswith(": own signal (not proved)")
    assert heads["function"][0].endswith(": own function average_cross (unsealed)")
    for kind in ("frame", "function"):
        assert heads[kind][1].strip() == FIRST[kind]
        page = open_run(own[kind].folder).report().read_text(encoding="utf-8")
        head = page[page.index("<header>") : page.index("</header>")]
        assert FIRST[kind] in head
        title = {"frame": "done, signal not proved", "function": "done, unsealed"}[kind]
        assert head.index(title) < head.index("<h1")
    assert own["frame"]["causality"] is None
    assert own["function"]["causality"]["coverage"]["isolated"] is False
    assert own["file"]["causality"]["line"] == "causal by construction: each part looks back only"
    assert "not isolated" not in own["file"]["causality"]["line"]
    assert heads["file"][1].strip() == "done"


def test_a_loaded_machine_says_the_same_about_a_proof(tmp_path):
    code = tmp_path / "cross.py"
    code.write_text(
        "fast, slow = (snapshot['ohlcv']['close'].rolling(days).mean() for days in (5, 20))\n"
        "GLOBAL_DATA_STATE.update('signal', {'cross': (fast > slow).astype(float).diff()})"
    )
    spec = RunSpec(question="", symbols=("合成30",), start="20240102", end="20240628")
    walked = Resources(source="sample", settings=load_settings(audit={"prove": "all"}))

    def told(name):
        run = run_strategy(spec, strategy=code, out=tmp_path / name, resources=walked)
        return run["causality"]["coverage"] | {"earlier_looks": 0}, run["warm_up"], fills(run)

    quiet = told("quiet")
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(6)]
    try:
        assert told("busy") == quiet
    finally:
        for each in busy:
            each.kill()
            each.wait()
    assert (quiet[0]["method"], len(quiet[2]) > 100) == ("walked", True)


def test_source_and_hash_of_the_code_are_in_the_identity(own):
    stored = {kind: json.loads((own[kind].folder / "run.json").read_text()) for kind in KINDS}
    values = {kind: each["identity"]["configuration"] for kind, each in stored.items()}
    assert "def average_cross(panels):" in values["function"]["own.cells"][0]
    assert values["function"]["own.code_hash"] == stored["function"]["spec"]["own"]["code_hash"]
    assert values["frame"]["own.code_hash"] == values["frame"]["own.ref"]
    assert "own.kind" not in json.loads((own["frame"].folder / "run.json").read_text())["identity"]["code"]


def test_the_runs_are_listed_and_compared(own):
    folder = own["frame"].folder.parent
    assert set(list_runs(folder)["sentence"]) >= {"own signal (not proved)"}
    assert compare(*(each.folder for each in own.values())).numbers.loc["return"].nunique() == 1


@pytest.mark.parametrize("kind", KINDS)
def test_a_killed_run_is_resumed_without_the_code(kind, demo, tmp_path):
    child = [sys.executable, own_rules.__file__, kind, str(demo.folder), str(tmp_path)]
    assert subprocess.run(child, check=False, capture_output=True, timeout=110).returncode == -9
    (folder,) = [path.parent for path in tmp_path.glob("*/run.json")]
    with Ledger(folder / "ledger.sqlite") as book:
        assert 0 < len(book.sessions(folder.name)) < 243
    resumed = resume_run(folder)
    assert resumed["ended_because"] == "done"
    assert fills(resumed) == fills(demo)
    assert replay(folder).identical


def test_the_plan_is_carried_out(demo, tmp_path):
    plan = TradePlan(stop_loss=0.03, max_holding=15)
    run = own_rules.run_own("frame", demo.folder, tmp_path, plan=plan, cash=500_000)
    assert run["plan"] == {"stop_loss": "0.03", "max_holding": 15}
    assert (run.round_trips.query("kind == 'closed'")["holding"] <= 15).all()
    assert run["cash"]["final_value"] == 500_000


def test_a_title_in_chinese_is_answered_in_chinese(tmp_path):
    days = pd.bdate_range("2024-01-02", periods=40)
    prices = pd.DataFrame({"600519.SH": np.linspace(100, 140, 40)}, index=days)
    signal = (prices > 120).astype(float)
    run = run_signal(
        signal, prices={"600519.SH": bars(prices["600519.SH"])}, about="涨过一百二就买", out=tmp_path
    )
    assert run["ended_because"] == "done"
    assert run["question"] == "自有信号（未经证明）：涨过一百二就买"
    assert "未经证明：信号是您给出的表格" in repr(run).splitlines()[1]
    assert "完成（信号未经证明）" in open_run(run.folder).report().read_text(encoding="utf-8")
    assert replay(run.folder).identical


def bars(close):
    return pd.DataFrame({"open": close, "high": close + 1, "low": close - 1, "close": close, "volume": 1e6})


def frame(values, start="2025-01-02", symbol="000341.SZ"):
    return pd.DataFrame({symbol: values}, index=pd.bdate_range(start, periods=len(values)), dtype=float)


@pytest.mark.parametrize(
    ("signal", "error", "said"),
    [
        (frame([0, 2, 0]), BadFrame, "2 at"),
        (
            frame([1] * 5, start="2025-04-03"),
            BadFrame,
            "1 rows that are not sessions of sample, .* 2025-04-04",
        ),
        (frame([1, 0], symbol="600519.SH"), UnknownSymbol, "no prices of 600519.SH"),
        (frame([np.nan, np.nan]), BadFrame, "NaN in all"),
        (frame([1, 0], start="2031-01-02"), QuantGraphError, "2031"),
        (frame([1, 0]).reset_index(drop=True), BadFrame, "DatetimeIndex"),
        ([1, 0], BadFrame, "must be a pandas DataFrame, not list"),
    ],
)
def test_a_frame_that_cannot_be_traded_is_refused_in_one_line(signal, error, said, tmp_path):
    with pytest.raises(error, match=said) as refused:
        run_signal(signal, prices="sample", out=tmp_path / "runs")
    assert "\n" not in refused.value.line
    assert not (tmp_path / "runs").exists()


def test_a_function_that_uses_the_future_is_refused_with_a_cell_that_shows_it(tmp_path):
    window = {"symbols": "000341.SZ", "start": "20250102", "end": "20250630"}
    with pytest.raises(
        NotCausal, match=r"leaky: the signal of 000341.SZ on .* it uses the future"
    ) as refused:
        run_strategy(strategy=own_rules.leaky, source="sample", out=tmp_path / "runs", **window)
    assert refused.value.data["verdict"]["counterexample"]["symbol"] == "000341.SZ"
    assert not (tmp_path / "runs").exists()


@pytest.mark.parametrize(
    ("returned", "error", "said"),
    [
        (lambda _panels: 1, NoSignal, "must be a frame of sessions x symbols"),
        (lambda panels: panels["ohlcv"]["close"], BadFrame, "signal"),
        (lambda panels: panels["nothing"], NoSignal, "KeyError"),
    ],
)
def test_a_function_that_gives_no_signal_is_refused_in_one_line(returned, error, said, tmp_path):
    window = {"symbols": "000341.SZ", "start": "20250102", "end": "20250630"}
    with pytest.raises(error, match=said):
        run_strategy(strategy=returned, source="sample", out=tmp_path, **window)


def test_a_file_that_is_missing_and_a_decider_without_a_signal_are_refused(tmp_path):
    with pytest.raises(BadFile, match="cannot be read"):
        run_strategy(strategy=tmp_path / "none.py", source="sample")
    with pytest.raises(BadOption, match="trades no signal"):
        run_strategy(strategy=own_rules.average_cross, source="sample", decider="buy_and_hold")


CROSS = """close = snapshot["ohlcv"]["close"]
fast, slow = (close.apply(lambda s, n=n: s.dropna().rolling(n).mean().reindex(s.index)) for n in (5, 30))
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
GLOBAL_DATA_STATE.update("signal", {"cross": (close * 0).mask(buy, 1.0).mask(sell, -1.0).where(slow.notna())})
"""


@pytest.fixture
def cross(tmp_path):
    file = tmp_path / "cross.py"
    file.write_text(CROSS)
    return file


@pytest.mark.parametrize(
    ("answer", "ended", "line"),
    [
        ("go on as the code does", "done", "You chose to go on as the code does. The code departs"),
        ("stop", "meaning_failed", 'The code departs from "buy when 5-day average'),
        ("make it better", "meaning_failed", 'The code departs from "buy when 5-day average'),
        ("Go on as the code does.", "done", "You chose to go on as the code does."),
        ("继续", "done", "You chose to go on as the code does."),
    ],
)
def test_a_file_that_departs_from_its_sentence_is_asked_about(cross, tmp_path, answer, ended, line):
    sentence = "000341.SZ, 2025: buy when the 5-day average crosses above the 20-day average, sell when below"
    spec = RunSpec(question=sentence, on_clarify="ask")
    asked = run_strategy(spec, strategy=cross, source="sample", model="keyless", out=tmp_path)
    assert asked["open_question"]["kind"] == "meaning"
    assert "sent back" not in asked["open_question"]["question"]  # no model wrote it
    answered = resume_run(asked.folder, answer=answer, model="keyless")
    assert answered["ended_because"] == ended
    assert line in repr(answered)
    assert replay(answered.folder).identical


def test_a_file_beside_a_sentence_that_is_not_read_says_so_first(cross, tmp_path):
    sentence = "000341.SZ, 2025: buy when the tape feels heavy, sell when it feels light; half position"
    run = run_strategy(sentence, strategy=cross, source="sample", model="keyless", out=tmp_path)
    first, ended = repr(run).splitlines()[1:3]
    assert first.startswith("  Not compared with the sentence: not read: ")
    assert "tape" in first
    assert ended == "  done, not compared with the sentence"
    assert run["plan"] == {"size": {"percent": "0.5"}}


def test_what_cannot_be_done_is_asked_about_beside_code_too_and_then_it_is_compared(cross, tmp_path):
    sentence = (
        "000341.SZ, 2025: buy when the 5-day average crosses above the 20-day average, sell when it crosses "
        "below, stop loss 8%, 3x leverage"
    )
    spec = RunSpec(question=sentence, on_clarify="ask")
    asked = run_strategy(spec, strategy=cross, source="sample", model="keyless", out=tmp_path)
    assert asked["open_question"]["question"].startswith('This cannot be done: "3x leverage".')
    departs = resume_run(asked.folder, answer="1", model="keyless")
    assert departs["open_question"]["kind"] == "meaning"
    done = resume_run(departs.folder, answer="1", model="keyless")
    clauses = {each["words"]: each["status"] for each in done["understanding"]["clauses"]}
    assert clauses == {"3x leverage": "not_done", "stop loss 8%": "done"}
    assert done["plan"] == {"stop_loss": "0.08"}
    assert replay(done.folder).identical
    headless = run_strategy(sentence, strategy=cross, source="sample", model="keyless", out=tmp_path)
    assert headless["ended_because"] == "needs_answer"


def test_a_file_beside_a_sentence_of_all_stocks_trades_by_the_rules_of_their_codes(cross, tmp_path):
    sentence = "all stocks, 202501: buy when the tape feels heavy, sell when it feels light"
    run = run_strategy(sentence, strategy=cross, source="sample", model="keyless", out=tmp_path)
    assert run["ended_because"] == "done"
    assert len(run["symbols"]) == 60
