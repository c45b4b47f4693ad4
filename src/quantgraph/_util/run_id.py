"""Run ids."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

from quantgraph._util.input_limits import check_text
from quantgraph.errors import BadOption


def new_run_id() -> str:
    """A new run id that sorts by time: ``20240102-030405-a1b2c3``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"


def run_id_of(value: object) -> str:
    """The run id of a state; a new one for None and for the empty text that forms send.

    Raises
    ------
    BadOption
        If it is not text that can be written as UTF-8.
    """
    if value is None or value == "":
        return new_run_id()
    if not isinstance(value, str):
        raise BadOption(f"run_id={value!r} must be text, or None for a new one", parameter="run_id")
    check_text(value, "run_id")
    return value
