"""Parts of a panel."""

from __future__ import annotations

import numpy as np
import pandas as pd

from quantgraph.audit.causality._trials import axes_of, prefix, read_panels
from quantgraph.market import Moment

from .causality_panels import panel


def test_at_the_open_the_last_row_holds_only_what_is_known():
    frames = read_panels(panel(30, gaps=False))
    cut = prefix(frames, Moment(pd.Timestamp(axes_of(frames).sessions[9]), "open"))[""]
    assert {len(frame.sessions) for frame in cut.values()} == {10}
    assert not np.isnan(cut["open"].values).any()
    for name in ("high", "low", "close", "vol"):
        assert np.isnan(cut[name].values[9]).all()
        assert not np.isnan(cut[name].values[:9]).any()
