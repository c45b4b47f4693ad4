"""What the state of a host names for one decided session: its view, its symbols, its account as JSON."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import fields
from decimal import Decimal
from typing import Any, Final, TypeVar

import pandas as pd

from quantgraph._util.texts import NewsUntil
from quantgraph.broker import Account
from quantgraph.broker.accounts import Position, Receivable
from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market import Moment, session_of
from quantgraph.state import DataState, View

Value = TypeVar("Value", Position, Receivable)

_DATES = frozenset({"entered", "pay"})

_MEANINGS: Final = {"data_ref": "a commit", "moment": "the session, YYYYMMDD, that opens"}


def view_of(state: Mapping[str, Any], store: DataState, news_until: NewsUntil, *also: str) -> View:
    """Return the view at the open that ``data_ref`` and ``moment`` of a state name."""
    needed = (*also, *_MEANINGS)
    missing = [name for name in needed if name not in state]
    if missing:
        listed = [f"{name} ({_MEANINGS[name]})" if name in _MEANINGS else name for name in needed]
        raise BadOption(
            f"the state has no {missing[0]}; it needs {', '.join(listed[:-1])} and {listed[-1]}",
            parameter=missing[0],
        )
    session = session_of(state["moment"], name="moment")
    view = store.view(Moment(session, "open"), state["data_ref"], news_until)
    if session not in view["ohlcv"]["open"].index:
        raise BadWindow(f"moment={state['moment']!r:.40} is not a session of the data", parameter="moment")
    return view


def check_symbols(view: View, symbols: Iterable[str]) -> None:
    """Check that the data has the shares that a host names."""
    known = view["ohlcv"].frozen("open").symbols
    for symbol in symbols:
        if symbol not in known:
            raise UnknownSymbol(
                f"symbol={symbol!r:.40}: the data has no such symbol; it has {', '.join(known[:10])}"
                f"{' …' if len(known) > 10 else ''}",
                symbols=(symbol,),
            )


def account_to_json(account: Account) -> dict[str, Any]:
    """Return an account as JSON for the state of a host; decimals are text, so that they stay exact."""
    return {
        "cash": str(account.cash),
        "positions": {symbol: _value_to_json(position) for symbol, position in account.positions.items()},
        "receivables": [_value_to_json(receivable) for receivable in account.receivables],
    }


def _account_from_json(account: dict[str, Any]) -> Account:
    """Read what :func:`account_to_json` made."""
    positions = account["positions"].items()
    return Account(
        cash=Decimal(account["cash"]),
        positions={symbol: _value_from_json(Position, position) for symbol, position in positions},
        receivables=tuple(_value_from_json(Receivable, item) for item in account["receivables"]),
    )


def host_account(state: Mapping[str, Any], *, cash: float) -> Account:
    """Read the ``account`` of a host's state, as :func:`account_to_json` writes it; else open one.

    Parameters
    ----------
    cash
        What it is opened with, where the state has no ``cash``.

    Raises
    ------
    BadOption
        If it is not an account.
    """
    if "account" not in state:
        return Account.opening(state.get("cash", cash))
    account = state["account"]
    try:
        return _account_from_json(account)
    except (KeyError, TypeError, AttributeError, ValueError, ArithmeticError) as error:
        raise BadOption(
            f"account={account!r:.80} is not an account ({type(error).__name__}: {error}); write it "
            "with account_to_json(account)",
            parameter="account",
        ) from error


def _value_to_json(value: Position | Receivable) -> dict[str, Any]:
    named = {field.name: getattr(value, field.name) for field in fields(value)}
    return {name: _to_json(part) for name, part in named.items() if part is not None}


def _to_json(part: object) -> object:
    if isinstance(part, pd.Timestamp):
        return part.date().isoformat()
    return str(part) if isinstance(part, Decimal) else part


def _value_from_json(kind: type[Value], named: dict[str, Any]) -> Value:
    return kind(**{name: _from_json(name, part) for name, part in named.items()})


def _from_json(name: str, part: Any) -> Any:
    if name in _DATES:
        return session_of(part)
    return Decimal(part) if isinstance(part, str) and name != "symbol" else part
