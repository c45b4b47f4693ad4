"""What a finding says to a Chinese reader: its kind and its place; numbers stand in the English message."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

__all__ = ["in_chinese"]

_TITLES = {
    "missing_field": "缺少字段",
    "missing_symbol": "区间内没有行情",
    "calendar_gap": "缺少交易日",
    "no_session": "有休市日的行情",
    "thin_session": "多数股票没有行情的交易日",
    "symbol_gap": "行情中断",
    "many_gaps": "一半以上没有行情或观点",
    "extreme_return": "涨跌幅异常",
    "misaligned": "行列与收盘价不一致",
    "duplicate_session": "与另一交易日的行情相同",
    "shifted": "字段错位一行",
    "price_unit": "价格单位有误",
    "bad_price": "价格不大于零",
    "bad_bar": "开高低收不一致",
    "volume_unit": "成交量单位有误",
    "indicator_unit": "指标单位有误",
    "adjusted_prices": "价格似为复权价",
    "vwap_outside": "均价超出最高最低价",
    "no_actions": "缺少分红送转",
    "pre_close_break": "昨收与前收不衔接",
    "bad_factor": "复权因子有误",
    "bad_limit": "涨跌停价有误",
    "outside_limits": "价格超出涨跌停",
    "stale_price": "价格长期不变",
    "repeated_bar": "与前一根行情相同",
    "no_trades": "区间内没有买入信号",
}


def in_chinese(issue: Mapping[str, Any]) -> str:
    """A finding of a report in Chinese; the message as it stands where its code has no title.

    >>> in_chinese({"code": "symbol_gap", "message": "...", "symbol": "600000.SH", "count": 3})
    '行情中断（600000.SH，共 3 处）'
    """
    title = _TITLES.get(issue["code"])
    if title is None:
        return str(issue["message"])
    place = " ".join(issue[key] for key in ("symbol", "session") if key in issue)
    parts = [place, f"共 {issue['count']} 处"] if "count" in issue else [place]
    told = "，".join(filter(None, parts))
    return f"{title}（{told}）" if told else title
