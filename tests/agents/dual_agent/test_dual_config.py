"""The configuration: every documented key is read, and what is not valid is one line."""

import pytest

from quantgraph.agents.dual_agent._config import read_config
from quantgraph.errors import BadOption

DOCUMENTED = {
    "llm": {
        "provider": "openai",
        "base_url": "https://api.openai.com/v1",
        "model": "gpt-4o-mini",
        "temperature": 0.7,
        "max_tokens": 8000,
        "seed": 42,
        "timeout_sec": 60,
        "retry": {"max_retries": 3, "backoff_factor": 0.5},
        "cache": {"enabled": True, "ttl_hours": 24},
        "budget": {"max_prompt_tokens": 200000, "max_completion_tokens": 200000},
    },
    "agents": {
        "dual_agent": {
            "decision_agent": {
                "prompt": "decision_agent_v1.txt",
                "model": "other",
                "temperature": 0.2,
                "max_tokens": 4000,
            }
        },
        "retry": {"max_attempts": 3},
    },
    "portfolio": {"total_cash": 100000, "min_cash_ratio": 0.1},
    "cache": {"mode": "full"},
}


def test_every_documented_key_reaches_the_settings_of_its_role():
    config = read_config(DOCUMENTED)
    decides, filters = config.llm_config("decision"), config.llm_config("filter")
    settings = decides.settings("decision")
    assert settings.model_for("decision") == "other"
    assert settings.parameters_for("decision") == {"temperature": 0.2, "max_tokens": 4000, "seed": 42}
    assert filters.settings("filter").model_for("filter") == "gpt-4o-mini"
    assert filters.settings("filter").parameters_for("filter") == {
        "temperature": 0.7,
        "max_tokens": 8000,
        "seed": 42,
    }
    assert (settings.request_timeout, settings.max_attempts) == (60, 4)
    assert (settings.llm_cache, settings.llm_cache_ttl_hours) == ("full", 24)
    assert set(decides.budget.model_dump().values()) == {200_000}
    assert (config.max_attempts, config.portfolio.min_cash_ratio) == (3, 0.1)


def test_a_half_filled_configuration_leaves_the_rest_to_the_settings(monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_MODEL", "from-the-settings")
    settings = read_config({"llm": {}}).llm_config("decision").settings("decision")
    assert settings.model_for("decision") == "from-the-settings"
    assert settings.temperature == 0.0


def test_a_cache_that_is_not_enabled_is_off():
    config = read_config({"llm": {"cache": {"enabled": False}}, "cache": {"mode": "full"}})
    assert config.llm_config("decision").settings("decision").llm_cache == "off"


@pytest.mark.parametrize(
    ("cfg", "told"),
    [
        ({"lm": {}}, "lm is not a key; did you mean 'llm'?"),
        ({"llm": {"retry": {"max_retry": 1}}}, "did you mean 'max_retries'?"),
        ({"llm": {"zzz": 1}}, "llm.zzz is not a key; valid are"),
        ({"llm": {"provider": "anthropic"}}, "llm.provider: Input should be 'openai'"),
        ({"portfolio": {"min_cash_ratio": 1.5}}, "portfolio.min_cash_ratio: Input should be less than 1"),
        ({"agents": {"retry": {"max_attempts": 0}}}, "greater than or equal to 1"),
        ({"cache": {"mode": "on"}}, "'off', 'llm_write_only' or 'full'"),
        ([1], "cfg must be a mapping"),
    ],
)
def test_what_is_not_valid(cfg, told):
    with pytest.raises(BadOption) as caught:
        read_config(cfg)
    assert told in caught.value.message
    assert "\n" not in caught.value.message
