"""The cash that decisions need together: what is sold counts first, and charges are included."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from quantgraph.agents.dual_agent.decision_validation import CheckedDecision

_HALF_CENT = 0.005


@dataclass(frozen=True, kw_only=True)
class CashFault:
    """Why decisions do not fit the cash together. Amounts are in the market's currency.

    Attributes
    ----------
    kind
        ``cash``: there is not enough; ``ratio``: less would be left than ``min_cash_ratio`` of the total
        assets.
    required_cash
        What all increases cost; their charges come out of them.
    proceeds
        What all decreases and closes bring, after charges.
    remaining_cash, remaining_ratio
        What would be left, and its share of the total assets.
    reserve
        What ``min_cash_ratio`` keeps.
    shortfall
        What is missing to pay and to keep the reserve.
    """

    kind: Literal["cash", "ratio"]
    available_cash: float
    required_cash: float
    proceeds: float
    remaining_cash: float
    remaining_ratio: float
    min_cash_ratio: float
    reserve: float
    shortfall: float


def check_cash(
    decisions: Mapping[str, CheckedDecision],
    positions: Mapping[str, float],
    portfolio: Mapping[str, float],
    *,
    min_cash_ratio: float = 0.0,
    cost_rate: float = 0.0,
) -> CashFault | None:
    """Check the cash that decisions need together, with what is sold counted first.

    Decisions that buy nothing pass, whatever the cash.

    Parameters
    ----------
    positions
        Current value by symbol.
    portfolio
        ``available_cash`` and ``total_assets``.
    min_cash_ratio
        Least share of the total assets that stays cash.
    cost_rate
        Charges of a sale, as a share of it; those of a purchase come out of its target.
    """
    changes = [_change(each, positions[symbol]) for symbol, each in decisions.items()]
    required = sum(change for change in changes if change > 0)
    if not required:
        return None
    proceeds = -sum(change for change in changes if change < 0) * (1 - cost_rate)
    cash, total = portfolio["available_cash"], portfolio["total_assets"]
    remaining, reserve = cash + proceeds - required, min_cash_ratio * total
    if remaining >= reserve - _HALF_CENT:
        return None
    return CashFault(
        kind="cash" if remaining < -_HALF_CENT else "ratio",
        available_cash=cash,
        required_cash=required,
        proceeds=proceeds,
        remaining_cash=remaining,
        remaining_ratio=remaining / total if total > 0 else 0.0,
        min_cash_ratio=min_cash_ratio,
        reserve=reserve,
        shortfall=reserve - remaining,
    )


def hold_those_that_do_not_fit(
    decisions: Mapping[str, CheckedDecision],
    positions: Mapping[str, float],
    portfolio: Mapping[str, float],
    *,
    min_cash_ratio: float = 0.0,
    cost_rate: float = 0.0,
) -> dict[str, CheckedDecision]:
    """Hold the increases that the cash does not cover; those before them that fit stand.

    The symbols take their turn in the order of ``positions``. What is sold counts first. A decision that is
    turned into a hold says so in ``note``, and its ``hold_reason`` is ``rejected``. Parameters as of
    :func:`check_cash`.
    """
    changes = {symbol: _change(each, positions[symbol]) for symbol, each in decisions.items()}
    proceeds = -sum(change for change in changes.values() if change < 0) * (1 - cost_rate)
    room = portfolio["available_cash"] + proceeds - min_cash_ratio * portfolio["total_assets"]
    settled: dict[str, CheckedDecision] = {}
    for symbol, current in positions.items():
        if symbol not in decisions:
            continue
        settled[symbol] = decisions[symbol]
        cost = max(0.0, changes[symbol])
        if cost > room + _HALF_CENT and cost > 0:
            note = f"an increase by {cost:.2f} does not fit the cash that is left, {max(0.0, room):.2f}"
            settled[symbol] = _held(decisions[symbol], current, note)
        else:
            room -= cost
    return settled


def _change(decision: CheckedDecision, current: float) -> float:
    return 0.0 if decision["action"] == "hold" else decision["target_cash_amount"] - current


def _held(decision: CheckedDecision, current: float, note: str) -> CheckedDecision:
    return {
        "action": "hold",
        "target_cash_amount": current,
        "confidence": decision["confidence"],
        "reasons": decision["reasons"],
        "note": note,
        "hold_reason": "rejected",
    }
