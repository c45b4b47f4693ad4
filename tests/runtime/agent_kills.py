"""Plays a trader that is an agent in processes that are killed, and holds what it came to against it whole."""

from __future__ import annotations

import json
import os
import random
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Mapping, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from typing import Any

from quantgraph.testing import ChatRequest, OpenAIStub, Reply

CHILD = Path(__file__).parent / "agent_child.py"
DURABILITIES = ("exit", "async", "sync")
HOSTS = ("alone", "embedded")
SCRIPT = {
    "20240102": (Reply.call("buy", quantity=300), Reply.call("hold"), Reply.text("bought")),
    "20240103": (Reply.call("sell", quantity=100), Reply.text("sold")),
}
"""What the model says, by session and by how many results of tools it was told."""
TRADES = [("buy", 300), ("sell", 100)]
"""What therefore has to be in the ledger."""


def events() -> list[str]:
    """All that happens in a run, in order: each request, each reply, each tool call."""
    found = []
    for session, replies in SCRIPT.items():
        for results, reply in enumerate(replies):
            kinds = ["asked", "replied", *(["tool"] if reply.tool_calls else [])]
            found += [f"{kind}:{session}:{results}" for kind in kinds]
    return found


def cases(url: str | None, *, every: bool = False, rng: random.Random | None = None) -> list[dict[str, Any]]:
    """Three cases, or with ``every`` all durabilities and hosts, on SQLite or on PostgreSQL at ``url``.

    The three of SQLite and the three of PostgreSQL hold each pair of saver, durability and host. A case is
    killed at every fourth event, each from another event on, so that together they are killed at all. With
    ``every`` cases are killed at all events, at each alone, and at three instants that ``rng`` draws.
    """
    saver = "sqlite" if url is None else "postgresql"
    hosts = HOSTS if url is None else HOSTS[::-1]
    options = (
        list(product(DURABILITIES, HOSTS))
        if every
        else list(zip(DURABILITIES, [*hosts, hosts[0]], strict=True))
    )
    made = []
    for number, (durability, host) in enumerate(options, start=0 if url is None else 2):
        ways = [events(), *([event] for event in events())] if every else [events()[number % 4 :: 4]]
        place = {"durability": durability, "host": host, "url": url, "kills": [], "instants": []}
        name = f"{saver}_{durability}_{host}"
        made += [
            {**place, "name": f"{name}_{way}" if way else name, "kills": ways[way]}
            for way in range(len(ways))
        ]
        if rng is not None:
            made.append({**place, "name": f"{name}_time", "instants": [rng.random() for _ in range(3)]})
    return made


class Server:
    """The model over HTTP, which counts requests by case, and kills who asks what it is told."""

    def __init__(self, places: Sequence[Mapping[str, Any]]) -> None:
        self.kills = {place["name"]: {*place["kills"]} for place in places}
        self.asked: dict[str, Counter[str]] = {name: Counter() for name in self.kills}

    def answer(self, request: ChatRequest) -> Reply:
        name, pid = request.headers["x-case"], int(request.headers["x-pid"])
        session = str(request.messages[0]["content"]).partition(":")[0]
        results = sum(message["role"] == "tool" for message in request.messages)
        event = f"asked:{session}:{results}"
        self.asked[name][event] += 1
        if event in self.kills[name] and self.asked[name][event] == 1:
            with suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        return SCRIPT[session][results]


def play(folder: Path, places: Sequence[Mapping[str, Any]]) -> tuple[dict[str, Any], Server]:
    """Run the cases in ``agent_child.py``, after one that is not killed; the last is replayed, too."""
    whole = {**places[0], "name": "whole", "url": None, "kills": [], "instants": []}
    again = {**whole, "name": "again"}  # when all is imported: a run's time
    served = Server([whole, again, *places])
    with OpenAIStub(served.answer) as stub:
        plan = {
            "cases": [whole, again, *places],
            "folder": str(folder),
            "server": stub.base_url,
            "replayed": places[-1]["name"],
        }
        environment = {
            **os.environ,
            "QUANTGRAPH_MODEL": "keyless",
            "QUANTGRAPH_CODE_ISOLATION": "trusted",
            "QUANTGRAPH_AUDIT": '{"prove": "sampled", "cuts": 1, "seed": 0}',
        }
        done = subprocess.run(
            [sys.executable, str(CHILD), json.dumps(plan)],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
        )
        faults = [*stub.errors]
    if done.returncode or faults:
        raise AssertionError(f"{done.stderr}{faults}")
    told: dict[str, Any] = json.loads(done.stdout)
    return told, served


def check(told: Mapping[str, Any], served: Server, place: Mapping[str, Any]) -> int:
    """The ledger is the whole run's, and nothing but what was under way was asked twice; how many kills."""
    name, kills, legs = place["name"], place["kills"], told[place["name"]]["legs"]
    assert told[name]["journal"] == told["whole"]["journal"]
    once = Counter(event for event in events() if event.startswith("asked"))
    assert served.asked["whole"] == once
    if place["instants"]:
        assert once <= served.asked[name]
        assert served.asked[name].total() - once.total() <= legs - 1
    else:
        assert legs == len(kills) + 1
        assert served.asked[name] == once + Counter(event for event in kills if event.startswith("asked"))
    return legs - 1
