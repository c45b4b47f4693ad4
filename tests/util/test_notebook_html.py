"""Text in a notebook is shown and not obeyed, whatever it holds; nothing that people print is a bare address."""

from __future__ import annotations

import re

import pandas as pd
import pytest

from quantgraph import DataState, Ledger, Rulebook, SignalRule
from quantgraph._util.texts import html_lines, html_table, short_line
from quantgraph.audit import Finding, Report
from quantgraph.audit.causality import check_causality
from quantgraph.data import AsOfSource, open_source
from quantgraph.data.tushare import TushareSource
from quantgraph.market import Moment
from quantgraph.recording._source import RecordedSource
from quantgraph.report import BuyAndHold

HOSTILE = "<script>alert(1)</script>\x1b[2J\u202e\n'\"&"
SESSIONS = pd.DatetimeIndex(["2024-01-02", "2024-01-03", "2024-01-04"])


def frame(value=1.0):
    return pd.DataFrame(value, index=SESSIONS, columns=["600000.SH"])


def test_text_is_escaped_and_short():
    for shown in (html_lines([HOSTILE]), html_table([[HOSTILE, HOSTILE]], head=[HOSTILE, HOSTILE])):
        assert "<script" not in shown
        assert not {"\x1b", "\u202e", "\n"} & {*shown}
        assert "&lt;script&gt;" in shown
    assert short_line("x" * 500, 100) == "x" * 99 + "…"


@pytest.fixture
def store():
    made = DataState()
    made.update("ohlcv", {"close": frame(), "open": frame()})
    return made


def test_whatever_people_print_says_what_it_is(store, tmp_path):
    moment, ref = Moment.at("2024-01-03", "open"), store.head[:12]
    bars = tmp_path / "bars.csv"
    bars.write_text(
        "ts_code,trade_date,open,high,low,close,vol\n600000.SH,20240102,1,1,1,1,1\n", encoding="utf-8"
    )
    sample = open_source("sample")
    with Ledger(tmp_path / "l.sqlite") as ledger:
        shown = {
            repr(store): f"DataState(head {ref}, 1 in memory, 0.0 MB)",
            repr(DataState(tmp_path / "data")): f"spill_dir='{tmp_path / 'data'}')",
            repr(store.checkout(store.head)): f"WorkingTree({ref})",
            repr(store.checkout(store.head).tip[1]): "Commit(ohlcv 2)",
            repr(store.snapshot()): f"Snapshot({ref}; ohlcv: open, close",
            repr(store.view(moment)): f"View({ref} at 2024-01-03 open)",
            repr(store.growing_view()): f"GrowingView({ref} at no moment yet)",
            repr(ledger): f"Ledger('{tmp_path / 'l.sqlite'}')",
            repr(sample): "SampleSource('sample', synthetic)",
            repr(open_source(bars)): f"FileSource('{bars}')",
            repr(RecordedSource(sample)): "RecordedSource(SampleSource('sample', synthetic))",
            repr(AsOfSource(sample, moment)): "AsOfSource(SampleSource at 2024-01-03 open)",
            repr(SignalRule(signal="s")): "SignalRule(signal='s')",
            repr(BuyAndHold()): "BuyAndHold(",
            repr(Rulebook.mainland()): "Rulebook(name='mainland', market='cn'",
        }
    for told, wanted in shown.items():
        assert wanted in told
        assert not re.search(r"0x[0-9a-f]{6}", told)
        assert len(told) < 400


def test_a_source_tells_its_span_once_it_is_read_and_nothing_is_read_for_it():
    sample = open_source("sample")
    assert "symbols" not in repr(sample)
    sample.sessions()
    assert repr(sample) == "SampleSource('sample', synthetic, 60 symbols, 2023-01-03 to 2025-12-31)"
    assert "2025-12-31" not in repr(AsOfSource(sample, Moment.at("2024-01-03", "open")))


def test_no_key_no_password_and_no_folder_of_the_machine_is_shown(monkeypatch, tmp_path):
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    assert repr(TushareSource(token="t-secret")) == "TushareSource()"
    ledger = Ledger.__new__(Ledger)
    ledger.where = "postgresql+psycopg://trader:s-secret@host/name?password=q-secret"
    assert repr(ledger) == "Ledger('postgresql+psycopg://trader:***@host/name')"

    class Keyed(BuyAndHold):
        @property
        def options(self):
            return {"api_key": "k-secret", "cfg": {"token": "n-secret"}, "pace": 3, "name": HOSTILE}

    class Broken(BuyAndHold):
        @property
        def options(self):
            raise ZeroDivisionError

    assert repr(Keyed()).startswith("Keyed(api_key=…, cfg=…, pace=3, name=")
    assert "\x1b" not in repr(Keyed())
    assert repr(Broken()) == "Broken(options: ZeroDivisionError)"


def test_a_report_shows_what_it_found():
    findings = [Finding(severity="error", code="bad_price", message=HOSTILE, symbol="A")]
    report = Report(checks=("prices", "gaps"), findings=(*findings, *findings * 30))
    assert repr(report).splitlines()[0] == "Report(not passed: 2 checks, 31 findings)"
    assert "and 11 more" in repr(report)
    page = report._repr_html_()
    assert page.count("bad_price") == 20
    assert "<script" not in page
    assert not {"\x1b", "\u202e"} & {*page, *repr(report)}
    assert repr(Report(checks=(), findings=())) == "Report(passed: 0 checks, 0 findings)"


def test_a_verdict_shows_its_line_and_what_was_tested():
    panels = {"ohlcv": {"close": frame()}}

    def leaky(frames):
        return (frames["ohlcv"]["close"].shift(-1) > 0).astype(float)

    honest = check_causality(lambda frames: frames["ohlcv"]["close"] * 0, panels)
    told = check_causality(leaky, panels)
    assert repr(honest).startswith("Verdict(causal: ")
    assert "walked" in honest._repr_html_()
    assert told.counterexample.message("en")[:60] in repr(told)
    assert "<table>" in told._repr_html_()
