"""Counterexamples whose place and values are computed by hand."""

from __future__ import annotations

import json
import time
from contextlib import contextmanager
from dataclasses import replace
from types import SimpleNamespace

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, _proofs, check_causality, planned_runs
from quantgraph.audit.causality._trials import prefix, read_panels
from quantgraph.errors import BadFrame, BadOption, CodeFailed, CodeTimeout
from quantgraph.market import Moment
from quantgraph.sandbox import default_runner

from .causality_panels import Inline, cross, panel

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

    for exhaustive, method in ((True, "walked"), (False, "sampled")):
        verdict = check_causality(Inline(peeking), panel(50), exhaustive=exhaustive)
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
    verdict = check_causality(strategy, days, exhaustive=False, seed=0)
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


@pytest.mark.parametrize("exhaustive", [True, False])
def test_one_session_at_which_it_fails_is_not_rounding(exhaustive):
    def strategy(p):
        if len(p["close"]) == 31:
            raise ValueError("not today")
        return p["close"] > 0

    days = panel(60, gaps=False)
    found = check_causality(Inline(strategy), days, exhaustive=exhaustive, cuts=59).counterexample
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


def test_what_only_a_longer_panel_shows_is_seen_by_appending_to_it():
    def strategy(p):
        return (p["close"] > 0) * (1.0 if len(p["close"]) > 6 else 0.0)

    found = check_causality(strategy, bars(1, 1, 1, 1, 1, 1), exhaustive=False).counterexample
    assert found.test == "appended"
    assert (f"{found.session:%Y-%m-%d}", found.known, found.later) == ("2024-01-02", 0, 1)


def test_what_a_function_keeps_from_a_longer_panel_is_seen():
    seen = [pd.DataFrame()]

    def strategy(p):
        seen[0] = max(seen[0], p["close"], key=len)
        return seen[0].shift(-1).reindex(p["close"].index).notna() & (
            p["close"].index[-1] < seen[0].index[-1]
        )

    found = check_causality(strategy, panel(40)).counterexample
    assert (found.test, found.known, found.later) == ("memory", 0, 1)
    assert "同一进程" in found.message("zh")


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
    verdict = check_causality(Inline(flat_days), days, exhaustive=False)
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


def test_a_tie_on_the_last_day_that_the_next_one_would_decide_is_not_excused():
    days = bars(10, 11, 12, 13, 14, 14)
    found = check_causality(Inline(flat_days), days, exhaustive=False).counterexample
    assert (found.test, f"{found.session:%Y-%m-%d}", found.known) == ("appended", "2024-01-09", 0)
    assert found.later in (-1, 1)


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

    verdict = check_causality(Inline(strategy), sums(30), exhaustive=False, seed=0)
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
    # Each tenth session is a tie, and rounding turns it: 15 of the 150 opinions, where 7 are the most.
    ties = sums(*range(0, 50, 10))
    verdict = check_causality(Inline(summed_in_another_order), ties, exhaustive=False, cuts=50)
    assert verdict.result == "undecided"
    assert verdict.line.startswith("undecided: rounding flips 10.0% of the opinions, more than 5%")
    verdict = check_causality(Inline(summed_in_another_order), ties)
    assert verdict.causal
    assert verdict.flipped_share == pytest.approx(15 / 150)


def test_a_draw_of_secret_cuts_is_told_and_can_be_made_again():
    first, second = (check_causality(Inline(cross), panel(120), exhaustive=False) for _ in range(2))
    assert first.seed != second.seed
    again = check_causality(Inline(cross), panel(120), exhaustive=False, seed=first.seed)
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

    verdict = check_causality(Inline(strategy), panel(61, 7, gaps=False), exhaustive=False)
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
    verdict = check_causality(Inline(cross), panel(120), exhaustive=False, cuts=40)
    # Of forty cuts twenty are drawn from all sessions. 0.01 ** (1 / 20) is 0.7943: they miss a leak at 20.57 % of
    # them once in a hundred times.
    assert verdict.residual == pytest.approx(0.20567, abs=1e-5)
    assert verdict.line == (
        "causal (sampled): proved at 40 of 120 sessions; a leak that shows in fewer than 21% of them could be missed"
    )
    assert verdict.text("zh").startswith("无未来函数（抽样）：已在 120 个交易日中的 40 个上证明")
    assert verdict.coverage["alternative_futures"]["appended"] == 2


class Clocked(Inline):
    """Trials whose steps take the time that a function of the rows says, by a clock of their own."""

    def __init__(self, function, seconds, monkeypatch):
        super().__init__(function)
        self.now, self.seconds, self.steps = 0.0, seconds, 0
        monkeypatch.setattr(_proofs, "time", SimpleNamespace(perf_counter=lambda: self.now))

    def prefixes(self, panel, moments):
        for outcome in super().prefixes(panel, moments):
            self.steps += 1
            self.now += self.seconds(self.steps)
            yield outcome


@pytest.mark.parametrize(
    ("sessions", "seconds", "method", "steps"),
    [
        (750, lambda rows: 0.008, "walked", 750),  # three years of a stock: 6 s
        (750, lambda rows: 0.021, "sampled", 64 + 3),  # 15.75 s
        (750, lambda rows: 0.00005 * rows, "walked", 750),  # 14 s, most of it in the last year
        (750, lambda rows: 0.00006 * rows, "sampled", 64 + 3),  # 17 s
        (750, lambda rows: 0.3 if rows in (5, 40, 41) else 0.008, "walked", 750),  # a machine that stops for a moment
        (750, lambda rows: 0.001 if rows < 100 else 0.03, "sampled", 256 + 3),  # 20 s, seen at the third look
        (100, lambda rows: 0.2, "walked", 100),  # 20 s: at 64 steps the rest is not worth another proof
    ],
)  # fmt: skip
def test_all_sessions_are_walked_if_the_first_ones_let_expect_fifteen_seconds(
    sessions, seconds, method, steps, monkeypatch
):
    trials = Clocked(cross, seconds, monkeypatch)
    verdict = check_causality(trials, panel(sessions, 1), cuts=3, warm_up=False)
    assert (verdict.coverage["method"], trials.steps) == (method, steps)
    assert verdict.evaluations == (2 + sessions if method == "walked" else 2 + planned_runs(sessions, 3))


@pytest.mark.parametrize("seconds", [lambda rows: 0.05, lambda rows: 0.001 if rows < 100 else 0.5])
def test_a_leak_that_a_walk_has_seen_stands_however_slow_the_code_makes_itself(seconds, monkeypatch):
    def peeks_once(p):
        close = p["close"]
        signal = close * 0.0
        if len(close) > 6:
            signal.iloc[5] = np.sign(close.iloc[6] - close.iloc[5])
        return signal

    trials = Clocked(peeks_once, seconds, monkeypatch)
    verdict = check_causality(trials, panel(260, 1, gaps=False), cuts=3, seed=1, seconds=8.0, warm_up=False)
    assert (verdict.result, f"{verdict.counterexample.session:%Y-%m-%d}") == ("not_causal", "2024-01-09")
    assert trials.now < 2 * 8.0 + 1


def test_a_leak_before_a_step_that_takes_too_long_is_told_in_its_place():
    class Late(Inline):
        def prefixes(self, panel, moments):
            for row, outcome in enumerate(super().prefixes(panel, moments)):
                if row == 20:
                    raise CodeTimeout("the code ran for more than 30 s")
                yield outcome

    assert check_causality(Late(lambda p: np.sign(-p["close"].diff(-1))), panel(60)).result == "not_causal"
    with pytest.raises(CodeTimeout):
        check_causality(Late(cross), panel(60))


def test_a_walk_that_the_whole_panel_shows_to_be_too_long_is_not_begun(monkeypatch):
    """60 sessions of half a second a run of all: 15 s of walking, which may be; of 2.1 s: 63 s, which may not."""
    for seconds, method in ((0.5, "walked"), (2.1, "sampled")):
        trials, frames = Clocked(cross, lambda rows: 0.0, monkeypatch), read_panels(panel(60))
        whole = replace(trials.whole(frames), seconds=seconds)
        verdict = check_causality(trials, frames, cuts=3, whole=whole, warm_up=False)
        assert (verdict.coverage["method"], trials.steps) == (method, 60 if method == "walked" else 3)


def test_no_run_begins_before_the_one_before_it_has_ended():
    """But for the futures of one cut: both know the rows up to it, and invented ones after it."""
    days = panel(60, gaps=False)
    alive, together = [], []

    class Watched(Inline):
        threads = 2

        def prefixes(self, panel, moments):
            with beside(0):
                yield from Inline(self.function).prefixes(panel, moments)

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
        for exhaustive in (True, False):
            told = check_causality(Watched(function), {"ohlcv": days}, exhaustive=exhaustive, cuts=12, seed=1)
            assert told.causal == (function is cross)
    pairs = [each for each in together if len(each) > 1]
    assert pairs
    assert not [each for each in pairs if not (len(each) == 2 and each[0] == each[1] > 0)]
    assert not alive


@pytest.mark.parametrize(
    ("option", "word"),
    [
        ({"cuts": 0}, "cuts=0"),
        ({"seconds": -1}, "seconds=-1"),
        ({"lookback": 0}, "lookback=0"),
        ({"decide_at": "noon"}, "decide_at='noon'"),
        ({"exhaustive": "yes"}, "exhaustive='yes'"),
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
        exhaustive=False,
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

    for exhaustive in (True, False):
        honest = check_causality(gated(0), _with_index(), exhaustive=exhaustive)
        assert honest.causal, honest.line
        assert not check_causality(gated(-1), _with_index(), exhaustive=exhaustive).causal


@pytest.mark.parametrize("exhaustive", [True, False])
def test_the_runs_that_a_proof_takes_are_known_before_it_begins(exhaustive):
    frames, trials = read_panels(panel(60, gaps=False)), Inline(cross)
    options = {"cuts": 12, "exhaustive": exhaustive}
    verdict = check_causality(trials, frames, whole=trials.whole(frames), warm_up=False, seed=0, **options)
    assert verdict.causal
    assert verdict.evaluations == (60 if exhaustive else planned_runs(60, 12))
    assert planned_runs(60, 12) == 12 + 16 + 2 + 2
