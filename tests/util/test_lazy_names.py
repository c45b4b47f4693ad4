"""Names of packages are imported on first use, and a run loads no tools that it does not use."""

import subprocess
import sys

import pytest

import quantgraph.tools
from quantgraph._util.lazy_names import lazy_names

UNUSED = {
    *("quantgraph.agents.trader", "quantgraph.tools._call", "quantgraph.tools.trading._account"),
    *("quantgraph.tools.trading._prices", "quantgraph.tools.trading._prices", "quantgraph.tools.news._tools"),
    *("plotext", "plotly", "jinja2"),
}


FACE = """
if TYPE_CHECKING:
    from quantgraph._util.canonical_json import (
        canonical_json,
        content_hash,
    )
    from quantgraph._util.lazy_names import lazy_names

if not TYPE_CHECKING:
    from quantgraph.nowhere import other
"""


def test_a_name_is_that_of_its_module_and_another_is_refused(tmp_path):
    face = tmp_path / "__init__.py"
    face.write_text(FACE, encoding="utf-8")
    get, listed = lazy_names("quantgraph._util", str(face))
    assert listed() == ["canonical_json", "content_hash", "lazy_names"]
    assert get("canonical_json")([1]) == "[1]"
    assert get("lazy_names") is lazy_names
    with pytest.raises(AttributeError, match=r"module 'quantgraph\._util' has no attribute 'canonical'"):
        get("canonical")


def test_a_run_without_a_decider_that_asks_models_loads_none_of_their_tools():
    code = (
        f"import sys, quantgraph.graph._graph, quantgraph.runs; print(sorted({UNUSED!r} & set(sys.modules)))"
    )
    done = subprocess.run([sys.executable, "-c", code], check=True, capture_output=True, text=True)
    assert done.stdout == "[]\n"
    assert quantgraph.tools.tools_catalog
