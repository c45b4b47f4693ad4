"""Parameters of a strategy of one's own have names: in title, result, identity and comparison."""

from __future__ import annotations

import datetime as dt
import functools
import json
import math

import numpy as np
import pytest
from typer.testing import CliRunner

from quantgraph import run_strategy
from quantgraph.cli._main import app
from quantgraph.errors import BadOption, NoSignal
from quantgraph.page._comparison import common_accounts, two_numbers
from quantgraph.runs import compare, list_runs, replay
from quantgraph.runs._page import view_run
from quantgraph.runs._parameters import bind, file_parameters

OPTIONS = {"symbols": ["000341.SZ"], "start": "20250102", "end": "20250331", "source": "sample"}
SINCE = dt.date(2025, 1, 31)


def cross(data, fast=5, slow=20, *, since=SINCE, **more):
    """A rule of two averages, from a day on."""
    assert isinstance(since, dt.date)
    close = data["ohlcv"]["close"]
    up = close.rolling(fast).mean() > close.rolling(slow).mean()
    return up.astype(float).where(close.rolling(slow).mean().notna()).diff()


def test_defaults_partials_and_numbers_of_numpy_are_parameters_alike():
    _, _, one = bind(cross, {"slow": np.int64(30), "z": 1})
    base, _, two = bind(functools.partial(functools.partial(cross, slow=30), z=1), {})
    assert [*one.items()] == [*two.items()] == [("fast", 5), ("slow", 30), ("since", "2025-01-31"), ("z", 1)]
    _, call, again = bind(cross, one)  # as they are stored
    assert (base, again, call.keywords) == (cross, one, {"slow": 30, "z": 1})


@pytest.mark.parametrize(
    ("function", "params", "said"),
    [
        (
            lambda data, fast: data,
            {"fats": 1},
            "params of <lambda>: missing a required argument: 'fast'; it has fast",
        ),
        (lambda data: data, {"n": 1}, "unexpected keyword argument 'n'; it has none beside the data"),
        (lambda data, n=1: data, {"n": [1]}, r"n of <lambda> is \[1\]; must be a finite number, a text"),
        (lambda data, n=1: data, {"n": math.inf}, "n of <lambda> is inf"),
        (lambda data, fast, slow=1: data, {}, "missing a required argument: 'fast'; it has fast, slow"),
        (lambda: 1, {}, r'data\["ohlcv"\]\["close"\] is a frame of sessions x symbols'),
    ],
)
def test_what_is_no_parameter_is_refused_with_those_that_are(function, params, said, tmp_path):
    with pytest.raises(BadOption, match=said):
        run_strategy(function, params=params, out=tmp_path, **OPTIONS)
    assert not [*tmp_path.iterdir()]


@pytest.mark.parametrize(
    "function", [lambda data: data.rolling(5), lambda data: data["close"], lambda d: d > 1]
)
def test_a_function_that_takes_the_dictionary_for_a_frame_is_told_what_it_is_given(function, tmp_path):
    with pytest.raises(
        NoSignal, match=r'data\["ohlcv"\]\["close"\] is a frame of sessions x symbols.*def cross'
    ):
        run_strategy(function, out=tmp_path, **OPTIONS)


def test_parameters_of_a_file_are_the_capitals_at_its_top():
    cell = '"""about"""\nimport numpy as np\nFAST, SLOW = 5, 20\nNAME: str = "x"\nlower = 3\nclose = prices()\nLATER = 4\n'
    assert file_parameters(cell) == {"FAST": 5, "SLOW": 20, "NAME": "x"}
    assert file_parameters("close = snapshot\nFAST = 5") == {}


@pytest.mark.proof
def test_a_partial_and_params_are_one_run_and_four_of_them_a_map(tmp_path):
    pairs = [(fast, slow) for fast in (3, 5) for slow in (10, 20)]
    made = [run_strategy(cross, params={"fast": f, "slow": s}, out=tmp_path, **OPTIONS) for f, s in pairs]
    same = run_strategy(functools.partial(cross, fast=3, slow=10), out=tmp_path / "also", **OPTIONS)
    known = [json.loads((each.folder / "run.json").read_text())["identity"] for each in (made[0], same)]
    assert known[0] == known[1]
    title = "own function cross(fast=3, slow=10, since='2025-01-31') (unsealed)"
    assert made[0]["question"] == same["question"] == title
    assert made[0]["params"] == {"fast": 3, "slow": 10, "since": "2025-01-31"}
    assert made[0]["account"] == same["account"] != made[1]["account"]
    assert replay(made[0].folder).identical
    found = compare(*made)
    columns = [f"fast={fast}, slow={slow}" for fast, slow in pairs]
    assert [*found.numbers.columns] == [*found.differences.columns] == [*found.runs] == columns
    assert [*found.runs.values()] == [each["run_id"] for each in made]
    assert found.differences.loc["params.fast"].tolist() == ["3", "3", "5", "5"]
    assert not [name for name in found.differences.index if name in {"own.ref", "own.proof", "own.origin"}]
    views = [view_run(each.folder, with_calls=False) for each in made]
    grid = two_numbers(views, common_accounts(views)[1])
    assert (grid["names"], grid["rows"], grid["columns"]) == (["fast", "slow"], ["3", "5"], ["10", "20"])
    assert title in set(list_runs(tmp_path)["sentence"])
    assert "fast=3, slow=10" in made[0].report().read_text(encoding="utf-8")


FILE = '''"""000341.SZ, two averages, 20250102 to 20250331

name: mine
"""
FAST, SLOW = 5, 20
close = snapshot["ohlcv"]["close"]
up = (close.rolling(FAST).mean() > close.rolling(SLOW).mean()).astype(float)
GLOBAL_DATA_STATE.update("signal", {"mine": up.where(close.rolling(SLOW).mean().notna()).diff()})
'''


@pytest.mark.proof
def test_a_files_capitals_are_in_title_list_identity_and_comparison(tmp_path):
    made = []
    for fast in (5, 10):
        path = tmp_path / "cross.py"
        path.write_text(FILE.replace("= 5, 20", f"= {fast}, 20"), encoding="utf-8")
        made.append(run_strategy(path, source="sample", out=tmp_path / "runs"))
    first, second = made
    assert first["question"].startswith("own code cross.py(FAST=5, SLOW=20): 000341.SZ, two averages")
    assert (first["params"], second["params"]) == ({"FAST": 5, "SLOW": 20}, {"FAST": 10, "SLOW": 20})
    assert [*compare(first, second).numbers.columns] == ["FAST=5", "FAST=10"]
    shown = CliRunner().invoke(app, ["runs", "--out", str(tmp_path / "runs")]).stdout
    assert all(f"cross.py(FAST={fast}, SLOW=20)" in shown for fast in (5, 10))
    shown = CliRunner().invoke(app, ["compare", *(each["run_dir"] for each in made)]).stdout
    assert shown.splitlines()[0].split() == ["FAST=5", "FAST=10"]
    with pytest.raises(BadOption, match="names in capitals at its top"):
        run_strategy(path, params={"FAST": 3}, source="sample", out=tmp_path / "runs")
    said = (
        "000341.SZ, buy when the 5-day average is above the 20-day average, sell below, 20250102 to 20250331"
    )
    with_sentence = run_strategy(said, strategy=path, source="sample", out=tmp_path / "said")
    assert list_runs(tmp_path / "said")["sentence"].tolist() == [f"{said} (FAST=10, SLOW=20)"]
    assert with_sentence["params"] == second["params"]
