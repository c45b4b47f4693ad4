"""What a model is told when its decisions cannot be used, and what would be valid.

Each text stands in the conversation after the reply that it is about.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from quantgraph._util.texts import Language, escape_controls, say
from quantgraph.agents.dual_agent.decision_cash import CashFault
from quantgraph.agents.dual_agent.decision_validation import DecisionFault
from quantgraph.llm.tags import escape_tags

_TEXT_LENGTH = 300


def fault_retry_text(
    faults: Mapping[str, DecisionFault],
    short: CashFault | None,
    symbols: Iterable[str],
    positions: Mapping[str, float],
    language: Language = "en",
) -> str:
    """Text on symbols without a valid decision, and on increases that cost more than there is.

    Parameters
    ----------
    faults
        What is wrong by symbol.
    short
        Why the decisions that are valid do not fit the cash; None if they do.
    symbols
        Those to decide again.
    positions
        Current value by symbol.
    """
    lines = []
    if faults:
        lines.append(
            say(language, zh="以下代码的决策不能用：", en="The decisions of these symbols cannot be used:")
        )
    for symbol, fault in faults.items():
        wrong, valid = fault.note.text(language), _valid(positions[symbol], language)
        lines.append(f"- {symbol}: {say(language, zh=f'{wrong}。{valid}', en=f'{wrong}. {valid}')}")
    if short:
        if faults:
            lines.append(
                say(
                    language,
                    zh="其余决策单独看都有效，合在一起却不行：",
                    en="The other decisions are valid one by one, but not together:",
                )
            )
        lines += [_cash_line(short, language), _smaller(language)]
    return _text([*lines, _answer_for(symbols, language)])


def rejection_retry_text(rejected: Sequence[Mapping[str, Any]], language: Language = "en") -> str:
    """Text on orders that the market refused, with the amounts and the suggestion of each ``context``.

    Parameters
    ----------
    rejected
        Orders with ``symbol`` and ``reason``; every other field may be missing.
    """
    lines = [say(language, zh="以下委托被拒绝：", en="These orders were rejected:")]
    shown: set[str] = set()
    for order in rejected:
        context = order.get("context") or {}
        amounts = [
            f"{name} {_plain(context[key])}"
            for key, name in _AMOUNTS[language].items()
            if context.get(key) is not None
        ]
        reason = order.get("reason") or order.get("rejection_reason") or ""
        shares = _plain(order["qty"]).removesuffix(".00") if order.get("qty") else ""
        shares = say(language, zh=f"{shares} 股，", en=f"{shares} shares, ") if shares else ""
        lines.append(f"- {order['symbol']}: {shares}{'; '.join([_plain(reason), *amounts])}")
        suggestion = _plain(context.get("suggestion") or "")
        if suggestion and suggestion not in shown:
            shown.add(suggestion)
            lines.append(f"  {suggestion}")
    symbols = dict.fromkeys(str(order["symbol"]) for order in rejected)
    other = say(
        language,
        zh="请选择不会因此被拒绝的目标，或 hold。",
        en="Choose targets that are not rejected for the same reason, or hold.",
    )
    return _text([*lines, other, _answer_for(symbols, language)])


def unreadable_retry_text(message: str, language: Language = "en") -> str:
    """Text on a reply that holds no JSON object, or is cut off; ``message`` says what is wrong."""
    line = say(
        language,
        zh=f"上一个回复无法读取：{_plain(message)}",
        en=f"Your last reply cannot be read: {_plain(message)}",
    )
    whole = say(
        language,
        zh="请只用要求的 JSON 对象再答一次，理由从简，以免被截断。",
        en="Answer once more with the JSON object alone; keep the reasons short, so that it is not cut off.",
    )
    return _text([line, whole])


_AMOUNTS: dict[Language, dict[str, str]] = {
    "en": {
        "required_cash_this_order": "this order needs",
        "total_cash_required_all_orders": "all orders need",
        "available_cash": "cash is",
        "cash_shortfall": "missing",
    },
    "zh": {
        "required_cash_this_order": "本委托需要",
        "total_cash_required_all_orders": "全部委托需要",
        "available_cash": "可用现金",
        "cash_shortfall": "缺口",
    },
}


def _valid(current: float, language: Language) -> str:
    if not current:
        return say(
            language,
            zh="当前没有持仓：可以 increase（目标大于 0），或 hold（目标 0.00）",
            en="There is no position: increase to more than 0, or hold at 0.00",
        )
    return say(
        language,
        zh=f"当前市值 {current:.2f}：可以 increase（目标大于它）、decrease（目标小于它且不小于 0）、"
        f"close（目标 0）或 hold（目标 {current:.2f}）",
        en=f"Its value is {current:.2f}: increase to more, decrease to less but at least 0, close to 0, "
        f"or hold at {current:.2f}",
    )


def _cash_line(fault: CashFault, language: Language) -> str:
    left, least = 100 * fault.remaining_ratio, 100 * fault.min_cash_ratio
    if fault.kind == "ratio":
        return say(
            language,
            zh=f"留存现金过少：这些决策之后剩 {fault.remaining_cash:.2f}，占总资产 {left:.2f}%，"
            f"而最低为 {least:.2f}%；少用 {fault.shortfall:.2f}。",
            en=f"Too little cash is left: {fault.remaining_cash:.2f} after these decisions, {left:.2f} % of "
            f"the total assets; at least {least:.2f} % must stay. Spend {fault.shortfall:.2f} less.",
        )
    kept = say(
        language,
        zh=f"，其中须留 {fault.reserve:.2f}（总资产的 {least:.2f}%）",
        en=f", of which {fault.reserve:.2f} must stay ({least:.2f} % of the total assets)",
    )
    kept = kept if fault.reserve else ""
    return say(
        language,
        zh=f"资金不足：增持需要 {fault.required_cash:.2f}，可用现金 {fault.available_cash:.2f}{kept}，"
        f"减持与清仓带来 {fault.proceeds:.2f}，还差 {fault.shortfall:.2f}。",
        en=f"There is not enough cash: the increases cost {fault.required_cash:.2f}; cash is "
        f"{fault.available_cash:.2f}{kept}, decreases and closes bring {fault.proceeds:.2f}; "
        f"{fault.shortfall:.2f} is missing.",
    )


def _smaller(language: Language) -> str:
    return say(
        language,
        zh="请降低增持的目标、减少增持的代码，或改为 hold。",
        en="Lower the targets, increase fewer symbols, or hold.",
    )


def _answer_for(symbols: Iterable[str], language: Language) -> str:
    names = ", ".join(symbols)
    return say(
        language,
        zh=f"请用同样的 JSON 只回答这些代码，其他决策不变：{names}",
        en=f"Answer with the same JSON for these symbols alone; all other decisions stand: {names}",
    )


def _plain(value: Any) -> str:
    if isinstance(value, int | float) and not isinstance(value, bool):
        return f"{value:.2f}" if isinstance(value, float) else str(value)
    return escape_controls(" ".join(str(value).split()))[:_TEXT_LENGTH]


def _text(lines: Iterable[str]) -> str:
    return escape_tags("\n".join(lines))
