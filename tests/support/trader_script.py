"""Runs of the trader on the sample, with a model that plays the replies of each session."""

from __future__ import annotations

from pathlib import Path

from trader_play import STOP

from quantgraph.broker.ledger import Ledger
from quantgraph.runs import run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

FIRST, SECOND = "000341.SZ", "600958.SH"
SENTENCE = f"trader on {FIRST}, {SECOND}, 20250102 to 20250106"


class Script:
    """Plays ``days[session]``, a list of replies, whatever else is asked."""

    def __init__(self, days):
        self.days, self.asked = days, {}
        self.model = ScriptedChatModel(self.play)

    def play(self, messages):
        session = messages[1].content.partition("(")[2].partition(")")[0]
        asked = self.asked.setdefault(session, [])
        asked.append(list(messages))
        replies = self.days.get(session, [STOP])
        given = sum(message.type == "ai" for message in messages)
        return replies[given]


def run(script, folder, sentence=SENTENCE, decider=None, **settings):
    resources = Resources(settings=load_settings(**settings))
    done = run_strategy(
        sentence, decider=decider or "trader", model={"trader": script.model}, out=folder, resources=resources
    )
    return done, Path(done["run_dir"])


def sessions(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return list(book.results(folder.name))


def executions(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return book.executions(folder.name)
