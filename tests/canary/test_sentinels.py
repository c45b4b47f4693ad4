"""Sentinels are found wherever they are, and nothing else is taken for one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from datetime import date
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from canary_sentinels import find_canaries
from langchain_core.messages import AIMessage, HumanMessage, ToolMessage

from quantgraph.errors import NoData

HUGE = 7.7e76


@dataclass
class Thing:
    inside: object


def noted(frame, **attrs):
    frame.attrs.update(attrs)
    return frame


def caused():
    try:
        try:
            raise ValueError(f"last is {HUGE}")
        except ValueError as error:
            raise KeyError("clean") from error
    except KeyError as error:
        return error


def test_a_sentinel_is_found_wherever_it_is(subtests):
    for thing in [
        HUGE,
        -HUGE,
        HUGE * 1e-15,
        HUGE**0.5,
        complex(0, HUGE),
        np.complex128(HUGE),
        np.array([complex(1, -HUGE)]),
        np.array([1.0, float("inf")], dtype=np.float32),
        np.array([1.0, 3e38], dtype=np.float32),
        np.array([-np.inf], dtype=np.float16),
        "about 7.71×10^76",
        "7.71 × 10⁷⁶",
        r"$7.7 \times 10^{76}$",
        "7.7*10**76",
        f"{HUGE**0.5:,.2f}",
        HUGE**2,
        np.float64(HUGE),
        Decimal("-7.7E+76"),
        7 * 10**76,
        float("inf"),
        f"close {HUGE}",
        f"close {-HUGE:.2f}",
        f"close {HUGE:,.0f}",
        f"{HUGE:.2%}",
        f"{HUGE:.3e}",
        str(Decimal(HUGE)),
        str(pd.DataFrame({"a": [1.0, HUGE]})),
        repr(np.array([HUGE])),
        "the last session is 2177-07-09",
        "21770708",
        "2177/7/7",
        "2177年7月7日",
        "2177 年 07 月 08 日",
        "Jul 08 2177",
        "July 8th, 2177",
        "Tue Jul  8 00:00:00 2177",
        "08-Jul-2177",
        "8/7/2177",
        "07.08.2177",
        "合成银行01 CANARY",
        b"...21770708...",
        date(2177, 7, 8),
        pd.Timestamp("2177-07-08"),
        np.datetime64("2177-07-08"),
        np.array([[1.0, HUGE]]),
        np.array(["2024-01-02", "2177-07-08"], dtype="datetime64[us]"),
        np.array(["CANARY.SH"], dtype=object),
        pd.DataFrame({"a": [1.0, -HUGE]}),
        pd.DataFrame({"CANARY.SH": [1.0]}),
        pd.Series([1.0], index=pd.DatetimeIndex(["2177-07-08"])),
        pd.Index(["CANARY.SH"]),
        noted(pd.DataFrame({"a": [1.0]}), last=HUGE),
        noted(pd.Series([1.0]), last="2177-07-08"),
        pd.DataFrame({"a": [1.0]}).rename_axis(columns="CANARY"),
        pd.DataFrame({"a": [1.0]}).rename_axis(index="CANARY"),
        pd.Series([1.0], name="CANARY"),
        {"a": {"b": [1, (2, {HUGE})]}},
        {"CANARY.SH": 1},
        Thing(inside=Thing(inside=[HUGE])),
        NoData("nothing", last=pd.Timestamp("2177-07-08")),
        caused(),
        HumanMessage(f"{HUGE}"),
        AIMessage("", tool_calls=[{"name": "t", "args": {"x": HUGE}, "id": "1"}]),
        ToolMessage("", artifact={"last": "21770709"}, tool_call_id="1"),
        [AIMessage("", additional_kwargs={"deep": {"x": "CANARY"}})],
    ]:
        with subtests.test(thing=thing):
            assert find_canaries(thing)


class MadeAnew(Mapping):
    """Every value is made when it is asked for, so that its identity is soon another object's."""

    def __getitem__(self, key):
        return np.array([HUGE if key == 99 else 1.0])

    def __iter__(self):
        return iter(range(100))

    def __len__(self):
        return 100


def test_a_sentinel_is_found_behind_objects_that_are_gone():
    assert len(find_canaries(MadeAnew())) == 1


@pytest.mark.parametrize(
    "thing",
    [
        None,
        True,
        0.0,
        -1e36,
        2**127,
        1 + 2j,
        float("nan"),
        Decimal("sNaN"),
        np.array([np.nan, 1e36]),
        np.array([np.nan, 1e36], dtype=np.float32),
        np.array([1j]),
        "10^20 and 10**8, 10⁻⁷⁶, 10^7 of 76 and 3.10^76",
        "Jul 08 2017, 7/8/2017, Julia 2177 and 21770 pieces",
        pd.NaT,
        np.datetime64("NaT"),
        "2024-01-02 to 2025-12-31, 2.177 and 21777.07 CNY, 12177-07-08 pieces",
        "commit 12e99a0b4c5d and 7e7612345678 and 3e+12",
        "a" * 30 + "0123456789" * 7,  # a hash in hexadecimal digits
        "1" * 60,
        "1,234,567.89",
        "a canary in a mine",
        pd.DataFrame({"a": [1.0], "b": ["x"]}, index=pd.DatetimeIndex(["2024-01-02"])),
        {"pe": None, "rows": range(3), "kinds": frozenset({"x"})},
        ValueError("clean"),
        object(),
    ],
)
def test_other_values_are_not_sentinels(thing):
    assert find_canaries(thing) == []


def test_a_finding_has_its_place():
    thing = {"messages": [HumanMessage("fine"), HumanMessage(f"the close is {HUGE}")]}
    assert find_canaries(thing) == ["['messages'][1].content: the close is 7.7e+76"]
    assert find_canaries(f"CANARY {HUGE} 2177-07-08") == [
        "it: CANARY 7.7e+76 2177-07-08",
        "it: CANARY 7.7e+76 2177-07-08",
        "it: CANARY 7.7e+76 2177-07-08",
    ]


def test_a_container_of_itself_is_searched_once():
    loop: list[object] = [1]
    loop.append(loop)
    assert find_canaries(loop) == []
