"""What a run was asked for, all of it data: written into its folder, read again to go on with it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from decimal import Decimal
from typing import Any, Literal

from quantgraph.broker.account import Account
from quantgraph.errors import BadOption, BadWindow
from quantgraph.market.fees import MainlandFees, UsFees
from quantgraph.market.moment import session_of
from quantgraph.market.rulebook import Rulebook

__all__ = ["OnClarifyMode", "RunSpec"]

OnClarifyMode = Literal["ask", "default", "fail", "function"]


@dataclass(frozen=True, kw_only=True)
class RunSpec:
    """The arguments of a run that are no handles.

    Attributes
    ----------
    question
        The sentence.
    symbols, start, end
        Fixed by the caller, else empty.
    cash
        Initial cash, in the market's currency.
    trade
        False for the signal alone.
    approve
        Whether the orders of each session are asked for before they are sent.
    on_clarify
        Who answers questions.
    branch_of, branch_from
        Of a branch: the run that it follows, and the session from which on it goes its own way, ``YYYYMMDD``.
    """

    question: str
    symbols: tuple[str, ...] = ()
    start: str = ""
    end: str = ""
    cash: Decimal = Decimal(1_000_000)
    rules: Rulebook
    trade: bool = True
    approve: bool = False
    on_clarify: OnClarifyMode = "default"
    branch_of: str = ""
    branch_from: str = ""

    def __post_init__(self) -> None:
        if Account.opening(self.cash).cash <= 0:
            raise BadOption(f"cash={self.cash}; an amount above 0 is wanted", parameter="cash")
        for name in ("start", "end"):
            try:
                session_of(getattr(self, name) or "20000101", name=name)
            except BadWindow as error:
                raise BadOption(error.message, parameter=name) from error

    @property
    def given(self) -> dict[str, str]:
        """What the state of the graph begins with."""
        return {"ts_code": ",".join(self.symbols), "start_date": self.start, "end_date": self.end}

    def as_json(self) -> dict[str, Any]:
        """Plain JSON, decimals as text."""
        return {
            **{name: getattr(self, name) for name in ("question", "start", "end", "trade", "approve")},
            "symbols": list(self.symbols),
            "cash": f"{self.cash:f}",
            "rules": _rules_json(self.rules),
            "on_clarify": self.on_clarify,
            "branch_of": self.branch_of,
            "branch_from": self.branch_from,
        }

    @classmethod
    def from_json(cls, told: Mapping[str, Any]) -> RunSpec:
        """What :meth:`as_json` told of."""
        return cls(
            **{
                **told,
                "symbols": tuple(told["symbols"]),
                "cash": Decimal(told["cash"]),
                "rules": _rules(told["rules"]),
            }
        )


def _rules_json(rules: Rulebook) -> dict[str, Any]:
    plain = ("name", "market", "tables")
    return {
        **{name: getattr(rules, name) for name in plain},
        "fees": None if rules.fees is None else {k: f"{v:f}" for k, v in vars(rules.fees).items()},
        "slippage_bps": f"{rules.slippage_bps:f}",
        "volume_share": None if rules.volume_share is None else f"{rules.volume_share:f}",
        "fraction_step": str(rules.fraction_step),
        "funds": [list(fund) for fund in rules.funds],
    }


def _rules(told: Mapping[str, Any]) -> Rulebook:
    fees = UsFees if told["market"] == "us" else MainlandFees
    step, share = told["fraction_step"], told["volume_share"]
    return Rulebook(
        **{
            **told,
            "fees": told["fees"] and fees(**{name: Decimal(text) for name, text in told["fees"].items()}),
            "slippage_bps": Decimal(told["slippage_bps"]),
            "volume_share": None if share is None else Decimal(share),
            "fraction_step": int(step) if step.isdigit() else Decimal(step),
            "funds": tuple((symbol, kind) for symbol, kind in told["funds"]),
        }
    )
