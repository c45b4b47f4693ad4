"""The house keeps its plan: rooms hand their names out in faces, nothing goes around one, docs name what is there."""

import importlib
import pkgutil
import re
import tomllib
import types
from pathlib import Path

import pytest
from load_script import load_script

import quantgraph

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
FACES = ROOT / "tests" / "faces.txt"
SUITES = {"canary", "conformance"}
"""Folders of tests that hold every tool, node and decider against one thing, whatever room it is in."""
ROOM_OF = {"util": "_util"}
"""Folders of tests that cannot have the name of their package."""


house, quick = load_script(ROOT / "scripts" / "house.py"), load_script(ROOT / "scripts" / "quick.py")


@pytest.fixture(scope="module")
def known():
    return house.modules()


def test_nothing_is_circular_or_around_a_face_or_above_its_ceiling(known):
    assert house.broken(known) == []


def test_the_faces_are_those_that_were_agreed(known):
    """A change is made on purpose: ``python scripts/house.py --faces > tests/faces.txt``."""
    assert house.faces_text(known) == FACES.read_text(encoding="utf-8")


def test_a_face_has_at_most_twenty_names_and_thirty_lines_of_text(known):
    for package, names in house.faces(known).items():
        assert len([name for name in names if name not in house.FIXED]) <= house.FACE_NAMES, package
        text = house.ast.get_docstring(known[package].tree) or ""
        assert 0 < len(text.splitlines()) <= house.FACE_LINES, package


def test_a_name_is_in_one_face(known):
    names = [name for package, each in house.faces(known).items() if package != "quantgraph" for name in each]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_no_name_of_a_face_is_hidden_by_a_module(known):
    """Whatever was imported before, a name is what its module defines."""
    for info in pkgutil.walk_packages(quantgraph.__path__, "quantgraph."):
        if not info.name.endswith("__main__"):
            importlib.import_module(info.name)
    for package, names in house.faces(known).items():
        face = importlib.import_module(package)
        for name in set(names) - {"__version__"}:
            assert f"{package}.{name}" not in known, f"{package}.{name}"
            assert getattr(face, name) is getattr(face, name)
            assert not isinstance(getattr(face, name), types.ModuleType)


def written(folder, files):
    for name, text in files.items():
        path = folder / "quantgraph" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.modules(folder)


def test_the_measures_find_what_they_look_for(tmp_path):
    face = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from quantgraph.b._second import Thing\n__all__ = ['Thing']\n"
    known = written(
        tmp_path,
        {
            "__init__.py": "",
            "a/__init__.py": "",
            "a/_first.py": "from quantgraph.b import Thing\n",
            "a/_other.py": "from quantgraph.b._second import Thing\nfrom quantgraph.b import _second\n",
            "b/__init__.py": face,
            "b/_second.py": "def late():\n    from quantgraph.a import _first\nclass Thing: ...\n",
            "b/_typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from quantgraph.b import _later\n",
            "b/_later.py": "from quantgraph.b import _typed\n",
            "errors.py": "class Wrong(Exception): ...\n",
            "c.py": "from quantgraph.errors import Wrong\n",
        },
    )
    assert house.circles(known) == [
        ["quantgraph.a._first", "quantgraph.b._second"],
        ["quantgraph.b._later", "quantgraph.b._typed"],
    ]
    assert house.around_faces(known) == [
        "quantgraph.a._other -> quantgraph.b._second.Thing",
        "quantgraph.a._other -> quantgraph.b._second",
        "quantgraph.b._second -> quantgraph.a._first",
    ]
    assert int(house.shapes(known)["modules that a stranger sees"]) == 5


def test_statements_are_counted_without_their_form(tmp_path):
    text = '"""About."""\n\nimport re\n\n__all__ = ["one"]\n\n\ndef one(\n    a: int,\n) -> int:\n    """One."""\n    # why\n    if a:\n        return 1\n    return re.A\n'
    known = written(tmp_path, {"__init__.py": text})
    assert house.shapes(known)["lines of statements"] == "3"


def test_each_test_file_is_in_the_folder_of_a_room():
    for test in sorted((ROOT / "tests").rglob("test_*.py")):
        folder = test.parent.relative_to(ROOT / "tests")
        package = ROOT / "src" / "quantgraph" / ROOM_OF.get(folder.name, folder)
        assert folder.name in SUITES or (package / "__init__.py").exists(), test


def test_no_two_test_files_have_one_name():
    names = [test.name for test in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_quick_check_runs_the_tests_that_use_a_changed_module():
    changed = [
        Path("src/quantgraph/market/money/_fees.py"),
        Path("tests/test_house.py"),
        Path("scripts/docs.py"),
    ]
    assert quick.relevant_tests(changed) == ["tests/market/test_money.py", "tests/test_house.py"]


def rooms():
    package = ROOT / "src" / "quantgraph"
    folders = {f"{path.name}/" for path in package.iterdir() if (path / "__init__.py").exists()}
    return folders | {path.name for path in package.glob("*.py")} - {"__init__.py"}


def test_the_page_of_the_architecture_names_every_room_and_no_other():
    table = PAGE.read_text(encoding="utf-8").split("## The rooms")[1].split("\n## ")[0]
    named = {
        name
        for row in re.findall(r"^\| (.+?) \|", table, re.MULTILINE)
        for name in re.findall(r"`([a-z_]+(?:/|\.py))`", row)
    }
    assert named == rooms()


def test_the_page_of_the_architecture_has_the_layers_that_are_checked():
    config = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = config["tool"]["importlinter"]["contracts"][0]["layers"]
    line = re.search(r"^    (cli › .+)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE).group(1)
    assert [each.strip() for each in re.split("[›:]", line)] == [
        each.strip() for row in layers for each in row.split(":")
    ]


def test_each_stop_on_the_way_from_a_sentence_to_a_fill_exists():
    stops = re.findall(r"`([a-z_/]+\.py):([A-Za-z_.]+)`", PAGE.read_text(encoding="utf-8"))
    assert len(stops) >= 12
    for path, name in stops:
        text = (ROOT / "src" / "quantgraph" / path).read_text(encoding="utf-8")
        for part in name.split("."):
            assert re.search(rf"^ *(?:class|def) {part}\b", text, re.MULTILINE), f"{path}:{name}"


def test_each_room_is_told_by_the_first_sentence_of_its_face(known):
    page = PAGE.read_text(encoding="utf-8")
    for package, module in known.items():
        if module.is_package and package == module.room and package not in ("quantgraph", "quantgraph._util"):
            first = " ".join(house.ast.get_docstring(module.tree).split("\n\n")[0].split())
            assert f"| {first.replace('``', '`')} |" in page, package


def test_the_reading_path_has_twenty_four_files_that_one_can_read_in_an_afternoon():
    path = PAGE.read_text(encoding="utf-8").split("## Twenty-four files")[1].split("\n## ")[0]
    files = re.findall(r"^\d+\. `([a-z_/]+\.py)`: \S", path, re.MULTILINE)
    sizes = [
        len((ROOT / "src" / "quantgraph" / file).read_text(encoding="utf-8").splitlines()) for file in files
    ]
    assert len(set(files)) == 24
    assert sum(sizes) <= 7367


def test_each_file_that_the_page_of_the_architecture_names_exists():
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?)`", PAGE.read_text(encoding="utf-8")):
        if "<" not in path:
            assert (ROOT / "src" / "quantgraph" / path).exists() or (ROOT / path).exists(), path
