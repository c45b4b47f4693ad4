"""How often a rule was tried: what counts, what is independent, what a kill leaves."""

import json
import subprocess
import sys

import numpy as np
import pandas as pd
import pytest
from tests.support.judged import walk

from quantgraph.judgement import TRIES_FILE, counted, cut_off_of, try_of
from quantgraph.runs import run_strategy

DAYS = pd.bdate_range("2023-01-02", periods=500)


def made(
    run,
    *,
    words="buy when the 5-day average crosses above",
    code="sma(close, 5)",
    seed=0,
    attempts=1,
    part=slice(None),
    symbols=("A",),
):
    steps = np.random.default_rng(seed).normal(0, 0.01, 500)
    values = pd.Series(100 * np.cumprod(1 + steps), DAYS).iloc[part]
    return try_of(run, words, [code], symbols, values, attempts=attempts)


def test_the_same_words_with_other_numbers_are_one_family(tmp_path):
    path = tmp_path / TRIES_FILE
    assert counted(made("a"), path).counted == 1
    assert (
        counted(
            made("b", words="buy when the 10-day  average crosses above", code="other()", seed=1), path
        ).counted
        == 2
    )
    assert counted(made("c", words="another rule", code="sma(close, 7)", seed=2), path).counted == 2
    assert counted(made("d", words="RSI low", code="rsi(14) < 30", seed=3), path).counted == 1
    assert counted(made("e", seed=4, attempts=3), path).counted == 6


def test_other_data_are_another_family(tmp_path):
    path = tmp_path / TRIES_FILE
    counted(made("a", part=slice(0, 200)), path)
    assert counted(made("b", part=slice(250, 500), seed=1), path).counted == 1
    assert counted(made("c", symbols=("B",), seed=2), path).counted == 1
    assert counted(made("d", symbols=tuple(f"S{place}" for place in range(60)), seed=3), path).counted == 4


def test_a_run_is_one_try_however_often_it_is_reported_and_equal_returns_are_one(tmp_path):
    path = tmp_path / TRIES_FILE
    for run in ("a", "a", "a", "b"):
        assert counted(made(run), path).counted == 1
    assert counted(made("c", seed=1), path).counted == 2


def test_the_number_never_falls(tmp_path):
    path, before = tmp_path / TRIES_FILE, 0
    for place in range(12):
        now = counted(made(f"run {place}", seed=place), path).counted
        assert now > before
        before = now


def test_independent_tries_are_as_many_and_alike_ones_fewer(tmp_path):
    apart, alike = tmp_path / "apart", tmp_path / "alike"
    for place in range(40):
        found = counted(made(f"run {place}", seed=place), apart)
    assert found.effective == pytest.approx(40, abs=2)
    assert len(found.sharpes) == 40
    common = np.random.default_rng(0).normal(0, 0.01, 500)
    for place in range(40):
        own = np.random.default_rng(1 + place).normal(0, 0.01, 500)
        values = pd.Series(100 * np.cumprod(1 + common + own), DAYS)
        found = counted(try_of(f"run {place}", "a rule", [], ("A",), values, attempts=1), alike)
    assert found.counted == 40
    assert found.effective == pytest.approx(0.5 + 0.5 * 40, abs=2)  # rho + (1 - rho) N, rho = 1/2


def test_a_line_that_was_cut_off_costs_itself_alone(tmp_path):
    path = tmp_path / TRIES_FILE
    counted(made("a"), path)
    counted(made("b", seed=1), path)
    path.write_text(path.read_text()[:-30])
    assert counted(made("c", seed=2), path).counted == 2
    assert counted(made("d", seed=3), path).counted == 3


WRITES = """
import sys
from pathlib import Path
import pandas as pd
from quantgraph.judgement import counted, try_of
days = pd.bdate_range("2023-01-02", periods=60)
for place in range(50):
    values = pd.Series([100.0 + place + day * int(sys.argv[2]) for day in range(60)], days)
    counted(try_of(f"{sys.argv[2]}-{place}", "a rule", [], ("A",), values), Path(sys.argv[1]))
"""


def test_processes_that_write_at_once_lose_no_line(tmp_path):
    path = tmp_path / TRIES_FILE
    commands = [[sys.executable, "-c", WRITES, str(path), str(worker)] for worker in range(1, 4)]
    workers = [subprocess.Popen(command) for command in commands]
    assert [worker.wait() for worker in workers] == [0, 0, 0]
    assert len([json.loads(line) for line in path.read_text().split()]) == 150


@pytest.mark.parametrize(
    ("model", "until"), [("gpt-4o-mini", "2023-09"), ("openai/gpt-5.2-pro", "2025-08"), ("unheard-of", None)]
)
def test_the_end_of_a_models_training_is_of_the_longest_name(model, until):
    assert cut_off_of(model) == until


def test_runs_of_one_folder_and_of_a_shared_file_are_counted(tmp_path, monkeypatch):
    bars = {
        code: pd.DataFrame({name: frame[code] for name, frame in walk(2, 260, 2).items()})
        for code in ("600001.SH", "600002.SH")
    }

    def rule(data, days):
        close = data["ohlcv"]["close"]
        return (close > close.rolling(days).mean()) * 2.0 - 1

    def judgement(out, days):
        return run_strategy(rule, params={"days": days}, source=bars, out=tmp_path / out)["judgement"]

    assert [judgement("one", days)["tries"]["counted"] for days in (5, 10, 20)] == [1, 2, 3]
    assert judgement("other", 5)["tries"]["counted"] == 1
    monkeypatch.setenv("QUANTGRAPH_TRIES", str(tmp_path / "all.jsonl"))
    assert [judgement(out, days)["tries"]["counted"] for out, days in (("a", 5), ("b", 10))] == [1, 2]


def test_an_account_that_lost_all_is_a_try_too(tmp_path):
    values = pd.Series([100.0, 50.0, 0.0, 0.0], pd.bdate_range("2024-01-01", periods=4))
    found = counted(try_of("a", "a rule", [], ("A",), values), tmp_path / TRIES_FILE)
    assert found.counted == 1
