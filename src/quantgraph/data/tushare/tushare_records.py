"""Records from tushare's tables: announcements as news, quarterly income statements as filings, dividends."""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import date, datetime
from typing import Any

import pandas as pd

from quantgraph.data.event_tables import action_records, events_from_table
from quantgraph.data.market_data import EVENT_FIELDS, long_to_panel, session_index
from quantgraph.state.records import Record, RecordKind

RECORD_ENDPOINTS: dict[RecordKind, str] = {"filing": "income", "news": "anns_d", "action": "dividend"}
"""Endpoint of each kind of records. ``news`` and ``major_news`` name no symbols, so they cannot serve."""

_TIME = re.compile(r"\d{4}-\d{2}-\d{2} \d{2}:\d{2}:\d{2}")
_NUMBERS = {
    "revenues": "total_revenue",
    "net_income_loss": "n_income_attr_p",
    "basic_earnings_per_share": "basic_eps",
    "diluted_earnings_per_share": "diluted_eps",
}


def records_of_rows(kind: RecordKind, rows: pd.DataFrame) -> list[Record]:
    """Records of the rows of :data:`RECORD_ENDPOINTS`.

    An announcement is known at ``rec_time``, else at the end of ``ann_date``; a statement at the end of the
    later one of ``ann_date`` and ``f_ann_date``. Statements of no period are left out, and those that would
    have been announced before its end. An action is known as by :func:`.action_records`.
    """
    if kind == "action":
        return [record for frame in events_from_table(rows, "tushare dividend") for record in _actions(frame)]
    made = (_MAKERS[kind](row) for row in rows.to_dict("records"))
    return [record for record in made if record is not None]


def _announcement(row: dict[Any, Any]) -> Record:
    body = {"title": _text(row["title"]), "description": "", "publisher": "", "id": _text(row["url"])}
    return Record("news", _received(_text(row["rec_time"])) or row["ann_date"].date(), row["ts_code"], body)


def _received(text: str) -> date | None:
    if not _TIME.fullmatch(text):
        return None
    try:
        at = datetime.fromisoformat(text)
    except ValueError:
        return None
    return at.date() if at.time() == datetime.min.time() else at  # midnight stands for a day alone


def _statement(row: dict[Any, Any]) -> Record | None:
    end = row["end_date"]
    announced = max(day for day in (row["ann_date"], row["f_ann_date"]) if not pd.isna(day))
    if pd.isna(end) or announced <= end:
        return None
    numbers = {name: row[column] for name, column in _NUMBERS.items()}
    body = {
        "fiscal_year": end.year,
        "fiscal_period": f"Q{end.quarter}",
        "start_date": f"{end.to_period('Q').start_time:%Y-%m-%d}",
        "end_date": f"{end:%Y-%m-%d}",
        **{name: None if pd.isna(number) else float(number) for name, number in numbers.items()},
        "basic_average_shares": None,
        "diluted_average_shares": None,
    }
    return Record("filing", announced.date(), row["ts_code"], body)


def _actions(rows: pd.DataFrame) -> tuple[Record, ...]:
    panel = long_to_panel(rows, EVENT_FIELDS, session_index(rows["trade_date"]), sorted({*rows["ts_code"]}))
    return action_records(panel)


def _text(value: object) -> str:
    return value if isinstance(value, str) else ""


_MAKERS: dict[RecordKind, Callable[[dict[Any, Any]], Record | None]] = {
    "filing": _statement,
    "news": _announcement,
}
