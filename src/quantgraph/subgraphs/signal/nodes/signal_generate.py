"""Signal generation: an agent writes pandas code; the cells that ran become the strategy."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any

from quantgraph.errors import NoSignal, QuantGraphError, SandboxTooWeak
from quantgraph.llm.tags import wrap
from quantgraph.subgraphs.signal.kit import (
    MODEL_ERRORS,
    SignalKit,
    ask,
    default_kit,
    reply_text,
    tool_errors,
)
from quantgraph.subgraphs.signal.progress import ended, failed, language, succeeded
from quantgraph.subgraphs.signal.request import fingerprint
from quantgraph.subgraphs.signal.state import SignalSubgraphState
from quantgraph.subgraphs.signal.warm_up import Strategy, warmed

__all__ = ["SIGNAL_GENERATE_AGENT_PROMPT", "code_hash", "signal_generate_node"]

SIGNAL_GENERATE_AGENT_PROMPT = """\
You write the pandas code that turns a strategy into trading signals. 你负责把策略写成生成信号的 pandas 代码。

The strategy, in the user's words / 策略描述
{strategy_description}

What was wrong with the last attempt, mend it / 上一次的问题，请修正
{error_messages}

Data / 数据
- snapshot["ohlcv"]: {available_ohlcv}
- snapshot["indicators"]: {available_indicators}
Each is a wide DataFrame: index = trading sessions (trade_date), columns = ts_code, float64, NaN where a stock did not
trade. Use python_repl; in scope are pd (pandas 3), np, GLOBAL_DATA_STATE and snapshot; `import talib` works.

The signal / 信号
- a DataFrame with the index and columns of the close frame; values 1 (be long 买入), -1 (be out 卖出), 0 (no change 不变),
  NaN (no opinion, e.g. while a window is not yet full 无观点).
- Row t may use rows up to t only; it is traded at the next session's open. Never use shift(-n), bfill, centred windows
  or statistics of the whole sample: the code is checked for that. 第 t 行只能使用第 t 行及以前的数据。
- "crosses above" 上穿 is an event: above today and not above in the session before. "above" 高于 is a state.
- Hand it over under a descriptive name, then print name, shape and counts:
  GLOBAL_DATA_STATE.update("signal", {{"sma_cross_5_20": signal}})

How / 写法
- One complete cell that runs on its own, vectorised, deterministic (seed any randomness), no files, no network.
- Frames are read-only: `signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)`, then
  `signal = signal.mask(buy, 1.0).mask(sell, -1.0)`.
- pandas 3 has no `fillna(method=…)` (use .ffill()), no DataFrame.append (use pd.concat), no freq "M" (use "ME").
- If a cell fails, read the error, correct the code and run it again. 出错后先修正再运行。
Then sum up in two sentences, in the user's language: the rule as coded, and how many buys and sells there are."""


def signal_generate_node(state: SignalSubgraphState, *, kit: SignalKit | None = None) -> dict[str, Any]:
    """Have the strategy coded and run, and keep its cells.

    Returns
    -------
    dict
        The commit with the signal and the strategy that made it, or the errors of this attempt.
    """
    kit = kit or default_kit()
    request = state["request"]
    data_ref = kit.store.without("signal", kit.data_ref(state))
    context = kit.context(state, data_ref)
    view = context.tree.view(context.as_of)
    prompt = SIGNAL_GENERATE_AGENT_PROMPT.format(
        available_ohlcv=", ".join(view["ohlcv"]),
        available_indicators=", ".join(view["indicators"]) or "-",
        strategy_description=wrap("strategy", request["strategy"]),
        error_messages=wrap("errors", "\n".join(state.get("error_messages", []))) or "-",
    )
    try:
        replies = ask(kit.signal_generate, context, prompt)
        signals = context.code.signals
        if not signals:
            said = " ".join(reply_text(replies).split())[:160]
            raise NoSignal(
                f"the code handed over no signal; call GLOBAL_DATA_STATE.update('signal', …). Reply: {said}"
            )
        name = list(signals)[-1]
        signal, cells = signals[name], list(context.code.cells)
        # Drafts under other names stay behind: whoever trades the commit finds one signal.
        drafted = Strategy(
            cells=cells, name=name, data_ref=data_ref, signal=signal, runner=kit.runner, store=kit.store
        )
        warm = warmed(drafted, request, context.source, context.as_of)
        signal_ref = kit.store.update("signal", {name: warm.signal}, base=warm.data_ref)
    except MODEL_ERRORS as error:
        return ended(state, "model_unavailable", error)
    except NoSignal as error:
        return failed(state, "signal_generate", tool_errors(replies)[-1:] or [error.line])
    except SandboxTooWeak:
        raise
    except QuantGraphError as error:
        return failed(state, "signal_generate", [error.line])
    if warm.data_start:
        request = {**request, "data_start": warm.data_start}
    notes = [note.text(language(state)) for note in warm.notes]
    request = {**request, "notes": [*request["notes"], *notes]}
    strategy = {
        "name": name,
        "cells": cells,
        "code_hash": code_hash(cells),
        "data_ref": warm.data_ref,
        "request": fingerprint(request),
        "warm_up": warm.warm_up,
    }
    return {
        "data_ref": signal_ref,
        "request": request,
        "strategy": strategy,
        "signal_ready": True,
        "current_task": "validate",
        **succeeded(state, f"signal_generate: {name}"),
    }


def code_hash(cells: Sequence[str]) -> str:
    """Name of a strategy's source by its content."""
    return hashlib.blake2b("\n# cell\n".join(cells).encode(), digest_size=16).hexdigest()
