"""``quantgraph doctor``: a line for each part, whatever is wrong with it, and no secret in any."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import tushare_stub
from tushare_stub import TushareStub
from typer.testing import CliRunner

from quantgraph import sandbox
from quantgraph.cli import _doctor as health_checks
from quantgraph.cli._main import app
from quantgraph.sandbox._server import check_level
from quantgraph.testing import OpenAIStub
from quantgraph.testing import _openai as openai_stub

KEY = "sk-doctor-0123456789abcdef"
TOKEN = "0123456789abcdef0123456789abcdef0123456789abcdef01234567"
NUMBERS = ("open", "high", "low", "close", "pre_close", "change", "pct_chg", "vol", "amount")
DAILY = pd.DataFrame([["000001.SZ", "20240102", *range(9)]], columns=["ts_code", "trade_date", *NUMBERS])


@pytest.fixture(autouse=True)
def in_english(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("LC_ALL", "LC_MESSAGES"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("LANG", "C.UTF-8")


class Sealed:
    """No process is started where the sandbox is not the matter."""

    def __init__(self, level: str = "full") -> None:
        self.level = level

    def run(self, *_cells: object) -> sandbox.CodeResult:
        return sandbox.CodeResult(isolation=self.level)


@pytest.fixture
def strong(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sandbox, "default_runner", lambda **_limits: Sealed())


def doctor(*arguments: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["doctor", *arguments])
    assert done.stderr == ""
    assert KEY not in done.stdout
    assert TOKEN not in done.stdout
    return done.exit_code, done.stdout


def told() -> tuple[int, dict[str, Any]]:
    status, out = doctor("--json")
    return status, {part["name"]: part for part in json.loads(out)["checks"]}


def test_without_a_key_or_a_network_all_is_well_and_each_part_is_a_line() -> None:
    status, out = doctor()
    assert status == 0
    assert [line.split()[:2] for line in out.splitlines()] == [
        ["ok", name] for name in ("sandbox", "model", "tushare", "runs_dir")
    ]
    assert "isolation full" in out
    assert "keyless: no model, sentences are read by built-in rules; for a model set OPENAI_API_KEY" in out


@pytest.mark.parametrize("variables", [{"LANG": "zh_CN.UTF-8"}, {"LC_ALL": "zh_TW.UTF-8", "LANG": "en_US"}])
def test_it_speaks_the_language_of_the_locale_or_the_one_that_is_asked_for(
    strong: None, monkeypatch: pytest.MonkeyPatch, variables: dict[str, str]
) -> None:
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    assert "没有令牌；要用 tushare 的数据，设 TUSHARE_TOKEN" in doctor()[1]
    assert "no token; for tushare's data set TUSHARE_TOKEN" in doctor("--lang", "en")[1]


def test_each_model_is_sent_one_short_request(strong: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "big")
    monkeypatch.setenv("QUANTGRAPH_MODELS", json.dumps({"decision": "small\x1b[2J[red]"}))
    with OpenAIStub(lambda _request: "OK", api_key=KEY) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        status, out = doctor()
    assert status == 0
    assert sorted(request.model for request in stub.requests) == ["big", "small\x1b[2J[red]"]
    assert "\\x1b[2J[red] (decision) at 127.0.0.1" in out
    assert "\x1b" not in out


def test_a_key_that_is_refused_and_a_model_without_one_are_lines_with_what_to_do(
    strong: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("OPENAI_API_KEY", KEY)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "big")
    with OpenAIStub(api_key="another") as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        status, parts = told()
    assert (status, parts["model"]["ok"]) == (1, False)
    assert "HTTP 401" in parts["model"]["text"]
    assert "OPENAI_API_KEY" in parts["model"]["remedy"]
    monkeypatch.delenv("OPENAI_API_KEY")
    monkeypatch.delenv("OPENAI_BASE_URL")
    status, out = doctor()
    assert status == 1
    assert "BAD  model     not_configured: model 'big' for role 'reflection' needs a key" in out


def test_a_server_that_does_not_answer_is_waited_for_a_few_seconds(
    strong: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(health_checks, "_SECONDS", 0.2)
    monkeypatch.setenv("QUANTGRAPH_MODEL", "big")
    with OpenAIStub([openai_stub.Fault.hang()]) as stub:
        monkeypatch.setenv("OPENAI_BASE_URL", stub.base_url)
        status, parts = told()
    assert status == 1
    assert ("0.2 s" in parts["model"]["text"]) or ("did not answer" in parts["model"]["text"])
    assert "QUANTGRAPH_MODEL=keyless" in parts["model"]["remedy"]


@pytest.mark.parametrize("refused", [False, True])
def test_the_token_is_shown_to_tushare(strong: None, monkeypatch: pytest.MonkeyPatch, refused: bool) -> None:
    faults = {"*": [tushare_stub.bad_token()]} if refused else {}
    monkeypatch.setenv("TUSHARE_TOKEN", TOKEN)
    with TushareStub({"daily": DAILY}, faults=faults) as stub:
        monkeypatch.setenv("TUSHARE_URL", stub.url)
        status, parts = told()
    assert (status, parts["tushare"]["ok"]) == (int(refused), not refused)
    if refused:
        assert "the token is refused" in parts["tushare"]["text"]


def test_a_token_is_needed_where_tushare_is_the_source(strong: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_DATA_SOURCE", "tushare")
    status, parts = told()
    assert (status, parts["tushare"]["ok"]) == (1, False)


def test_a_folder_of_runs_that_cannot_be_written_is_named(
    strong: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    Path("file").write_text("in the way")
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", "file/runs")
    status, parts = told()
    assert (status, parts["runs_dir"]["ok"]) == (1, False)
    assert "cannot be written: " in parts["runs_dir"]["text"]
    assert parts["runs_dir"]["remedy"] == "choose another with QUANTGRAPH_RUNS_DIR"
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", "runs")
    status, parts = told()
    assert (status, parts["runs_dir"]["text"]) == (0, f"{Path('runs').absolute()} can be written")
    assert [path.name for path in Path().iterdir()] == ["file"]


def test_a_sandbox_that_is_too_weak_says_how_to_accept_it(monkeypatch: pytest.MonkeyPatch) -> None:
    def weak(isolation: str, **_limits: object) -> Sealed:
        if isolation == "limits_only":
            return Sealed("limits_only")
        check_level("limits_only", "Landlock is missing", "full")
        raise AssertionError

    monkeypatch.setattr(sandbox, "default_runner", weak)
    status, parts = told()
    assert (status, parts["sandbox"]["ok"]) == (1, False)
    assert (
        "Landlock is missing; to accept it set QUANTGRAPH_CODE_ISOLATION=limits_only"
        in parts["sandbox"]["text"]
    )
    for accepted in ("limits_only", "trusted"):
        monkeypatch.setenv("QUANTGRAPH_CODE_ISOLATION", accepted)
        status, parts = told()
        assert (status, parts["sandbox"]["text"]) == (0, f"isolation {accepted}")


def test_wrong_settings_are_the_only_line(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("QUANTGRAPH_MAX_ATTEMPTS", "many")
    status, parts = told()
    assert (status, list(parts)) == (1, ["settings"])
    assert "QUANTGRAPH_MAX_ATTEMPTS (environment): 'many' is not valid" in parts["settings"]["text"]


def test_whatever_breaks_is_a_line_and_its_message_is_not_shown(
    strong: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    def broken(_settings: object) -> None:
        raise RuntimeError(f"illegal header: Bearer {KEY}")

    monkeypatch.setattr(health_checks, "_tushare", broken)
    status, out = doctor()
    assert status == 1
    assert "BAD  tushare   failed: RuntimeError; check the network and TUSHARE_TOKEN\n" in out
