from decimal import Decimal

import pandas as pd
import pytest

from quantgraph.broker import (
    Account,
    Decider,
    Fill,
    Ledger,
    Order,
    Rejection,
    run_sessions,
    simulate,
    trade_session,
)
from quantgraph.errors import BadOption, BadWindow, FutureRequested, LedgerConflict
from quantgraph.market.moment import Moment
from quantgraph.market.rulebook import Rulebook

D = Decimal
RULES = Rulebook.mainland()


class Scripted:
    """Orders by session; keeps what it was shown."""

    name = "scripted"

    def __init__(self, *orders):
        self.orders = dict(orders)
        self.seen = []

    def decide(self, view, account, session):
        self.seen.append((view.moment, account, session))
        return self.orders.get(f"{session:%m-%d}", [])


def order(side, quantity, symbol="600000.SH", sequence=1):
    return Order(symbol=symbol, side=side, quantity=quantity, sequence=sequence)


def views(toy, place):
    store, ref, days = toy
    return store.view(Moment(days[place], "open"), ref), store.view(Moment(days[place], "close"), ref)


def test_a_session_is_filled_at_its_open_and_marked_at_its_close(toy):
    decider = Scripted(("01-03", [order("buy", 1000)]))
    result = trade_session(*views(toy, 1), Account.opening(20_000), decider, RULES)
    # 10,100 + 5 + 0.10, and 1,000 shares at 10.15
    assert result.account.cash == D("9894.90")
    assert result.value == D("20044.90")
    assert (result.session, result.decider) == (toy[2][1], "scripted")
    assert len(result.fills) == 1
    assert result.rejections == ()


def test_the_decider_stands_at_the_open_and_cannot_reach_the_close(toy):
    class Peeking(Scripted):
        def decide(self, view, account, session):
            view.row("ohlcv", "close", session)

    assert isinstance(Peeking(), Decider)
    with pytest.raises(FutureRequested):
        trade_session(*views(toy, 1), Account.opening(1), Peeking(), RULES)


def test_what_was_bought_is_sellable_one_session_later_and_not_before(toy):
    store, ref, days = toy
    decider = Scripted(
        ("01-02", [order("buy", 100)]),
        ("01-03", [order("buy", 100), order("sell", 200, sequence=2)]),
        ("01-04", [order("sell", 200)]),
    )
    results = list(simulate(store, ref, days, decider, account=Account.opening(10_000), rules=RULES))
    # On the third day the sale comes before the buy, when only 100 are held.
    kinds = [[o.code if isinstance(o, Rejection) else o.order.side for o in r.outcomes] for r in results]
    assert kinds == [["buy"], ["buy", "insufficient_shares"], ["sell"], []]
    assert decider.seen[2][1].positions["600000.SH"].sellable == 200


def test_the_views_must_be_one_sessions_open_and_close(toy):
    (first, _), (second, close) = views(toy, 1), views(toy, 2)
    for pair in ((first, close), (close, close), (second, second)):
        with pytest.raises(BadOption, match="wanted are the open and the close"):
            trade_session(*pair, Account.opening(1), Scripted(), RULES)


@pytest.mark.parametrize(
    ("sessions", "text"),
    [(["2024-01-02", "2024-01-06"], "not a session"), (["2024-01-03", "2024-01-02"], "does not come after")],
)
def test_only_ascending_sessions_of_the_data_are_traded(toy, sessions, text):
    store, ref, _ = toy
    with pytest.raises(BadWindow, match=text):
        list(simulate(store, ref, sessions, Scripted(), account=Account.opening(1), rules=RULES))


def test_running_again_adds_nothing_and_asks_nobody(toy, tmp_path):
    store, ref, days = toy
    options = {"cash": 10_000, "rules": RULES, "run_id": "a"}
    with Ledger(tmp_path / "l.db") as ledger:
        first = run_sessions(
            store, ref, days, Scripted(("01-02", [order("buy", 100)])), ledger=ledger, **options
        )
        again = Scripted(("01-02", [order("buy", 200)]))
        assert run_sessions(store, ref, days, again, ledger=ledger, **options) == first
        assert again.seen == []
        assert len(ledger.fills("a")) == 1


def test_a_run_goes_on_where_it_stopped(toy, tmp_path):
    store, ref, days = toy
    options = {"cash": 10_000, "rules": RULES, "run_id": "a"}
    script = [("01-02", [order("buy", 100)]), ("01-04", [order("sell", 100)])]
    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(store, ref, days[:2], Scripted(*script), ledger=ledger, **options)
        rest = Scripted(*script)
        account = run_sessions(store, ref, days, rest, ledger=ledger, **options)
        assert [session for _, _, session in rest.seen] == list(days[2:])
        # 10,000 - 1,000 - 5 - 0.01 + 1,020 - 5 - 0.51 - 0.01
        assert account == Account.opening("10009.47")
        assert [fill.order.side for fill in ledger.fills("a")] == ["buy", "sell"]
        assert isinstance(ledger.fills("a")[0], Fill)


@pytest.mark.parametrize("change", ["cash", "rules", "sessions", "data"])
def test_a_run_of_the_same_name_with_other_terms_is_a_conflict(toy, tmp_path, change):
    store, ref, days = toy
    options = {"cash": 10_000, "rules": RULES, "run_id": "a"}
    with Ledger(tmp_path / "l.db") as ledger:
        run_sessions(store, ref, days[:2], Scripted(), ledger=ledger, **options)
        if change == "cash":
            options["cash"] = 9_999
        if change == "rules":
            options["rules"] = Rulebook.mainland(commission_min=0)
        if change == "data":
            ref = store.update("signal", {"x": pd.DataFrame({"600000.SH": 1.0}, index=days)})
        sessions = days[1:] if change == "sessions" else days
        with pytest.raises(LedgerConflict):
            run_sessions(store, ref, sessions, Scripted(), ledger=ledger, **options)
