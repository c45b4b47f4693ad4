"""Names of runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from quantgraph._util.input_limits import check_text
from quantgraph.errors import BadOption

__all__ = ["new_run_id", "run_id_of"]


def new_run_id() -> str:
    """A name that sorts by time: ``20240102-030405-a1b2c3``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def run_id_of(given: object) -> str:
    """The name that a state has for its run; a new one if it has none, or an empty one as forms send it.

    Raises
    ------
    BadOption
        If it is no text, or not one that can be written as UTF-8.
    """
    if given is None or given == "":
        return new_run_id()
    if not isinstance(given, str):
        raise BadOption(f"run_id={given!r}; a text is wanted, or None for a new name", parameter="run_id")
    check_text(given, "run_id")
    return given
