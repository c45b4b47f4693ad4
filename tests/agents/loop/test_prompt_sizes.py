"""How many tokens the facts of real days take, and that both languages say the same."""

import json
import re
from decimal import Decimal

import pytest
from langchain_core.utils.function_calling import convert_to_openai_tool

from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.broker import Account, Market, RunContext, TradePlan
from quantgraph.broker.accounts import Position
from quantgraph.broker.session import advance
from quantgraph.data import open_source
from quantgraph.llm.messages import read
from quantgraph.market import Rulebook
from quantgraph.state import DataState
from quantgraph.testing import ScriptedChatModel
from quantgraph.tools import tools_of

HOLD = '{"type": "decision", "action": "hold", "reason": "calm", "confidence": 0.5}'


def tokens(text: str) -> int:
    """About: a token for each four characters of ASCII, and for each other character."""
    ascii_only = sum(character.isascii() for character in text)
    return ascii_only // 4 + len(text) - ascii_only


@pytest.fixture(scope="module")
def first_requests(shared_data):
    """The first request of the second session, of 101 shares of which 20 are held, by agent and language."""
    source, store = open_source(shared_data / "ai-trader" / "us"), DataState()
    days = source.sessions()[:75]
    store.update("ohlcv", source.bars(source.symbols(), days[0], days[-1]))
    names = store.snapshot(store.head)["ohlcv"].frozen("close").symbols
    assert len(names) >= 100
    held = {
        name: Position(quantity=7, sellable=7, cost=Decimal("700.07"), entered=days[-9])
        for name in names[:20]
    }
    account = Account(cash=Decimal("98765.43"), positions=held)
    market = Market(store=store, data_ref=store.head, rules=Rulebook.us())
    found = {}
    for language in ("en", "zh"):
        for agent, reply in ((TraderAgent(), "<FINISH_SIGNAL>"), (ExecutionAgent(parallel=1), HOLD)):
            model, done = ScriptedChatModel(lambda _messages, reply=reply: reply), []
            plan = TradePlan(stop_loss=0.1)
            run = RunContext(
                model=lambda _role, model=model: model,
                history=lambda done=done: done,
                language=language,
                rule="buy strength",
                plan=plan,
            )
            for result in advance(market, list(days[-2:]), agent, account=account, run=run):
                done.append(result)
            calls = [[message.text for message in each.messages] for each in model.calls]
            found[agent.name, language] = calls[len(calls) // 2]
    return found


def test_a_hundred_shares_take_at_most_seven_thousand_tokens(first_requests):
    bound = json.dumps([convert_to_openai_tool(each)["function"] for each in tools_of("trader").values()])
    for language in ("en", "zh"):
        texts = first_requests["trader", language]
        assert texts[0].count("\n") > 100
        assert tokens("\n".join([*texts, bound])) <= 7_000
        assert tokens("\n".join(first_requests["execution", language])) <= 1_500


@pytest.mark.parametrize(("agent", "part"), [("trader", "trader_day"), ("execution", "execution_facts")])
def test_both_languages_have_the_same_facts(first_requests, agent, part):
    english, chinese = (read(part, first_requests[agent, language][0]) for language in ("en", "zh"))
    numbers = [sorted(re.findall(r"[-+]?\d[\d.]*(?: ?%)?", text)) for text in (english, chinese)]
    assert len(numbers[0]) > 15
    assert numbers[0] == numbers[1]
    if agent == "execution":
        first, second = json.loads(english), json.loads(chinese)
        assert list(first) == list(second)
        assert first["runtime_status"] == second["runtime_status"]
    else:
        tables = [text[text.index("symbol,") :].partition("\n\n")[0] for text in (english, chinese)]
        assert tables[0] == tables[1]
