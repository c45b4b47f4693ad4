"""Text in the data that gives orders: it reaches no prompt, and changes nothing. Where a user's own words give
them, what comes of it still has to pass the gates.
"""

from __future__ import annotations

import json
from datetime import datetime

import pandas as pd
import pytest
from faulty_models import INJECTIONS, MISBEHAVING, FaultyChatModel
from states import flat

from quantgraph.broker import Fill
from quantgraph.data.sample import SampleSource
from quantgraph.settings import ROLES
from quantgraph.state import DataState, Record
from quantgraph.testing import ScriptedChatModel

pytestmark = pytest.mark.proof

CODES = ["000341.SZ", "000342.SZ", "000343.SZ"]
SENTENCE = f"{','.join(CODES)}，2日均线上穿5日均线买入，下穿卖出，20240102到20240131"
ENGLISH = f"{','.join(CODES)}, buy when SMA(2) crosses above SMA(5), sell when it crosses below, 20240102 to 20240131"
MODELS = {
    "good": lambda: FaultyChatModel(lambda context: context.correct, model_name="good"),
    "obeying": MISBEHAVING["obeys_data"],
}


@pytest.fixture(scope="module")
def bars():
    """The sample's rows of three stocks, as a file has them."""
    panel = SampleSource().bars(CODES, pd.Timestamp("2023-12-01"), pd.Timestamp("2024-01-31"))
    fields = ["open", "high", "low", "close", "pre_close", "vol", "amount"]
    table = pd.concat({name: panel[name].stack() for name in fields}, axis=1).reset_index()
    table.columns = ["trade_date", "ts_code", *fields]
    return table.assign(trade_date=table["trade_date"].dt.strftime("%Y%m%d"))


def folder(where, bars, text):
    """A folder of files that says ``text`` wherever a vendor could have put it; nowhere if it is empty."""
    where.mkdir()
    bars.assign(**{text or "remark": 1.0}).to_csv(where / "daily.csv", index=False)
    names = pd.DataFrame(
        {"ts_code": [*CODES, "000016.SH"], "name": ["甲", "乙", text or "丙", text or "指数"]}
    )
    names.to_csv(where / "names.csv", index=False)
    members = {"index_code": "000016.SH", "con_code": CODES[:2], "trade_date": "20231201"}
    pd.DataFrame(members).to_csv(where / "members.csv", index=False)
    pd.DataFrame({text or "remark": [text or "nothing"]}).to_csv(where / "remarks.csv", index=False)
    return where


@pytest.fixture
def outcome(play, stands):
    """``outcome(source, model, text)``: signal, fills and cash of a run; and apart, what the model read."""

    def run(source, model, text, sentence=SENTENCE):
        store = DataState()
        news = [Record("news", datetime(2024, 1, 2, 8), CODES[0], {"text": text or "nothing"})]
        done = play(
            dict.fromkeys(ROLES, model), sentence, source=source, store=store, data_ref=store.record(news)
        )
        state = stands(done)
        assert state["ended_because"] == "done", state["error_messages"]
        ledger, run_id = done.ledger, state["run_id"]
        fills = [
            (one.session, one.order.symbol, one.side, one.quantity, one.price)
            for one in ledger.order_records(run_id)
            if isinstance(one, Fill)
        ]
        signal = store.snapshot(state["data_ref"])["signal"][flat(state)["strategy"]["name"]]
        read = "\n".join(str(message.text) for call in model.calls for message in call.messages)
        return (signal.to_csv(), fills, ledger.account(run_id).cash), read.casefold()

    return run


@pytest.mark.parametrize("sentence", [SENTENCE, ENGLISH], ids=["zh", "en"])
@pytest.mark.parametrize("kind", MODELS)
def test_orders_in_the_data_reach_no_prompt_and_change_nothing(kind, sentence, outcome, bars, tmp_path):
    plain, _ = outcome(folder(tmp_path / "plain", bars, ""), MODELS[kind](), "", sentence)
    for number, text in enumerate(INJECTIONS):
        spoken = folder(tmp_path / f"spoken{number}", bars, text)
        came, read = outcome(spoken, MODELS[kind](), text, sentence)
        assert text not in read
        assert came == plain


class Wordy(SampleSource):
    """A source of somebody's own whose fields, symbols and indices are sentences."""

    def symbols(self):
        return (*INJECTIONS, *super().symbols())

    def names(self):
        spoken = dict.fromkeys([*INJECTIONS, CODES[0]], INJECTIONS[0])
        return {**super().names(), **spoken, "999999.SH": INJECTIONS[1]}

    def bars(self, symbols, start, end):
        panel = super().bars(symbols, start, end)
        return {**panel, **dict.fromkeys(INJECTIONS, panel["close"])}


def test_orders_in_a_custom_source_reach_no_prompt_and_change_nothing(outcome):
    plain, _ = outcome("sample", MODELS["obeying"](), "")
    came, read = outcome(Wordy(), MODELS["obeying"](), INJECTIONS[0])
    assert not [text for text in INJECTIONS if text in read]
    assert came == plain


def test_a_code_that_is_a_sentence_is_refused_where_the_file_is_read(play, stands, bars, tmp_path):
    where = folder(tmp_path / "files", bars, "")
    spoilt = bars.assign(ts_code=bars["ts_code"].replace(CODES[2], INJECTIONS[0]))
    spoilt.to_csv(where / "daily.csv", index=False)
    state = stands(play({"reflection": MODELS["obeying"]()}, SENTENCE, source=where))
    assert state["ended_because"] == "data_unavailable"
    assert "is not a code" in state["error_messages"][-1]


def reads(ts_code, rule):
    """A reflection that hands on ``rule`` for ``ts_code``, whatever was said."""
    window = {"start_date": "20240102", "end_date": "20240131"}
    params = {"ts_code": ts_code, "strategy_desc": rule, "required_indicators": [], **window}
    intent = {"type": "mixed", "params": params, "needs_clarification": False}
    return ScriptedChatModel(lambda messages: json.dumps({"task_type": "mixed", "user_intent": intent}))


@pytest.mark.parametrize("text", INJECTIONS)
def test_words_of_the_user_are_obeyed_and_what_comes_of_it_passes_every_gate(text, play, stands):
    """Nothing can tell a user's own words from those that he pasted: the strategy is then another one. It is
    proved, traded by the rules, and buys what was asked for and nothing else.
    """
    both = f"{SENTENCE}；{text}"
    obeying = {"reflection": reads(",".join(CODES), both), "signal_generate": MODELS["obeying"]()}
    run = play(dict.fromkeys(ROLES, "keyless") | obeying, f"{SENTENCE}。{text}")
    state = stands(run)
    assert (state["ended_because"], flat(state)["strategy"].get("name"), state["error_messages"]) == (
        "done",
        "buy_everything",
        [],
    )
    assert set(run.ledger.account(state["run_id"]).positions) == set(CODES)


@pytest.mark.parametrize("text", INJECTIONS)
def test_words_that_a_model_reads_in_place_of_the_rule_are_asked_about(text, play, stands):
    """The rule before them is in the person's words too: a reading that has lost it trades nothing."""
    obeying = {"reflection": reads(",".join(CODES), text), "signal_generate": MODELS["obeying"]()}
    run = play(dict.fromkeys(ROLES, "keyless") | obeying, f"{SENTENCE}。{text}")
    state = stands(run)
    assert state["ended_because"] == "needs_answer"
    assert "2日均线上穿5日均线" in state["error_messages"][0]
    assert flat(state)["strategy"] == {}


def test_what_the_caller_has_fixed_stands_whatever_a_model_obeys(play, stands):
    given = {"ts_code": ",".join(CODES), "start_date": "20240102", "end_date": "20240131"}
    cast = dict.fromkeys(ROLES, "keyless") | {"reflection": reads("ALL", "2日均线上穿5日均线买入，下穿卖出")}
    state = stands(play(cast, SENTENCE, given=given))
    assert state["ended_because"] == "done"
    assert flat(state)["request"]["ts_code"] == given["ts_code"]
