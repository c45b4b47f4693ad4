"""The stub as the real ``tushare`` package sees it."""

from __future__ import annotations

import pandas as pd
import pytest
import requests
from tushare_stub import (
    TushareStub,
    allowance_used_up,
    bad_token,
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

DAILY = pd.DataFrame(
    [
        ("600000.SH", "20240102", 6.61),
        ("600000.SH", "20240103", 6.62),
        ("600000.SH", "20240104", None),
        ("600519.SH", "20240102", 1685.01),
        ("600519.SH", "20240103", 1694.0),
    ],
    columns=["ts_code", "trade_date", "close"],
)


def client(stub: TushareStub, token: str = "secret", timeout: float = 30):
    import tushare

    api = tushare.pro_api(token, timeout=timeout)
    api._DataApi__http_url = stub.url
    return api


@pytest.fixture(autouse=True)
def no_proxy(monkeypatch):
    monkeypatch.setenv("NO_PROXY", "127.0.0.1")


def test_rows_are_chosen_by_code_lists_days_and_windows():
    with TushareStub({"daily": DAILY}) as stub:
        api = client(stub)
        assert len(api.daily()) == 5
        assert api.daily(ts_code="600519.SH")["close"].tolist() == [1694.0, 1685.01]  # newest first
        assert len(api.daily(ts_code="600519.SH,600000.SH", trade_date="20240103")) == 2
        cut = api.daily(ts_code="600000.SH", start_date="20240103", end_date="20240103")
        assert cut["trade_date"].tolist() == ["20240103"]
        assert api.daily(ts_code="000001.SZ").empty


def test_dates_may_be_timestamps_and_missing_numbers_arrive_as_missing():
    table = DAILY.assign(trade_date=pd.to_datetime(DAILY["trade_date"]))
    with TushareStub({"daily": table}) as stub:
        rows = client(stub).daily(ts_code="600000.SH", trade_date="20240104")
    assert rows["trade_date"].tolist() == ["20240104"]
    assert rows["close"].isna().all()


def test_only_requested_fields_are_returned():
    with TushareStub({"daily": DAILY}) as stub:
        assert list(client(stub).daily(fields="trade_date,close").columns) == ["trade_date", "close"]


def test_pages_are_cut_by_limit_offset_and_the_row_limit():
    with TushareStub({"daily": DAILY}, row_limits={"daily": 3}) as stub:
        api = client(stub)
        assert len(api.daily()) == 3
        assert len(api.daily(limit=2)) == 2
        assert len(api.daily(limit=100, offset=3)) == 2
        assert api.daily(offset=5).empty


def test_an_empty_page_still_has_its_columns():
    with TushareStub({"daily": DAILY}) as stub:
        assert list(client(stub).daily(ts_code="000001.SZ").columns) == ["ts_code", "trade_date", "close"]


def test_an_http_error_is_an_empty_frame_without_columns_in_the_real_client():
    with TushareStub({"daily": DAILY}, faults={"daily": [http_error(503)]}) as stub:
        assert client(stub).daily().columns.empty


def test_stock_basic_lists_listed_stocks_by_default():
    table = pd.DataFrame({"ts_code": ["600000.SH", "600001.SH"], "list_status": ["L", "D"]})
    with TushareStub({"stock_basic": table}) as stub:
        assert client(stub).stock_basic()["ts_code"].tolist() == ["600000.SH"]
        assert client(stub).stock_basic(list_status="D")["ts_code"].tolist() == ["600001.SH"]


def test_name_changes_are_cut_by_announcement():
    table = pd.DataFrame({"name": ["old", "new"], "ann_date": ["20200101", "20240101"]})
    with TushareStub({"namechange": table}) as stub:
        assert client(stub).namechange(start_date="20230101")["name"].tolist() == ["new"]


@pytest.mark.parametrize(
    ("fault", "words"),
    [
        (rate_limited(per_minute=200), "每分钟最多访问该接口200次"),
        (allowance_used_up(per_day=2), "每天最多访问该接口2次"),
        (no_permission(), "没有访问该接口的权限"),
        (points_missing(), "积分不足"),
        (bad_token(), "您的token不对"),
    ],
)
def test_refusals_have_the_words_of_the_vendor(fault, words):
    with TushareStub({"daily": DAILY}, faults={"daily": [fault]}) as stub:
        with pytest.raises(Exception, match=words) as caught:
            client(stub).daily()
        assert type(caught.value) is Exception


def test_an_unknown_endpoint_is_refused():
    with TushareStub({}) as stub, pytest.raises(Exception, match="请指定正确的接口名"):
        client(stub).dayly()


def test_only_the_given_token_is_accepted_and_none_is_kept():
    with TushareStub({"daily": DAILY}, token="right") as stub:
        with pytest.raises(Exception, match="token不对"):
            client(stub, token="wrong").daily()
        client(stub, token="right").daily(limit=1)
        assert [request.authorized for request in stub.requests] == [False, True]
        assert "right" not in repr(stub.requests)


@pytest.mark.parametrize(
    ("fault", "error"),
    [
        (no_answer(), requests.ReadTimeout),
        (connection_dropped(), requests.ConnectionError),
        (reply_cut(), requests.RequestException),
        (garbage(), ValueError),
        (without_data(), KeyError),
    ],
)
def test_connection_faults_raise_the_real_clients_errors(fault, error):
    with TushareStub({"daily": DAILY}, faults={"daily": [fault]}) as stub, pytest.raises(error):
        client(stub, timeout=0.2 if fault.kind == "silence" else 30).daily()


def test_faults_are_used_up_in_their_order():
    with TushareStub({"daily": DAILY}, faults={"daily": [rate_limited(1), no_permission(1)]}) as stub:
        api = client(stub)
        with pytest.raises(Exception, match="每分钟"):
            api.daily()
        with pytest.raises(Exception, match="权限"):
            api.daily()
        assert len(api.daily()) == 5


def test_faults_of_all_endpoints_can_be_added_and_forgotten():
    with TushareStub({"daily": DAILY}) as stub:
        stub.add_faults("*", no_permission())
        with pytest.raises(Exception, match="权限"):
            client(stub).daily()
        stub.clear_faults()
        assert len(client(stub).daily()) == 5


def test_a_table_can_be_replaced_while_the_stub_runs():
    with TushareStub({"daily": DAILY}) as stub:
        stub.set_table("daily", DAILY.head(1))
        assert len(client(stub).daily()) == 1


def test_requests_are_recorded():
    with TushareStub({"daily": DAILY}) as stub:
        client(stub).daily(ts_code="600519.SH", fields="ts_code,close")
        (request,) = stub.requests
    assert request.endpoint == "daily"
    assert request.params["ts_code"] == "600519.SH"
    assert request.fields == ("ts_code", "close")


def test_a_stub_that_does_not_run_has_no_address():
    with pytest.raises(RuntimeError, match="with block"):
        assert TushareStub({}).url
