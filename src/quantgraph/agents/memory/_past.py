"""A run's own decisions as episodes, derived from its ledger alone, so that a resume has the same."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from decimal import Decimal
from functools import cached_property, partial
from typing import Any, Literal, NamedTuple

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from quantgraph._util.values import check_whole
from quantgraph.agents.memory._episodes import DecisionEpisode
from quantgraph.agents.memory._memory import HISTORY_HEADING, episode_lines
from quantgraph.broker import Fill, SessionResult
from quantgraph.state import View

_SIDES = {"increase": "buy", "decrease": "sell", "close": "sell"}

Floats = NDArray[np.float64]
_Outcome = Callable[[str, str, float], dict[str, Any]]
"""Of a fill: by symbol, action and price."""


@dataclass(kw_only=True)
class EpisodeMemo:
    """What :func:`episodes_of` found so far, so that the next session costs little. It changes no result."""

    sessions: dict[tuple[str, int, str], list[_Session]] = field(default_factory=dict)


class _Session(NamedTuple):
    """The episodes of a session, and whether all outcomes are known."""

    result: SessionResult
    episodes: list[DecisionEpisode]
    is_settled: bool


def episodes_of(
    history: Sequence[SessionResult],
    view: View,
    *,
    name: str,
    horizon: int = 3,
    run_id: str = "",
    memo: EpisodeMemo | None = None,
) -> list[DecisionEpisode]:
    """Return the decisions that were traded, with the outcomes known at the view's moment, oldest first.

    An episode is a decision of a session's notes (``notes["decisions"]``) to increase, decrease or close,
    whose order was filled, at least in part. What was rejected is none, and neither is a hold. Its outcome is
    the return in percent from the price of the fill to the open ``horizon`` sessions later, or to the first
    open after that, adjusted for dividends and splits; for a decrease or a close its sign is turned. It is
    known from the session of that open on.

    Parameters
    ----------
    history
        The earlier sessions of a run, see :attr:`.DecisionContext.history`.
    view
        The data as known at the moment.
    name
        The decider's name, the ``strategy`` of the episodes: sessions of other deciders are left out.
    horizon
        Sessions, at least 1.
    run_id
        The run, where episodes of several runs are kept together.
    memo
        Kept by the caller from session to session: only new sessions and open outcomes are worked on.

    Raises
    ------
    BadOption
        If ``horizon`` is not a whole number >= 1.
    """
    check_whole("horizon", horizon, 1)
    prices = _Prices(view)
    kept = [] if memo is None else memo.sessions.setdefault((name, horizon, run_id), [])
    episodes: list[DecisionEpisode] = []
    for place, result in enumerate(history):
        before = kept[place] if place < len(kept) and kept[place].result is result else None
        if before is None or not before.is_settled:
            outcome = partial(prices.outcome, result.session, horizon)
            if before is None:
                found = _traded(result, name, run_id, outcome)
            else:
                found = [_with_outcome(each, outcome) for each in before.episodes]
            settled = all(each.actual_result is not None for each in found)
            before = _Session(result, found, is_settled=settled)
            kept[place : place + 1] = [before]
        episodes += before.episodes
    return episodes


def history_texts(episodes: Iterable[DecisionEpisode], symbols: Iterable[str], n: int = 5) -> dict[str, str]:
    r"""Return the last ``n`` episodes of each symbol that has some, as text for a prompt, oldest first.

    Parameters
    ----------
    episodes
        Oldest first, as from :func:`episodes_of`.

    Examples
    --------
    >>> history_texts(
    ...     [DecisionEpisode(symbol="AAPL", action="close", confidence=0.8, date="2025-06-10")],
    ...     ["AAPL", "TSLA"],
    ... )
    {'AAPL': 'Previous decisions:\n2025-06-10: close to $0 (confidence: 0.8)'}
    """
    of_symbol: dict[str, list[DecisionEpisode]] = {symbol: [] for symbol in symbols}
    for each in episodes:
        if each.symbol in of_symbol:
            of_symbol[each.symbol].append(each)
    return {
        symbol: "\n".join([HISTORY_HEADING, *episode_lines(found[::-1], n)])
        for symbol, found in of_symbol.items()
        if found
    }


def _traded(result: SessionResult, name: str, run_id: str, outcome: _Outcome) -> list[DecisionEpisode]:
    decisions = result.notes.get("decisions") if result.decider == name else None
    if not isinstance(decisions, Mapping):
        return []
    fills: dict[str, list[Fill]] = {}
    for fill in result.fills:
        fills.setdefault(fill.order.symbol, []).append(fill)
    episodes = []
    for symbol, decision in decisions.items():
        side = _SIDES.get(decision["action"])
        own = [fill for fill in fills.get(symbol, ()) if fill.side == side]
        if own:
            values = _filled(own) | outcome(symbol, decision["action"], _price(own))
            reasons = decision.get("reasons", [])
            episodes.append(
                DecisionEpisode(
                    date=f"{result.session:%Y-%m-%d}",
                    symbol=symbol,
                    strategy=name,
                    action=decision["action"],
                    target_amount=decision["target_cash_amount"],
                    confidence=decision["confidence"],
                    reasoning="; ".join(reasons),
                    reasons=reasons,
                    tags=decision.get("tags", []),
                    run_id=run_id,
                    **values,
                )
            )
    return episodes


def _filled(fills: Sequence[Fill]) -> dict[str, Any]:
    """What was traded of a decision."""
    traded = float(sum((fill.notional for fill in fills), Decimal()))
    return {
        "shares": float(sum(fill.quantity for fill in fills)),
        "cash_change": traded if fills[0].side == "buy" else -traded,
        "market_context": {"fill_price": _price(fills)},
    }


def _price(fills: Sequence[Fill]) -> float:
    """The mean price of a share."""
    return float(sum(fill.price * fill.quantity for fill in fills) / sum(fill.quantity for fill in fills))


def _with_outcome(episode: DecisionEpisode, outcome: _Outcome) -> DecisionEpisode:
    """The episode with its outcome, if it is known by now."""
    if episode.actual_result is not None:
        return episode
    found = outcome(episode.symbol, episode.action, episode.market_context["fill_price"])
    return episode.with_outcome(**found) if found else episode


class _Prices:
    """Prices of a view by symbol."""

    def __init__(self, view: View) -> None:
        self._view = view
        self._panel = view["ohlcv"]
        self._columns: dict[str, tuple[NDArray[np.datetime64], Floats, dict[str, int]]] = {}

    @cached_property
    def _actions(self) -> dict[str, list[Any]]:
        found: dict[str, list[Any]] = {}
        for action in self._view.actions():
            found.setdefault(action.symbol, []).append(action)
        return found

    def outcome(
        self, session: pd.Timestamp, horizon: int, symbol: str, action: str, price: float
    ) -> dict[str, Any]:
        """The outcome of a fill, as fields of an episode; empty if it is not known yet."""
        found = self._open_after(symbol, session, horizon)
        if found is None:
            return {}
        day, later = found
        grown = later * self._growth(symbol, session, day) / price - 1
        sign = 1 if action == "increase" else -1
        return {"actual_result": 100 * sign * grown, "outcome_known": f"{day:%Y-%m-%d}"}

    def _open_after(
        self, symbol: str, session: pd.Timestamp, horizon: int
    ) -> tuple[pd.Timestamp, float] | None:
        """The first open ``horizon`` or more sessions after a session; None if it is not known yet."""
        sessions, opens = self._column("open", symbol)
        first = int(np.searchsorted(sessions, session.to_datetime64())) + horizon
        for place in range(first, len(sessions)):
            if math.isfinite(opens[place]) and opens[place] > 0:
                return pd.Timestamp(sessions[place]), float(opens[place])
        return None

    def _growth(self, symbol: str, since: pd.Timestamp, day: pd.Timestamp) -> float:
        """What one share of ``since`` has become by ``day``, dividends put into the share.

        By ``adj_factor``, else ``pre_close``, else dividends and splits, whichever the symbol has, as
        :func:`quantgraph.market.actions._actions.adjustment_factors`.
        """
        now, then = (self._last("adj_factor", symbol, each, side="right") for each in (day, since))
        if now:
            return now / then if then else 1.0
        if self._last("pre_close", symbol, day, side="right"):
            days, references = self._column("pre_close", symbol)
            steps = [
                (self._close_before(symbol, pd.Timestamp(days[place])), float(references[place]))
                for place in range(
                    *np.searchsorted(days, [since.to_datetime64(), day.to_datetime64()], "right")
                )
                if math.isfinite(references[place])
            ]
            return math.prod(before / reference for before, reference in steps if before)
        grown = 1.0
        for action in self._actions.get(symbol, ()):
            before = self._close_before(symbol, action.ex) if since < action.ex <= day else None
            if before and before > float(action.cash):
                grown *= before * float(action.ratio) / (before - float(action.cash))
        return grown

    def _close_before(self, symbol: str, day: pd.Timestamp) -> float | None:
        return self._last("close", symbol, day, side="left")

    def _last(
        self, name: str, symbol: str, day: pd.Timestamp, side: Literal["left", "right"]
    ) -> float | None:
        """The last number up to a day (``right``) or before it (``left``)."""
        if name not in self._panel:
            return None
        days, values = self._column(name, symbol)
        end = int(days.searchsorted(day.to_datetime64(), side=side))
        numbers = (float(values[place]) for place in range(end - 1, -1, -1))
        return next((number for number in numbers if math.isfinite(number)), None)

    def _column(self, name: str, symbol: str) -> tuple[NDArray[np.datetime64], Floats]:
        if name not in self._columns:
            frame = self._panel.frozen(name)
            places = {each: place for place, each in enumerate(frame.symbols)}
            self._columns[name] = frame.sessions, frame.values, places
        sessions, values, places = self._columns[name]
        place = places.get(symbol)
        return sessions, np.full(len(sessions), np.nan) if place is None else values[:, place]
