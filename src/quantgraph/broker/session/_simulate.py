"""Simulated sessions: a decider is asked, and its sessions are traded in a loop, in blocks, and as a run.

Blocks need numba, which takes a second to import and to load what it compiled before; on a new machine it
compiles for some fifteen seconds. A thread does that while the signal is made and proved. Where numba is not
installed, the same fills are made order by order.
"""

from __future__ import annotations

import logging
import sys
import threading
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from decimal import Decimal
from functools import partial
from importlib.metadata import version
from importlib.util import find_spec
from pathlib import Path
from time import monotonic
from typing import TYPE_CHECKING, Any, cast

import numpy as np
import pandas as pd
from typing_extensions import TypedDict

from quantgraph._util.canonical_json import canonical_json, content_hash, json_copy
from quantgraph._util.packages import wing
from quantgraph._util.texts import Note
from quantgraph.broker._decider import Decider, DecisionContext, ModelDecider, RunContext
from quantgraph.broker._plan import ExitRule, TradePlan
from quantgraph.broker.accounts._account import Account
from quantgraph.broker.accounts._orders import (
    BlockRule,
    Decision,
    Fill,
    Order,
    Outcome,
    escape_surrogates,
    number_text,
)
from quantgraph.broker.accounts._quotes import Quote
from quantgraph.broker.accounts._results import Block, SessionResult
from quantgraph.broker.session._exits import ExitBook
from quantgraph.broker.session._matching import reference_price
from quantgraph.broker.session._session import Market, Session
from quantgraph.errors import BadOption, BadWindow, BudgetExceeded, LedgerConflict
from quantgraph.market import Moment, Rulebook, session_of
from quantgraph.market.money import Side
from quantgraph.market.rules import OrderType
from quantgraph.state import DataState, GrowingView, View, deciding, first_change

if TYPE_CHECKING:
    from quantgraph.broker.ledger._files import Opening
    from quantgraph.broker.ledger._ledger import Ledger


BLOCKS_FROM = 50_000
"""Cells (sessions times symbols) of the data from which blocks are worth compiling for."""
LOADED_FROM = 5_000
"""Cells from which they are worth loading what was compiled before."""
NOTES_LIMIT = 1_000_000
"""Characters of a decision's notes, as JSON."""
BLOCK_SESSIONS = 128
"""Most sessions of a step of the graph, and the fewest of a block: enough to make up for its start."""
TOGETHER = 64
"""Sessions that are committed together where no model is asked, order by order."""
_TOGETHER_SECONDS = 0.2
"""Seconds after which a decider of one's own has its sessions committed."""
_STEP_CELLS = 25_600
"""Sessions times symbols of a step of a decider of one's own, half of them under a plan with exits."""
BLOCK_CELLS = 1_000_000
"""Sessions times symbols of a longer block, which keep its arrays at some 100 MB."""
_ORDER = tuple(each.name for each in fields(Order) if each.name != "trigger")
_LOG = logging.getLogger(__name__)
_FOLDER = Path(__file__).parents[1] / "blocks"
_loaded = threading.Event()
_lock = threading.Lock()
_threads: list[threading.Thread] = []


def collect_decision(decider: Decider, context: DecisionContext, rule: BlockRule | None = None) -> Decision:
    """Call the decider, and copy what it returns; one whose block rule does not trade what it holds is not.

    If it leaves the end of its session's budget to the run, the session has no orders, and the notes say why.

    Raises
    ------
    BadOption
        If it returns neither a decision nor a list of orders, or exit rules beside a block rule.
    """
    if rule and not rule.trades and context.account.positions:
        return Decision([])
    with deciding(context.view.moment):
        try:
            returned = decider.decide(context)
        except BudgetExceeded as error:
            if error.data.get("of") != "session":
                raise
            returned = Decision(notes={"error": error.line})
        context.check()
        decision = validate_decision(decider.name, returned, context.session)
    if rule and decision.exits:
        raise BadOption("a decider with a block rule gives no exit rules", parameter="exits")
    return decision


def check_decider(decider: object) -> Decider:
    """Return the decider.

    Raises
    ------
    BadOption
        If it is not an instance of :class:`Decider`, or has roles and is not a :class:`ModelDecider`.
    """
    if isinstance(decider, Decider):
        if hasattr(decider, "roles") and not isinstance(decider, ModelDecider):
            raise BadOption(
                f"decider {decider.name!r} has roles; a decider that asks models must be a ModelDecider",
                parameter="decider",
            )
        return decider
    if isinstance(decider, type):
        wanted = f"an instance, {decider.__name__}(...), not the class {decider.__name__}"
    else:
        wanted = f"an instance of quantgraph.broker.Decider, which {decider!r:.60} is not"
    raise BadOption(f"decider must be {wanted}", parameter="decider")


def validate_decision(name: str, returned: object, session: pd.Timestamp) -> Decision:
    """Copy what a decider returned, so that later changes to its own objects have no effect.

    Raises
    ------
    BadOption
        If it is neither a decision nor a list of orders, the notes are not plain JSON of at most
        :data:`NOTES_LIMIT` characters, or two exit rules are for one symbol.
    """
    decision = returned if isinstance(returned, Decision) else None
    listed = returned if decision is None else decision.orders
    orders = list(listed) if isinstance(listed, list | tuple) else [None]
    where = f"decider {name!r} returned {{}} on {session:%Y-%m-%d}"
    if not all(isinstance(order, Order) for order in orders):
        raise BadOption(
            f"{where.format(f'{listed!r:.80}')}; must be a Decision or a list of Order", parameter="decider"
        )
    # What a plan reached is the broker's to say.
    copies = [Order(**{part: getattr(order, part) for part in _ORDER}, trigger="") for order in orders]
    if decision is None:
        return Decision(copies)
    exits: Sequence[Any] = decision.exits if isinstance(decision.exits, list | tuple) else [None]
    one_each = all(isinstance(rule, ExitRule) for rule in exits)
    if not one_each or len({each.symbol for each in exits}) < len(exits):
        raise BadOption(
            f"{where.format(f'exits {exits!r:.80}')}; must be a list of ExitRule, one a symbol",
            parameter="exits",
        )
    notes = _plain(decision.notes, where)
    rules = [ExitRule.of(rule.to_json()) for rule in exits]  # what a later session reads in the ledger
    return Decision(copies, notes=notes, in_order=bool(decision.in_order), exits=rules)


def _plain(notes: object, where: str) -> dict[str, Any]:
    copied = json_copy(notes)
    if not isinstance(copied, dict) or len(canonical_json(copied)) > NOTES_LIMIT:
        raise BadOption(
            f"{where.format('notes')} that are not valid; must be a dict of plain JSON (text keys, no NaN, "
            f"no tuples) of at most {NOTES_LIMIT:,} characters",
            parameter="notes",
        )
    return copied


class OrderProposal(TypedDict):
    """An order with what is known of it at the open. Numbers are exact texts."""

    sequence: int
    symbol: str
    side: Side | None
    """None for a target that would be refused."""
    shares: str | None
    """None for a target that would be refused."""
    price: str | None
    """The open, or the limit where the open is not as good; None where there is no price."""
    type: OrderType
    wish: str
    """The size as the decider gave it, ``target_weight 0.5``."""
    reason: str
    """The decider's reason."""
    refused: str | None
    """Why it would be refused, ``code: message``; None if it would be filled."""


def propose_orders(session: Session, decision: Decision) -> list[OrderProposal]:
    """The orders as shown to a person who approves them, in the order of submission.

    Raises
    ------
    BadOption
        If two orders have the same sequence.
    """
    trial = session.copy(pending=False)
    trial.batch(decision.orders, in_order=decision.in_order)
    return [_proposal(cast("Outcome", outcome), trial.quotes) for outcome in trial.outcomes]


def _proposal(outcome: Outcome, quotes: Mapping[str, Quote]) -> OrderProposal:
    order = outcome.order
    name, size = order.size
    side, shares = order.side, order.quantity
    price, refused = reference_price(order, quotes.get(order.symbol)), None
    if isinstance(outcome, Fill):
        side, shares, price = outcome.side, outcome.quantity, outcome.price
    else:
        refused = f"{outcome.code}: {escape_surrogates(outcome.message)}"
    return {
        "sequence": order.sequence,
        "symbol": escape_surrogates(order.symbol),
        "side": side,
        "shares": None if shares is None else number_text(shares),
        "price": None if price is None else number_text(price),
        "type": order.type,
        "wish": f"{name} {number_text(size)}",
        "reason": escape_surrogates(order.reason),
        "refused": refused,
    }


def simulate(
    market: Market,
    sessions: Iterable[object],
    decider: Decider,
    *,
    account: Account,
    plan: TradePlan | None = None,
) -> Iterator[SessionResult]:
    """Trade one session after the other, order by order, and yield the results.

    Parameters
    ----------
    plan
        Sizes, schedules and exits. Default: equal slots, each session, no exits.

    Raises
    ------
    BadWindow
        If they are not consecutive sessions of the data.
    """
    check_decider(decider)
    growing_view, results = market.store.growing_view(market.data_ref), list[SessionResult]()
    days = _check_days(market, sessions)
    run = RunContext(
        plan=plan or TradePlan(),
        start=days[0] if days else None,
        history=lambda: results,
        gives_exits=lambda: any(result.exits for result in results),
    )
    exits = exits_of(run, market)
    for day in days:
        session = Session.open(market, day, account, exits)
        context = context_of(session, growing_view.at(Moment(day, "open")), run)
        result = session.close(collect_decision(decider, context), decider=decider.name)
        yield result
        results.append(result)
        account = result.account


def exits_of(run: RunContext, market: Market) -> ExitBook:
    """The exits of a run after its sessions so far."""
    kept: ExitBook | None = run.kept.get("exits")
    if kept is None or not kept.continues(market.data_ref, run.last()):
        has_rules = not run.plan.follows and run.gives_exits()
        kept = run.kept["exits"] = ExitBook(
            run.plan, market.store, market.data_ref, market.rules, run.history, has_rules=has_rules
        )
    return kept


def context_of(session: Session, view: View | Callable[[], View], run: RunContext | None) -> DecisionContext:
    """The context of a decider at the open of a session."""
    return DecisionContext(
        view,
        session.account,
        rules=session.rules,
        run=run,
        exits=session.exits,
        exited=session.exited,
        sold=session.sold,
        followed=session.followed,
    )


def advance(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    account: Account,
    run: RunContext | None = None,
    growing_view: GrowingView | None = None,
) -> Iterator[SessionResult | Block]:
    """Trade sessions in blocks where the decider has a :class:`BlockRule`, else one by one.

    Parameters
    ----------
    growing_view
        One of the market's commit; calls for successive parts of a run share one.
    """
    for done in _advance(market, sessions, decider, account, run or RunContext(), growing_view, None, []):
        yield from (done,) if isinstance(done, Block) else done


def _advance(  # noqa: PLR0917 - as in advance()
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    account: Account,
    run: RunContext,
    growing_view: GrowingView | None,
    at_least: int | None,
    results: list[SessionResult],
) -> Iterator[Sequence[SessionResult] | Block]:
    """Like :func:`advance`; results of sessions that may be committed together come together.

    It stops after ``at_least`` sessions of a decider that asks models, after a step of at least as many of
    one without a block rule. ``results`` are not committed yet; who commits them empties it.
    """
    view = growing_view or market.store.growing_view(market.data_ref)
    asks, left = isinstance(decider, ModelDecider), list(sessions)
    step = max(at_least or len(left), 0 if asks else _step_of(market, run.plan))
    exits, refused = exits_of(run, market), cast("_Refused", run.kept.setdefault("refused", _Refused()))

    def open_session(day: pd.Timestamp, account: Account) -> tuple[Session, DecisionContext]:
        session = Session.open(market, day, account, exits)
        return session, context_of(session, partial(view.at, Moment(day, "open")), run)

    while left:
        session, context = open_session(left[0], account)
        rule = decider.block_rule(context)
        part = left[:1] if asks else _next_part(market, left, rule, account, exits, refused)
        if isinstance(part, Block):
            yield part
            account, traded = part.account, len(part.sessions)
        else:
            traded, failed = 0, None
            for day in part if rule else _in_time(part[: max(1, step)]):
                try:
                    if traded:
                        session, context = open_session(day, account)
                    decision = collect_decision(decider, context, rule)
                    results.append(session.close(decision, decider=decider.name))
                except BaseException as error:  # noqa: BLE001 - raised after those before it are recorded
                    failed = error
                    break
                account, traded = results[-1].account, traded + 1
            yield results
            results.clear()
            if failed:
                raise failed
        left, step = left[traded:], step - traded
        if step <= 0 and (asks or rule is None):
            return


def _step_of(market: Market, plan: TradePlan) -> int:
    """Sessions of a step of a decider of one's own, by what a run's identity fixes, data and plan."""
    symbols = market.store.snapshot(market.data_ref)["ohlcv"]["open"].shape[1]
    return max(1, min(BLOCK_SESSIONS, _STEP_CELLS // max(1, symbols * (1 + plan.exits))))


def _in_time(days: Iterable[pd.Timestamp]) -> Iterator[pd.Timestamp]:
    """The first of some days: no other follows after :data:`_TOGETHER_SECONDS`."""
    begun = monotonic()
    for day in days:
        yield day
        if monotonic() > begun + _TOGETHER_SECONDS:
            return


def _next_part(  # noqa: PLR0917 - what _advance() has
    market: Market,
    left: Sequence[pd.Timestamp],
    rule: BlockRule | None,
    account: Account,
    exits: ExitBook,
    refused: _Refused,
) -> Block | Sequence[pd.Timestamp]:
    """The next sessions as a block that was traded, or those to be traded order by order."""
    if rule is None or not _worth_blocks(market):
        return left[:TOGETHER]
    if beyond := exits.beyond_arrays:
        refused.why = beyond
        return left[:TOGETHER]
    if not refused.next(left[:1]):
        index = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
        longest = max(BLOCK_SESSIONS, BLOCK_CELLS * len(index) // max(1, _cells(market)))
        # The arrays of the data's first session are copies, because none is before it; others are views.
        length = BLOCK_SESSIONS if left[0] == index[0] else longest
        block = _trade_block(market, left[:length], rule, account, exits)
        refused.tried(market, left, block, rule.plan.rank)
        if block:
            return block
    return refused.next(left[:TOGETHER])


def open_market_run(
    ledger: Ledger,
    run_id: str,
    market: Market,
    decider: Decider,
    *,
    cash: Decimal | float | str,
    end: str,
    plan: TradePlan | None = None,
    also: Mapping[str, Any] | None = None,
    opening: Opening | None = None,
) -> None:
    """Begin a run in the ledger, or go on with it up to ``end``, on data that may be longer than before.

    A run that has no session begins with those of ``opening``.

    What must not change within a run is its first line: the market's rules, the decider with its options, the
    plan, and ``also``. Of the data what was known at the close of its last session must not have changed.

    Raises
    ------
    LedgerConflict
        If one of them differs; names the first cell or record of the data that does.
    """
    plan_json = plan.to_json() if plan else {}
    identity = {**market.identity, "decider": decider.name, "options": dict(decider.options)}
    identity |= {"plan": plan_json} if plan_json else {}
    ledger.open_run(run_id, cash, identity | dict(also or {}))
    before, last = ledger.windows(run_id)[-1:], ledger.last_session(run_id)
    if opening and last is None:
        opening(ledger, run_id, market)
    if before == [(end, market.data_ref)]:
        return
    if before and last is not None and before[0][1] != market.data_ref:
        refs = (before[0][1], market.data_ref)
        was, now = (market.store.view(Moment(last, "close"), ref) for ref in refs)
        if changed := first_change(was, now):
            raise LedgerConflict(
                f"run {run_id!r} exists with other data up to {last:%Y-%m-%d}: {changed}; give the data that "
                "it was traded on, longer if need be, or begin a new run",
                run_id=run_id,
                changed=changed,
            )
    ledger.extend(run_id, end, market.data_ref)


def run_sessions(
    market: Market,
    sessions: Iterable[object],
    decider: Decider,
    *,
    cash: Decimal | float | str,
    ledger: Ledger,
    run_id: str,
    plan: TradePlan | None = None,
) -> Account:
    """Run a decider over sessions into the ledger, and return the account after the last one.

    A run that the ledger has already continues after its last committed session.

    Raises
    ------
    LedgerConflict
        If the ledger holds a run of this name with other cash, data, decider, rules or sessions.
    BadWindow
        If they are not consecutive sessions of the data.
    """
    days = _check_days(market, sessions)
    end = f"{days[-1]:%Y%m%d}" if days else ""
    open_market_run(ledger, run_id, market, check_decider(decider), cash=cash, end=end, plan=plan)
    if (recorded := ledger.sessions(run_id)) != days[: len(recorded)]:
        raise LedgerConflict(
            f"run {run_id!r} has {len(recorded)} sessions that are not the first of the {len(days)} sessions",
            run_id=run_id,
        )
    run = RunContext(
        plan=plan or TradePlan(),
        start=days[0] if days else None,
        history=partial(ledger.history, run_id),
        gives_exits=partial(ledger.gives_exits, run_id),
        log_step=partial(ledger.log_step, run_id),
    )
    commit_sessions(market, days[len(recorded) :], decider, ledger=ledger, run_id=run_id, run=run)
    return ledger.account(run_id)


def commit_sessions(
    market: Market,
    sessions: Sequence[pd.Timestamp],
    decider: Decider,
    *,
    ledger: Ledger,
    run_id: str,
    run: RunContext,
    growing_view: GrowingView | None = None,
    at_least: int | None = None,
    on_session: Callable[[pd.Timestamp, Decimal], None] = lambda _session, _value: None,
) -> Note | None:
    """Trade and commit sessions after a run's last one; return why compiled code has refused some, if it has.

    A session of a decider that asks models is one transaction. Others are one together: a block, or up to
    :data:`TOGETHER` order by order. A decision that reads the run's history has all before it committed.

    For ``run``, ``growing_view`` and ``at_least`` see :func:`_advance`. ``on_session`` gets each
    committed session and the account's value at its end.
    """
    account, results = ledger.account(run_id), cast("list[SessionResult]", run.kept.setdefault("results", []))
    results.clear()

    def commit() -> None:
        done = ledger.commit_days(run_id, results) if results else []
        results.clear()
        for result in done:
            on_session(result.session, result.value)

    def history() -> Sequence[SessionResult]:
        commit()
        return run.history()

    run_so_far = replace(run, history=history)
    for done in _advance(market, sessions, decider, account, run_so_far, growing_view, at_least, results):
        if isinstance(done, Block):
            ledger.commit_block(run_id, account, done.days, done.account)
            for session, value in zip(done.sessions, done.values, strict=True):
                on_session(session, value)
            account = done.account
        elif done:
            account = done[-1].account
            commit()
    return cast("_Refused", run.kept.get("refused", _Refused())).why


@dataclass
class _Refused:
    """What array code has refused of a run: it is not asked again before ``until``, and ``why``.

    Where the reason is of single sessions, each refusal in a row doubles the ``wait``.
    """

    until: pd.Timestamp | None = None
    wait: int = 1
    why: Note | None = None

    def next(self, sessions: Sequence[pd.Timestamp]) -> Sequence[pd.Timestamp]:
        """Return those of the next sessions that are traded order by order."""
        return sessions[: 0 if self.until is None else bisect_left(sessions, self.until)]

    def tried(
        self, market: Market, sessions: Sequence[pd.Timestamp], block: Block | None, rank: str | None
    ) -> None:
        """Take note of a try, whose block is None where it was refused; ``rank`` is the plan's."""
        if block:
            self.wait = 1
            return
        lasting: Note | None = wing("blocks").lasting_refusal(market, rank)
        self.why = lasting or Note(zh="个别交易日", en="single sessions")
        self.until = pd.Timestamp.max if lasting else sessions[: self.wait][-1] + pd.Timedelta(days=1)
        self.wait = min(2 * self.wait, TOGETHER)


def _trade_block(
    market: Market, sessions: Sequence[pd.Timestamp], rule: BlockRule, account: Account, exits: ExitBook
) -> Block | None:
    """Trade a block where array code can, and let the exits go on after it."""
    block: Block | None = wing("blocks").trade_block(
        market, sessions, rule, account, exits if exits.follows else None
    )
    if block and not exits.follows:
        exits.skip(block.sessions[-1])
    return block


def is_block_code_loaded() -> bool:
    """Whether this process has the compiled code."""
    return _loaded.is_set()


def load_block_code(cells: int, cache: Path) -> None:
    """Begin to load the code in a thread, once in a process, if data of so many cells are worth it.

    Parameters
    ----------
    cells
        Sessions times symbols of the data.
    cache
        Folder of the marks that it was compiled on this machine. Without its mark it is loaded only for data
        that are worth compiling for.
    """
    if not _has_numba():
        return
    mark = cache / f"compiled-{_identity()}"
    if is_block_code_loaded() or cells < (LOADED_FROM if mark.exists() else BLOCKS_FROM):
        return
    with _lock:
        if not _threads:
            _threads.append(
                threading.Thread(target=_load, args=(mark,), name="quantgraph-blocks", daemon=True)
            )
            _threads[0].start()


def _has_numba() -> bool:
    return find_spec("numba") is not None


def _identity() -> str:
    """What the compiled code depends on, so that a mark of another one does not count."""
    files = [
        [path.name, path.stat().st_mtime_ns, path.stat().st_size] for path in sorted(_FOLDER.glob("*.py"))
    ]
    facts = {"folder": str(_FOLDER), "files": files, "python": sys.version, "numba": version("numba")}
    return content_hash(canonical_json(facts), size=8)


def _load(mark: Path) -> None:
    if compile_block_code():
        try:
            mark.parent.mkdir(parents=True, exist_ok=True)
            mark.touch()
        except OSError as error:  # blocks are traded all the same
            _LOG.info("%s cannot be written; small runs are traded order by order: %s", mark, error)
    _loaded.set()


def compile_block_code() -> bool:
    """Trade two sessions, which loads or compiles all of the code; return whether it is kept on the disk."""
    blocks = wing("blocks")  # numba takes a second to import
    days = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"], name="trade_date")
    prices = pd.DataFrame(10.0, index=days, columns=["600000.SH", "600519.SH"])
    store = DataState()
    ref = store.update("ohlcv", {"open": prices, "close": prices})
    ref = store.update("signal", {"s": prices * np.array([[0.1], [-0.1], [0.1]])}, base=ref)
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())
    rule, account = BlockRule(name="signal_rule", trades=True), Account.opening(Decimal(100_000))
    block = blocks.trade_block(market, list(days[1:]), rule, account)
    assert block is not None  # noqa: S101 - such a block has no need of the order-by-order path
    block.write()
    return bool(blocks.is_kept_on_disk())


def _cells(market: Market) -> int:
    """Sessions times symbols of the data."""
    return int(market.store.snapshot(market.data_ref)["ohlcv"]["open"].size)


def _worth_blocks(market: Market) -> bool:
    """Whether it is worth trading in blocks."""
    least = market.blocks_from
    if least is None:
        least = 0 if is_block_code_loaded() else BLOCKS_FROM
    return _has_numba() and _cells(market) >= least


def _check_days(market: Market, sessions: Iterable[object]) -> list[pd.Timestamp]:
    if isinstance(sessions, str):
        raise BadWindow(f"sessions={sessions!r}; must be a list of sessions", parameter="sessions")
    days = [session_of(session) for session in sessions]
    known = market.store.snapshot(market.data_ref)["ohlcv"]["open"].index
    for place, day in enumerate(days):
        if day not in known:
            raise BadWindow(f"{day:%Y-%m-%d} is not a session of the data", session=str(day.date()))
        if place and day <= days[place - 1]:
            raise BadWindow(
                f"{day:%Y-%m-%d} does not come after {days[place - 1]:%Y-%m-%d}", session=str(day.date())
            )
        if place and known.searchsorted(day) != known.searchsorted(days[place - 1]) + 1:
            raise BadWindow(
                f"the data has sessions between {days[place - 1]:%Y-%m-%d} and {day:%Y-%m-%d}; none may be "
                "left out, because dividends and splits happen in them; a decider may return no orders",
                session=str(day.date()),
            )
    return days
