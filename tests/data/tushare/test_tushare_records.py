"""Announcements and quarterly statements of tushare, through the real package on a loopback server."""

from __future__ import annotations

from datetime import date, datetime

import pandas as pd
import pytest
from tushare_stub import connection_dropped, no_permission

from quantgraph.data._source import DatedRecords
from quantgraph.errors import BadOption, BadWindow, SourceUnavailable
from quantgraph.market import Moment
from quantgraph.state import DataState

CODE, OTHER = "600519.SH", "600000.SH"


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text).as_unit("us")


WINDOW = day("2024-01-02"), day("2024-01-10")
ANNOUNCED = [  # ann_date, title, rec_time as the vendor's page shows it
    ("20240104", "evening before", "2024-01-03 18:30:00"),
    ("20240105", "day alone", None),
    ("20240105", "midnight is a day alone", "2024-01-05 00:00:00"),
    ("20240108", "unreadable", "soon"),
    ("20240111", "evening of the last day", "2024-01-10 20:00:00"),
    ("20240112", "after the window", "2024-01-11 18:00:00"),
    ("20231229", "before the window", "2023-12-28 18:00:00"),
]
STATEMENTS = [  # code, report_type, ann_date, f_ann_date, end_date, basic_eps, diluted_eps, revenue, profit
    (CODE, "2", "20231020", "20231020", "20230930", 13.42, 13.42, 3.4e10, 1.68e10),
    (CODE, "1", "20231020", "20231020", "20230930", 42.09, 42.09, 1.05e11, 5.28e10),
    (CODE, "2", "20231020", "20240103", "20230930", 13.40, None, 3.3e10, None),
    (CODE, "2", "20230101", "20230101", "20230331", 1.0, 1.0, 1.0, 1.0),
    (OTHER, "2", "20231030", "20231030", "20230930", 0.3, 0.3, 4.0e10, 9.0e9),
]


@pytest.fixture
def tables(tables):
    news = [
        {"ts_code": CODE, "ann_date": announced, "title": title, "url": f"http://x/{place}", "rec_time": time}
        for place, (announced, title, time) in enumerate(ANNOUNCED)
    ]
    columns = ["ts_code", "report_type", "ann_date", "f_ann_date", "end_date"]
    numbers = ["basic_eps", "diluted_eps", "total_revenue", "n_income_attr_p"]
    return {
        **tables,
        "anns_d": pd.DataFrame(news),
        "income": pd.DataFrame(STATEMENTS, columns=[*columns, *numbers]),
    }


def titles(records) -> dict[str, date]:
    return {record.body["title"]: record.known for record in records}


def test_announcements_are_known_when_they_were_received_else_at_the_end_of_their_day(source):
    assert isinstance(source, DatedRecords)
    assert source.record_kinds == ("filing", "news", "action")
    found = source.records(["news"], [CODE, OTHER], *WINDOW)
    assert titles(found) == {
        "evening before": datetime(2024, 1, 3, 18, 30),
        "day alone": date(2024, 1, 5),
        "midnight is a day alone": date(2024, 1, 5),
        "unreadable": date(2024, 1, 8),
        "evening of the last day": datetime(2024, 1, 10, 20),
    }
    assert all(type(known) is type(titles(found)[title]) for title, known in titles(found).items())
    body = next(record.body for record in found if record.body["title"] == "day alone")
    assert body == {"title": "day alone", "description": "", "publisher": "", "id": "http://x/1"}
    store = DataState()
    store.record(found)
    seen = [
        len(store.view(Moment.at(session, "open")).records("news", CODE))
        for session in ("20240103", "20240104", "20240105", "20240108", "20240109")
    ]
    assert seen == [0, 1, 1, 3, 4]


def test_statements_of_single_quarters_are_known_when_they_were_last_announced(stub, source):
    found = source.records(["filing"], [CODE, OTHER], day("1970-01-01"), WINDOW[1])
    assert [(record.symbol, record.known) for record in found] == [
        (OTHER, date(2023, 10, 30)),
        (CODE, date(2023, 10, 20)),
        (CODE, date(2024, 1, 3)),
    ]
    assert found[1].body == {
        "fiscal_year": 2023,
        "fiscal_period": "Q3",
        "start_date": "2023-07-01",
        "end_date": "2023-09-30",
        "revenues": 3.4e10,
        "net_income_loss": 1.68e10,
        "basic_earnings_per_share": 13.42,
        "diluted_earnings_per_share": 13.42,
        "basic_average_shares": None,
        "diluted_average_shares": None,
    }
    corrected = found[2].body
    assert (corrected["basic_earnings_per_share"], corrected["diluted_earnings_per_share"]) == (13.4, None)
    assert corrected["net_income_loss"] is None
    (request, _) = [each for each in stub.requests if each.endpoint == "income"]
    assert request.params["report_type"] == "2"
    assert "start_date" not in request.params


def test_a_second_question_is_served_from_the_cache(stub, source):
    source.records(["news", "filing"], [CODE], *WINDOW)
    asked = len(stub.requests)
    again = source.records(["news", "filing"], [CODE], *WINDOW)
    assert len(stub.requests) == asked
    assert len(again) == 5 + 1


def test_indices_foreign_symbols_and_other_kinds_ask_nothing(stub, source):
    assert source.records(["news", "filing"], ["000300.SH", "AAPL"], *WINDOW) == ()
    assert source.records(["memory"], [CODE], *WINDOW) == ()
    assert stub.requests == []
    with pytest.raises(BadOption, match="kind='gossip'"):
        source.records(["gossip"], [CODE], *WINDOW)
    with pytest.raises(BadWindow):
        source.records(["news"], [CODE], *reversed(WINDOW))


def test_without_permission_a_kind_is_left_out_with_a_note(stub, source):
    stub.add_faults("anns_d", no_permission())
    found = source.records(["news", "filing"], [CODE, OTHER], day("1970-01-01"), WINDOW[1])
    assert {record.kind for record in found} == {"filing"}
    assert [note for note in source.notes if note.startswith("there are no records of kind news: ")]
    assert len([each for each in stub.requests if each.endpoint == "anns_d"]) == 1


def test_a_server_without_the_table_has_none_and_one_that_does_not_answer_is_an_error(stub, source):
    stub._tables.pop("anns_d")
    assert source.records(["news"], [CODE], *WINDOW) == ()
    stub.add_faults("income", connection_dropped())
    with pytest.raises(SourceUnavailable):
        source.records(["filing"], [CODE], *WINDOW)


def test_the_vendors_own_tables_are_there_too(source):
    rows = source.query("anns_d", CODE, start_date="20240104", end_date="20240105")
    assert rows["title"].tolist() == ["evening before", "day alone", "midnight is a day alone"]
    assert source.query("income", CODE)["end_date"].max() == day("2023-09-30")
    assert source.query("anns_d", OTHER).empty


def test_dividends_and_splits_are_known_from_their_declaration_on(source):
    found = source.records(["action"], [CODE, OTHER], *WINDOW)
    # 1.50 a share and three new ones for ten, announced on the 2nd; of the other share there is none.
    assert {(each.symbol, each.known, each.body["ex"]) for each in found} == {
        (CODE, date(2024, 1, 2), "2024-01-04")
    }
    numbers = sorted((float(each.body["cash"]), float(each.body["ratio"])) for each in found)
    assert numbers == [(0.0, 1.3), (1.5, 1.0)]
    assert source.records(["action"], [CODE], day("2024-01-03"), day("2024-01-10")) == ()
