"""A reader follows the state from the first node in few stays."""

from __future__ import annotations

from pathlib import Path

from load_script import load_script

SCRIPT = Path(__file__).resolve().parents[1] / "scripts" / "reader.py"


def test_the_state_is_followed_from_reflection_in_under_thirty_stays_and_five_climbs():
    visits = load_script(SCRIPT).follow(
        "quantgraph.subgraphs.signal.nodes.reflection:reflection_node", "state"
    )
    assert visits.stays < 30, visits.read
    assert visits.climbs <= 5, visits.read


def test_a_reader_counts_each_module_that_is_entered_and_each_way_up(tmp_path):
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
    visits = load_script(SCRIPT).follow("quantgraph.graph._a:top", "state", tmp_path)
    assert [name for _, name in visits.read] == ["top", "low", "lower", "again", "low", "lower"]
    assert (visits.stays, visits.climbs) == (4, 1)
