"""What tools and assistants find the project by: llms.txt, AGENTS.md, the manifest of the MCP registry."""

from __future__ import annotations

import json
import re
import shlex
import tomllib
from pathlib import Path
from typing import Any

import pytest
from packaging.requirements import Requirement

from quantgraph.settings import Settings

ROOT = Path(__file__).resolve().parents[1]
INDEX = (ROOT / "llms.txt").read_text(encoding="utf-8")
LISTED = re.findall(r"^- \[[^\]]+\]\(([^)]+)\): \S.*$", INDEX, re.MULTILINE)
MANIFEST = json.loads((ROOT / "server.json").read_text(encoding="utf-8"))
(PACKAGE,) = MANIFEST["packages"]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))["project"]


def test_the_index_has_the_form_of_llms_txt():
    title, summary, details, *sections = re.split(r"\n\n(?!- )", INDEX.strip())
    assert title == f"# {PROJECT['name']}"
    assert summary.startswith("> ")
    assert not details.startswith(("#", ">", "-"))
    for section in sections:
        heading, _, items = section.partition("\n\n")
        assert re.fullmatch(r"## [^\n]+", heading)
        assert all(re.fullmatch(r"- \[[^\]]+\]\([^)]+\): \S.*", line) for line in items.splitlines())
    assert len(sections) == INDEX.count("\n## ")
    assert len(LISTED) == INDEX.count("\n- ")


def test_the_index_lists_every_page_and_example_once():
    pages = [
        *ROOT.glob("*.md"),
        *ROOT.glob("docs/*.md"),
        *ROOT.glob("src/**/SKILL.md"),
        *ROOT.glob("examples/**/*.py"),
    ]
    assert sorted(LISTED) == sorted(path.relative_to(ROOT).as_posix() for path in pages)


def test_agents_are_sent_to_commands_and_files_that_are_there():
    text = (ROOT / "AGENTS.md").read_text(encoding="utf-8")
    targets = re.findall(r"^([a-z]+):", (ROOT / "Makefile").read_text(encoding="utf-8"), re.MULTILINE)
    assert len(text.splitlines()) <= 50
    assert {*re.findall(r"`make ([a-z]+)`", text)} <= {*targets}
    assert [
        path for path in re.findall(r"\btests/[\w/]+\.(?:py|txt)", text) if not (ROOT / path).exists()
    ] == []


def test_the_manifest_has_the_fields_that_the_registry_requires():
    assert MANIFEST["$schema"].endswith("/schemas/2025-12-11/server.schema.json")
    assert re.fullmatch(r"[a-zA-Z0-9.-]+/[a-zA-Z0-9._-]+", MANIFEST["name"])
    assert 3 <= len(MANIFEST["name"]) <= 200
    assert 1 <= len(MANIFEST["title"]) <= 100
    assert 1 <= len(MANIFEST["description"]) <= 100
    assert PACKAGE["registryType"] == "pypi"
    assert PACKAGE["transport"] == {"type": "stdio"}
    assert "registryBaseUrl" not in PACKAGE  # clients take it for the address of an index


def test_the_manifest_is_of_this_version_of_this_package():
    assert MANIFEST["version"] == PACKAGE["version"] == PROJECT["version"]
    assert PACKAGE["identifier"] == PROJECT["name"]


def test_the_readme_shows_the_registry_whose_package_it_is():
    names = re.findall(r"<!-- mcp-name: (\S+) -->", (ROOT / PROJECT["readme"]).read_text(encoding="utf-8"))
    assert names == [MANIFEST["name"]]


@pytest.mark.parametrize("package", ["quantgraph", "quantgraph@{version}", "quantgraph=={version}"])
def test_the_manifest_starts_the_server_however_a_client_writes_the_package(package: str):
    """With --from, uvx takes the package for the name of a command: quantgraph@0.1.0 is not one."""
    line = [PACKAGE["runtimeHint"], *_arguments(PACKAGE["runtimeArguments"])]
    line += [package.format(version=PACKAGE["version"]), *_arguments(PACKAGE["packageArguments"])]
    uvx, option, extra, named, command = line
    assert (uvx, option, command) == ("uvx", "--with", "mcp")
    wanted = Requirement(extra)
    assert (wanted.name, wanted.extras) == (PROJECT["name"], {"mcp"})
    assert wanted.extras <= {*PROJECT["optional-dependencies"]}
    assert wanted.specifier.contains(PROJECT["version"])
    assert re.split("[@=]", named)[0] in PROJECT["scripts"]


def _arguments(values: list[dict[str, Any]]) -> list[str]:
    return [part for each in values for part in (each.get("name"), each["value"]) if part]


def test_the_variables_of_the_manifest_are_settings_with_their_defaults():
    vendors = {"tushare_token"}
    for each in PACKAGE["environmentVariables"]:
        field = each["name"].lower().removeprefix("quantgraph_")
        assert each["name"] == (field.upper() if field in vendors else f"QUANTGRAPH_{field.upper()}")
        default = Settings.model_fields[field].default
        assert each.get("default", str(default)) == str(default)
        assert each.get("isSecret", False) == (field in vendors)


@pytest.mark.parametrize("name", ["README.md", "README.zh-CN.md"])
def test_the_readmes_configure_a_client_with_a_command_of_the_package(name: str):
    (line,) = re.findall(
        r"^    (\{\"mcpServers\".*)$", (ROOT / name).read_text(encoding="utf-8"), re.MULTILINE
    )
    server = json.loads(line)["mcpServers"]["quantgraph"]
    command = [server["command"], *server["args"]]
    assert command == shlex.split("uvx --from 'quantgraph[mcp]' quantgraph mcp")
    assert command[3] in PROJECT["scripts"]
