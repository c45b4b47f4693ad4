"""Who decided in a run, made again from what ``run.json`` holds of it."""

from __future__ import annotations

from collections.abc import Mapping
from decimal import Decimal
from fractions import Fraction
from typing import Any

from quantgraph.agents import SignalRule

__all__ = ["recorded_decider"]

_PART = "decider."


def recorded_decider(configuration: Mapping[str, Any]) -> SignalRule:
    """The run's ``SignalRule``, with its options; the default one if somebody else decided.

    Parameters
    ----------
    configuration
        That of the run's :class:`~quantgraph.runs.identity.Identity`.
    """
    if f"{_PART}class" in configuration or configuration["decider"] != SignalRule().name:
        return SignalRule()
    told = {
        name.removeprefix(_PART): value for name, value in configuration.items() if name.startswith(_PART)
    }
    told |= {name: _decimal(told[name]) for name in ("max_weight", "cash_reserve")}
    if told["weights"] is not None:
        told["weights"] = {symbol: _decimal(share) for symbol, share in told["weights"].items()}
    return SignalRule(**told)


def _decimal(share: str) -> Decimal:
    """A share as it was given, in decimals."""
    exact = Fraction(share)
    return Decimal(exact.numerator) / exact.denominator
