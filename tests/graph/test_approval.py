"""Trade approval: what was shown is what is sent, once; what was not approved is a rejection in the ledger."""

from __future__ import annotations

import json
import re
import sqlite3
from contextlib import closing
from dataclasses import replace
from decimal import Decimal

import hypothesis.strategies as st
import jsonschema
import pandas as pd
import pytest
from hypothesis import given
from langgraph.checkpoint.memory import InMemorySaver
from langgraph.checkpoint.sqlite import SqliteSaver
from langgraph.graph import END, START, StateGraph
from langgraph.types import Command
from states import flat, grouped, then

from quantgraph.agents import SignalRule
from quantgraph.broker import Account, Decider, Decision, ExitRule, Fill, Market, Order, Rejection, Session
from quantgraph.broker.accounts import order_from_json, order_to_json
from quantgraph.broker.ledger import Ledger
from quantgraph.broker.ledger._journal import day_lines
from quantgraph.errors import CheckpointerRequired, LedgerConflict
from quantgraph.graph import TradingState, daily_loop_node, decision_node
from quantgraph.graph._approval import approval_question, approve_node, parse_approval, propose_node
from quantgraph.graph._graph import create_trading_graph
from quantgraph.graph._trading import Trading
from quantgraph.market import Rulebook
from quantgraph.runs import RunSpec, run_strategy
from quantgraph.runtime import Resources, open_resources
from quantgraph.settings import load_settings
from quantgraph.state import DataState

pytestmark = pytest.mark.proof

DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05"])
CODE, OTHER = "600519.SH", "000001.SZ"
OPENS, CLOSES = (10, 11, 12, 13), (10.5, 11.5, 12.5, 13.5)
SENTENCE = "000341.SZ,000342.SZ，5日均线上穿20日均线买入，下穿卖出，2024年1月到2月"
THREAD = {"configurable": {"thread_id": "t"}}


def column(*values):
    return pd.DataFrame({CODE: values}, index=DAYS, dtype=float)


def committed(store, opens=OPENS, closes=CLOSES):
    """Buy known after the first session, sell after the third."""
    ref = store.update("ohlcv", {"open": column(*opens), "close": column(*closes)})
    return store.update("signal", {"s": column(1, 0, -1, 0)}, base=ref)


def state_on(data_ref, language="en"):
    return grouped(
        {
            "messages": [],
            "language": language,
            "data_ref": data_ref,
            "strategy": {"name": "s", "code_hash": "abc"},
            "request": {"start": "20240102", "end": "20240105"},
            "run_id": "r",
        }
    )


class Counting(SignalRule):
    """The signal rule, writing down for which sessions it was asked."""

    def __init__(self):
        super().__init__()
        self.asked = []

    def decide(self, context):
        session = context.session
        self.asked.append(f"{session:%m%d}")
        return super().decide(context)


@pytest.fixture
def trading(store, tmp_path):
    settings = load_settings(runs_dir=tmp_path / "runs")
    opened = Trading(
        resources=open_resources(Resources(store=store, settings=settings)),
        decider=Counting(),
        rules=Rulebook.mainland(),
        cash=Decimal("100000.00"),
        approve=True,
    )
    yield opened
    opened.close("r")


def trade(trading, state, answers):
    """The loop by hand, with a function that gives the answers; returns the questions."""
    questions = []

    def answer(question):
        questions.append(question)
        return answers[len(questions) - 1]

    trading = replace(trading, resources=replace(trading.resources, on_clarify=answer))
    while True:
        state = then(state, daily_loop_node(state, trading=trading))
        if state["session"] is None:
            return questions
        state = then(state, propose_node(state, trading=trading))
        if state["proposal"]["question"]:
            state = then(state, approve_node(state, trading=trading))
        state = then(state, decision_node(state, trading=trading))
        assert state["proposal"] is None


# The money ---------------------------------------------------------------------------------------


def test_approved_days_are_traded_to_the_cent_as_shown(trading, store):
    questions = trade(trading, state_on(committed(store)), ["approve", "Approve"])
    # 9,000 at 11 are 99,000.00; commission 0.025 % = 24.75, transfer fee 0.001 % = 0.99.
    # 9,000 at 13 are 117,000.00; 29.25, 1.17, and stamp duty 0.05 % = 58.50.
    assert trading.ledger_of("r").account("r").cash == Decimal("974.26") + Decimal("116911.08")
    assert trading.decider.asked == ["0102", "0103", "0104", "0105"], "once a session"
    assert [question["orders"][0]["side"] for question in questions] == ["buy", "sell"], (
        "sessions without orders are not asked about"
    )
    assert questions[0]["question"] == (
        "the orders of 2024-01-03 need approval:\n"
        "1. buy 9000 600519.SH at the open, reference price 11 (signal 1)\n"
        'Answer "approve" to send them as they stand, "reject" to send none of them, "approve 1" to send those '
        'of a number (or symbol), "approve all that follow" to send these and all later ones unasked.'
    )


def test_a_rejected_day_leaves_the_money_and_says_so_in_the_ledger(trading, store):
    (question,) = trade(trading, state_on(committed(store), "zh"), ["拒绝"])
    ledger = trading.ledger_of("r")
    assert ledger.sessions("r") == list(DAYS), "the session is committed, the run goes on"
    assert ledger.account("r") == Account.opening(100_000)
    (refused,) = ledger.order_records("r")
    assert (refused.code, refused.order.quantity, refused.session) == ("not_approved", 9000, DAYS[1])
    ledger.check("r")
    assert question["question"].splitlines()[1] == "1. 买入 600519.SH 9000 股，开盘，参考价 11（signal 1）"
    assert (question["options"], question["default"]) == (["同意", "拒绝", "后续全部同意"], "拒绝")


def test_a_rejected_sale_keeps_the_shares(trading, store):
    trade(trading, state_on(committed(store)), ["同意", "reject"])
    ledger = trading.ledger_of("r")
    assert ledger.account("r").quantity(CODE) == 9000
    assert list(ledger.values("r"))[-1] == 122474.26, "974.26 and 9,000 at 13.50"


def test_what_is_shown_knows_nothing_later_than_the_open(trading, tmp_path):
    def shown(closes, opens):
        store = DataState()
        settings = load_settings(runs_dir=tmp_path / str(closes[1]))
        given = Resources(store=store, settings=settings, on_clarify=lambda _: "approve")
        late = replace(trading, resources=open_resources(given))
        state = state_on(committed(store, opens, closes)) | {"session": "20240103"}
        late.open_run("r", state)
        question = propose_node(state, trading=late)["proposal"]["question"]
        late.close("r")
        return question["question"], question["orders"]

    assert shown(CLOSES, OPENS) == shown((10.5, 12.0, 1.0, 99.0), (10, 11, 50, 2))


def test_an_order_that_the_desk_would_refuse_is_shown_with_the_reason(trading, store):
    class Greedy(Decider):
        name = "greedy"

        def decide(self, context):
            return [
                Order(symbol=CODE, target_weight=Decimal("0.5"), sequence=1, reason="half"),
                Order(
                    symbol=CODE, side="buy", quantity=150, type="limit", limit_price=Decimal(9), sequence=2
                ),
            ]

    questions = trade(replace(trading, decider=Greedy()), state_on(committed(store)), ["reject"] * 4)
    half, odd = questions[0]["question"].splitlines()[1:3]
    assert half == "1. buy 4900 600519.SH at the open, reference price 10 (target_weight 0.5; half)"
    assert odd.startswith("2. buy 150 600519.SH at a limit, reference price 9 (lot_size: 150 shares")


class Twice(Decider):
    """Buys two symbols in the first session, each in its own order; wants nothing after it."""

    name = "twice"

    def decide(self, context):
        session = context.session
        first = session == DAYS[0]
        sizes = [(CODE, 300, 2), (OTHER, 200, 5), (CODE, 100, 9)] if first else []
        return [Order(symbol=code, side="buy", quantity=n, sequence=place) for code, n, place in sizes]


@pytest.mark.parametrize(
    ("answer", "sent"),
    [
        ("2", {5}),
        ("同意 1，3", {2, 9}),
        ("approve 600519.SH", {2, 9}),
        ("reject 000001.SZ", {2, 9}),
        (" y ", {2, 5, 9}),
        ("否", set()),
        ({"answer": "3; 2"}, {5, 9}),
    ],
)
def test_some_of_the_orders_are_sent_by_number_or_symbol_and_the_others_are_rejections(
    trading, store, answer, sent
):
    opens, closes = (pd.concat([column(*four)[CODE].rename(c) for c in (CODE, OTHER)], axis=1)
                     for four in (OPENS, CLOSES))  # fmt: skip
    ref = store.update("ohlcv", {"open": opens, "close": closes})
    ref = store.update("signal", {"s": opens * 0.0}, base=ref)
    (question,) = trade(replace(trading, decider=Twice()), state_on(ref), [answer])
    assert jsonschema.Draft202012Validator(question["answer_schema"]).is_valid(answer)
    outcomes = {outcome.order.sequence: outcome for outcome in trading.ledger_of("r").order_records("r")}
    assert {place for place, outcome in outcomes.items() if isinstance(outcome, Fill)} == sent
    assert {outcome.code for place, outcome in outcomes.items() if place not in sent} <= {"not_approved"}
    assert set(outcomes) == {2, 5, 9}
    trading.ledger_of("r").check("r")


@pytest.mark.parametrize(
    ("symbol", "answer", "sent"),
    [
        ("ALL", "Approve ALL that follow", {1, 2}),
        ("Y", "y", {2}),
        ("ALL", "all", {2}),
        ("N", "n", set()),
        ("NO", "no: never", set()),
        ("N", "2", {2}),
    ],
)
def test_a_symbol_that_reads_like_a_word_sends_no_more_than_was_meant(symbol, answer, sent):
    orders = [{"sequence": 1, "symbol": "MSFT"}, {"sequence": 2, "symbol": symbol}]
    assert parse_approval(answer, orders).sequences == sent


@pytest.mark.parametrize(
    ("answer", "is_valid"),
    [
        ("reject: 8% is too much", True),
        ("approve 1, 3: not 2", True),
        ("reject 2：太大\n也太贵", True),
        ("no: 3 January is a holiday", False),
        ("approve: 1", False),
        ("approve: only these", False),
        ("同意：1、3", False),
        ("yes: 1", False),
        ("approve all that follow: except 2", False),
        ("reject 1:3", False),
        ("reject: AAPL, MSFT", False),
        ("n", False),
        ("n 1", False),
        ("N", False),
    ],
)
def test_a_reason_is_no_list_of_orders_and_all_orders_are_sent_without_one(answer, is_valid):
    orders = [
        {"symbol": symbol, "side": "buy", "shares": "1", "type": "open", "price": "1", "wish": "quantity"}
        | {"reason": "", "refused": "", "sequence": str(place)}
        for place, symbol in enumerate(("AAPL", "MSFT", "N"), 1)
    ]
    (text, _) = approval_question("q", "20240102", orders, "en")["answer_schema"]["anyOf"]
    assert bool(re.search(text["pattern"], answer, re.IGNORECASE)) == is_valid


def test_exits_of_a_decision_that_was_rejected_whole_do_not_come_into_force(trading, store, tmp_path):
    class Guarded(Decider):
        name = "guarded"

        def decide(self, context):
            buys = {DAYS[0]: 100, DAYS[1]: 200}
            orders = [
                Order(symbol=CODE, side="buy", quantity=n, sequence=1)
                for day, n in buys.items()
                if day == context.session
            ]
            exits = [ExitRule(symbol=CODE, max_holding=1)] if context.session == DAYS[1] else []
            return Decision(orders, exits=exits)

    for answers, held in ((["approve", "reject"], 100), (["approve", "approve"], 0)):
        with Ledger(tmp_path / f"{held}.sqlite") as ledger:
            resources = replace(trading.resources, ledger=ledger)
            run = replace(trading, decider=Guarded(), resources=resources)
            trade(run, state_on(committed(store)), answers)
            assert ledger.account("r").quantity(CODE) == held


# Nobody there ------------------------------------------------------------------------------------


def test_where_nobody_is_asked_nothing_is_sent_and_that_is_written_down(trading, store):
    state = state_on(committed(store)) | {"session": "20240103"}
    alone = replace(trading, resources=replace(trading.resources, on_clarify="default"))
    alone.open_run("r", state)
    state = then(state, propose_node(state, trading=alone))
    update = approve_node(state, trading=alone)
    assert flat(update)["assumptions"] == ["approval: 20240103 reject (default)"]
    assert not update["proposal"]["approved"]


def test_fail_ends_with_needs_answer_before_anything_is_traded(store, tmp_path):
    with Ledger(tmp_path / "ledger.sqlite") as ledger:
        graph = create_trading_graph(
            source="sample", approve=True, on_clarify="fail", resources=Resources(store=store, ledger=ledger)
        )
        state = graph.invoke({"messages": [("user", SENTENCE)], "run_id": "r"})
        assert state["ended_because"] == "needs_answer"
        assert state["error_messages"][-1].startswith("needs_answer: 2024-01-")
        assert ledger.order_records("r") == []


def test_three_answers_that_are_none_end_the_run(trading, store):
    state = state_on(committed(store)) | {"session": "20240103"}
    said = []

    def unclear(question):
        return said.append(question.get("error")) or "maybe"

    lost = replace(trading, resources=replace(trading.resources, on_clarify=unclear))
    lost.open_run("r", state)
    state = then(state, propose_node(state, trading=lost))
    update = approve_node(state, trading=lost)
    assert update["ended_because"] == "needs_answer"
    words = "approve, reject, approve all that follow, or numbers or symbols of orders, like 1, 2"
    assert said == [None, *[f"'maybe' is not an option; answer with {words}"] * 2]


def test_an_answer_that_fails_leaves_the_report_of_the_sessions_before_it(tmp_path):
    words = ["approve", *["?"] * 3]
    done = run_strategy(
        RunSpec(question=SENTENCE, approve=True),
        out=tmp_path,
        resources=Resources(on_clarify=lambda _question: words.pop(0)),
    )
    assert (done["ended_because"], words) == ("needs_answer", [])
    assert done["account"]["trades"] == 1
    assert flat(done)["assumptions"][0].endswith("approve (callable)")


def test_somebody_who_is_to_be_asked_needs_a_checkpointer(trading, store):
    graph = create_trading_graph(source="sample", approve=True, resources=Resources(store=store))
    with pytest.raises(CheckpointerRequired, match="approve=True"):
        graph.invoke({"messages": [("user", SENTENCE)]})


# The graph ---------------------------------------------------------------------------------------


def test_only_with_approve_are_there_steps_for_it(store):
    plain_graph = create_trading_graph(source="sample", resources=Resources(store=store))
    assert {"propose", "approve"}.isdisjoint(plain_graph.nodes)


def answered(graph, state, words, config=THREAD):
    """Answer with the words in turn, the last of them for all that follow; returns the end and the questions."""
    asked = []
    while state.get("__interrupt__"):
        asked.append(state["__interrupt__"][0].value)
        word = words[min(len(asked), len(words)) - 1]
        state = graph.invoke(Command(resume=word), config)
    return state, asked


class Failing(Ledger):
    """A ledger whose machine is switched off once: before or after the commit of a session."""

    def __init__(self, where, session, when):
        super().__init__(where)
        self.left, self.session, self.when = 1, session, when

    def commit_day(self, run_id, result):
        hit = self.left and f"{result.session:%Y%m%d}" == self.session
        self.left -= bool(hit)
        if hit and self.when == "before":
            raise SystemError("switched off")
        done = super().commit_day(run_id, result)
        if hit:
            raise SystemError("switched off")
        return done


def journal(ledger, run_id="r"):
    return (
        ledger.sessions(run_id),
        ledger.order_records(run_id),
        list(ledger.values(run_id)),
        ledger.account(run_id),
    )


@pytest.fixture(scope="module")
def whole(tmp_path_factory):
    """The run that nobody approves, and the one whose orders all are, with the questions of it."""
    folder = tmp_path_factory.mktemp("whole")
    task = {"messages": [("user", SENTENCE)], "run_id": "r"}
    with Ledger(folder / "plain.sqlite") as ledger:
        create_trading_graph(source="sample", resources=Resources(store=DataState(), ledger=ledger)).invoke(
            task
        )
        unasked = journal(ledger)
    with Ledger(folder / "approved.sqlite") as ledger:
        graph = create_trading_graph(
            source="sample",
            approve=True,
            checkpointer=InMemorySaver(),
            resources=Resources(store=DataState(), ledger=ledger),
        )
        _, asked = answered(graph, graph.invoke(task, THREAD), ["同意"])
        return unasked, journal(ledger), asked


def test_a_run_whose_orders_are_all_approved_trades_what_the_plain_run_trades(whole):
    unasked, approved, asked = whole
    assert approved == unasked
    assert len(asked) == len({outcome.session for outcome in unasked[1]}) > 2
    assert len({question["id"] for question in asked}) == len(asked)


def test_once_all_that_follow_are_approved_nobody_is_asked_again(whole, tmp_path):
    _, expected, asked = whole
    saver = InMemorySaver()
    with Ledger(tmp_path / "l.sqlite") as ledger:
        resources = Resources(store=DataState(), ledger=ledger)
        graph = create_trading_graph(source="sample", approve=True, checkpointer=saver, resources=resources)
        state = graph.invoke({"messages": [("user", SENTENCE)], "run_id": "r"}, THREAD)
        state, questions = answered(graph, state, ["approve", "approve all that follow"])
        assert [question["id"] for question in questions] == [question["id"] for question in asked[:2]]
        assert journal(ledger) == expected
        again = graph.invoke({"messages": [("user", SENTENCE)]}, THREAD)
        assert again["__interrupt__"], "another request is another run"


@pytest.mark.parametrize("when", ["before", "after"])
def test_a_kill_around_the_commit_neither_trades_nor_asks_twice(whole, tmp_path, when):
    _, expected, asked = whole
    day = asked[1]["reason"][:10].replace("-", "")
    decider = Counting()
    store = DataState()
    with closing(sqlite3.connect(tmp_path / "c.sqlite", check_same_thread=False)) as connection:
        saver = SqliteSaver(connection)
        options = {"source": "sample", "approve": True, "decider": decider, "checkpointer": saver}
        with Failing(tmp_path / "l.sqlite", day, when) as ledger:
            graph = create_trading_graph(**options, resources=Resources(store=store, ledger=ledger))
            task = {"messages": [("user", SENTENCE)], "run_id": "r"}
            graph.invoke(task, THREAD, durability="sync")
            graph.invoke(Command(resume="approve"), THREAD, durability="sync")
            with pytest.raises(SystemError):
                graph.invoke(Command(resume="approve"), THREAD, durability="sync")
            assert len(ledger.order_records("r")) == (1 if when == "before" else 2)
        with Ledger(tmp_path / "l.sqlite") as ledger:
            graph = create_trading_graph(**options, resources=Resources(store=store, ledger=ledger))
            _, later = answered(graph, graph.invoke(None, THREAD, durability="sync"), ["approve"])
            assert [question["reason"] for question in later] == [each["reason"] for each in asked[2:]]
            assert journal(ledger) == expected
            ledger.check("r")
    assert len(decider.asked) == len(expected[0]), "once a session"


def test_a_checkpoint_that_waits_for_what_is_traded_already_asks_no_more(whole, tmp_path):
    """As after a kill: the ledger has the session, the newest checkpoint still waits for its approval."""
    _, expected, _ = whole
    saver = InMemorySaver()
    with Ledger(tmp_path / "l.sqlite") as ledger:
        graph = create_trading_graph(
            source="sample",
            approve=True,
            checkpointer=saver,
            resources=Resources(store=DataState(), ledger=ledger),
        )
        state = graph.invoke({"messages": [("user", SENTENCE)], "run_id": "r"}, THREAD)
        waiting = graph.get_state(THREAD).config
        graph.invoke(Command(resume="approve"), THREAD)
        before = ledger.order_records("r")
        state = graph.invoke(Command(resume="reject"), waiting)
        assert ledger.order_records("r") == before, "traded is traded"
        answered(graph, state, ["approve"])
        assert journal(ledger) == expected


def test_an_approval_of_one_session_never_sends_the_orders_of_the_next(whole, tmp_path):
    """In a host all sessions are one step, whose checkpoint keeps what the host was last resumed with."""
    _, expected, asked = whole
    task, saver = {"messages": [("user", SENTENCE)], "run_id": "r"}, InMemorySaver()
    with Ledger(tmp_path / "l.sqlite") as ledger:
        desk = create_trading_graph(
            source="sample", approve=True, resources=Resources(store=DataState(), ledger=ledger)
        )
        host = StateGraph(TradingState).add_node("desk", desk)
        graph = host.add_edge(START, "desk").add_edge("desk", END).compile(checkpointer=saver)
        reasons = [each["reason"] for each in asked]
        for sent, reason in enumerate(reasons[:3]):
            state = graph.invoke(Command(resume="approve") if sent else task, THREAD, durability="sync")
            again = graph.invoke(None, THREAD, durability="sync")
            assert {pauses["__interrupt__"][0].value["reason"] for pauses in (state, again)} == {reason}
            assert len({outcome.session for outcome in ledger.order_records("r")}) == sent
        _, left = answered(graph, again, ["approve"])
        assert [each["reason"] for each in left] == reasons[2:]
        assert journal(ledger) == expected


def test_a_run_with_approval_is_not_continued_without(trading, store):
    state = state_on(committed(store))
    trading.open_run("r", state)
    with pytest.raises(LedgerConflict, match="approve"):
        replace(trading, approve=False).open_run("r", state)


# Orders as JSON ----------------------------------------------------------------------------------

NUMBERS = st.decimals("0.0001", "1000000", allow_nan=False)
SIZES_OF = st.one_of(
    st.builds(
        lambda n, side: {"quantity": n, "side": side},
        st.integers(-5, 10**20),
        st.sampled_from(["buy", "sell"]),
    ),
    st.builds(lambda n: {"target_quantity": n}, NUMBERS),
    st.builds(lambda n: {"target_weight": n}, NUMBERS),
    st.builds(lambda n: {"target_value": n}, NUMBERS),
)


@given(SIZES_OF, st.none() | NUMBERS, st.text(max_size=5))
def test_an_order_comes_back_from_json_as_it_was(size, limit, reason):
    limited = {} if limit is None else {"type": "limit", "limit_price": limit}
    order = Order(symbol="600519.SH", sequence=7, reason=reason, **size, **limited)
    assert order_from_json(json.loads(json.dumps(order_to_json(order)))) == order


def test_half_a_surrogate_pair_in_a_reason_is_told_and_kept(store):
    order = Order(symbol=CODE, side="buy", quantity=100, sequence=1, reason="up \ud83d")
    again = order_from_json(json.loads(json.dumps(order_to_json(order)).encode()))
    assert again.reason == "up \\ud83d"
    market = Market(store=store, data_ref=committed(store), rules=Rulebook.mainland())
    refused = Rejection(order=again, session=DAYS[0], code="not_approved", message="no")
    result = replace(Session.open(market, DAYS[0], Account.opening(1000)).close(), outcomes=(refused,))
    assert "ud83d" in day_lines(Account.opening(1000), result).lines[0][1]
