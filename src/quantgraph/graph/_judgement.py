"""What a run's judgement needs beside its account: data, proof, tries, and what such a run cannot tell."""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

import pandas as pd

from quantgraph._util.texts import Note
from quantgraph.broker import ModelDecider
from quantgraph.graph._state import TradingState
from quantgraph.graph._trading import Trading
from quantgraph.judgement import Circumstances, Tries, counted, cut_off_of, judge, try_of
from quantgraph.llm import KeylessPlanner, model_facts
from quantgraph.recording.scope import call_once
from quantgraph.runtime.graph_state import progress_of, request_of
from quantgraph.subgraphs.signal import decided_moves, market_source

_MADE = "signal_generate: "
"""How a line of the history begins whose attempt reached a signal."""


def judgement(
    state: TradingState, trading: Trading, bar_notes: Sequence[Note], run: Any, against: pd.Series[float]
) -> dict[str, Any]:
    """The judgement of a run; notes on its bars are open questions until a person decides about them."""
    proof = progress_of(state)["validation"].get("data_summary", {}).get("causality") or {}
    circumstances = Circumstances(
        synthetic=market_source(state, trading.resources).synthetic,
        questions=() if decided_moves(state) else [asdict(note) for note in bar_notes],
        proof=proof.get("coverage", {}).get("method", ""),
        split=trading.resources.split,
        limits=_limits(state, trading, run),
    )
    return judge(run, against, _tries(state, trading, run), circumstances)


def _tries(state: TradingState, trading: Trading, run: Any) -> Tries:
    """The tries of this rule so far, with this one; a replay has the recorded ones."""
    cells, symbols = trading.strategy(state).get("cells", ()), list(run.bars["close"].columns)
    made = sum(line.startswith(_MADE) for line in state.get("execution_history", ()))
    own = try_of(state["run_id"], _words(state), cells, symbols, run.values, attempts=max(1, made))
    path = trading.resources.tries
    line = {"tries": {name: value for name, value in asdict(own).items() if name != "run"}}
    found = call_once("fact", line, lambda: asdict(counted(own, path)))
    return Tries(**{**found, "sharpes": tuple(found["sharpes"])})


def _words(state: TradingState) -> str:
    """What the rule is, in words: those of the sentence, or what a signal of the caller's is called."""
    request = request_of(state)
    own, understood = request["own"], request["understanding"]
    if own is not None and not own.get("said"):
        return f"{own['kind']} {own['origin'] or own['name']}"
    rule = understood["rule"] if understood else None
    return f"{rule['entry']} | {rule['exit']}" if rule else json.dumps(request["params"], sort_keys=True)


def _limits(state: TradingState, trading: Trading, run: Any) -> dict[str, dict[str, str]]:
    """What a run of this kind cannot tell, by name with what fills its words."""
    known: dict[str, dict[str, str]] = {}
    if len(run.bars["close"].columns) > 1 and not request_of(state)["checked"].get("index_code"):
        known["survivorship"] = {}
    if "pre_close" not in run.bars:
        known["unadjusted"] = {}
    for role in trading.decider.roles if isinstance(trading.decider, ModelDecider) else ():
        asked = trading.model(role)
        if isinstance(asked, KeylessPlanner):
            continue
        model = model_facts(asked).name
        until = trading.resources.settings.of_role(role).cut_off or cut_off_of(model)
        if until is None:
            known["memory_unknown"] = {"model": model}
        elif f"{run.days.index[0]:%Y-%m}" <= until:
            known["memory"] = {"model": model, "until": until}
    return known
