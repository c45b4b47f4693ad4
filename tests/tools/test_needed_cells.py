"""Cells that only looked are no part of a strategy; whatever may change a later cell's signal is."""

import pytest

from quantgraph.market import Moment
from quantgraph.sandbox import default_runner
from quantgraph.tools import ToolContext
from quantgraph.tools._code import needed_cells

PUBLISH = (
    "close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', {'s': (close > 3).astype(float)})"
)
LOOKED = [
    "snapshot['ohlcv'].keys()",
    "print(snapshot['ohlcv']['close'].shape)",
    "close = snapshot['ohlcv']['close']\nprint(close.head(), close.describe())",
    "close = snapshot['ohlcv']['close']\nma = close.rolling(2).mean()\nbuy = close > ma\nprint(buy.sum())",
    "half = 1 / 2",
    "import talib\nprint(talib.get_functions())",
    "sig = pd.DataFrame(0.0, index=[1], columns=['a'])\nsig[sig > 1] = 1.0\nsig.iloc[0, 0] = 2\nprint(sig)",
    "snap = GLOBAL_DATA_STATE.snapshot()\nprint(type(snap))",
    "counts = {}\nfor name in ['a', 'b']:\n    counts[name] = len(name)\nprint(counts)",
    "def show(frame):\n    return frame.tail(2)\nshow(snapshot['ohlcv']['close'])",
    "help(snapshot.adjusted)",
    "import math\nprint(math.pi, np.log(2.0), pd.Timestamp('2024-01-02'))",
    "S = np.zeros_like([1.0])\nfor i in range(1):\n    S[i] = 2.0\nprint(S)",
    "rows = []\nfor day in snapshot['ohlcv']['close'].index:\n    rows.append(str(day))\nrows",
]


@pytest.mark.parametrize("cell", LOOKED)
def test_a_cell_that_looked_is_left_out_before_and_after(cell):
    assert needed_cells([cell, PUBLISH]) == [PUBLISH]
    assert needed_cells([PUBLISH, cell]) == [PUBLISH]


NEEDED = [
    ("n = 3", "u({'s': close > n})"),
    ("import talib", "u({'s': close.apply(lambda c: talib.SMA(c, 2))})"),
    ("from math import log as ln", "u({'s': ln(2) * close})"),
    ("def rule(frame):\n    return frame > 1", "u({'s': rule(close)})"),
    ("if True:\n    n = 3", "n = n if n else 1\nu({'s': close > n})"),
    ("limits = {'n': 1}\nlimits['n'] = 3", "u({'s': close > limits['n']})"),
    ("n = 3", "u({'s': close.query('index > @n')})"),
    ("for n in range(3):\n    pass", "u({'s': close > n})"),
    ("(n := 3)", "u({'s': close > n})"),
    ("with np.errstate() as n:\n    pass", "u({'s': n})"),
    ("pd.set_option('mode.copy_on_write', True)", "u({'s': close})"),
    ("pd.options.display.width = 7", "u({'s': close})"),
    ("import warnings\nwarnings.filterwarnings('error')", "u({'s': close})"),
    ("snapshot = GLOBAL_DATA_STATE.snapshot()", "u({'s': snapshot['ohlcv']['close']})"),
    ("state = GLOBAL_DATA_STATE", "u({'s': close})"),
    ("class Held:\n    n = 3", "u({'s': close > Held.n})"),
    ("print = len", "u({'s': print(close)})"),
]


@pytest.mark.parametrize(("before", "after"), NEEDED)
def test_what_a_signal_reads_is_kept(before, after):
    after = after.replace("u(", "close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', ", 1)
    assert needed_cells(["print(1)", before, after]) == [before, after]


@pytest.mark.parametrize(
    "cells",
    [
        # what is changed in place, by another name too
        ["a = [1]\nb = a", "a.append(2)", "GLOBAL_DATA_STATE.update('signal', {'s': b})"],
        ["d = {'n': [1]}", "d['n'][0] = 5", "GLOBAL_DATA_STATE.update('signal', {'s': d['n']})"],
        ["c = x", "y = c\ny['n'] = 2", "GLOBAL_DATA_STATE.update('signal', {'s': x})"],
        [
            "f = pd.DataFrame()",
            "f.sort_values('a', inplace=True)",
            "GLOBAL_DATA_STATE.update('signal', {'s': f})",
        ],
        ["n = [1]", "n += [2]", "GLOBAL_DATA_STATE.update('signal', {'s': n})"],
        ["n = [1]", "m = np.asarray(n)\nm[0] = 2", "GLOBAL_DATA_STATE.update('signal', {'s': n})"],
        [
            "import warnings",
            "warnings.filterwarnings('error')",
            "GLOBAL_DATA_STATE.update('signal', {'s': n})",
        ],
        # a function reads a name when it is called
        ["def f():\n    return n", "n = 3", "GLOBAL_DATA_STATE.update('signal', {'s': f()})"],
        ["f = lambda: n", "n = 3", "GLOBAL_DATA_STATE.update('signal', {'s': f()})"],
        # a function or a method of another cell may do anything
        ["def f(x):\n    x.n = 1", "f(y)", "GLOBAL_DATA_STATE.update('signal', {'s': y})"],
        ["def f(x):\n    x.n = 1", "y.apply(f)", "GLOBAL_DATA_STATE.update('signal', {'s': y})"],
        [
            "class C:\n    def step(self): ...\nc = C()",
            "c.step()",
            "GLOBAL_DATA_STATE.update('signal', {'s': c})",
        ],
        # drawing numbers, using up an iterator, names that the syntax does not show
        ["rng = np.random.default_rng(1)", "rng.normal()", "GLOBAL_DATA_STATE.update('signal', {'s': rng})"],
        [
            "np.random.seed(1)",
            "np.random.rand()",
            "GLOBAL_DATA_STATE.update('signal', {'s': np.random.rand()})",
        ],
        ["z = zip([1], [2])", "list(z)", "GLOBAL_DATA_STATE.update('signal', {'s': list(z)})"],
        ["n = 3", "GLOBAL_DATA_STATE.update('signal', {'s': globals()['n' + '']})"],
        ["n = 3", "q = 'index > @' + 'n'", "GLOBAL_DATA_STATE.update('signal', {'s': x.query(q)})"],
        ["n = 3", "exec('m = n')", "GLOBAL_DATA_STATE.update('signal', {'s': m})"],
        # every cell that publishes
        ["GLOBAL_DATA_STATE.update('signal', {'a': x})", "GLOBAL_DATA_STATE.update('signal', {'b': y})"],
        ["g = GLOBAL_DATA_STATE", "g.update('signal', {'s': x})"],
        ["buy when it rises"],
    ],
)
def test_in_doubt_every_cell_is_kept(cells):
    assert needed_cells(cells) == cells


def test_a_chain_is_kept_and_what_it_replaced_is_not():
    cells = ["n = 1", "n = 2", "m = n + 1", "k = 5", PUBLISH.replace("> 3", "> m")]
    assert needed_cells(cells) == ["n = 2", "m = n + 1", cells[-1]]


def test_the_first_tries_of_a_real_model_are_left_out(shared_data):
    cells = shared_data / "model-replies" / "cells"
    no_update, right = (
        (cells / f"volume_breakout_{name}.py").read_text() for name in ("2_no_update", "3_right")
    )
    looked = 'c = snapshot["ohlcv"]["close"]\nprint(c.shape, c.index[[0, -1]], c.isna().sum().sum())'
    assert needed_cells([looked, no_update, right, "print(signal.shape)"]) == [right]


def test_the_needed_cells_alone_give_the_signal_of_all(frame, store):
    """Against the session itself: a session of all kinds of cells, and its needed ones in a process of their own."""
    store.update("ohlcv", {"close": frame})
    runner, view = default_runner(), store.view(Moment.at("2024-01-08"))
    session = ToolContext(view, code=runner)
    publish = "GLOBAL_DATA_STATE.update('signal', {'s': rule(snapshot['ohlcv']['close'])})"
    cells = [
        *LOOKED,
        "limits = {}",
        "limits['n'] = 4.0",
        "def rule(f):\n    return (f > limits['n']) * 1.0",
        publish,
    ]
    for cell in [*cells, "print(1)"]:
        assert session.run(cell).error is None
    assert session.needed_cells() == cells[-4:]
    assert session.signals["s"].to_numpy().sum() == 10.0, "5 to 14"
    alone = runner.run(session.needed_cells(), view.frozen())
    assert alone.signals["s"].equals(session.signals["s"])


def test_nothing_published_needs_nothing():
    assert needed_cells([]) == []
    assert needed_cells(["1 + 1"]) == []
