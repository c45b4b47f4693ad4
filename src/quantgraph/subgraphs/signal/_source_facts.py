"""May it run: what a source has and lacks, and bars that cannot be, asked about before a run."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Language, say
from quantgraph.audit import Report
from quantgraph.audit.bars import Move, check_data, move_lines, unexplained_moves
from quantgraph.data import MarketDataSource
from quantgraph.data.symbols import is_index_code, names_in
from quantgraph.errors import (
    BadFrame,
    NoData,
    NotConfigured,
    PermissionDenied,
    RateLimited,
    SourceUnavailable,
    UnknownField,
    UnknownSymbol,
)
from quantgraph.market import session_of, sessions_between
from quantgraph.market.rules import find_board
from quantgraph.recording.scope import call_once
from quantgraph.runtime import OpenResources
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import (
    Clarification,
    ClarificationKind,
    Clause,
    DecidedMoves,
    MovesTaken,
    Understanding,
    Update,
    dialogue_of,
    progress_of,
    request_of,
)
from quantgraph.sentences.coverage import says_part
from quantgraph.sentences.phrases import symbols_in, volume_words
from quantgraph.state import DataState
from quantgraph.subgraphs.signal._updates import is_refusal, is_waiver, question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import request_symbols, traded_symbols, understanding_hash
from quantgraph.tools import split_codes

_MARKET = re.compile(  # "大盘"
    r"大盘(?![股蓝])|\bthe\s+(?:(?:broad|broader|overall|stock)\s+)?market(?=\s+(?:is|was|has|falls?|fell|drops?|dropped|rises?|rose|gains?"
    r"|gained|loses?|lost|closes?|closed|crosses|breaks|trades|stays)\b)",
    re.IGNORECASE,
)
_OTHER_MARKET = re.compile(r"\bthe\s+market\s+(?:cap|value|price|order|open|close\b)", re.IGNORECASE)
_FUNDAMENTALS = re.compile(  # "市盈率"
    r"市盈|市净|市销|市值|股息|换手|量比|净资产|收益率|利润|营收|估值|基本面|\b(?:pe|pb|ps|roe|roa|eps|p/[ebs]|dividend|turnover|valuation|market\s+cap"
    r"|earnings|revenue|net profit|fundamental)",
    re.IGNORECASE,
)
_MAIN_INDICES = ("000001.SH", "000300.SH")
_MOST_INDICES = 8
_VENDOR = (NotConfigured, PermissionDenied, RateLimited, SourceUnavailable)
_RECENT = pd.Timedelta(days=30)


def market_words(text: str) -> list[str]:
    """The words of a text for the market as a whole.

    >>> market_words("当天大盘跌超1%就不买"), market_words("buy at the market open")
    (['大盘'], [])
    """
    if _OTHER_MARKET.search(text):
        return []
    return list(dict.fromkeys(match[0] for match in _MARKET.finditer(text)))


def names_of(text: str, source: MarketDataSource) -> dict[str, str]:
    """Return codes by the names that a text has; the market's is the source's main index."""
    names, words = names_in(text, source), market_words(text)
    if words and (there := indices_with_levels(text, source)):
        names |= dict.fromkeys(words, there[0])
    return names


def indices_with_levels(text: str, source: MarketDataSource, wanted: Iterable[str] = ()) -> list[str]:
    """Return the indices that a source has levels of: the main ones, the ones in the text, its own.

    The source is asked once in a run.
    """
    named = (code for code in symbols_in(text, names_in(text, source)) if is_index_code(code))
    listed = set(source.symbols())
    own = (code for code in source.names() if is_index_code(code) and code not in listed)
    codes = list(dict.fromkeys([*_MAIN_INDICES, *wanted, *named, *own]))[:_MOST_INDICES]
    last = source.sessions()[-1]

    def has_levels(code: str) -> bool:
        try:
            return not source.index_bars(code, last - _RECENT, last).empty
        except (NoData, UnknownSymbol, *_VENDOR):
            return False

    facts = {"levels_of": codes, "source": source.name}
    return list(call_once("source", facts, lambda: [code for code in codes if has_levels(code)]))


def speaks_of_index(text: str) -> bool:
    """Whether a text speaks of an index itself.

    >>> speaks_of_index("上证50指数在60日线上方"), speaks_of_index("上证50里涨得最多的5只")
    (True, False)
    """
    return re.search(r"指数|大盘|\bindex\b", text, re.IGNORECASE) is not None  # "指数"


def speaks_of_fields(text: str) -> bool:
    """Whether a text may need daily indicators or fundamentals."""
    return _FUNDAMENTALS.search(text) is not None


def known_indicators(source: MarketDataSource) -> list[str] | None:
    """Return the daily indicators that a source has values of; None if the source fails now."""
    return _fields_of(source, "indicators")


def known_bars(source: MarketDataSource) -> list[str] | None:
    """Return the fields of bars that a source has values of, as :func:`known_indicators`."""
    return _fields_of(source, "bars")


def _fields_of(source: MarketDataSource, panel: Literal["bars", "indicators"]) -> list[str] | None:
    symbols, last = source.symbols()[:3], source.sessions()[-1]

    def there() -> list[str] | None:
        ask = source.bars if panel == "bars" else source.indicators
        try:
            found = ask(symbols, last - _RECENT, last)
        except (NoData, UnknownField, UnknownSymbol):
            return []
        except _VENDOR:
            return None
        return [name for name in found if bool(found[name].notna().any(axis=None))]

    facts = {"fields_of": list(symbols), "panel": panel, "source": source.name}
    found: list[str] | None = call_once("source", facts, there)
    return found


def lacking_levels_update(
    state: SignalSubgraphState, lacking: Sequence[str], there: Sequence[str], source: MarketDataSource
) -> Update:
    """Return the question about indices without levels, or about the market where the source has no index."""
    user_language, zh, en = language(state), "、".join(there) or "无", ", ".join(there) or "none"
    reason = say(
        user_language,
        zh=f"{source.name} 没有 {'、'.join(lacking)} 的指数行情，按它的条件无法判断。"
        f"有行情的指数：{zh}。换成哪一个，还是去掉这个条件继续？",
        en=f"{source.name} has no levels of {', '.join(lacking)}, so a condition on it cannot be judged. "
        f"Indices with levels: {en}. Which one instead, or go on without this condition?",
    )
    kind: ClarificationKind = "symbol" if all(map(is_index_code, lacking)) else "plan"
    options = [*there, without_words(lacking, user_language)]
    return question_update(state, kind, reason, words=lacking, options=options)


def lacking_volumes(text: str, source: MarketDataSource) -> list[str]:
    """The words of a text for volumes or amounts that a source does not have in a unit that it shows."""
    words = volume_words(text)
    there = known_bars(source) if words else None
    return [word for field, each in words.items() if there and field not in there for word in each]


def lacking_volumes_update(
    state: SignalSubgraphState, words: Sequence[str], source: MarketDataSource
) -> Update:
    """Return the question for a rule without volumes."""
    reason = say(
        language(state),
        zh=f"{source.name} 没有单位明确的成交量或成交额，无法判断：{'、'.join(words)}。知道单位时用 "
        "volume_unit、amount_unit 说明；否则请给出不用它的规则。",
        en=f"{source.name} has no volumes or amounts in a unit that it shows, so this cannot be judged: "
        f"{', '.join(words)}. If you know the unit, run it again with volume_unit or amount_unit; else "
        "give a rule without it.",
    )
    return question_update(state, "strategy", reason, words=words)


def lacking_benchmark(
    params: Mapping[str, Any], request: Mapping[str, Any], source: MarketDataSource
) -> str | None:
    """The words, else the code, of a benchmark that a source does not have in the window; None if it has."""
    code = params["plan"].get("benchmark")
    if code is None:
        return None
    with suppress(UnknownSymbol, NoData):
        source.index_bars(str(code), *(session_of(request[name]) for name in ("start", "end")))
        return None
    quotes = (each["quote"] for each in params["clauses"])
    return next((quote for quote in quotes if quote and says_part(quote, "benchmark", "")), str(code))


def lacking_benchmark_update(state: SignalSubgraphState, words: str, source: MarketDataSource) -> Update:
    """Return the question whether to go on without a comparison."""
    reason = say(
        language(state),
        zh=f"{source.name} 没有它的行情，无法比较：{words}。不比较，继续吗？",
        en=f"{source.name} has no prices to compare with: {words}. Go on without the comparison?",
    )
    return question_update(
        state, "plan", reason, words=[words], options=[without_words([words], language(state))]
    )


_IMPOSSIBLE = ("bad_price", "bad_bar")
_SHOWN = 5
_NOTHING = {"split": 1.0, "dividend": 0.0}


def with_suspect_bars(
    report: Report, impossible: Mapping[str, str], moves: Mapping[str, Sequence[Move]]
) -> Report:
    """Return a report of data with both kinds; impossible bars are warnings, for a question decides them."""
    findings = tuple(
        replace(each, severity="warning") if each.code in _IMPOSSIBLE else each for each in report.findings
    )
    found = {"impossible_bars": dict(impossible), "unexplained_moves": dict(moves)}
    summary = {**report.summary, **{kind: symbols for kind, symbols in found.items() if symbols}}
    return replace(report, findings=findings, summary=summary)


def suspect_bars_question(
    state: SignalSubgraphState, report: Report, source: MarketDataSource
) -> dict[str, Any]:
    """Return the question about the first kind that is undecided, one for all its symbols; empty if none is.

    The default leaves symbols out whose bars cannot be or moves are beyond the mainland's limits; where no
    symbol would be left there is none. In the US a move is taken as it is by default.
    """
    user_language = language(state)
    if found := _impossible(state, report.summary):
        places = _places([f"{code} {session}" for code, session in found.items()])
        reason = say(
            user_language,
            zh=f"要交易的股票有不可能的行情（价格不大于零，或开高低收矛盾）：{places}。怎么办？",
            en="Symbols that are traded have bars that cannot be (a price <= 0, or open, high, low and close "
            f"that contradict each other): {places}. How to go on?",
        )
        options = say(user_language, zh="照原样继续|停止", en="go on as it is|stop").split("|")
        return question_update(state, "bars", reason, options=[*_without(state, found, source), *options])
    if not (moves := _undecided(state, report.summary)):
        return {}
    reason = _moves_reason(moves, user_language)
    options = [_OPTIONS[taken][user_language] for taken in _ways(moves)]
    stop = say(user_language, zh="停止", en="stop")
    return question_update(state, "moves", reason, options=[*options, *_without(state, moves, source), stop])


def _moves_reason(moves: Mapping[str, Sequence[Move]], user_language: Language) -> str:
    places = _places(move_lines(moves, user_language))
    return say(
        user_language,
        zh=f"这些涨跌超出涨跌幅限制或像是拆分，而数据没有说明：{places}。怎么办？",
        en=f"Moves that the market's rules forbid, or that look like splits, and the data have no action for "
        f"them: {places}. How to go on?",
    )


_OPTIONS: Mapping[MovesTaken, Mapping[Language, str]] = {
    "action": {"zh": "按送转或拆分处理", "en": "take them as actions"},
    "keep": {"zh": "按真实涨跌处理", "en": "take them as moves of the price"},
}
_TAKEN: Mapping[MovesTaken, Mapping[Language, str]] = {
    "action": {"zh": "按送转或拆分处理", "en": "taken as actions"},
    "keep": {"zh": "按真实涨跌处理", "en": "taken as moves of the price"},
    "leave_out": {"zh": "已去掉", "en": "left out"},
}


def _ways(moves: Mapping[str, Sequence[Move]]) -> list[MovesTaken]:
    has_action = any(move["split"] is not None for each in moves.values() for move in each)
    return ["action", "keep"] if has_action else ["keep"]


def _places(lines: Sequence[str]) -> str:
    return "; ".join(lines[:_SHOWN]) + ("" if len(lines) <= _SHOWN else f" (+{len(lines) - _SHOWN})")


def _without(state: SignalSubgraphState, codes: Iterable[str], source: MarketDataSource) -> list[str]:
    """The option that leaves symbols out, if others are left."""
    left = set(traded_symbols(request_of(state)["checked"], source)) - {*codes}
    return [without_words(list(codes), language(state))] if left else []


def _impossible(state: SignalSubgraphState, summary: Mapping[str, Any]) -> dict[str, str]:
    dialogue = dialogue_of(state)
    decided = (*dialogue["accepted_bars"], *dialogue["waived_symbols"])
    found: Mapping[str, str] = summary.get("impossible_bars", {})
    return {code: session for code, session in found.items() if code not in decided}


def _undecided(state: SignalSubgraphState, summary: Mapping[str, Any]) -> dict[str, list[Move]]:
    dialogue = dialogue_of(state)
    decided = {
        (code, move["session"])
        for each in dialogue["moves"]
        for code, moves in each["symbols"].items()
        for move in moves
    }
    found: Mapping[str, list[Move]] = summary.get("unexplained_moves", {})
    left = {
        code: [move for move in moves if (code, move["session"]) not in decided]
        for code, moves in found.items()
        if code not in dialogue["waived_symbols"]
    }
    return {code: moves for code, moves in left.items() if moves}


def moves_answer(state: SignalSubgraphState, task: Clarification, wanted: str | None) -> str | None:
    """The option that a setting takes, else the usual one: in the US moves stand, elsewhere symbols go."""
    moves = _undecided(state, progress_of(state)["validation"]["data_summary"])
    taken = _settled(moves, wanted)
    return next((each for each in task["options"] if bars_decision(task, each) == taken), None)


def _settled(moves: Iterable[str], wanted: str | None) -> MovesTaken:
    usual: MovesTaken = "keep" if all(find_board(code) == "us" for code in moves) else "leave_out"
    return next((taken for taken in _TAKEN if taken == wanted), usual)


def moves_hint(user_language: Language) -> str:
    """How a run that nobody answers is answered before it starts."""
    zh, en = "事先回答：", " Say it before: "
    return say(user_language, zh=zh, en=en) + "--unexplained action | keep | leave_out, [tables] unexplained"


def bars_decision(task: Clarification, text: str) -> MovesTaken | Literal["stop"] | None:
    """What an answer about suspect bars decides; None if it is in other words."""
    *options, stop = task["options"]
    if text == stop or is_refusal(text):
        return "stop"
    named = {texts[task["language"]]: taken for taken, texts in _OPTIONS.items()}
    if task["kind"] == "bars":
        named = {options[-1]: "keep"}
    if text in named and text in options:
        return named[text]
    can_leave_out = len(options) > sum(each in named for each in options)
    says_so = text in options or is_waiver(text, [], task["language"])
    return "leave_out" if can_leave_out and says_so else None


def bars_answer_update(
    state: SignalSubgraphState,
    task: Clarification,
    source: MarketDataSource,
    *,
    taken: MovesTaken,
    by_default: bool,
) -> Update:
    """The update of a decision about the bars in question, with request and understanding.

    Moves that are actions need other data, too, see :func:`with_decided_actions`.
    """
    request, dialogue, user_language = request_of(state)["checked"], dialogue_of(state), language(state)
    summary = progress_of(state)["validation"]["data_summary"]
    update: Update = {}
    if task["kind"] == "bars":
        codes = list(_impossible(state, summary))
        named = ", ".join(codes)
        became = say(
            user_language, zh=f"保留 {named} 的不可能行情", en=f"with bars of {named} that cannot be"
        )
        if taken == "leave_out":
            became = say(
                user_language, zh=f"去掉 {named}：行情不可能", en=f"without {named}: bars that cannot be"
            )
        else:
            update["accepted_bars"] = [*dialogue["accepted_bars"], *codes]
        request = {**request, "notes": [became, *request["notes"]]}
    else:
        moves = _undecided(state, summary)
        codes, named = list(moves), ", ".join(moves)
        decided: DecidedMoves = {"taken": taken, "symbols": dict(moves)}
        update["moves"] = [*dialogue["moves"], decided]
        became = _decided_line(decided, user_language)
    if taken == "leave_out":
        request = leave_out(request, codes, source)
        update["waived"] = [*dialogue["waived"], *codes]
        update["waived_symbols"] = [*dialogue["waived_symbols"], *codes]
    update["checked"] = request
    before = request_of(state)["understanding"]
    if before:
        clause: Clause = {"words": "", "became": became, "status": "default"}
        if not by_default:
            clause = {
                "words": named,
                "became": became,
                "status": "not_done" if taken == "leave_out" else "done",
            }
        trade = [code for code in before["trade"] if not (taken == "leave_out" and code in codes)]
        after: Understanding = {**before, "trade": trade, "clauses": [*before["clauses"], clause]}
        update["understanding"] = after
        if dialogue["confirmed"] == understanding_hash(before):
            update["confirmed"] = understanding_hash(after)
    return update


def _decided_line(decided: DecidedMoves, user_language: Language) -> str:
    places, taken = _places(move_lines(decided["symbols"], user_language)), _TAKEN[decided["taken"]]
    return say(user_language, zh=f"{places}：{taken['zh']}", en=f"{places}: {taken['en']}")


def decided_moves(state: Mapping[str, Any]) -> list[str]:
    """What was decided about moves that no action explains, a line each decision."""
    return [_decided_line(each, language(state)) for each in dialogue_of(state)["moves"]]


def with_decided_actions(store: DataState, ref: str, decisions: Sequence[DecidedMoves]) -> str:
    """Return the commit with the splits and dividends that moves were decided to be."""
    bars = store.snapshot(ref)["ohlcv"]
    close = bars["close"]
    cells = [
        (name, pd.Timestamp(move["session"]), code, move[name])
        for decided in decisions
        if decided["taken"] == "action"
        for code, moves in decided["symbols"].items()
        for move in moves
        for name in ("split", "dividend")
        if move[name] not in {None, _NOTHING[name]}
        and code in close.columns
        and pd.Timestamp(move["session"]) in close.index
    ]
    frames: dict[str, pd.DataFrame] = {}
    for name, session, code, value in cells:
        if name not in frames:
            known = bars[name] if name in bars else close * float("nan")
            frames[name] = known.reindex(index=close.index, columns=close.columns)
        frames[name].loc[session, code] = value
    return store.override(base=ref, ohlcv={**bars, **frames}) if frames else ref


def check_commit(
    state: Mapping[str, Any], resources: OpenResources, request: Mapping[str, Any], ref: str
) -> Update:
    """The report on the bars of a host's commit, and its request and data after a decision about moves.

    A setting decides, else the usual answer.

    Raises
    ------
    BadFrame
        If no symbol would be left.
    """
    store, symbols = resources.store, split_codes(request["trade"])
    bars = store.snapshot(ref)["ohlcv"]
    days = pd.DatetimeIndex(bars["close"].index)
    sessions = sessions_between(days, session_of(request["start"]), session_of(request["end"]))
    moves = unexplained_moves(bars, symbols=symbols, sessions=sessions)
    report = check_data({"ohlcv": bars, "indicators": {}}, symbols=symbols, sessions=sessions)
    update: Update = {"validation": with_suspect_bars(report, {}, moves).as_json()}
    if not moves:
        return update
    taken = _settled(moves, resources.settings.tables.unexplained)
    decided: DecidedMoves = {"taken": taken, "symbols": dict(moves)}
    left = [symbol for symbol in symbols if taken != "leave_out" or symbol not in moves]
    if not left:
        raise BadFrame(_moves_reason(moves, language(state)) + moves_hint(language(state)))
    update["moves"] = [decided]
    if taken == "action":
        update["data_ref"] = with_decided_actions(store, ref, [decided])
    elif taken == "leave_out":
        codes = ",".join(left)
        update["checked"] = {**request, "ts_code": codes, "trade": codes}
        update["data_ref"] = only_symbols(store, ref, left)
    return update


def only_symbols(store: DataState, ref: str, symbols: Collection[str]) -> str:
    """Return the commit of these symbols alone, without a signal."""
    data = store.snapshot(ref)
    panels = {
        panel: {name: frame[frame.columns.intersection([*symbols])] for name, frame in data[panel].items()}
        for panel in ("ohlcv", "indicators")
    }
    return store.override(base=ref, signal={}, **panels)


def leave_out(request: Mapping[str, Any], codes: Sequence[str], source: MarketDataSource) -> dict[str, Any]:
    """Return a request without symbols; an index among its codes becomes the members that are left."""
    if not set(codes) & set(request_symbols(request, source)):
        return dict(request)

    def without(symbols: Sequence[str]) -> str:
        return ",".join(symbol for symbol in symbols if symbol not in codes)

    return {
        **request,
        "ts_code": without(request_symbols(request, source)),
        "trade": without(traded_symbols(request, source)),
    }
