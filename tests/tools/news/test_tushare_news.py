"""tushare's short news through the real client against a stub of its server."""

from __future__ import annotations

import pandas as pd
import pytest
from tushare_stub import TushareStub, no_permission

from quantgraph.data.tushare import TushareClient
from quantgraph.errors import PermissionDenied
from quantgraph.market import Moment
from quantgraph.tools.news._gate import published_items
from quantgraph.tools.news._sources import TushareNews

NOW = Moment.at("2025-10-15", "open")
ROWS = pd.DataFrame(
    {
        "datetime": ["2025-10-15 08:59:00", "2025-10-15 09:00:00", "2025-10-14 20:00:00", None],
        "title": ["茅台提价", "茅台后来", "央行降准", "茅台何时"],
        "content": ["贵州茅台出厂价上调", "贵州茅台", None, "贵州茅台"],
    }
)


def client(stub):
    return TushareClient(token="t", base_url=stub.url)


def test_the_last_days_are_ranked_and_pass_the_gate():
    with TushareStub({"news": ROWS}) as stub:
        news = TushareNews(client(stub))
        found = news.search("茅台", NOW)
        (asked,) = stub.requests
    assert {name: asked.params[name] for name in ("src", "start_date", "end_date")} == {
        "src": "sina",
        "start_date": "2025-10-12 09:00:00",
        "end_date": "2025-10-15 09:00:00",
    }
    dropped = []
    shown = published_items(found, NOW, source_zone=news.zone, exchange_zone=news.zone, dropped=dropped)
    assert [(item.title, item.content, when) for item, when in shown] == [
        ("茅台提价", "贵州茅台出厂价上调", "2025-10-15 08:59")
    ]
    assert sorted(dropped) == ["no_time", "not_before_the_moment"]


def test_it_asks_a_live_server_and_says_so():
    assert TushareNews(TushareClient(token="t")).live


def test_what_the_vendor_refuses_is_told():
    with (
        TushareStub({"news": ROWS}, faults={"news": [no_permission()]}) as stub,
        pytest.raises(PermissionDenied),
    ):
        TushareNews(client(stub)).search("x", NOW)
