"""The dual agent as plain calls on features, outside of a run."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from quantgraph._util.values import is_whole
from quantgraph.agents.dual_agent._config import (
    Agents,
    DualAgentConfig,
    LLMClient,
    LLMConfig,
    Meter,
    is_model_failure,
    metered,
    read_config,
)
from quantgraph.agents.dual_agent._features import check_features_list, fill_features, positions_of
from quantgraph.agents.dual_agent._loop import (
    DECISION_PROMPT,
    ROLES,
    Batch,
    Decisions,
    batch_of,
    choose_fundamentals,
    day_of,
    decide_all,
    portfolio_of,
    prompts_of,
    renewed_part,
)
from quantgraph.agents.dual_agent._prompts import _prompt_version, past_texts
from quantgraph.agents.dual_agent._validation import _extract_decision_tags
from quantgraph.agents.memory._episodes import DecisionEpisode
from quantgraph.agents.memory._pipeline import PipelineContext, traced_agent
from quantgraph.errors import BadOption

_DISABLED = "the models are not enabled"
_TOTAL_CASH = 100_000.0

Features = Sequence[Mapping[str, Any]]
Context = PipelineContext | Mapping[str, Any]


@traced_agent("decision_agent")
def decide_batch_dual_agent(  # noqa: PLR0917 - the documented signature
    features_list: Features,
    cfg: Mapping[str, Any] | None = None,
    enable_llm: bool = True,
    bars_data: Mapping[str, Mapping[str, Any]] | None = None,
    run_id: str | None = None,
    previous_decisions: Mapping[str, Any] | None = None,
    decision_history: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    rejected_orders: Sequence[Mapping[str, Any]] | None = None,
) -> dict[str, dict[str, Any]]:
    """Decide the target value of each symbol's position: filter, features, decision.

    Parameters
    ----------
    features_list
        An item ``{"symbol": ..., "features": {...}}`` for each symbol, see :func:`.build_features`.
    cfg
        See :class:`.DualAgentConfig`; default: that of ``ctx``.
    enable_llm
        False holds everything.
    bars_data
        Raw data by symbol, for what features lack, see :func:`.fill_features`.
    run_id
        Calls of one run share a budget, and are kept apart from others in the memory.
    previous_decisions
        The last result: the history without ``decision_history``, and what stands with ``rejected_orders``.
    decision_history
        Earlier decisions by symbol: a list, newest first, of ``date``, ``action``, ``target_cash_amount``
        and ``confidence``, holds included; or a text.
    ctx
        ``portfolio`` (``cash`` or ``available_cash``) and configuration; a :class:`.PipelineContext` also has
        the memory and takes the ``decisions``.
    rejected_orders
        Orders that were refused: exactly their symbols are decided again, and ``retry_count`` of them counts
        against ``agents.retry.max_attempts``. The other decisions stand, see :func:`.renewed_part`.

    Returns
    -------
    dict
        By symbol ``action``, ``target_cash_amount`` (the value wished for the whole position),
        ``cash_change``, ``reasons``, ``confidence``, ``timestamp``; a hold also ``hold_reason`` (``model``,
        ``fallback``, ``rejected``, ``stands``). ``__meta__`` counts calls, errors and tokens, and has
        ``prompt_version``, and ``failed`` if the models failed.

    Raises
    ------
    ValueError, BadOption, NotConfigured
        Without a configuration of ``llm``; if an argument is not valid; if the model lacks a key.
    """
    _check_mappings(bars_data=bars_data, previous_decisions=previous_decisions)
    _check_rejected(rejected_orders)
    pipeline = ctx if isinstance(ctx, PipelineContext) else None
    config, meter = _checked_config(cfg, ctx, enable_llm), Meter()
    past = _Past(previous_decisions, decision_history, pipeline)
    batch = _batch(features_list, bars_data, config, ctx, rejected_orders)
    client = config.client(*ROLES) if enable_llm else None
    decisions = _decided(batch, client, meter, config.llm, run_id, past, ctx)
    if pipeline is not None:
        pipeline.put("decisions", decisions)
    version = _prompt_version(config.agent("decision").prompt or DECISION_PROMPT)
    return {**decisions, "__meta__": meter.counts() | {"prompt_version": version}}


class _Past(NamedTuple):
    """What the caller has of earlier decisions."""

    previous: Mapping[str, Any] | None
    history: Mapping[str, Any] | None
    pipeline: PipelineContext | None

    def shown_in(self, batch: Batch) -> Batch:
        """The batch with the history of each symbol for the prompt."""
        day = day_of(batch.features)
        texts = past_texts(batch.positions, self.history, self.previous, self.pipeline, day=day)
        return replace(batch, history=texts)


def _decided(  # noqa: PLR0917 - two callers
    batch: Batch,
    client: LLMClient | None,
    meter: Meter,
    llm: LLMConfig,
    run_id: str | None,
    past: _Past,
    ctx: Context | None,
) -> Decisions:
    """Decide all symbols, within the budget of the run id; without a client they are held."""
    last = past.previous or (ctx.get("decisions") if ctx is not None else None) or {}
    asked, standing = renewed_part(batch, last)
    if client is None:
        decided = {name: asked.held(name, _DISABLED) for name in asked.positions}
    else:
        agents = Agents(client=client.ask, ends_asking=is_model_failure, meter=meter)
        with metered(meter, llm, run_id):
            decided = decide_all(past.shown_in(asked), agents)["decisions"]
    decisions = {name: (standing | decided)[name] for name in batch.positions}
    if past.pipeline is not None and client is not None:
        _remember(past.pipeline, decisions, asked.features)
    return decisions


def filter_stocks_needing_fundamental(  # noqa: PLR0917 - as the decision's
    features_list: Features,
    cfg: Mapping[str, Any] | None = None,
    enable_llm: bool = True,
    run_id: str | None = None,
    previous_decisions: Mapping[str, Any] | None = None,
    decision_history: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
) -> dict[str, Any]:
    """Choose the symbols whose fundamentals the decision needs; parameters and errors are the decision's.

    Returns ``stocks_need_fundamental``, ``reasoning`` of those, and ``__meta__``. Without models, or if they
    fail, all symbols need fundamentals.
    """
    config, meter = _checked_config(cfg, ctx, enable_llm), Meter()
    batch = _batch(features_list, None, config, ctx, None)
    need, why = list(batch.positions), dict[str, str]()
    if enable_llm:
        agents = Agents(client=config.client("filter").ask, ends_asking=is_model_failure, meter=meter)
        pipeline = ctx if isinstance(ctx, PipelineContext) else None
        past = _Past(previous_decisions, decision_history, pipeline)
        with metered(meter, config.llm, run_id):
            need, why = choose_fundamentals(past.shown_in(batch), agents)
    return {"stocks_need_fundamental": need, "reasoning": why, "__meta__": meter.counts()}


def _decide_batch_portfolio_dual_agent(  # noqa: PLR0917 - the documented signature
    features_list: Features,
    llm_cfg: LLMConfig,
    system_prompt: str,
    client: LLMClient,
    meta_agg: dict[str, Any],
    cfg: Mapping[str, Any],
    bars_data: Mapping[str, Mapping[str, Any]] | None = None,
    run_id: str | None = None,
    previous_decisions: Mapping[str, Any] | None = None,
    decision_history: Mapping[str, Any] | None = None,
    ctx: Context | None = None,
    rejected_orders: Sequence[Mapping[str, Any]] | None = None,
    pipeline_ctx: PipelineContext | None = None,
) -> dict[str, dict[str, Any]]:
    """Decide on features that are complete, with a prompt and a client at hand: the second of the agents.

    ``meta_agg`` is filled with what :func:`decide_batch_dual_agent` returns as ``__meta__``; decisions that
    are not hold go into the memory of ``pipeline_ctx``.
    """
    shared, meter = ctx or pipeline_ctx, Meter()
    batch = _batch(features_list, bars_data, read_config(cfg), shared, rejected_orders)
    batch = replace(batch, prompts={"decision": system_prompt}, filters=False)
    past = _Past(previous_decisions, decision_history, pipeline_ctx)
    decisions = _decided(batch, client, meter, llm_cfg, run_id, past, shared)
    meta_agg |= meter.counts()
    return decisions


def _check_mappings(**arguments: Any) -> None:
    for name, value in arguments.items():
        if value is None:
            continue
        if not isinstance(value, Mapping) or not all(isinstance(each, Mapping) for each in value.values()):
            raise BadOption(f"{name} must be a dict of dicts by symbol, not {value!r:.60}", parameter=name)


def _check_rejected(orders: Any) -> None:
    for order in orders or ():
        if not (
            isinstance(order, Mapping)
            and isinstance(order.get("symbol"), str)
            and isinstance(order.get("context") or {}, Mapping)
            and is_whole(order.get("retry_count") or 0)
        ):
            raise BadOption(
                f"rejected_orders: {order!r:.60}; must be a dict with symbol, a text, and if any "
                "context, a dict, and retry_count, a whole number",
                parameter="rejected_orders",
            )


def _checked_config(cfg: Mapping[str, Any] | None, ctx: Context | None, enable_llm: bool) -> DualAgentConfig:
    """Return the configuration; that of the context stands in for a missing ``cfg``."""
    if cfg is None and ctx is not None:
        cfg = ctx.config if isinstance(ctx, PipelineContext) else ctx.get("config")
    if enable_llm and not (isinstance(cfg, Mapping) and cfg.get("llm") is not None):
        raise BadOption(
            "the models are enabled and cfg has no 'llm'; give cfg={'llm': {...}}, or enable_llm=False",
            parameter="cfg",
        )
    return read_config(cfg)


def _batch(
    features_list: Features,
    bars_data: Mapping[str, Mapping[str, Any]] | None,
    config: DualAgentConfig,
    ctx: Context | None,
    rejected: Sequence[Mapping[str, Any]] | None,
) -> Batch:
    features = fill_features(check_features_list(features_list), bars_data, config.features)
    portfolio = _portfolio(features, config, ctx)
    return batch_of(
        config, features, rejected=rejected, portfolio=portfolio, prompts=prompts_of(config, "en")
    )


def _portfolio(features: Features, config: DualAgentConfig, ctx: Context | None) -> dict[str, float]:
    """Return the portfolio: that of the context, else the configured cash less the positions."""
    portfolio = ctx.get("portfolio") if ctx is not None else None
    cash = _cash_of(portfolio)
    if cash is None:
        total, held = config.portfolio.total_cash, sum(positions_of(features).values())
        cash = (_TOTAL_CASH if total is None else total) - held
        if cash < 0:
            raise BadOption(
                f"portfolio.total_cash={cash + held:g}{' by default' if total is None else ''} is cash and "
                f"positions together; must be at least what the positions are worth, {held:.2f}",
                parameter="cfg",
            )
    return portfolio_of(features, cash)


def _cash_of(portfolio: Any) -> float | None:
    """Return the cash of a portfolio, a mapping or an object; None without one."""
    if portfolio is None:
        return None
    get = portfolio.get if isinstance(portfolio, Mapping) else partial(getattr, portfolio)
    found = get("available_cash", get("cash", None))
    try:
        cash = float(found)
    except (TypeError, ValueError):
        cash = math.nan
    if not math.isfinite(cash):
        raise BadOption(
            f"portfolio of ctx: its cash is {found!r:.60}; it must have 'cash' or 'available_cash', a number",
            parameter="ctx",
        )
    return cash


def _remember(
    pipeline: PipelineContext, decisions: Mapping[str, Mapping[str, Any]], features: Features
) -> None:
    """Add the decisions other than hold to the memory; a hold takes the place of one that was rejected.

    Features without a date make no memory: the clock's would not be the day that was decided.
    """
    if not pipeline.memory_enabled:
        return
    made, memory = [], pipeline.memory.episodes
    for item in features:
        decision, known, date = decisions[item["symbol"]], item["features"], day_of([item])
        if not date:
            continue
        episode = DecisionEpisode(
            symbol=item["symbol"],
            date=date,
            action=decision["action"],
            target_amount=decision["target_cash_amount"],
            cash_change=decision["cash_change"],
            confidence=decision["confidence"],
            reasoning="; ".join(decision["reasons"]),
            reasons=list(decision["reasons"]),
            market_context=dict(known["market_data"]),
            tags=_extract_decision_tags(dict(decision), dict(known)),
            run_id=pipeline.run_id,
        )
        if decision["action"] == "hold":
            memory.discard(episode.id)
        else:
            made.append(episode)
    memory.add_all(made)
