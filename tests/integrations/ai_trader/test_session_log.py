"""AI-Trader's log of a session, in both forms."""

from __future__ import annotations

import json

from quantgraph.integrations.ai_trader._replay import SessionMessage, session_log

SAID = [
    SessionMessage(role="user", content="Begin."),
    SessionMessage(role="assistant", content="买入 \u2028", of_step=True),
    SessionMessage(role="user", content="Tool results: 1\n2", of_step=True),
    SessionMessage(role="assistant", content="Done, 49,449 cash."),
]


def test_a_line_is_a_role_and_its_content():
    lines = [json.loads(line) for line in session_log(SAID).split(b"\n")[:-1]]
    assert [(each["role"], each["content"]) for each in lines] == [(each.role, each.content) for each in SAID]


def test_the_public_form_has_lists_for_the_first_and_the_last_and_objects_for_steps():
    lines = [json.loads(line) for line in session_log(SAID, "ai-trader", signature="s").split(b"\n")[:-1]]
    assert {each["signature"] for each in lines} == {"s"}
    assert [type(each["new_messages"]) for each in lines] == [list, dict, dict, list]


def test_text_that_utf_8_does_not_have_is_escaped():
    line = session_log([SessionMessage(role="user", content="a\udcff")])
    assert line == b'{"role": "user", "content": "a\\udcff"}\n'
