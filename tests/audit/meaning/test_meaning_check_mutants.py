"""Code with one thing changed is found, and right code is not, on pairs that were written without the planner.

``WHOLE=1`` draws 200 of each, as ``make zoo`` does.
"""

import os
from collections import Counter
from random import Random

import pytest
from sentence_code_pairs import held, mutants, right_pair, run
from signal_panels import market_panel

from quantgraph.audit.meaning import ExpectedSignal, check_meaning
from quantgraph.sentences import RequestContext, read_request, write_code
from quantgraph.sentences.evaluation import RuleData, rule_readings
from quantgraph.sentences.phrases import event_of, names_exit, rule_in

pytestmark = pytest.mark.proof

COUNT = 200 if os.environ.get("WHOLE") else 40
WARM = 80
"""Sessions that no position is compared in: longer than any window."""


@pytest.fixture(scope="module")
def markets():
    return [market_panel(seed=seed, suspended=seed == 3) for seed in range(4)]


def findings(pair, frames):
    rule = rule_in(pair.sentence, read_request(pair.sentence, RequestContext()))
    assert rule is not None, pair.sentence
    close = frames["ohlcv"]["close"]
    return check_meaning(
        run(pair.code, frames),
        close,
        ExpectedSignal(
            sentence=pair.sentence,
            event=event_of(rule.entry),
            state=not event_of(rule.entry),
            lookback=write_code(rule).rule.lookback + 1,
            names_exit=names_exit(pair.sentence),
            per_symbol=pair.kind not in ("rank", "cheap"),
            traded=tuple(close.columns),
        ),
        rule_readings(rule, RuleData(bars=frames["ohlcv"], indicators=frames["indicators"])),
        first=close.index[WARM],
    )


def test_right_code_has_no_finding(markets):
    random, wrong = Random(5), []
    for at in range(COUNT):
        pair, frames = right_pair(random), markets[at % len(markets)]
        wrong += [(pair.sentence, pair.code, found.message) for found in findings(pair, frames)]
    assert wrong == []


def test_mutants_are_found(markets):
    random, missed, drawn = Random(6), [], Counter()
    while drawn.total() < COUNT:
        frames = markets[drawn.total() % len(markets)]
        pair = right_pair(random)
        mutant = random.choice(mutants(pair))
        close = frames["ohlcv"]["close"]
        before, after = (held(run(each.code, frames), close, after=WARM) for each in (pair, mutant))
        if (before == after).all():
            continue
        drawn[mutant.changed.partition(":")[0]] += 1
        if not findings(mutant, frames):
            missed.append((mutant.changed, pair.sentence, mutant.code))
    assert len(drawn) == 5
    assert len(missed) <= COUNT // 20, missed
