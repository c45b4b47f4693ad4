"""FEATURES.toml holds: each file in one row, no row above its budget, no sum that rises, no wing in the core."""

import subprocess
import sys
from pathlib import Path
from types import SimpleNamespace

import pytest
from load_script import load_script

ROOT = Path(__file__).resolve().parents[1]
TABLE = """
[sums]
core = {core}
wings = 5
core_tests = 10
wings_tests = 5

[reserved]
core = {{ rules = 3 }}

[[feature]]
name = "engine"
src = ["engine"]
tests = ["engine"]
asked = "a user"
promise = "README.md: trades"
src_lines = {engine}
tests_lines = 5

[[feature]]
name = "rest"
src = ["."]
tests = ["."]
asked = "a user"
promise = "README.md: trades"
src_lines = {rest}
tests_lines = 5
{more}
"""

features = load_script(ROOT / "scripts" / "features.py")


def table(core=10, engine=4, rest=6, more=""):
    return TABLE.format(core=core, engine=engine, rest=rest, more=more)


@pytest.fixture
def house(tmp_path):
    """A repository with a package of two rows, committed."""

    def git(*arguments):
        command = ["git", "-c", "user.name=a", "-c", "user.email=a@b.c", *arguments]
        subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)

    def write(path, text):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(text)

    def commit(message="c"):
        git("add", "-A")
        git("commit", "-q", "-m", message)

    git("init", "-q")
    write("README.md", "It trades.\n")
    write("src/quantgraph/__init__.py", "x = 1\n" * 6)
    write("src/quantgraph/engine/__init__.py", "x = 1\n" * 4)
    write("tests/test_a.py", "x = 1\n")
    write("tests/engine/test_b.py", "x = 1\n")
    write("FEATURES.toml", table())
    commit()
    return SimpleNamespace(root=tmp_path, write=write, commit=commit)


def check(house):
    command = [sys.executable, ROOT / "scripts" / "features.py", "--check", "--root", house.root]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout.splitlines()


def test_the_table_of_this_house_holds():
    assert features.broken(ROOT) == []


def test_a_row_that_grows_past_its_budget_is_refused(house):
    assert check(house) == (0, [])
    house.write("src/quantgraph/engine/__init__.py", "x = 1\n" * 5)
    house.commit()
    assert check(house) == (1, ["engine: 5 lines of src, at most 4: take lines out of it"])


def test_a_budget_that_rises_beside_code_is_refused(house):
    house.write("src/quantgraph/engine/__init__.py", "x = 1\n" * 5)
    house.write("src/quantgraph/__init__.py", "x = 1\n" * 5)
    house.write("FEATURES.toml", table(engine=5, rest=5))
    told = "engine: the budget of src rises beside src/quantgraph/__init__.py; budgets change in a commit of their own"
    assert check(house) == (1, [f"this change: {told}"])
    house.commit()
    found = check(house)
    assert found[0] == 1
    assert found[1][0].endswith(told)


def test_lines_move_between_rows_in_a_commit_of_their_own(house):
    house.write("src/quantgraph/__init__.py", "x = 1\n" * 5)
    house.commit()
    house.write("FEATURES.toml", table(engine=5, rest=5))
    house.commit()
    house.write("src/quantgraph/engine/__init__.py", "x = 1\n" * 5)
    assert check(house) == (0, [])


def test_a_sum_that_rises_is_refused(house):
    house.write("FEATURES.toml", table(core=11, engine=5))
    assert check(house) == (1, ["this change: the sum core rises to 11, and a sum never rises"])
    house.write("FEATURES.toml", table(engine=5))
    assert check(house) == (1, ["the budgets of core are 11 lines, at most 10: lower another row"])
    house.write("FEATURES.toml", table(core=9, rest=5))
    house.write("src/quantgraph/__init__.py", "x = 1\n" * 5)
    house.commit()
    assert check(house) == (0, [])
    house.write("FEATURES.toml", table())
    assert check(house)[1] == ["this change: the sum core rises to 10, and a sum never rises"]


def test_lines_that_leave_the_core_may_go_to_a_wing_and_never_come_back(house):
    house.write("src/quantgraph/__init__.py", "x = 1\n" * 4)
    house.write("FEATURES.toml", table(core=8, rest=4).replace("wings = 5", "wings = 8"))
    assert check(house) == (1, ["this change: the sum wings rises to 8, and a sum never rises"])
    house.write("FEATURES.toml", table(core=8, rest=4).replace("wings = 5", "wings = 7"))
    house.commit()
    assert check(house) == (0, [])
    house.write("FEATURES.toml", table(rest=4).replace("wings = 5", "wings = 7"))
    assert check(house)[1] == ["this change: the sum core rises to 10, and a sum never rises"]


def test_a_reserved_row_may_be_added(house):
    row = '[[feature]]\nname = "rules"\nsrc = ["rules"]\ntests = []\nasked = "a"\npromise = "README.md: trades"\n'
    house.write("FEATURES.toml", table(more=f"{row}src_lines = 3\ntests_lines = 0"))
    house.write("src/quantgraph/rules/__init__.py", "x = 1\n" * 3)
    assert check(house) == (0, [])
    house.write("FEATURES.toml", table(more=f"{row}src_lines = 4\ntests_lines = 0"))
    assert check(house)[1] == ["the budgets of core are 14 lines, at most 13: lower another row"]


def test_what_is_in_no_row_or_promised_nowhere_is_named(house):
    text = (
        table()
        .replace('src = ["."]', 'src = ["__init__.py", "gone"]')
        .replace("README.md: trades", "README.md: flies")
    )
    house.write("FEATURES.toml", text)
    house.write("src/quantgraph/new.py", "")
    assert check(house)[1] == [
        "src/quantgraph/gone of a row is not there",
        "src/quantgraph/new.py is in no row: add it to one in FEATURES.toml",
        "engine: README.md does not say 'flies', which promises it",
        "rest: README.md does not say 'flies', which promises it",
    ]


def test_a_wing_in_the_core_breaks_the_contract(monkeypatch):
    monkeypatch.syspath_prepend(str(ROOT))
    from scripts.wing_contract import WingContract

    def kept(importer, imported):
        graph = SimpleNamespace(
            modules={importer, imported},
            find_modules_directly_imported_by=lambda module: {imported} if module == importer else set(),
        )
        return WingContract("wings", {}, {}).check(graph, verbose=False)

    assert kept("quantgraph.graph", "quantgraph.agents.trader").metadata["around"] == [
        "quantgraph.graph (core) imports quantgraph.agents.trader (agents)"
    ]
    assert not kept("quantgraph.data.qlib", "quantgraph.testing").kept
    assert kept("quantgraph.agents.trader", "quantgraph.graph").kept


def test_the_tests_of_a_part_are_found():
    assert features.paths_to_test("memory", ROOT) == ["src/quantgraph/agents/memory", "tests/agents/memory"]
    assert "--ignore=tests/agents/trader" in features.paths_to_test("core", ROOT)
    with pytest.raises(
        SystemExit, match=r"nothing is no part of FEATURES\.toml; there are wings, core, signal graph"
    ):
        features.paths_to_test("nothing", ROOT)
