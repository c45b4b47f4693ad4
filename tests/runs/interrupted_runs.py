"""Execute the scripted run in processes that are stopped or killed, and compare it with the whole run."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))

from scripted_run import script, told

from quantgraph.testing import ChatRequest, OpenAIStub, Reply

CHILD = Path(__file__).parent / "resume_child.py"


def play(folder: Path, *arguments: str) -> dict[str, Any]:
    """Serve the model to ``resume_child.py ARGUMENTS FOLDER`` and return what that printed.

    Each request is a line in ``FOLDER/requests``: the leg during which it came in, and what it said.
    """
    folder.mkdir(parents=True, exist_ok=True)
    log, leg = folder / "requests", folder / "leg"
    leg.write_text("0")

    def answered(request: ChatRequest) -> Reply:
        line = f"{leg.read_text()} {told([message['content'] for message in request.messages])}\n"
        with log.open("a", encoding="utf-8") as file:
            file.write(line)
        return script(request)

    with OpenAIStub(answered) as stub:
        environment = {
            **os.environ,
            "LANGGRAPH_STRICT_MSGPACK": "true",
            "OPENAI_BASE_URL": stub.base_url,
            "OPENAI_API_KEY": "sk-of-a-test",
            "QUANTGRAPH_MODEL": "scripted",
            "QUANTGRAPH_CODE_ISOLATION": "trusted",
            "QUANTGRAPH_AUDIT": '{"prove": "sampled", "cuts": 1, "seed": 0}',  # two runs are held against each other
        }
        done = subprocess.run(
            [sys.executable, str(CHILD), *arguments, str(folder)],
            check=False,
            env=environment,
            capture_output=True,
            text=True,
            timeout=1800,
        )
    if done.returncode:
        raise AssertionError(done.stderr)
    answer: dict[str, Any] = json.loads(done.stdout)
    return answer


def calls(folder: Path) -> dict[int, Counter[str]]:
    """What was sent by leg, as the server saw it."""
    sent = {}
    for line in (folder / "requests").read_text().splitlines():
        leg, what = line.split()
        sent.setdefault(int(leg), Counter())[what] += 1
    return sent


def sent_in(sent: dict[int, Counter[str]], legs: list[int]) -> Counter[str]:
    return sum((sent.get(leg, Counter()) for leg in legs), Counter())


def same(told: dict[str, Any], run: dict[str, Any]) -> None:
    whole = told["whole"]
    assert run["outcome"]["journal"] == whole["journal"]
    assert run["outcome"]["state"] == whole["state"]
    assert run["outcome"]["result"] == whole["result"]
    assert run["outcome"]["asked"] == whole["asked"]


def check_stops(told: dict[str, Any], folder: Path) -> int:
    """A run that is stopped ends as the whole one, and sends what that sent; how many stops there were."""
    sent = calls(folder)
    runs = [run for way in ("stops", "each") for run in told["runs"].get(way, ())]
    for run in runs:
        same(told, run)
        assert sent_in(sent, run["legs"]) == sent_in(sent, told["first"])
    return sum(len(run["legs"]) - 1 for run in runs)


def check_kills(told: dict[str, Any], folder: Path) -> int:
    """A call that had returned was not sent again; one that was on its way may have been, once a kill."""
    sent = calls(folder)
    base = sent_in(sent, told["first"])
    kills = 0
    for run in told["runs"]["kills"]:
        same(told, run)
        assert sent_in(sent, run["legs"]).keys() == base.keys()
        lost = sent_in(sent, run["legs"]).total() - base.total()
        assert 0 <= lost <= len(run["records"])
        kills += len(run["records"])
        for leg, record in run["records"].items():
            later = sent_in(sent, [each for each in run["legs"] if each > int(leg)])
            answered = {what for what, times in Counter(record).items() if times == base[what]}
            assert not answered & later.keys()
    return kills
