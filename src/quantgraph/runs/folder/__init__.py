"""The folder of a run: its files, its manifest ``run.json``, its lock."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.runs.folder._folder import (
        example_run_name,
        existing_ledger,
        ledger_location,
        lock_folder,
        read_manifest,
        stored_data,
        unpack_example_run,
    )

__all__ = [
    "example_run_name",
    "existing_ledger",
    "ledger_location",
    "lock_folder",
    "read_manifest",
    "stored_data",
    "unpack_example_run",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
