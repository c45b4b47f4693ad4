"""A market to trade: data, rules, and whether its sessions are worth trading in blocks.

Numba takes a second to import and to load what it compiled before; on a new machine it compiles for about ten
seconds. A thread does that while the signal is made and proved, which is mostly waiting for processes.
"""

from __future__ import annotations

import logging
import sys
import threading
from dataclasses import dataclass
from decimal import Decimal
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph.broker._decider import BlockRule
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._corporate_actions import action_book
from quantgraph.broker.accounts._valuation import MarkAt
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.state import DataState

if TYPE_CHECKING:
    pass


BLOCKS_FROM = 50_000
"""Cells (sessions times symbols) of the data from which blocks are worth compiling for."""


LOADED_FROM = 5_000
"""Cells from which they are worth loading what was compiled before."""


_LOG = logging.getLogger(__name__)


_FOLDER = Path(__file__).parents[1] / "blocks"


_loaded = threading.Event()


_lock = threading.Lock()


_threads: list[threading.Thread] = []


def is_block_code_loaded() -> bool:
    """Whether this process has the compiled code."""
    return _loaded.is_set()


def load_block_code(cells: int, cache: Path) -> None:
    """Begin to load the code in a thread, once in a process, if data of so many cells are worth it.

    Parameters
    ----------
    cells
        Sessions times symbols of the data.
    cache
        Folder of the marks that it was compiled on this machine. Without its mark it is loaded only for data
        that are worth compiling for.
    """
    mark = cache / f"compiled-{_identity()}"
    if _loaded.is_set() or cells < (LOADED_FROM if mark.exists() else BLOCKS_FROM):
        return
    with _lock:
        if not _threads:
            _threads.append(
                threading.Thread(target=_load, args=(mark,), name="quantgraph-blocks", daemon=True)
            )
            _threads[0].start()


def _identity() -> str:
    """What the compiled code depends on, so that a mark of another one does not count."""
    files = [
        [path.name, path.stat().st_mtime_ns, path.stat().st_size] for path in sorted(_FOLDER.glob("*.py"))
    ]
    facts = {"folder": str(_FOLDER), "files": files, "python": sys.version, "numba": version("numba")}
    return content_hash(canonical_json(facts), size=8)


def _load(mark: Path) -> None:
    if compile_block_code():
        try:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        except OSError as error:  # blocks are traded all the same
            _LOG.info("%s cannot be written; small runs are traded order by order: %s", mark, error)
    _loaded.set()


def compile_block_code() -> bool:
    """Trade two sessions, which loads or compiles all of the code; return whether it is kept on the disk."""
    from quantgraph.broker.blocks._block import is_kept_on_disk, trade_block  # numba takes a second to import

    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"], name="trade_date")
    prices = pd.DataFrame(10.0, index=days, columns=["600000.SH", "600519.SH"])
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    ref = store.update("signal", {"s": prices * np.array([[0.1], [-0.1], [0.1]])}, base=ref)
    block = trade_block(
        store,
        ref,
        list(days[1:]),
        BlockRule(name="signal_rule", trades=True),
        account=Account.opening(Decimal(100_000)),
        rules=Rulebook.mainland(),
        book=action_book(store, ref),
        mark_at="close",
    )
    assert block is not None  # noqa: S101 - such a block has no need of the order-by-order path
    block.write()
    return is_kept_on_disk()


@dataclass(frozen=True, kw_only=True)
class Market:
    """Data and rules that sessions are traded with.

    Attributes
    ----------
    store, data_ref
        A commit of a data state.
    rules
        The rulebook in force.
    mark_at
        The price of a session that holdings are valued at.
    blocks_from
        Smallest number of cells (sessions times symbols) of the data for trading in blocks. The fills are the
        same; with fewer cells it is not worth the ten seconds that compiling takes once on each machine.
        None: 50,000, and 5,000 in a process that has the compiled code already.
    """

    store: DataState
    data_ref: str
    rules: Rulebook
    mark_at: MarkAt = "close"
    blocks_from: int | None = None

    def __post_init__(self) -> None:
        if self.rules.volume_share is not None and "vol" not in self.store.snapshot(self.data_ref)["ohlcv"]:
            raise BadOption(
                f"volume_share={self.rules.volume_share} needs the field 'vol', which the data do not have",
                parameter="volume_share",
            )

    @property
    def cells(self) -> int:
        """Sessions times symbols of the data."""
        return int(self.store.snapshot(self.data_ref)["ohlcv"]["open"].size)

    @property
    def in_blocks(self) -> bool:
        """Whether it is worth trading in blocks."""
        if self.blocks_from is not None:
            return self.cells >= self.blocks_from
        return self.cells >= (LOADED_FROM if is_block_code_loaded() else BLOCKS_FROM)

    @property
    def identity(self) -> dict[str, Any]:
        """What must not change within a run: data, rules with every fee, marks."""
        rules = self.rules
        return {
            "data_ref": self.data_ref,
            "rules": f"{rules.name} {content_hash(repr(rules), size=8)}",
            "mark_at": self.mark_at,
        }
