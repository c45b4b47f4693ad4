"""Record the run that quantgraph ships: ``python scripts/make_example_run.py``.

A trader's month on the sample market. No language model takes part: a script plays the replies, as models
make them. Make it anew when ``tests/runs/test_example_run.py`` says that it does not replay any more, because
the trader's prompts, its tools or the form of a run have changed.
"""

from __future__ import annotations

import json
import sqlite3
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import chdir, closing
from pathlib import Path
from typing import Any
from zipfile import ZIP_DEFLATED, ZipFile, ZipInfo

from langchain_core.messages import AIMessage, BaseMessage

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.runs import replay, run_strategy
from quantgraph.testing import ScriptedChatModel

ARCHIVE = Path(__file__).resolve().parents[1] / "src/quantgraph/runs/trader_month.zip"
BANK, MAKER, BROKER = "000341.SZ", "000342.SZ", "600958.SH"
SENTENCE = f"autonomous trader on {BANK}, {MAKER}, {BROKER}, January 2025"
FILES = ("run.json", "result.json", "checksums.json", "ledger.sqlite", "data/**/*")
STOP = "<FINISH_SIGNAL>"

Call = tuple[str, dict[str, Any]]


def says(text: str = "", *calls: Call) -> AIMessage:
    """Return a reply with a text and calls of tools."""
    made = [{"name": name, "args": args, "id": f"call_{place}"} for place, (name, args) in enumerate(calls)]
    return AIMessage(text, tool_calls=made)


def unreadable(name: str, arguments: str) -> AIMessage:
    """Return a reply with a call whose arguments are not JSON."""
    call = {"name": name, "args": arguments, "id": "call_0", "error": "not JSON", "type": "invalid_tool_call"}
    return AIMessage("", invalid_tool_calls=[call])


def trade(side: str, symbol: str, amount: Any) -> Call:
    """Return a call of ``buy`` or ``sell``."""
    return side, {"symbol": symbol, "amount": amount}


def history(symbol: str) -> Call:
    """Return a call for the last ten bars."""
    return "get_price_history", {"symbol": symbol, "limit": 10}


QUIET = says(f"Nothing has changed since yesterday, so I keep the positions. {STOP}")
DAYS: dict[str, Sequence[AIMessage | Exception]] = {
    "2025-01-02": [
        says("I look at what I hold, and at the last bars.", ("get_positions", {}), history(BANK)),
        says("", history(MAKER), history(BROKER)),
        says("What would 10,000 shares cost?", ("multiply", {"a": 3.71, "b": 10_000})),
        says("I buy in three sizes.", trade("buy", BANK, 10_000), trade("buy", BROKER, 50)),
        says("It is sold in lots of 100.", trade("buy", BROKER, 5_000)),
        says("", trade("buy", MAKER, 100_000)),
        says("That was more than I have.", trade("buy", MAKER, 2_000)),
        says(f"I hold three shares now and keep the rest in cash. {STOP}"),
    ],
    "2025-01-03": [
        says("", ("get_price_local", {"symbol": BANK, "date": "2025-01-06"})),
        says("I cannot know that. What is the news?", ("get_information", {"query": BROKER})),
        says(f"No reason to trade. {STOP}"),
    ],
    "2025-01-06": [
        says("The price is firm; I should add to the position."),
        says("I have to call a tool for that.", trade("buy", BROKER, 1_000)),
        says(f"Added. {STOP}"),
    ],
    "2025-01-07": [
        says("", trade("buy", BANK, 500), trade("sell", BANK, 10_500)),
        says("What I bought today can be sold tomorrow.", trade("sell", BANK, 4_000)),
        says(f"The bank is falling, so I hold less of it. {STOP}"),
    ],
    "2025-01-08": [
        ConnectionError("the server closed the connection"),
        says("", ("get_indicators", {"symbol": MAKER, "name": "RSI", "params": {"period": 14}})),
        says("", ("get_indicators", {"symbol": MAKER, "indicators": ["RSI14", "MA20"]})),
        says(f"It is rising, and I hold it. {STOP}"),
    ],
    "2025-01-10": [
        says("", ("get_weather", {"city": "Shanghai"})),
        says("There is no such tool.", trade("buy", "MAKER", 100)),
        says("", trade("buy", MAKER, "about 100")),
        says("", trade("buy", MAKER, 100)),
        says(f"Done. {STOP}"),
    ],
    "2025-01-14": [
        unreadable("sell", '{"symbol": "600958.SH", "amount": '),
        says("", trade("sell", BROKER, 1_000)),
        says(f"I took some profit. {STOP}"),
    ],
    "2025-01-16": [
        says("Three equal parts.", *[trade("sell", BROKER, 1_000)] * 3),
        says(f"Sold 3,000 shares of it. {STOP}"),
    ],
    "2025-01-17": [says(f"I buy once more and am done. {STOP}", trade("buy", MAKER, 500))],
    "2025-01-21": [
        says("Again and again.", *[("get_positions", {})] * 4),
        says(f"I see: it answers the same. {STOP}"),
    ],
    "2025-01-23": [
        says("", history(MAKER)),
        says("It fell by more than 2 %.", trade("sell", MAKER, 2_600)),
        says(f"I hold none of it now. {STOP}"),
    ],
    "2025-01-27": [
        says("The holidays begin.", trade("sell", BROKER, 5_000)),
        says("That is more than I hold.", trade("sell", BROKER, 2_000)),
        says(f"All of it is sold, and the bank stays. {STOP}"),
    ],
}


class Script:
    """Plays the replies of each day, one after the other."""

    def __init__(self) -> None:
        self._days: dict[str, Iterator[AIMessage | Exception]] = {}

    def play(self, messages: Sequence[BaseMessage]) -> AIMessage | Exception:
        """Return the next reply of the day that the first message names."""
        day = messages[1].text.partition("(")[2].partition(")")[0]
        return next(self._days.setdefault(day, iter(DAYS.get(day, [QUIET]))))


def record(out: Path) -> Path:
    """Run the month below ``out`` and return its folder."""
    model = ScriptedChatModel(Script().play, model_name="scripted-trader")
    done = run_strategy(SENTENCE, decider="trader", source="sample", model={"trader": model}, out=out)
    if done["ended_because"] != "done":
        raise SystemExit(f"the run did not end well: {json.dumps(done, ensure_ascii=False)}")
    return Path(done["run_dir"])


def without_place(folder: Path) -> None:
    """Take the place on this machine out of the result, and renew its checksum."""
    result = json.loads((folder / "result.json").read_text(encoding="utf-8"))
    text = json.dumps({**result, "run_dir": f"runs/{folder.name}"}, ensure_ascii=False, indent=2) + "\n"
    (folder / "result.json").write_text(text, encoding="utf-8")
    sums = json.loads((folder / "checksums.json").read_text(encoding="utf-8"))
    sums |= {"result.json": [content_hash(text.encode())]}
    del sums["checksums.json"]
    stored = {**sums, "checksums.json": content_hash(canonical_json(sums))}
    (folder / "checksums.json").write_text(json.dumps(stored, indent=1) + "\n", encoding="utf-8")


def pack(folder: Path, archive: Path) -> None:
    """Write what a replay needs of a run: all but its checkpoints."""
    with closing(sqlite3.connect(folder / "ledger.sqlite")) as ledger:
        ledger.execute("PRAGMA wal_checkpoint(TRUNCATE)")
        ledger.execute("VACUUM")
    paths = sorted({path for pattern in FILES for path in folder.glob(pattern) if path.is_file()})
    with ZipFile(archive, "w", ZIP_DEFLATED, compresslevel=9) as file:
        for path in paths:
            entry = ZipInfo(path.relative_to(folder).as_posix())
            entry.compress_type = ZIP_DEFLATED
            file.writestr(entry, path.read_bytes())


def main() -> None:
    """Record, check and pack the run."""
    with tempfile.TemporaryDirectory() as scratch, chdir(scratch):
        folder = record(Path("runs"))
        replayed = replay(folder)
        if not replayed.identical:
            raise SystemExit(f"the run does not replay: {replayed.differences}")
        without_place(folder)
        pack(folder, ARCHIVE)
    print(f"{ARCHIVE.name}: {ARCHIVE.stat().st_size:,} bytes")


if __name__ == "__main__":
    main()
