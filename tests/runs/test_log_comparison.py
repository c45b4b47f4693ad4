"""The execution log of a run is resumed and replayed with it: the same steps, each once."""

from __future__ import annotations

import shutil
import sqlite3
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantgraph.broker import Decider, Decision
from quantgraph.broker.ledger import Ledger, LoggedStep
from quantgraph.cli._main import app
from quantgraph.runs import RunSpec, replay, resume_run, run_strategy
from quantgraph.runtime import Resources

SENTENCE = "000341.SZ and 000342.SZ, buy when RSI(14) is below 30, 20250102 to 20250108"
SYMBOLS = ("000341.SZ", "000342.SZ")
DAYS = ["0102", "0103", "0106", "0107", "0108"]


class Stepper(Decider):
    """Takes two steps for each symbol, side by side, and holds."""

    name = "stepper"
    uses_signal = False

    def __init__(self, fails_on="", odd=""):
        self.fails_on, self.odd = fails_on, odd

    def decide(self, context):
        with ThreadPoolExecutor(2) as threads:
            list(threads.map(lambda symbol: self.execute(context, symbol), SYMBOLS))
        return Decision(notes={"held": list(SYMBOLS)})

    def execute(self, context, symbol):
        day = f"{context.session:%m%d}"
        with context.scope(symbol):
            price = float(context.view.row("ohlcv", "open")[symbol])
            for number, kind in enumerate(("tool_call", "decision"), 1):
                if (day, number) == (self.fails_on, 2):
                    raise RuntimeError("switched off")
                step = LoggedStep(
                    rule_name="rule",
                    rule=SENTENCE,
                    symbol=symbol,
                    session=context.session,
                    step=number,
                    action_type=kind,
                    action={"type": kind, "step": number},
                    result={"open": price + (day == self.odd), "odd": None},
                    timestamp=context.view.moment.timestamp.isoformat(),
                )
                context.log_step(step)


@pytest.fixture(scope="module")
def recorded(tmp_path_factory):
    done = run_strategy(SENTENCE, decider=Stepper(), out=tmp_path_factory.mktemp("runs"))
    assert done["ended_because"] == "done"
    return Path(done["run_dir"])


@pytest.fixture
def copy(recorded, tmp_path):
    return Path(shutil.copytree(recorded, tmp_path / recorded.name))


def steps(folder):
    with Ledger(folder / "ledger.sqlite") as book:
        return {
            (f"{each.session:%m%d}", each.symbol): [
                (one.step, one.result, one.timestamp) for one in each.steps
            ]
            for each in book.executions(folder.name)
        }


def change(folder, statement):
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as connection, connection:
        assert connection.execute(statement).rowcount


def test_a_run_keeps_every_step_of_every_symbol_at_its_simulated_moment(recorded):
    kept = steps(recorded)
    assert list(kept) == [(day, symbol) for day in DAYS for symbol in SYMBOLS]
    assert {tuple(number for number, _, _ in each) for each in kept.values()} == {(1, 2)}
    assert kept["0106", SYMBOLS[1]][1][2] == "2025-01-06T09:00:00"


def test_a_replay_compares_the_steps(recorded):
    assert replay(recorded, decider=Stepper()).identical


@pytest.mark.parametrize(
    ("statement", "told"),
    [
        (
            'UPDATE execution_logs SET result_data = \'{"open":1,"odd":null}\' WHERE step = 2 AND execution_id = '
            "(SELECT execution_id FROM executions WHERE session = '2025-01-06' AND symbol = '000342.SZ')",
            "executions 2025-01-06 000342.SZ rule step 2 result.open: recorded: 1 | replayed: ",
        ),
        (
            "DELETE FROM execution_logs WHERE step = 2 AND execution_id = "
            "(SELECT execution_id FROM executions WHERE session = '2025-01-02' AND symbol = '000341.SZ')",
            "executions 2025-01-02 000341.SZ rule step 2 action: recorded: nothing | replayed: {",
        ),
        (
            "DELETE FROM executions WHERE session = '2025-01-08' AND symbol = '000341.SZ'",
            "executions 2025-01-08 000341.SZ rule step 1 action: recorded: nothing | replayed: {",
        ),
    ],
)
def test_a_step_that_differs_is_named(copy, statement, told):
    change(copy, statement)
    (difference,) = replay(copy, decider=Stepper()).differences
    assert difference.line.startswith(told)


def test_ids_and_the_order_of_rows_are_not_compared(copy):
    change(copy, "UPDATE execution_logs SET id = 1000 - id")
    assert replay(copy, decider=Stepper()).identical


def test_a_session_that_was_not_committed_is_not_compared_and_is_kept_once_after_a_resume(recorded, tmp_path):
    with pytest.raises(RuntimeError, match="switched off"):
        run_strategy(SENTENCE, decider=Stepper(fails_on="0107"), out=tmp_path)
    (folder,) = tmp_path.glob("*/")
    counts = Counter(day for day, _ in steps(folder))
    assert counts.pop("0107") in {1, 2}  # the other symbol may not have begun
    assert counts == dict.fromkeys(DAYS[:3], 2)
    assert {len(each) for (day, _), each in steps(folder).items() if day == "0107"} == {1}
    done = resume_run(folder, decider=Stepper())
    assert done["ended_because"] == "done"
    assert steps(folder) == steps(recorded)
    assert replay(folder, decider=Stepper()).identical


def test_orders_that_need_approval_change_no_step(recorded, tmp_path):
    spec = RunSpec(question=SENTENCE, approve=True)
    done = run_strategy(spec, decider=Stepper(), out=tmp_path)
    assert steps(Path(done["run_dir"])) == steps(recorded)
    assert replay(done["run_dir"], decider=Stepper()).identical


def test_the_check_of_a_run_is_not_disturbed(recorded):
    assert CliRunner().invoke(app, ["ledger", "check", str(recorded)]).exit_code == 0


def test_runs_of_one_database_have_logs_of_their_own(recorded, tmp_path):
    place = tmp_path / "shared.sqlite"
    names = []
    for _ in range(2):
        done = run_strategy(SENTENCE, decider=Stepper(), out=tmp_path, resources=Resources(ledger=place))
        names.append(done["run_id"])
        assert replay(done["run_dir"], decider=Stepper(), resources=Resources(ledger=place)).identical
    with Ledger(place) as book:
        first, second = (book.executions(name) for name in names)
        assert [each.steps for each in first] == [each.steps for each in second]
        assert not {each.execution_id for each in first} & {each.execution_id for each in second}
    assert len(first) == len(DAYS) * len(SYMBOLS)
