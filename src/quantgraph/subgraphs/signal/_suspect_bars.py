"""May it run: bars that cannot be and moves that no action explains are asked about before a run."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, Literal

import pandas as pd

from quantgraph._util.texts import Language, say
from quantgraph.audit import Report
from quantgraph.audit.bars import Move, check_data, move_lines, unexplained_moves
from quantgraph.data import MarketDataSource
from quantgraph.errors import BadFrame
from quantgraph.market import session_of, sessions_between
from quantgraph.market.rules import find_board
from quantgraph.runtime import OpenResources
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import (
    Clarification,
    Clause,
    DecidedMoves,
    MovesTaken,
    Understanding,
    Update,
    dialogue_of,
    progress_of,
    request_of,
)
from quantgraph.state import DataState
from quantgraph.subgraphs.signal._updates import is_refusal, is_waiver, question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import request_symbols, traded_symbols, understanding_hash
from quantgraph.tools import split_codes

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
