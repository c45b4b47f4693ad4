"""A whole day of three replies through a run: the prompt, the tools' answers, the log, and the position lines.

The numbers are those of AI-Trader's own description: ten AAPL, five MSFT and 8,500 in cash; NVDA opens at 145.2,
and twenty of it leave 5,596.
"""

from __future__ import annotations

import json
from pathlib import Path

import pandas as pd
import pytest
from trader_play import says

from quantgraph.agents.trader import TraderAgent
from quantgraph.broker.ledger import Ledger
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec, replay, run_strategy
from quantgraph.testing import ScriptedChatModel

TODAY = "2025-10-15"
BARS = {  # open, high, low, close, volume in shares
    "2025-10-13": {"AAPL": (100, 110, 99, 105, 1_000), "MSFT": (100, 110, 99, 105, 1_000), "NVDA": (140, 141, 139, 140, 900)},
    "2025-10-14": {
        "AAPL": (183.0, 185.5, 181.2, 184.3, 52_847_600),
        "MSFT": (421.0, 424.0, 420.0, 422.5, 1_000),
        "NVDA": (144.0, 146.0, 143.0, 145.2, 48_520_000),
    },
    "2025-10-15": {"AAPL": (182.0, 999, 1, 777.7, 5), "MSFT": (420.0, 999, 1, 888.8, 5), "NVDA": (145.2, 999, 1, 666.6, 5)},
}  # fmt: skip
NEWS = [
    ("Apple unveils new AI features", "AAPL", "2025-10-14T10:00:00-04:00"),
    ("Microsoft beats earnings expectations", "MSFT", "2025-10-14T12:00:00-04:00"),
    ("Apple falls after the close of the fifteenth", "AAPL", "2025-10-15T18:00:00-04:00"),
    ("Apple without a time", "AAPL", None),
]
FIRST = says(
    "I look at the news and at NVDA.",
    ("get_information", {"query": "Apple stock news October 2025"}),
    ("get_information", {"query": "Microsoft earnings Q3 2025"}),
    ("get_price_local", {"symbol": "NVDA", "date": "2025-10-14"}),
)
SECOND = says(
    "NVDA rises; I add it.", ("multiply", {"a": 145.2, "b": 20}), ("buy", {"symbol": "NVDA", "amount": 20})
)
LAST = "Bought 20 NVDA for $2,904; cash is $5,596.\n\n<FINISH_SIGNAL>"
AFTER = {"AAPL": 10, "MSFT": 5, "NVDA": 20, "CASH": 5596.0}


def write_market(folder: Path) -> Path:
    folder.mkdir(parents=True)
    rows = [[symbol, day, *bar] for day, bars in BARS.items() for symbol, bar in bars.items()]
    columns = ["symbol", "date", "open", "high", "low", "close", "volume"]
    pd.DataFrame(rows, columns=columns).to_csv(folder / "bars.csv", index=False)
    lines = [
        json.dumps({"title": title, "ticker": symbol, "description": f"{title}.", "published_utc": at})
        for title, symbol, at in NEWS
    ]
    (folder / "news.jsonl").write_text("\n".join(lines))
    return folder


def play(messages):
    today = messages[1].content.partition("(")[2].partition(")")[0]
    given = sum(message.type == "ai" for message in messages)
    if today == TODAY:
        return [FIRST, SECOND, LAST][given]
    if today == "2025-10-13" and not given:
        return says("", ("buy", {"symbol": "AAPL", "amount": 10}), ("buy", {"symbol": "MSFT", "amount": 5}))
    return "<FINISH_SIGNAL>"


@pytest.fixture(scope="module", params=["messages", "text"])
def done(request, tmp_path_factory):
    place = tmp_path_factory.mktemp("example")
    model = ScriptedChatModel(play)
    spec = RunSpec(
        question="autonomous trader on AAPL, MSFT, NVDA, 20251013 to 20251015",
        cash=10_000,
        rules=Rulebook.zero_cost("us"),
    )
    result = run_strategy(
        spec,
        source=write_market(place / "market"),
        decider=TraderAgent(results_as=request.param),
        model={"trader": model},
        out=place,
    )
    assert result["ended_because"] == "done", result["error"]
    asked = [list(call.messages) for call in model.calls]
    return Path(result["run_dir"]), [each for each in asked if TODAY in each[1].content], request.param


def steps(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return book.executions(folder.name)[-1].steps


def test_the_prompt_has_the_five_parameters(done):
    prompt = done[1][0][0].content
    table = """
symbol,held,cost,weight,last_close,open,r1
CASH,8500.00
AAPL,10,100.0000,14.7,184.3,182,75.5
MSFT,5,100.0000,16.9,422.5,420,302.4
NVDA,0,,,145.2,145.2,3.7

"""
    assert table in read("trader_day", prompt)
    # Of three parts one has gained 82 %, one 320 %, one 5.2 of 140.
    worth = "Portfolio now: 12420.00; since 2025-10-13: +24.20 %; equal parts of all symbols: +135.24 %"
    assert worth in prompt
    assert f"Today's date:\n{TODAY}" in prompt
    assert prompt.endswith("<FINISH_SIGNAL>")
    assert done[1][0][1].content == f"Please analyze and update today's ({TODAY}) positions."


def test_the_tools_answer_in_the_documented_shapes(done):
    first, second, last = steps(done[0])
    apple, microsoft, nvidia = [each["result"] for each in first.result]
    assert [each["title"] for each in apple["results"]] == ["Apple unveils new AI features"]
    assert [each["title"] for each in microsoft["results"]] == ["Microsoft beats earnings expectations"]
    assert {"title", "content", "url"} <= set(apple["results"][0])
    assert nvidia == {
        "date": "2025-10-14", "open": 144.0, "high": 146.0, "low": 143.0, "close": 145.2, "volume": 48_520_000,
    }  # fmt: skip
    assert [each["result"] for each in second.result] == [2904.0, AFTER]
    assert last.result is None


def test_the_next_reply_is_asked_with_what_the_tools_answered(done):
    _, asked, results_as = done
    if results_as == "text":
        assert asked[2][-1].content == f"Tool results: 2904.0\n{json.dumps(AFTER)}"
    else:
        assert [json.loads(each.content) for each in asked[2][-2:]] == [2904.0, AFTER]
    assert len(asked) == 3


def test_the_ledger_has_what_the_tool_said(done):
    with Ledger(done[0] / "ledger.sqlite") as book:
        last = list(book.results(done[0].name))[-1]
    held = {symbol: position.quantity for symbol, position in last.account.positions.items()}
    assert held | {"CASH": float(last.account.cash)} == AFTER
    assert [(fill.order.symbol, fill.quantity, float(fill.price)) for fill in last.fills] == [
        ("NVDA", 20, 145.2)
    ]


def test_the_day_replays(done):
    assert replay(done[0], decider=TraderAgent(results_as=done[2])).identical
