"""Arguments as clients write them: nulls, numbers for dates, text for lists, percentages, and deep ones."""

from __future__ import annotations

import json
import sys

import anyio
import pytest
from mcp.client.client import Client
from mcp.client.stdio import StdioServerParameters, stdio_client
from mcp_play import McpRun, prices, talk, trades

from quantgraph.errors import BadOption
from quantgraph.integrations.mcp._research_tools import checked_args
from quantgraph.llm.messages import typed_args

CODE = "from quantgraph.cli import main; main()"
RULE = "buy when the 5-day average crosses above the 20-day average, sell when it crosses below"
SENTENCE = f"000341.SZ, 2025: {RULE}"
TEXT, WHOLE = {"type": "string"}, {"type": "integer"}
TEXTS = {"type": "array", "items": TEXT}
MAYBE = {"anyOf": [TEXT, {"type": "null"}]}


def deep(levels):
    value = 1
    for _ in range(levels):
        value = {"size": value}
    return value


@pytest.mark.parametrize(
    ("field", "sent", "read"),
    [
        (TEXT, 20250101, "20250101"),
        (TEXT, 20250101.0, "20250101"),
        (TEXT, 1.5, 1.5),
        (TEXT, True, True),
        (TEXT, "[1]", "[1]"),
        (TEXT, "a, b", "a, b"),
        (TEXT, 10**400, 10**400),
        (TEXT, float("inf"), float("inf")),
        (WHOLE, "2", 2),
        (WHOLE, 2.0, 2),
        (WHOLE, "2.0", 2),
        (WHOLE, 2.9, 2.9),
        (WHOLE, "2.9", "2.9"),
        (WHOLE, "²", "²"),
        (TEXTS, '["000341.SZ"]', ["000341.SZ"]),
        (TEXTS, "a, b，c", ["a", "b", "c"]),
        (TEXTS, [1, "b"], ["1", "b"]),
        (TEXTS, "[" * 100_000, "[" * 100_000),
        ({"anyOf": [TEXT, TEXTS]}, '["a"]', ["a"]),
        ({"anyOf": [TEXT, TEXTS]}, "a,b", "a,b"),
        ({"type": "object"}, '{"stop_loss": 0.08}', {"stop_loss": 0.08}),
        ({"type": "object"}, '{"a": 1, "a": 2}', '{"a": 1, "a": 2}'),
        ({"type": "object"}, "[1]", "[1]"),
        (MAYBE, None, None),
        ({}, None, None),
    ],
)
def test_a_value_is_read_as_the_schema_wants(field, sent, read):
    found = typed_args({"x": sent}, {"type": "object", "properties": {"x": field}})["x"]
    assert (type(found), found) == (type(read), read)


@pytest.mark.parametrize("field", [TEXT, WHOLE, TEXTS, {"type": "object"}])
def test_null_is_absent_where_it_is_not_allowed(field):
    schema = {"type": "object", "properties": {"x": field}, "required": ["x"]}
    assert typed_args({"x": None}, schema) == {}


@pytest.mark.parametrize("plan", [deep(200), deep(5_000), json.dumps(deep(200))])
def test_arguments_that_are_nested_deeply_are_refused(plan):
    with pytest.raises(BadOption, match=r"^the arguments are nested deeper than 64 levels; send flat ones$"):
        checked_args("understand", {"sentence": SENTENCE, "plan": plan})


def test_the_same_call_in_two_ways_is_the_same():
    strict = {"sentence": "x", "symbols": "A,B", "start": "20250101"}
    strict["plan"] = {"stop_loss": 0.08, "max_holding": 20, "size": {"percent": 0.3}, "take_profit": 1.5}
    loose = {"sentence": "x", "symbols": '["A", "B"]', "start": 20250101.0, "end": None, "code": None}
    loose["plan"] = '{"stop_loss": "8%", "max_holding": "20", "size": "30%", "take_profit": "150%"}'
    assert checked_args("run", strict) == checked_args("run", loose)


@pytest.mark.parametrize("word", ["cash", "slippage_bps", "max_holding"])
def test_a_percentage_stays_where_no_share_is_meant(word):
    assert checked_args("run", {"plan": {word: "5%"}}).plan == {word: "5%"}


def test_a_client_of_a_run_may_write_an_order_in_two_ways(tmp_path):
    prices(tmp_path)
    run = McpRun(tmp_path)

    async def day(call):
        first = await call("buy", symbol="AAA", amount="10", order_id=7)
        again = await call("buy", symbol="AAA", amount=10.0, order_id="7")
        nested = await call("buy", symbol="AAA", amount=deep(100), order_id="8")
        large = await call("buy", symbol="A" * 100_000, amount=1, order_id="9")
        assert [each["code"] for each in (nested, large)] == ["bad_option", "bad_option"]
        assert nested["error"] == "buy: the arguments are nested deeper than 64 levels; send flat ones"
        await call("finish_day", request_id=None)
        return first, again

    first, again = talk(run.url, day)
    assert first == again
    result = run.stop()
    assert [row[1:4] for row in trades(result["run_dir"])] == [("buy", "AAA", 10)]


@pytest.mark.proof
def test_a_foreign_client_over_stdio_is_understood(tmp_path):
    command = [CODE, "mcp", "--source", "sample", "--out", "runs"]
    server = StdioServerParameters(command=sys.executable, args=["-c", *command], cwd=tmp_path)

    async def main():
        async with Client(stdio_client(server)) as client:

            async def ask(tool, **args):
                result = await client.call_tool(tool, args)
                return result.structured_content

            for args in (
                {"symbols": None, "plan": None},
                {"plan": '{"stop_loss": 0.08}'},
                {"plan": {"stop_loss": "8%"}},
                {"symbols": '["000341.SZ"]', "start": 20250102, "end": 20251231.0},
            ):
                assert (await ask("understand", sentence=SENTENCE, **args))["state"] == "understood", args
            for plan in (deep(180), deep(200), deep(245)):
                refused = await ask("understand", sentence=SENTENCE, plan=plan)
                assert (refused["code"], refused["error"].count("\n")) == ("bad_option", 0)
                assert "nested deeper" in refused["error"]
            large = await ask("understand", sentence="x" * 1_000_000)
            assert large["error"] == "understand: sentence has more than 10,000 characters"
            missing = await ask("compare", runs=None)
            assert (missing["code"], "runs" in missing["error"]) == ("bad_option", True)
            first, second = [row["run"] for row in (await ask("status"))["runs"]][:2]
            for run in (first, second):
                await ask("run", run=run)
                states = [(await ask("run", run=run))["state"] for _ in range(4)]  # each waits 25 s at most
                assert states[-1] == "done"
            for runs in (json.dumps([first, second]), f"{first}, {second}"):
                assert (await ask("compare", runs=runs))["runs"] == [first, second]
            rows = [await ask("trades", run=first, limit=limit) for limit in ("2", 2.0, 2)]
            assert rows[0] == rows[1] == rows[2]
            assert len(rows[0]["rows"]) == 2

    anyio.run(main)
