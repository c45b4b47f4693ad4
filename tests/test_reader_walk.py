"""A reader follows the state from the first node in few stays."""

from __future__ import annotations

from pathlib import Path

from load_script import load_script

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "walk.py"


def test_the_state_is_followed_from_reflection_in_under_thirty_stays_and_five_climbs():
    walked = load_script(SCRIPT).walk("quantgraph.subgraphs.signal.nodes.reflection:reflection_node", "state")
    assert walked.stays < 30, walked.read
    assert walked.climbs <= 5, walked.read


def test_a_walk_counts_each_module_that_is_entered_and_each_way_up(tmp_path):
    files = {
        "graph/_a.py": "from quantgraph.state._b import low\n"
        "def top(state):\n    low(state)\n    again({**state})\n    other(1)\ndef again(value):\n    low(value)\n"
        "def other(value):\n    pass\n",
        "state/_b.py": "def low(thing):\n    lower(thing)\ndef lower(thing):\n    pass\n",
    }
    for name, text in files.items():
        path = tmp_path / "quantgraph" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    walked = load_script(SCRIPT).walk("quantgraph.graph._a:top", "state", tmp_path)
    assert [name for _, name in walked.read] == ["top", "low", "lower", "again", "low", "lower"]
    assert (walked.stays, walked.climbs) == (4, 1)
