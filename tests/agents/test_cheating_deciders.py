"""Two promises hold with a decider that tries to cheat through everything it is handed.

No future: of what is not known yet it finds nothing through what it is handed. Nothing lost, nothing twice:
whatever it does to the account and to orders ends in a typed error or in the exact ledger.
"""

from __future__ import annotations

import contextvars
import copy
import dataclasses
import gc
import pickle
import re
import sqlite3
import sys
import threading
import types
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from numpy.lib.stride_tricks import as_strided
from one_session import trade_session
from reachable import reachable

from quantgraph.broker import Account, Decider, Market, Order
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.session import run_sessions
from quantgraph.errors import BadOption, FutureRequested, LedgerConflict, QuantGraphError
from quantgraph.market import Moment, Rulebook
from quantgraph.state import DataState, Record

pytestmark = pytest.mark.proof

DAYS = pd.bdate_range("2019-07-01", periods=64)
CODES = ["AAA", "BBB", "CCC", "DDD"]
FIELDS = ["pre_close", "adj_factor", "open", "close", "vol", "pe"]
"""The first three are known at the open of their session, the others after it."""
MARK = 0.34375
CASH = 10_000_000


def cell(place, field, code):
    """A number that tells where it stands: 1000 for each session, 10 for each field, 1 for each symbol."""
    return 1000.0 * (place + 1) + 10 * FIELDS.index(field) + code + MARK


@pytest.fixture(scope="module")
def market():
    def frame(field, rows=64):
        made = [[cell(place, field, code) for code in range(4)] for place in range(rows)]
        return pd.DataFrame(made, index=DAYS[:rows], columns=CODES)

    store = DataState()
    cash = pd.DataFrame({"BBB": [500 + place + MARK for place in range(15, 64, 16)]}, index=DAYS[15::16])
    store.update("ohlcv", {"dividend": cash, **{name: frame(name) for name in FIELDS[:5]}})
    store.update("indicators", {"pe": frame("pe", 32)})
    ref = store.record(
        Record("news", day.to_pydatetime().replace(hour=10), "AAA", {"text": f"secret-{place:04}"})
        for place, day in enumerate(DAYS)
    )
    return Market(store=store, data_ref=ref, rules=Rulebook.zero_cost("us"))


def later(number, today):
    """Whether a number stands where nothing is known at the open of session number ``today``."""
    if number < 1000:  # a dividend, known on the morning of its day
        return number - 500 >= today + 1
    place, field = int(number // 1000) - 1, int(number % 1000 // 10)
    return field <= 5 and number % 10 < 4 and (place > today or (place == today and field >= 3))


def numbers_of(thing):
    if isinstance(thing, float):
        return [thing]
    try:
        raw = bytes(
            memoryview(np.ascontiguousarray(thing) if isinstance(thing, np.ndarray) else thing).cast("B")
        )
    except (TypeError, ValueError, BufferError):
        return []
    return np.frombuffer(raw[: len(raw) // 8 * 8])


def found(things, today):
    """What is later than today, and how many numbers of the panel were seen at all."""
    hits, seen = [], 0
    for thing in things:
        if isinstance(thing, str):
            hits += [text for text in re.findall("secret-([0-9]{4})", thing) if int(text) >= today]
            continue
        numbers = np.asarray(numbers_of(thing), dtype=float)
        numbers = numbers[(numbers >= 500) & (numbers < 200_000)]
        numbers = numbers[numbers % 1 == 0.34375]
        seen += len(numbers)
        hits += [number for number in numbers.tolist() if later(number, today)]
    return hits, seen


def wish(view):
    """An honest decision: the two that gained most hold a tenth each, in turns."""
    close = view["ohlcv"]["close"]
    if len(close) < 3:
        return []
    first = len(close) % 4
    symbols = {CODES[first]: Decimal("0.1"), CODES[first - 1]: Decimal(0), CODES[first - 2]: Decimal("0.3")}
    return [
        Order(symbol=symbol, target_weight=w, sequence=n) for n, (symbol, w) in enumerate(symbols.items(), 1)
    ]


class Honest(Decider):
    name = "decider"

    def decide(self, context):
        view = context.view
        return wish(view)


def lines(path):
    connection = sqlite3.connect(path)
    rows = connection.execute("select session, kind, body, hash from journal order by line").fetchall()
    connection.close()
    return rows


def run(market, decider, path, days=DAYS):
    with Ledger(path) as ledger:
        try:
            run_sessions(market, days, decider, cash=CASH, ledger=ledger, run_id="r")
        finally:
            ledger.check("r")
    return lines(path)


@pytest.fixture(scope="module")
def expected(market, tmp_path_factory):
    """The ledger of the honest twin."""
    return run(market, Honest(), tmp_path_factory.mktemp("honest") / "l.sqlite")


# No future ----------------------------------------------------------------------


REACHED: list[DataState] = []
"""Data states, as any code in this process may come by one: an import of GLOBAL_DATA_STATE is enough."""


class Cheat(Honest):
    """Looks through all that it is handed, and writes into all of it."""

    def __init__(self, market):
        REACHED.append(market.store)
        self.hits, self.seen, self.got = [], [], []

    def decide(self, context):
        view, account, session = context.view, context.account, context.session
        orders, today = super().decide(context), DAYS.get_loc(session)
        for panel in view:
            for frame in view[panel].values():
                frame.index.get_loc, frame.sum(), frame.columns.get_indexer(CODES)
        view.adjusted(), view.actions(), view.records("news"), view.frozen(), view.numbers("ohlcv", "open")
        copies = [
            copy.copy(view),
            copy.deepcopy(view),
            pickle.loads(pickle.dumps(view)),
            pickle.dumps(account),
        ]
        mine = {
            name: value for name, value in sys._getframe().f_locals.items() if name not in ("self", "orders")
        }
        roots = [view, view.row, view.actions, view["ohlcv"].values, account, session, copies, mine]
        things = list(reachable(*roots))
        hits, seen = found(things, today)
        self.hits += hits + self.strides(view, today)
        self.seen.append(seen)
        self.ask(view.data_ref, DAYS[min(today + 1, len(DAYS) - 1)], view)
        self.write(view, account, things)
        return orders

    def strides(self, view, today):
        values = view["ohlcv"]["close"].to_numpy()
        beyond = as_strided(values, (len(DAYS), 4), values.strides) if len(values) else values
        return found([beyond], today)[0]

    def ask(self, ref, tomorrow, view):
        """Everything that a store gives, in this thread and in one with this context."""
        store = REACHED[-1]
        ways = {
            "snapshot": lambda: store.snapshot(ref),
            "field": lambda: store.get_field("ohlcv", ref),
            "later": lambda: store.view(Moment(tomorrow, "close"), ref),
            "walk": lambda: store.growing_view(ref),
            "reading": lambda: store.trusted_view(Moment(DAYS[0]), ref),
            "checkout": lambda: store.checkout(ref),
            "another store": lambda: DataState().snapshot(),
        }
        # The moment that it was handed is the one it is held to; writing into it must not move that.
        object.__setattr__(view.moment, "session", DAYS[-1])
        object.__setattr__(view.moment, "phase", "post_close")

        def attempt():
            for way, call in ways.items():
                try:
                    call()
                except FutureRequested:
                    continue
                self.got.append(way)

        attempt()
        thread = threading.Thread(target=contextvars.copy_context().run, args=(attempt,))
        thread.start()
        thread.join()

    def write(self, view, account, things):
        frame = view["ohlcv"]["close"]
        if len(frame):
            frame.iloc[:] = 1.0
        for thing in things:
            if isinstance(thing, np.ndarray):
                for change in ("flags.writeable = True", "[...] = 7", "shape = -1"):
                    try:
                        exec(f"thing{'' if change[0] == '[' else '.'}{change}")
                    except (ValueError, TypeError, AttributeError):
                        continue
            elif dataclasses.is_dataclass(thing) and not isinstance(thing, type):
                for field in dataclasses.fields(thing):
                    value = getattr(thing, field.name)
                    if isinstance(value, int | Decimal):
                        object.__setattr__(thing, field.name, value * 3)
                    elif isinstance(value, np.ndarray):
                        object.__setattr__(thing, field.name, value[:0])
            elif isinstance(thing, types.MappingProxyType):
                for inner in gc.get_referents(thing):
                    inner.clear()
            elif type(thing) is list and thing is not things:
                thing.clear()


@pytest.fixture(scope="module")
def cheated(market, tmp_path_factory):
    cheat = Cheat(market)
    return cheat, run(market, cheat, tmp_path_factory.mktemp("cheat") / "l.sqlite")


def test_what_it_is_handed_leads_to_nothing_later(cheated):
    cheat, _ = cheated
    assert cheat.hits == []
    assert len(cheat.seen) == len(DAYS)
    assert min(cheat.seen[1:]) > 10, "it did see what is known"


def test_no_data_state_gives_it_more_while_it_decides(cheated):
    assert cheated[0].got == []


def test_what_it_writes_changes_nothing_for_the_run(cheated, expected):
    assert cheated[1] == expected


def test_and_nothing_for_a_run_after_it(cheated, market, expected, tmp_path):
    assert run(market, Honest(), tmp_path / "l.sqlite") == expected


def test_a_session_traded_alone_is_as_safe(market):
    for place in (50, len(DAYS) - 1):
        cheat = Cheat(market)
        account = Account.opening(CASH)
        result = trade_session(market, DAYS[place], account, cheat)
        assert result == trade_session(market, DAYS[place], account, Honest())
        assert (cheat.hits, cheat.got) == ([], [])


def test_the_search_finds_what_can_be_found(market):
    today, moment = 50, Moment(DAYS[50], "open")
    for leak in (market.store.trusted_view(moment, market.data_ref), market.store.snapshot(market.data_ref)):
        hits, _ = found(reachable(leak), today)
        assert cell(51, "open", 0) in hits
        assert cell(50, "close", 3) in hits
        assert "0050" in hits
        assert cell(50, "open", 0) not in hits
    whole = market.store.snapshot(market.data_ref)["ohlcv"]["close"].to_numpy()
    assert found([as_strided(whole[:50], whole.shape, whole.strides)], today)[0]


# Nothing lost, nothing twice ---------------------------------------------------------------------


class Misbehaves(Honest):
    """Does as the honest one for ten sessions, and then something else."""

    def __init__(self, trick):
        self._trick, self._day = trick, 0

    def decide(self, context):
        account = context.account
        self._day += 1
        orders = super().decide(context)
        return orders if self._day <= 10 else self._trick(orders, account)


def rich(orders, account):
    for position in account.positions.values():
        object.__setattr__(position, "quantity", 10**9)
        object.__setattr__(position, "sellable", 10**9)
    object.__setattr__(account, "cash", Decimal("1e12"))
    object.__setattr__(account, "receivables", ())
    for inner in gc.get_referents(account.positions):
        inner.pop(next(iter(inner), None), None)
    return orders


KEPT: list[Order] = []


def changed_later(orders, account):
    for order in KEPT:
        object.__setattr__(order, "symbol", "DDD")
        object.__setattr__(order, "sequence", 99)
    KEPT[:] = orders
    return orders


class Fickle(list):
    """Other orders each time it is gone through."""

    def __iter__(self):
        yield from list.__getitem__(self, slice(None))
        self.clear()


class Moody(Order):
    """Says something else each time it is asked."""

    def __getattribute__(self, name):
        value = super().__getattribute__(name)
        if name == "target_weight" and value is not None:
            object.__setattr__(self, "target_weight", value + 1)
        return value


def moody(orders, account):
    made = [Moody(symbol=o.symbol, target_weight=o.target_weight, sequence=o.sequence) for o in orders]
    for mine, order in zip(made, orders, strict=True):
        object.__setattr__(mine, "target_weight", order.target_weight)
    return made


HARMLESS = {
    "writes itself an account": rich,
    "changes orders that it returned before": changed_later,
    "a list that changes while it is read": lambda orders, account: Fickle(orders),
    "orders that change when they are read": moody,
    "a tuple": lambda orders, account: tuple(orders),
}


@pytest.mark.parametrize("trick", HARMLESS)
def test_tricks_that_change_nothing(market, expected, tmp_path, trick):
    rows = run(market, Misbehaves(HARMLESS[trick]), tmp_path / "l.sqlite", DAYS[:40])
    assert rows == expected[: len(rows)]
    assert len(rows) > 120


def raising(orders, account):
    raise KeyError("in the middle")


def half(orders, account):
    for order in orders:
        yield order
        raise RuntimeError("half of them")


REFUSED = {
    "an order twice": (lambda orders, account: [*orders, orders[0]], BadOption),
    "a sequence twice": (
        lambda orders, account: [*orders, Order(symbol="DDD", target_weight=0, sequence=1)],
        BadOption,
    ),
    "a generator": (half, BadOption),
    "an iterator": (lambda orders, account: iter(orders), BadOption),
    "a set": (lambda orders, account: set(orders), BadOption),
    "nothing": (lambda orders, account: None, BadOption),
    "orders among others": (lambda orders, account: [*orders, "buy"], BadOption),
    "a symbol that is none": (
        lambda orders, account: [Order(symbol=["AAA"], target_weight=0, sequence=1)],
        BadOption,
    ),
    "a reason that is none": (
        lambda orders, account: [Order(symbol="AAA", target_weight=0, sequence=1, reason=None)],
        BadOption,
    ),
    "no number": (
        lambda orders, account: [Order(symbol="AAA", target_weight=Decimal("NaN"), sequence=1)],
        BadOption,
    ),
    "an error": (raising, KeyError),
    "an exit": (lambda orders, account: sys.exit(1), SystemExit),
}


@pytest.mark.parametrize("trick", REFUSED)
def test_tricks_that_are_refused_leave_the_ledger_as_it_was_and_the_run_can_go_on(
    market, expected, tmp_path, trick
):
    misbehave, error = REFUSED[trick]
    path = tmp_path / "l.sqlite"
    with pytest.raises(error) as caught:
        run(market, Misbehaves(misbehave), path, DAYS[:30])
    assert isinstance(caught.value, QuantGraphError) or error in (KeyError, SystemExit)
    rows = lines(path)
    assert rows == expected[: len(rows)]
    assert [day for day, kind, *_ in rows if kind == "day"] == [f"{day:%Y-%m-%d}" for day in DAYS[:10]]
    rows = run(market, Honest(), path, DAYS[:30])
    assert rows == expected[: len(rows)]


HUGE = [
    {"target_weight": Decimal("1e999")},
    {"target_value": Decimal("1e999999")},
    {"target_quantity": 10**400},
    {"side": "buy", "quantity": Decimal("1e-400")},
    {"side": "sell", "quantity": -(10**30)},
    {"target_weight": 0, "type": "limit", "limit_price": Decimal("1e-999999")},
]


@pytest.mark.parametrize("size", HUGE, ids=range(6))
def test_numbers_beyond_measure_are_refused_or_rejected(market, expected, tmp_path, size):
    path = tmp_path / "l.sqlite"
    huge = Misbehaves(lambda orders, account: [Order(symbol="AAA", sequence=1, **size)])
    try:
        rows = run(market, huge, path, DAYS[:12])
    except QuantGraphError:
        rows = lines(path)
        assert rows == expected[: len(rows)]
    assert sum(kind == "day" for _, kind, *_ in rows) in (10, 12)


def test_a_decider_that_writes_the_ledger_itself_makes_a_conflict_or_the_same_lines(market, tmp_path):
    with Ledger(tmp_path / "l.sqlite") as ledger:

        class Writes(Honest):
            def __init__(self, other):
                self.other = other

            def decide(self, context):
                view, session = context.view, context.session
                orders = super().decide(context)
                if len(view["ohlcv"]["close"]) == 10 and self.other is not None:
                    other, self.other = self.other, None
                    other(session)
                return orders

        def begin(other, run_id):
            try:
                run_sessions(market, DAYS[:20], Writes(other), cash=CASH, ledger=ledger, run_id=run_id)
            finally:
                ledger.check(run_id)
            return ledger.sessions(run_id), [ledger.order_records(run_id), list(ledger.values(run_id))]

        days, plain = begin(None, "plain")
        # While it decides it starts the very same run, which overtakes it: what it would do is there already.
        with pytest.raises((FutureRequested, LedgerConflict)):
            begin(lambda _: begin(None, "nested"), "nested")
        assert begin(None, "nested") == (days, plain)
        # It commits the session it is asked for, with orders of its own.
        bought = Misbehaves(lambda orders, account: [])
        bought._day = 10

        def commit(session):
            account = ledger.account("own")
            ledger.commit_day("own", trade_session(market, session, account, bought))

        with pytest.raises((FutureRequested, LedgerConflict)):
            begin(commit, "own")
        assert begin(None, "own")[0] == days
