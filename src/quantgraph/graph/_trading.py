"""What the trading nodes share, built once per graph: resources, account, rules, and the open runs."""

from __future__ import annotations

import datetime as dt
import threading
from collections import OrderedDict
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field, replace
from decimal import Decimal
from functools import partial
from typing import Any, get_args

import pandas as pd
from langchain_core.language_models import BaseChatModel

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, Market, ModelDecider, RunContext, TradePlan, check_decider
from quantgraph.broker.accounts import MarkAt
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import open_market_run
from quantgraph.data import FrameSource, MarketDataSource, open_source
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadFile, BadOption, NoOpenPrices, NoSignal, UnknownSymbol
from quantgraph.graph._state import TradingState
from quantgraph.llm import role_model
from quantgraph.market import Moment, Rulebook, session_of, sessions_between
from quantgraph.market.rules import market_elsewhere
from quantgraph.recording.scope import branch, current_scope
from quantgraph.runtime import OpenResources, Resources, open_resources, run_database_path, settings_of
from quantgraph.runtime.endings import language
from quantgraph.runtime.graph_state import request_of, strategy_of
from quantgraph.settings import load_settings
from quantgraph.state import GrowingView
from quantgraph.tools import split_codes

_KNOWN_CODES = {
    "cn": "it knows codes such as 600519.SH, 000001.SZ, 920099.BJ; for US stocks pass rules=Rulebook.us(), "
    "on the command line --market us",
    "us": "it knows codes such as AAPL; for mainland shares pass rules=Rulebook.mainland(), "
    "on the command line --market cn",
}
_CASH = 1_000_000
"""The default cash."""
_MAX_VIEWS = 8
"""Runs whose growing views are kept between steps; other runs' are made again."""


@dataclass(frozen=True, kw_only=True)
class Trading:
    """What the nodes of one graph trade with, and the ledgers and views of its open runs.

    With ``approve`` a session's orders are sent only after approval, asked as ``on_clarify`` says.
    """

    resources: OpenResources
    decider: Decider
    rules: Rulebook
    cash: Decimal | None
    mark_at: MarkAt = "close"
    plan: TradePlan = field(default_factory=TradePlan)
    approve: bool = False
    context: str | None = None
    """The context of a server's assistant, as JSON."""
    _models: dict[str, BaseChatModel] = field(default_factory=dict, repr=False)
    _open: dict[str, Ledger] = field(default_factory=dict, repr=False)
    _views: OrderedDict[str, GrowingView] = field(default_factory=OrderedDict, repr=False)
    _kept: dict[str, dict[str, Any]] = field(default_factory=dict, repr=False)
    _lock: threading.Lock = field(default_factory=threading.Lock, repr=False)

    def plan_of(self, state: TradingState) -> TradePlan:
        """The plan in force: the caller's words, else the sentence's that are executed."""
        return TradePlan.of(self._sentence_plan(state) | self.plan.to_json())

    def opening_cash(self, state: TradingState) -> Decimal:
        """The caller's cash, else the sentence's, else 1,000,000."""
        return self.cash or Decimal(self.plan_of(state).cash or _CASH)

    def replaced_plan(self, state: TradingState) -> dict[str, Any]:
        """The values of the sentence's plan that the caller's replace."""
        own, sentence = self.plan.to_json(), self._sentence_plan(state)
        return {name: value for name, value in sentence.items() if own.get(name, value) != value}

    def _sentence_plan(self, state: TradingState) -> dict[str, Any]:
        understanding, executes = request_of(state)["understanding"], self.decider.executes
        plan = understanding["plan"] if understanding else {}
        return {name: value for name, value in plan.items() if name in executes}

    def market(self, state: TradingState) -> Market:
        """Return the market on which the state's sessions are traded."""
        return Market(
            store=self.resources.store,
            data_ref=state["data_ref"],
            rules=self.rules_of(state),
            mark_at=self.mark_at,
        )

    def rules_of(self, state: TradingState) -> Rulebook:
        """Return the rules with the costs of the plan."""
        plan = self.plan_of(state)
        return self.rules.with_costs(commission=plan.commission, slippage_bps=plan.slippage_bps)

    def ledger_of(self, run_id: str) -> Ledger:
        """Return the ledger of a run, one for all threads. It stays open until :meth:`close`."""
        where = run_database_path(self.resources.settings.runs_dir, run_id)
        if self.resources.ledger is not None:
            return self.resources.ledger
        with self._lock:
            if run_id not in self._open:
                self._open[run_id] = Ledger(where)
            return self._open[run_id]

    def open_run(self, run_id: str, state: TradingState) -> Ledger:
        """Return the ledger, with the run in it; ``BadOption`` if the request began with another context."""
        begun = state.get("assistant_context")
        if self.context is not None and begun not in (None, self.context):
            raise BadOption(
                f"this request began with the context {begun}; pass it again with the answer",
                parameter="context",
            )
        request, own = request_of(state)["checked"], request_of(state)["own"] or {}
        code = self.strategy(state).get("code_hash")
        also = {
            "code_hash": None if own.get("kind") == "frame" else code,  # a longer frame has another one
            "start": request["start"],
            **({"approve": True} if self.approve else {}),
        }
        ledger = self.ledger_of(run_id)
        open_market_run(
            ledger,
            run_id,
            self.market(state),
            self.decider,
            cash=self.opening_cash(state),
            end=request["end"],
            plan=self.plan_of(state),
            also=also,
            opening=self.resources.opening,
        )
        return ledger

    @contextmanager
    def growing_view(self, run_id: str, state: TradingState, first: pd.Timestamp) -> Iterator[GrowingView]:
        """Lend a run's growing view of the data, from ``first`` on; the run's next step continues with it.

        No other step has it meanwhile.
        """
        ref = state["data_ref"]
        with self._lock:
            view = self._views.pop(run_id, None)
        if view is None or view.data_ref != ref or not view.reaches(Moment(first, "open")):
            view = self.resources.store.growing_view(ref, self.resources.settings.news_until)
        yield view
        with self._lock:
            self._views[run_id] = view
            if len(self._views) > _MAX_VIEWS:
                self._views.popitem(last=False)

    def without_open_prices(self, state: TradingState) -> NoOpenPrices | None:
        """The error about traded symbols with closes and no opens in the window; None without any."""
        bars = self.resources.store.snapshot(state["data_ref"])["ohlcv"]
        window = self.sessions(state)
        opens, closes = (bars[field].loc[window].notna().any() for field in ("open", "close"))
        traded = set(split_codes(request_of(state)["checked"].get("trade", ""))) & {*opens.index}
        lacking = [
            symbol for symbol in sorted(traded or {*opens.index}) if closes[symbol] and not opens[symbol]
        ]
        if not lacking:
            return None
        shown = ", ".join(lacking[:5]) + (" …" if len(lacking) > 5 else "")
        return NoOpenPrices(
            f"{shown}: closes and no open prices, and orders fill at the open; give bars with opens, or "
            "stop at the signal: --signal-only, RunSpec(trade=False)",
            symbols=tuple(lacking),
        )

    def check_tradable(self, symbols: Iterable[str]) -> None:
        """Raise ``UnknownSymbol`` if the rulebook does not know a symbol, or the kind of a fund."""
        wanted = list(symbols)
        unknown = [symbol for symbol in wanted if not self._has_board(symbol)]
        if unknown:
            if elsewhere := market_elsewhere(unknown[0]):
                raise UnknownSymbol(
                    f"{unknown[0]} is of {elsewhere[0]}, whose trading rules are not built: a signal can be "
                    "made and checked (--signal-only, in Python trade=False), and traded under plain rules "
                    f"without costs in {elsewhere[1]} (--costs none, in Python "
                    f"rules=Rulebook.plain({elsewhere[1]!r}))",
                    symbols=tuple(unknown),
                )
            raise UnknownSymbol(
                f"the rulebook {self.rules.name} has no board for {', '.join(unknown[:5])}"
                f"{' …' if len(unknown) > 5 else ''}; {_KNOWN_CODES[self.rules.market]}",
                symbols=tuple(unknown),
            )
        for symbol in wanted:
            self.rules.t_plus(symbol, dt.date.max)

    def run_context(self, run_id: str, state: TradingState) -> RunContext:
        """Return what the running node hands to the decisions of a run."""
        ledger, days = self.ledger_of(run_id), self.sessions(state)
        context = RunContext(
            plan=self.plan_of(state),
            start=days[0] if len(days) else None,
            rule=request_of(state)["checked"].get("rule", ""),
            language=language({"messages": [], **state}),
            history=partial(ledger.history, run_id),
            gives_exits=partial(ledger.gives_exits, run_id),
            last=partial(ledger.last_session, run_id),
            kept=self._kept.setdefault(run_id, {}),
            model=self.model,
            log_step=partial(ledger.log_step, run_id),
        )
        scope = current_scope()
        if scope is None:  # a node outside of a graph
            return context
        return replace(context, scope=branch, check=scope.raise_fatal)

    def close(self, run_id: str) -> None:
        """Close a run's own ledger and recording and drop its view; the next use opens them again."""
        self.resources.recorder.close(run_id)
        with self._lock:
            self._views.pop(run_id, None)
            self._kept.pop(run_id, None)
            ledger = self._open.pop(run_id, None)
        if ledger is not None:
            ledger.close()

    def strategy(self, state: TradingState) -> dict[str, Any]:
        """Return the strategy of the traded signal; empty for a decider that uses none, else ``NoSignal``."""
        if not self.resources.makes_signal:
            return {}
        if not (strategy := strategy_of(state)):
            raise NoSignal(
                "there is nothing to trade: the state has no strategy; run the signal subgraph first"
            )
        return strategy

    def sessions(self, state: TradingState) -> pd.DatetimeIndex:
        """Return the sessions to trade: the data's in the requested window.

        Sessions before the strategy's signal counts are excluded, if the decider uses the signal.
        """
        strategy = self.strategy(state)
        index = self.resources.store.snapshot(state["data_ref"])["ohlcv"]["open"].index
        request = request_of(state)["checked"]
        first = request["start"]
        first = max(first, strategy.get("evaluated_from") or first)
        return sessions_between(index, session_of(first), session_of(request["end"]))

    def model(self, role: str) -> BaseChatModel:
        """Return the model of one of the decider's roles, built once."""
        decider = ModelDecider.of(self.decider)
        if role not in decider.roles:
            raise BadOption(
                f"role {role!r} is not among the roles of decider {decider.name!r}: "
                f"{', '.join(decider.roles) or 'none: a decider that asks models is a ModelDecider'}",
                parameter="role",
            )
        with self._lock:
            if role not in self._models:
                settings = settings_of(decider, role, self.resources.settings)
                self._models[role] = role_model(
                    role, model=self.resources.model, settings=settings, keyless=decider.keyless
                )
            return self._models[role]

    def _has_board(self, symbol: str) -> bool:
        try:
            self.rules.board(symbol)
        except UnknownSymbol:
            return False
        return True


def make_trading(
    resources: Resources,
    *,
    rules: Rulebook | None = None,
    cash: Decimal | float | str | None = None,
    mark_at: MarkAt = "close",
    plan: TradePlan | None = None,
    approve: bool = False,
    context: str | None = None,
) -> Trading:
    """Check the arguments of :func:`create_trading_graph`, and fill in their defaults."""
    _check_arguments(rules, resources.decider, mark_at, plan)
    trader, settings = resources.decider or SignalRule(), resources.settings or load_settings()
    market = open_source(resources.source, settings=settings)
    book = rules or _rules_of(market)
    market = market.of_market(book.market) if isinstance(market, FrameSource) else market
    resources = replace(resources, decider=trader, source=market, settings=settings)
    return Trading(
        resources=open_resources(resources, in_run_folders=True),
        decider=trader,
        rules=book,
        cash=None if cash is None else _positive(cash),
        mark_at=mark_at,
        plan=plan or TradePlan(),
        approve=approve,
        context=context,
    )


def _rules_of(source: MarketDataSource) -> Rulebook:
    try:
        return rules_of(source)
    except BadFile:  # the run that reads it says so
        return Rulebook.mainland()


def _check_arguments(rules: object, decider: object, mark_at: str, plan: object) -> None:
    if not isinstance(plan, TradePlan | None):
        raise BadOption(
            f"plan must be a TradePlan, such as TradePlan(stop_loss=0.08), not {plan!r}", parameter="plan"
        )
    if not isinstance(rules, Rulebook | None):
        raise BadOption(
            f"rules must be a Rulebook, such as Rulebook.mainland() or Rulebook.us(), not {rules!r}",
            parameter="rules",
        )
    if decider is not None:
        check_decider(decider)
    if mark_at not in get_args(MarkAt):
        raise BadOption(f"mark_at must be 'close' or 'open', not {mark_at!r}", parameter="mark_at")


def _positive(cash: Decimal | float | str) -> Decimal:
    amount = Account.opening(cash).cash
    if amount <= 0:
        raise BadOption(f"cash must be above 0, not {cash}", parameter="cash")
    return amount
