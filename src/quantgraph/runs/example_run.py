"""A recorded run that is shipped: a month of the trader on the sample market.

The market is synthetic, and no language model decided: a script plays the replies as models make them, with
dead ends, refused orders and a server that fails. ``scripts/make_example_run.py`` makes the run anew.
"""

from __future__ import annotations

import json
from importlib.resources import files
from io import BytesIO
from pathlib import Path
from zipfile import ZipFile

from quantgraph.runs.folder import MANIFEST_FILE, staged_run_folder

_ARCHIVE = files("quantgraph.runs") / "trader_month.zip"


def example_run_name() -> str:
    """Return the name of the recorded run, which is that of its folder."""
    with _archive() as archive:
        return str(json.loads(archive.read(MANIFEST_FILE))["run_id"])


def unpack_example_run(folder: str | Path) -> Path:
    """Unpack the recorded run below ``folder``, in a folder of the run's name, and return that.

    It is a run like any other: it can be shown, replayed and branched, without a key.

    Raises
    ------
    BadOption
        If there is such a folder already, or it cannot be made.
    """
    target = Path(folder) / example_run_name()
    with _archive() as archive, staged_run_folder(target) as staged:
        archive.extractall(staged)
    return target


def _archive() -> ZipFile:
    return ZipFile(BytesIO(_ARCHIVE.read_bytes()))
