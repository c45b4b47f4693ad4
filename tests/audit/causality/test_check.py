"""Counterexamples whose place and values are computed by hand."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, LookLog, _first_run, check_causality, run_first
from quantgraph.audit.causality._first_run import proves_all
from quantgraph.audit.causality._trials import prefix, read_panels
from quantgraph.errors import BadFrame, BadOption, CodeFailed, CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import default_runner
from quantgraph.state.frames import FrozenFrame

from .causality_panels import Inline, cross, panel

ADD = LookLog.add
DAYS = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08", "2024-01-09"])


def bars(*closes, symbol="600519.SH", **more):
    fields = {"close": closes, **more}
    return {
        name: pd.DataFrame({symbol: values}, index=DAYS[: len(values)], dtype=float)
        for name, values in fields.items()
    }


def place(found):
    return f"{found.session:%Y-%m-%d}", found.symbol, found.known, found.later, found.later_sessions


def test_the_mean_of_the_sample_shows_on_the_first_day_as_soon_as_there_is_a_second():
    # Alone 10 is its own mean; with 11 the mean is 10.5, and 10 is below it.
    verdict = check_causality(lambda p: np.sign(p["close"] - p["close"].mean()), bars(10, 11, 12, 11, 13, 9))
    assert place(verdict.counterexample) == ("2024-01-02", "600519.SH", 0, -1, 1)
    assert verdict.counterexample.test == "truncation"


def test_a_refusal_says_what_was_asked_for_leaves_nothing_open_and_is_told_once():
    def peeking(p):
        return p["close"] > p["close"].mean()

    for walk, method in (("all", "walked"), ("sampled", "sampled")):
        verdict = check_causality(Inline(peeking), panel(50), prove=walk)
        assert not verdict.causal
        assert (verdict.coverage["method"], verdict.coverage["residual"]) == (method, 0)
        assert verdict.proved < 50
    assert verdict.line.startswith("not causal: the signal of ")
    assert verdict.findings()[0].message == verdict.counterexample.message("en")
    assert verdict.findings("zh")[0].message == verdict.counterexample.message("zh")


def test_a_backward_fill_shows_at_the_first_row_of_the_gap_and_needs_all_of_it():
    verdict = check_causality(lambda p: p["close"].bfill() > 11, bars(10, np.nan, np.nan, 12, 13, 13))
    assert place(verdict.counterexample) == ("2024-01-03", "600519.SH", 0, 1, 2)
    assert verdict.as_json()["counterexample"]["hints"] != []


def test_an_interpolation_that_happens_to_change_nothing_shows_with_another_price_after_the_gap():
    # Half-way from 10 to 10.5 is 10.25. The best session, from 10.2 to 10.9, makes 10.69 of 10: half-way 10.345.
    strategy = Inline(lambda p: (p["close"].interpolate() > 10.3) * 1.0)
    days = bars(10, np.nan, 10.5, 10.2, 10.9, 10.1)
    verdict = check_causality(strategy, days, prove="sampled", seed=0)
    assert verdict.counterexample.test == "alternative_future"
    assert place(verdict.counterexample) == ("2024-01-03", "600519.SH", 0, 1, 1)
    # Walked it is harmless: whatever comes after the gap, on the day nothing of it was there.
    verdict = check_causality(strategy, days)
    assert verdict.signal["600519.SH"].tolist() == [0, 0, 1, 0, 1, 0]


def test_a_strategy_that_fails_before_the_fourth_day_has_no_signal_on_the_first():
    def strategy(p):
        if len(p["close"]) < 4:
            raise ValueError("too few rows")
        return p["close"] > 0

    found = check_causality(strategy, bars(1, 1, 1, 1, 1, 1)).counterexample
    assert (f"{found.session:%Y-%m-%d}", found.later, found.later_sessions) == ("2024-01-02", 1, 3)
    assert np.isnan(found.known)
    assert found.error == "ValueError: too few rows"
    assert "too few rows" in found.message("zh")


@pytest.mark.parametrize("walk", ["all", "sampled"])
def test_one_session_at_which_it_fails_is_not_rounding(walk):
    def strategy(p):
        if len(p["close"]) == 31:
            raise ValueError("not today")
        return p["close"] > 0

    days = panel(60, gaps=False)
    found = check_causality(Inline(strategy), days, prove=walk, cuts=59).counterexample
    assert (found.session, found.error) == (days["close"].index[30], "not today")
    assert np.isnan(found.known)


def test_a_strategy_that_fails_only_where_it_has_no_opinion_is_causal():
    def strategy(p):
        signal = (p["close"] > 0) * 1.0
        signal.iloc[3]
        signal.iloc[:3] = np.nan
        return signal

    assert check_causality(strategy, bars(1, 1, 1, 1, 1, 1)).causal


def test_the_close_is_not_known_at_the_open():
    panel = bars(10, 9, 12, 11, 13, 9, open=[10, 10, 11, 12, 12, 13])

    def strategy(p):
        return p["close"] > p["open"]

    assert check_causality(strategy, panel).causal
    found = check_causality(strategy, panel, decide_at="open").counterexample
    assert place(found) == ("2024-01-04", "600519.SH", 0, 1, 0)  # 12 over 11, the first of them
    assert "known at 2024-01-04 open, and 1 once the rest of that session is known" in found.message("en")


def test_the_open_and_the_closes_before_are_known_at_the_open():
    panel = bars(10, 9, 12, 11, 13, 9, open=[10, 10, 11, 12, 12, 13])
    assert check_causality(lambda p: p["open"] > p["close"].shift(1), panel, decide_at="open").causal


def test_what_a_function_keeps_from_a_longer_panel_comes_too_late():
    seen = [pd.DataFrame()]

    def strategy(p):
        seen[0] = max(seen[0], p["close"], key=len)
        return seen[0].shift(-1).reindex(p["close"].index).notna() & (
            p["close"].index[-1] < seen[0].index[-1]
        )

    verdict = check_causality(strategy, panel(40))
    assert verdict.causal
    assert not verdict.signal.to_numpy().any()


def test_randomness_is_told_apart_from_the_future():
    # 180 cells, drawn anew in each run: by chance two runs agree once in 2 ** 180. Of six cells it was once in 64.
    verdict = check_causality(
        lambda p: pd.DataFrame(np.random.default_rng().random(p["close"].shape) > 0.5, *p["close"].axes),
        panel(60),
    )
    assert (verdict.result, verdict.causal, verdict.counterexample) == ("not_deterministic", False, None)
    assert [(finding.code, finding.message) for finding in verdict.findings()] == [
        ("not_reproducible", "two runs on the same data give different signals; seed what is random")
    ]
    assert verdict.line.startswith("not deterministic: two runs")


def flat_days(p):
    """Up on a rise, and on a flat day as tomorrow says."""
    close = p["close"]
    change, tomorrow = close.diff(), np.sign(close.shift(-1) - close).fillna(0.0)
    return (change > 0) * 1.0 + tomorrow.where(change == 0, 0.0)


def test_a_tie_that_the_future_decides_is_not_excused_as_rounding():
    # Flat on the second day, up on the third. A move by 1e-9 turns the tie over, and another third day does.
    days = bars(10, 10, 11, 12, 13, 14)
    verdict = check_causality(Inline(flat_days), days, prove="sampled")
    assert place(verdict.counterexample) == ("2024-01-03", "600519.SH", 0, 1, 1)
    assert verdict.counterexample.test == "truncation"
    assert verdict.near_threshold == 0


def test_a_tie_that_the_future_decides_is_walked_without_it_and_shown():
    verdict = check_causality(Inline(flat_days), bars(10, 10, 11, 12, 13, 14))
    assert verdict.signal["600519.SH"].tolist() == [
        0,
        0,
        1,
        1,
        1,
        1,
    ]  # the whole panel says 1 on the second day
    assert (verdict.near_threshold, verdict.flipped_share) == (1, 1 / 5)
    (finding,) = verdict.findings()
    assert (finding.severity, finding.message.split(",")[0]) == (
        "warning",
        "1 cells are so near a threshold that rounding changes them",
    )


def test_a_tie_decided_by_the_past_is_no_leak():
    def strategy(p):
        change = p["close"].diff()
        return (change > 0) | ((change == 0) & (change.shift(1) > 0))

    verdict = check_causality(Inline(strategy), bars(10, 11, 11, 10, 10, 12))
    assert verdict.line == "causal: proved at 6 of 6 sessions"
    assert verdict.near_threshold == 0


def summed_in_another_order(p):
    """0.1 + 0.2 + 0.3 is above 0.6 from the left, and not from the right, as a shorter panel is summed."""
    names = list(p["close"].columns)
    total = sum(p["close"][name] for name in (names if len(p["close"]) == 50 else names[::-1]))
    return pd.DataFrame(dict.fromkeys(names, (total > 0.6) * 1.0), index=p["close"].index)


def sums(*ties):
    """Fifty sessions of three symbols, which add up to 0.6 in some."""
    index = pd.bdate_range("2024-01-02", periods=50)
    close = pd.DataFrame([[1.0, 2.0, 3.0]] * 50, index=index, columns=["A", "B", "C"])
    close.iloc[list(ties)] = [0.1, 0.2, 0.3]
    return {"close": close}


def test_a_sum_in_another_order_turns_a_cell_at_the_threshold_and_is_counted_not_accused():
    verdict = check_causality(Inline(summed_in_another_order), sums(4, 31))
    assert verdict.line == "causal: proved at 50 of 50 sessions"
    assert verdict.near_threshold == 6  # two days, three columns
    assert verdict.notes[0].startswith("6 cells are so near a threshold")


def test_a_strategy_that_fails_on_prices_that_could_have_come_is_not_decided():
    def strategy(p):
        known = [1.0, 2.0, 3.0, 0.1, 0.2, 0.3]
        if not np.isclose(p["close"].to_numpy()[..., None], known).any(axis=-1).all():
            raise ValueError("no such price")
        return summed_in_another_order(p)

    verdict = check_causality(Inline(strategy), sums(30), prove="sampled", seed=0)
    assert (verdict.result, verdict.causal) == ("undecided", False)
    assert verdict.line == (
        "undecided: the strategy fails on prices that could have come (no such price); it has to run on any of "
        "them to be proved"
    )
    assert verdict.text("zh").startswith("无法判定：换成另一种可能的未来行情时策略报错（no such price）")
    assert verdict.findings()[0].code == "causality_undecided"
    walked = check_causality(Inline(strategy), sums(30))
    assert walked.causal  # nothing else has to be tried
    assert not walked.alternative_futures


def test_more_opinions_than_ties_explain_are_not_excused():
    # Each tenth session is a tie, and rounding turns it: 15 of the 147 opinions in last rows, where 7 are the most.
    ties = sums(*range(0, 50, 10))
    verdict = check_causality(Inline(summed_in_another_order), ties, prove="sampled", cuts=50)
    assert verdict.result == "undecided"
    assert verdict.line.startswith("undecided: rounding flips 10.2% of the opinions, more than 5%")
    verdict = check_causality(Inline(summed_in_another_order), ties)
    assert verdict.causal
    assert verdict.flipped_share == pytest.approx(15 / 150)


def test_a_draw_of_secret_cuts_is_told_and_can_be_made_again():
    first, second = (check_causality(Inline(cross), panel(120), prove="sampled") for _ in range(2))
    assert first.seed != second.seed
    again = check_causality(Inline(cross), panel(120), prove="sampled", seed=first.seed)
    assert again.coverage == first.coverage
    assert check_causality(Inline(cross), panel(60)).seed is None  # walked: nothing is drawn


def test_a_product_that_rounds_otherwise_on_a_shorter_panel_is_excused_at_its_threshold():
    rng = np.random.default_rng(11)
    index, names = pd.bdate_range("2024-01-02", periods=57), [f"{600000 + i}.SH" for i in range(13)]
    frames = {"close": pd.DataFrame(np.exp(rng.normal(0, 1, (57, 13))), index=index, columns=names)}
    weights = rng.normal(size=13)

    def scores(p):
        return p["close"].to_numpy() @ weights

    # How BLAS blocks the rows is the machine's affair: a session that rounds otherwise, if it has one.
    known = read_panels(frames)
    cuts = [prefix(known, Moment(day))[""]["close"].frame for day in index]
    *shorter, whole = [scores({"close": cut}) for cut in cuts]
    lower = np.array([any(score[row] < whole[row] for score in shorter[row:]) for row in range(57)])
    row = int(lower.argmax())

    def strategy(p):
        above = (scores(p) >= whole[row]) * 1.0
        return pd.DataFrame(dict.fromkeys(names, above), p["close"].index)

    verdict = check_causality(Inline(strategy), frames)
    assert verdict.line == "causal: proved at 57 of 57 sessions"
    assert verdict.near_threshold == (13 if lower.any() else 0)


def test_a_product_of_the_rows_that_are_left_is_not_accused_by_a_future_without_trading():
    mix = np.random.default_rng(3).normal(size=(7, 7))

    def strategy(p):
        traded = p["close"].dropna(how="all")
        scores = pd.DataFrame(traded.to_numpy() @ mix, traded.index, traded.columns)
        return scores.reindex(p["close"].index)

    verdict = check_causality(Inline(strategy), panel(61, 7, gaps=False), prove="sampled")
    assert verdict.causal, verdict.line
    assert verdict.coverage["alternative_futures"]["missing"] > 0


def test_weights_by_a_matrix_product_differ_by_rounding_at_most():
    mix = np.random.default_rng(3).normal(size=(7, 7))

    def strategy(p):
        returns = p["close"].pct_change(fill_method=None).fillna(0.0)
        return pd.DataFrame(returns.to_numpy() @ mix, index=returns.index, columns=returns.columns)

    assert check_causality(Inline(strategy), panel(61, 7)).causal


def test_a_draw_seeded_by_the_data_is_not_excused_as_rounding():
    def strategy(p):
        draw = np.random.default_rng(abs(hash(p["close"].to_numpy().tobytes())) % 2**32)
        return pd.DataFrame(draw.choice([0.0, 1.0], p["close"].shape), p["close"].index, p["close"].columns)

    assert not check_causality(Inline(strategy), panel(40)).causal


CELLS = (
    'close = snapshot["ohlcv"]["close"]',
    "ahead = close.shift(-2)\n"
    "signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(ahead > close, 1.0)\n"
    'GLOBAL_DATA_STATE.update("signal", {"ahead": signal})',
)


def test_code_is_told_its_line_in_both_languages_on_one_line():
    verdict = check_causality(
        CodeTrials(default_runner(), CELLS, "ahead"), {"ohlcv": bars(10, 9, 12, 11, 13, 9)}
    )
    found = verdict.counterexample
    assert place(found) == ("2024-01-02", "600519.SH", 0, 1, 2)
    assert [(p.cell, p.line, p.text) for p in found.hints] == [(2, 1, "ahead = close.shift(-2)")]
    assert found.message("en") == (
        "the signal of 600519.SH on 2024-01-02 is 0 with what is known at 2024-01-02 post_close, and 1 once "
        "2 later sessions are known: it uses the future; look first at cell 2, line 1: ahead = close.shift(-2), "
        "a negative shift takes later rows"
    )
    assert found.message("zh") == (
        "600519.SH 在 2024-01-02 的信号用当日收盘后已知的数据是 0，再给之后 2 个交易日就变成 1：它用到了未来数据；"
        "先看第 2 个单元第 1 行：ahead = close.shift(-2)，负的位移取的是以后的行"
    )
    told = json.loads(json.dumps(verdict.as_json(), allow_nan=False))
    assert (told["causal"], told["counterexample"]["later_sessions"], told["warm_up"]) == (False, 2, None)


def test_code_that_hides_its_idiom_is_told_where_the_signal_comes_from():
    cell = (
        'c = snapshot["ohlcv"]["close"]\nlater = c.reindex(c.index[1:]).set_axis(c.index[:len(c) - 1])\n'
        'GLOBAL_DATA_STATE.update("signal", {"x": (later.reindex(c.index) > c) * 1.0})'
    )
    verdict = check_causality(CodeTrials(default_runner(), [cell]), {"ohlcv": bars(10, 11, 12, 11, 13, 9)})
    assert "the signal comes from cell 1, line 3: GLOBAL_DATA_STATE.update" in verdict.line


def test_what_aimed_cuts_leave_open_is_said_in_numbers():
    verdict = check_causality(Inline(cross), panel(120), prove="sampled", cuts=40)
    # Of forty cuts twenty are drawn from all sessions. 0.01 ** (1 / 20) is 0.7943: they miss a leak at 20.57 % of
    # them once in a hundred times.
    assert verdict.residual == pytest.approx(0.20567, abs=1e-5)
    assert verdict.line == (
        "causal (sampled): proved at 40 of 120 sessions; a leak that shows in fewer than 21% of them could be missed"
    )
    assert verdict.text("zh").startswith("无未来函数（抽样）：已在 120 个交易日中的 40 个上证明")
    assert verdict.coverage["alternative_futures"]["missing"] == 2


def test_the_size_of_the_panel_decides_whether_all_sessions_are_walked():
    """Sessions squared x symbols x fields: 750 x 300 and 2,500 x 50 with 19 fields are walked, 1,250 x 300 is not."""
    sizes = {(750, 300, 19): True, (2500, 50, 19): True, (2500, 50, 20): False, (1250, 300, 15): False}
    for (sessions, symbols, fields), whole in sizes.items():
        days = pd.bdate_range("2010-01-04", periods=sessions).to_numpy().astype("datetime64[us]")
        names = tuple(f"{number:06d}.SH" for number in range(symbols))
        frame = FrozenFrame(days, names, np.broadcast_to(1.0, (sessions, symbols)))
        frames = {"ohlcv": {"close": frame, **{f"field_{number}": frame for number in range(fields - 1)}}}
        assert proves_all(frames, "auto") is whole
        assert proves_all(frames, "all")
        assert not proves_all(frames, "sampled")


class Clocked(Inline):
    """Trials whose steps take the seconds that they say, by a clock of their own."""

    def __init__(self, function, seconds, monkeypatch):
        super().__init__(function)
        self.now, self.seconds = 0.0, seconds
        monkeypatch.setattr(_first_run, "time", SimpleNamespace(monotonic=lambda: self.now))

    def prefixes(self, panel, moments, **rows):
        for outcome in super().prefixes(panel, moments, **rows):
            self.now += self.seconds
            yield outcome


@pytest.mark.parametrize(("sessions", "seconds"), [(60, 0.9), (750, 0.4)])
def test_slow_code_is_walked_whatever_time_it_takes_up_to_a_limit(sessions, seconds, monkeypatch):
    verdict = check_causality(Clocked(cross, seconds, monkeypatch), panel(sessions, 1), warm_up=False)
    assert verdict.line == f"causal: proved at {sessions} of {sessions} sessions"


@pytest.mark.parametrize(("sessions", "seconds", "limit"), [(60, 1.1, "60"), (750, 0.6, "375")])
def test_code_that_is_too_slow_is_refused_with_the_option_that_lets_it(sessions, seconds, limit, monkeypatch):
    slow = Clocked(cross, seconds, monkeypatch)
    with pytest.raises(CodeTimeout, match=f"more than {limit} s .* --walk all"):
        check_causality(slow, panel(sessions, 1), warm_up=False)
    assert check_causality(slow, panel(sessions, 1), prove="all", warm_up=False).causal


def test_a_walk_ends_with_the_first_error_after_an_opinion():
    def fails_late(p):
        if len(p["close"]) == 30:
            raise ValueError("not today")
        return cross(p, 2, 4)

    steps = []

    class Counted(Inline):
        def prefixes(self, panel, moments, **rows):
            for outcome in super().prefixes(panel, moments, **rows):
                steps.append(outcome)
                yield outcome

    verdict = check_causality(Counted(fails_late), panel(60))
    assert verdict.result in {"undecided", "not_causal"}
    assert len(steps) == 30
    assert "not today" in verdict.line


def test_the_strategy_has_walked_before_it_runs_on_a_later_row():
    seen = []

    def watched(p):
        seen.append(len(p["close"]))
        return cross(p)

    for walk, first in (("all", [*range(1, 61)]), ("sampled", None)):
        seen.clear()
        check_causality(Inline(watched), panel(60, gaps=False), prove=walk, cuts=8, seed=1)
        walked = seen[: len(first or range(4))]
        assert walked == (first or sorted(walked))
        assert max(seen) >= 60


@pytest.fixture
def counted_looks(monkeypatch):
    """Looks are counted, as the suite does not otherwise."""
    monkeypatch.setattr(LookLog, "add", ADD)


def test_later_looks_at_the_same_rows_are_counted_whatever_the_code(tmp_path, counted_looks):
    looks = LookLog(tmp_path)
    frames = read_panels({"ohlcv": panel(60)})
    part = read_panels({"ohlcv": {name: frame.iloc[20:50] for name, frame in panel(60).items()}})
    other = read_panels({"ohlcv": panel(60, seed=9)})
    lines = [
        check_causality(Inline(each), rows, looks=looks, warm_up=False).line
        for each, rows in ((cross, frames), (cross, other), (lambda p: cross(p, 2, 9), part), (cross, frames))
    ]
    assert lines == [
        "causal: proved at 60 of 60 sessions",
        "causal: proved at 60 of 60 sessions",
        "causal (second look, 1): proved at 30 of 30 sessions",
        "causal (second look, 2): proved at 60 of 60 sessions",
    ]
    assert check_causality(Inline(cross), frames, looks=looks, prove="sampled", cuts=4).line.startswith(
        "causal (sampled; second look, 3): proved at 4 of 60 sessions"
    )


def test_rows_before_the_window_do_not_make_a_second_look(tmp_path, counted_looks):
    days, frames = panel(60)["close"].index, read_panels({"ohlcv": panel(60)})
    first = read_panels({"ohlcv": {name: frame.iloc[:30] for name, frame in panel(60).items()}})
    assert LookLog(tmp_path).add(first) == 0
    assert LookLog(tmp_path, start=days[30]).add(frames) == 0
    assert LookLog(tmp_path, start=days[29]).add(frames) == 2


def test_a_cache_that_cannot_be_written_stops_no_proof(tmp_path, counted_looks):
    (tmp_path / "file").write_text("")
    assert LookLog(tmp_path / "file").add(read_panels({"ohlcv": panel(30)})) == 0


def test_no_run_begins_before_the_one_before_it_has_ended():
    days = panel(60, gaps=False)
    alive, together = [], []

    class Watched(Inline):
        threads = 2

        def prefixes(self, panel, moments, **rows):
            with beside(0):
                yield from Inline(self.function).prefixes(panel, moments, **rows)

        def whole(self, panel):
            closes = panel["ohlcv"]["close"].values[:60]
            real = closes == days["close"].to_numpy()[: len(closes)]
            with beside(int(real.all(axis=1).argmin())):
                time.sleep(0.001)  # long enough for another to be seen
                return super().whole(panel)

    @contextmanager
    def beside(first_invented):
        alive.append(first_invented)
        together.append([*alive])
        try:
            yield
        finally:
            alive.remove(first_invented)

    peeks = [lambda p: (p["close"] > p["close"].mean()) * 1.0, lambda p: np.sign(-p["close"].diff(-1))]
    for function in (cross, *peeks):
        for walk in ("all", "sampled"):
            told = check_causality(Watched(function), {"ohlcv": days}, prove=walk, cuts=12, seed=1)
            assert told.causal == (function is cross)
    assert together
    assert all(len(each) == 1 for each in together)
    assert not alive


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"cuts": 0}, "cuts=0"),
        ({"lookback": 0}, "lookback=0"),
        ({"decide_at": "noon"}, "decide_at='noon'"),
        ({"prove": "yes"}, "prove='yes'"),
    ],
)
def test_options_out_of_range_are_named(option, word):
    with pytest.raises(BadOption, match=word):
        check_causality(Inline(cross), panel(20 + 20), **option)


@pytest.mark.parametrize("panels", [{}, {"ohlcv": {}}, [1], pd.DataFrame()])
def test_what_is_no_panel_is_refused(panels):
    with pytest.raises(BadFrame):
        check_causality(Inline(cross), panels)


def test_a_strategy_that_fails_on_everything_is_an_error_not_a_verdict():
    with pytest.raises(CodeFailed, match="fails on the whole panel: ZeroDivisionError"):
        check_causality(lambda p: 1 / 0, bars(1, 2, 3))


def test_a_strategy_across_symbols_is_causal_on_alternative_futures():
    verdict = check_causality(
        Inline(lambda p: np.sign(p["close"].sub(p["close"].mean(axis=1), axis=0))),
        panel(60, 4),
        prove="sampled",
    )
    assert verdict.causal
    assert verdict.coverage["alternative_futures"]["resampled"] == 16


def _with_index(sessions=60):
    stocks = panel(sessions)
    levels = {
        name: stocks[name].iloc[:, :1].set_axis(["000016.SH"], axis=1) * 50 for name in ("open", "close")
    }
    return {"ohlcv": stocks, "index": levels}


@pytest.mark.proof
def test_the_levels_of_an_index_have_a_future_too():
    def gated(later: int):
        def strategy(panels):
            close, level = panels["ohlcv"]["close"], panels["index"]["close"]["000016.SH"]
            risen = (level.shift(later) > level.rolling(5).mean()).reindex(close.index)
            return pd.DataFrame({code: risen.to_numpy() * 1.0 for code in close}, index=close.index)

        return strategy

    for walk in ("all", "sampled"):
        honest = check_causality(gated(0), _with_index(), prove=walk)
        assert honest.causal, honest.line
        assert not check_causality(gated(-1), _with_index(), prove=walk).causal


@pytest.mark.parametrize("walk", ["all", "sampled"])
def test_the_runs_that_a_proof_takes_are_known_before_it_begins(walk):
    frames, trials, announced = read_panels(panel(60, gaps=False)), Inline(cross), []
    first = run_first(trials, frames, prove=walk, cuts=12, announce=announced.append)
    verdict = check_causality(trials, frames, walked=first, cuts=12, warm_up=False)
    assert verdict.causal
    assert announced == [60 if walk == "all" else 12 + 16 + 2]
