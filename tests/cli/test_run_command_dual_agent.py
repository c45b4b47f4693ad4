"""The dual agent on 20 real stocks by the commands alone: killed, resumed, replayed, and blind for what comes later."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
from datetime import datetime
from zoneinfo import ZoneInfo

import pytest
from dual_agent_models import rows_by_column

from quantgraph.broker.ledger import Ledger
from quantgraph.llm.messages import read
from quantgraph.testing import OpenAIStub

pytestmark = pytest.mark.proof

STOCKS = "AAPL AMGN AMZN AXP BA CAT CRM GS HD HON IBM JNJ JPM MCD MSFT PG SHW TRV UNH V".split()
SENTENCE = f"dual agent on {', '.join(STOCKS)}, March 2025"
FILTERED = ("--option", "cfg.features.filter=true")
NEW_YORK = ZoneInfo("America/New_York")
KILLED_AT = 24
"""The question whose answer is never read: the decision of the twelfth session."""


class Server:
    """Both models; it kills the command at one question, and makes a mistake in every fifth session."""

    def __init__(self, folder):
        self.folder, self.asked, self.prompts, self.kill_at, self.child = folder, [], [], None, None

    def answer(self, request):
        text = "\n".join(str(message["content"]) for message in request.messages)
        told = str(request.messages[1]["content"])
        self.asked.append((len(request.messages), told))
        self.prompts.append(text)
        if self.kill_at == len(self.asked):
            os.kill(self.child.pid, signal.SIGKILL)
        filtered = read("filter_facts", told)
        if filtered is not None:
            symbols = list(json.loads(filtered)["symbols"])
            reasoning = dict.fromkeys(symbols, "moved")
            return json.dumps({"stocks_need_fundamental": symbols[:10], "reasoning": reasoning})
        facts = rows_by_column(read("decision_facts", told))
        decisions = {name: self.decision(row) for name, row in facts["symbols"].items()}
        if facts["date"][-1:] in ("5", "0") and len(request.messages) == 2:
            decisions["V"] = {"action": "buy", "target_cash_amount": "a lot"}
        return json.dumps({"decisions": decisions})

    @staticmethod
    def decision(row):
        closes, value = row["close_7d"], row["current_position_value"]
        if closes[-1] > closes[0] and not value:
            return {
                "action": "increase",
                "target_cash_amount": 20_000,
                "confidence": 0.8,
                "reasons": ["momentum"],
            }
        if closes[-1] < 0.97 * closes[0] and value:
            return {"action": "close", "target_cash_amount": 0, "confidence": 0.7, "reasons": ["risk"]}
        return {"action": "hold", "target_cash_amount": value, "confidence": 0.5, "reasons": ["volume"]}

    def command(self, *arguments, url):
        environment = {
            "QUANTGRAPH_MODEL": "keyless",
            "QUANTGRAPH_MODELS": '{"filter": "filter", "decision": "decision"}',
            "OPENAI_BASE_URL": url,
        }
        self.child = subprocess.Popen(
            [os.path.join(os.path.dirname(sys.executable), "quantgraph"), *arguments, "--out", "runs"],
            cwd=self.folder,
            env={**os.environ, **environment},
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, err = self.child.communicate(timeout=240)
        return self.child.returncode, out, err


@pytest.fixture(scope="module")
def server(shared_data, tmp_path_factory):
    """A run that was killed in its twelfth session, and resumed by the command."""
    server = Server(tmp_path_factory.mktemp("desk"))
    with OpenAIStub(server.answer) as stub:
        server.kill_at = KILLED_AT
        source = ("--source", str(shared_data / "stockbench"), "--market", "us")
        server.killed = server.command(
            "run", SENTENCE, "--decider", "dual_agent", *FILTERED, "--headless", *source, url=stub.base_url
        )
        server.kill_at = None
        server.resumed = server.command("resume", "--json", url=stub.base_url)
        yield server


@pytest.fixture(scope="module")
def results(server):
    (folder,) = (server.folder / "runs").glob("2*")
    with Ledger(folder / "ledger.sqlite") as book:
        book.check(folder.name)
        return list(book.results(folder.name))


@pytest.mark.proof
def test_it_is_killed_and_resumed_and_no_call_is_paid_twice(server, results):
    assert server.killed[0] == -signal.SIGKILL, server.killed
    code, out, err = server.resumed
    assert (code, json.loads(out)["ended_because"]) == (0, "done"), err
    assert len(results) == 21
    once = {tuple(each) for each in server.asked}
    # One question was on its way when it was killed.
    assert len(server.asked) == len(once) + 1
    filters = [told for _, told in once if read("filter_facts", told)]
    assert len(filters) == 21
    assert len(once) - 2 * 21 == sum(result.notes["meta"]["calls"] - 2 for result in results) > 0


def test_the_ledger_says_why_and_one_bad_symbol_holds_no_other(results):
    for result in results:
        decisions = result.notes["decisions"]
        assert list(decisions) == STOCKS
        assert all(("hold_reason" in each) == (each["action"] == "hold") for each in decisions.values())
        # V's mistakes are repaired, all others stand.
        assert not [name for name, each in decisions.items() if each.get("hold_reason") == "fallback"]
    assert sum(len(result.fills) for result in results) > 20


def test_it_is_replayed_by_the_command_alone(server):
    before = len(server.asked)
    code, out, err = server.command("replay", url="http://127.0.0.1:1")
    assert (code, "identical" in out) == (0, True), (out, err)
    assert len(server.asked) == before


def test_no_prompt_has_what_was_published_later(server, shared_data):
    with gzip.open(shared_data / "stockbench" / "news_2025-03.jsonl.gz", "rt", encoding="utf-8") as file:
        news = [json.loads(line) for line in file]
    assert len(news) == 905
    first = {}
    for each in news:
        at = datetime.fromisoformat(each["published_at"])  # of MarketWatch New York's time, by the README
        of_marketwatch = each["publisher"] == "MarketWatch"
        at = at.replace(tzinfo=NEW_YORK) if of_marketwatch else at.astimezone(NEW_YORK)
        key = each["ticker"], " ".join(each["title"].split())
        first[key] = min(first.get(key, at), at)
    shown = 0
    for _, told in server.asked:
        facts = json.loads(read("filter_facts", told) or read("decision_facts", told))
        begun = datetime.fromisoformat(f"{facts['date']}T00:00").replace(tzinfo=NEW_YORK)
        for event in facts.get("news", ()):
            symbols, _, text = re.split(r" (\d{4}-\d\d-\d\d): ", event, maxsplit=1)
            for symbol in symbols.split():
                known = [
                    at
                    for (name, title), at in first.items()
                    if name == symbol and text.casefold().startswith(title.casefold()[:150])
                ]
                assert min(known) < begun
                shown += 1
    assert shown > 500


def test_no_prompt_has_the_low_of_april(server):
    assert server.prompts
    assert not [prompt for prompt in server.prompts if "169.21" in prompt]
