"""Eight processes that write to one ledger at once: ``race_child.py own|same WHERE``; prints one JSON object.

``own``: each trades a run of its own. ``same``: four trade one run with one decider, four with another.
"""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from random_market import RandomDecider, random_world, told

from quantgraph.broker import Account, simulate
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.errors import LedgerConflict
from quantgraph.market import Rulebook

PROCESSES, CONFLICT = 8, 7
CASH = 400_000
WORLD = random_world(4, market="cn", symbols=4, sessions=15)
MARKET = WORLD.market(Rulebook.mainland())
DECIDERS = [RandomDecider(seed, WORLD.symbols) for seed in (4, 5)]
RESULTS = [
    list(simulate(MARKET, WORLD.sessions, decider, account=Account.opening(CASH))) for decider in DECIDERS
]


def own(where: str, place: int) -> None:
    with Ledger(where) as ledger:
        decider = DECIDERS[place % 2]
        run_sessions(MARKET, WORLD.sessions, decider, cash=CASH, ledger=ledger, run_id=f"r{place}")


def same(where: str, place: int) -> None:
    with Ledger(where) as ledger:
        ledger.open_run("r", CASH)
        for result in RESULTS[place % 2]:
            assert ledger.commit_day("r", result) == result


def forked(work, where: str, place: int, gate: tuple[int, int]) -> int:
    pid = os.fork()
    if pid:
        return pid
    try:
        start, begin = gate
        os.close(begin)
        os.read(start, 1)  # until the parent closes the other end
        work(where, place)
    except LedgerConflict:
        os._exit(CONFLICT)
    except BaseException:
        sys.excepthook(*sys.exc_info())
        os._exit(1)
    os._exit(0)


def main(work, where: str) -> None:
    gate = os.pipe()
    pids = [forked(work, where, place, gate) for place in range(PROCESSES)]
    for end in gate:
        os.close(end)
    ended = [os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]) for pid in pids]
    with Ledger(where) as ledger:
        journals = {name: told(ledger, name) for name in ledger.runs()}
        for name in journals:
            ledger.check(name)
    print(json.dumps({"ended": ended, "journals": journals}))


if __name__ == "__main__":
    main({"own": own, "same": same}[sys.argv[1]], sys.argv[2])
