"""A result is the dict it was, and says in a few lines what happened; its tables follow from the run's files."""

from __future__ import annotations

import copy
import json
import pickle
import re
import shutil
import sqlite3
import sys
from contextlib import closing
from html.parser import HTMLParser
from itertools import pairwise
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from quantgraph.errors import BadFile, BadOption
from quantgraph.runs import RunResult, RunSpec, open_run, replay, run_strategy
from quantgraph.runs._execute import notebook_watch
from quantgraph.runs.folder import unpack_example_run
from quantgraph.runtime.dialogue import RunEvent

pytestmark = pytest.mark.proof

SHORT = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，2025年1月到3月"
HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\"'&"


@pytest.fixture(scope="module")
def example(tmp_path_factory):
    """A trader's month: eighteen sessions, fills and refusals, no signal."""
    return open_run(unpack_example_run(tmp_path_factory.mktemp("example")))


@pytest.fixture(scope="module")
def short(tmp_path_factory):
    return run_strategy(SHORT, out=tmp_path_factory.mktemp("runs"))


@pytest.fixture(scope="module")
def waiting(tmp_path_factory):
    """A run that ended with a question."""
    spec = RunSpec(question="5日均线上穿20日均线买入，下穿卖出", on_clarify="fail")
    return run_strategy(spec, out=tmp_path_factory.mktemp("runs"))


def lines_of(result, kind):
    with closing(sqlite3.connect(result.folder / "ledger.sqlite")) as connection:
        rows = connection.execute("SELECT body FROM journal WHERE kind = ? ORDER BY line", (kind,))
        return [json.loads(body) for (body,) in rows]


class Tags(HTMLParser):
    """Collects the tags and checks that each is closed."""

    def __init__(self):
        super().__init__()
        self.seen, self.open = set(), []

    def handle_starttag(self, tag, attrs):
        self.seen.add(tag)
        if tag != "br":
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag


def tags(page):
    parser = Tags()
    parser.feed(page)
    assert parser.open == []
    return parser.seen


def test_it_is_the_dict_that_callers_had(short):
    stored = json.loads((short.folder / "result.json").read_text(encoding="utf-8"))
    assert short == stored
    assert isinstance(short, dict)
    assert short["account"]["trades"] == stored["account"]["trades"]
    assert (short.get("nothing"), {**short} == stored) == (None, True)
    assert json.loads(json.dumps(short)) == stored
    for again in (copy.copy(short), copy.deepcopy(short), pickle.loads(pickle.dumps(short))):
        assert (type(again), again, len(again.trades)) == (RunResult, short, len(short.trades))
    assert open_run(short["run_dir"]) == short


def test_equity_and_returns_are_those_of_the_result(short):
    equity, stored = short.equity, short["equity"]
    assert list(equity.columns) == ["account", "benchmark"]
    assert equity["account"].tolist() == stored["account"]
    assert [f"{day:%Y%m%d}" for day in equity.index] == stored["sessions"]
    assert (equity.index.name, str(equity.index.dtype)) == ("trade_date", "datetime64[us]")
    values = np.array(stored["account"])
    assert short.returns.to_numpy() == pytest.approx(values[1:] / values[:-1] - 1)
    assert short.returns.index.equals(equity.index[1:])


def test_the_tables_are_those_of_the_ledger(example):
    orders, trades, refused = example.orders, example.trades, lines_of(example, "rejection")
    assert (orders["code"] == "").sum() == len(trades) == len(lines_of(example, "fill")) > 0
    assert orders.loc[orders["code"] != "", "message"].tolist() == [each["message"] for each in refused]
    sign = np.where(trades["side"] == "sell", 1, -1)
    cash = example["equity"]["account"][0] + (sign * trades["notional"] - trades["cost"]).sum()
    received = sum(float(each["amount"]) for each in lines_of(example, "dividend"))
    assert cash + received == pytest.approx(float(lines_of(example, "day")[-1]["cash"]))
    held = example.positions
    moved = (-sign * trades["quantity"]).groupby(trades["ts_code"]).sum()
    assert held.iloc[-1].to_dict() == {name: moved[name] for name in held.columns}
    assert held.index.tolist() == example.equity.index[1:].tolist()
    # What is not cash is held: the weights of a session, from the fills and the dividends alone.
    paid = pd.Series(sign * trades["notional"] - trades["cost"]).groupby(trades["trade_date"]).sum()
    dates = pd.to_datetime([each["session"] for each in lines_of(example, "dividend")])
    got = pd.Series(
        [float(each["amount"]) for each in lines_of(example, "dividend")], index=dates, dtype=float
    )
    flows = paid.add(got.groupby(level=0).sum(), fill_value=0.0).reindex(held.index).fillna(0.0)
    equity = example.equity["account"]
    cash = equity.iloc[0] + flows.cumsum()
    assert example.weights.sum(axis=1).to_numpy() == pytest.approx((1 - cash / equity.iloc[1:]).to_numpy())
    assert example.weights.shape == held.shape
    assert (example.weights.gt(0) == held.gt(0)).all(axis=None)


def test_a_sale_has_its_profit_by_hand(short):
    bought, sold = short.trades.iloc[0], short.trades.iloc[1]
    assert (bought["side"], sold["side"], bought["quantity"]) == ("buy", "sell", sold["quantity"])
    spent = bought["quantity"] * bought["price"] + bought["cost"]
    assert sold["profit"] == pytest.approx(sold["quantity"] * sold["price"] - sold["cost"] - spent, abs=0.02)
    sessions = short.equity.index
    assert sold["holding"] == sessions.get_loc(sold["trade_date"]) - sessions.get_loc(bought["trade_date"])
    assert sold["mae"] <= min(sold["price"] / bought["price"] - 1, 0) <= sold["mfe"]
    assert np.isnan(bought["profit"])


def test_signal_code_and_understanding_are_those_of_the_folder(short, example):
    counts = short["signal"]["counts"]
    assert ((short.signal == 1).sum().sum(), (short.signal == -1).sum().sum()) == (
        counts["buy"],
        counts["sell"],
    )
    assert "rolling" in short.code
    assert any("000341.SZ" in line for line in short.understanding)
    assert (example.signal, example.code) == (None, "")


def test_a_representation_is_a_few_lines_and_not_nineteen_thousand_characters(short, example, waiting):
    for result in (short, example, waiting):
        assert len(repr(result)) < 1_500
        assert result["run_id"] in repr(result)
        page = result._repr_html_()
        assert len(page.encode()) < 12_000
        assert tags(page) <= {"a", "div", "b", "br", "svg", "path", "text", "table", "tr", "td"}
    assert f"{short['account']['return']:.2%}" in repr(short)
    assert "合成数据" in repr(short)


def test_a_cell_is_the_first_screen_of_the_page(short):
    shown, page = short._repr_html_(), short.report().read_text(encoding="utf-8")
    values, sessions = short.equity["account"], short["equity"]["sessions"]
    told = [short["question"], f"{short['account']['return']:.2%}", f"{short['account']['sharpe']:.2f}"]
    told += [
        "<svg",
        f"{sessions[0][:4]}-{sessions[0][4:6]}-{sessions[0][6:]}",
        "2025-03-31",
        "交易：",
        "合成数据，",
    ]
    assert [*map(shown.index, told)] == sorted(map(shown.index, told)), "figures first, provenance last"
    for figure in re.findall(r"<b style='font-size:150%'>([^<]+)</b>", shown):
        assert f">{figure}</p>" in page
    ticks = [float(text.replace(",", "")) for text in re.findall(r'end">([\d,]+)</text>', shown)]
    both = [*values, *short.equity["benchmark"]]
    assert min(both) <= min(ticks) < max(ticks) <= max(both)
    assert len({round(high - low, 6) for low, high in pairwise(ticks)}) == 1


def test_a_run_that_waits_for_an_answer_is_as_pleasant(waiting):
    assert waiting["ended_because"] == "needs_answer"
    shown = repr(waiting)
    assert shown.count("needs_answer") == 1
    assert "请问要看哪些股票" in shown
    assert f"resume_run({waiting['run_dir']!r}, answer=…)" in shown
    tables = (waiting.equity, waiting.trades, waiting.orders, waiting.positions, waiting.weights)
    assert all(isinstance(table, pd.DataFrame) and table.empty for table in tables)
    assert waiting.returns.empty
    assert "profit" in waiting.trades.columns
    assert (waiting.signal, waiting.code, waiting.understanding) == (None, "", [])
    assert "没有成交" in waiting.plot().layout.title.text


def test_a_run_that_failed_or_still_runs_opens(short, tmp_path):
    folder = shutil.copytree(short.folder, tmp_path / "r")
    for state in ("running", "failed"):
        kept = ("run_id", "run_dir", "question", "source", "started", "versions")
        told = {name: short[name] for name in kept} | {"state": state, "ended_because": None}
        told |= {"error": "failed: ValueError: <b>a bug</b>"} if state == "failed" else {}
        (folder / "result.json").write_text(json.dumps(told), encoding="utf-8")
        result = open_run(folder)
        assert state in repr(result)
        assert "<b>a bug</b>" not in result._repr_html_()
        assert f"resume_run({str(folder)!r})" in repr(result)
        assert result.equity.empty
    (folder / "result.json").unlink()
    assert open_run(folder)["state"] == "running"


def test_the_plot_has_return_and_drawdown_and_one_colour_a_series(short):
    figure = short.plot()
    names = [line.name for line in figure.data]
    assert names == ["账户", "账户", "买入持有", "买入持有", "买入", "卖出"]
    sold = short.trades[short.trades["side"] == "sell"]
    assert [*figure.data[5].x] == [*sold["trade_date"].drop_duplicates()]
    account = short.equity["account"]
    first = account.at[sold["trade_date"].iloc[0]] / account.iloc[0] - 1
    assert (figure.data[5].y[0], figure.data[5].mode) == (pytest.approx(first), "markers")
    assert f"{sold['quantity'].iloc[0]:,.0f} @ {sold['price'].iloc[0]:,.2f}" in figure.data[5].text[0]
    assert figure.data[0].y[-1] == pytest.approx(short["account"]["return"])
    assert min(figure.data[1].y) == pytest.approx(short["account"]["max_drawdown"])
    colours = [line.line.color for line in figure.data]
    assert colours[0] == colours[1] != colours[2] == colours[3]


def test_a_round_trip_is_its_two_fills_by_hand(short):
    trips, fills = short.round_trips, short.trades
    bought, sold = fills.iloc[0], fills.iloc[1]
    first = trips.iloc[0]
    assert (first["ts_code"], first["kind"], first["quantity"]) == ("000341.SZ", "closed", bought["quantity"])
    assert (first["opened"], first["closed"]) == (bought["trade_date"], sold["trade_date"])
    assert (first["entry_price"], first["exit_price"]) == (bought["price"], sold["price"])
    cost = bought["notional"] + bought["cost"]
    assert first["profit"] == pytest.approx(sold["notional"] - sold["cost"] - cost)
    assert first["return"] == pytest.approx((sold["notional"] - sold["cost"]) / cost - 1)
    assert (trips["kind"] == "closed").sum() == short["account"]["round_trips"]


def test_metrics_months_and_drawdowns_are_tables(short, waiting):
    metrics = short.metrics
    assert metrics.columns.tolist() == ["account", "benchmark", "index"]
    assert metrics.loc["return", "account"] == short["account"]["return"]
    assert metrics["index"].isna().all()
    months = short.monthly
    whole = (1 + months.loc[2025, [1, 2, 3]]).prod() - 1
    assert whole == pytest.approx(short["account"]["return"]) == pytest.approx(months.loc[2025, "year"])
    assert months.loc[2025, "benchmark"] == pytest.approx(short["benchmark"]["return"])
    deepest = short.drawdowns.iloc[0]
    assert deepest["depth"] == pytest.approx(short["account"]["max_drawdown"])
    assert f"{deepest['trough']:%Y%m%d}" == short["account"]["drawdown"]["trough"]
    for table in (waiting.metrics, waiting.monthly, waiting.drawdowns, waiting.round_trips):
        assert table.empty


def test_a_representation_has_the_benchmark_and_a_link_to_the_page(short):
    assert "打开页面" not in short._repr_html_() or short.report().is_file()
    page = short.report()
    shown = short._repr_html_()
    assert page.as_uri() in shown
    assert f"买入持有 {short['benchmark']['return']:.2%}" in shown


def test_a_notebook_shows_the_steps_of_a_run(monkeypatch):
    shown = []
    display = SimpleNamespace(update=lambda made: shown.append(made.data))
    shell = SimpleNamespace(get_ipython=lambda: SimpleNamespace(kernel=object()))
    monkeypatch.setitem(sys.modules, "IPython", shell)
    parts = SimpleNamespace(
        HTML=lambda text: SimpleNamespace(data=text),
        display=lambda made, display_id: shown.append(made.data) or display,
    )
    monkeypatch.setitem(sys.modules, "IPython.display", parts)
    watch = notebook_watch("5日均线上穿20日均线")
    watch(RunEvent(kind="started", name="reflection"))
    watch(RunEvent(kind="traded", name="daily_loop", number=7, total=30))
    watch(RunEvent(kind="traded", name="daily_loop", number=20, total=30))
    assert shown == ["理解句子 …", "逐日交易: 20 / 30"]
    monkeypatch.delitem(sys.modules, "IPython")
    assert notebook_watch("buy") is None


def test_the_page_is_written_where_it_is_asked_for(short, tmp_path):
    assert short.report(to=tmp_path / "page.html") == tmp_path / "page.html"
    assert short["run_id"] in (tmp_path / "page.html").read_text(encoding="utf-8")


def test_the_summary_of_a_graph_is_opened_alike(short):
    kept = ("run_id", "account", "benchmark", "index", "equity")
    summary = RunResult({name: short[name] for name in kept})
    assert summary.equity.equals(short.equity)
    assert [len(line.x) for line in summary.plot().data[4:]] == [0, 0]
    assert f"{short['account']['return']:.2%}" in repr(summary)
    assert "<svg" in summary._repr_html_()
    with pytest.raises(BadOption, match=r"Ledger\(PLACE\).orders\("):
        _ = summary.orders


def test_a_finding_that_the_code_is_not_what_was_said_is_among_the_first_lines(short):
    issue = {
        "severity": "warning",
        "code": "meaning_differs",
        "message": "the code differs",
        "zh": "代码与所说的不一致" + "，" * 150 + "末尾",
    }
    found = RunResult({**short, "validation": {**short["validation"], "issues_found": [issue]}})
    head, told, ended, *_ = repr(found).splitlines()
    assert head.startswith("RunResult")
    assert told.strip() == issue["zh"], "whole"
    assert ended.strip() == "完成（有未解决的问题）"
    many = RunResult({**short, "assumptions": ["symbol: 000341.SZ (default)"] * 20})
    assert "…另有" in repr(many)
    assert len(repr(many).splitlines()) < 14


def test_hostile_text_stays_text(short):
    hostile = {
        **short,
        "question": HOSTILE * 50,
        "run_id": HOSTILE,
        "assumptions": [HOSTILE * 50] * 30,
        "ended_because": HOSTILE,
        "error": HOSTILE,
        "open_question": {"question": HOSTILE * 50},
        "understanding": {**short["understanding"], "trade": [HOSTILE] * 50},
        "causality": {"text": HOSTILE},
    }
    result = RunResult(hostile)
    page = result._repr_html_()
    assert tags(page) <= {"a", "div", "b", "br", "svg", "path", "text", "table", "tr", "td"}
    assert len(page.encode()) < 16_000
    for shown in (page, repr(result), result.plot().layout.title.text):
        assert not {"\x1b", "\u202e"} & {*shown}
    assert "<script" not in result.plot().layout.title.text


@pytest.mark.parametrize(
    "odd",
    [
        {},
        {"account": {"return": "x"}},
        {"understanding": {"trade": 1}},
        {"equity": {"account": ["a", "b"]}},
        {"source": "sample", "question": None, "assumptions": 3},
    ],
)
def test_a_representation_of_any_dict_never_raises(odd):
    result = RunResult(odd)
    assert repr(result).startswith("RunResult")
    assert result._repr_html_().startswith("<div>")


def test_what_is_missing_is_named(short, tmp_path):
    folder = shutil.copytree(short.folder, tmp_path / "r")
    (folder / "ledger.sqlite").unlink()
    with pytest.raises(BadFile, match="missing or empty, the ledger of run"):
        _ = open_run(folder).orders
    opened = open_run(folder)
    shutil.rmtree(folder)
    with pytest.raises(BadFile, match="does not say what run this is"):
        _ = opened.positions
    with pytest.raises(BadOption, match=r"there is no run.json in .*nowhere"):
        open_run(tmp_path / "nowhere")


def test_a_ledger_whose_password_is_not_known_is_named_without_it(short, tmp_path):
    folder = shutil.copytree(short.folder, tmp_path / "r")
    stored = json.loads((folder / "run.json").read_text(encoding="utf-8"))
    stored["ledger"] = "postgresql+psycopg://trader:***@nowhere/quantgraph"
    (folder / "run.json").write_text(json.dumps(stored), encoding="utf-8")
    with pytest.raises(
        BadOption, match=r"read only if you name it: --ledger, or ledger= in Python, or Ledger\(URL\)"
    ):
        _ = open_run(folder).orders


def test_a_copy_of_a_folder_may_have_any_name(short, tmp_path):
    copied = open_run(shutil.copytree(short.folder, tmp_path / "my copy (1)"))
    assert copied.trades.equals(short.trades)


def test_a_run_is_found_by_its_name_in_the_folder_of_the_settings(short, monkeypatch):
    monkeypatch.setenv("QUANTGRAPH_RUNS_DIR", str(short.folder.parent))
    assert open_run(short["run_id"]).folder == short.folder


def test_a_replay_gives_such_a_result_too(short, tmp_path):
    kept, again = replay(short.folder, out=tmp_path).result, replay(short.folder).result
    assert kept.orders.equals(short.orders)
    assert kept.trades["profit"].equals(short.trades["profit"])
    assert again.equity.equals(short.equity)
    with pytest.raises(BadOption, match="has no folder"):
        _ = again.trades
