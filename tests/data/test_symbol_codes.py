from __future__ import annotations

import pytest

from quantgraph.data.symbols._codes import possible_codes, symbol_list
from quantgraph.errors import BadOption


@pytest.mark.parametrize(
    ("digits", "codes"),
    [
        ("600519", ("600519.SH",)),
        ("688981", ("688981.SH",)),
        ("002594", ("002594.SZ",)),
        ("301269", ("301269.SZ",)),
        ("430047", ("430047.BJ",)),
        ("830799", ("830799.BJ",)),
        ("920002", ("920002.BJ",)),
        ("510050", ("510050.SH",)),
        ("159915", ("159915.SZ",)),
        ("399006", ("399006.SZ",)),
        ("000001", ("000001.SZ", "000001.SH")),  # Ping An Bank, and the SSE Composite
        ("000300", ("000300.SZ", "000300.SH")),
    ],
)
def test_bare_digits_by_numbering_range(digits: str, codes: tuple[str, ...]) -> None:
    assert possible_codes(digits) == codes


def test_a_symbol_that_is_a_number_is_refused() -> None:
    with pytest.raises(BadOption, match=r"symbols: 600519 must be a text, such as '600519\.SH'"):
        symbol_list([600519])  # type: ignore[list-item]
