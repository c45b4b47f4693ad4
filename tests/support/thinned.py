"""Tables of cases of which ``make test`` runs a part, and ``make proofs`` the others."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import pytest


def thinned(rows: Iterable[Any], is_quick: Callable[[int, Any], bool]) -> list[Any]:
    """The rows for ``parametrize``: those for which ``is_quick(number, row)`` is false are proofs."""
    return [
        pytest.param(
            *(row if isinstance(row, tuple) else (row,)), marks=() if is_quick(n, row) else pytest.mark.proof
        )
        for n, row in enumerate(rows)
    ]
