"""The fields that a strategy reads: those that its code names, if it gives the same signal on them alone."""

from __future__ import annotations

from quantgraph.audit.causality import CodeTrials, check_causality
from quantgraph.audit.causality._comparison import fields_read
from quantgraph.audit.causality._trials import only_fields, read_panels
from quantgraph.sandbox import default_runner

from .causality_panels import panel

NAMED = "close = snapshot['ohlcv']['close']\nGLOBAL_DATA_STATE.update('signal', {'s': np.sign(close.diff())})"
BUILT = (
    "bars = snapshot['ohlcv']\nclose, traded = bars['close'], bars['v' + 'ol']\n"
    "GLOBAL_DATA_STATE.update('signal', {'s': np.sign(close.diff()) * (traded > 4000)})"
)
BY_NUMBER = (
    "bars = snapshot['ohlcv']\nfields = len(list(bars))\n"
    "GLOBAL_DATA_STATE.update('signal', {'s': bars['close'] * 0.0 + float(fields > 3)})"
)
HIDDEN_LEAK = (
    "bars = snapshot['ohlcv']\nclose = bars['close']\n"
    "later = close.shift(-1) if 'v' + 'ol' in bars else close\n"
    "GLOBAL_DATA_STATE.update('signal', {'s': np.sign(later - close.shift(1))})"
)


def fields_of(frames):
    return {name for fields in frames.values() for name in fields}


def part_read(cell):
    frames, trials = read_panels({"ohlcv": panel(30)}), CodeTrials(default_runner(), [cell])
    return fields_of(only_fields(frames, fields_read(trials, frames, trials.whole(frames))))


def test_what_the_code_names_is_enough_if_the_signal_is_the_same():
    assert part_read(NAMED) == {"close"}


def test_a_part_of_a_word_names_no_field():
    slow = NAMED.replace("close.diff()", "slow.diff()").replace("close =", "slow = close =")
    assert "low" in fields_of({"": panel(30)})
    assert part_read(slow) == {"close"}


def test_a_field_that_is_not_named_but_read_keeps_all_fields():
    assert part_read(BUILT) == part_read(BY_NUMBER) == fields_of({"": panel(30)})


def test_a_leak_behind_a_field_that_is_not_named_is_found_all_the_same():
    frames, trials = read_panels({"ohlcv": panel(60)}), CodeTrials(default_runner(), [HIDDEN_LEAK])
    assert fields_read(trials, frames, trials.whole(frames)) is None
    assert check_causality(trials, frames, prove="sampled").result == "not_causal"


def test_the_verdict_on_the_fields_that_are_read_is_that_on_all():
    frames, trials = read_panels({"ohlcv": panel(120)}), CodeTrials(default_runner(), [NAMED])
    reads = fields_read(trials, frames, trials.whole(frames))
    assert reads == {("ohlcv", "close")}
    kept, whole = (
        check_causality(trials, frames, reads=each, prove="sampled", cuts=12, seed=3).as_json()
        for each in (reads, None)
    )
    assert kept | {"seconds": 0} == whole | {"seconds": 0}
    assert kept["causal"]
