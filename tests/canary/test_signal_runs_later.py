"""As ``test_signal_runs``, at the later half of the moments."""

from __future__ import annotations

import pytest


@pytest.mark.parametrize("part", range(4))
def test_no_node_tells_what_comes_after_its_moment(kit_at, market, part):
    for place in market.PLACES[52:][part::4]:
        moment = market.Moment(market.SESSIONS[place])
        market.think(kit_at(moment, seed=place % 2), moment, market.request(market.SESSIONS[place - 4]))
