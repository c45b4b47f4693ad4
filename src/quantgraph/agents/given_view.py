"""The view that a host's state names, for subgraphs that decide one session's open."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any, Final

from quantgraph.errors import BadOption, BadWindow, UnknownSymbol
from quantgraph.market.moment import Moment, session_of
from quantgraph.state import DataState, View

_MEANINGS: Final = {"data_ref": "a commit", "moment": "the session, YYYYMMDD, that opens"}


def given_view(state: Mapping[str, Any], store: DataState, *also: str) -> View:
    """Return the view at the open that ``data_ref`` and ``moment`` of a state name.

    Parameters
    ----------
    also
        Other keys that the state must have.

    Raises
    ------
    BadOption
        If the state lacks one of its keys.
    BadWindow
        If the moment is no session of the data.
    UnknownCommit
        If there is no such data.
    """
    needed = (*also, *_MEANINGS)
    missing = [name for name in needed if name not in state]
    if missing:
        listed = [f"{name} ({_MEANINGS[name]})" if name in _MEANINGS else name for name in needed]
        raise BadOption(
            f"the state has no {missing[0]}; it needs {', '.join(listed[:-1])} and {listed[-1]}",
            parameter=missing[0],
        )
    session = session_of(state["moment"], name="moment")
    view = store.view(Moment(session, "open"), state["data_ref"])
    if session not in view["ohlcv"]["open"].index:
        raise BadWindow(f"moment={state['moment']!r:.40} is no session of the data", parameter="moment")
    return view


def check_symbols(view: View, symbols: Iterable[str]) -> None:
    """Check that the data has the shares that a host names.

    Raises
    ------
    UnknownSymbol
        If it lacks one.
    """
    known = view["ohlcv"].frozen("open").symbols
    for symbol in symbols:
        if symbol not in known:
            raise UnknownSymbol(
                f"symbol={symbol!r:.40}: the data has no such symbol; it has {', '.join(known[:10])}"
                f"{' …' if len(known) > 10 else ''}",
                symbols=(symbol,),
            )
