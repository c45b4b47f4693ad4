"""Corporate actions by hand: amounts, dates, when they are known and who is entitled."""

from __future__ import annotations

from decimal import Decimal

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadFrame
from quantgraph.market._moment import Moment, known_from
from quantgraph.market.actions._actions import CorporateAction, KnownActions, actions_of

DAYS = pd.to_datetime(["2025-06-05", "2025-06-06", "2025-06-09", "2025-06-10", "2025-06-11", "2025-06-12"])
CODES = ["000001.SZ", "600519.SH"]


def sparse(cells: dict[tuple[str, str], float]) -> pd.DataFrame:
    frame = pd.DataFrame(np.nan, index=DAYS, columns=CODES)
    for (day, code), value in cells.items():
        frame.loc[day, code] = value
    return frame


def one(**values: float) -> dict[str, pd.DataFrame]:
    """Fields with a value each for 600519.SH on 2025-06-11."""
    return {name: sparse({("2025-06-11", "600519.SH"): value}) for name, value in values.items()}


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def test_amounts_are_exact_and_dates_are_dates() -> None:
    fields = one(
        dividend=0.1, split=1.3, action_declared=20250603.0, action_record=20250610.0, action_pay=20250611.0
    )
    assert actions_of(fields) == (
        CorporateAction(
            symbol="600519.SH",
            ex=day("2025-06-11"),
            cash=Decimal("0.1"),
            ratio=Decimal("1.3"),
            declared=day("2025-06-03"),
            record=day("2025-06-10"),
            pay=day("2025-06-11"),
        ),
    )


def test_frames_of_different_shapes_come_together_by_session_and_symbol() -> None:
    fields = {
        "dividend": sparse({("2025-06-11", "600519.SH"): 2.5, ("2025-06-06", "600519.SH"): 1.0}),
        "split": sparse({("2025-06-06", "000001.SZ"): 0.1})[["000001.SZ"]].iloc[1:3],
        "delisting": sparse({("2025-06-12", "000001.SZ"): 0.0}),
    }
    told = [
        (action.ex.day, action.symbol, action.cash, action.ratio, action.delisting)
        for action in actions_of(fields)
    ]
    assert told == [
        (6, "000001.SZ", Decimal(0), Decimal("0.1"), None),
        (6, "600519.SH", Decimal(1), Decimal(1), None),
        (11, "600519.SH", Decimal("2.5"), Decimal(1), None),
        (12, "000001.SZ", Decimal(0), Decimal(1), Decimal(0)),
    ]


def test_nothing_is_no_action() -> None:
    assert actions_of({}) == ()
    assert actions_of({"close": sparse({})}) == ()
    assert actions_of(one(dividend=0.0, split=1.0, action_pay=20250611.0)) == ()


@pytest.mark.parametrize(
    ("fields", "message"),
    [
        ({"dividend": -0.5}, r"ohlcv\['dividend'\] has -0.5 at \(2025-06-11, 600519.SH\); .* >= 0"),
        ({"split": 0.0}, r"ohlcv\['split'\] has 0 .* > 0"),
        ({"split": -2.0}, r"ohlcv\['split'\] has -2 "),
        ({"delisting": -1.0}, r"ohlcv\['delisting'\] has -1 "),
        ({"dividend": 1.0, "action_pay": 20251301.0}, r"\['action_pay'\] has 20251301 .* written YYYYMMDD"),
        ({"dividend": 1.0, "action_record": 45818.0}, r"\['action_record'\] has 45818 .* written YYYYMMDD"),
        ({"dividend": 1.0, "action_pay": 20250611.5}, r"\['action_pay'\] has 20250611.5 "),
        ({"dividend": 1.0, "action_declared": 20250612.0}, r"has 20250612 .* on or before the ex-date"),
    ],
)
def test_an_impossible_cell_is_named(fields: dict[str, float], message: str) -> None:
    with pytest.raises(BadFrame, match=message):
        actions_of(one(**fields))


@pytest.mark.parametrize(
    ("declared", "known"),
    [
        ("2025-06-03", Moment.at("2025-06-03", "post_close")),
        ("2025-06-08", Moment.at("2025-06-08", "post_close")),  # a Sunday
        ("2025-06-11", Moment.at("2025-06-11", "pre_open")),
        (None, Moment.at("2025-06-11", "pre_open")),
    ],
)
def test_an_action_is_known_when_the_day_of_its_announcement_is_over(
    declared: str | None, known: Moment
) -> None:
    action = CorporateAction(symbol="A", ex=day("2025-06-11"), declared=declared and day(declared))
    assert action.known_from == known


@pytest.mark.parametrize(
    ("record", "entitled"),
    [
        ("2025-06-10", "2025-06-11"),  # China: register of the eve
        ("2025-06-11", "2025-06-11"),  # United States: register of the ex-date, trades settle a day later
        ("2025-06-12", "2025-06-11"),  # United States before 2024-05-28: two days
        (None, "2025-06-11"),
        ("2025-06-06", "2025-06-09"),  # the register of a Friday is that of Monday's morning
    ],
)
def test_who_holds_on_the_morning_after_the_register_is_entitled(record: str | None, entitled: str) -> None:
    action = CorporateAction(symbol="A", ex=day("2025-06-11"), record=record and day(record))
    assert action.entitlement_session(DAYS) == day(entitled)


def test_a_register_at_the_end_of_the_data_leaves_the_ex_date() -> None:
    action = CorporateAction(symbol="A", ex=day("2025-06-12"), record=day("2025-06-12"))
    assert action.entitlement_session(DAYS) == day("2025-06-12")


def test_announced_actions_are_known_before_their_ex_date_and_others_in_its_morning() -> None:
    fields = {
        "dividend": sparse({("2025-06-11", "600519.SH"): 1.0, ("2025-06-11", "000001.SZ"): 2.0}),
        "action_declared": sparse({("2025-06-11", "600519.SH"): 20250606.0}),
    }
    known = KnownActions(fields)

    def at(text: str, phase: str) -> list[str]:
        return [action.symbol for action in known.at(Moment.at(text, phase))]

    assert at("2025-06-06", "close") == []
    assert at("2025-06-06", "post_close") == ["600519.SH"]
    assert at("2025-06-10", "post_close") == ["600519.SH"]
    assert at("2025-06-11", "pre_open") == ["000001.SZ", "600519.SH"]


def test_rows_of_actions_and_status_are_known_in_the_morning() -> None:
    names = ("dividend", "split", "delisting", "action_pay", "is_st", "listing_day", "delisting_day")
    assert {known_from("ohlcv", name) for name in names} == {"pre_open"}
