"""What code may import, and the one line for what it may not."""

import sys

import pytest

from quantgraph.sandbox.imports import refuse_other_imports

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


def test_it_holds_while_code_runs_and_no_longer():
    finders = list(sys.meta_path)
    with refuse_other_imports(["a_package_that_is_allowed"]):
        with pytest.raises(ModuleNotFoundError, match="No module named 'a_package_that_is_allowed'"):
            __import__("a_package_that_is_allowed")
        with pytest.raises(
            ModuleNotFoundError, match="another is not available here; a_package_that_is_allowed, numpy"
        ):
            __import__("another.part")
        sys.meta_path.pop(0)
    assert sys.meta_path == finders
