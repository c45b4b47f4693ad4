"""The port of a decider. It lives with the broker, which calls it; here is where one looks for it."""

from __future__ import annotations

from quantgraph.broker.decider import Decider

__all__ = ["Decider"]
