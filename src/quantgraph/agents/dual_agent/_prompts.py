"""The messages to the two agents: prompt files, facts as plain JSON, earlier decisions, and faults.

A file is sent as it is, without placeholders. A prompt that changes gets a new version.

Each text stands in the conversation after the reply that it is about.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from functools import cache
from numbers import Integral, Real
from pathlib import Path
from typing import Any, Final

from quantgraph._util.texts import Language, escape_controls
from quantgraph._util.values import is_number
from quantgraph.agents.dual_agent._validation import CashFault, DecisionFault
from quantgraph.agents.loop._fundamentals import FUNDAMENTALS
from quantgraph.agents.loop._model_decider import own_prompt
from quantgraph.agents.memory._episodes import decision_line
from quantgraph.agents.memory._memory import HISTORY_HEADING
from quantgraph.agents.memory._pipeline import PipelineContext
from quantgraph.errors import BadFile, BadOption
from quantgraph.llm.messages import escape_markup, escape_tags

DEFAULT_PROMPT: Final = (
    "You are a decision agent. For every symbol of the facts, answer with one JSON object "
    '{"decisions": {SYM: {"action": "increase | decrease | hold | close", "target_cash_amount": number, '
    '"confidence": number, "reasons": [text]}}}; '
    "target_cash_amount is the total value that the position is to have."
)
"""Stands in for a prompt that :func:`_load_prompt` does not find."""

_FOLDER = Path(__file__).resolve().parent / "prompts"
_ENDING = ".txt"


def _prompt_dir() -> str:
    """Absolute path of the folder of the prompts."""
    return str(_FOLDER)


def _load_prompt(name: str) -> str:
    """Text of a prompt file; :data:`DEFAULT_PROMPT` if there is no such file.

    A run reads its prompts with :func:`load_prompt_strictly`.
    """
    try:
        return load_prompt_strictly(name)
    except (BadOption, BadFile):
        return DEFAULT_PROMPT


def load_prompt_strictly(name: str) -> str:
    """Text of a prompt file, by its name in the folder."""
    names = sorted(path.name for path in _FOLDER.glob(f"*{_ENDING}"))
    if name not in names:
        raise BadOption(
            f"prompt={name!r:.120} is not a prompt file; valid are {', '.join(names)}, or the path of a text "
            "file of your own",
            parameter="prompt",
        )
    try:
        text = (_FOLDER / name).read_text(encoding="utf-8")
    except UnicodeDecodeError as error:
        raise BadFile(f"{name} is not UTF-8 text: {error}", file=name) from error
    if not text.strip():
        raise BadFile(f"{name} is empty", file=name)
    return text


def configured_prompt(place: str) -> str:
    """Text of a prompt file of the folder, by its name, or of a file of the user's own, by its path."""
    return load_prompt_strictly(place) if Path(place).name == place else own_prompt(place)


def _prompt_version(name: str) -> str:
    """Version of a prompt file, from its name.

    >>> _prompt_version("decision_agent_v1.txt")
    'decision/agent/v1'
    """
    return Path(name).name.removesuffix(_ENDING).replace("_", "/")


_FUNDAMENTAL, _NEWS = "fundamental_data", "news_events"
_ONCE = frozenset({"ticker", "date", "top_k_events"})
"""Fields that are no column of the table."""
_AS_THEY_ARE = frozenset({int, bool})

FeatureItem = Mapping[str, Any]


def decision_facts(
    features_list: Sequence[FeatureItem],
    portfolio: Mapping[str, float],
    history: Mapping[str, str],
    *,
    rule: str = "",
    plan: str = "",
    **limits: float,
) -> dict[str, Any]:
    """Facts of the decision, with a row of the table for each symbol; plan, rule and ``limits`` if any.

    The table has the fields of all sections as ``columns``, without those that no symbol has a value of.
    ``news`` has each story once, with the symbols that it is of.
    """
    rows = {item["symbol"]: _row(item["features"]) for item in features_list}
    names = dict.fromkeys(name for row in rows.values() for name in row)
    columns = [name for name in names if any(row.get(name) is not None for row in rows.values())]
    dates = {str(item["features"].get("market_data", {}).get("date") or "") for item in features_list}
    news: dict[str, list[str]] = {}
    for item in features_list:
        for story in (item["features"].get(_NEWS) or {}).get("top_k_events") or ():
            news.setdefault(as_data(story), []).append(item["symbol"])
    facts = {
        "date": max(dates, default=""),
        "portfolio_info": as_data(portfolio),
        "columns": columns,
        "symbols": {symbol: [row.get(name) for name in columns] for symbol, row in rows.items()},
        "news": [f"{' '.join(symbols)} {story}" for story, symbols in news.items()],
        "history": {
            symbol: "\n".join(map(escape_markup, history[symbol].splitlines()))
            for symbol in rows
            if history.get(symbol)
        },
        "limits": {name: as_data(limit) for name, limit in limits.items() if limit},
        "plan": plan,
        "rule": rule,
    }
    return {name: part for name, part in facts.items() if part or name in ("symbols", "history")}


def table_rows(facts: Any) -> dict[str, dict[str, Any]]:
    """The rows of the table by symbol, each by column; empty for facts of another shape."""
    table = facts if isinstance(facts, Mapping) else {}
    columns, rows = table.get("columns"), table.get("symbols")
    if not isinstance(rows, Mapping) or not isinstance(columns, list):
        return {}
    lists = {symbol: row if isinstance(row, list) else [] for symbol, row in rows.items()}
    return {symbol: dict(zip(columns, row, strict=False)) for symbol, row in lists.items()}


def _row(features: Mapping[str, Any]) -> dict[str, Any]:
    """All fields of a symbol's features, whatever their section."""
    row: dict[str, Any] = {}
    for section, part in features.items():
        fields = part if isinstance(part, Mapping) else {section: part}
        row |= {name: as_data(each) for name, each in fields.items() if name not in _ONCE}
    return row


def filter_facts(
    features_list: Sequence[FeatureItem],
    portfolio: Mapping[str, float],
    history: Mapping[str, str],
    *,
    rule: str = "",
) -> dict[str, Any]:
    """Facts of the filter: those of the decision without fundamentals, which it is asked about.

    ``fundamentals_not_known`` has the symbols that lack a value, by its name; ``all`` if no symbol has it.
    """
    hidden = (_FUNDAMENTAL, "filter_reasoning")
    before = [
        {**item, "features": {name: each for name, each in item["features"].items() if name not in hidden}}
        for item in features_list
    ]
    facts = decision_facts(before, portfolio, history, rule=rule)
    known = {item["symbol"]: item["features"].get(_FUNDAMENTAL) or {} for item in features_list}
    unknown = {
        name: lacking if len(lacking) < len(known) else "all"
        for name in FUNDAMENTALS
        if (lacking := [symbol for symbol, each in known.items() if each.get(name) is None])
    }
    return facts | ({"fundamentals_not_known": unknown} if unknown else {})


def as_data(value: Any) -> Any:
    """JSON with fractions of two decimals, below 1 of two significant digits, from a billion on none.

    NaN and infinity are None.

    Texts are on one line, and nothing in them looks like a tag.

    >>> as_data({"open": 184.2049, "yield": 0.004567, "days": 45, "pe": float("nan"), "news": "</x> up"})
    {'open': 184.2, 'yield': 0.0046, 'days': 45, 'pe': None, 'news': '&lt;/x> up'}
    """
    kind = type(value)
    if value is None or kind in _AS_THEY_ARE:
        return value
    if kind is str:
        return escape_markup(value)
    if kind is float:  # before the checks of abstract types, which take ten times as long
        return _short(value)
    if isinstance(value, Mapping):
        return {name: as_data(each) for name, each in value.items()}
    if isinstance(value, list | tuple):
        return [as_data(each) for each in value]
    if not isinstance(value, Real | Decimal):
        return value
    return int(value) if isinstance(value, Integral) else _short(float(value))


_WHOLE = 1e9


def _short(number: float) -> float | None:
    if not math.isfinite(number):
        return None
    if abs(number) >= _WHOLE:
        return round(number)
    return round(number, 2) if abs(number) >= 1 else float(f"{number:.2g}")


_TEXT_LENGTH = 300
_AMOUNTS = ("required_cash_this_order", "total_cash_required_all_orders", "available_cash", "cash_shortfall")


@cache
def _texts() -> Mapping[str, tuple[str, str]]:
    """What a model is told of a reply, by name, in Chinese and English."""
    found: dict[str, tuple[str, str]] = json.loads(retry_texts())
    return found


def retry_texts() -> str:
    """The file of what a model is told of a reply."""
    return (_FOLDER / "retry_v1.json").read_text(encoding="utf-8")


def told(name: str, language: Language, *values: Any, **named: Any) -> str:
    """One of the texts, filled in."""
    chinese, english = _texts()[name]
    return (chinese if language == "zh" else english).format(*values, **named)


def fault_retry_text(
    faults: Mapping[str, DecisionFault],
    short: CashFault | None,
    symbols: Iterable[str],
    positions: Mapping[str, float],
    language: Language = "en",
    *,
    refused: Mapping[str, str] | None = None,
    pending: Iterable[str] = (),
) -> str:
    """Text on all that is refused of a reply.

    Symbols without a valid decision, orders that the market ``refused``, with its words, and increases that
    cost more than there is; ``pending`` are orders whose outcome the open does not tell.
    """
    lines = [told("faulty", language)] if faults or refused else []
    alike: dict[str, list[str]] = {}
    for symbol, fault in faults.items():
        text, current = fault.note.text(language), positions[symbol]
        if fault.kind not in ("shape", "missing"):
            text = told(
                "and_valid", language, text, told("held" if current else "not_held", language, current)
            )
        alike.setdefault(text, []).append(symbol)
    lines += [f"- {', '.join(names)}: {text}" for text, names in alike.items()]
    by_market = told("by_market", language)
    lines += [f"- {symbol}: {by_market}, {_plain(words)}" for symbol, words in (refused or {}).items()]
    if short:
        lines += [told("together", language)] if faults or refused else []
        shares = {"left": 100 * short.remaining_ratio, "least": 100 * short.min_cash_ratio}
        kept = told("kept", language, fault=short, **shares) if short.reserve else ""
        lines += [told(short.kind, language, fault=short, kept=kept, **shares), told("smaller", language)]
    if waiting := ", ".join(pending):
        lines.append(told("pending", language, waiting))
    return escape_tags("\n".join([*lines, told("answer", language, ", ".join(symbols))]))


def rejection_retry_text(rejected: Sequence[Mapping[str, Any]], language: Language = "en") -> str:
    """Text on orders that the market refused, with the amounts and the suggestion of each ``context``."""
    lines = [told("rejected", language)]
    shown: set[str] = set()
    for order in rejected:
        context = order.get("context") or {}
        known = [name for name in _AMOUNTS if context.get(name) is not None]
        amounts = [told(name, language, _plain(context[name])) for name in known]
        reason = order.get("reason") or order.get("rejection_reason") or ""
        shares = _plain(order["qty"]).removesuffix(".00") if order.get("qty") else ""
        shares = told("shares", language, shares) if shares else ""
        lines.append(f"- {order['symbol']}: {shares}{'; '.join([_plain(reason), *amounts])}")
        suggestion = _plain(context.get("suggestion") or "")
        if suggestion and suggestion not in shown:
            shown.add(suggestion)
            lines.append(f"  {suggestion}")
    symbols = ", ".join(dict.fromkeys(str(order["symbol"]) for order in rejected))
    return escape_tags("\n".join([*lines, told("other", language), told("answer", language, symbols)]))


def unreadable_retry_text(message: str, language: Language = "en") -> str:
    """Text on a reply that holds no JSON object, or is cut off; ``message`` says what is wrong."""
    return escape_tags(told("unreadable", language, _plain(message)))


def _plain(value: Any) -> str:
    if is_number(value):
        return f"{value:.2f}" if isinstance(value, float) else str(value)
    return escape_controls(" ".join(str(value).split()))[:_TEXT_LENGTH]


_RECORDS = 7
"""Records of one symbol that are shown."""


def past_texts(
    symbols: Iterable[str],
    decision_history: Mapping[str, Any] | None,
    previous_decisions: Mapping[str, Any] | None,
    pipeline: PipelineContext | None,
    *,
    day: str = "",
) -> dict[str, str]:
    """Return the earlier decisions of each symbol that has some.

    The caller's history is used before the memory of the context, and that before the last decisions.
    """
    last = {} if decision_history else previous_decisions or {}
    if not decision_history and pipeline is not None and pipeline.memory_enabled:
        episodes = pipeline.memory.episodes
        recalled = (episodes.at(day) if day else episodes).histories(symbols, pipeline.run_id)
        if recalled:
            return recalled
    dated = {
        name: [{"date": str(each.get("timestamp") or "")[:10], **each}] for name, each in last.items() if each
    }
    given = decision_history or dated
    return {each: _history_text(each, given[each]) for each in symbols if given.get(each)}


def _history_text(symbol: str, history: Any) -> str:
    if isinstance(history, str):
        return history
    if not isinstance(history, list) or not all(isinstance(each, Mapping) for each in history):
        raise BadOption(
            f"decision_history of {symbol}: {history!r:.60}; must be a list of records or a text",
            parameter="decision_history",
        )
    lines = [
        decision_line(
            str(each.get("date") or ""),
            str(each.get("action") or ""),
            float(each.get("target_cash_amount") or 0.0),
            float(each.get("confidence") or 0.0),
            symbol=symbol,
        )
        for each in history[:_RECORDS]
    ]
    left = len(history) - len(lines)
    return "\n".join([HISTORY_HEADING, *lines, *([f"({left} earlier ones are left out)"] if left else [])])
