"""AI-Trader's config file: read strictly, each fault in one line."""

from __future__ import annotations

import copy
import json
import traceback
from pathlib import Path

import pytest

from quantgraph.errors import BadFile, BadOption
from quantgraph.integrations.ai_trader._config import check_signature, read_trader_config

PUBLIC = {
    "agent_type": "BaseAgent",
    "market": "us",
    "date_range": {"init_date": "2025-10-01", "end_date": "2025-10-21"},
    "models": [
        {
            "name": "claude-3.7-sonnet",
            "basemodel": "anthropic/claude-3.7-sonnet",
            "signature": "claude-3.7-sonnet",
            "enabled": False,
            "openai_base_url": "Optional: YOUR_OPENAI_BASE_URL,you can write them in .env file",
            "openai_api_key": "Optional: YOUR_OPENAI_API_KEY,you can write them in .env file",
        },
        {"name": "gpt-5", "basemodel": "openai/gpt-5", "signature": "gpt-5", "enabled": True},
    ],
    "agent_config": {"max_steps": 30, "max_retries": 3, "base_delay": 1.0, "initial_cash": 10000.0},
    "log_config": {"log_path": "./data/agent_data"},
}
"""The shape of a public config, with its placeholders."""


def written(path: Path, change=lambda config: None) -> Path:
    config = copy.deepcopy(PUBLIC)
    change(config)
    file = path / "config.json"
    file.write_text(json.dumps(config), encoding="utf-8")
    return file


def set_at(*path, value):
    def change(config):
        *inner, last = path
        for key in inner:
            config = config[key]
        config[last] = value

    return change


def refusal(file: Path) -> str:
    with pytest.raises((BadFile, BadOption)) as caught:
        read_trader_config(file)
    assert "\n" not in caught.value.line
    return caught.value.message


def test_a_public_config_is_read_whole(tmp_path):
    config = read_trader_config(written(tmp_path))
    assert (config.market, config.init_date, config.end_date) == ("us", "2025-10-01", "2025-10-21")
    assert (config.max_steps, config.max_retries, config.base_delay) == (30, 3, 1.0)
    assert (config.initial_cash, config.log_path) == (10_000.0, Path("data/agent_data"))
    assert config.chosen()[0].basemodel == "openai/gpt-5"
    assert [each.openai_api_key for each in config.models] == [None, None]
    assert config.without_effect == (
        "models[0].openai_api_key (a placeholder)",
        "models[0].openai_base_url (a placeholder)",
    )


def test_keys_that_change_nothing_are_named(tmp_path):
    def change(config):
        config["agent_config"]["verbose"] = True
        config["_comment"] = "ours"

    named = read_trader_config(written(tmp_path, change)).without_effect
    assert set(named) >= {"agent_config.verbose", "_comment"}


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (set_at("agent_config", "max_step", value=5), "did you mean 'max_steps'?"),
        (set_at("modles", value=[]), "did you mean 'models'?"),
        (set_at("models", 1, "base_model", value="x"), "did you mean 'basemodel'?"),
        (set_at("stop_loss", value=0.1), "valid are agent_type, market"),
        (set_at("agent_type", value="BaseAgent_Hour"), "trades hours"),
        (set_at("agent_type", value="BaseAgentAStock_Hour"), "trades hours"),
        (set_at("agent_type", value="BaseAgentCrypto"), "trades crypto currencies"),
        (set_at("agent_type", value=7), "one of BaseAgent, BaseAgentAStock"),
        (set_at("market", value="crypto"), "not traded here"),
        (set_at("market", value="US"), "us or cn"),
        (set_at("agent_type", value="BaseAgentAStock"), "exclude each other"),
        (set_at("models", 1, "enabled", value=False), "no model is enabled"),
        (set_at("models", 1, "enabled", value="yes"), "true or false"),
        (set_at("models", value=[]), "a list of models"),
        (set_at("date_range", "end_date", value="2025-09-30"), "must be after init_date=2025-10-01"),
        (set_at("date_range", "end_date", value="2025-10-01"), "must be after init_date=2025-10-01"),
        (set_at("date_range", "init_date", value="2025/10/01"), "YYYY-MM-DD"),
        (set_at("date_range", "init_date", value="20251001"), "YYYY-MM-DD"),
        (set_at("date_range", "init_date", value="2025-10-01 09:30:00"), "YYYY-MM-DD"),
        (set_at("date_range", "init_date", value="2025-02-30"), "YYYY-MM-DD"),
        (set_at("date_range", "init_date", value=20251001), "YYYY-MM-DD"),
        (set_at("date_range", value={}), "init_date is missing"),
        (set_at("date_range", value=None), "date_range is missing"),
        (set_at("agent_config", "initial_cash", value=0), "above 0"),
        (set_at("agent_config", "initial_cash", value="10000"), "above 0"),
        (set_at("agent_config", value=[]), "a JSON object"),
        (set_at("models", 1, "basemodel", value=""), "basemodel"),
        (set_at("models", 1, "openai_base_url", value="https://u:hidden@host/v1"), "openai_base_url"),
        (set_at("models", 1, "openai_base_url", value="https://host/v1?key=hidden"), "openai_base_url"),
        (set_at("models", 1, "openai_base_url", value="host:hidden"), "openai_base_url"),
        (set_at("models", 1, "openai_api_key", value="hidden\nX-Header: 1"), "openai_api_key"),
        (
            set_at("models", 1, "openai_api_key", value=["hidden"]),
            "openai_api_key is this value; must be a text",
        ),
        (set_at("models", 1, "openai_base_url", value=["hidden"]), "openai_base_url is this value; must be"),
        (
            set_at("models", value={"gpt-5": {"openai_api_key": "hidden"}}),
            "models is an object; must be a list",
        ),
        (set_at("models", 1, value=["hidden"]), "models[1] is a list; must be a list of models, each a JSON"),
        (set_at("models", 1, "openai_apikey", value="hidden"), "did you mean 'openai_api_key'?"),
        (set_at("agent_config", "initial_cash", value=10**400), "above 0"),
        (set_at("agent_config", "max_steps", value="30"), "max_steps is '30'; must be a whole number"),
        (set_at("log_config", "log_path", value="a\0b"), "log_config.log_path"),
    ],
)
def test_a_bad_value_is_one_line_that_names_its_key_and_shows_no_secret(tmp_path, change, said):
    with pytest.raises(BadOption) as caught:
        read_trader_config(written(tmp_path, change))
    assert said in caught.value.message
    assert "\n" not in caught.value.line
    assert "hidden" not in "".join([caught.value.line, *traceback.format_exception(caught.value)])
    assert caught.value.__context__ is None


def test_a_model_without_signature_and_name_has_one_fault(tmp_path):
    nameless = refusal(written(tmp_path, set_at("models", 1, value={"basemodel": "x"})))
    assert nameless == "models[1].signature is missing; must be a text, the name of a folder"


def test_several_faults_are_in_the_one_line(tmp_path):
    def change(config):
        config["modles"] = config.pop("models")
        config["market"] = "crypto"

    assert refusal(written(tmp_path, change)) == (
        "market is 'crypto'; must be us or cn; crypto is not traded here; models is missing; must be a list of "
        "models, each a JSON object; modles is not a key; did you mean 'models'?"
    )


@pytest.mark.parametrize(
    "signature",
    [
        *("..", ".", "", "../up", "a/b", "a\\b", "/etc", "C:\\x", "c:x", "~", " a", "a ", "a.", ".hidden"),
        *("CON", "nul", "Aux.txt", "com1", "LPT9.log", "a\x00b", "a\nb", "a\u202eb", "a\u200bb", "\ud800"),
        *("a*b", "a?b", "x" * 101, 7, None),
    ],
)
def test_a_signature_cannot_leave_the_folder(tmp_path, signature):
    with pytest.raises(BadOption) as caught:
        check_signature(signature)
    assert "\n" not in caught.value.line
    if not isinstance(signature, str) or "\ud800" not in signature:
        assert "signature" in refusal(written(tmp_path, set_at("models", 1, "signature", value=signature)))


@pytest.mark.parametrize("signature", ["gpt-5", "claude-3.7-sonnet", "通义千问", "a b", "console", "com10"])
def test_the_names_of_models_are_signatures(signature):
    assert check_signature(signature) == signature


@pytest.mark.parametrize("other", ["gpt-5", "GPT-5", "ｇpt-5"])
def test_two_models_cannot_share_a_folder(tmp_path, other):
    def change(config):
        config["models"].append({"name": "again", "basemodel": "x", "signature": other})

    assert "signature" in refusal(written(tmp_path, change))


def test_of_several_enabled_models_all_or_one_is_chosen(tmp_path):
    config = read_trader_config(written(tmp_path, set_at("models", 0, "enabled", value=True)))
    assert [each.signature for each in config.chosen()] == ["claude-3.7-sonnet", "gpt-5"]
    assert [each.basemodel for each in config.chosen("gpt-5")] == ["openai/gpt-5"]
    with pytest.raises(BadOption, match=r"signature='gpt'; enabled are claude-3\.7-sonnet, gpt-5"):
        config.chosen("gpt")


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"", "not JSON"),
        (b"{", "not JSON"),
        (b'{"models": [], "models": []}', "'models' twice"),
        (b"\xff\xfe{}", "not UTF-8"),
        (b"[]", "must be a JSON object"),
        (b"[" * 100_000, "nested too deep"),
        (b'{"models": ' * 5_000 + b"[]" + b"}" * 5_000, "nested too deep"),
        (b" " * 10_000_000, "10,000,000 bytes"),
        (b'{"agent_config": {"initial_cash": NaN}, "date_range": {}}', "init_date"),
    ],
)
def test_what_is_no_config_is_one_line(tmp_path, content, said):
    file = tmp_path / "config.json"
    file.write_bytes(content)
    assert said in refusal(file)


def test_a_file_that_is_not_there_is_named(tmp_path):
    assert "none.json cannot be read" in refusal(tmp_path / "none.json")
    assert "cannot be read" in refusal(tmp_path)


def test_a_key_does_not_show(tmp_path):
    config = read_trader_config(
        written(tmp_path, set_at("models", 1, "openai_api_key", value="sk-hidden-0123456789"))
    )
    assert config.chosen()[0].openai_api_key.get_secret_value() == "sk-hidden-0123456789"
    assert "hidden" not in repr(config)


def test_the_market_of_mainland_agents_and_its_cash(tmp_path):
    def change(config):
        del config["market"], config["agent_config"]["initial_cash"]
        config["agent_type"] = "BaseAgentAStock"

    config = read_trader_config(written(tmp_path, change))
    assert (config.market, config.initial_cash) == ("cn", 100_000.0)
