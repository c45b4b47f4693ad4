"""Research over MCP by the package's own client: from a sentence to a page and a script, over stdio and HTTP."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
import threading
import time
from contextlib import suppress

import anyio
import pytest
from jsonschema import Draft202012Validator
from mcp_research import GOOD, LEAKY, RULE, SENTENCE, HttpServer, ask, environment, stdio

from quantgraph.errors import BadOption
from quantgraph.integrations.mcp import write_script
from quantgraph.integrations.mcp._research import Research
from quantgraph.integrations.mcp._research_runs import ResearchRuns
from quantgraph.runs import replay
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings

CLAIRVOYANT = """close = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"tomorrow": (close.shift(-1) > close) * 1.0})
"""


async def research(client):
    """All that an assistant does with a sentence; returns the two runs."""
    asks = await ask(client, "understand", sentence=f"{RULE}, stop loss 8%")
    assert (asks["state"], asks["question"]["kind"]) == ("asks", "symbol")
    assert "000341.SZ" in asks["question"]["options"]
    answered = {"run": asks["run"], "question": asks["question"]["id"], "answer": "000341.SZ, 2025"}
    understood = await ask(client, "understand", **answered)
    assert understood["state"] == "understood"
    assert {"traded: 000341.SZ", "plan: stop loss 8%"} <= set(understood["understood"])
    leak = await ask(client, "audit", code=LEAKY, said=SENTENCE)
    assert (leak["causal"], leak["counterexample"]["symbol"]) == (False, "000341.SZ")
    assert leak["counterexample"]["hints"][0]["line"] == 3
    refused = await ask(client, "run", code=LEAKY, sentence=SENTENCE)
    assert (refused["state"], refused["code"]) == ("refused", "not_causal")
    mended = await ask(client, "audit", code=GOOD, said=SENTENCE)
    assert (mended["causal"], mended["compared"], mended["departures"]) == (True, True, [])
    first = await ask(client, "run", run=understood["run"])
    second = await ask(client, "run", code=GOOD, sentence=SENTENCE)
    assert (first["state"], second["state"]) == ("done", "done")
    compared = await ask(client, "compare", runs=[first["run"], second["run"]])
    values = compared["numbers"]["final_value"]
    assert values[0] == values[1]  # the rules' code and the client's do the same
    return first["run"], second["run"]


def checked_script(folder, runs):
    """The script, run where there is no server: each run has the ledger that it had."""
    text = (folder / "runs" / "research.py").read_text()
    ast.parse(text)
    said = subprocess.run(
        [sys.executable, "research.py", "sample", "again"],
        cwd=folder / "runs",
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert said.returncode == 0, said.stdout + said.stderr
    for run in runs:
        assert f"{run} done the same ledger" in said.stdout
    return said.stdout


@pytest.mark.proof
def test_a_foreign_client_goes_from_a_sentence_to_a_page_and_a_script(tmp_path):
    told = []

    async def main():
        async with stdio(tmp_path) as client:

            async def tell(done, total, line):
                told.append((done, total, line))

            runs = await research(client)
            result = await client.call_tool("trades", {"run": runs[1], "limit": 2}, progress_callback=tell)
            assert [row["side"] for row in result.structured_content["rows"]] == ["buy", "sell"]
            again = await client.call_tool(
                "run", {"code": GOOD, "sentence": SENTENCE}, progress_callback=tell
            )
            assert again.structured_content["state"] == "done"
            page = await ask(client, "report", run=runs[0])
            assert page["page"] == str(tmp_path / "runs" / runs[0] / "report.html")
            read = await client.read_resource(page["resource"])
            assert read.contents[0].text.startswith("<!DOCTYPE html>")
            script = await ask(client, "report", script=True)
            assert script["script"] == (tmp_path / "runs" / "research.py").read_text()
            return (*runs, again.structured_content["run"])

    runs = anyio.run(main)
    assert told[-1][:2] == (243, 243)  # sessions of 2025 on the exchange's calendar
    said = checked_script(tmp_path, runs)
    assert "not causal" in (tmp_path / "runs" / "research.py").read_text()
    assert "page:" not in said.split("\n", 1)[0]
    assert replay(tmp_path / "runs" / runs[0]).identical


@pytest.mark.proof
@pytest.mark.timeout(400)
def test_over_http_a_killed_server_is_gone_on_with(tmp_path):
    everything = f"all stocks, 20230101 to 20251231: {RULE}"

    async def begin(server, found):
        async with server.client() as client:
            found.append(await research(client))
            await ask(client, "run", sentence=everything, request_id="long")

    def begun(server, found):
        with suppress(BaseException):  # the server is killed, while the call waits or after it said so
            anyio.run(begin, server, found)

    async def status(server, run=None):
        async with server.client() as client:
            return await ask(client, "status", **({"run": run} if run else {}))

    server, found = HttpServer(tmp_path), []
    thread = threading.Thread(target=begun, args=(server, found))
    thread.start()
    progress = {}
    for _ in range(600):
        listed = anyio.run(status, server)["runs"]
        working = [
            row["run"] for row in listed if row["state"] == "working" and row["sentence"] == everything
        ]
        progress = anyio.run(status, server, working[0]) if working else {}
        if progress.get("progress", "").startswith("session "):
            break
        time.sleep(0.05)
    server.kill()
    thread.join(30)
    assert progress["progress"].startswith("session ")
    server = HttpServer(tmp_path)
    stopped = anyio.run(status, server, progress["run"])
    assert (stopped["state"], stopped["next"]) == (
        "stopped",
        "It can be gone on with: call run with this run.",
    )

    async def go_on():
        async with server.client() as client:
            repeated = await ask(client, "run", sentence=everything, request_id="long")
            assert repeated["run"] == progress["run"]
            done = await ask(client, "run", run=progress["run"])
            while done["state"] == "working":
                done = await ask(client, "status", run=progress["run"])
            script = await ask(client, "report", script=True)
            assert script["page"] == "research.py"  # over HTTP no path of the machine
            return done

    assert anyio.run(go_on)["state"] == "done"
    assert server.stop() == 130
    checked_script(tmp_path, [*found[0], progress["run"]])


@pytest.fixture
def handler(tmp_path):
    runs = ResearchRuns(tmp_path / "runs", Resources(settings=load_settings()), most=2, most_mb=500)
    yield Research(runs, shows_places=True)
    runs.close()


def call(handler, name, **args):
    return handler.call(name, args, lambda *_: None)


def test_the_tools_say_what_they_do(handler):
    tools = handler.tools
    assert list(tools) == ["understand", "audit", "run", "status", "result", "trades", "compare", "report"]
    assert [name for name, tool in tools.items() if not tool.reads] == ["understand", "run", "report"]
    for tool in tools.values():
        assert tool.parameters["additionalProperties"] is False
        assert "next" in tool.answers["properties"]
        assert not tool.destroys
    assert len(json.dumps([[tool.description, tool.parameters] for tool in tools.values()])) < 12_000


def test_a_question_is_answered_by_a_call_that_names_it(handler):
    asks = call(handler, "understand", sentence=RULE)
    wrong = call(handler, "understand", run=asks["run"], question="another", answer="yes")
    assert wrong["code"] == "unknown_question"
    assert call(handler, "understand", run=asks["run"])["question"] == asks["question"]
    understood = call(
        handler, "run", run=asks["run"], question=asks["question"]["id"], answer="000341.SZ, 202501"
    )
    assert understood["state"] == "understood"
    late = call(handler, "run", run=asks["run"], question=asks["question"]["id"], answer="000342.SZ")
    assert late["code"] == "unknown_question"
    changed = call(
        handler,
        "understand",
        run=asks["run"],
        question=understood["question"]["id"],
        answer="10-day instead of 5-day",
    )
    assert changed["state"] in {"understood", "asks"}
    assert changed["question"]["id"] != understood["question"]["id"]


def test_a_rule_runs_in_place_of_code_and_needs_no_proof(handler):
    window = {"symbols": "000341.SZ", "start": "20250102", "end": "20250630"}
    done = call(handler, "run", rule={"entry": "close > sma(close, 20)", "exit": "rsi() > 70"}, **window)
    assert done["state"] == "done"
    assert any("causal by construction" in line for line in done["text"])
    wrong = call(handler, "run", rule={"entry": "clos > 1"}, **window)
    assert "did you mean 'close'" in wrong["error"]


def test_what_cannot_be_done_is_asked_about_and_never_dropped(handler):
    asks = call(
        handler, "understand", sentence="000341.SZ, 2025: short it with 3x leverage when RSI is above 70"
    )
    assert asks["state"] == "asks"
    assert "short" in json.dumps(asks["question"])


def test_code_beside_a_sentence_that_is_not_read_says_that_it_was_not_compared(handler):
    sentence = "000341.SZ, 2025: buy when the tape feels heavy, sell when it feels light"
    audit = call(handler, "audit", code=GOOD, said=sentence)
    assert (audit["causal"], audit["compared"]) == (True, False)
    assert "tape" in audit["not_compared"]
    run = call(handler, "run", code=GOOD, sentence=sentence)
    assert run["text"][0] == "done, not compared with the sentence"
    assert run["text"][1].startswith("Synthetic data: ")
    assert run["text"][2].startswith("Not compared with the sentence: not read: tape")


def test_code_that_does_something_else_is_shown_where(handler):
    other = GOOD.replace("(5, 20)", "(5, 30)")
    audit = call(handler, "audit", code=other, said=SENTENCE)
    assert audit["causal"]
    assert "000341.SZ" in audit["departures"][0]
    asks = call(handler, "run", code=other, sentence=SENTENCE)
    assert (asks["state"], asks["question"]["kind"]) == ("asks", "meaning")
    answer = {"run": asks["run"], "question": asks["question"]["id"], "answer": "it is better so"}
    assert call(handler, "run", **answer)["state"] == "ended"  # other words never trade it


def test_as_many_runs_as_may_go_on_do(handler):
    # what is under way is a thread of its own, which is not done before the next two calls
    handler._wait = 0.0
    everything = f"all stocks, 2023 to 2025: {RULE}"
    first, second, third = (call(handler, "run", sentence=everything) for _ in range(3))
    assert (first["state"], second["state"], third["code"]) == ("working", "working", "rate_limited")
    assert call(handler, "audit", code=GOOD)["code"] == "rate_limited"
    stopped = call(handler, "run", run=first["run"], stop=True)
    assert stopped["state"] in {"working", "stopped"}


def test_the_folder_of_runs_is_bounded(tmp_path):
    (tmp_path / "runs").mkdir()
    (tmp_path / "runs" / "old").write_bytes(bytes(1_100_000))
    runs = ResearchRuns(tmp_path / "runs", Resources(settings=load_settings()), most=2, most_mb=1)
    refused = call(Research(runs), "run", sentence=SENTENCE)
    assert refused["code"] == "storage_unavailable"


def test_texts_of_the_person_cannot_become_code_of_the_script(handler):
    nasty = '000341.SZ, 202501: """\nimport os\nos._exit(7)\n"""' + f"\r\u2028print(1)\x0c{RULE}"
    call(handler, "understand", sentence=nasty)
    call(handler, "audit", code=GOOD + "# '''\\ \"\"\" \\\n", said=nasty)
    script = call(handler, "report", script=True)["script"]
    tree = ast.parse(script)
    calls = [
        node.value for node in tree.body if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call)
    ]
    assert {ast.unparse(each.func) for each in calls} == {"FOLDER.mkdir", "print", "run", "sys.exit"}


def test_a_script_needs_calls(tmp_path):
    with pytest.raises(BadOption, match="there is no call of a research client"):
        write_script(tmp_path / "research.py", out=tmp_path)


def test_the_plan_of_a_call_is_shown_in_force_before_it_trades(handler):
    understood = call(handler, "understand", sentence=SENTENCE, plan={"stop_loss": 0.05, "max_holding": 9})
    assert "plan: stop loss 5%, held at most 9 sessions" in understood["understood"]
    assert understood["question"]["text"] == "Run it so?"
    done = call(handler, "run", run=understood["run"])
    assert call(handler, "result", run=done["run"])["plan"] == {"max_holding": 9, "stop_loss": "0.05"}
    assert call(handler, "run", sentence=SENTENCE, plan={"stop_loss": None})["code"] == "bad_option"


def test_words_that_count_for_nothing_are_not_agreed_to_by_a_run(handler):
    understood = call(handler, "understand", sentence=SENTENCE)
    answer = {"run": understood["run"], "question": understood["question"]["id"]}
    asks = call(handler, "understand", **answer, answer="no wait, I only want it on foggy days")
    assert asks["state"] == "asks"
    assert "foggy" in " ".join([asks["question"]["text"], *asks["question"]["not_read"]])
    assert call(handler, "run", run=understood["run"])["state"] == "asks"


def test_a_run_that_was_refused_late_or_stopped_is_in_the_script_as_far_as_it_went(handler, tmp_path):
    handler._wait = 0.0
    everything = call(handler, "run", sentence=f"all stocks, 2023 to 2025: {RULE}")
    refused = call(handler, "run", code=CLAIRVOYANT, sentence=SENTENCE)
    handler._wait = 60.0
    while "session" not in call(handler, "status", run=everything["run"]).get("progress", "session"):
        time.sleep(0.1)
    stopped = call(handler, "run", run=everything["run"], stop=True)
    assert stopped["state"] == "stopped"
    while call(handler, "status", run=refused["run"])["state"] == "working":
        time.sleep(0.1)
    assert call(handler, "status", run=refused["run"])["code"] == "not_causal"
    understood = call(handler, "understand", sentence=SENTENCE)
    assert call(handler, "run", run=understood["run"], stop=True)["state"] == "understood"
    assert call(handler, "trades", run=understood["run"])["code"] == "bad_option"
    call(handler, "report", script=True)
    said = checked_script(tmp_path, [])
    assert f"{stopped['run']} done the same ledger as far as it went" in said
    assert f"{understood['run']} needs_answer the same ledger" in said
    assert f"{refused['run']} done" not in said


def test_each_answer_fits_the_schema_of_its_tool(handler):
    validate = {name: Draft202012Validator(tool.answers) for name, tool in handler.tools.items()}

    def fits(name, **args):
        answer = call(handler, name, **args)
        assert not [error.message for error in validate[name].iter_errors(answer)]
        assert answer["next"]
        return answer

    asks = fits("understand", sentence=RULE)
    fits("result", run=asks["run"])
    fits("trades", run=asks["run"])
    fits("compare", runs=[asks["run"], asks["run"]])
    fits("audit", code=LEAKY, said=SENTENCE)
    done = fits("run", code=GOOD, sentence=SENTENCE)
    other = fits("run", sentence=f"{SENTENCE}, hold at most 20 days")
    for name in ("status", "result", "trades", "report"):
        fits(name, run=done["run"])
    fits("compare", runs=[done["run"], other["run"]])
    fits("status")
    fits("report", script=True)
    fits("run", sentence="x" * 10_001)


def test_over_http_the_words_of_a_person_and_addresses_stay(tmp_path):
    runs = ResearchRuns(tmp_path / "runs", Resources(settings=load_settings()), most=2, most_mb=500)
    handler = Research(runs)
    sentence = f"{SENTENCE}; 止损 /止盈/移动止损"
    asks = call(handler, "understand", sentence=sentence)
    assert call(handler, "status")["runs"][0]["sentence"] == sentence
    run = call(handler, "run", sentence=SENTENCE)
    assert (
        call(handler, "report", run=run["run"])["resource"] == f"quantgraph://runs/{run['run']}/report.html"
    )
    assert str(tmp_path) not in json.dumps([asks, run, call(handler, "report", script=True)])
    runs.close()
