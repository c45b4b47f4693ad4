"""Documents say what is so: every code block is run, and what it shows is what comes out."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from pathlib import Path

import pytest
from load_script import load_script
from thinned import thinned

ROOT = Path(__file__).resolve().parents[1]
MARKDOWN = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").glob("*.md")])
docs = load_script(ROOT / "scripts" / "docs.py")


@pytest.mark.parametrize(
    "path", thinned(docs.PAGES, lambda _, path: path.name == "README.md"), ids=lambda path: path.name
)
def test_every_block_runs_and_shows_what_comes_out(path: Path) -> None:
    assert docs.Page(path).refreshed() == path.read_text(encoding="utf-8"), "run: make docs"


def test_the_chinese_readme_has_the_same_blocks_and_chapters() -> None:
    english, chinese = (path.read_text(encoding="utf-8") for path in docs.TWINS)
    assert docs.twin(chinese, english) == chinese, "run: make docs"
    levels = [
        re.findall(r"^#+(?= )", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
        for text in (english, chinese)
    ]
    assert levels[0] == levels[1]
    tables = [len(re.findall(r"^\|", text, re.MULTILINE)) for text in (english, chinese)]
    assert tables[0] == tables[1]


def test_a_wrong_output_and_an_unknown_command_are_noticed(tmp_path: Path) -> None:
    page = tmp_path / "page.md"
    page.write_text("```python\nprint(1 + 1)\n```\n\n```text\n3\n```\n")
    assert docs.Page(page).refreshed() != page.read_text()
    for line in ("curl example", "make nothing"):
        page.write_text(f"```bash\n{line}\n```\n")
        with pytest.raises(SystemExit):
            docs.Page(page).refreshed()


def test_the_first_example_has_at_most_fifteen_lines() -> None:
    blocks = re.findall(r"```python\n(.*?)```", docs.TWINS[0].read_text(encoding="utf-8"), re.DOTALL)
    assert len(blocks[0].splitlines()) <= 15


@pytest.mark.parametrize("path", MARKDOWN, ids=lambda path: path.name)
def test_every_link_inside_the_project_leads_somewhere(path: Path) -> None:
    targets = re.findall(r"(?:\]\(|src=\")(?!https?://|#)([^)#\"]+)", path.read_text(encoding="utf-8"))
    assert [target for target in targets if not (path.parent / target).exists()] == []


def test_pictures_are_small() -> None:
    sizes = {path.name: path.stat().st_size for path in (ROOT / "docs").glob("*.png")}
    assert sizes
    assert max(sizes.values()) <= 150_000


def test_the_settings_table_names_every_setting_and_its_variable() -> None:
    from quantgraph.settings import ROLES, AssistantOptions, AuditOptions, RoleModel, Settings, TableOptions

    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    rows = dict(re.findall(r"^\| `(\w+)` \| `([A-Z_]+)` \|", text, re.MULTILINE))
    assert sorted(rows) == sorted(Settings.model_fields)
    vendors = {"openai_api_key", "openai_base_url", "tushare_token", "jina_api_key"}
    assert all(rows[name] == f"QUANTGRAPH_{name.upper()}" for name in {*rows} - vendors)
    keys = {
        (table, key): default
        for table, key, default in re.findall(r"^\| `(\w+)\.(\w+)` \| `?([\w.]+)`? \|", text, re.MULTILINE)
    }
    kinds = {
        "models": RoleModel,
        "tables": TableOptions,
        "audit": AuditOptions,
        "assistants": AssistantOptions,
    }
    assert {*keys} == {(table, key) for table, kind in kinds.items() for key in kind.model_fields}
    assert all(f"`{role}`" in text for role in ROLES)


def test_the_defaults_in_the_settings_table_are_the_defaults() -> None:
    from quantgraph.settings import Settings

    text = (ROOT / "docs" / "configuration.md").read_text(encoding="utf-8")
    shown = dict(re.findall(r"^\| `(\w+)` \| `[A-Z_]+` \| `?([\w.]+)`? \|", text, re.MULTILINE))
    for name in ("temperature", "request_timeout", "max_attempts", "code_timeout", "code_memory_mb"):
        assert float(shown[name]) == Settings.model_fields[name].default, name
    for name in ("runs_dir", "data_source"):
        assert shown[name] == str(Settings.model_fields[name].default), name


def test_the_python_that_runs_the_commands_is_this_one() -> None:
    assert (Path(sys.executable).parent / "quantgraph").exists()


PHRASES = {
    r"for want of": "without, ran out of",
    r"(?:is|are) told\b(?! apart)": "sees, reads, gets; we tell it",
    r"beside each other": "side by side",
    r"(?:ends?|ended) so again": "end the same way",
    r"is wanted": "must be, is required",
    r"takes? the place of|in the place of": "replaces, instead of",
    r"by some trick|hang by a hair|takes? leave of|leave to send": "what happens, in plain words",
    r"answers were none|a dict is none|rejected is none|if it is none\b": "is not valid, is not one",
    r"(?:is|are) held against": "is compared with",
    r"(?:is|are) asked about\b": "who asks: quantgraph asks",
    r"what lives|what a day is worked with": "the thing's name",
    r"(?<!there )(?:is|are) no (?!longer|more|later|way|other|opinion)\w": "is not a",
    r"how well it is locked in|as yet no|of no character": "what is missing, in plain words",
}
"""Phrases that sound translated, and what to write instead."""


def _public_docstrings() -> dict[str, str]:
    found, module = {}, ""
    for line in (ROOT / "tests" / "faces.txt").read_text(encoding="utf-8").splitlines():
        if not line.startswith(" "):
            module = line.strip()
            continue
        thing = getattr(importlib.import_module(module), line.strip(), None)
        if inspect.isclass(thing) or inspect.isfunction(thing):
            found[f"{module}.{line.strip()}"] = inspect.getdoc(thing) or ""
    return found


def test_documents_and_docstrings_are_in_plain_english() -> None:
    texts = {path.name: path.read_text(encoding="utf-8") for path in (*docs.PAGES, *docs.SCRIPTS)}
    texts |= _public_docstrings()
    assert len(texts) > 300
    found = [
        f"{name}: {match[0]!r}; write: {instead}"
        for name, text in texts.items()
        for phrase, instead in PHRASES.items()
        for match in re.finditer(phrase, " ".join(text.split()), re.IGNORECASE)
    ]
    assert found == []
