"""A rule's signal: nothing later changes it, its cell gives the same, unknown stays unknown, an exit wins."""

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.errors import UnknownField, UnknownSymbol
from quantgraph.market import Moment
from quantgraph.rules import ROWS, Rule, RuleEvaluator, make, read_condition
from quantgraph.rules._tree import COMPARISONS, SUMS
from quantgraph.sandbox import default_runner
from quantgraph.state import DataState

DAYS = pd.date_range("2024-01-01", periods=90, freq="B").as_unit("us")
CODES = ("600519.SH", "000001.SZ", "300750.SZ")
OF_EACH = {
    "x": "close", "y": "volume", "one": "close", "other": "open", "truth": "close > open", "start": "close < open",
    "n": "5", "fast": "3", "slow": "6", "signal": "4", "k": "3", "d": "3", "width": "2", "period": '"month"',
}  # fmt: skip


def condition_of(row):
    """A condition with the node, over small windows."""
    text = row.name + (f"({', '.join(OF_EACH[each.name] for each in row.params)})" if row.formula else "")
    if row.name in {"never", "average_of_all"}:
        return f"{text} or close > open" if row.name == "never" else f"{text} > close"
    if row.unit == "truth":
        return text
    against = {"date": "0.5" if row.name == "left" else "3", "count": "4", "ratio": "0.01"}.get(row.unit, "0")
    return f"{text} > {against}" if row.unit in {"date", "count", "ratio"} else f"{text} > ago({text}, 1)"


CONDITIONS = [condition_of(row) for row in ROWS.values()] + [
    "close + open > 2 * high - low", "-change(close, 1) >= 0.01", "close != open",
    "close == open or close <= low", "close * volume / amount > 0.9", "close > amount / volume", "close > 10.5 and volume < 1500000",
    'of("600519.SH", close > sma(close, 5))', 'index("000300.SH", close > sma(close, 5))',
    "not rsi(5) > 50 and (close > open or within(cross_up(close, 10), 3))",
]  # fmt: skip


def store_of(seed, days=DAYS):
    """Random bars with suspensions, a split and dividends, indicators and an index, in a store of their own."""
    random = np.random.default_rng(seed)
    shape = len(days), len(CODES)

    def frame(values):
        return pd.DataFrame(values, days, CODES)

    close = frame((10 * np.exp(np.cumsum(random.normal(0, 0.03, shape), axis=0))).round(2))
    fields = {
        "open": (close * (1 + random.normal(0, 0.01, shape))).round(2),
        "close": close,
        "vol": frame(random.integers(5_000, 30_000, shape).astype(float)),
    }
    fields["high"] = np.maximum(fields["open"], close) + 0.1
    fields["low"] = np.minimum(fields["open"], close) - 0.1
    fields["pre_close"] = close.shift(1).fillna(10.0)
    fields["up_limit"], fields["down_limit"] = (fields["pre_close"] * (1 + x) for x in (0.04, -0.04))
    fields["amount"] = close * fields["vol"] / 10
    fields["adj_factor"] = frame(np.where(np.arange(len(days))[:, None] < 40, 1.0, [[1.0, 1.5, 1.02]]))
    gone = frame(random.random(shape) < 0.06)
    fields = {name: each.mask(gone) for name, each in fields.items()}
    store = DataState()
    store.update("ohlcv", fields)
    daily = [row.name for row in ROWS.values() if not row.formula and row.name not in {*fields, "volume"}]
    daily += [f"{kind}_in_{span}" for kind in ("nth", "left") for span in ("week", "month", "quarter")]
    store.update("indicators", {name: frame(random.random(shape)) for name in daily})
    store.update("index", {"close": pd.DataFrame({"000300.SH": close.mean(axis=1).round(2)})})
    return store


def joined(store, other, at):
    """The data of one store until a session, then of another."""
    made = DataState()
    for panel in ("ohlcv", "indicators", "index"):
        ours, theirs = (each.snapshot()[panel] for each in (store, other))
        made.update(panel, {name: pd.concat([ours[name].iloc[:at], theirs[name].iloc[at:]]) for name in ours})
    return made


@pytest.fixture(scope="module")
def store():
    return store_of(1)


@pytest.mark.parametrize("text", CONDITIONS)
def test_nothing_later_changes_a_signal(store, text):
    rule, at = Rule.read(text, "close < sma(close, 5)"), 55
    whole = RuleEvaluator(store.snapshot()).signal(rule)
    assert whole.notna().to_numpy().any()
    for seed in (2, 3):
        other = RuleEvaluator(joined(store, store_of(seed), at).snapshot()).signal(rule)
        pd.testing.assert_frame_equal(other.iloc[:at], whole.iloc[:at])
    for cut in (*range(16), at, 70):
        known = RuleEvaluator(store.view(Moment(DAYS[cut]))).signal(rule)
        pd.testing.assert_frame_equal(known, whole.iloc[: cut + 1])


def run_cell(rule, snapshot, symbols=()):
    """Run a rule's cell as it stands."""
    made = {}

    class State:
        snapshot = staticmethod(lambda: store)
        update = staticmethod(lambda _panel, signals: made.update(signals))

    store = snapshot
    exec(rule.cell("mine", symbols), {"GLOBAL_DATA_STATE": State, "pd": pd, "np": np})
    return made["mine"]


@pytest.mark.parametrize("text", CONDITIONS)
def test_a_cell_gives_the_signal_of_its_rule_and_so_do_securities_one_at_a_time(store, text, monkeypatch):
    rule = Rule.read(text, "close < sma(close, 5)")
    whole = RuleEvaluator(store.snapshot()).signal(rule)
    pd.testing.assert_frame_equal(run_cell(rule, store.snapshot()), whole)
    monkeypatch.setattr("quantgraph.rules._rule._CELLS", len(DAYS))
    pd.testing.assert_frame_equal(RuleEvaluator(store.snapshot()).signal(rule), whole)


def test_a_said_price_is_raw_and_an_average_crosses_no_ex_date(store):
    close, factor = (store.snapshot()["ohlcv"][name]["000001.SZ"] for name in ("close", "adj_factor"))
    data = RuleEvaluator(store.snapshot())
    raw = data.signal(Rule.read("close > 10.5"))["000001.SZ"]
    assert (raw[close.notna()] == (close > 10.5)[close.notna()]).all()
    own = (close * factor).dropna()
    above = (own > own.rolling(5).mean() * (1 + 1e-9)).astype(float).where(own.rolling(5).mean().notna())
    pd.testing.assert_series_equal(
        data.signal(Rule.read("close > sma(close, 5)"))["000001.SZ"],
        above.reindex(close.index),
        check_names=False,
    )


def test_prices_of_two_securities_meet_as_traded(store):
    data, bars = RuleEvaluator(store.snapshot()), store.snapshot()["ohlcv"]
    close, index = bars["close"], store.snapshot()["index"]["close"]["000300.SH"]
    watched = close["300750.SZ"].ffill().where(close["300750.SZ"].notna())
    for text, plain in {
        'of("300750.SZ", close) > 10.2': close.apply(lambda _: watched > 10.2),
        'index("000300.SH", close) > 10.2': close.apply(lambda _: index > 10.2),
        'close > of("300750.SZ", close)': close.gt(watched, axis=0),
        'close / of("300750.SZ", close) > 1.01': close.div(watched, axis=0) > 1.01,
        "average_of_all(close) > 10.2": close.apply(lambda _: close.mean(axis=1) > 10.2),
        "rank(close) == 1": close.rank(axis=1, ascending=False, method="max") == 1,
    }.items():
        value = data.value(read_condition(text))
        assert value.notna().to_numpy().sum() > 100
        assert ((value == 1) == plain)[value.notna()].stack().all(), text


def test_a_watched_security_is_not_ranked_with_the_traded_ones(store):
    bars, traded = store.snapshot()["ohlcv"], list(CODES[1:])
    rule = Rule.read(
        'rank(change(close, 5)) <= 1 and of("600519.SH", close > 0)', "share_of_all(close > 0) < 1"
    )
    ours = RuleEvaluator(store.snapshot(), traded).signal(rule)
    alone = DataState()
    alone.update("ohlcv", {name: bars[name][traded] for name in bars})
    plain = RuleEvaluator(alone.snapshot()).signal(
        Rule.read("rank(change(close, 5)) <= 1", "share_of_all(close > 0) < 1")
    )
    there = bars["close"]["600519.SH"].notna()
    pd.testing.assert_frame_equal(ours[there], plain[there])
    pd.testing.assert_frame_equal(run_cell(rule, store.snapshot(), traded), ours)


def test_a_change_of_what_is_negative_has_its_direction(store):
    data = RuleEvaluator(store.snapshot())
    grown, rose = (
        data.value(read_condition(text))
        for text in ("change(dif(3, 6)) > 0", "dif(3, 6) > ago(dif(3, 6), 1)")
    )
    pd.testing.assert_frame_equal(grown, rose)


def test_unknown_stays_unknown_under_not_and_a_known_part_decides():
    store = store_of(4, DAYS[:8])
    data, wide = RuleEvaluator(store.snapshot()), "sma(close, 20) > 1"
    assert data.value(read_condition(f"not {wide}")).isna().all(axis=None)
    known = data.value(make("close")).notna()
    assert (data.value(read_condition(f"{wide} and close < 0"))[known] == 0).to_numpy()[known].all()
    assert (data.value(read_condition(f"{wide} or close > 0"))[known] == 1).to_numpy()[known].all()
    assert data.signal(Rule.read("close > 0", wide)).isna().all(axis=None)


def test_an_exit_wins_and_opens_no_short(store):
    signal = RuleEvaluator(store.snapshot()).signal(Rule.read("close > 0", "close > open"))
    bars = store.snapshot()["ohlcv"]
    fell = bars["close"] > bars["open"]
    assert ((signal == -1) == fell).all(axis=None)
    assert set(signal.stack().dropna()) <= {-1.0, 0.0, 1.0}


def test_equal_but_for_rounding_is_equal():
    store = DataState()
    close = pd.DataFrame({"A.SH": [0.1 + 0.2, 0.3, 0.1 + 0.2]}, DAYS[:3])
    store.update("ohlcv", {"close": close, "open": close * 0 + 0.3})
    data = RuleEvaluator(store.snapshot())
    assert not data.value(read_condition("close > open")).to_numpy().any()
    assert data.value(read_condition("close == open")).to_numpy().all()
    assert not data.value(read_condition("cross_up(close, open)")).iloc[1:].to_numpy().any()


@pytest.mark.parametrize(
    ("text", "error", "told"),
    [
        ("pe_ttm > 30", UnknownField, "pe_ttm"),
        ("amount > 1", UnknownField, "amount"),
        ('of("600036.SH", close > 1)', UnknownSymbol, "no prices of 600036.SH, which the rule reads"),
        (
            'index("000905.SH", close > 1)',
            UnknownSymbol,
            "no levels of the index 000905.SH, which the rule reads",
        ),
    ],
)
def test_what_the_data_lack_is_named(text, error, told):
    store = DataState()
    store.update("ohlcv", {name: pd.DataFrame({"A.SH": [1.0, 2.0]}, DAYS[:2]) for name in ("open", "close")})
    with pytest.raises(error, match=told):
        RuleEvaluator(store.snapshot()).signal(Rule.read(text))


def test_each_operator_is_tried():
    named = " ".join(CONDITIONS)
    assert all(f" {sign} " in named for sign in (*SUMS.values(), *COMPARISONS.values()))


@pytest.mark.proof
@pytest.mark.parametrize("text", CONDITIONS)
def test_the_cell_of_each_node_is_proved_on_every_session(store, text):
    days = DAYS[:50]
    view = joined(store, store, len(DAYS)).view(Moment(days[-1]))
    rule = Rule.read(text, "close < sma(close, 5)")
    trials = CodeTrials(default_runner(), [rule.cell("mine")], "mine")
    verdict = check_causality(trials, view.frozen(), prove="all", warm_up=False)
    assert (verdict.causal, verdict.proved) == (True, len(days)), verdict
    assert verdict.signal.equals(RuleEvaluator(view).signal(rule))
