"""Does the code do it: a signal of the caller's is taken as it came, with the proof that it has."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from typing import Any, cast

import pandas as pd

from quantgraph._util.texts import Language, say
from quantgraph.audit import Finding, Report
from quantgraph.market import session_of
from quantgraph.recording.scope import call_once
from quantgraph.runtime import OpenResources
from quantgraph.runtime.dialogue import emit_reading
from quantgraph.runtime.endings import language, success_update
from quantgraph.runtime.graph_state import Update, dialogue_of, request_of, strategy_of
from quantgraph.subgraphs.signal._agents import (
    Intent,
    ModelClause,
    Params,
    ReflectionReply,
    as_of,
    current_decider,
    current_ref,
)
from quantgraph.subgraphs.signal._edited import given_of
from quantgraph.subgraphs.signal._meaning import words_in
from quantgraph.subgraphs.signal._plan import with_plan
from quantgraph.subgraphs.signal._proof import count_sessions, evaluated_from, unmeasured_note
from quantgraph.subgraphs.signal._reading import (
    Reading,
    Step,
    add_needs,
    check_with_source,
    read_fields,
    read_plan,
)
from quantgraph.subgraphs.signal._updates import sentence_text
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.understanding import (
    request_hash,
    symbols_of,
    understand,
    understanding_lines,
)


def own_words(own: Mapping[str, Any], user_language: Language) -> str:
    """Return the name of a caller's signal."""
    zh = {"frame": "自有信号", "function": "自有函数", "file": "自有代码", "rule": ""}[own["kind"]]
    en = {"frame": "own signal", "function": "own function", "file": "own code", "rule": ""}[own["kind"]]
    return f"{say(user_language, zh=zh, en=en)} {own['origin']}".strip()


def read_own(reading: Reading) -> Reading:
    """Take symbols and dates of a caller's signal; a sentence beside it says its plan and what it watches."""
    state, source = reading.state, reading.source
    own, fixed = cast("Mapping[str, Any]", request_of(state)["own"]), given_of(state)
    rule = own_words(own, language(state))
    params = Params.model_validate({**fixed, "strategy_desc": rule}).model_dump()
    read = words_in(sentence_text(state), source).read if own["said"] else None
    if read is not None:
        watch = [code for code in read.watch if code not in read.trade]
        noted = [(each.words, each.status) for each in read.clauses if each.status != "default"]
        noted += [(each.words, "not_done") for each in read.open]
        params |= {
            "watch": ",".join(watch),
            "required_indicators": list(read.fields),
            "plan": dict(read.plan),
            "clauses": [
                ModelClause(quote=words, part="plan", status=status).model_dump() for words, status in noted
            ],
        }
        params = with_plan(params, current_decider(reading.resources).executes)
    reply = ReflectionReply(task_type="signal_gen", user_intent=Intent(type="signal_gen"))
    symbols = symbols_of(params, fixed=fixed["ts_code"])
    return replace(reading, fixed=fixed, reply=reply, kind="signal_gen", params=params, symbols=symbols)


def understand_own(reading: Reading) -> Reading:
    """Say what is traded by a signal of the caller's."""
    understanding = understand(reading.params, reading.request, reading.symbols, ())
    emit_reading(understanding_lines(understanding, language(reading.state)))
    own, request = request_of(reading.state)["own"] or {}, reading.request
    if own.get("proof") and own["warm_up"] is None:
        note = unmeasured_note(request.get("data_start", request["start"])).text(language(reading.state))
        request = {**request, "notes": [*request["notes"], note]}
    return replace(reading, request=request, understanding=understanding)


OWN_STEPS: tuple[Step, ...] = (
    *(read_own, read_fields, read_plan, check_with_source, add_needs, understand_own),
)
"""The steps for a signal of the caller's, which no model reads."""


def own_update(state: SignalSubgraphState, resources: OpenResources, own: Mapping[str, Any]) -> Update:
    """Return the update that trades a signal of the caller's, which is among the run's data."""
    request, store, name = request_of(state)["checked"], resources.store, own["name"]
    data_ref = store.without("signal", current_ref(state, resources))

    def commit() -> str:
        kept, waived = store.snapshot(own["ref"])["indicators"], dialogue_of(state)["waived_symbols"]
        frames = {each: kept[each].drop(columns=waived, errors="ignore") for each in kept}
        base, signal = data_ref, {name: frames.pop(name)}
        if frames:  # what the signal ranks by
            base = store.update("indicators", frames, base=data_ref)
        return store.update("weights" if own.get("panel") == "weights" else "signal", signal, base=base)

    facts = {"step": "own_signal", "data_ref": data_ref, "ref": own["ref"], "name": name}
    strategy = {
        "name": name,
        "signals": [name],
        "cells": own["cells"],
        "code_hash": own["code_hash"],
        "data_ref": data_ref,
        "request": request_hash(request),
        "warm_up": own["warm_up"],
        "said": "",
    }
    return {
        "data_ref": call_once("code", facts, commit),
        "strategy": strategy,
        "signal_ready": True,
        "current_task": "validate",
        **success_update(state, f"signal_generate: {own_words(own, language(state))}"),
    }


def own_proof(state: SignalSubgraphState, resources: OpenResources) -> Report:
    """Return the proof of a signal of the caller's, from before the run, or that it has none."""
    own, request = cast("Mapping[str, Any]", request_of(state)["own"]), request_of(state)["checked"]
    strategy, proof = strategy_of(state), own["proof"]
    view = resources.store.view(as_of(state, resources), strategy["data_ref"])
    sessions = pd.DatetimeIndex(view["ohlcv"]["close"].index)
    first = evaluated_from(sessions, request, own["warm_up"])
    return Report(
        checks=("causality",) if proof else (),
        findings=tuple(_own_findings(own, strategy["name"], first)),
        summary={
            "causality": proof,
            "warm_up": own["warm_up"],
            "evaluated_from": None if first is None else f"{first:%Y%m%d}",
            "not_judged": count_sessions(sessions, session_of(request["start"]), first),
        },
    )


def _own_findings(own: Mapping[str, Any], name: str, first: pd.Timestamp | None) -> Iterator[Finding]:
    """What a person must know first of a signal of the caller's."""
    if own["kind"] == "frame":
        yield Finding(
            severity="warning",
            code="own_not_proved",
            message="Not proved: the signal is a frame of yours, and nothing shows that it uses no future.",
            zh="未经证明：信号是您给出的表格，无法证明它没有用到未来数据。",
        )
    if own["kind"] == "function":
        part, whole = (own["proof"]["coverage"][key] for key in ("proved", "sessions"))
        yield Finding(
            severity="warning",
            code="own_unsealed",
            message=f"Unsealed: the function {own['origin']} ran with your rights and within reach of all "
            f"data; its signal is proved at {part} of {whole} sessions.",
            zh=f"未密封：函数 {own['origin']} 以您的权限运行，全部数据都在其可及范围；"
            f"信号在 {whole} 个交易日中的 {part} 个上得到证明。",
        )
    if first is None:
        yield Finding(
            severity="error",
            code="warm_up",
            message=f"{name} needs {own['warm_up']} sessions before its signal counts: use a longer window",
        )
