"""One run of a sentence, start to finish, with everything it made in a folder of its own."""

from __future__ import annotations

import json
import platform
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from importlib.metadata import version
from pathlib import Path
from typing import Any, Literal

import pandas as pd
from langchain_core.messages import HumanMessage
from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.types import Command

from quantgraph._run_id import new_run_id
from quantgraph.audit import signal_counts
from quantgraph.data import MarketDataSource, open_source
from quantgraph.errors import BadOption, NotConfigured, QuantGraphError
from quantgraph.graph import STEP_LIMIT, create_trading_graph
from quantgraph.market.rulebook import Rulebook
from quantgraph.settings import Settings, load_settings
from quantgraph.state import DataState
from quantgraph.strategy import strategy_source
from quantgraph.subgraphs.signal import create_signal_subgraph
from quantgraph.subgraphs.signal.kit import Model
from quantgraph.subgraphs.signal.request import request_symbols
from quantgraph.subgraphs.signal.warm_up import JUDGED

__all__ = ["Event", "run_strategy"]

_NODES = ("reflection", "data_fetch", "signal_generate", "validate", "clarify", "report")


@dataclass(frozen=True, kw_only=True)
class Event:
    """Something to show while a run goes on.

    ``node``: a node has finished, ``text`` is the last line of the history. ``session``: a session was
    traded, ``text`` is its date. ``question`` and ``answer``: what was asked and answered.
    """

    kind: Literal["node", "session", "question", "answer"]
    name: str
    text: str = ""


def run_strategy(
    question: str,
    *,
    source: str | Path | MarketDataSource | None = None,
    symbols: Sequence[str] = (),
    start: str | None = None,
    end: str | None = None,
    cash: float | str = 1_000_000,
    rules: Rulebook | None = None,
    model: Model | None = None,
    out: str | Path | None = None,
    answer: Callable[[Mapping[str, Any]], str] | None = None,
    watch: Callable[[Event], None] | None = None,
    trade: bool = True,
    settings: Settings | None = None,
) -> dict[str, Any]:
    """Run a sentence and write strategy, signal, ledger, data and result into ``out/run_id``.

    The folder says how the run ended from the start on: ``result.json`` begins with ``running``.

    Parameters
    ----------
    question
        The sentence, in Chinese or English.
    symbols, start, end
        Fixed by the caller; they win over the sentence.
    rules
        The market's rules and fees. Default: mainland China's.
    answer
        Called with each clarification; None takes the documented defaults and lists them in ``assumptions``.
    watch
        Called with what happens while it happens.
    trade
        False stops after the signal.

    Returns
    -------
    dict
        The result as it stands in ``result.json``. ``ended_because`` is ``done`` if it worked; else ``error``
        is one line that says what went wrong.

    Raises
    ------
    BadOption
        If an argument is outside of its range; nothing has been written then.
    """
    overrides = {"runs_dir": Path(out)} if out is not None else {}
    settings = (settings or load_settings()).model_copy(update=overrides)
    market = open_source(source, settings=settings)
    run_id = new_run_id()
    folder = settings.runs_dir / run_id
    store = DataState(folder / "data")
    options: dict[str, Any] = {
        "model": model,
        "source": market,
        "store": store,
        "settings": settings,
        "on_clarify": "ask" if answer else "default",
        "checkpointer": InMemorySaver(),
    }
    graph = (
        create_trading_graph(**options, cash=cash, rules=rules)
        if trade
        else create_signal_subgraph(**options)
    )
    given = {"ts_code": ",".join(symbols), "start_date": start or "", "end_date": end or ""}
    begun: dict[str, Any] = {"messages": [HumanMessage(question)], "given": given}
    result: dict[str, Any] = {
        "run_id": run_id,
        "run_dir": str(folder),
        "ended_because": "running",
        "question": question,
        "source": {"name": market.name, "synthetic": market.synthetic},
        "started": datetime.now(UTC).isoformat(timespec="seconds"),
        "versions": _versions(),
    }
    _make(folder)
    _write_json(folder, result)
    config: RunnableConfig = {"configurable": {"thread_id": run_id}, "recursion_limit": STEP_LIMIT}
    stopped: dict[str, Any] = {}
    took: dict[str, float] = {}
    try:
        _drive(graph, begun | ({"run_id": run_id} if trade else {}), config, answer, watch, took)
    except (KeyboardInterrupt, EOFError):
        stopped = {"ended_because": "cancelled", "error": "cancelled: the run was stopped before its end"}
    except QuantGraphError as error:
        stopped = {"ended_because": "failed", "error": error.line}
    except Exception as error:
        line = f"failed: {type(error).__name__}: {' '.join(str(error).split())[:300]}"
        _write_json(folder, result | {"ended_because": "failed", "error": line})
        raise
    state = graph.get_state(config).values
    result |= _outcome(state, market) | _saved(folder, question, state, store) | {"seconds": took} | stopped
    _write_json(folder, result)
    return result


def _make(folder: Path) -> None:
    try:
        folder.mkdir(parents=True)
    except OSError as error:
        raise BadOption(f"out={str(folder.parent)!r} cannot hold a run: {error.strerror}") from error


def _drive(  # noqa: PLR0917 - one call, in order
    graph: Any,
    begun: dict[str, Any],
    config: RunnableConfig,
    answer: Callable[[Mapping[str, Any]], str] | None,
    watch: Callable[[Event], None] | None,
    took: dict[str, float],
) -> None:
    """Stream the graph to its end, answering what it asks; ``took`` gets the seconds of each node."""
    tell, mark = watch or (lambda _event: None), time.perf_counter()
    task: dict[str, Any] | Command[Any] = begun
    while True:
        stream = graph.stream(task, config, stream_mode="updates", subgraphs=True, durability="exit")
        asked: Mapping[str, Any] | None = None
        for _, update in stream:
            for name, change in update.items():
                now = time.perf_counter()
                took[name] = round(took.get(name, 0.0) + now - mark, 3)
                mark = now
                if name == "__interrupt__":
                    asked = change[0].value
                elif name == "daily_loop" and change.get("session"):
                    tell(Event(kind="session", name=name, text=change["session"]))
                elif name in _NODES:
                    tell(Event(kind="node", name=name, text=_told(name, change or {})))
        if asked is None:
            return
        tell(Event(kind="question", name="clarify", text=asked["question"]))
        if answer is None:
            raise NotConfigured("a question was asked and nobody answers; pass answer=")
        said, mark = answer(asked), time.perf_counter()
        tell(Event(kind="answer", name="clarify", text=said))
        task = Command(resume=said)


def _told(name: str, change: Mapping[str, Any]) -> str:
    """What a node's update says in a line: the last thing done, or what comes next."""
    history, task = change.get("execution_history"), change.get("current_task")
    return history[-1].removeprefix(f"{name}: ") if history else f"-> {task}" if task else ""


def _outcome(state: Mapping[str, Any], market: MarketDataSource) -> dict[str, Any]:
    """What the state says of the end and of the request."""
    request, history = state.get("request") or {}, list(state.get("execution_history") or [])
    because, errors = state.get("ended_because") or "failed", state.get("error_messages") or []
    why = errors[-1] if errors else ": ".join([because, *history[-1:]])
    return {
        "ended_because": because,
        **({} if because == "done" else {"error": why}),
        "assumptions": list(state.get("assumptions") or []),
        "notes": list(request.get("notes") or []),
        "symbols": list(request_symbols(request, market)) if request else [],
        "window": {"start": request.get("start"), "end": request.get("end")},
        "data_ref": state.get("data_ref"),
        "validation": state.get("validation"),
        "history": history,
    }


def _saved(folder: Path, question: str, state: Mapping[str, Any], store: DataState) -> dict[str, Any]:
    """Write strategy and signal, if there are any, and say where they and the account are."""
    strategy, summary = state.get("strategy") or {}, state.get("summary") or {}
    told: dict[str, Any] = {"strategy": None, "signal": None}
    if strategy and state.get("signal_ready"):
        path = folder / "strategy.py"
        path.write_text(strategy_source(strategy, question), encoding="utf-8")
        told["strategy"] = {key: strategy[key] for key in ("name", "code_hash", "data_ref")} | {
            "path": str(path)
        }
        signal = store.snapshot(state["data_ref"])["signal"][strategy["name"]]
        told["signal"] = _save_signal(folder / "signal.parquet", strategy["name"], signal)
    found = (state.get("validation") or {}).get("data_summary", {})
    told |= {key: found.get(key) for key in JUDGED}
    return told | {key: summary.get(key) for key in ("account", "benchmark", "index", "cash", "equity")}


def _save_signal(path: Path, name: str, signal: pd.DataFrame) -> dict[str, Any]:
    signal.to_parquet(path)
    return {"name": name, "path": str(path), "counts": signal_counts(signal)}


def _versions() -> dict[str, str]:
    names = ("quantgraph", "langgraph", "langchain-core", "pandas", "numpy", "TA-Lib")
    return {"python": platform.python_version(), **{name: version(name) for name in names}}


def _write_json(folder: Path, result: Mapping[str, Any]) -> None:
    text = json.dumps(result, ensure_ascii=False, indent=2, allow_nan=False)
    (folder / "result.json").write_text(text + "\n", encoding="utf-8")
