"""The prompts of the signal nodes, as files."""

from __future__ import annotations

import re

import pytest

from quantgraph.subgraphs.signal._prompts import prompt_text


@pytest.mark.parametrize("name", ["reflection", "signal_generate", "validation"])
def test_both_languages_have_the_same_placeholders(name):
    placeholders = [set(re.findall(r"(?<!{){(\w+)}(?!})", prompt_text(name, each))) for each in ("en", "zh")]
    assert placeholders[0] == placeholders[1] != set()
