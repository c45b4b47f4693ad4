"""Prices of models."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pytest

from quantgraph.errors import BadFile
from quantgraph.llm import role_model
from quantgraph.llm._model_call import load_prices, price_of
from quantgraph.recording import Recorder
from quantgraph.recording.scope import Scope, in_scope
from quantgraph.settings import load_settings
from quantgraph.testing import OpenAIStub, Reply


def test_a_cost_is_exact() -> None:
    price = price_of("gpt-4o-mini-2024-07-18")
    assert price is not None
    # 12,345 tokens at 0.15 and 678 at 0.60 dollars a million.
    assert price.cost(12_345, 678) == Decimal("0.00185175") + Decimal("0.0004068")


def test_the_planner_is_free_and_an_unknown_model_has_no_price() -> None:
    planner = price_of("quantgraph-keyless-planner")
    assert planner is not None
    assert planner.cost(10**6, 10**6) == 0
    assert price_of("my-model") is None


def test_a_file_adds_and_overrides(tmp_path: Path) -> None:
    path = tmp_path / "prices.toml"
    path.write_text('[my-model]\nprompt = 0.1\ncompletion = 2\n\n["gpt-4.1"]\nprompt = 0\ncompletion = 0\n')
    prices = load_prices(path)
    assert price_of("my-model", prices) == (Decimal("0.1"), Decimal(2))
    assert price_of("gpt-4.1", prices) == (0, 0)
    assert price_of("gpt-4o", prices) == price_of("gpt-4o")


@pytest.mark.parametrize(
    "text",
    [
        "my-model = 1",
        "[m]\nprompt = 1",
        "[m]\nprompt = 1\ncompletion = -1",
        "[m]\nprompt = 1\ncompletion = nan",
    ],
)
def test_an_invalid_price_is_an_error_with_an_example(tmp_path: Path, text: str) -> None:
    path = tmp_path / "prices.toml"
    path.write_text(text)
    with pytest.raises(BadFile, match=r"needs prompt and completion.* like \[\"m"):
        load_prices(path)


def test_a_missing_or_invalid_price_file_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(BadFile, match="cannot be read: No such file"):
        load_prices(tmp_path / "prices.toml")
    (tmp_path / "prices.toml").write_text("=")
    with pytest.raises(BadFile, match="is not readable TOML"):
        load_prices(tmp_path / "prices.toml")


def test_the_planners_calls_take_no_tokens_and_cost_nothing() -> None:
    recording = Recorder().of("r")
    with in_scope(Scope(recording=recording, path="n")):
        role_model("clarify", model="keyless", settings=load_settings()).invoke("Hi")
    (row,) = recording.usage()
    assert (row["prompt_tokens"], row["cost"]) == (0, "0")


def test_a_run_counts_with_the_prices_of_the_settings(tmp_path: Path) -> None:
    (tmp_path / "prices.toml").write_text("[mine]\nprompt = 3\ncompletion = 4\n")
    recording = Recorder().of("r")
    with (
        OpenAIStub([Reply(content="yes", usage=(1000, 500))]) as stub,
        in_scope(Scope(recording=recording, path="n")),
    ):
        settings = load_settings(
            openai_api_key="sk-test",
            openai_base_url=stub.base_url,
            model="mine",
            prices=tmp_path / "prices.toml",
        )
        role_model("clarify", model=None, settings=settings).invoke("Hi")
    assert [(row["role"], row["cost"]) for row in recording.usage()] == [("clarify", "0.005")]
