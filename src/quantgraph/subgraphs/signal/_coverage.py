"""What was asked: a model's reading held against the person's own words, and what it leaves out."""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence
from typing import Any

from quantgraph._util.texts import say
from quantgraph.runtime.endings import language, user_messages
from quantgraph.runtime.graph_state import Update, dialogue_of
from quantgraph.sentences.coverage import (
    Gap,
    ReadClause,
    ReadParameters,
    coverage_gaps,
    find_anchors,
    plain,
    unparsed_words,
)
from quantgraph.subgraphs.signal._updates import is_default, is_waiver, question_update, without_words
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.tools import split_codes


def reading_gaps(
    state: SignalSubgraphState, params: Mapping[str, Any], names: Mapping[str, str]
) -> list[Gap]:
    """Return where a reading differs from the user's words of this request.

    Waived words are not a gap, nor are words that a later message replaces, nor words that a question was
    about and the reading now quotes.
    """
    lines, dialogue = _own_lines(state), dialogue_of(state)
    clauses = _clauses(state, params)
    text = "\n".join(lines)
    codes = [code for name in ("ts_code", "watch", "trade") for code in split_codes(params[name])]
    parameters = ReadParameters(
        codes=tuple(dict.fromkeys(codes)),
        plan=params["plan"],
        fields=tuple(params["required_indicators"]),
        names=names,
        before=_words_before(state),
    )
    waived = [plain(each) for each in dialogue["waived"]]
    asked = plain("\n".join(each["question"] for each in dialogue["answers"]))
    answered = plain("\n".join(each["answer"] for each in dialogue["answers"]))

    def is_settled(gap: Gap) -> bool:
        piece = plain(gap.piece)
        is_waived = any(words in piece or piece in words for words in waived)
        is_waived = is_waived or (piece in answered and is_waiver(gap.piece, [], language(state)))
        return is_waived or _is_replaced(gap, lines) or (piece in asked and gap.kind in ("lost", "added"))

    found = coverage_gaps(text, clauses, parameters) or _left_behind(dialogue["last_request"], params, text)
    return [gap for gap in found if not is_settled(gap)]


_DROPS = re.compile(  # "去掉"
    r"去掉|不要|不用|取消|删|换|改|remove|drop|without|instead|replace|change|forget|skip|no longer",
    re.IGNORECASE,
)


def _left_behind(last: Mapping[str, Any], params: Mapping[str, Any], text: str) -> tuple[Gap, ...]:
    """Return the clauses of the last request that its change leaves out without saying so."""
    quotes = {each["quote"] for each in params["clauses"]}
    before = [each for each in last.get("clauses", ()) if each["quote"] and each["status"] == "done"]
    if not any(each["quote"] in quotes for each in before):  # a new strategy
        return ()
    parts = {each["part"] for each in params["clauses"]}
    named = find_anchors(plain(text))

    def is_left(clause: Mapping[str, Any]) -> bool:
        if clause["quote"] in quotes:
            return False
        same = any(one.kind == other.kind for one in named for other in find_anchors(plain(clause["quote"])))
        drops = bool(_DROPS.search(text))
        return not (same and drops) and (clause["part"] not in parts or not (same or drops))

    return tuple(
        Gap(kind="not_quoted", piece=each["quote"], word=each["part"]) for each in before if is_left(each)
    )


def _words_before(state: SignalSubgraphState) -> str:
    """The request that a message on the thread may change, in the user's words and as it was read."""
    before = dialogue_of(state)["last_request"]
    clauses = [each[name] for each in before.get("clauses", ()) for name in ("quote", "became")]
    return "\n".join([*clauses, before.get("strategy_desc", "")])


def _clauses(state: SignalSubgraphState, params: Mapping[str, Any]) -> list[ReadClause]:
    """The clauses of a reading of this request; a reading without quotes is one clause about all of it."""
    before = {each["quote"] for each in dialogue_of(state)["last_request"].get("clauses", ())}
    clauses = [
        ReadClause(
            quote=each["quote"], became=each["became"], part=each["part"], done=each["status"] == "done"
        )
        for each in params["clauses"]
        if each["quote"] not in before
    ]
    if any(each.quote and each.part == "entry" for each in clauses):
        return clauses
    became = "\n".join((params["strategy_desc"], params["entry"], params["exit"]))
    whole = ReadClause(quote="\n".join(_own_lines(state)), became=became, part="whole")
    return [*clauses, whole]


def unparsed(
    state: SignalSubgraphState, params: Mapping[str, Any], names: Collection[str]
) -> tuple[str, ...]:
    """Return the person's words that no clause quotes and that change no trade."""
    if not any(each["quote"] for each in params.get("clauses", ())):
        return ()
    return unparsed_words("\n".join(_own_lines(state)), _clauses(state, params), names)


def _own_lines(state: SignalSubgraphState) -> list[str]:
    """The person's messages of this request, without answers that only take or leave what is offered."""
    dialogue = dialogue_of(state)
    taken = {
        each["message"]
        for each in dialogue["answers"]
        if each["by"] == "default"
        or is_default(each["answer"])
        or is_waiver(each["answer"], [], language(state))
    }
    left_out = {*dialogue["ignored_message_ids"], *taken}
    return [str(each.text) for each in user_messages(state) if str(each.id) not in left_out]


def _is_replaced(gap: Gap, lines: Sequence[str]) -> bool:
    """Whether a later line says something of the same class as an earlier one that the reading lacks."""
    at = next((n for n, line in enumerate(lines) if plain(gap.piece) in plain(line)), len(lines))
    kinds = {each.kind for each in find_anchors(plain(gap.word))}
    return any(kinds & {each.kind for each in find_anchors(plain(line))} for line in lines[at + 1 :])


def gap_question(state: SignalSubgraphState, gaps: Sequence[Gap]) -> Update:
    """Return the question about words that a reading changes or leaves out."""
    pieces = [gap.piece for gap in gaps]
    words = language(state)
    quoted = say(
        words, zh="".join(f"「{each}」" for each in pieces), en=", ".join(f"“{each}”" for each in pieces)
    )
    reason = say(words, zh=f"{quoted}：这里应该怎么处理？", en=f"{quoted}: what should happen with this?")
    became = [gap for gap in gaps if gap.became and gap.kind != "not_quoted"]
    if became:
        read = "; ".join(gap.became for gap in became)
        reason += say(words, zh=f"（目前的理解：{read}）", en=f" (So far it was read as: {read})")
    options = [without_words(pieces, words)]
    return question_update(state, "strategy", reason, words=pieces, options=options)
