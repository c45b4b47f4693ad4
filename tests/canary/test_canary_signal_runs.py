"""The signal subgraph over a market full of sentinels: at no moment does it say one of them.

At six moments in ``make test``, at all twenty-two in ``make proofs``, at a hundred by ``make zoo``.
"""

from __future__ import annotations

import pytest
from canary_watch import differences
from thinned import thinned

pytestmark = pytest.mark.proof


def test_every_weekday_and_the_last_session_are_looked_at(market):
    assert len(market.PLACES) > 20
    assert {market.SESSIONS[place].day_of_week for place in market.PLACES} == set(range(5))
    assert market.PLACES[-1] == len(market.SESSIONS) - 1


@pytest.mark.parametrize("part", thinned(range(4), lambda number, _: number == 0))
def test_no_node_tells_what_comes_after_its_moment(resources_at, market, part):
    for place in market.PLACES[part::4]:
        moment = market.Moment(market.SESSIONS[place])
        market.think(
            resources_at(moment, seed=place // 2 % 2), moment, market.request(market.SESSIONS[place - 4])
        )


@pytest.mark.proof
@pytest.mark.parametrize(("place", "codes"), [(40, "000341.SZ"), (250, "990030.SH"), (726, "ALL")])
def test_sentinels_of_the_other_sign_move_nothing(resources_at, market, place, codes):
    moment = market.Moment(market.SESSIONS[place])
    text = market.request(market.SESSIONS[place - 4], codes)
    one, other = (market.think(resources_at(moment, seed=seed), moment, text) for seed in (0, 1))
    assert differences(one, other) == []
    assert len(one.transcript) > 20


@pytest.mark.parametrize("place", [120, 480])
def test_the_keyless_planner_tells_nothing_later_either(resources_at, market, place):
    moment = market.Moment(market.SESSIONS[place])
    text = "合成银行01和合成银行02，2日均线上穿3日均线买入，下穿卖出，最近一个月"
    one, other = (
        market.think(resources_at(moment, seed=seed, planner=True), moment, text) for seed in (0, 1)
    )
    assert differences(one, other) == []
    last = f"{moment.session:%Y%m%d}"
    assert any(f'"last_session": "{last}"' in line for line in one.transcript if line.startswith("prompt"))
