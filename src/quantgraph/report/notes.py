"""Notes to the numbers of a summary, in both languages."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from quantgraph._util.texts import Note
from quantgraph.report.order_statistics import format_counts


def summary_notes(summary: Mapping[str, Any]) -> Iterator[Note]:
    """Notes for results whose numbers are easily misread."""
    account, benchmark = summary["account"], summary["benchmark"]
    refused, reasons = account["rejections"], format_counts(account["rejections_by_reason"])
    if refused and not account["trades"]:
        yield Note(
            zh=f"{refused} 笔委托全部被拒，没有成交（{reasons}）",
            en=f"nothing was traded: all {refused:,} orders were refused ({reasons})",
        )
    if missed := account["buys_not_followed"]:
        yield Note(
            zh=f"{missed} 个买入信号未执行：可用资金不够买一手，或持仓数已满",
            en=f"{missed:,} buy signals were not followed: the cash did not cover a lot, or no more "
            "positions were allowed",
        )
    bought, symbols = benchmark["bought"], benchmark["symbols"]
    if not bought:
        yield Note(
            zh=f"等权买入持有在 {symbols} 只股票中一只也没有买到（均分的资金不够买一手）：它只是现金，"
            "不能用来比较",
            en=f"equal-weight buy-and-hold could buy none of {symbols} symbols (no share of the cash covered "
            "a lot): it is cash, and nothing to compare with",
        )
    elif bought < symbols:
        yield Note(
            zh=f"等权买入持有只买到 {symbols} 只股票中的 {bought} 只：其余在首个开盘时没有交易，"
            "或均分的资金不够买一手",
            en=f"equal-weight buy-and-hold bought {bought} of {symbols} symbols: the others did not trade at "
            "its first open, or their share of the cash did not cover a lot",
        )
