"""Files that unpack to more than they may: refused in one line, before memory is gone."""

from __future__ import annotations

import gzip
import json
import os
import subprocess
import sys
import time
import zlib
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from quantgraph.cli import main
from quantgraph.data import open_source
from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile, BadOption
from quantgraph.settings import load_settings

HEADER = "ts_code,trade_date,open,high,low,close,vol\n"
ROW = "600519.SH,20240102,10,10.5,9.9,10.2,1000\n"
MEGABYTE = 1 << 20


def bomb(path: Path, megabytes: int, *, start: bytes = b"", block: bytes = bytes(MEGABYTE)) -> Path:
    """A gzip file of ``start`` and then many times the same megabyte: deflated once, written again and again."""
    packer = zlib.compressobj(9, zlib.DEFLATED, 31)
    written = packer.compress(start) + packer.flush(zlib.Z_FULL_FLUSH)
    once = zlib.compressobj(9, zlib.DEFLATED, -15)
    again = once.compress(block) + once.flush(zlib.Z_FULL_FLUSH)  # ends at a byte, and looks back at nothing
    path.write_bytes(written + again * megabytes)
    return path


def refusal(path: Path, **options: int) -> BadFile:
    with pytest.raises(BadFile) as caught:
        FileSource(path, **options).sessions()
    assert "\n" not in caught.value.message
    return caught.value


BOMBS = {
    "rows.csv.gz": (HEADER.encode(), (ROW * (MEGABYTE // len(ROW))).encode()),
    "header.csv.gz": (b"ts_code,", b"x" * MEGABYTE),
    "blank.csv.gz": (HEADER.encode(), b"\n" * MEGABYTE),
    "series.json.gz": (b'{"a": "', b"x" * MEGABYTE),
    "series.jsonl.gz": (b"", b" \n" * (MEGABYTE // 2)),
}


@pytest.mark.parametrize("name", BOMBS)
def test_a_gzip_that_unpacks_beyond_the_limit_is_refused(tmp_path, name):
    start, block = BOMBS[name]
    path = bomb(tmp_path / name, 9, start=start, block=block)
    assert path.stat().st_size < MEGABYTE // 2
    error = refusal(path, max_file_mb=8)
    if name == "header.csv.gz":
        assert error.message == "header.csv.gz: its first line is longer than 1048576 bytes"
        return
    assert error.message == (
        f"{name} has more than 8 MB unpacked; to read it all the same, raise max_file_mb (QUANTGRAPH_MAX_FILE_MB)"
    )
    assert error.data == {"file": name, "max_mb": 8}


@pytest.mark.proof
def test_memory_stays_bounded_for_every_packed_file(tmp_path):
    """Three gigabytes in three megabytes, in a process of its own that may take no more than one."""
    for name, (start, block) in BOMBS.items():
        bomb(tmp_path / name, 3072, start=start, block=block)
    script = """\
import resource, sys
from pathlib import Path
from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile
import pandas, pyarrow.parquet
status = Path("/proc/self/status").read_text()
taken = int(status.partition("VmData:")[2].split()[0]) << 10  # arrow's pool reserves a gigabyte
resource.setrlimit(resource.RLIMIT_DATA, (taken + (1 << 30), taken + (1 << 30)))
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
for path in sorted(Path(sys.argv[1]).iterdir()):
    try:
        FileSource(path, max_file_mb=64).sessions()
    except BadFile as error:
        print(error.line)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
"""
    begun = time.monotonic()
    done = subprocess.run(
        [sys.executable, "-c", script, tmp_path], capture_output=True, text=True, check=False, timeout=100
    )
    *lines, grown = done.stdout.splitlines()
    assert (done.returncode, len(lines)) == (0, len(BOMBS)), done.stderr
    assert all(line.startswith("bad_file: ") for line in lines)
    assert int(grown) < 600 * 1024  # kilobytes: the table or text of the 64 MB that were read, not 3 GB
    assert time.monotonic() - begun < 60


def test_a_memory_error_names_the_file(tmp_path, monkeypatch):
    path = tmp_path / "bars.csv"
    path.write_text(HEADER + ROW)

    def none_left(*_, **__):
        raise MemoryError

    monkeypatch.setattr(pd, "read_csv", none_left)
    assert refusal(path).message == "bars.csv needs more memory than is available"


def test_the_limit_applies_to_plain_files(tmp_path):
    path = tmp_path / "bars.csv"
    path.write_text(HEADER + ROW)
    with path.open("ab") as file:
        file.truncate(3 * MEGABYTE)
    assert "bars.csv has more than 2 MB unpacked" in refusal(path, max_file_mb=2).message


def test_a_parquet_file_of_many_equal_rows_is_refused_by_its_metadata(tmp_path):
    path = tmp_path / "bars.parquet"
    table = pa.table({"ts_code": pa.repeat("600519.SH", 2_000_000), "close": pa.repeat(10.5, 2_000_000)})
    pq.write_table(table, path)
    assert path.stat().st_size < MEGABYTE
    assert "bars.parquet has more than 16 MB unpacked" in refusal(path, max_file_mb=16).message


def test_a_parquet_file_of_one_repeated_long_text_is_refused(tmp_path):
    path = tmp_path / "names.parquet"
    long = pa.DictionaryArray.from_arrays(pa.array([0]).take(pa.repeat(0, 100_000)), ["x" * 100_000])
    pq.write_table(pa.table({"ts_code": pa.repeat("600519.SH", 100_000), "name": long}), path)
    assert path.stat().st_size < MEGABYTE
    assert "names.parquet has more than 64 MB unpacked" in refusal(path, max_file_mb=64).message


def test_texts_of_a_parquet_file_count_once_for_each_row(tmp_path):
    path = tmp_path / "names.parquet"
    text = "x" * (MEGABYTE // 1_000)  # a thousand rows: a megabyte, but for the rest of the division
    for rows, fits in ((900, True), (1_100, False)):
        pq.write_table(pa.table({"ts_code": ["A"] * rows, "name": [text] * rows}), path)
        if fits:
            assert "no daily bar" in refusal(path, max_file_mb=1).message
        else:
            assert "more than 1 MB unpacked" in refusal(path, max_file_mb=1).message


def test_a_packed_file_up_to_the_limit_is_read(tmp_path):
    text = (HEADER + ROW).encode()
    path = tmp_path / "bars.csv.gz"
    path.write_bytes(gzip.compress(text + b"\n" * (MEGABYTE - len(text))))
    assert FileSource(path, max_file_mb=1).symbols() == ("600519.SH",)
    path.write_bytes(gzip.compress(text + b"\n" * (MEGABYTE - len(text) + 1)))
    assert "more than 1 MB unpacked" in refusal(path, max_file_mb=1).message


def test_the_limit_is_a_setting(tmp_path, monkeypatch):
    path = bomb(tmp_path / "bars.csv.gz", 9, start=HEADER.encode(), block=b"\n" * MEGABYTE)
    assert load_settings().max_file_mb == 2048
    with pytest.raises(BadFile, match="more than 8 MB unpacked"):
        open_source(path, settings=load_settings(max_file_mb=8)).sessions()
    monkeypatch.setenv("QUANTGRAPH_MAX_FILE_MB", "7")
    with pytest.raises(BadFile, match="more than 7 MB unpacked"):
        open_source(path).sessions()
    with pytest.raises(BadOption, match=r"max_file_mb=0; must be >= 1"):
        FileSource(path, max_file_mb=0)


@pytest.mark.parametrize(
    "command", [["run", "--signal-only", "5日均线上穿20日均线买入", "--headless", "--source"], ["verify"]]
)
def test_the_command_says_it_in_one_line(tmp_path, monkeypatch, capsys, command):
    path = bomb(tmp_path / "bars.csv.gz", 9, start=HEADER.encode(), block=b"\n" * MEGABYTE)
    positions = tmp_path / "position.jsonl"
    positions.write_text(json.dumps({"date": "2024-01-02", "id": 0, "positions": {"CASH": 10.0}}) + "\n")
    arguments = [*command, path]
    if command == ["verify"]:
        arguments = ["ledger", "verify", positions, "--market", "us", "--prices", path]
    monkeypatch.setenv("QUANTGRAPH_MAX_FILE_MB", "8")
    monkeypatch.setattr(sys, "argv", ["quantgraph", *map(str, arguments)])
    with pytest.raises(SystemExit) as ended:
        main()
    assert ended.value.code in {1, 2}
    shown = capsys.readouterr().err
    assert "bars.csv.gz has more than 8 MB unpacked" in shown
    assert "Traceback" not in shown


def test_half_of_a_surrogate_pair_in_json_is_named(tmp_path):
    path = tmp_path / "prices.jsonl"
    series = {"Meta Data": {"2. Symbol": "6005\ud80019.SH"}, "Time Series (Daily)": {}}
    path.write_text(json.dumps(series) + "\n")
    assert refusal(path).message == r"prices.jsonl, line 1: a \u escape is half of a surrogate pair"


def test_a_file_name_that_is_not_text_is_named(tmp_path):
    name = os.fsdecode(b"\xff.csv")
    (tmp_path / name).write_text(HEADER + ROW)
    assert refusal(tmp_path).message == r"the file name '\udcff.csv' is not UTF-8; rename the file"
