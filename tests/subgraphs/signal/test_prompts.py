"""The prompts of the signal nodes, as files."""

from __future__ import annotations

import re

import numpy as np
import pandas as pd
import pytest
from signal_panels import market_panel

from quantgraph.agents import SignalRule
from quantgraph.audit.meaning import compare_positions
from quantgraph.llm.messages import read_json
from quantgraph.rules import ROWS, Rule, RuleEvaluator
from quantgraph.subgraphs.signal._agents import ReflectionReply, ReviewReply, prompt_text, rule_in
from quantgraph.subgraphs.signal._plan import with_plan
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
    assert with_plan(params.model_dump(), SignalRule().executes)["plan"] == {"stop_loss": "0.08"}
    assert [each.part for each in params.clauses].count("plan") == 1
    buys, sells = rule_in(params.model_dump()).expressions
    assert buys == "cross_up(sma(close, 5), sma(close, 20)) and not volume < sma(volume, 10)"
    assert sells == "cross_down(sma(close, 5), sma(close, 20))"


def test_the_prompt_of_a_reading_has_every_name_of_the_language():
    names = set(re.findall(r"\w+", prompt_text("reflection", "en")))
    assert names >= {*ROWS, "of", "index"}


@pytest.mark.parametrize("language", ["en", "zh"])
def test_the_example_of_code_is_five_lines_that_do_what_its_words_say(language, ran, store):
    text = prompt_text("signal_generate", language).format(
        available_ohlcv="", available_indicators="", strategy_description=""
    )
    (code,) = re.findall(r"```python\n(.*?)```", text, re.DOTALL)
    assert len(code.splitlines()) == 5
    frames = market_panel(suspended=True)
    rule = Rule.read("cross_up(close, sma(close, 20))", "close < sma(close, 20)")
    meant = RuleEvaluator(store.snapshot(store.update("ohlcv", frames["ohlcv"]))).signal(rule)
    close = frames["ohlcv"]["close"]
    assert compare_positions(ran(code, frames), meant, close, lookback=21) is None


@pytest.fixture
def ran():
    def run(code, frames):
        made = {}

        class State:
            update = staticmethod(lambda panel, signals: made.update(signals))

        exec(code, {"snapshot": frames, "GLOBAL_DATA_STATE": State, "pd": pd, "np": np})
        return made["cross_ma20"]

    return run
