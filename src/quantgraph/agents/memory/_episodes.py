"""One decision that was traded, with its outcome once that is known."""

from __future__ import annotations

import re
from collections.abc import Mapping
from contextlib import suppress
from datetime import date
from typing import Annotated, Any, Self

from pydantic import AfterValidator, BaseModel, ConfigDict, Field, Strict, ValidationError, model_validator

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import short_line
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market import session_of
from quantgraph.market.rules import find_board

_SHOWN_REASON = 80
_ISO = re.compile(r"\d{4}-\d\d-\d\d")  # "2024-01-02"


def _printable(value: str) -> str:
    if not value.isprintable():
        raise ValueError(value)
    return value


def _plain(value: dict[str, Any]) -> dict[str, Any]:
    try:
        canonical_json(value, allow_nan=False)
    except (TypeError, RecursionError) as error:
        raise ValueError(value) from error
    return value


_WORD = "a word such as increase, decrease or close"
_Text = Annotated[str, Field(description="a text")]
_Number = Annotated[float, Field(allow_inf_nan=False, description="a finite number")]
_Share = Annotated[float, Field(ge=0, le=1, description="a number from 0 to 1")]
_Texts = Annotated[tuple[str, ...], Strict(strict=False), Field(description="a list of texts")]
_Mapping = Annotated[dict[str, Any], AfterValidator(_plain), Field(description="a dict of plain JSON")]


class DecisionEpisode(BaseModel):
    """A decision of one symbol on one simulated day.

    ``date`` is the simulated session, ``YYYY-MM-DD``, by default that of ``market_context``, never today's.
    ``symbol``, ``strategy`` and ``action`` (``increase``, ``decrease``, ``close``) say what was decided by
    whom, ``target_amount`` the wished value of the position, ``cash_change`` what ``shares`` were bought
    (positive) or sold for, ``reasoning`` and ``reasons`` why, in one text and as a list. ``confidence`` and
    ``importance`` are from 0 to 1; ``market_context`` and ``signals`` are plain JSON about the open.
    ``actual_result`` is what came of it: the return of the price in percent, positive where the decision was
    right, known from the session ``outcome_known`` on; None while it is not known, "" if it never is.
    ``tags`` are for :meth:`.EpisodicMemory.query`. ``id`` is made of run, strategy, date and symbol, so that
    adding the episode again, with its outcome, replaces it.

    A value that is not valid, or no date, is a ``BadOption``.

    Examples
    --------
    >>> episode = DecisionEpisode(
    ...     symbol="AAPL", action="increase", target_amount=5000, confidence=0.8, date="2025-06-10"
    ... )
    >>> episode.line
    '2025-06-10: increase to $5000 (confidence: 0.8)'
    """

    model_config = ConfigDict(frozen=True, extra="forbid", strict=True)

    symbol: Annotated[str, Field(min_length=1, description="a text that is not empty")]
    action: Annotated[str, Field(min_length=1, description=_WORD), AfterValidator(_printable)]
    date: Any = ""
    strategy: _Text = ""
    target_amount: _Number = 0.0
    cash_change: _Number = 0.0
    shares: _Number = 0.0
    confidence: _Share = 0.5
    reasoning: _Text = ""
    reasons: _Texts = ()
    market_context: _Mapping = {}
    signals: _Mapping = {}
    actual_result: Annotated[float | None, Field(allow_inf_nan=False, description="a finite number")] = None
    outcome_known: Any = ""
    outcome_note: _Text = ""
    tags: _Texts = ()
    importance: _Share = 0.5
    run_id: _Text = ""
    id: _Text = ""

    def __init__(self, **values: Any) -> None:
        try:
            super().__init__(**values)
        except ValidationError as error:
            first = error.errors()[0]
            own = first.get("ctx", {}).get("error")
            if isinstance(own, BadOption):
                raise own from None
            name, fields = str(first["loc"][0]), type(self).model_fields
            if first["type"] == "missing":
                raise BadOption(f"an episode must have the field {name!r}", parameter="episode") from None
            if name not in fields:
                raise BadOption(f"an episode has no field {name!r:.60}", parameter="episode") from None
            raise _invalid(name, values[name], str(fields[name].description)) from None

    @model_validator(mode="after")
    def _identify(self) -> Self:
        day = day_text(self.date or self.market_context.get("date") or "", "date")
        known = self.outcome_known and day_text(self.outcome_known, "outcome_known")
        key = canonical_json([self.run_id, self.strategy, day, self.symbol])
        own = self.id or f"ep_{day.replace('-', '')}_{content_hash(key, size=8)}"
        for name, value in (("date", day), ("outcome_known", known), ("id", own)):
            object.__setattr__(self, name, value)
        return self

    @property
    def line(self) -> str:
        """The decision as a line of a prompt: with what was filled, the outcome, and a reason."""
        line = decision_line(self.date, self.action, self.target_amount, self.confidence, symbol=self.symbol)
        if self.cash_change:
            line += f", {'bought' if self.cash_change > 0 else 'sold'} {abs(self.cash_change):.0f}"
        if self.actual_result is not None:
            line = f"{line} -> {self.actual_result:+.1f}%"
        return f"{line}; {short_line(self.reasons[0], _SHOWN_REASON)}" if self.reasons else line

    def with_outcome(
        self, actual_result: float | None, outcome_known: str = "", outcome_note: str = ""
    ) -> DecisionEpisode:
        """The same episode with another outcome, None for none."""
        outcome = {
            "actual_result": actual_result,
            "outcome_known": outcome_known,
            "outcome_note": outcome_note,
        }
        return DecisionEpisode(**dict(self) | outcome)

    def as_of(self, day: str) -> DecisionEpisode | None:
        """The episode as known at the open of a session, ``YYYY-MM-DD``; None if it is not before it.

        An outcome without the day it is known from is never known.
        """
        if self.date >= day:
            return None
        if self.actual_result is None or (self.outcome_known and self.outcome_known <= day):
            return self
        return self.with_outcome(None)

    def to_json(self) -> dict[str, Any]:
        """All fields as plain JSON."""
        return self.model_dump(mode="json")

    @classmethod
    def from_json(cls, body: object) -> DecisionEpisode:
        """Read what :meth:`to_json` wrote.

        Raises
        ------
        BadOption
            If it is not an object, a field is not known or missing, or a value is not valid.
        """
        if not isinstance(body, Mapping):
            raise BadOption(
                f"an episode must be a JSON object, not {type(body).__name__}", parameter="episode"
            )
        return cls(**body)


def decision_line(date: str, action: str, target: float, confidence: float, *, symbol: str = "") -> str:
    """A decision as a line of a prompt, in the currency of the symbol's market.

    >>> decision_line("2025-06-11", "hold", 5000.0, 0.7)
    '2025-06-11: hold at $5000 (confidence: 0.7)'
    >>> decision_line("2025-06-11", "close", 0.0, 0.7, symbol="600519.SH")
    '2025-06-11: close to ¥0 (confidence: 0.7)'
    """
    to, sign = "at" if action == "hold" else "to", "$" if find_board(symbol) in (None, "us") else "¥"
    return f"{date}: {action} {to} {sign}{target:.0f} (confidence: {confidence:.2g})"


def day_text(day: object, parameter: str) -> str:
    """A day as ``YYYY-MM-DD``."""
    if isinstance(day, str) and _ISO.fullmatch(day):
        with suppress(ValueError):
            return date.fromisoformat(day).isoformat()
    try:
        return f"{session_of(day):%Y-%m-%d}"
    except BadWindow as error:
        raise _invalid(parameter, day, "a simulated date such as 2025-06-10") from error


def _invalid(name: str, value: object, valid: str) -> BadOption:
    return BadOption(f"{name}={value!r:.60} of an episode; must be {valid}", parameter=name)
