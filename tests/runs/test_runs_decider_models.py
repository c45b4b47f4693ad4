"""A decider that asks models side by side: stopped, resumed, replayed, and its models part of the run."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest
from load_script import load_script

from quantgraph.broker.ledger import Ledger
from quantgraph.errors import BadOption, BudgetExceeded
from quantgraph.runs import replay, resume_run, run_strategy
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

two_models = load_script(Path(__file__).parents[2] / "examples" / "two_models.py")
Panel = two_models.Panel
SENTENCE = "000341.SZ 000342.SZ 000343.SZ, buy when RSI(14) is below 30, 20250102 to 20250110"
SESSIONS = 7


class Counting:
    """Both models; each question is counted, and after ``stop`` of them the machine is switched off."""

    def __init__(self, stop=None):
        self.asked, self.stop, self._lock = [], stop, threading.Lock()

    def models(self):
        return {
            "filter": ScriptedChatModel(lambda messages: self._answer(messages, "no", "yes", "000342")),
            "decision": ScriptedChatModel(
                lambda messages: self._answer(messages, "sell", "buy", "said: buy")
            ),
        }

    def _answer(self, messages, then, otherwise, word):
        text = messages[0].text
        with self._lock:
            if self.stop is not None and len(self.asked) >= self.stop:
                raise KeyboardInterrupt
            self.asked.append(text)
        return then if word in text else otherwise


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    counting = Counting()
    folder = tmp_path_factory.mktemp("runs")
    done = run_strategy(SENTENCE, decider=Panel(), model=counting.models(), out=folder)
    assert done["ended_because"] == "done"
    return Path(done["run_dir"]), counting.asked


def journal(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return [(line["session"], line["kind"], line["body"]) for line in book.journal(folder.name)]


def test_each_symbol_is_asked_in_each_session_and_the_notes_are_in_the_ledger(recorded):
    folder, asked = recorded
    # Three symbols are filtered, two of them judged, in each session.
    assert len(asked) == SESSIONS * (3 + 2)
    with Ledger(folder / "ledger.sqlite") as book:
        notes = list(book.notes(folder.name).values())
        book.check(folder.name)
    assert len(notes) == SESSIONS
    assert notes[0] == {"000341.SZ": "buy", "000342.SZ": "not looked at", "000343.SZ": "buy"}
    assert notes[1]["000341.SZ"] == "sell", "the notes of the session before are its history"


def test_a_replay_asks_nobody_and_is_identical(recorded):
    replayed = replay(recorded[0], decider=Panel())
    assert replayed.identical, replayed.differences


def test_a_replay_holds_under_another_order_of_threads(recorded, monkeypatch):
    class Backwards(two_models.ThreadPoolExecutor):
        def map(self, judge, symbols):
            answers = {symbol: self.submit(judge, symbol).result() for symbol in reversed(symbols)}
            return [answers[symbol] for symbol in symbols]

    monkeypatch.setattr(two_models, "ThreadPoolExecutor", Backwards)
    replayed = replay(recorded[0], decider=Panel())
    assert replayed.identical, replayed.differences


def test_a_run_that_was_stopped_in_a_session_asks_nothing_twice(recorded, tmp_path):
    folder, asked = recorded
    first = Counting(stop=12)
    stopped = run_strategy(SENTENCE, decider=Panel(), model=first.models(), out=tmp_path)
    assert stopped["ended_because"] == "cancelled"
    second = Counting()
    done = resume_run(stopped["run_dir"], decider=Panel(), model=second.models())
    assert done["ended_because"] == "done"
    assert sorted(first.asked + second.asked) == sorted(asked)
    assert [line[1:] for line in journal(Path(done["run_dir"]))][2:] == [
        line[1:] for line in journal(folder)
    ][2:]
    assert replay(done["run_dir"], decider=Panel()).identical


def test_a_role_that_the_decider_does_not_name_has_no_model(tmp_path):
    class Undeclared(Panel):
        roles = ("filter",)

    with pytest.raises(BadOption, match="role 'decision' is not among the roles of decider 'panel': filter"):
        run_strategy(SENTENCE, decider=Undeclared(), model=Counting().models(), out=tmp_path)


class Careful(Panel):
    """Holds, and notes it, where its session may ask no more."""

    def judge(self, context, symbol):
        try:
            return super().judge(context, symbol)
        except BudgetExceeded as error:
            return error.data["of"]


@pytest.mark.parametrize("kind", [Panel, Careful])
def test_the_end_of_a_sessions_budget_is_told_to_the_decider_and_replays(kind, tmp_path):
    resources = Resources(settings=load_settings(session_budget="calls=3"))
    done = run_strategy(
        SENTENCE, decider=kind(), model=Counting().models(), out=tmp_path, resources=resources
    )
    assert done["ended_because"] == "done"
    folder = Path(done["run_dir"])
    with Ledger(folder / "ledger.sqlite") as book:
        notes = list(book.notes(folder.name).values())
    assert len(notes) == SESSIONS
    for said in notes:
        if kind is Careful:
            assert "session" in said.values()
        else:
            assert said["error"].startswith("budget_exceeded: budget of the session")
    replayed = replay(folder, decider=kind())
    assert replayed.identical, replayed.differences


def test_the_end_of_the_runs_budget_ends_the_run_though_the_decider_catches_it(tmp_path):
    resources = Resources(settings=load_settings(budget="calls=12"))
    done = run_strategy(
        SENTENCE, decider=Careful(), model=Counting().models(), out=tmp_path, resources=resources
    )
    assert done["ended_because"] == "budget_calls"
    with Ledger(Path(done["run_dir"]) / "ledger.sqlite") as book:
        assert len(book.sessions(done["run_id"])) < SESSIONS
