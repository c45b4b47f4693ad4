"""Perturbed panels, by which cells at a threshold are found."""

from __future__ import annotations

import numpy as np

from quantgraph.audit.causality._comparison import perturb
from quantgraph.audit.causality._trials import read_panels

from .causality_panels import panel


def test_a_perturbed_panel_moves_every_number_a_little():
    frames = read_panels(panel(40))
    moved = perturb(frames, 0, 1.0)
    for name, frame in frames[""].items():
        known = ~np.isnan(frame.values)
        assert np.allclose(moved[""][name].values, frame.values, rtol=1e-8, equal_nan=True)
        assert (moved[""][name].values != frame.values)[known].all()
