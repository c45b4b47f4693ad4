"""Names of runs."""

from __future__ import annotations

import secrets
from datetime import UTC, datetime

__all__ = ["new_run_id"]


def new_run_id() -> str:
    """A name that sorts by time: ``20240102-030405-a1b2c3``."""
    return f"{datetime.now(UTC):%Y%m%d-%H%M%S}-{secrets.token_hex(3)}"
