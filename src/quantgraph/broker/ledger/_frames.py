"""Fills, rejections, orders and events as frames: exact decimals as text for files, float64 for work.

All have one row each in the order of the journal, an index from 0, sessions as ``trade_date``
(datetime64[us]) and symbols as ``ts_code``. Texts are ``str`` and empty where there is none, numbers float64
and NaN where there is none, amounts in the market's currency; ``sequence`` is int64.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from decimal import Decimal
from itertools import islice
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph.broker.accounts._account import Event
from quantgraph.broker.accounts._orders import SIZES, Fill, Outcome, Rejection, number_text, rejection_of
from quantgraph.broker.ledger._journal import CHARGES, EVENTS, iso, outcome_of, session_from_iso

if TYPE_CHECKING:
    import pyarrow as pa


FILL_NUMBERS = ("quantity", "price", "notional", *CHARGES)
FILL_COLUMNS = ("trade_date", "sequence", "ts_code", "side", *FILL_NUMBERS, "reason")
REJECTION_COLUMNS = ("trade_date", "sequence", "ts_code", "side", "wish", "size", "code", "message", "reason")
ORDER_COLUMNS = (
    *("trade_date", "sequence", "ts_code", "side", "type", "wish", "size", "limit_price"),
    *("quantity", "price", "notional", "cost", "code", "message", "reason"),
)
_OUTCOME_COLUMNS = (*ORDER_COLUMNS, "ordered", *CHARGES)
_NUMBER_TEXTS = ("filled", "price", "notional", "limit_price", *SIZES)
_SURROGATE = re.compile(r"(?<!\\)((?:\\\\)*)(\\ud[89a-f])")  # "\ud83d" of a JSON text
_TEXTS = ("symbol", "wish", "side", "type", "code", "message", "reason", *_NUMBER_TEXTS)
_EVENT_NUMBERS = ("quantity", "per_share", "amount", "ratio", "before", "after", "cash")
EVENT_COLUMNS = ("trade_date", "ts_code", "kind", *_EVENT_NUMBERS, "pay")

OrderLine = tuple[str, str, str]
"""Session, kind and body of a line of the journal that is the outcome of an order."""

_KIND_OF = {made: kind for kind, made in EVENTS.items()}
_TYPES = {
    **dict.fromkeys(("trade_date", "pay"), "datetime64[us]"),
    **dict.fromkeys(
        ("ts_code", "side", "type", "wish", "code", "message", "reason", "kind", "ordered"), "str"
    ),
    **dict.fromkeys((*FILL_NUMBERS, *_EVENT_NUMBERS, "size", "limit_price", "cost"), "float64"),
    "sequence": "int64",
}


def fills_table(fills: Iterable[Fill]) -> pd.DataFrame:
    """One row per fill, :data:`FILL_COLUMNS`; dates are ``YYYY-MM-DD``, numbers exact decimals as text."""
    rows = [
        {
            "trade_date": iso(fill.session),
            "sequence": fill.order.sequence,
            "ts_code": fill.order.symbol,
            "side": fill.side,
            **{name: number_text(getattr(fill, name)) for name in FILL_NUMBERS},
            "reason": fill.order.reason,
        }
        for fill in fills
    ]
    return pd.DataFrame(rows, columns=list(FILL_COLUMNS))


def rejections_table(rejections: Iterable[Rejection]) -> pd.DataFrame:
    """One row per rejection, :data:`REJECTION_COLUMNS`; ``side`` is empty for a target."""
    rows = [
        {
            "trade_date": iso(rejection.session),
            "sequence": rejection.order.sequence,
            "ts_code": rejection.order.symbol,
            "side": rejection.order.side or "",
            "wish": rejection.order.size[0],
            "size": number_text(rejection.order.size[1]),
            "code": rejection.code,
            "message": rejection.message,
            "reason": rejection.order.reason,
        }
        for rejection in rejections
    ]
    return pd.DataFrame(rows, columns=list(REJECTION_COLUMNS))


def fills_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger._queries.LedgerQueries.fills`."""
    table = _outcomes(lines)
    return _rows(table, table["price"].notna(), [*FILL_COLUMNS[:-1], "cost", "reason"])


def rejections_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger._queries.LedgerQueries.rejections`."""
    table = _outcomes(lines)
    table["side"] = table["ordered"]
    return _rows(table, table["code"] != "", REJECTION_COLUMNS)


def orders_frame(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger._queries.LedgerQueries.orders`."""
    return _outcomes(lines)[list(ORDER_COLUMNS)]


def _rows(table: pd.DataFrame, chosen: pd.Series[bool], columns: Sequence[str]) -> pd.DataFrame:
    return table.loc[chosen, list(columns)].reset_index(drop=True)


def events_frame(events: Iterable[Event]) -> pd.DataFrame:
    """See :meth:`~quantgraph.broker.ledger._queries.LedgerQueries.events`."""
    rows = [
        {**vars(event), "trade_date": event.session, "ts_code": event.symbol, "kind": _KIND_OF[type(event)]}
        for event in events
    ]
    return _cast(pd.DataFrame(rows, columns=list(EVENT_COLUMNS)))


def _outcomes(lines: Iterable[OrderLine]) -> pd.DataFrame:
    """Everything about the outcomes of orders, without their records: there may be a million."""
    left = iter(lines)
    parts = [_cast(_columns(part)) for part in iter(lambda: [*islice(left, _CHUNK)], [])]
    return pd.concat(parts, ignore_index=True) if parts else _cast(pd.DataFrame(columns=[*_OUTCOME_COLUMNS]))


def _columns(lines: Sequence[OrderLine]) -> Any:
    import pyarrow as pa
    import pyarrow.compute as pc

    kinds = {**dict.fromkeys(_TEXTS, pa.string()), **dict.fromkeys(CHARGES, pa.decimal128(26, _DIGITS))}
    refusal = pa.struct([("code", pa.string()), ("message", pa.string())])
    # Arrow knows no half of a surrogate pair: it reads what that is written with.
    bodies = [_SURROGATE.sub(r"\1\\\2", body) if "\\ud" in body else body for _, _, body in lines]
    table = _read_json(bodies, {**kinds, "sequence": pa.int64(), "rest": refusal})
    number = {name: pc.cast(table[name], pa.float64()) for name in _NUMBER_TEXTS}
    charges = {name: _whole_or_long(table[name]) for name in CHARGES}
    rest = {name: pc.struct_field(table["rest"], name) for name in ("code", "message")}
    set_by = [pc.if_else(table[name].is_valid(), name, pa.scalar(None, pa.string())) for name in SIZES]
    return pa.table(
        {
            "trade_date": np.array([session for session, *_ in lines], "datetime64[us]"),
            "sequence": table["sequence"],
            "ts_code": table["symbol"],
            "side": pc.coalesce(table["side"], table["wish"], ""),
            "type": table["type"],
            "wish": pc.coalesce(*set_by),
            "size": pc.coalesce(*(number[name] for name in SIZES)),
            "limit_price": number["limit_price"],
            "quantity": pc.coalesce(number["filled"], 0.0),
            "price": number["price"],
            "notional": pc.coalesce(number["notional"], 0.0),
            "cost": sum(charges.values()) / 10**_DIGITS,
            **{name: pc.coalesce(table[name], each, "") for name, each in rest.items()},
            "reason": table["reason"],
            "ordered": pc.coalesce(table["wish"], ""),
            **{name: each / 10**_DIGITS for name, each in charges.items()},
        }
    ).to_pandas()


def _cast(table: pd.DataFrame) -> pd.DataFrame:
    types: dict[str, Any] = {name: _TYPES[name] for name in table.columns}
    return table.astype(types)


Places = NDArray[np.int64]
Flags = NDArray[np.bool_]

_DIGITS = 8
"""Decimals of numbers that are read in bulk; the mainland's have fewer."""
_MORE_DIGITS = 28
"""Decimals of numbers that are read one by one."""
_FLAGS = ("wishes_to_buy", "sells", "at_open", "by_plan")
_CHUNK = 50_000
_BLOCK_BYTES = 2 << 20
"""Of the text that one processor reads at a time."""

ORDER_KINDS = frozenset({"fill", "rejection"})
"""Kinds of lines that are outcomes of orders."""


@dataclass(frozen=True, kw_only=True, eq=False)
class OrderTable:
    """Outcomes of n orders, in the order of submission.

    Attributes
    ----------
    days, symbols
        Sessions (ISO dates) and symbols; the columns have places in them.
    day, symbol
        Places (n,).
    wishes_to_buy
        Whether an order says that it buys (n,); a target does not.
    sells
        Whether its fill sells (n,).
    at_open
        Whether it is one at the opening price (n,).
    by_plan
        Whether a trade plan or an exit rule sent it (n,).
    refused
        Code of the rejection, or of the rest that the volume cap cut off; None if all was filled.
    quantity, price, cost
        Of the fills, 0 for the others: shares, price, all charges together, times ``10 ** digits``.
    digits
        Decimals of these whole numbers, which are exact.
    """

    days: tuple[str, ...] = ()
    symbols: tuple[str, ...] = ()
    day: Places
    symbol: Places
    wishes_to_buy: Flags
    sells: Flags
    at_open: Flags
    by_plan: Flags
    refused: Sequence[str | None]
    quantity: Sequence[int]
    price: Sequence[int]
    cost: Sequence[int]
    digits: int

    def __len__(self) -> int:
        return len(self.day)

    @property
    def shares(self) -> NDArray[np.float64]:
        """Shares that each fill bought, or sold as a negative number; 0 for a refused order."""
        scale = 10**self.digits
        moved = np.array([quantity / scale for quantity in self.quantity], dtype=np.float64)
        return np.where(self.sells, -moved, moved)

    @classmethod
    def of(cls, outcomes: Iterable[Outcome]) -> OrderTable:
        """Make the table of outcomes."""
        reader = OrderReader()
        reader.add_outcomes(list(outcomes))
        return reader.table()


class OrderReader:
    """Collects lines of orders, and reads them some ten thousand at a time.

    Lines that cannot be read in bulk, because their numbers have more decimals or digits, are read singly.
    """

    def __init__(self) -> None:
        self._days: dict[str, int] = {}
        self._symbols: dict[str, int] = {}
        self._lines: list[tuple[str, str, str]] = []
        self._parts: list[OrderTable] = []

    def add(self, lines: Sequence[tuple[str, str, str]]) -> None:
        """Add lines of :data:`ORDER_KINDS`: session, kind and body of each."""
        self._lines += lines
        if len(self._lines) >= _CHUNK:
            self._read()

    def add_outcomes(self, outcomes: Sequence[Outcome]) -> None:
        """Add orders that were read before."""
        self._read()
        fills = [outcome if isinstance(outcome, Fill) else None for outcome in outcomes]
        refused = [rejection_of(outcome) for outcome in outcomes]
        part = OrderTable(
            day=_places(self._days, [f"{outcome.session:%Y-%m-%d}" for outcome in outcomes]),
            symbol=_places(self._symbols, [outcome.order.symbol for outcome in outcomes]),
            wishes_to_buy=np.array([outcome.order.side == "buy" for outcome in outcomes], dtype=bool),
            sells=np.array([fill is not None and fill.side == "sell" for fill in fills], dtype=bool),
            at_open=np.array([outcome.order.type == "open" for outcome in outcomes], dtype=bool),
            by_plan=np.array([outcome.order.trigger != "" for outcome in outcomes], dtype=bool),
            refused=[each.code if each else None for each in refused],
            quantity=[_exact(fill.quantity) if fill else 0 for fill in fills],
            price=[_exact(fill.price) if fill else 0 for fill in fills],
            cost=[_exact(fill.cost) if fill else 0 for fill in fills],
            digits=_MORE_DIGITS,
        )
        self._parts.append(part)

    def table(self) -> OrderTable:
        """All orders that were added."""
        self._read()
        parts = self._parts
        digits = max((part.digits for part in parts), default=_DIGITS)
        flags = [np.zeros(0, dtype=bool)]
        places = [np.zeros(0, dtype=np.int64)]
        return OrderTable(
            days=tuple(self._days),
            symbols=tuple(self._symbols),
            day=np.concatenate(places + [part.day for part in parts]),
            symbol=np.concatenate(places + [part.symbol for part in parts]),
            **{name: np.concatenate(flags + [getattr(part, name) for part in parts]) for name in _FLAGS},
            refused=[code for part in parts for code in part.refused],
            quantity=_join_numbers(parts, "quantity", digits),
            price=_join_numbers(parts, "price", digits),
            cost=_join_numbers(parts, "cost", digits),
            digits=digits,
        )

    def _read(self) -> None:
        lines, self._lines = self._lines, []
        if not lines:
            return
        part = self._in_bulk(lines)
        if part is not None:
            self._parts.append(part)
        else:
            self.add_outcomes(
                [outcome_of(kind, json.loads(body), session_from_iso(day)) for day, kind, body in lines]
            )

    def _in_bulk(self, lines: Sequence[tuple[str, str, str]]) -> OrderTable | None:
        """The columns of lines, None if some must be read one by one."""
        import pyarrow as pa

        try:
            table = _read_json([body for _, _, body in lines], _schema())
        except pa.ArrowException:
            return None
        numbers = [_whole(table[name]) for name in ("filled", "price", *CHARGES)]
        read = [column for column in numbers if column is not None]
        if len(read) < len(numbers) or table.num_rows != len(lines) or table["symbol"].null_count:
            return None
        return OrderTable(
            day=_encode(self._days, pa.array([session for session, _, _ in lines], pa.string())),
            symbol=_encode(self._symbols, table["symbol"].combine_chunks()),
            wishes_to_buy=_equals(table["wish"], "buy"),
            sells=_equals(table["side"], "sell"),
            at_open=_equals(table["type"], "open"),
            by_plan=table["trigger"].is_valid().to_numpy(),
            refused=_refusal_codes(table["code"], table["rest"]),
            quantity=read[0].tolist(),
            price=read[1].tolist(),
            cost=np.sum(read[2:], axis=0).tolist(),
            digits=_DIGITS,
        )


def _join_numbers(parts: Sequence[OrderTable], name: str, digits: int) -> list[int]:
    """A column of numbers, all with the same decimals."""
    joined: list[int] = []
    for part in parts:
        numbers, more = getattr(part, name), 10 ** (digits - part.digits)
        joined += numbers if more == 1 else [number * more for number in numbers]
    return joined


def _read_json(bodies: Sequence[str], schema: Mapping[str, pa.DataType]) -> pa.Table:
    import pyarrow as pa
    from pyarrow import json as arrow_json

    explicit = pa.schema([*schema.items()])
    options = arrow_json.ParseOptions(explicit_schema=explicit, unexpected_field_behavior="ignore")
    longest = max(map(len, bodies))  # in characters: each has at most four bytes
    blocks = arrow_json.ReadOptions(block_size=max(_BLOCK_BYTES, 4 * longest + 2))
    text = pa.BufferReader("\n".join(bodies).encode())
    return arrow_json.read_json(text, read_options=blocks, parse_options=options)


def _schema() -> dict[str, pa.DataType]:
    import pyarrow as pa

    texts, numbers = ("symbol", "wish", "side", "type", "trigger", "code"), ("filled", "price", *CHARGES)
    kinds = {**dict.fromkeys(texts, pa.string()), **dict.fromkeys(numbers, pa.decimal128(26, _DIGITS))}
    return {**kinds, "rest": pa.struct([("code", pa.string())])}


def _whole(column: pa.ChunkedArray) -> Places | None:
    """A column of decimals as whole numbers (n,), 0 for null; None if one takes more than 62 bits."""
    values = column.fill_null(0).combine_chunks()
    halves = np.frombuffer(values.buffers()[1], dtype="<i8").reshape(-1, 2)
    halves = halves[values.offset : values.offset + len(values)]
    low: Places = halves[:, 0]
    return low if (halves[:, 1] == 0).all() and (low >= 0).all() and (low < 1 << 59).all() else None


def _whole_or_long(column: pa.ChunkedArray) -> Any:
    """The same, as numbers of Python if one takes more."""
    found, column = _whole(column), column.fill_null(0)
    return np.array([int(each.scaleb(_DIGITS)) for each in column.to_pylist()]) if found is None else found


def _equals(column: pa.ChunkedArray, text: str) -> Flags:
    import pyarrow.compute as pc

    found: Flags = pc.equal(column, text).fill_null(False).to_numpy()
    return found


def _places(known: dict[str, int], names: Sequence[str]) -> Places:
    """Place of each name among the known ones, to which new ones are added."""
    return np.array([known.setdefault(name, len(known)) for name in names], dtype=np.int64)


def _encode(known: dict[str, int], names: pa.Array) -> Places:
    """Like :func:`_places`, for many names of which few differ."""
    encoded = names.dictionary_encode()
    found: Places = _places(known, encoded.dictionary.to_pylist())[encoded.indices.to_numpy()]
    return found


def _refusal_codes(codes: pa.ChunkedArray, rests: pa.ChunkedArray) -> list[str | None]:
    """Code of each rejection, or of the rest that the volume cap cut off."""
    import pyarrow.compute as pc

    found: list[str | None] = pc.coalesce(codes, pc.struct_field(rests, "code")).to_pylist()
    return found


def _exact(number: Decimal | int) -> int:
    return int(Decimal(number).scaleb(_MORE_DIGITS))
