"""What is said at the end of a run that is not done."""

from __future__ import annotations

from typing import get_args

import pytest

from quantgraph._util.texts import language_of
from quantgraph.runtime.endings._endings import closing_text
from quantgraph.runtime.graph_state import EndedBecause


@pytest.mark.parametrize("language", ["zh", "en"])
@pytest.mark.parametrize("because", sorted({*get_args(EndedBecause)} - {"done"}))
def test_every_ending_says_in_the_users_language_what_happened_and_what_to_do_next(because, language):
    told = closing_text(because, f"{because}: 600519.SH", language)
    head = f"未完成（{because}）：" if language == "zh" else f"Not done ({because}): "
    what, detail, then = told.removeprefix(head).partition("600519.SH")
    assert told.startswith(head)
    assert [language_of(text) for text in (what, then) if text] == [language, language]
    assert then.endswith("。" if language == "zh" else ".")
    assert detail
