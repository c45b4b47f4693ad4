"""A frame, or frames by symbol or name, are a source."""

from __future__ import annotations

import pandas as pd
import pytest
from bar_files import day, everything

from quantgraph.data import open_source
from quantgraph.data.table_source import TableSource
from quantgraph.errors import BadFile, BadOption
from quantgraph.settings import load_settings

DAYS = pd.DatetimeIndex(["2024-01-02", "2024-01-03"], name="Date")
ONE = pd.DataFrame({"Open": 10.0, "High": 11.0, "Low": 9.0, "Close": [10.0, 10.5], "Volume": 200}, index=DAYS)
LONG = ONE.reset_index().assign(Ticker="AAPL")


@pytest.mark.parametrize(
    "given",
    [
        LONG,
        {"bars": LONG},
        {"AAPL": ONE},
        {"AAPL": ONE.tz_localize("America/New_York")},
        {"AAPL": ONE.astype(str)},
        pd.concat({"AAPL": ONE}),
        pd.concat({"AAPL": ONE}, axis="columns").swaplevel(axis="columns"),
    ],
    ids=["long", "named", "by_symbol", "zone", "texts", "rows", "columns"],
)
def test_frames_of_every_shape(given: pd.DataFrame | dict[str, pd.DataFrame]) -> None:
    source = open_source(given)
    assert (source.name, source.synthetic) == ("DataFrame", False)
    assert source.symbols() == ("AAPL",)
    panel = everything(source)
    assert panel["close"]["AAPL"].to_dict() == {day("2024-01-02"): 10.0, day("2024-01-03"): 10.5}
    assert panel["vol"]["AAPL"].tolist() == [2.0, 2.0], "hands of 100 shares"


def test_a_dict_may_hold_what_a_folder_may() -> None:
    members = pd.DataFrame({"index_code": "NDX", "con_code": ["AAPL"], "trade_date": "20240102"})
    source = open_source({"AAPL": ONE, "MSFT": ONE, "members": members})
    assert source.symbols() == ("AAPL", "MSFT")
    assert source.members("NDX", DAYS[0]).symbols == ("AAPL",)
    (note,) = source.provenance
    assert note.en == (
        "AAPL and 1 more: ts_code = its name; trade_date = Date; "
        "vol = Volume (in shares, by the convention of its name)"
    )


def test_settings_say_what_frames_do_not_tell() -> None:
    frame = ONE.set_axis(["01/02/2024", "01/03/2024"]).rename_axis("Date")
    with pytest.raises(BadFile, match="say date_order="):
        open_source({"AAPL": frame}).sessions()
    source = open_source({"AAPL": frame}, settings=load_settings(date_order="day_first"))
    assert source.sessions().tolist() == [day("2024-02-01"), day("2024-03-01")]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (
            {"AAPL": pd.concat([ONE, ONE * 2])},
            "row 1 and row 3: AAPL 2024-01-02 is there twice with different",
        ),
        (
            {"AAPL": ONE.astype(object).replace(10.5, "10,5")},
            "AAPL, row 2, column Close: '10,5' is not a number;",
        ),
        (
            pd.concat({"A": ONE, "B": ONE * -1}, axis="columns"),
            "DataFrame, 2024-01-02 B, column Open: -10 is too",
        ),
        (ONE, "DataFrame misses the column.s. ts_code;.*a frame so: {'AAPL': frame}"),
        ({"AAPL": ONE, "x": ONE[["Volume"]].rename_axis(None)}, "x cannot be read: columns"),
        ({}, "DataFrame holds no daily bar"),
    ],
)
def test_bad_frames_are_one_line(given: pd.DataFrame | dict[str, pd.DataFrame], said: str) -> None:
    with pytest.raises(BadFile, match=said) as caught:
        open_source(given).sessions()
    assert "\n" not in caught.value.message


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"AAPL": 1}, "'AAPL' has a int; a dict has frames by symbol"),
        ([ONE], "a list is not a source; valid: sample"),
        (ONE["Open"], "a Series is not a source"),
    ],
)
def test_what_is_no_frame_is_refused(given: object, said: str) -> None:
    with pytest.raises(BadOption, match=said):
        open_source(given)  # type: ignore[arg-type]


def test_the_fingerprint_is_of_the_content() -> None:
    fingerprint = TableSource({"AAPL": ONE}).fingerprint
    assert fingerprint == TableSource(LONG).fingerprint
    assert fingerprint != TableSource({"AAPL": ONE + 1}).fingerprint
