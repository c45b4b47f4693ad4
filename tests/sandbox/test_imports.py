"""What code may import, and the one line for what it may not."""

import sys

import pytest

from quantgraph.errors import BadOption
from quantgraph.sandbox import ForkRunner, default_runner
from quantgraph.sandbox import _pandas_guards as imports
from quantgraph.sandbox._runner import FreshRunner

pytestmark = pytest.mark.proof

HERE = "numpy, pandas, talib and the standard library are"


@pytest.mark.parametrize(
    ("code", "package"),
    [
        ("import scipy", "scipy"),
        ("import scipy.stats as st", "scipy"),
        ("from sklearn.linear_model import LinearRegression", "sklearn"),
        ("import statsmodels.api as sm", "statsmodels"),
        ("__import__('matplotlib.pyplot')", "matplotlib"),
        ("import importlib; importlib.import_module('langchain')", "langchain"),
        ("import no_such_thing", "no_such_thing"),
        ("import quantgraph.cli", "quantgraph"),
        ("from quantgraph import create_trading_graph", "quantgraph"),
    ],
)
def test_another_package_is_not_available_in_one_line(code, package, forker):
    line = forker.run([code], {}).error.line
    assert line == (
        f"code_failed: line 1 ({code}): ModuleNotFoundError: {package} is not available here; {HERE}"
    )


@pytest.mark.parametrize(
    "code",
    [
        "import numpy.linalg, pandas.tseries.offsets, talib.abstract, dateutil.relativedelta, pyarrow.compute",
        "import json, math, statistics, itertools, sysconfig\nsysconfig.get_config_vars()",
        "from quantgraph.state import GLOBAL_DATA_STATE\nassert GLOBAL_DATA_STATE is not None",
        "try:\n    import scipy\nexcept ImportError:\n    pass",
    ],
)
def test_what_is_there_is_imported(code, forker):
    assert forker.run([code], {}).error is None


def test_it_holds_while_code_runs_and_no_longer(monkeypatch):
    finders = list(sys.meta_path)
    monkeypatch.setattr(imports, "_more", {"a_package_that_is_allowed": ("a_package_that_is_allowed",)})
    with imports.refuse_other_imports():
        with pytest.raises(ModuleNotFoundError, match="No module named 'a_package_that_is_allowed'"):
            __import__("a_package_that_is_allowed")
        with pytest.raises(
            ModuleNotFoundError, match="another is not available here; a_package_that_is_allowed, numpy"
        ):
            __import__("another.part")
        sys.meta_path.pop(0)
    assert sys.meta_path == finders


# Packages that are named --------------------------------------------------------------------------


@pytest.fixture(scope="module")
def with_sklearn():
    made = ForkRunner(timeout=30.0, packages=("sklearn",))
    yield made
    made.close()


@pytest.mark.parametrize(
    ("code", "value"),
    [
        ("from scipy import stats\nround(float(stats.norm.cdf(1.96)), 3)", "0.975"),
        (
            "from sklearn.linear_model import LinearRegression\n"
            "fit = LinearRegression().fit([[0.0], [1.0], [2.0]], [1.0, 3.0, 5.0])\n"
            "round(float(fit.coef_[0]), 6), round(float(fit.intercept_), 6)",
            "(2.0, 1.0)",
        ),
        ("import joblib, threadpoolctl\n1", "1"),
    ],
)
def test_a_named_package_and_what_it_requires_are_imported_in_a_sealed_process(code, value, with_sklearn):
    result = with_sklearn.run([code], {})
    assert (result.error, result.value, result.isolation) == (None, value, "full")


@pytest.mark.parametrize(
    ("code", "code_of_error"),
    [
        ("import requests", "code_failed"),
        ("import sys\ndel sys.meta_path[0]\nimport requests", "code_failed"),
        ("import sklearn\nopen(sklearn.__path__[0] + '/../pytest/__init__.py')", "code_refused"),
        ("import os, sklearn\nos.listdir(sklearn.__path__[0] + '/..')", "code_refused"),
        ("import sklearn\nopen(sklearn.__file__, 'a')", "code_refused"),
        ("import socket\nsocket.create_connection(('127.0.0.1', 9))", "code_refused"),
        ("from sklearn.ensemble import *\nimport os\nos.fork()", "code_refused"),
    ],
)
def test_nothing_else_is_opened_by_it(code, code_of_error, with_sklearn):
    assert with_sklearn.run([code], {}).error.code == code_of_error


def test_the_line_names_what_there_is(with_sklearn):
    line = with_sklearn.run(["import statsmodels"], {}).error.line
    assert line.endswith(
        "statsmodels is not available here; numpy, pandas, sklearn, talib and the standard library are"
    )


def test_a_new_interpreter_has_them_too():
    result = FreshRunner(timeout=60.0, packages=("scipy",)).run(["import scipy.stats\n1"], {})
    assert (result.error, result.value, result.isolation) == (None, "1", "full")


@pytest.mark.parametrize(
    "name", ["no_such_package", "os", "scipy.stats", "../scipy", "quantgraph", "--once", "", 7]
)
@pytest.mark.parametrize("make", [ForkRunner, FreshRunner, default_runner])
def test_what_is_not_an_installed_package_is_refused(name, make):
    with pytest.raises(BadOption) as caught:
        make(packages=(name,))
    assert caught.value.line == f"bad_option: packages: {name!r} is not an installed package"


def test_the_order_of_names_is_no_difference():
    assert ForkRunner(packages=["sklearn", "scipy", "sklearn"]).packages == ("scipy", "sklearn")
