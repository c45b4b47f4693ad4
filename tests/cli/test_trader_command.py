"""``quantgraph trader``: a model of AI-Trader's config over HTTP, its exit status, and what it says is done."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.testing import Fault, OpenAIStub, Reply

pytestmark = pytest.mark.proof

DAYS = ["2025-08-28", "2025-08-29", "2025-09-02"]
FINISH = Reply.text("Done. <FINISH_SIGNAL>")
DATES = {"init_date": "2025-08-28", "end_date": "2025-08-29"}
LATER = {"init_date": "2025-08-28", "end_date": "2025-09-02"}
KEY = "sk-own-0123456789abcdef"


@pytest.fixture
def prices(tmp_path) -> Path:
    rows = [f"AAA,{day},10,11,9,10.5,1000" for day in DAYS]
    file = tmp_path / "prices.csv"
    file.write_text("\n".join(["symbol,date,open,high,low,close,volume", *rows]) + "\n")
    return file


@pytest.fixture
def answers():
    return [Reply.call("buy", symbol="AAA", amount=10), FINISH, FINISH]


@pytest.fixture
def server(answers):
    with OpenAIStub(answers) as stub:
        yield stub


@pytest.fixture
def config(tmp_path, server) -> Path:
    model = {"name": "One", "basemodel": "big", "signature": "one", "enabled": True}
    own = {"openai_base_url": server.base_url, "openai_api_key": KEY}
    file = tmp_path / "configs" / "default_config.json"
    file.parent.mkdir()
    document = {
        "agent_type": "BaseAgent",
        "date_range": {"init_date": "2025-08-28", "end_date": "2025-09-02"},
        "models": [{**model, **own}, {**model, "name": "Two", "signature": "two", "enabled": False}],
        "agent_config": {
            "max_steps": 5,
            "max_retries": 1,
            "base_delay": 0,
            "initial_cash": 1_000,
            "verbose": True,
        },
        "log_config": {"log_path": "agents"},
    }
    file.write_text(json.dumps(document))
    return file


def command(*arguments):
    return CliRunner().invoke(app, list(map(str, arguments)))


def test_a_model_trades_by_the_config_of_the_working_folder(tmp_path, prices, config):
    told = command("trader", "--source", prices)
    assert told.exit_code == 0, told.output
    assert "agent_config.verbose has no effect here" in told.stderr
    assert (
        "one: 2 sessions traded, 2025-08-29 to 2025-09-02; agents/one/position/position.jsonl" in told.stderr
    )
    file = tmp_path / "agents" / "one" / "position" / "position.jsonl"
    last = json.loads(file.read_text().splitlines()[-1])
    assert last["positions"]["AAA"] == 10
    verified = command("ledger", "verify", file, "--prices", prices, "--market", "us")
    assert verified.exit_code == 0, verified.output
    for each in tmp_path.rglob("*"):
        if each.is_file() and each != config:
            assert KEY.encode() not in each.read_bytes(), each
    assert KEY not in told.output


def test_a_replay_needs_the_command_alone(tmp_path, prices, config, server):
    command("trader", "--source", prices)
    server.close()
    run = next((tmp_path / "agents" / "one" / "runs").glob("2*"))
    again = command("replay", run)
    assert again.exit_code == 0, again.output
    assert "identical" in again.stdout


def test_a_prompt_of_ones_own_and_the_switches_reach_the_model(tmp_path, prices, config, server):
    (tmp_path / "mine.txt").write_text("Trade as I say.")
    done = command(
        "trader", "--source", prices, "--prompt", tmp_path / "mine.txt", "--no-memory", "--no-news"
    )
    assert done.exit_code == 0, done.output
    prompts = [request.body["messages"][0]["content"] for request in server.requests]
    assert all(prompt.startswith("Trade as I say.\n\n<trader_day>") for prompt in prompts)
    assert not any("Your last sessions" in prompt for prompt in prompts)
    again = command("replay", next((tmp_path / "agents" / "one" / "runs").glob("2*")))
    assert (again.exit_code, "a file, and nothing that a folder names is" in again.stderr) == (2, True)
    missing = command("trader", "--source", prices, "--prompt", "none.txt")
    assert (missing.exit_code, "prompt='none.txt'; must be a text file" in missing.stderr) == (2, True)


def test_the_dates_of_the_environment_are_not_read(tmp_path, prices, config, monkeypatch):
    monkeypatch.setenv("INIT_DATE", "2025-08-29")
    monkeypatch.setenv("END_DATE", "2025-08-29")
    told = command("trader", "--source", prices)
    assert "2 sessions traded, 2025-08-29 to 2025-09-02" in told.stderr


class TestAServerThatFails:
    """A failed run exits with another status than 0 and says what is done; the same command goes on with it."""

    @pytest.fixture
    def answers(self):
        down = [Fault.http(500)] * 4
        return [Reply.call("buy", symbol="AAA", amount=10), FINISH, *down, FINISH]

    def test_it_ends_with_its_status_and_goes_on(self, tmp_path, prices, config):
        failed = command("trader", config, "--source", prices)
        statuses = [failed]
        while statuses[-1].exit_code and len(statuses) < 6:
            statuses.append(command("trader", config, "--source", prices))
        assert "session" in failed.stderr
        assert statuses[-1].exit_code == 0
        assert "2 sessions traded" in statuses[-1].stderr
        lines = (tmp_path / "agents/one/position/position.jsonl").read_text().splitlines()
        assert [json.loads(line)["id"] for line in lines] == [0, 1, 2]


class TestAServerThatTellsTheKey:
    """The server's own message has the key: it is shown and written nowhere."""

    @pytest.fixture
    def answers(self):
        return [Fault.http(401, f"Incorrect API key provided: {KEY}")] * 5

    def test_it_is_hidden(self, tmp_path, prices, config):
        told = command("trader", config, "--source", prices)
        assert told.exit_code == 1
        assert "model_unavailable" in told.stderr
        assert "one: 0 sessions traded" in told.stderr
        assert KEY not in told.output + told.stderr
        for each in tmp_path.rglob("*"):
            if each.is_file() and each != config:
                assert KEY.encode() not in each.read_bytes(), each


class TestSeveralModels:
    """Every enabled model is traded; one that fails does not stop the next."""

    @pytest.fixture
    def answers(self):
        def answer(request):
            return Fault.http(401, "no such key") if request.model == "bad" else FINISH

        return answer

    @pytest.fixture
    def config(self, config):
        document = json.loads(config.read_text())
        first = document["models"][0] | {"name": "Down", "basemodel": "bad", "signature": "down"}
        document["models"] = [first, *document["models"]]
        document["models"].append(document["models"][1] | {"name": "Three", "signature": "three"})
        config.write_text(json.dumps(document))
        return config

    def test_a_table_tells_what_became_of_each(self, prices, config):
        told = command("trader", config, "--source", prices)
        assert told.exit_code == 1, told.output
        *_, headings, down, one, three, why = told.stdout.splitlines()
        assert headings.split() == ["model", "end", "sessions", "value", "return"]
        assert down.split() == ["down", "model_unavailable", "0", "-", "-"]
        assert one.split() == ["one", "done", "2", "1,000.00", "0.00%"]
        assert three.split() == ["three", "done", "2", "1,000.00", "0.00%"]
        assert why.startswith("down: ")
        assert "the key is refused" in why

    def test_json_has_a_row_for_each(self, prices, config):
        told = command("trader", config, "--source", prices, "--json")
        rows = json.loads(told.stdout)["models"]
        assert [row["signature"] for row in rows] == ["down", "one", "three"]
        assert [row["ended_because"] for row in rows] == ["model_unavailable", "done", "done"]
        assert "the key is refused" in rows[0]["error"]
        assert [row["sessions"] for row in rows] == [0, 2, 2]

    def test_models_trade_side_by_side_as_one_after_another_and_on_to_a_later_end(
        self, tmp_path, prices, config
    ):
        config.write_text(json.dumps(json.loads(config.read_text()) | {"date_range": DATES}))
        command("trader", config, "--source", prices, "--json", "--parallel", 3)
        config.write_text(json.dumps(json.loads(config.read_text()) | {"date_range": LATER}))
        side = command("trader", config, "--source", prices, "--json", "--parallel", 3)
        rows = json.loads(side.stdout)["models"]
        assert [(row["signature"], row["sessions"]) for row in rows] == [
            ("down", 0),
            ("one", 2),
            ("three", 2),
        ]
        files = {row["signature"]: Path(row["position_file"]).read_text() for row in rows[1:]}
        told = json.loads(
            command("trader", config, "--source", prices, "--json", "--out", tmp_path / "again").stdout
        )
        for row in told["models"][1:]:
            assert Path(row["position_file"]).read_text() == files[row["signature"]]

    def test_a_signature_chooses_one(self, tmp_path, prices, config):
        told = command("trader", config, "--source", prices, "--signature", "three")
        assert told.exit_code == 0, told.output
        assert [path.name for path in (tmp_path / "agents").iterdir()] == ["three"]

    def test_a_folder_with_a_file_of_another_program_stops_no_other(self, tmp_path, prices, config):
        theirs = tmp_path / "agents" / "one" / "position" / "position.jsonl"
        theirs.parent.mkdir(parents=True)
        theirs.write_text("theirs\n")
        rows = json.loads(command("trader", config, "--source", prices, "--json").stdout)["models"]
        assert "has no record of a position.jsonl; line 1: invalid JSON" in rows[1]["error"]
        assert rows[2]["ended_because"] == "done"
        assert theirs.read_text() == "theirs\n"


def test_a_config_of_the_mainland_is_told_in_chinese(tmp_path, config):
    document = json.loads(config.read_text())
    document["market"] = "cn"
    document["date_range"] = {"init_date": "2025-01-01", "end_date": "2025-01-03"}
    config.write_text(json.dumps(document))
    told = command("trader", config, "--source", "sample", "--symbols", "000341.SZ")
    lines = told.stderr.splitlines()
    assert "agent_config.verbose 在这里不起作用" in lines
    assert lines[-1].startswith("one: 已交易 2 个交易日，2025-01-02 至 2025-01-03；")
    assert any(line.startswith("页面: ") for line in lines)


@pytest.mark.parametrize(
    ("change", "arguments", "said"),
    [
        (lambda document: None, ["--signature", "two"], "enabled are one (One)"),
        (lambda document: document.update(agent_type="BaseAgent_Hour"), [], "trades hours"),
        (lambda document: document["agent_config"].update(max_steps=0), [], "max_steps=0"),
        (
            lambda document: document["agent_config"].update(max_retries=True),
            [],
            "max_retries is True; must be a whole",
        ),
        (
            lambda document: document["agent_config"].update(base_delay="1"),
            [],
            "base_delay is '1'; must be a number",
        ),
        (
            lambda document: document["date_range"].update(init_date="2025-09-02", end_date=None),
            [],
            "no session",
        ),
        (lambda document: None, ["--symbols", "ZZZ"], "ZZZ"),
    ],
)
@pytest.mark.usefixtures("prices")
def test_a_wrong_call_is_one_line_and_nothing_is_asked(config, server, change, arguments, said):
    document = json.loads(config.read_text())
    change(document)
    config.write_text(json.dumps(document))
    told = command("trader", config, "--source", "prices.csv", *arguments)
    assert told.exit_code in {1, 2}
    assert said in told.stderr
    assert not server.requests


def test_without_a_config_the_missing_file_is_named(tmp_path):
    told = command("trader")
    assert told.exit_code == 2
    assert "configs/default_config.json cannot be read" in told.stderr
