"""What a client did, as one Python script that runs without it and checks that each ledger is the same."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from quantgraph._util.texts import escape_controls, short_line, without_places
from quantgraph.broker import TradePlan

_HEAD = '''\
"""What was done over MCP, as a script: python research.py [SOURCE] [FOLDER]

Each run is made again, with the answers that were given, and its ledger is compared with the one it had.
"""

import sys
import tempfile
from pathlib import Path

from quantgraph.broker import TradePlan
from quantgraph.broker.ledger import Ledger
from quantgraph.runs import RunSpec, compare, open_run, prepare_run, start_run
from quantgraph.runtime import Resources

SOURCE = sys.argv[1] if len(sys.argv) > 1 else {source!r}
FOLDER = Path(sys.argv[2] if len(sys.argv) > 2 else tempfile.mkdtemp(prefix="research-"))
SAME = []


def run(name, ledger, *, answers, code="", **request):
    """Make a run again, and compare the last hash of its ledger."""
    path = FOLDER / {code_file!r}
    path.write_text(code, encoding="utf-8")
    live = Resources(source=SOURCE, model="keyless", answer=lambda question: answers.get(question["id"]))
    spec = RunSpec(on_clarify="ask", **request)
    spec, _, live = prepare_run(spec, live, strategy=path if code else None)
    result = start_run(spec, FOLDER / name, live)
    found = None
    with Ledger(result.folder / "ledger.sqlite") as book:
        if book.has_run(name):
            *_, last = book.journal(name)
            found = last["hash"]
    SAME.append(found == ledger)
    outcome = "the same ledger" if SAME[-1] else f"ledger {{found}}, not {{ledger}}"
    print(name, result["ended_because"], outcome)


FOLDER.mkdir(parents=True, exist_ok=True)
print("folder:", FOLDER)
'''
_MOVES = ("understand", "run")
_END = """
sys.exit(0 if all(SAME) else 1)
"""


def script_of(
    calls: Sequence[Mapping[str, Any]], *, source: str, code_file: str, ledger_of: Callable[[str], str | None]
) -> str:
    """Return a script of calls.

    Parameters
    ----------
    calls
        As :meth:`CallLog.calls` has them.
    ledger_of
        Given a run, the last hash of its ledger; None without one.
    """
    parts = [_HEAD.format(source=source, code_file=code_file)]
    answers: dict[str, dict[str, str]] = {}
    for call in calls:
        if call["args"].get("question") and not call["answer"].get("code"):
            answers.setdefault(call["run"], {})[call["args"]["question"]] = call["args"]["answer"]
    went = {call["run"] for call in calls if call["tool"] in _MOVES and not call["answer"].get("code")}
    begun: set[str] = set()
    for number, call in enumerate(calls, 1):
        parts.append(f"\n# {number}. {_comment(call)}\n")
        run, args = call["run"], call["args"]
        refused = bool(call["answer"].get("code"))
        if call["tool"] in _MOVES and not args.get("run") and run in went - begun:
            begun.add(run)
            parts.append(_run(run, args, answers.get(run, {}), ledger_of(run)))
        elif call["tool"] == "compare" and not refused:
            folders = ", ".join(f"FOLDER / {name!r}" for name in args["runs"])
            parts.append(f"print(compare({folders}))\n")
        elif call["tool"] == "report" and run and not refused:
            parts.append(f"print('page:', open_run(FOLDER / {run!r}).report())\n")
    return "".join([*parts, _END])


def _comment(call: Mapping[str, Any]) -> str:
    args, answer = call["args"], call["answer"]
    shown = next((args[name] for name in ("run", "sentence", "said", "runs") if args.get(name)), "")
    became = answer.get("error") or answer.get("text") or answer.get("state") or ""
    parts = [call["tool"], shown, args.get("answer") and f"answer: {args['answer']}", became]
    texts = ["; ".join(map(str, part)) if isinstance(part, list) else str(part) for part in parts if part]
    return short_line(without_places(": ".join(texts)), 300)


def _run(run: str, args: Mapping[str, Any], answers: Mapping[str, str], ledger: str | None) -> str:
    given: dict[str, str] = {"question": repr(args["sentence"])}
    for name in ("symbols", "start", "end"):
        if args[name]:
            given[name] = repr(args[name])
    if args["plan"]:
        given["plan"] = f"TradePlan.of({TradePlan.of(args['plan']).to_json()!r})"
    if args.get("confirm"):
        given["confirm"] = "True"
    given["answers"] = repr(dict(answers))
    if args.get("code"):
        given["code"] = _text(args["code"])
    lines = "".join(f"    {name}={value},\n" for name, value in given.items())
    return f"run(\n    {run!r},\n    {ledger!r},\n{lines})\n"


def _text(code: str) -> str:
    """A literal of several lines that reads as the code itself."""
    is_shown = escape_controls(code, multiline=True) == code
    if not is_shown or re.search(r'\\|"""', code) or code.endswith('"'):
        return repr(code)
    return f'"""{code}"""'
