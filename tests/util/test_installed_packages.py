"""Packages by the names they are imported by: what is installed, and what it requires."""

from importlib import metadata

import pytest

from quantgraph._util.packages import distributions_of, is_package, package_versions, required_packages


@pytest.mark.parametrize("name", ["pandas", "sklearn", "six", "dateutil"])
def test_a_package_or_module_is_known_by_the_name_it_is_imported_by(name):
    assert is_package(name)


@pytest.mark.parametrize(
    "name",
    ["scikit-learn", "os", "json", "pandas.core", "", "no_such_package", "__main__", "quantgraph", None, 1],
)
def test_other_names_are_none(name):
    assert not is_package(name)


def test_a_folder_that_is_no_package_is_none(tmp_path, monkeypatch):
    (tmp_path / "secrets_of_mine").mkdir()
    monkeypatch.syspath_prepend(str(tmp_path))
    assert not is_package("secrets_of_mine"), "a folder without __init__.py"


def test_what_is_required_is_included_without_extras():
    found = required_packages(["sklearn"])
    assert {"sklearn", "scipy", "joblib", "numpy"} <= {*found}
    assert "pytest" not in found, "an extra of scipy"
    assert "quantgraph" not in required_packages(["sklearn", "quantgraph"])
    assert required_packages([]) == ()


def test_a_distribution_may_have_another_name():
    assert distributions_of("sklearn") == ["scikit-learn"]
    assert distributions_of("no_such_package") == []


def test_versions_are_those_of_the_distributions():
    versions = package_versions(["sklearn"])
    assert versions["sklearn"] == metadata.version("scikit-learn")
    assert versions["scipy"] == metadata.version("scipy")
    assert package_versions([]) == {}
