"""A small market behind baostock's protocol, and a source on it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from baostock_market import market_tables, source_on
from baostock_stub import BaostockStub

from quantgraph.data.baostock import BaostockSource


@pytest.fixture
def stub() -> Iterator[BaostockStub]:
    with BaostockStub(market_tables()) as running:
        yield running


@pytest.fixture
def source(stub: BaostockStub, tmp_path: Path) -> Iterator[BaostockSource]:
    made = source_on(stub, tmp_path / "kept")
    yield made
    made.close()
