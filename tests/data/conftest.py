from __future__ import annotations

from pathlib import Path

import pytest
from bar_files import TWO_DAYS


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with two days of bars."""
    (tmp_path / "bars.csv").write_text(TWO_DAYS)
    return tmp_path
