"""The evidence on a run, from its folder alone."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from quantgraph._util.files import storage_errors, write_atomic
from quantgraph._util.texts import Language, Note
from quantgraph.broker import Market, TradePlan
from quantgraph.errors import BadOption
from quantgraph.evidence._placebos import Made, Placebos, of_decider, of_signal
from quantgraph.evidence._room import TIMES, Room, room_of
from quantgraph.runs import RunResult, RunSpec, open_run
from quantgraph.runs.folder import read_manifest, stored_data

EVIDENCE_FILE = "evidence.json"
_LEAST, _MOST = 20, 10_000
_RULE = "signal_rule"


@dataclass(frozen=True, kw_only=True)
class Evidence:
    """What was found on a run; ``room`` is None without volumes."""

    run: str
    seed: int
    placebos: Placebos
    room: Room | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return asdict(self)

    def rows(self, language: Language) -> list[tuple[str, str]]:
        """A label and a text for placebos and for room."""
        found, labels = self.placebos, _LABELS
        count = sum(map(len, found.returns.values()))
        median = float(np.median([each for returns in found.returns.values() for each in returns]))
        told = Note(
            zh=f"{count} 个中排第 {found.rank}，p = {found.p:.3f}；"
            f"每年 {found.own:+.1%}，它们的中位数 {median:+.1%}",
            en=f"rank {found.rank} of {count}, p = {found.p:.3f}; {found.own:+.1%} a year, "
            f"their median {median:+.1%}",
        )
        rows = [(labels["placebos"].text(language), told.text(language))]
        if self.room is not None:
            rows.append((labels["room"].text(language), _room_text(self.room).text(language)))
        return rows


_LABELS = {"placebos": Note(zh="安慰剂", en="placebos"), "room": Note(zh="容量", en="room")}


def _room_text(room: Room) -> Note:
    shares = {times: f"{room.most[str(times)]:.2%}" for times in TIMES}
    return Note(
        zh=f"95% 的成交不超过当日成交量的 {shares[1]}，最大 {room.largest['1']:.2%}；"
        f"资金 10 倍 {shares[10]}，100 倍 {shares[100]}",
        en=f"95% of the fills took at most {shares[1]} of the session's volume, the largest "
        f"{room.largest['1']:.2%}; {shares[10]} at 10 times the cash, {shares[100]} at 100 times",
    )


def evidence(run: str | Path | RunResult, *, placebos: int = 200, seed: int = 0) -> Evidence:
    """Trade placebos of a run and measure its room; ``evidence.json`` in its folder has the result.

    Parameters
    ----------
    run
        A folder, a run's name in ``runs_dir`` of the settings, or a result.
    placebos
        How many accounts, from 20 to 10,000. A market of 300 symbols and 1,250 sessions takes 0.1 s each.

    Raises
    ------
    BadOption
        If there is no such run, it has no account, or ``placebos`` is not valid.
    BadFile
        If its files are damaged.
    """
    if not _LEAST <= placebos <= _MOST:
        raise BadOption(f"placebos={placebos} must be from {_LEAST} to {_MOST:,}", parameter="placebos")
    result = run if isinstance(run, RunResult) else open_run(run)
    if not result.get("account"):
        raise BadOption(f"run {result.get('run_id')} has no account: nothing was traded", parameter="run")
    folder, manifest = result.folder, read_manifest(result.folder)
    market, days = _market(folder, manifest.spec, result), pd.DatetimeIndex(result.equity.index[1:])
    bars, fills = market.store.snapshot(market.data_ref)["ohlcv"], result.trades
    if result.get("signal") and manifest.identity.configuration.get("decider") == _RULE:
        name, made = _made(market, result)
        plan, cash = TradePlan.of(result.get("plan") or {}), Decimal(str(result["cash"]["final_value"]))
        found = of_signal(market, days, made, name=name, plan=plan, cash=cash, count=placebos, seed=seed)
    else:
        values = result.equity["account"].to_numpy(np.float64)
        found = of_decider(market, days, fills, values, count=placebos, seed=seed)
    made_of_it = Evidence(run=str(result["run_id"]), seed=seed, placebos=found, room=room_of(fills, bars))
    text = json.dumps(made_of_it.to_json(), indent=1, ensure_ascii=False, allow_nan=False)
    with storage_errors(folder):
        write_atomic(folder / EVIDENCE_FILE, f"{text}\n".encode())
    return made_of_it


def _market(folder: Path, spec: RunSpec, result: Mapping[str, Any]) -> Market:
    """The market on which the run was traded, from its manifest and its data."""
    plan = TradePlan.of(result.get("plan") or {})
    if spec.rules is None:
        raise BadOption(f"run {result['run_id']} has no rules of a market", parameter="run")
    rules = spec.rules.with_costs(commission=plan.commission, slippage_bps=plan.slippage_bps)
    # Compiled code is loaded once for all placebos, however small the market is.
    return Market(store=stored_data(folder), data_ref=str(result["data_ref"]), rules=rules, blocks_from=0)


def _made(market: Market, result: Mapping[str, Any]) -> tuple[str, Made]:
    """The name of what was traded, and its weights or its signal."""
    name, data = str(result["signal"]["name"]), market.store.snapshot(market.data_ref)
    panel = "weights" if name in data["weights"] else "signal"
    return name, {panel: data[panel][name]}
