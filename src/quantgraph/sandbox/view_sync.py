"""A view in a child that stays: the host sends what became known, and the child makes the view of it."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

from quantgraph.errors import BadFrame
from quantgraph.market.actions import CorporateAction
from quantgraph.market.moment import Moment
from quantgraph.sandbox.accounts import day_text, session_at
from quantgraph.sandbox.frame_sync import GrowingFrames, SentFrames
from quantgraph.sandbox.wire import Block
from quantgraph.state import View
from quantgraph.state.commits import PANELS
from quantgraph.state.records import Record

__all__ = ["ReceivedView", "SentView"]


class SentView:
    """The host's end: what was sent of a view, and what is to be sent of the next one."""

    def __init__(self) -> None:
        self._frames = SentFrames()
        self._actions: set[CorporateAction] = set()
        self._records = 0

    def next(self, view: View) -> tuple[dict[str, Any], list[Block]]:
        """Header and blocks that bring a child to ``view``, which knows all that those before it knew."""
        header, blocks = self._frames.next(view.frozen())
        records = view.all_records()
        header["moment"] = [day_text(view.moment.session), view.moment.phase]
        header["actions"] = self._new_actions(view)
        header["records"] = [record.line for record in records[self._records :]]
        self._records = len(records)
        return header, blocks

    def _new_actions(self, view: View) -> list[dict[str, str]] | None:
        try:
            known = view.actions()
        except BadFrame:
            return None
        fresh = (
            [each for each in known if each not in self._actions] if len(known) > len(self._actions) else []
        )
        self._actions.update(fresh)
        return [_plain_action(action) for action in fresh]


class ReceivedView:
    """The child's end: the view as far as it was sent.

    Its ``data_ref`` is empty. A commit's name is made from all that is in it, so who has the name can try out
    guesses about what is to come.
    """

    def __init__(self) -> None:
        self._frames = GrowingFrames()
        self._actions: list[CorporateAction] = []
        self._records: list[Record] = []

    def add(self, header: dict[str, Any], body: bytes | bytearray) -> View:
        """Append what became known, and return the view of the moment."""
        frames = self._frames.add(header, body)
        session, phase = header["moment"]
        if header["actions"]:
            self._actions += map(_action_of, header["actions"])
            self._actions.sort(key=lambda action: (action.ex, action.symbol))
        self._records += map(Record.read, header["records"])
        return View(
            "",
            Moment(session_at(session), phase),
            fields={panel: frames.get(panel, {}) for panel in PANELS},
            actions=None if header["actions"] is None else tuple(self._actions),
            records=tuple(self._records),
        )


_AMOUNTS = ("cash", "ratio", "delisting")
_DATES = ("ex", "declared", "record", "pay")


def _plain_action(action: CorporateAction) -> dict[str, str]:
    told = {name: getattr(action, name) for name in (*_AMOUNTS, *_DATES)}
    plain = {
        name: day_text(value) if name in _DATES else str(value)
        for name, value in told.items()
        if value is not None
    }
    return {"symbol": action.symbol, **plain}


def _action_of(told: dict[str, str]) -> CorporateAction:
    given: dict[str, Any] = {name: Decimal(told[name]) for name in _AMOUNTS if name in told}
    given |= {name: session_at(told[name]) for name in _DATES if name in told}
    return CorporateAction(symbol=told["symbol"], **given)
