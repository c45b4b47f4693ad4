"""The prompts of the signal nodes, as files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from signal_panels import market_panel

from quantgraph.agents import SignalRule
from quantgraph.audit.meaning import ExpectedSignal, check_meaning
from quantgraph.llm.messages import read_json
from quantgraph.sentences import RequestContext, read_request
from quantgraph.sentences.evaluation import RuleData, rule_readings
from quantgraph.subgraphs.signal._agents import ReflectionReply, ReviewReply, prompt_text
from quantgraph.subgraphs.signal._plan import executed_plan
from quantgraph.subgraphs.signal._proof import _asserts_signal


@pytest.mark.parametrize("name", ["reflection", "signal_generate", "validation"])
def test_both_languages_have_the_same_placeholders(name):
    placeholders = [set(re.findall(r"(?<!{){(\w+)}(?!})", prompt_text(name, each))) for each in ("en", "zh")]
    assert placeholders[0] == placeholders[1] != set()


@pytest.mark.parametrize("name", ["signal_generate", "validation"])
def test_a_prompt_is_in_one_language(name):
    assert not re.search(r"[\u4e00-\u9fff]", prompt_text(name, "en"))
    words = re.findall(r"[\u4e00-\u9fff]", prompt_text(name, "zh"))
    assert len(words) > 300


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_example_of_a_review_is_a_reply_that_is_read(language):
    (example,) = re.findall(
        r"```json\n(.*?)```",
        prompt_text("validation", language).format(validation_type="signal", expected_fields="[]"),
        re.DOTALL,
    )
    (issue,) = read_json(f"```json\n{example}```", ReviewReply).issues_found
    assert (issue.severity, issue.expected) == ("error", 1)
    assert _asserts_signal(issue.cell)


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_example_of_a_reading_is_a_reply_whose_plan_is_carried_out(language):
    (example,) = re.findall(r"```json\n(\{.*?)```", prompt_text("reflection", language), re.DOTALL)
    text = example.replace("{{", "{").replace("}}", "}")
    params = read_json(f"```json\n{text}```", ReflectionReply).user_intent.params
    assert executed_plan(params.plan, SignalRule().executes) == ({"stop_loss": "0.08"}, {})
    assert [each.part for each in params.clauses].count("plan") == 1


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_example_of_code_is_five_lines_that_do_what_its_words_say(language, ran):
    text = prompt_text("signal_generate", language).format(
        available_ohlcv="", available_indicators="", strategy_description=""
    )
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) == 5
    frames = market_panel(suspended=True)
    said = "收盘价上穿20日均线买入，收盘价低于20日均线卖出"
    rule = read_request(said, RequestContext()).strategy
    signal = ran(code, frames)
    close = frames["ohlcv"]["close"]
    meant = ExpectedSignal(sentence=said, lookback=21)
    assert check_meaning(signal, close, meant, rule_readings(rule, RuleData(bars=frames["ohlcv"]))) == ()


@pytest.fixture
def ran():
    def run(code, frames):
        made = {}

        class State:
            update = staticmethod(lambda panel, signals: made.update(signals))

        exec(code, {"snapshot": frames, "GLOBAL_DATA_STATE": State, "pd": pd, "np": np})
        return made["cross_ma20"]

    return run
