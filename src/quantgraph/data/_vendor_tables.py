"""Tables of a vendor: how each is requested, their columns by type, and what a client of a vendor is."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Literal, Protocol

import pandas as pd

from quantgraph.errors import QuantGraphError


@dataclass(frozen=True, kw_only=True)
class Endpoint:
    """One table of a vendor and how it is requested.

    Attributes
    ----------
    name
        The vendor's name.
    text, dates, numbers
        Columns by type.
    row_limit
        Largest number of rows of one reply. Where the vendor states none, a number small enough for every
        known endpoint, so that a shorter page is the last one.
    key
        Parameter and column that names a series: a code, or an exchange.
    order
        Columns that sort the rows; the first one holds the day.
    access
        ``market``: by code or, of all codes, by session. ``series``: one key only. ``list``: a whole list as
        of today.
    windowed
        Whether the endpoint knows ``start_date`` and ``end_date``; if not, it answers with the whole series.
    may_be_empty
        Whether no row is a valid answer.
    keeps_empty
        Whether an answer without a row is cached; if not, it is asked for again.
    parts
        Parameters of the requests that together give a list; of a series the first one's.
    """

    name: str
    text: tuple[str, ...] = ("ts_code",)
    dates: tuple[str, ...] = ("trade_date",)
    numbers: tuple[str, ...] = ()
    row_limit: int = 2000
    key: str = "ts_code"
    order: tuple[str, ...] = ("trade_date", "ts_code")
    access: Literal["market", "series", "list"] = "market"
    windowed: bool = True
    may_be_empty: bool = False
    keeps_empty: bool = True
    parts: tuple[Mapping[str, str], ...] = ({},)

    @property
    def fields(self) -> tuple[str, ...]:
        """Requested columns, in the order of the frames."""
        return self.text + self.dates + self.numbers

    @property
    def day(self) -> str:
        """Column of the day."""
        return self.order[0]


class TableClient(Protocol):
    """Fetches tables of a vendor."""

    @property
    def vendor(self) -> str:
        """The vendor's name, for messages."""

    def fetch(self, endpoint: Endpoint, params: Mapping[str, str]) -> pd.DataFrame:
        """All rows of a request, with the columns of :func:`typed_rows`; empty if the vendor has none.

        Of a windowed series ``params`` has ``start_date`` and ``end_date``, both ``YYYYMMDD``.
        """


def typed_rows(
    endpoint: Endpoint, frame: pd.DataFrame, date_format: str, fault: Callable[[str], QuantGraphError]
) -> pd.DataFrame:
    """Columns ``endpoint.fields`` of an answer, the rest dropped.

    Text is ``str``, dates are ``datetime64[us]`` (NaT where empty), numbers float64 (NaN where empty).
    ``fault`` makes the error about a column that is missing or unreadable.
    """
    missing = [name for name in endpoint.fields if name not in frame.columns]
    if missing:
        raise fault(f"the answer has no column {', '.join(missing)}")
    columns: dict[str, pd.Series] = {}
    for name in endpoint.fields:
        try:
            columns[name] = _column(frame[name], name, endpoint, date_format)
        except (ValueError, TypeError):
            break
    else:
        return pd.DataFrame(columns)
    raise fault(f"the answer's column {name} holds something unreadable")


def _column(values: pd.Series, name: str, endpoint: Endpoint, date_format: str) -> pd.Series:
    if name in endpoint.dates:
        days = values.astype("str").replace("", None)
        return pd.to_datetime(days, format=date_format).astype("datetime64[us]")
    if name in endpoint.numbers:
        return pd.to_numeric(values).astype("float64")
    return values.astype("str")
