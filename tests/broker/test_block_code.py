"""The compiled code is loaded in a thread, once, where it is worth it; a folder that cannot be written is normal."""

from __future__ import annotations

import logging
import threading

import pytest

from quantgraph.broker.session import _simulate as block_code
from quantgraph.broker.session._simulate import (
    BLOCKS_FROM,
    LOADED_FROM,
    is_block_code_loaded,
    load_block_code,
)


@pytest.fixture
def fresh(monkeypatch):
    """A process that has not loaded the code, and whether it is kept on the disk."""
    monkeypatch.setattr(block_code, "_loaded", threading.Event())
    monkeypatch.setattr(block_code, "_threads", [])
    traded = []

    def begin(kept=True):
        monkeypatch.setattr(block_code, "compile_block_code", lambda: traded.append(kept) or kept)
        return traded

    return begin


def load(cells, cache):
    load_block_code(cells, cache)
    for thread in block_code._threads:
        thread.join(timeout=60)


def test_small_data_are_worth_it_only_where_it_was_compiled_before(fresh, tmp_path):
    traded = fresh()
    load(BLOCKS_FROM - 1, tmp_path)
    assert (traded, is_block_code_loaded(), [*tmp_path.iterdir()]) == ([], False, [])
    load(BLOCKS_FROM, tmp_path)
    load(BLOCKS_FROM, tmp_path)
    assert (len(traded), is_block_code_loaded(), len([*tmp_path.iterdir()])) == (1, True, 1)


def test_with_the_mark_of_this_code_small_data_load_it(fresh, tmp_path):
    traded = fresh()
    (tmp_path / f"compiled-{block_code._identity()}").touch()
    load(LOADED_FROM - 1, tmp_path)
    assert traded == []
    load(LOADED_FROM, tmp_path)
    assert is_block_code_loaded()


def test_without_a_folder_for_the_compiled_code_there_is_no_mark(fresh, tmp_path):
    fresh(kept=False)
    load(BLOCKS_FROM, tmp_path)
    assert (is_block_code_loaded(), [*tmp_path.iterdir()]) == (True, [])


def test_a_mark_that_cannot_be_written_is_logged_and_blocks_are_traded(fresh, tmp_path, caplog):
    fresh()
    (tmp_path / "cache").write_text("a file")
    with caplog.at_level(logging.INFO):
        load(BLOCKS_FROM, tmp_path / "cache")
    assert is_block_code_loaded()
    assert "small runs are traded order by order" in caplog.text


def test_the_code_really_trades_two_sessions():
    assert block_code.compile_block_code() in {True, False}
