"""The house keeps its plan: names are used once, nothing is circular or private to others, docs name what is there."""

import re
import tomllib
from pathlib import Path

import pytest
from load_script import load_script

ROOT = Path(__file__).resolve().parents[1]
PAGE = ROOT / "docs" / "architecture.md"
ROOT_TESTS = {  # what the tests directly under tests/ are about, besides the modules directly in the package
    "benchmarks": "benchmarks",
    "docs": "scripts/docs.py",
    "examples": "examples",
    "house": "scripts/house.py",
    "notebooks": "notebooks",
    "packaging": "pyproject.toml",
    "public": "src/quantgraph/__init__.py",
    "quick": "scripts/quick.py",
}
SUITES = {"canary", "conformance"}
"""Folders of tests that hold every tool, node and decider against one thing, whatever room it is in."""
ROOM_OF = {"util": "_util"}
"""Folders of tests that cannot have the name of their package."""


house, quick = load_script(ROOT / "scripts" / "house.py"), load_script(ROOT / "scripts" / "quick.py")


@pytest.fixture(scope="module")
def known():
    return house.modules()


def test_no_modules_import_each_other(known):
    assert house.circles(known) == []


def test_no_package_imports_what_is_private_to_another(known):
    assert house.private_imports(known) == []


def test_a_public_class_has_a_name_of_its_own(known):
    assert house.classes_used_twice(known) == {}


def test_a_module_has_a_name_of_its_own(known):
    assert house.modules_used_twice(known) == {}


def test_a_module_is_in_a_package_that_says_what_it_is_for(known):
    assert [
        name for name, module in known.items() if module.is_package and not module.text.startswith('"""')
    ] == []


def written(folder, files):
    for name, text in files.items():
        path = folder / "quantgraph" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
    return house.modules(folder)


def test_the_measures_find_what_they_look_for(tmp_path):
    known = written(
        tmp_path,
        {
            "__init__.py": "",
            "a/__init__.py": "",
            "a/first.py": "from quantgraph.b.second import Thing\nclass Same: ...\n",
            "a/_hidden.py": "class _Inner: ...\n",
            "b/__init__.py": "",
            "b/second.py": "def late():\n    from quantgraph.a import first\nclass Same: ...\nclass Thing: ...\n",
            "b/first.py": "from quantgraph.a import _hidden\nfrom quantgraph.a.first import _name\n",
            "b/typed.py": "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    from quantgraph.b import later\n",
            "b/later.py": "from quantgraph.b import typed\n",
        },
    )
    assert house.circles(known) == [["quantgraph.a.first", "quantgraph.b.second"]]
    assert house.classes_used_twice(known) == {"Same": ["quantgraph.a.first", "quantgraph.b.second"]}
    assert house.modules_used_twice(known) == {"first": ["quantgraph.a.first", "quantgraph.b.first"]}
    assert house.private_imports(known) == [
        "quantgraph.b.first -> quantgraph.a._hidden",
        "quantgraph.b.first -> quantgraph.a.first._name",
    ]


def modules_of(folder):
    return {path.stem.lstrip("_") for path in folder.glob("*.py")} | {
        path.name for path in folder.iterdir() if path.is_dir()
    }


def is_mirrored(test):
    """Whether a test file bears the name of what it tests: a module, or the package that it is in."""
    folder = test.parent.relative_to(ROOT / "tests")
    if folder.name in SUITES:
        return True
    package = ROOT / "src" / "quantgraph" / ROOM_OF.get(folder.name, folder)
    if not package.is_dir():
        return False
    subject = test.stem.removeprefix("test_")
    names = modules_of(package) | {package.name} | (set(ROOT_TESTS) if folder == Path() else set())
    return any(subject == name or subject.startswith(f"{name}_") for name in names)


def test_each_test_file_bears_the_name_of_what_it_tests():
    tests = sorted((ROOT / "tests").rglob("test_*.py"))
    assert [str(test.relative_to(ROOT)) for test in tests if not is_mirrored(test)] == []


def test_no_two_test_files_have_one_name():
    names = [test.name for test in (ROOT / "tests").rglob("test_*.py")]
    assert sorted({name for name in names if names.count(name) > 1}) == []


def test_the_quick_check_runs_the_tests_that_mirror_a_change():
    changed = [Path("src/quantgraph/market/fees.py"), Path("tests/test_house.py"), Path("scripts/docs.py")]
    assert "tests/test_house.py" in quick.mirrored_tests(changed)
    assert quick.mirrored_tests([Path("src/quantgraph/market/calendar.py")]) == [
        "tests/market/test_calendar.py"
    ]
    assert quick.mirrored_tests([Path("src/quantgraph/graph.py")]) == ["tests/test_graph.py"]
    aspects = quick.mirrored_tests([Path("src/quantgraph/testing/canary/__init__.py")])
    assert aspects == [f"tests/testing/canary/test_canary_{name}.py" for name in ("data", "watch")]


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


def test_each_file_that_the_page_of_the_architecture_names_exists():
    for path in re.findall(r"`((?:[a-z_]+/)+[a-z_]*(?:\.py|\.md)?)`", PAGE.read_text(encoding="utf-8")):
        if "<" not in path:
            assert (ROOT / "src" / "quantgraph" / path).exists() or (ROOT / path).exists(), path
