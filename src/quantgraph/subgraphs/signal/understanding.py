"""What was said, as checked by code: what is watched and traded, when, by which rule, and what is not done.

It is made once by reflection from the whole conversation. Later steps read it and nothing else.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Literal

from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json, content_hash
from quantgraph._util.texts import Language, say
from quantgraph.data.symbol_resolution import index_code
from quantgraph.tools.window import split_codes

ClauseStatus = Literal["done", "default", "not_done"]


class Clause(TypedDict):
    """A piece of what was said: its words, what it became, and whether that is done.

    The words of a ``default`` are empty: nobody said it.
    """

    words: str
    became: str
    status: ClauseStatus


class SaidRule(TypedDict):
    """Entry and exit in the user's words."""

    entry: str
    exit: str
    exit_is_default: bool


class Understanding(TypedDict):
    """What was said, as plain JSON."""

    watch: list[str]
    """Codes whose data the rule reads, if they are not the traded ones; an index is a series of its own."""
    trade: list[str]
    """Codes that orders may name; an index stands for its members."""
    index: list[str]
    """The indices among ``watch``."""
    windows: list[list[str]]
    """Start and end of each span, ``YYYYMMDD``."""
    rule: SaidRule
    plan: dict[str, Any]
    """What was said of positions: stops, sizes, holding time."""
    clauses: list[Clause]


class Symbols(TypedDict):
    """The codes of a request: those of ``watch`` are not among the traded ones."""

    watch: list[str]
    trade: list[str]
    index: list[str]


def symbols_of(params: Mapping[str, Any], *, fixed: str = "") -> Symbols:
    """Return what a reading watches and trades.

    Parameters
    ----------
    params
        Parameters of an intent. Without ``trade`` all codes that are not watched are traded.
    fixed
        Codes that the caller fixed; they are what is traded.
    """
    named, watched = split_codes(params["ts_code"]), split_codes(params.get("watch", ""))
    traded = split_codes(fixed or params.get("trade", ""))
    traded = traded or [code for code in named if code not in watched] or named
    series = [code for code in map(index_code, watched) if code is not None]
    stocks = [code for code in watched if index_code(code) is None and code not in traded]
    if watched == traded:  # the members of an index, each by its own data
        series = []
    return {"watch": [*series, *stocks], "trade": traded, "index": series}


def not_done_words(params: Mapping[str, Any], waived: Collection[str] = ()) -> list[str]:
    """Return the words of the clauses that are not executed; ``waived`` are those that the user gave up.

    A plan has no decider that executes it, so all of it counts.
    """
    clauses: Iterable[Mapping[str, Any]] = params.get("clauses", ())
    words = [clause["words"] for clause in clauses if clause["status"] == "not_done"]
    spoken = " ".join(clause["words"] for clause in clauses)
    words += [f"{name} {value}" for name, value in params.get("plan", {}).items() if not spoken]
    return [each for each in dict.fromkeys(words) if each not in waived]


def understand(
    params: Mapping[str, Any],
    request: Mapping[str, Any],
    symbols: Symbols,
    assumptions: Sequence[str],
    *,
    left_out: Sequence[str] = (),
) -> Understanding:
    """Return the understanding of a reading that code has checked.

    Parameters
    ----------
    request
        The checked request, whose window was cut to what may be known.
    assumptions
        Answers that no person gave: each is a default.
    left_out
        Words that the user gave up, or that the decider does not execute.
    """
    clauses: list[Clause] = [
        {"words": each["words"], "became": each["became"], "status": each["status"]}
        for each in params.get("clauses", ())
    ]
    known = {clause["words"] for clause in clauses}
    clauses += [
        {"words": words, "became": "", "status": "not_done"}
        for words in dict.fromkeys([*not_done_words(params), *left_out])
        if words and words not in known
    ]
    clauses += [{"words": "", "became": answer, "status": "default"} for answer in assumptions]
    return {
        **symbols,
        "windows": [[request["start"], request["end"]]],
        "rule": {
            "entry": params.get("entry") or params["strategy_desc"],
            "exit": params.get("exit", ""),
            "exit_is_default": bool(params.get("entry")) and not params.get("exit"),
        },
        "plan": dict(params.get("plan", {})),
        "clauses": clauses,
    }


def understanding_hash(understanding: Understanding) -> str:
    """Return the content hash of an understanding."""
    return content_hash(canonical_json(understanding), size=8)


def understanding_lines(understanding: Understanding, language: Language) -> list[str]:
    """Return what a person is shown before anything trades, a line each.

    >>> understanding_lines(
    ...     {
    ...         "watch": ["000016.SH"], "trade": ["600519.SH"], "index": ["000016.SH"],
    ...         "windows": [["20250102", "20251031"]], "plan": {},
    ...         "rule": {"entry": "closes above its 20-day average", "exit": "", "exit_is_default": True},
    ...         "clauses": [{"words": "stop at 5%", "became": "", "status": "not_done"}],
    ...     },
    ...     "en",
    ... )
    ['watched: 000016.SH (the index itself)', 'traded: 600519.SH', 'window: 20250102 - 20251031',
     'rule: entry closes above its 20-day average; exit not said', 'not done: stop at 5%']
    """

    def words(zh: str, en: str) -> str:
        return say(language, zh=zh, en=en)

    colon, comma = words("：", ": "), words("、", ", ")
    lines = []
    if understanding["watch"]:
        own = words("（指数本身）", " (the index itself)")
        watched = [code + (own if code in understanding["index"] else "") for code in understanding["watch"]]
        lines.append(words("观察", "watched") + colon + comma.join(watched))
    lines.append(words("交易", "traded") + colon + comma.join(understanding["trade"]))
    spans = [f"{start} - {end}" for start, end in understanding["windows"]]
    lines.append(words("区间", "window") + colon + comma.join(spans))
    if rule := _rule_text(understanding["rule"], words):
        lines.append(words("规则", "rule") + colon + rule)
    for status, label in (("default", words("默认", "default")), ("not_done", words("不执行", "not done"))):
        lines += [
            label + colon + " → ".join(filter(None, (clause["words"], clause["became"])))
            for clause in understanding["clauses"]
            if clause["status"] == status
        ]
    return lines


def _rule_text(rule: SaidRule, words: Callable[[str, str], str]) -> str:
    if not rule["exit"] and not rule["exit_is_default"]:
        return rule["entry"]
    left = rule["exit"] or words("未说明", "not said")
    return words(f"买入 {rule['entry']}；卖出 {left}", f"entry {rule['entry']}; exit {left}")
