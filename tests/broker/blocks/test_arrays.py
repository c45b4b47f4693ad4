"""Compiled functions work without a cache; numba is loaded by the first block."""

import subprocess
import sys

from quantgraph.broker.blocks._kernel import compiled


def test_code_without_room_for_a_cache_is_compiled_all_the_same():
    scope = {}
    exec("def twice(number):\n    return 2 * number", scope)  # a function without a file has no such room
    assert compiled(scope["twice"])(21) == 42


def test_numba_is_not_loaded_before_the_first_block():
    code = "import sys, quantgraph.broker, quantgraph.agents; sys.exit('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0
