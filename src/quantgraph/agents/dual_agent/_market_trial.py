"""Decisions tried on the market of the morning: what it refuses is decided again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import count
from typing import Any

from quantgraph.agents.dual_agent._batch import Batch, decide_batch, fallback_hold
from quantgraph.agents.dual_agent._decide import Decided
from quantgraph.agents.dual_agent._models import Agents
from quantgraph.broker import Order, Rejection, Session
from quantgraph.market.money import CENT, to_decimal

_REASON = 200


@dataclass(frozen=True, kw_only=True)
class _Refused:
    """A refused order, and the cash that it wished to spend."""

    rejection: Rejection
    wished: float


def try_decisions(
    market: Session, batch: Batch, decided: Decided, agents: Agents, lots: Callable[[str], str]
) -> dict[str, dict[str, Any]]:
    """Submit the decisions, sells first; decide again what is refused, while attempts remain.

    What was accepted stands.
    """
    decisions, positions = dict(decided.decisions), batch.positions
    numbers = count(1)
    refused = _submit(market, decisions, positions, numbers)
    for turn in range(1, batch.max_attempts + 1):
        again = [name for name in refused if decided.attempts[name] + turn <= batch.max_attempts]
        renewed = _decided_again(market, batch, again, refused, turn, agents, lots)
        for name, each in refused.items():
            decisions[name] = renewed.get(name) or _held(
                decisions[name], positions[name], each, batch.timestamp
            )
        refused = _submit(market, renewed, positions, numbers)
    return decisions


def _submit(
    market: Session,
    decisions: Mapping[str, Mapping[str, Any]],
    positions: Mapping[str, float],
    numbers: Iterator[int],
) -> dict[str, _Refused]:
    """Submit the orders of decisions, sells first, and return what was refused."""
    moved = [name for name, each in decisions.items() if each["action"] != "hold"]
    refused: dict[str, _Refused] = {}
    for name in sorted(moved, key=lambda name: decisions[name]["target_cash_amount"] > positions[name]):
        target, reasons = decisions[name]["target_cash_amount"], decisions[name]["reasons"]
        order = Order(
            symbol=name,
            target_value=to_decimal(target, name="target_cash_amount").quantize(CENT),
            sequence=next(numbers),
            reason="; ".join(reasons)[:_REASON],
        )
        outcome = market.submit(order)
        if isinstance(outcome, Rejection):
            refused[name] = _Refused(rejection=outcome, wished=target - positions[name])
    return refused


def _decided_again(  # noqa: PLR0917 - one caller
    market: Session,
    batch: Batch,
    symbols: Sequence[str],
    refused: Mapping[str, _Refused],
    turn: int,
    agents: Agents,
    lots: Callable[[str], str],
) -> dict[str, dict[str, Any]]:
    """Return renewed decisions of refused symbols; empty without any, or if the models were given up."""
    if not symbols or agents.meter.failed:
        return {}
    cash, total = float(market.account.cash), batch.portfolio["total_assets"]
    again = replace(
        batch,
        features=[item for item in batch.features if item["symbol"] in symbols],
        portfolio={"total_assets": total, "available_cash": cash, "position_value": max(0.0, total - cash)},
        rejected=[rejected_order(name, refused, turn, cash=cash, lots=lots) for name in symbols],
        max_attempts=1,
    )
    decisions, _ = decide_batch(again, agents)
    return {} if agents.meter.failed else decisions


def rejected_order(
    symbol: str, refused: Mapping[str, _Refused], turn: int, *, cash: float, lots: Callable[[str], str]
) -> dict[str, Any]:
    """Return what the market refused as the prompt is told it."""
    rejection = refused[symbol].rejection
    wished = {name: max(0.0, each.wished) for name, each in refused.items()}
    total, of_cash = sum(wished.values()), rejection.code == "insufficient_cash"
    short = max(0.0, total - cash)
    amounts = {
        "required_cash_this_order": round(wished[symbol], 2),
        "available_cash": round(cash, 2),
        "total_cash_required_all_orders": round(total, 2),
        "cash_shortfall": round(short, 2),
    }
    suggestion = rejection.message
    if rejection.code in ("lot_size", "bad_quantity"):
        suggestion = f"{suggestion}; {lots(symbol)}"
    return {
        "symbol": symbol,
        "qty": float(rejection.order.quantity or 0),
        "reason": rejection.code,
        "rejection_reason": rejection.code,
        "retry_count": turn,
        "context": {
            **{name: amount if of_cash else None for name, amount in amounts.items()},
            "retry_attempt": turn,
            "all_orders_count": len(refused),
            "portfolio_rebalance_needed": of_cash and short > 0,
            "suggestion": suggestion,
        },
    }


def _held(decision: Mapping[str, Any], value: float, refused: _Refused, timestamp: str) -> dict[str, Any]:
    """Hold in place of a refused decision, whose target and reasons are kept."""
    told = f"the market refused the order: {refused.rejection.code}: {refused.rejection.message}"
    return {
        **fallback_hold(value, told, timestamp, why="rejected"),
        "reasons": [told, *decision["reasons"]],
        "note": f"{decision['action']} to {decision['target_cash_amount']:.2f} was refused",
    }
