"""AI-Trader's ledger, ``position.jsonl``: reading, writing, and the way from fills to records and back.

One JSON object a line: an action and the state of the account after it. Cash is an unrounded double.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from pathlib import Path

from quantgraph.errors import BadFile
from quantgraph.interop.ai_trader.position_record import Action, PositionRecord, parse_record, record_line
from quantgraph.interop.ai_trader.position_trades import PositionFill, fills_of, records_of

__all__ = [
    "Action",
    "PositionFill",
    "PositionRecord",
    "fills_of",
    "read_positions",
    "records_of",
    "scan_positions",
    "write_positions",
]


def scan_positions(path: str | Path) -> list[tuple[int, PositionRecord | BadFile]]:
    """Read each line that is not blank: its number from 1, and the record or what is wrong with it.

    Raises
    ------
    BadFile
        If the file cannot be read, or no line is a record.
    """
    try:
        lines = Path(path).read_bytes().split(b"\n")
    except OSError as error:
        raise BadFile(f"{path} cannot be read: {error.strerror}", file=str(path)) from error
    scanned = [(number, _record(line)) for number, line in enumerate(lines, 1) if line.strip()]
    if all(isinstance(record, BadFile) for _, record in scanned):
        found = f"; line {scanned[0][0]}: {scanned[0][1]}" if scanned else ""
        raise BadFile(f"{path} holds no record of a position.jsonl{found}", file=str(path))
    return scanned


def read_positions(path: str | Path) -> list[PositionRecord]:
    """Read all records.

    Whether they follow from each other is the question of
    :func:`~quantgraph.interop.ai_trader.position_verification.verify_positions`.

    Raises
    ------
    BadFile
        If the file cannot be read, or at the first line that is no record.
    """
    return list(_records(path))


def write_positions(path: str | Path, records: Iterable[PositionRecord]) -> None:
    """Write the records, replacing the file at once or not at all.

    Records that were read and not changed give the bytes they came from.

    Raises
    ------
    BadFile
        If the file cannot be written.
    """
    target = Path(path)
    content = "".join(record_line(record) + "\n" for record in records)
    part = target.with_name(f".{target.name}.part")
    try:
        part.write_bytes(content.encode("ascii"))
        part.replace(target)
    except OSError as error:
        raise BadFile(f"{path} cannot be written: {error.strerror}", file=str(path)) from error


def _record(line: bytes) -> PositionRecord | BadFile:
    try:
        return parse_record(line)
    except BadFile as error:
        return error


def _records(path: str | Path) -> Iterator[PositionRecord]:
    for line, record in scan_positions(path):
        if isinstance(record, BadFile):
            raise BadFile(f"{path}, line {line}: {record}", file=str(path), line=line)
        yield record
