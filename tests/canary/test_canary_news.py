"""News by what they say: no prompt of any decider tells of a session before it is over, or at least open.

The stamps of StockBench's MarketWatch headlines are New York wall time, although a ``Z`` stands behind them
(``data/stockbench/README.md``). So the true time of "Dow's 569-point drop" is read from the file by hand here;
whatever the library makes of a stamp, the words of a day must not stand in a prompt of its open.
"""

from __future__ import annotations

import gzip
import json
import re
from datetime import datetime, timedelta
from pathlib import Path

import pytest
from trader_play import says

from quantgraph.agents.dual_agent import DualAgent
from quantgraph.agents.execution import ExecutionAgent
from quantgraph.agents.trader import TraderAgent
from quantgraph.runs import run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

SYMBOLS = ("AXP", "CAT", "GS", "JPM")
WINDOW = f"on {', '.join(SYMBOLS)}, 20250303 to 20250331"
OF_A_SESSION = re.compile(r"\d-point |losses lead|Dow (up|down|drops?|falls?|gains?|rises?|jumps?) \d|midday")
SESSION = re.compile(r'"(?:date|session)": ?"(2025-03-\d\d)"|(?:date|Today)[^0-9]{1,20}(2025-03-\d\d)')
STOP = says("<FINISH_SIGNAL>")
FALSELY = {"tables": {"record_zone": "MarketWatch=UTC"}}


@pytest.fixture(scope="module")
def told_of(shared_data: Path) -> dict[str, datetime]:
    """By title that tells of a session the first true New York time at which it was published."""
    with gzip.open(shared_data / "stockbench" / "news_2025-03.jsonl.gz", "rt", encoding="utf-8") as file:
        items = [json.loads(line) for line in file]
    found: dict[str, datetime] = {}
    for each in items:
        if each["publisher"] == "MarketWatch" and OF_A_SESSION.search(each["title"]):
            at = datetime.fromisoformat(each["published_at"].removesuffix("Z"))
            found[each["title"]] = min(found.get(each["title"], at), at)
    return found


class Prompts:
    """Plays every decider, which asks for all news that it can get, and keeps what it was shown, by session."""

    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def keep(self, messages) -> str:
        text = "\n".join(message.text for message in messages)
        found = SESSION.search(text)
        session = found[1] or found[2]
        self.shown.append((session, text))
        return text

    def dual(self, messages) -> str:
        self.keep(messages)
        hold = {"reasons": ["waits"], "action": "hold", "confidence": 0.5}
        return json.dumps({"decisions": dict.fromkeys(SYMBOLS, hold)})

    def filter(self, messages) -> str:
        self.keep(messages)
        return json.dumps({"stocks_need_fundamental": [], "reasoning": dict.fromkeys(SYMBOLS, "none")})

    def execution(self, messages) -> str:
        text = self.keep(messages)
        action = {"action": "hold", "reason": "waits", "confidence": 0.5}
        if "tool_results" not in text and len(messages) < 3:
            symbol = re.search(r'"symbol": ?"([A-Z]+)"', text)[1]
            call = {"tool_name": "get_news", "params": {"symbol": symbol, "limit": 50}}
            return json.dumps({"type": "tool_call", "reasoning": "reads", "action": call})
        return json.dumps({"type": "decision", "reasoning": "waits", "action": action})

    def trader(self, messages):
        self.keep(messages)
        if len(messages) > 2:
            return STOP
        queries = ("Dow point drop losses lead", "Dow point rally gains", *SYMBOLS)
        return says("I read.", *(("get_information", {"query": query}) for query in queries))

    def models(self) -> dict[str, ScriptedChatModel]:
        plays = {"decision": self.dual, "filter": self.filter}
        plays |= {"execution": self.execution, "trader": self.trader}
        return {role: ScriptedChatModel(play) for role, play in plays.items()}


DECIDERS = {"dual agent": DualAgent, "execution agent": ExecutionAgent, "autonomous trader": TraderAgent}


def prompts(name: str, shared_data: Path, folder: Path, **settings) -> list[tuple[str, str]]:
    played = Prompts()
    done = run_strategy(
        f"{name} {WINDOW}",
        decider=DECIDERS[name](),
        model=played.models(),
        source=str(shared_data / "stockbench"),
        out=folder,
        resources=Resources(settings=load_settings(**settings)),
    )
    assert done["ended_because"] == "done", done
    assert len({session for session, _ in played.shown}) == 21
    return played.shown


def leaks(shown, told_of, *, opens: timedelta) -> list[tuple[str, str]]:
    """Titles that were published at or after a time of the session in whose prompt they stand."""
    return [
        (session, title)
        for session, text in shown
        for title, at in told_of.items()
        if at >= datetime.fromisoformat(session) + opens and title in text
    ]


def test_the_titles_that_tell_of_a_session_are_those_of_the_readme(told_of):
    assert len(told_of) > 40
    assert {at.hour for at in told_of.values()} <= set(range(9, 16))


@pytest.mark.proof
@pytest.mark.parametrize("name", DECIDERS)
def test_no_prompt_of_a_month_tells_of_its_own_day(name, shared_data, tmp_path, told_of):
    shown = prompts(name, shared_data, tmp_path)
    assert leaks(shown, told_of, opens=timedelta(0)) == []
    assert sum(title in text for _, text in shown for title in told_of) > 5, "the scan sees earlier days"


@pytest.mark.proof
@pytest.mark.parametrize("name", DECIDERS)
def test_up_to_the_open_no_prompt_tells_of_what_came_after_it(name, shared_data, tmp_path, told_of):
    shown = prompts(name, shared_data, tmp_path, news_until="open")
    assert leaks(shown, told_of, opens=timedelta(hours=9)) == []
    assert sum(title in text for _, text in shown for title in told_of) > 5


@pytest.mark.proof
@pytest.mark.parametrize("name", DECIDERS)
def test_the_scan_finds_the_leak_of_a_zone_that_is_declared_falsely(name, shared_data, tmp_path, told_of):
    shown = prompts(name, shared_data, tmp_path, news_until="open", **FALSELY)
    found = leaks(shown, told_of, opens=timedelta(hours=9, minutes=30))
    assert len({title for _, title in found}) > 5
