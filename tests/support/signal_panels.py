"""A small market of random walks, for tests that hold signals against rules."""

import numpy as np
import pandas as pd


def market_panel(*, suspended=False, sessions=260, symbols=8, seed=11):
    """Bars and two indicators by field; with ``suspended``, two symbols do not trade for some sessions."""
    rng = np.random.default_rng(seed)
    index = pd.bdate_range("2024-01-02", periods=sessions, name="trade_date").as_unit("us")
    columns = [f"60{at:04d}.SH" for at in range(symbols)]
    shape = (sessions, symbols)
    close = 20 * np.exp(np.cumsum(rng.normal(0, 0.02, shape), axis=0))
    spread = np.abs(rng.normal(0, 0.01, shape))
    frames = {
        "close": close.round(2),
        "high": (close * (1 + spread)).round(2),
        "low": (close * (1 - spread)).round(2),
        "vol": np.exp(rng.normal(8, 0.6, shape)).round(),
        "pe": rng.uniform(5, 40, shape).round(2),
        "pb": rng.uniform(0.5, 6, shape).round(2),
    }
    made = {name: pd.DataFrame(values, index=index, columns=columns) for name, values in frames.items()}
    if suspended:
        for frame in made.values():
            frame.iloc[90:97, 1] = np.nan
            frame.iloc[140, 3] = np.nan
    bars = ("close", "high", "low", "vol")
    return {
        "ohlcv": {name: made[name] for name in bars},
        "indicators": {name: made[name] for name in ("pe", "pb")},
    }
