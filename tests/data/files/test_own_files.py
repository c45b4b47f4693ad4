"""Files as people have them: each is read as pandas reads it when told what it is, or asked about."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from own_files import OWN_FILES, OwnFile

from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile
from quantgraph.settings import TableOptions

FIELDS = {"open": 1.0, "high": 1.0, "low": 1.0, "close": 1.0, "volume": 0.01}
"""Columns of the plain reading, and what makes the panel's unit of theirs: hands of 100 shares."""


def written(file: OwnFile, folder: Path) -> Path:
    path = folder / file.name
    file.write(path)
    return path


@pytest.mark.parametrize("file", OWN_FILES, ids=[file.name for file in OWN_FILES])
def test_a_file_is_read_as_pandas_reads_it(tmp_path: Path, file: OwnFile) -> None:
    path = written(file, tmp_path)
    source = FileSource(path, symbol=file.symbol, options=TableOptions(**file.options))
    expected = file.read(path)
    assert source.symbols() == tuple(sorted(expected["symbol"].unique()))
    assert source.sessions().tolist() == sorted(expected["date"].unique())
    panel = source.bars(source.symbols(), *source.sessions()[[0, -1]])
    for column, scale in FIELDS.items():
        name = "vol" if column == "volume" else column
        if column not in expected:
            assert name not in panel if name == "vol" else panel[name].isna().to_numpy().all()
            continue
        found = panel[name]
        wide = expected.pivot(index="date", columns="symbol", values=column).astype(float) * scale
        np.testing.assert_allclose(found.to_numpy(), wide.to_numpy(), rtol=1e-12)
    assert file.says in " ".join(source.provenance("en"))
    assert all(line.isprintable() for language in ("zh", "en") for line in source.provenance(language))


@pytest.mark.parametrize("file", [each for each in OWN_FILES if each.asked], ids=lambda file: file.name)
def test_what_a_file_does_not_tell_is_asked_with_its_answers(tmp_path: Path, file: OwnFile) -> None:
    path = written(file, tmp_path)
    with pytest.raises(BadFile) as caught:
        FileSource(path).sessions()
    assert caught.value.data["parameter"] == file.asked
    assert file.options[file.asked] in caught.value.data["choices"]
    assert f"say {file.asked}=" in caught.value.message
    assert "--table" in caught.value.message
    assert path.name in caught.value.message


@pytest.mark.parametrize("file", [each for each in OWN_FILES if each.symbol], ids=lambda file: file.name)
def test_a_file_that_names_no_symbol_says_how_to_name_one(tmp_path: Path, file: OwnFile) -> None:
    path = written(file, tmp_path)
    with pytest.raises(BadFile, match=r"misses the column\(s\) ts_code; .*say it: --symbols AAPL"):
        FileSource(path).sessions()


def test_left_out_files_of_a_folder_are_named_with_the_reason(tmp_path: Path) -> None:
    (file,) = (each for each in OWN_FILES if each.name == "downloads")
    told = FileSource(written(file, tmp_path)).notes
    for name in ("README.txt", "portfolio.csv", "intraday.csv", "notes.docx", "chart.png", "empty.csv"):
        assert any(line.startswith(f"{name} was left out: ") for line in told)
    assert pd.Series(told).str.len().max() < 400
