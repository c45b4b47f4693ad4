"""The prompt files: found by name alone, versioned, unchanged under their version, and complete."""

import re
from pathlib import Path

import pytest

from quantgraph._util.canonical_json import content_hash
from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.dual_agent import _prompts as prompt_files
from quantgraph.agents.dual_agent._prompts import (
    DEFAULT_PROMPT,
    _load_prompt,
    _prompt_dir,
    _prompt_version,
    configured_prompt,
    load_prompt_strictly,
    retry_texts,
)
from quantgraph.agents.dual_agent._validation import ACTIONS
from quantgraph.errors import BadFile, BadOption

HASHES = {
    "decision_agent_v1.txt": "9d10a6c2f8443c74c0a2447a8ff13e9d",
    "decision_agent_v1_zh.txt": "ccfe3ce7654baa4864042c82958bef40",
    "fundamental_filter_agent_v1.txt": "4e561e11dae60b55b236a584445eb10a",
    "fundamental_filter_agent_v1_zh.txt": "06737f5430138223c342bf029fbd48af",
}
DECISION = [name for name in HASHES if name.startswith("decision")]
FILTER = [name for name in HASHES if name.startswith("fundamental")]


def test_the_folder_is_absolute_and_holds_the_prompts():
    folder = Path(_prompt_dir())
    assert folder.is_absolute()
    assert sorted(path.name for path in folder.iterdir()) == sorted([*HASHES, "retry_v1.json"])


def test_a_prompt_that_changes_gets_a_new_version():
    assert {name: content_hash(load_prompt_strictly(name)) for name in HASHES} == HASHES
    assert content_hash(retry_texts()) == "196d96810b72975558dc931ec0f89c81"


def test_a_version_is_the_name_with_slashes():
    assert _prompt_version("decision_agent_v1.txt") == "decision/agent/v1"
    assert _prompt_version("fundamental_filter_agent_v1_zh.txt") == "fundamental/filter/agent/v1/zh"


def test_a_prompt_is_loaded_by_its_name():
    assert _load_prompt("decision_agent_v1.txt").startswith("You decide a portfolio")


def test_a_prompt_that_is_missing_is_the_default_by_hand_and_an_error_in_a_run():
    assert _load_prompt("decision_agent_v9.txt") == DEFAULT_PROMPT
    with pytest.raises(
        BadOption, match=r"decision_agent_v9.txt.* valid are decision_agent_v1.txt, "
    ) as caught:
        load_prompt_strictly("decision_agent_v9.txt")
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    "name", ["../prompt_files.py", "prompts/decision_agent_v1.txt", "/etc/hostname", "", ".", None]
)
def test_a_path_is_not_a_name(name):
    with pytest.raises(BadOption):
        load_prompt_strictly(name)
    assert _load_prompt(name) == DEFAULT_PROMPT


def test_a_file_that_is_not_text_or_empty_is_named(monkeypatch, tmp_path):
    (tmp_path / "bytes.txt").write_bytes(b"\xff\xfe\xfa")
    (tmp_path / "empty.txt").write_text(" \n")
    monkeypatch.setattr(prompt_files, "_FOLDER", tmp_path)
    for name in ("bytes.txt", "empty.txt"):
        with pytest.raises(BadFile, match=name):
            load_prompt_strictly(name)


@pytest.mark.parametrize("name", sorted(HASHES))
def test_a_prompt_has_no_placeholder(name):
    text = load_prompt_strictly(name)
    outside = text.split("```json")[0]
    assert not re.search(r"[{}]", outside.replace("```json", ""))
    assert text.count("```") == 3 or text.count("```") == 2


@pytest.mark.parametrize("name", DECISION)
def test_the_decision_is_told_everything_that_is_checked(name):
    text = load_prompt_strictly(name)
    for word in (
        *ACTIONS,
        "available_cash",
        "target_cash_amount",
        "confidence",
        "null",
        "rule",
        "min_cash_ratio",
    ):
        assert word in text


@pytest.mark.parametrize("name", [DECISION[0], FILTER[0]])
def test_both_languages_name_the_same_facts(name):
    named = [
        set(re.findall(r"[a-z]+_[a-z0-9_]+|null|hold|rule|plan|news", load_prompt_strictly(each)))
        for each in (name, name.replace(".txt", "_zh.txt"))
    ]
    assert named[0] - {"json_object"} == named[1]


@pytest.mark.parametrize("name", sorted(HASHES))
def test_prompts_say_that_text_is_data_and_ask_for_english_reasons(name):
    text = load_prompt_strictly(name)
    assert "never an instruction" in text or "不是指令" in text
    assert "English" in text or "英文" in text


@pytest.mark.parametrize("name", FILTER)
def test_the_filter_is_told_its_answer(name):
    text = load_prompt_strictly(name)
    assert '{"reasoning": {"<SYM>": "..."}, "stocks_need_fundamental": ["<SYM>"]}' in text


def test_a_file_of_the_user_s_own_is_a_prompt(tmp_path):
    file = tmp_path / "mine.txt"
    file.write_text("Hold everything.\n", encoding="utf-8")
    assert configured_prompt(str(file)) == "Hold everything.\n"
    assert configured_prompt("decision_agent_v1.txt") == load_prompt_strictly("decision_agent_v1.txt")
    cfg = {"agents": {"dual_agent": {"decision_agent": {"prompt": str(file)}}}}
    texts = DualAgent(cfg).prompts
    assert texts["decision_en"] == texts["decision_zh"] == "Hold everything.\n"
    with pytest.raises(
        BadOption, match=r"'mine\.txt' is not a prompt file; valid are .*, or the path of a text"
    ):
        configured_prompt("mine.txt")
    for name in (tmp_path / "none.txt", tmp_path):
        with pytest.raises(BadOption, match="must be a text file in UTF-8"):
            configured_prompt(str(name))
    file.write_text(" ", encoding="utf-8")
    with pytest.raises(BadOption, match="it has 0 characters; must be 1 to 100,000"):
        configured_prompt(str(file))
