"""Which rung a model stands on, remembered on disk: one small file a model."""

from __future__ import annotations

import json
import logging
from pathlib import Path
from uuid import uuid4

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import escape_controls
from quantgraph.llm.capabilities.modes import RUNGS, Rung

__all__ = ["VERSION", "recall", "remember"]

VERSION = 1
"""Of the probe: what another one found out is not believed."""

_log = logging.getLogger(__name__)


def recall(folder: Path, base_url: str, model: str) -> Rung | None:
    """The rung of a model; None if it is not known. A file that cannot be read counts as none."""
    try:
        found = json.loads(_path(folder, base_url, model).read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    known = isinstance(found, dict) and found.get("version") == VERSION and found.get("rung") in RUNGS
    return found["rung"] if known else None


def remember(folder: Path, base_url: str, model: str, rung: Rung) -> None:
    """Write a rung down; where that cannot be done, the log says so and the model is probed again."""
    path = _path(folder, base_url, model)
    text = canonical_json({"version": VERSION, "base_url": base_url, "model": model, "rung": rung})
    unfinished = path.with_name(f"{path.name}.{uuid4().hex}")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        unfinished.write_text(text, encoding="utf-8")
        unfinished.replace(path)
    except OSError as error:
        text = f"the rung of model {model} cannot be kept in {path.parent}: {error}"
        _log.warning("%s", escape_controls(text))


def _path(folder: Path, base_url: str, model: str) -> Path:
    return folder / "rungs" / f"{content_hash(canonical_json([base_url, model]))}.json"
