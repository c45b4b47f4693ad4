"""A thousand kills: runs that end with SIGKILL at random instants and are resumed; ``make soak`` runs it.

Each line: what was run, kills, and what a run takes without them. Exit status 1 if a resumed run's journal is
not that of the uninterrupted one, byte for byte. ``soak.py KILLS SEED`` draws the same delays again; the seed
is the day's number, and is printed.
"""

from __future__ import annotations

import datetime as dt
import json
import subprocess
import sys
import tempfile
from pathlib import Path

CHILD = Path(__file__).resolve().parents[1] / "tests" / "broker" / "crash_child.py"
SHARES = {"rule": 0.4, "orders": 0.4, "graph1": 0.1, "graph8": 0.1}
"""Which part of the kills hits which run."""


def soak(what: str, way: str, kills: int, seed: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        command = [sys.executable, str(CHILD), what, way, folder, str(kills), str(seed)]
        told = json.loads(subprocess.run(command, check=True, stdout=subprocess.PIPE).stdout)
    print(f"{what:<8}{way:<10}{len(told['kills']):>6} kills {told['seconds']:>8.3f} s a run  ok", flush=True)


def main(kills: int, seed: int) -> None:
    print(f"seed {seed}")
    for what in ("rule", "orders"):
        soak(what, "boundary", 0, seed)
    for what, share in SHARES.items():
        soak(what, "time", round(kills * share), seed)


if __name__ == "__main__":
    given = [int(text) for text in sys.argv[1:3]]
    main(*given, *(1000, dt.datetime.now(tz=dt.UTC).toordinal())[len(given) :])
