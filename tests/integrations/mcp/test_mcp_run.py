"""A run that a client trades over MCP: real HTTP on loopback, the package's own client."""

from __future__ import annotations

import threading
import time
from pathlib import Path

import anyio
import pytest
from langgraph.runtime import RunControl
from mcp_play import OPENS, TOKEN, McpRun, prices, spec, talk, trades

from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption, RunMismatch
from quantgraph.integrations.mcp._client_decider import McpAccess, resume_mcp_run, start_mcp_run
from quantgraph.integrations.mcp._server import bound_socket
from quantgraph.runs import replay, run_strategy
from quantgraph.runtime import Resources


@pytest.fixture
def folder(tmp_path):
    prices(tmp_path)
    return tmp_path


async def two_days(call):
    """Buy 10 AAA at 11, sell 4 at 12: cash 1000 - 110 + 48."""
    told = [await call("get_today")]
    told.append(await call("buy", symbol="AAA", amount=10, order_id="first"))
    told.append(await call("finish_day", notes="bought", request_id="day 1"))
    told.append(await call("sell", symbol="AAA", amount=4, order_id="second"))
    told.append(await call("finish_day", notes="sold", request_id="day 2"))
    return told


FILLS = [("2025-08-29", "buy", "AAA", 10, OPENS["AAA"][1]), ("2025-09-02", "sell", "AAA", 4, OPENS["AAA"][2])]


def test_a_client_trades_two_days_and_the_replay_needs_no_client(folder):
    run = McpRun(folder)
    today, bought, first, sold, second = talk(run.url, two_days)
    result = run.end()
    assert (today["date"], today["positions"]) == ("2025-08-29", {"CASH": 1_000})
    assert bought == {"AAA": 10, "CASH": 890}
    assert first == {"committed": "2025-08-29", "next": "2025-09-02"}
    assert sold == {"AAA": 6, "CASH": 938}
    assert second == {"committed": "2025-09-02", "next": None}
    assert result["ended_because"] == "done"
    assert trades(result["run_dir"]) == FILLS
    with Ledger(f"{result['run_dir']}/ledger.sqlite") as book:
        notes = [each.notes["mcp_client"]["text"] for each in book.history(result["run_id"])]
        steps = [len(each.steps) for each in book.executions(result["run_id"])]
    assert (notes, steps) == (["bought", "sold"], [3, 2])
    assert replay(result["run_dir"]).identical


def test_an_order_id_is_traded_once_in_a_run_and_is_another_orders_never(folder):
    run = McpRun(folder)

    async def repeats(call):
        first = await call("buy", symbol="AAA", amount=10, order_id="one")
        again = await call("buy", symbol="AAA", amount=10, order_id="one")
        others = [
            await call("buy", symbol="AAA", amount=11, order_id="one"),
            await call("sell", symbol="AAA", amount=10, order_id="one"),
        ]
        refused = [await call("buy", symbol="AAA", amount=1_000, order_id="big") for _ in range(2)]
        days = [await call("finish_day", request_id="day 1") for _ in range(2)]
        later = await call("buy", symbol="AAA", amount=10, order_id="one")
        other = await call("buy", symbol="BBB", amount=1, order_id="one")
        await call("finish_day")
        return first, again, others, refused, days, later, other

    first, again, others, refused, days, later, other = talk(run.url, repeats)
    result = run.end()
    assert first == again == {"AAA": 10, "CASH": 890}
    assert [each["code"] for each in [*others, other]] == ["ledger_conflict"] * 3
    assert refused[0] == refused[1]
    assert refused[0]["code"] == "insufficient_cash"
    assert days[0] == days[1] == {"committed": "2025-08-29", "next": "2025-09-02"}
    assert later == first
    assert trades(result["run_dir"]) == FILLS[:1]
    assert replay(result["run_dir"]).identical


def test_an_order_id_of_an_earlier_day_answers_whole_as_it_did(folder):
    run = McpRun(folder)
    bought = {"symbol": "BBB", "amount": 2, "order_id": "b"}
    sold = {"symbol": "AAA", "amount": 4, "order_id": "c"}

    async def three_orders(call):
        await call("buy", symbol="AAA", amount=10, order_id="a")
        first = await call("buy", **bought)
        await call("finish_day")
        second = await call("sell", **sold)
        again = await call("buy", **bought)
        await call("finish_day")
        return first, second, again

    first, second, again = talk(run.url, three_orders)
    assert first == again == {"AAA": 10, "BBB": 2, "CASH": 790}
    result = run.end()
    with Ledger(f"{result['run_dir']}/ledger.sqlite") as book:
        kept = [day.notes["mcp_client"]["orders"] for day in book.history(result["run_id"])]
    assert kept[1]["c"]["answer"] == second == {"AAA": 6, "BBB": 2, "CASH": 838}


@pytest.mark.parametrize(
    ("name", "args", "code"),
    [
        ("buy", {"symbol": "AAA", "amount": 1}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": ""}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": "x" * 65}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": [7]}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": None}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": None, "order_id": "a"}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": "a\nb"}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 2.9, "order_id": "a"}, "bad_quantity"),
        ("buy", {"symbol": "AAA", "amount": "ten", "order_id": "a"}, "bad_quantity"),
        ("buy", {"symbol": "AAA", "amount": 10**12, "order_id": "huge"}, "insufficient_cash"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": "a", "date": "2025-08-28"}, "bad_option"),
        ("buy", {"symbol": "AAA", "amount": 1, "order_id": "a", "run": "other"}, "bad_option"),
        ("buy", {"symbol": "ZZZ", "amount": 1, "order_id": "a"}, "unknown_symbol"),
        ("get_today", {"account": "other"}, "bad_option"),
        ("finish_day", {"date": "2025-09-02"}, "bad_option"),
        ("finish_day", {"notes": "x" * 10_001}, "bad_option"),
        ("finish_day", {"notes": [3]}, "bad_option"),
        ("get_information", {"query": "x" * 30_000}, "bad_option"),
    ],
)
def test_bad_arguments_are_answered_by_one_line(open_run, name, args, code):
    async def wrong(call):
        return await call(name, **args)

    answer = talk(open_run.url, wrong)
    assert answer["code"] == code
    assert "\n" not in answer["error"]
    assert "Traceback" not in answer["error"]


@pytest.fixture(scope="module")
def open_run(tmp_path_factory):
    folder = tmp_path_factory.mktemp("open")
    prices(folder)
    run = McpRun(folder)
    yield run
    run.stop()


@pytest.mark.proof
def test_a_call_takes_less_than_ten_milliseconds(open_run):
    async def timed(call):
        times = []
        for number in range(40):
            begun = time.perf_counter()
            await call("add", a=number, b=1)
            times.append(time.perf_counter() - begun)
        return sorted(times)

    assert talk(open_run.url, timed)[20] < 0.010


def test_a_stopped_run_goes_on_where_it_was_and_tells_the_client(folder):
    run = McpRun(folder)

    async def buys(call):
        return await call("buy", symbol="AAA", amount=10, order_id="first")

    bought = talk(run.url, buys)
    stopped = run.stop()
    assert stopped["ended_because"] == "cancelled"
    begun = stopped["run_dir"]
    again = McpRun(folder, run=Path(begun))

    async def goes_on(call):
        today = await call("get_today")
        assert await buys(call) == bought
        await call("finish_day")
        await call("sell", symbol="AAA", amount=4, order_id="second")
        await call("finish_day")
        return today

    assert talk(again.url, goes_on)["order_ids"] == ["first"]
    assert again.end()["ended_because"] == "done"
    assert trades(begun) == FILLS
    assert replay(begun).identical


def test_eight_runs_at_once_do_not_mix(tmp_path):
    runs = []
    for number in range(8):
        own = tmp_path / str(number)
        own.mkdir()
        prices(own)
        runs.append(McpRun(own, cash=1_000 + number, token=f"{TOKEN}-{number}"))
    told = {}

    def trade(number):
        async def buys(call):
            for order in range(number + 1):
                last = await call("buy", symbol="AAA", amount=1 + number, order_id=f"{order}")
            await call("finish_day")
            await call("finish_day")
            return last

        told[number] = talk(runs[number].url, buys, token=f"{TOKEN}-{number}")

    threads = [threading.Thread(target=trade, args=(number,)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)
    for number, run in enumerate(runs):
        shares = (number + 1) ** 2
        assert told[number] == {"AAA": shares, "CASH": 1_000 + number - 11 * shares}
        assert sum(trade[3] for trade in trades(run.end()["run_dir"])) == shares


def test_concurrent_calls_of_one_run_are_all_kept(folder):
    run = McpRun(folder)

    async def many(call):
        async with anyio.create_task_group() as group:
            for number in range(20):
                group.start_soon(lambda n: call("buy", symbol="AAA", amount=1, order_id=f"{n % 10}"), number)
        last = await call("get_positions")
        await call("finish_day")
        await call("finish_day")
        return last

    assert talk(run.url, many) == {"AAA": 10, "CASH": 890}
    result = run.end()
    assert len(trades(result["run_dir"])) == 10
    assert replay(result["run_dir"]).identical


def test_the_four_services_share_one_account(folder):
    run = McpRun(folder, services=True)

    async def adds(call):
        return await call("add", a=1, b=2)

    async def buys(call):
        return await call("buy", symbol="AAA", amount=10, order_id="first")

    async def price(call):
        return await call("get_price_local", symbol="AAA", date="2025-08-29")

    assert talk(run.servers["math"]["url"], adds) == {"result": 3}
    assert talk(run.servers["trade"]["url"], buys)["AAA"] == 10
    assert talk(run.servers["price"]["url"], price)["open"] == 11
    run.stop()


def test_a_port_in_use_is_one_line_and_nothing_is_begun(folder):
    with (
        bound_socket(0, "port") as taken,
        pytest.raises(BadOption, match=r"^port=\d+: the port cannot be used"),
    ):
        start_mcp_run(
            spec(),
            McpAccess(port=taken.getsockname()[1]),
            resources=Resources(source=str(folder / "prices.csv")),
            out=folder / "runs",
        )
    assert not (folder / "runs").exists()


def test_a_run_of_another_decider_is_refused(folder):
    source = str(folder / "prices.csv")
    control = RunControl()
    control.request_drain("before anything is traded")
    live = Resources(control=control)
    result = run_strategy(spec(), source=source, decider="buy_and_hold", out=folder / "runs", resources=live)
    with pytest.raises(RunMismatch, match="decider"):
        resume_mcp_run(Path(result["run_dir"]), McpAccess(port=0))
