from __future__ import annotations

import logging
import os
import pickle
import traceback
from pathlib import Path

import pytest
from pydantic import ValidationError

from quantgraph.errors import BadFile, BadOption
from quantgraph.settings import ROLES, AuditOptions, Settings, TableOptions, check_role, load_settings

KEY = "sk-test-0123456789-secret"
TOKEN = "tushare-token-0123456789"


@pytest.fixture(autouse=True)
def bare_folder(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Path:
    for name in list(os.environ):
        if name.upper().startswith(("QUANTGRAPH_", "OPENAI_", "TUSHARE_")):
            monkeypatch.delenv(name)
    monkeypatch.chdir(tmp_path)
    return tmp_path


def test_defaults_need_no_configuration() -> None:
    settings = load_settings()
    assert settings.openai_api_key is None
    assert settings.model is None
    assert settings.models == {}
    assert (settings.temperature, settings.request_timeout, settings.max_attempts) == (0.0, 60.0, 3)
    assert (settings.runs_dir, settings.data_source) == (Path("runs"), "sample")
    assert (settings.code_timeout, settings.code_memory_mb) == (30.0, 2048)
    assert settings.cache_dir.name == "quantgraph"


def test_loading_makes_no_file_or_folder(bare_folder: Path) -> None:
    load_settings(cache_dir=bare_folder / "cache")
    assert list(bare_folder.iterdir()) == []


def test_argument_beats_environment_beats_dotenv_beats_toml_beats_default(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen = [load_settings().model]
    (bare_folder / "quantgraph.toml").write_text('model = "from-toml"')
    seen.append(load_settings().model)
    (bare_folder / ".env").write_text("QUANTGRAPH_MODEL=from-dotenv")
    seen.append(load_settings().model)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "from-environment")
    seen.append(load_settings().model)
    seen.append(load_settings(model="from-argument").model)
    assert seen == [None, "from-toml", "from-dotenv", "from-environment", "from-argument"]


def test_an_argument_of_none_overrides_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    assert load_settings(openai_api_key=None).openai_api_key is None


def test_vendor_variables_have_no_prefix(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("TUSHARE_TOKEN", TOKEN)
    monkeypatch.setenv("OPENAI_API_BASE", "http://old.example/v1")
    settings = load_settings()
    assert settings.openai_api_key is not None
    assert settings.openai_api_key.get_secret_value() == KEY
    assert settings.tushare_token is not None
    assert settings.tushare_token.get_secret_value() == TOKEN
    assert settings.openai_base_url == "http://old.example/v1"
    monkeypatch.setenv("OPENAI_BASE_URL", "http://new.example/v1/")
    assert load_settings().openai_base_url == "http://new.example/v1"


def test_either_base_url_variable_beats_toml(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_folder / "quantgraph.toml").write_text('openai_base_url = "http://toml.example/v1"')
    monkeypatch.setenv("OPENAI_API_BASE", "http://env.example/v1")
    assert load_settings().openai_base_url == "http://env.example/v1"


@pytest.mark.parametrize("empty", ["", "   "])
def test_an_empty_variable_counts_as_not_set(empty: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("OPENAI_API_KEY", "OPENAI_BASE_URL", "QUANTGRAPH_MODEL", "QUANTGRAPH_REQUEST_TIMEOUT"):
        monkeypatch.setenv(name, empty)
    settings = load_settings()
    assert (settings.openai_api_key, settings.openai_base_url, settings.model) == (None, None, None)
    assert settings.request_timeout == 60.0


def test_a_key_with_a_line_break_is_trimmed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", f"{KEY}\n")
    key = load_settings().openai_api_key
    assert key is not None
    assert key.get_secret_value() == KEY


def test_models_of_roles_merge_from_all_sources(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_folder / "quantgraph.toml").write_text(
        '[models]\nfilter = "toml-f"\ndecision = {name = "toml-d", seed = 1}\ntrader = "toml-t"'
    )
    (bare_folder / ".env").write_text('QUANTGRAPH_MODELS={"decision": "dotenv-d", "filter": "dotenv-f"}')
    monkeypatch.setenv("QUANTGRAPH_MODELS", '{"filter": "env-f", "trader": ""}')
    settings = load_settings(models={"clarify": "argument-c"})
    assert settings.models["decision"].seed == 1, "another name leaves the other keys"
    assert {role: model.name for role, model in settings.models.items()} == {
        "filter": "env-f",
        "decision": "dotenv-d",
        "trader": "toml-t",
        "clarify": "argument-c",
    }


def test_a_role_has_its_own_model_or_that_of_all() -> None:
    settings = load_settings(model="big", models={"validation": "own", "filter": {"seed": 1}})
    names = [settings.model_for(role) for role in ("validation", "filter", "reflection")]
    assert names == ["own", "big", "big"]
    assert load_settings().model_for("trader") is None


def test_roles_are_the_nine_of_the_design() -> None:
    assert ROLES == (
        "reflection", "data_fetch", "signal_generate", "validation", "clarify",
        "filter", "decision", "execution", "trader",
    )  # fmt: skip


def test_an_unknown_role_gets_a_suggestion() -> None:
    assert check_role("trader") == "trader"
    with pytest.raises(BadOption, match="did you mean 'validation'"):
        check_role("validate")


@pytest.mark.parametrize("name", ["dip_reader", "judge", "news_filter", "a2"])
def test_a_decider_may_name_a_role_of_its_own_and_settings_take_it(name: str) -> None:
    settings = load_settings(models={name: {"name": "own", "seed": 3}})
    assert (check_role(name), settings.model_for(name), settings.parameters_for(name)["seed"]) == (
        name,
        "own",
        3,
    )


@pytest.mark.parametrize("name", ["Judge", "", "a b", "2nd", "x" * 41, "reader", "grader"])
def test_what_is_no_name_or_like_one_of_ours_is_refused_with_the_rule(name: str) -> None:
    with pytest.raises(BadOption, match=r"of a-z, 0-9 and _, at most 40, .* as my_judge"):
        check_role(name)
    with pytest.raises(BadOption, match="argument models: role "):
        load_settings(models={name: "x"})


@pytest.mark.parametrize("place", ["environment", ".env"])
def test_an_unknown_role_in_a_variable_is_an_error(
    place: str, bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    if place == "environment":
        monkeypatch.setenv("QUANTGRAPH_MODELS", '{"validate": "x"}')
    else:
        (bare_folder / ".env").write_text('QUANTGRAPH_MODELS={"validate": "x"}')
    with pytest.raises(BadOption) as caught:
        load_settings()
    assert str(caught.value).startswith(
        f"QUANTGRAPH_MODELS ({place}): role 'validate' is not known; did you mean 'validation'?"
    )


def test_an_unknown_toml_key_is_one_line_with_a_suggestion(bare_folder: Path) -> None:
    (bare_folder / "quantgraph.toml").write_text('modle = "x"')
    with pytest.raises(BadOption) as caught:
        load_settings()
    assert str(caught.value) == "quantgraph.toml: key 'modle' is not known; did you mean 'model'?"
    (bare_folder / "quantgraph.toml").write_text('[models]\ndesicion = "x"')
    with pytest.raises(BadOption, match=r"quantgraph.toml: models: role 'desicion' .* mean 'decision'"):
        load_settings()


def test_an_unknown_argument_gets_a_suggestion() -> None:
    with pytest.raises(BadOption, match="'max_attempt' is not known; did you mean 'max_attempts'"):
        load_settings(max_attempt=2)
    with pytest.raises(BadOption, match="did you mean 'filter'"):
        load_settings(models={"filtre": "x"})


def test_toml_can_be_elsewhere(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    elsewhere = bare_folder / "conf" / "mine.toml"
    elsewhere.parent.mkdir()
    elsewhere.write_text('\ufeffmodel = "elsewhere"', encoding="utf-8")
    (bare_folder / "quantgraph.toml").write_text('model = "here"')
    monkeypatch.setenv("QUANTGRAPH_CONFIG", str(elsewhere))
    assert load_settings().model == "elsewhere"
    monkeypatch.setenv("QUANTGRAPH_CONFIG", str(bare_folder / "no.toml"))
    with pytest.raises(BadOption, match=r"QUANTGRAPH_CONFIG: .*no\.toml is not a file"):
        load_settings()


def test_dotenv_of_a_parent_folder_is_not_read(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_folder / ".env").write_text("QUANTGRAPH_MODEL=parent")
    (bare_folder / "child").mkdir()
    monkeypatch.chdir(bare_folder / "child")
    assert load_settings().model is None


def test_other_programs_variables_in_dotenv_do_no_harm(bare_folder: Path) -> None:
    (bare_folder / ".env").write_text("DATABASE_URL=postgres://x\nQUANTGRAPH_MODEL=mine\nNAME_ALONE\n")
    assert load_settings().model == "mine"


@pytest.mark.parametrize(
    ("name", "raw"),
    [("quantgraph.toml", b"model = "), ("quantgraph.toml", b'model = "\xff"'), (".env", b"A=\xff")],
)
def test_an_unreadable_file_is_named(name: str, raw: bytes, bare_folder: Path) -> None:
    (bare_folder / name).write_bytes(raw)
    with pytest.raises(BadFile) as caught:
        load_settings()
    assert name in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("variable", "value", "valid"),
    [
        ("QUANTGRAPH_REQUEST_TIMEOUT", "soon", "seconds above 0"),
        ("QUANTGRAPH_REQUEST_TIMEOUT", "inf", "seconds above 0"),
        ("QUANTGRAPH_TEMPERATURE", "nan", "a number from 0 to 2"),
        ("QUANTGRAPH_MAX_ATTEMPTS", "0", "a whole number from 1 to 20"),
        ("QUANTGRAPH_CODE_MEMORY_MB", "1.5", "megabytes, at least 64"),
        ("OPENAI_BASE_URL", "localhost:11434", r"an http\(s\) URL"),
    ],
)
def test_a_wrong_value_names_its_variable_and_what_is_valid(
    variable: str, value: str, valid: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(variable, value)
    with pytest.raises(BadOption, match=rf"^{variable} \(environment\): .*{valid}") as caught:
        load_settings()
    assert "\n" not in str(caught.value)


def test_a_wrong_value_is_traced_to_dotenv_toml_or_argument(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (bare_folder / "quantgraph.toml").write_text("[models]\nfilter = 3")
    with pytest.raises(BadOption, match=r"^filter of models \(quantgraph\.toml\): 3 is not valid"):
        load_settings()
    (bare_folder / "quantgraph.toml").write_text("max_attempts = 99")
    with pytest.raises(BadOption, match=r"^max_attempts \(quantgraph\.toml\): 99 is not valid"):
        load_settings()
    (bare_folder / ".env").write_text("QUANTGRAPH_MAX_ATTEMPTS=many")
    with pytest.raises(BadOption, match=r"^QUANTGRAPH_MAX_ATTEMPTS \(\.env\): 'many' is not valid"):
        load_settings()
    with pytest.raises(BadOption, match=r"^argument max_attempts: -1 is not valid"):
        load_settings(max_attempts=-1)


def test_temperature_none_means_send_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_TEMPERATURE", "none")
    assert load_settings().temperature is None


def test_parameters_of_a_role_win_over_those_of_all_roles(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    unset = {"temperature": 0.0, "max_tokens": None, "seed": None}
    assert load_settings().parameters_for("decision") == unset
    (bare_folder / "quantgraph.toml").write_text(
        "max_tokens = 500\n[models]\nfilter = {seed = 7}\n[models.decision]\nmax_tokens = 8000\nseed = 1"
    )
    (bare_folder / ".env").write_text(
        'QUANTGRAPH_MODELS={"filter": {"temperature": "none"}, "all": {"seed": 42}}\n'
    )
    monkeypatch.setenv("QUANTGRAPH_MODELS", '{"decision": {"temperature": 0.7, "seed": 9}}')
    settings = load_settings(models={"filter": {"max_tokens": 100}})
    parameters = [settings.parameters_for(role) for role in ("decision", "filter", "trader")]
    assert parameters == [
        {"temperature": 0.7, "max_tokens": 8000, "seed": 9},
        {"temperature": None, "max_tokens": 100, "seed": 7},
        {"temperature": 0.0, "max_tokens": 500, "seed": 42},
    ]


@pytest.mark.parametrize(
    ("name", "value", "message"),
    [
        (
            "QUANTGRAPH_MODELS",
            '{"decision": {"temperature": 3}}',
            "temperature of decision of QUANTGRAPH_MODELS (environment): 3 is not valid; it must be a number",
        ),
        (
            "QUANTGRAPH_MODELS",
            '{"filter": {"name": "m", "max_tokens": 0}}',
            "max_tokens of filter of QUANTGRAPH_MODELS (environment): 0 is not valid; it must be a whole number",
        ),
        (
            "QUANTGRAPH_MODELS",
            '{"filter": {"sed": 1}}',
            "QUANTGRAPH_MODELS (environment): key of filter 'sed'",
        ),
        (
            "QUANTGRAPH_MODELS",
            "judge",
            "QUANTGRAPH_MODELS (environment): 'judge' is not a JSON object; it must",
        ),
        (
            "QUANTGRAPH_MODELS",
            '{"all": {"seed": -1}}',
            "seed of all of QUANTGRAPH_MODELS (environment): -1 is not",
        ),
        (
            "QUANTGRAPH_MODELS",
            '{"all": {"cut_off": "2025"}}',
            "cut_off of all of QUANTGRAPH_MODELS (environment)",
        ),
        (
            "QUANTGRAPH_TABLES",
            '{"volume_unit": "lots"}',
            "volume_unit of QUANTGRAPH_TABLES (environment): 'lots'",
        ),
        (
            "QUANTGRAPH_AUDIT",
            '{"cuts": 0}',
            "cuts of QUANTGRAPH_AUDIT (environment): 0 is not valid; it must be",
        ),
    ],
)
def test_a_wrong_value_in_a_table_names_its_place(
    monkeypatch: pytest.MonkeyPatch, name: str, value: str, message: str
) -> None:
    monkeypatch.setenv(name, value)
    with pytest.raises(BadOption) as caught:
        load_settings()
    assert caught.value.message.startswith(message)


def test_a_table_of_parameters_names_an_unknown_role(bare_folder: Path) -> None:
    (bare_folder / "quantgraph.toml").write_text("[models.decision]\nsede = 1")
    with pytest.raises(BadOption, match=r"^quantgraph.toml: models: key of decision 'sede' .* mean 'seed'"):
        load_settings()
    with pytest.raises(BadOption, match=r"argument tables: key 'volume_units' .* mean 'volume_unit'"):
        load_settings(tables={"volume_units": "hands"})


def test_tables_of_options_merge_from_all_sources(bare_folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (bare_folder / "quantgraph.toml").write_text('[tables]\nvolume_unit = "hands"\ndate_order = ""')
    monkeypatch.setenv("QUANTGRAPH_TABLES", '{"record_zone": "Asia/Shanghai"}')
    settings = load_settings(audit={"cuts": 7})
    assert settings.tables == TableOptions(volume_unit="hands", record_zone="Asia/Shanghai")
    assert settings.audit == AuditOptions(cuts=7, prove="auto", seed=None)


def test_there_are_at_most_32_settings() -> None:
    assert len(Settings.model_fields) <= 32


def test_settings_are_frozen_and_survive_pickling() -> None:
    settings = load_settings(openai_api_key=KEY, models={"filter": "x"})
    with pytest.raises(ValidationError, match="frozen"):
        settings.model = "other"  # type: ignore[misc]
    assert pickle.loads(pickle.dumps(settings)) == settings


def test_secrets_show_in_no_repr_str_dump_or_log(caplog: pytest.LogCaptureFixture) -> None:
    settings = load_settings(openai_api_key=KEY, tushare_token=TOKEN)
    with caplog.at_level(logging.DEBUG):
        logging.getLogger("test").info("settings %s %r", settings, settings)
    for text in (
        repr(settings),
        str(settings),
        str(settings.model_dump()),
        settings.model_dump_json(),
        caplog.text,
    ):
        assert KEY not in text
        assert TOKEN not in text


def test_secrets_show_in_no_error(bare_folder: Path) -> None:
    texts = []
    for wrong in ({"openai_api_key": [KEY]}, {"openai_base_url": f"http://me:{KEY}@host/v1"}):
        with pytest.raises(BadOption) as caught:
            load_settings(**wrong)
        texts += [str(caught.value), repr(caught.value), *traceback.format_exception(caught.value)]
        with pytest.raises(ValidationError) as raw:
            Settings(**wrong)  # type: ignore[arg-type]
        texts.append(str(raw.value))
    (bare_folder / "quantgraph.toml").write_text(f'openai_api_key = ["{KEY}"]')
    with pytest.raises(BadOption, match=r"^openai_api_key ") as caught:
        load_settings()
    texts.append(str(caught.value))
    (bare_folder / "quantgraph.toml").write_text(f'openai_api_key = "{KEY}')
    with pytest.raises(BadFile) as broken:
        load_settings()
    texts.append(str(broken.value))
    assert not [text for text in texts if KEY in text]


def test_budgets_are_texts_that_are_checked(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_BUDGET", "calls=100, money=2.5")
    assert load_settings().budget == "calls=100, money=2.5"
    for wrong in ("calls", "calls=1;money=2", "calls=3, dollars=3", "calls=-1"):
        monkeypatch.setenv("QUANTGRAPH_SESSION_BUDGET", wrong)
        shown = wrong.rpartition(", ")[2]  # the part that is none
        with pytest.raises(
            BadOption, match=rf"SESSION_BUDGET \(environment\): '{shown}' .*: calls, prompt_t"
        ):
            load_settings()
    monkeypatch.setenv("QUANTGRAPH_SESSION_BUDGET", " ")
    assert load_settings().session_budget is None


def test_tool_calling_is_a_setting_with_three_values(monkeypatch: pytest.MonkeyPatch) -> None:
    assert load_settings().tool_calling == "auto"
    monkeypatch.setenv("QUANTGRAPH_TOOL_CALLING", "text")
    assert (load_settings().tool_calling, load_settings(tool_calling="native").tool_calling) == (
        "text",
        "native",
    )
    with pytest.raises(BadOption, match="'json_schema' is not valid; it must be auto, native or text"):
        load_settings(tool_calling="json_schema")


def test_models_have_a_cache_prices_and_a_time_limit(bare_folder: Path) -> None:
    settings = load_settings()
    assert (settings.llm_cache, settings.llm_cache_ttl_hours, settings.prices) == ("off", 24.0, None)
    assert settings.node_seconds == 600.0
    (bare_folder / "quantgraph.toml").write_text('llm_cache = "full"\nprices = "~/prices.toml"')
    settings = load_settings()
    assert (settings.llm_cache, settings.prices) == ("full", Path("~/prices.toml").expanduser())
    with pytest.raises(
        BadOption, match="llm_cache: 'on' is not valid; it must be off, llm_write_only or full"
    ):
        load_settings(llm_cache="on")


def test_packages_of_the_sandbox_are_a_list_or_a_text(
    bare_folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert load_settings().sandbox_packages == []
    monkeypatch.setenv("QUANTGRAPH_SANDBOX_PACKAGES", " sklearn, scipy,scipy")
    assert load_settings().sandbox_packages == ["scipy", "sklearn"]
    monkeypatch.setenv("QUANTGRAPH_SANDBOX_PACKAGES", " ")
    (bare_folder / "quantgraph.toml").write_text('sandbox_packages = ["scipy"]')
    assert load_settings().sandbox_packages == ["scipy"]
    assert load_settings(sandbox_packages=[]).sandbox_packages == []


@pytest.mark.parametrize("name", ["no_such_package", "scipy.stats", "../etc", "quantgraph", "os"])
def test_a_package_that_is_not_installed_is_named(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_SANDBOX_PACKAGES", f"scipy,{name}")
    with pytest.raises(BadOption) as caught:
        load_settings()
    assert caught.value.line == (
        f"bad_option: QUANTGRAPH_SANDBOX_PACKAGES (environment): {name!r} is not valid; "
        "it must be names of installed packages, like scipy,statsmodels"
    )
