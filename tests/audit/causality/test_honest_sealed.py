"""Honest strategies run in the sealed process as they are written: what they import late is found there."""

from __future__ import annotations

import importlib.util
from contextlib import closing

import numpy as np
import pytest
from lazy_strategies import LAZY, WITH_PACKAGES, honest_cells
from thinned import thinned

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.audit.causality._trials import read_panels
from quantgraph.sandbox import ForkRunner, default_runner

from .causality_panels import panel
from .zoo import HONEST
from .zoo_panels import market

DAYS = {"ohlcv": panel(44, 3, seed=4)}
PACKAGES = ("scipy", "sklearn", "statsmodels")


def check(trials, days):
    """The proof of every session."""
    return check_causality(trials, days, prove="all", warm_up=False)


def opinions(result):
    assert result.error is None, result.error.line
    assert result.isolation == "full"
    (signal,) = result.signals.values()
    assert np.isin(signal.fillna(0.0).to_numpy(), (-1.0, 0.0, 1.0)).all()
    return int(signal.fillna(0.0).to_numpy().astype(bool).sum())


@pytest.fixture(scope="module")
def with_packages():
    """A runner with the packages that are installed."""
    installed = tuple(name for name in PACKAGES if importlib.util.find_spec(name))
    with closing(ForkRunner(timeout=60.0, packages=installed)) as runner:
        yield runner


def test_there_are_fifty_and_ten_of_packages():
    names = [name for name, _ in LAZY]
    assert len(set(names)) == len(names) >= 50
    assert len(WITH_PACKAGES) == 10


@pytest.mark.parametrize(("name", "cell"), LAZY, ids=[name for name, _ in LAZY])
def test_a_strategy_that_imports_late_runs_sealed(name, cell):
    assert opinions(default_runner().run(honest_cells(cell), read_panels(DAYS))) > 0


@pytest.mark.parametrize(
    ("name", "cell"), thinned(LAZY, lambda number, _: number % 4 == 0), ids=[name for name, _ in LAZY]
)
def test_a_strategy_that_imports_late_is_causal(name, cell):
    verdict = check(CodeTrials(default_runner(), honest_cells(cell)), DAYS)
    assert verdict.line == "causal: proved at 44 of 44 sessions"


@pytest.mark.parametrize(
    "snippet", thinned(HONEST, lambda number, _: number % 4 == 0), ids=lambda snippet: snippet.name
)
def test_an_honest_snippet_runs_sealed(snippet):
    result = default_runner().run(snippet.cells, market("sample"))
    assert result.error is None, result.error.line
    assert snippet.name in result.signals


@pytest.mark.proof
@pytest.mark.parametrize(
    ("package", "name", "cell"), WITH_PACKAGES, ids=[name for _, name, _ in WITH_PACKAGES]
)
def test_a_strategy_with_a_package_runs_sealed(package, name, cell, with_packages):
    pytest.importorskip(package, reason=f"{package} is not in requirements.lock, and is not installed")
    assert opinions(with_packages.run(honest_cells(cell), read_panels(DAYS))) > 0


@pytest.mark.proof
@pytest.mark.parametrize(
    ("package", "name", "cell"), WITH_PACKAGES, ids=[name for _, name, _ in WITH_PACKAGES]
)
def test_a_strategy_with_a_package_is_causal(package, name, cell, with_packages):
    pytest.importorskip(package, reason=f"{package} is not in requirements.lock, and is not installed")
    verdict = check(CodeTrials(with_packages, honest_cells(cell)), DAYS)
    assert verdict.line.startswith("causal: proved at 44 of 44 sessions"), verdict.line
