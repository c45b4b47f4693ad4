"""The client, with the real ``tushare`` package on a loopback server."""

from __future__ import annotations

import logging
import sys

import pandas as pd
import pytest
from tushare_stub import (
    TushareFault,
    TushareStub,
    allowance_used_up,
    connection_dropped,
    garbage,
    http_error,
    no_answer,
    no_permission,
    points_missing,
    rate_limited,
    reply_cut,
    without_data,
)

from quantgraph.data.tushare._client import ENDPOINTS, TushareClient
from quantgraph.errors import BadOption, NotConfigured, PermissionDenied, RateLimited, SourceUnavailable

TOKEN = "f00dcafe5ec2e7"


def bars(days: int, code: str = "600000.SH") -> pd.DataFrame:
    dates = pd.date_range("2024-01-01", periods=days).strftime("%Y%m%d")
    table = pd.DataFrame({"ts_code": code, "trade_date": dates})
    for number, field in enumerate(ENDPOINTS["daily"].numbers):
        table[field] = [10.0 * number + row for row in range(days)]
    return table


@pytest.fixture(autouse=True)
def plain_environment(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")
    for name in ("TUSHARE_TOKEN", "TUSHARE_URL", "TS_TOKEN"):
        monkeypatch.delenv(name, raising=False)


@pytest.fixture
def stub():
    with TushareStub({"daily": bars(7)}) as running:
        yield running


def client(stub: TushareStub, **options) -> TushareClient:
    return TushareClient(**{"token": TOKEN, "base_url": stub.url, **options})


def patience(fault: TushareFault) -> float:
    """Seconds to wait: few only where no answer comes."""
    return 0.2 if fault.kind == "silence" else 30.0


def chain(error: BaseException | None) -> list[BaseException]:
    found = []
    while error is not None:
        found.append(error)
        error = error.__cause__ or error.__context__
    return found


@pytest.mark.parametrize(
    ("limit", "calls"),
    [(3, 3), (7, 2), (8, 1), (1, 8)],
    ids=["7 rows by 3", "last page exactly full", "one short page", "row by row"],
)
def test_all_rows_come_whatever_the_row_limit(stub, limit, calls):
    rows = client(stub, row_limits={"daily": limit}).fetch(ENDPOINTS["daily"], {"ts_code": "600000.SH"})
    assert sorted(rows["open"]) == [0, 1, 2, 3, 4, 5, 6]
    assert [request.params["offset"] for request in stub.requests] == [limit * n for n in range(calls)]


def test_a_vendor_that_cuts_at_the_limit_does_not_lose_rows():
    with TushareStub({"daily": bars(7)}, row_limits={"daily": 3}) as stub:
        rows = client(stub, row_limits={"daily": 3}).fetch(ENDPOINTS["daily"], {})
    assert len(rows) == 7


def test_a_vendor_that_ignores_the_offset_is_noticed(stub):
    rows = bars(1)[list(ENDPOINTS["daily"].fields)].to_numpy().tolist()
    page = pd.Series(
        {"code": 0, "data": {"fields": list(ENDPOINTS["daily"].fields), "items": rows}}
    ).to_json()
    stub.add_faults("daily", garbage(body=page))
    with pytest.raises(SourceUnavailable, match="the same page came twice"):
        client(stub, row_limits={"daily": 1}).fetch(ENDPOINTS["daily"], {})
    assert len(stub.requests) == 2


def test_the_documented_row_limits_are_asked_for():
    limits = {name: endpoint.row_limit for name, endpoint in ENDPOINTS.items()}
    assert limits["daily"] == limits["daily_basic"] == 6000
    assert (limits["stk_limit"], limits["suspend_d"]) == (5800, 5000)
    assert (limits["namechange"], limits["index_daily"]) == (10000, 8000)


def test_columns_have_their_types(stub):
    rows = client(stub).fetch(ENDPOINTS["daily"], {"trade_date": "20240101"})
    assert list(rows.columns) == list(ENDPOINTS["daily"].fields)
    assert rows["ts_code"].dtype == "str"
    assert rows["trade_date"].dtype == "datetime64[us]"
    assert rows["trade_date"].tolist() == [pd.Timestamp("2024-01-01")]
    assert rows["pre_close"].tolist() == [40.0]


def test_no_row_is_an_empty_frame_with_types(stub):
    rows = client(stub).fetch(ENDPOINTS["daily"], {"ts_code": "000001.SZ"})
    assert rows.empty
    assert list(rows.columns) == list(ENDPOINTS["daily"].fields)
    assert rows["trade_date"].dtype == "datetime64[us]"
    assert rows["close"].dtype == "float64"


def test_missing_dates_numbers_and_texts_stay_missing(stub):
    stub.set_table(
        "trade_cal", pd.DataFrame([("SSE", "20240102", None, 1)], columns=list(ENDPOINTS["trade_cal"].fields))
    )
    row = client(stub).fetch(ENDPOINTS["trade_cal"], {}).iloc[0]
    assert pd.isna(row["pretrade_date"])
    names = [("600000.SH", "浦发", None, "20200101", None, "20200101")]
    stub.set_table("namechange", pd.DataFrame(names, columns=list(ENDPOINTS["namechange"].fields)))
    row = client(stub).fetch(ENDPOINTS["namechange"], {}).iloc[0]
    assert pd.isna(row["change_reason"])
    assert pd.isna(row["end_date"])
    assert row["start_date"] == pd.Timestamp("2020-01-01")


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (http_error(500), "HTTP error"),
        (http_error(404), "HTTP error"),
        (no_answer(), "no answer within 0.2 s"),
        (connection_dropped(), "no connection"),
        (reply_cut(), "no connection"),
        (garbage(), "not its protocol"),
        (garbage(body="[1, 2]"), "not its protocol"),
        (garbage(body='{"data": {}}'), "not its protocol"),
        (garbage(body='{"code": 0, "data": {"fields": ["a", "b"], "items": [[1]]}}'), "not its protocol"),
        (garbage(body='{"code": 0, "data": {"fields": [], "items": []}}'), "without columns"),
        (garbage(body='{"code": 0, "data": {"fields": ["ts_code"], "items": []}}'), "no column trade_date"),
        (without_data(), "not its protocol"),
        (TushareFault(kind="refusal", code=-1, message="请指定正确的接口名"), "请指定正确的接口名"),
    ],
    ids=lambda value: value if isinstance(value, str) else value.kind,
)
def test_what_is_no_answer_is_an_unavailable_source(stub, fault, words):
    stub.add_faults("daily", fault)
    with pytest.raises(SourceUnavailable, match=words) as caught:
        client(stub, timeout=patience(fault)).fetch(ENDPOINTS["daily"], {})
    assert "daily" in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(("column", "value"), [("trade_date", "2024-13-45"), ("close", "n/a")])
def test_unreadable_cells_name_their_column(stub, column, value):
    stub.set_table("daily", bars(1).astype("object").assign(**{column: value}))
    with pytest.raises(SourceUnavailable, match=f"column {column} holds"):
        client(stub).fetch(ENDPOINTS["daily"], {})


def test_a_closed_port_is_an_unavailable_source():
    with TushareStub({}) as gone:
        url = gone.url
    with pytest.raises(SourceUnavailable, match=r"daily at 127.0.0.1:\d+: no connection"):
        TushareClient(token=TOKEN, base_url=url).fetch(ENDPOINTS["daily"], {})


def test_the_limit_per_minute_is_waited_out_with_growing_pauses(stub):
    waits: list[float] = []
    stub.add_faults("daily", rate_limited(3))
    rows = client(stub, sleep=waits.append).fetch(ENDPOINTS["daily"], {})
    assert len(rows) == 7
    assert waits == [5, 10, 20]


def test_waiting_ends_at_max_wait(stub):
    waits: list[float] = []
    stub.add_faults("daily", rate_limited())
    with pytest.raises(RateLimited, match="每分钟最多访问该接口500次") as caught:
        client(stub, sleep=waits.append, max_wait=36).fetch(ENDPOINTS["daily"], {})
    assert sum(waits) == 35
    assert type(caught.value) is RateLimited


def test_the_limit_per_day_is_not_waited_out(stub):
    waits: list[float] = []
    stub.add_faults("daily", allowance_used_up())
    with pytest.raises(RateLimited, match="每天最多访问"):
        client(stub, sleep=waits.append).fetch(ENDPOINTS["daily"], {})
    assert waits == []
    assert len(stub.requests) == 1


@pytest.mark.parametrize("fault", [no_permission(), points_missing()], ids=["permission", "points"])
def test_a_refused_endpoint_is_permission_denied(stub, fault):
    stub.add_faults("daily", fault)
    with pytest.raises(PermissionDenied, match="daily: the token may not use this endpoint"):
        client(stub).fetch(ENDPOINTS["daily"], {})


def test_a_bad_token_tells_how_to_set_one():
    with TushareStub({"daily": bars(1)}, token="another") as stub:
        with pytest.raises(PermissionDenied, match="set TUSHARE_TOKEN"):
            client(stub).fetch(ENDPOINTS["daily"], {})


def test_no_token_is_noticed_at_first_use_only(stub):
    without = TushareClient(base_url=stub.url)
    with pytest.raises(NotConfigured, match="set TUSHARE_TOKEN"):
        without.fetch(ENDPOINTS["daily"], {})
    assert stub.requests == []


def test_token_and_address_come_from_the_environment(monkeypatch):
    with TushareStub({"daily": bars(1)}, token=TOKEN) as stub:
        monkeypatch.setenv("TUSHARE_TOKEN", f" {TOKEN}\n")
        monkeypatch.setenv("TUSHARE_URL", stub.url + "/")
        assert len(TushareClient().fetch(ENDPOINTS["daily"], {})) == 1


def test_an_argument_is_stronger_than_the_environment(monkeypatch, stub):
    monkeypatch.setenv("TUSHARE_URL", "http://127.0.0.1:9/dataapi")
    assert len(client(stub).fetch(ENDPOINTS["daily"], {})) == 7


def test_an_address_without_http_is_a_bad_option():
    with pytest.raises(BadOption, match="ftp://x"):
        TushareClient(token=TOKEN, base_url="ftp://x").fetch(ENDPOINTS["daily"], {})


def test_a_missing_package_is_not_configured(stub, monkeypatch):
    monkeypatch.setitem(sys.modules, "tushare", None)
    with pytest.raises(NotConfigured, match="pip install tushare"):
        client(stub).fetch(ENDPOINTS["daily"], {})


def test_a_package_version_with_an_unknown_address_attribute_gets_no_token(stub, monkeypatch):
    from tushare.pro import client as vendor

    monkeypatch.delattr(vendor.DataApi, "_DataApi__http_url")
    with pytest.raises(NotConfigured, match="address"):
        client(stub).fetch(ENDPOINTS["daily"], {})


@pytest.mark.parametrize(
    "fault",
    [
        TushareFault(kind="refusal", code=1, message=f"您的token不对，请确认: {TOKEN}"),
        TushareFault(kind="refusal", code=1, message=f"odd {TOKEN}\nwords"),
        TushareFault(kind="refusal", code=1, message=f"{TOKEN} 每分钟最多访问该接口2次"),
        garbage(body=TOKEN),
        http_error(),
        no_answer(),
        connection_dropped(),
    ],
    ids=["token", "unknown", "limit", "garbage", "http", "silence", "drop"],
)
def test_the_token_is_in_no_error_and_no_log(stub, fault, caplog):
    caplog.set_level(logging.DEBUG)
    stub.add_faults("daily", fault)
    asking = client(stub, timeout=patience(fault), max_wait=0)
    with pytest.raises((SourceUnavailable, PermissionDenied, RateLimited)) as caught:
        asking.fetch(ENDPOINTS["daily"], {})
    for error in chain(caught.value):
        assert TOKEN not in repr(error) + str(error) + repr(vars(error))
        assert getattr(error, "request", None) is None
    assert TOKEN not in caplog.text
    assert TOKEN not in repr(asking) + repr(vars(asking))
