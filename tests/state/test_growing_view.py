"""Walks: one run's views, moment by moment; what deciders may ask a data state; the loop that gives them out."""

from __future__ import annotations

import asyncio
import gc
import os
from concurrent.futures import ThreadPoolExecutor
from contextvars import copy_context
from datetime import date, datetime
from decimal import Decimal

import numpy as np
import pandas as pd
import pytest
from one_session import trade_session
from states import grouped

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, Market, Order, SessionResult, simulate
from quantgraph.broker.session import advance
from quantgraph.data import open_source
from quantgraph.errors import BadOption, FutureRequested, UnknownField
from quantgraph.graph import daily_loop_node, decision_node
from quantgraph.graph._trading import Trading
from quantgraph.market import Moment, Rulebook, sessions
from quantgraph.runtime import Resources, open_resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState, Record, deciding

DAYS = sessions("2024-01-02", "2024-01-31")
CODES = ["600000.SH", "600036.SH", "600519.SH"]


def panel(rows: int = len(DAYS)) -> dict[str, pd.DataFrame]:
    rng = np.random.default_rng(3)
    close = np.round(20 * np.exp(np.cumsum(0.02 * rng.standard_normal((rows, len(CODES))), axis=0)), 2)
    frame = pd.DataFrame(close, index=DAYS[:rows], columns=CODES)
    return {"open": frame.shift(fill_value=20.0), "close": frame}


@pytest.fixture
def ref(store: DataState) -> str:
    store.update("ohlcv", panel())
    return store.update("signal", {"s": np.sign(panel()["close"].diff())})


def test_the_close_of_a_session_comes_after_its_open(store, ref):
    walk = store.growing_view(ref)
    lengths = []
    for phase in ("pre_open", "open", "close", "post_close"):
        view = walk.at(Moment(DAYS[4], phase))
        lengths.append([len(view["ohlcv"]["open"]), len(view["ohlcv"]["close"]), len(view["signal"]["s"])])
    assert lengths == [[4, 4, 4], [5, 4, 4], [5, 5, 4], [5, 5, 5]]


def test_a_field_without_a_row_so_far_is_nan_and_not_the_future(store):
    st = pd.DataFrame(1.0, index=DAYS[8:9], columns=CODES[:1])
    ref = store.update("ohlcv", {**panel(), "is_st": st, "high": panel()["close"].iloc[8:9]})
    for view in (
        store.growing_view(ref).at(Moment(DAYS[4], "open")),
        store.trusted_view(Moment(DAYS[4], "open"), ref),
    ):
        for day in (None, DAYS[2], DAYS[4]):
            assert view.row("ohlcv", "is_st", day).isna().all()
        for name, day in (("is_st", DAYS[5]), ("high", DAYS[4]), ("high", DAYS[8])):
            with pytest.raises(FutureRequested, match=f"{day:%Y-%m-%d} is not known at 2024-01-08 open"):
                view.row("ohlcv", name, day)


def test_a_walk_only_goes_on(store, ref):
    walk = store.growing_view(ref)
    assert walk.reaches(Moment(DAYS[0]))
    walk.at(Moment(DAYS[4], "close"))
    walk.at(Moment(DAYS[4], "close"))
    with pytest.raises(
        BadOption, match=r"2024-01-08 open comes before 2024-01-08 close.*store\.growing_view\(ref\)"
    ):
        walk.at(Moment(DAYS[4], "open"))
    assert not walk.reaches(Moment(DAYS[4], "open"))


def test_a_walk_begins_before_the_data_and_ends_after_it(store, ref):
    walk = store.growing_view(ref)
    assert len(walk.at(Moment.at("2020-01-01"))["ohlcv"]["open"]) == 0
    assert len(walk.at(Moment.at("2030-01-01"))["ohlcv"]["open"]) == len(DAYS)
    other = DataState()
    other.adopt(store.view(Moment.at("2020-01-01"), ref).frozen())
    assert other.growing_view().at(Moment(DAYS[0]))["ohlcv"]["open"].shape == (0, len(CODES))
    assert store.growing_view(store.empty).at(Moment(DAYS[0])).frozen() == {
        "ohlcv": {},
        "indicators": {},
        "index": {},
        "signal": {},
        "weights": {},
        "score": {},
    }


def test_a_view_stays_as_it_was_while_the_walk_goes_on(store, ref):
    walk = store.growing_view(ref)
    first = walk.at(Moment(DAYS[4], "open"))
    before = first.frozen()
    for day in DAYS[5:]:
        walk.at(Moment(day))
    for name, frame in first["ohlcv"].items():
        expected = panel()[name].iloc[: 5 if name == "open" else 4]
        pd.testing.assert_frame_equal(frame, expected, check_names=False, check_freq=False)
    assert first.frozen() == before
    with pytest.raises(UnknownField):
        first["ohlcv"]["vol"]


def test_closed_walks_give_their_descriptors_back(store, ref):
    def lowest_free() -> int:
        free = os.dup(0)
        os.close(free)
        return free

    gc.collect()
    before = lowest_free()
    for _ in range(50):
        store.growing_view(ref).at(Moment(DAYS[4]))
    gc.collect()
    assert lowest_free() == before
    view = store.growing_view(ref).at(Moment(DAYS[4]))
    assert len(view["ohlcv"]["open"]) == 5


def test_where_there_is_no_memory_file_a_nameless_one_on_disk_serves(store, ref, monkeypatch):
    monkeypatch.delattr(os, "memfd_create", raising=False)
    frame = store.growing_view(ref).at(Moment(DAYS[4]))["ohlcv"]["close"]
    pd.testing.assert_frame_equal(frame, panel(5)["close"], check_names=False, check_freq=False)


class Copying(Decider):
    """Buys what rose yesterday; keeps all that it saw."""

    name = "copying"

    def __init__(self) -> None:
        self.seen: list[tuple[object, ...]] = []

    def decide(self, context):
        view, account = context.view, context.account
        close, told = view["ohlcv"]["close"], [view.actions(), view.names(), view.records("news")]
        self.seen.append((view.moment, account, close.to_numpy().tobytes(), *map(str, told)))
        if len(close) < 2 or account.cash < 50_000:
            sold = [symbol for symbol, held in account.positions.items() if held.sellable]
            return [
                Order(symbol=symbol, side="sell", quantity=account.positions[symbol].sellable, sequence=place)
                for place, symbol in enumerate(sold, start=1)
            ]
        rose = close.columns[(close.iloc[-1] > close.iloc[-2]).to_numpy()]
        return [
            Order(symbol=symbol, side="buy", quantity=100, sequence=place)
            for place, symbol in enumerate(rose, start=1)
        ]


def by_views(market: Market, days: pd.DatetimeIndex, decider: Copying, cash: int) -> list[SessionResult]:
    """The loop with a view cut anew at every session."""
    account, results = Account.opening(cash), []
    for day in days:
        results.append(trade_session(market, day, account, decider))
        account = results[-1].account
    return results


def test_the_loop_gives_what_views_cut_one_by_one_give(shared_data):
    store, source = DataState(), open_source(shared_data / "stockbench")
    ends = source.sessions()[0], source.sessions()[-1]
    store.update("ohlcv", source.bars(source.symbols(), *ends))
    ref = store.record([Record("news", ends[0].date(), "AAPL", "first")])
    market = Market(store=store, data_ref=ref, rules=Rulebook.us())
    days = store.snapshot(ref)["ohlcv"]["open"].index
    one, other = Copying(), Copying()
    walked = list(simulate(market, days, one, account=Account.opening(500_000)))
    assert walked == by_views(market, days, other, 500_000)
    assert one.seen == other.seen
    assert sum(len(result.fills) for result in walked) > 50


def test_a_part_of_a_run_goes_on_with_its_walk_and_trades_the_same(store, ref):
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland(), blocks_from=10**9)
    account, walk, parts = Account.opening(1_000_000), store.growing_view(ref), []
    for day in DAYS:
        for done in advance(market, [day], SignalRule(), account=account, growing_view=walk):
            parts.append(done)
            account = done.account
    assert parts == list(simulate(market, DAYS, SignalRule(), account=Account.opening(1_000_000)))
    assert walk.moment == Moment(DAYS[-1], "open")


ASKING = {
    "snapshot": lambda store, ref: store.snapshot(ref),
    "get_field": lambda store, ref: store.get_field("ohlcv", ref),
    "checkout": lambda store, ref: store.checkout(ref),
    "walk": lambda store, ref: store.growing_view(ref),
    "reading": lambda store, ref: store.trusted_view(Moment(DAYS[0]), ref),
    "a later view": lambda store, ref: store.view(Moment(DAYS[4], "close"), ref),
}


@pytest.mark.parametrize("asking", ASKING)
def test_who_decides_cannot_ask_for_the_future(store, ref, asking):
    now = Moment(DAYS[4], "open")
    tree, other = store.checkout(ref), DataState()
    with deciding(now):
        with pytest.raises(FutureRequested, match="read the view of decide\\(\\)") as caught:
            ASKING[asking](store, ref)
        assert caught.value.data["moment"] == "2024-01-08 open"
        with pytest.raises(FutureRequested):
            ASKING[asking](other, other.empty)
        with pytest.raises(FutureRequested):
            tree.snapshot()
        with pytest.raises(FutureRequested):
            tree.view(Moment(DAYS[5]))
        for moment in (now, Moment(DAYS[4], "pre_open"), Moment(DAYS[1])):
            assert store.view(moment, ref).moment == tree.view(moment).moment == moment
    ASKING[asking](store, ref)


def test_an_inner_decision_is_bound_by_the_outer_one(store, ref):
    with deciding(Moment(DAYS[4], "open")), deciding(Moment(DAYS[9])), pytest.raises(FutureRequested):
        store.view(Moment(DAYS[5]), ref)
    with deciding(Moment(DAYS[4], "open")):
        with deciding(Moment(DAYS[1])), pytest.raises(FutureRequested):
            store.view(Moment(DAYS[2]), ref)
        assert store.view(Moment(DAYS[2]), ref)
    assert store.snapshot(ref)


def test_a_decision_binds_its_own_context_and_no_other(store, ref):
    def asked() -> bool:
        try:
            return bool(store.snapshot(ref))
        except FutureRequested:
            return False

    async def task() -> bool:
        return asked()

    with ThreadPoolExecutor(2) as pool, deciding(Moment(DAYS[4])):
        assert pool.submit(asked).result()
        assert not pool.submit(copy_context().run, asked).result()
        assert not asyncio.run(task())
    assert asked()


@pytest.mark.parametrize("run", ["simulate", "trade_session", "advance"])
def test_a_decider_that_asks_the_data_state_is_stopped_and_the_desk_is_not(store, ref, run):
    market = Market(store=store, data_ref=ref, rules=Rulebook.mainland())

    class Curious(Copying):
        def decide(self, context):
            view, session = context.view, context.session
            orders = super().decide(context)
            return orders if session < DAYS[3] else store.snapshot(view.data_ref)

    def trade() -> list[SessionResult]:
        account = Account.opening(1_000_000)
        if run == "trade_session":
            return by_views(market, DAYS, Curious(), 1_000_000)
        loop = simulate if run == "simulate" else advance
        return list(loop(market, list(DAYS), Curious(), account=account))

    with pytest.raises(FutureRequested):
        trade()
    assert store.snapshot(ref)


@pytest.fixture
def trading(store, tmp_path):
    settings = load_settings(runs_dir=tmp_path / "runs")
    made = Trading(
        resources=open_resources(Resources(store=store, settings=settings)),
        decider=Copying(),
        rules=Rulebook.mainland(),
        cash=Decimal("100000.00"),
    )
    yield made
    made.close("r")


def test_a_run_keeps_its_walk_between_steps_and_no_other_run_has_it(trading, ref):
    state = {"data_ref": ref}
    with trading.growing_view("r", state, DAYS[0]) as first:
        first.at(Moment(DAYS[0], "open"))
        with trading.growing_view("r", state, DAYS[0]) as meanwhile:
            assert meanwhile is not first
    with (
        trading.growing_view("r", state, DAYS[1]) as second,
        trading.growing_view("other", state, DAYS[1]) as other,
    ):
        assert second is first
        assert other is not first
        second.at(Moment(DAYS[3], "open"))
    with trading.growing_view("r", state, DAYS[2]) as behind:
        assert behind is not second
        behind.at(Moment(DAYS[2], "open"))
    with pytest.raises(FutureRequested), trading.growing_view("r", state, DAYS[3]):
        raise FutureRequested("a decider failed")
    with trading.growing_view("r", state, DAYS[3]) as anew:
        assert anew is not behind
    trading.close("r")
    with trading.growing_view("r", state, DAYS[3]) as reopened:
        assert reopened is not anew


def test_one_walk_serves_all_steps_of_a_run(trading, ref, monkeypatch):
    made, make = [], DataState.growing_view
    monkeypatch.setattr(DataState, "growing_view", lambda *given: made.append(given) or make(*given))
    strategy, request = {"name": "s", "code_hash": "abc"}, {"start": "20240102", "end": "20240131"}
    state = grouped({"data_ref": ref, "strategy": strategy, "request": request, "run_id": "r"})
    while (state := state | daily_loop_node(state, trading=trading))["session"]:
        decision_node(state, trading=trading)
    assert [seen[0] for seen in trading.decider.seen] == [Moment(day, "open") for day in DAYS]
    assert len(made) == 1


def test_walks_of_runs_that_never_end_are_let_go(trading, ref):
    for number in range(20):
        with trading.growing_view(f"run{number}", {"data_ref": ref}, DAYS[0]):
            pass
    assert list(trading._views) == [f"run{number}" for number in range(12, 20)]


def test_a_growing_view_shows_the_records_of_earlier_days_unless_they_are_asked_for_up_to_the_open(
    store, ref
):
    stamps = {
        "evening": datetime(2024, 1, 2, 23, 59),
        "day": date(2024, 1, 2),
        "midnight": datetime(2024, 1, 3),
        "early": datetime(2024, 1, 3, 8, 59),
        "nine": datetime(2024, 1, 3, 9),
    }
    ref = store.record(
        [Record("news", known, "", {"title": title}) for title, known in stamps.items()], base=ref
    )

    def titles(view):
        return {each.body["title"] for each in view.records("news")}

    of_before, of_today = {"evening", "day"}, {"midnight", "early"}
    moments = [Moment.at("20240103", phase) for phase in ("pre_open", "open", "close", "post_close")]
    default, until_open = store.growing_view(ref), store.growing_view(ref, "open")
    for moment, more, all_more in zip(
        moments,
        (set(), set(), set(), of_today | {"nine"}),
        (set(), of_today, of_today | {"nine"}, of_today | {"nine"}),
        strict=True,
    ):
        assert titles(default.at(moment)) == of_before | more
        assert titles(store.view(moment, ref, "previous_day")) == of_before | more
        assert titles(until_open.at(moment)) == titles(store.view(moment, ref)) == of_before | all_more
