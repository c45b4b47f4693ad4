"""Orders become fills or rejections with a reason, in a simulated market with the exchange's rules.

A *decider* gets a ``DecisionContext`` (view, account, rules, history) and returns a ``Decision``: orders and
notes. A ``Session`` of a ``Market`` (data and rulebook) takes orders and is closed; every order ends as a
``Fill`` or a ``Rejection``.
``simulate`` runs a decider over sessions without a graph.

Behind it: ``accounts`` (what an account holds and what changes it), ``session`` (how a day is opened, matched
and closed), ``blocks`` (many sessions at once as array code), ``ledger`` (the journal on disk). To add a
decider, subclass ``Decider``: one method, ``decide``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.broker._decider import DataNeeds, Decider, DecisionContext, ModelDecider, RunContext
    from quantgraph.broker._plan import ExitRule, TradePlan
    from quantgraph.broker._plan_words import plan_words
    from quantgraph.broker.accounts._account import Account
    from quantgraph.broker.accounts._orders import BlockRule, Decision, Fill, Order, Pending, Rejection
    from quantgraph.broker.accounts._results import SessionResult
    from quantgraph.broker.session._session import Market, Session
    from quantgraph.broker.session._simulate import check_decider, simulate

__all__ = [
    "Account",
    "BlockRule",
    "DataNeeds",
    "Decider",
    "Decision",
    "DecisionContext",
    "ExitRule",
    "Fill",
    "Market",
    "ModelDecider",
    "Order",
    "Pending",
    "Rejection",
    "RunContext",
    "Session",
    "SessionResult",
    "TradePlan",
    "check_decider",
    "plan_words",
    "simulate",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
