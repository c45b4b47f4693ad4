"""Each finding of the audit, by a frame made by hand to have exactly that fault."""

from __future__ import annotations

import json

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit import Finding, Report
from quantgraph.audit.bars import check_data, check_signal, signal_counts
from quantgraph.market import sessions

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"])
CODES = ["000001.SZ", "600519.SH"]


def flat(value: float = 10.0, days: pd.DatetimeIndex = DAYS) -> pd.DataFrame:
    return pd.DataFrame(value, index=days, columns=CODES)


def panels(**ohlcv):
    return {"ohlcv": {"open": flat(), "close": flat()} | ohlcv, "indicators": {}}


def audit(made, **options):
    return check_data(made, **({"symbols": CODES, "sessions": DAYS} | options))


def found(report):
    return [(finding.severity, finding.code) for finding in report.findings]


def test_sound_data_has_no_finding():
    report = audit(panels(pre_close=flat()), expected_sessions=DAYS)
    assert report.findings == ()
    assert report.passed
    assert report.summary == {
        "ohlcv_fields": ["open", "close", "pre_close"],
        "indicator_fields": [],
        "signal_fields": [],
        "missing_cells": {},
        "date_range": "2024-01-02 - 2024-01-09",
        "session_count": 6,
        "stock_count": 2,
        "total_data_points": 12,
    }


def test_missing_cells_are_counted_by_field_and_events_are_not_missing():
    gaps = flat()
    gaps.iloc[1, 0] = gaps.iloc[3, 1] = gaps.iloc[4, 1] = np.nan
    made = panels(close=gaps, dividend=flat() * np.nan, is_st=flat() * np.nan)
    made["indicators"] = {"pe": gaps.iloc[:3]}
    assert audit(made).summary["missing_cells"] == {"close": 3, "pe": 1}


def test_nothing_at_all_is_an_error_and_no_crash():
    report = audit({"ohlcv": {}, "indicators": {}})
    assert found(report) == [("error", "missing_field"), ("error", "missing_field")]
    assert report.findings[1].message == "ohlcv has no close; it has nothing"


def test_a_missing_indicator_is_named():
    report = audit(panels() | {"indicators": {"pe": flat()}}, indicators=["pe", "pb"])
    assert [finding.message for finding in report.errors] == ["indicators has no pb; it has pe"]


def test_a_missing_symbol_is_named():
    report = audit(panels(), symbols=[*CODES, "300750.SZ"])
    assert [finding.message for finding in report.errors] == ["close has no 300750.SZ"]


def test_one_symbol_without_a_bar_is_a_warning_and_all_are_an_error():
    close = flat()
    close["600519.SH"] = np.nan
    report = audit(panels(close=close))
    assert found(report) == [("warning", "missing_symbol")]
    assert report.passed
    assert found(audit(panels(close=flat(np.nan)))) == [("error", "missing_symbol")]


def test_a_missing_session_is_an_error_that_names_the_first():
    short = flat(days=DAYS.delete([2, 4]))
    report = audit(panels(open=short, close=short))
    assert found(report) == [("error", "missing_session")]
    assert report.errors[0].message == "close lacks 2 of 6 sessions, the first is 2024-01-04"


def test_a_hole_against_the_exchanges_calendar_is_a_warning():
    days = DAYS.delete(3)
    made = panels(open=flat(days=days), close=flat(days=days))
    report = audit(made, sessions=days, expected_sessions=sessions("2024-01-02", "2024-01-09"))
    assert found(report) == [("warning", "calendar_gap")]
    assert "1 sessions" in report.findings[0].message
    assert "2024-01-05" in report.findings[0].message


@pytest.mark.parametrize(("missing", "expected"), [(3, []), (4, [("warning", "many_gaps")])])
def test_more_than_half_of_the_bars_missing_is_a_warning(missing, expected):
    close = flat()
    close.iloc[:missing, 0] = np.nan
    assert found(audit(panels(close=close))) == expected


@pytest.mark.parametrize("field", ["open", "high", "low", "close", "pre_close"])
@pytest.mark.parametrize("price", [-1.0, 0.0])
def test_a_price_that_is_not_above_zero_is_an_error_with_its_place(field, price):
    bad = flat()
    bad.iloc[3, 1] = price
    report = audit(panels(**{field: bad}))
    assert ("error", "bad_price") in found(report)
    assert report.errors[0].message == f"{field} is {price:g} at (2024-01-05, 600519.SH); prices are above 0"


@pytest.mark.parametrize(
    ("field", "price", "message"),
    [
        ("high", 9.5, "high is 9.5 at (2024-01-05, 600519.SH), below open"),
        ("low", 10.5, "high is 10 at (2024-01-05, 600519.SH), below low"),
    ],
)
def test_a_bar_out_of_order_is_an_error_with_its_place(field, price, message):
    sound = {"high": flat(10.0), "low": flat(10.0)}
    assert found(audit(panels(**sound))) == []
    sound[field].iloc[3, 1] = price
    report = audit(panels(**sound))
    assert report.errors[0].code == "bad_bar"
    assert report.errors[0].message == message


def test_an_extreme_return_is_measured_from_pre_close():
    close, pre_close, split = flat(), flat(), flat(np.nan)
    close.iloc[2:, 0] = 20.0  # doubled by a reverse split that pre_close knows of
    pre_close.iloc[2:, 0] = 20.0
    split.iloc[2, 0] = 0.5
    assert found(audit(panels(close=close, pre_close=pre_close, split=split))) == []
    report = audit(panels(close=close))
    assert found(report) == [("warning", "extreme_return")]
    assert report.findings[0].message == "1 returns are beyond 50%, the first is 1 at (2024-01-04, 000001.SZ)"


def test_a_return_over_a_suspension_is_seen():
    close = flat()
    close.iloc[2:4, 0] = np.nan
    close.iloc[4:, 0] = 4.0
    report = audit(panels(close=close))
    assert found(report) == [("info", "symbol_gap"), ("warning", "extreme_return")]
    assert report.findings[1].message.endswith("-0.6 at (2024-01-08, 000001.SZ)")


def test_a_first_bar_has_no_extreme_return():
    close, pre_close = flat(), flat()
    close.iloc[:2, 0], pre_close.iloc[:2, 0] = np.nan, np.nan
    pre_close.iloc[2, 0] = 4.0  # the price of its issue
    assert found(audit(panels(close=close, pre_close=pre_close))) == []


def test_a_frame_on_other_sessions_is_a_warning():
    report = audit(panels(vol=flat(days=DAYS[:4])))
    assert found(report) == [("warning", "misaligned")]
    assert report.findings[0].message == "ohlcv['vol'] has 4 sessions, close 6"


def test_a_split_is_no_extreme_return_and_a_wrong_price_beside_it_is_one():
    close, split = flat(), flat(np.nan)
    close.iloc[2:, 0] = 20.0  # a reverse split, one for two
    split.iloc[2, 0] = 0.5
    assert found(audit(panels(close=close, split=split))) == []
    split.iloc[2, 0] = np.nan
    assert found(audit(panels(close=close, split=split))) == [("warning", "extreme_return")]


def test_sparse_frames_are_sound_and_rows_that_are_no_sessions_are_told():
    nothing, ex = flat(np.nan), flat(0.5).iloc[2:3]
    sound = panels(
        dividend=ex, split=nothing, action_pay=ex * 0 + 20240110, delisting=nothing, is_st=flat(0.0)
    )
    assert found(audit(sound)) == []
    lost = ex.set_axis(pd.DatetimeIndex(["2024-01-06"]))
    report = audit(panels(dividend=lost))
    assert [finding.message for finding in report.findings] == ["ohlcv['dividend'] has 1 sessions, close 6"]


def signal(values) -> pd.DataFrame:
    return pd.DataFrame({"000001.SZ": values, "600519.SH": values}, index=DAYS, dtype=float)


def test_a_sound_signal_has_its_counts():
    made = signal([np.nan, 1, 0, 0, -1, 0])
    report = check_signal("s", made, flat())
    assert report.findings == ()
    assert (
        report.summary["signal_counts"] == signal_counts(made) == {"buy": 2, "sell": 2, "hold": 6, "nan": 2}
    )


def test_a_signal_for_strangers_or_strange_days_or_too_few_is_an_error():
    made = signal([1, 0, 0, 0, 0, 0])
    stranger = made.rename(columns={"600519.SH": "AAPL"})
    assert (
        check_signal("s", stranger, flat()).errors[0].message
        == "s has columns that are not symbols of the data: AAPL"
    )
    moved = made.set_axis(DAYS.shift(1, freq="30D"))
    assert [finding.code for finding in check_signal("s", moved, flat()).errors] == [
        "misaligned",
        "misaligned",
    ]
    short = check_signal("s", made.iloc[:4], flat())
    assert short.errors[0].message == "s lacks 2 of 6 sessions"


def test_a_signal_without_a_row_is_an_error_and_no_crash():
    report = check_signal("s", signal([1, 0, 0, 0, 0, 0]).iloc[:0], flat())
    assert [finding.code for finding in report.errors] == ["misaligned", "no_opinion"]
    assert report.errors[0].message == "s lacks 6 of 6 sessions"
    assert (report.summary["date_range"], report.summary["session_count"]) == ("no session", 0)


def test_a_signal_for_some_of_the_symbols_is_sound():
    assert check_signal("s", signal([1, 0, 0, 0, 0, 0])[["600519.SH"]], flat()).findings == ()


def test_a_signal_that_never_buys_is_a_warning_and_so_is_one_without_opinions():
    assert found(check_signal("s", signal([0, 0, -1, 0, 0, 0]), flat())) == [("warning", "no_trades")]
    silent = check_signal("s", signal([np.nan] * 4 + [1, 0]), flat())
    assert found(silent) == [("warning", "many_gaps")]
    assert silent.findings[0].message == "s has no opinion on 67% of the cells"


def test_a_report_takes_more_findings_and_gives_none_back():
    error = Finding(severity="error", code="bad_price", message="x")
    report = Report(checks=("prices",), findings=(error,))
    more = report.with_findings(Finding(severity="info", code="told", message="y"))
    assert more.errors == (error,)
    assert not more.passed
    assert report.findings == (error,), "the first report is as it was"
    with pytest.raises(AttributeError):
        more.findings = ()


def test_the_json_form_is_json_and_advises_once():
    bad = flat(-1.0)
    report = audit(panels(vol=flat(days=DAYS[:4]), amount=flat(days=DAYS[:4]), close=bad, open=bad))
    told = report.as_json()
    assert json.loads(json.dumps(told)) == told
    assert told["validation_passed"] is False
    assert set(told) == {
        "validation_passed",
        "checks_performed",
        "issues_found",
        "data_summary",
        "recommendations",
    }
    assert told["recommendations"] == [
        "fetch the bar again, or leave the symbol out: a price is above zero",
        "build the signal from the index and the columns of the close frame",
    ]
    assert {issue["severity"] for issue in told["issues_found"]} == {"error", "warning"}


def test_the_json_form_has_the_place_and_the_count_of_what_has_one():
    bad = flat()
    bad.iloc[3, 1] = 0.0
    told = (
        audit(panels(close=bad)).with_findings(Finding(severity="info", code="told", message="y")).as_json()
    )
    assert told["issues_found"] == [
        {
            "severity": "error",
            "code": "bad_price",
            "message": "close is 0 at (2024-01-05, 600519.SH); prices are above 0",
            "session": "2024-01-05",
            "symbol": "600519.SH",
            "count": 1,
        },
        {"severity": "info", "code": "told", "message": "y"},
    ]
