"""buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 000341.SZ, 2025

name: cross_up_sma_5_sma_20
code_hash: 10130b04bb51d46b4b995e20cc8f55f8
data_ref: a6365e02c85dbd92fe5559461f2763ab

In scope: pd, np, GLOBAL_DATA_STATE and snapshot = GLOBAL_DATA_STATE.snapshot().
"""

# %%
# Buy: 5-day average crosses above 20-day average
# Sell: 5-day average crosses below 20-day average
# entry: cross_up(sma(close, 5), sma(close, 20))
# exit: cross_down(sma(close, 5), sma(close, 20))

def own_sessions(frame, traded):
    """Each column's own sessions, moved to the top."""
    at, top = places_of(traded)
    values, moved = (frame.reindex_like(traded).to_numpy(dtype=np.float64), np.full(at.shape, np.nan))
    moved.T[top.T] = values.T[at.T]
    return pd.DataFrame(moved, columns=traded.columns)

def on_calendar(frame, traded):
    """A frame of own sessions on the sessions that they are."""
    at, top = places_of(traded)
    values = np.full(at.shape, np.nan)
    values.T[at.T] = frame.to_numpy(dtype=np.float64).T[top.T]
    return pd.DataFrame(values, index=traded.index, columns=traded.columns)

def places_of(traded):
    """Where securities traded, on the calendar and at the top of their columns."""
    at = traded.to_numpy()
    return (at, np.arange(len(at))[:, None] < at.sum(axis=0))

def factor_of(snapshot):
    """What each session's prices are multiplied with, so that they compare over ex-dates, 1 on the first.

    Where nothing says how to adjust, the last factor holds. The last digits are dropped: they would depend on
    the session to which a snapshot adjusts.
    """
    close = snapshot['ohlcv']['close']
    try:
        ratio = snapshot.adjusted('close') / close
    except KeyError:
        ratio = close / close
    return (ratio / ratio.bfill().iloc[0]).ffill().fillna(1.0).round(10)

def signal_of(entry, leave, traded):
    """1 where the entry holds, -1 where the exit does, 0 where neither; else unknown."""
    return on_calendar(entry.where(leave == 0).mask(leave == 1, -1.0), traded)

def greater(one, other):
    """Where one is above the other; equal but for rounding is equal, beside numbers to a billionth."""
    a, b = (np.asarray(each, dtype=np.float64) for each in (one, other))
    size = np.abs(b) if a.ndim and b.ndim else max(1.0, abs(float(a if b.ndim else b)))
    apart, like = (a - b, one if a.ndim else other)
    return pd.DataFrame(np.where(np.isnan(apart), np.nan, apart > 1e-09 * size), columns=like.columns)

def both(one, other):
    """Where both hold: a part that does not hold is enough to know."""
    a, b = (one.to_numpy(), other.to_numpy())
    return pd.DataFrame(np.where((a == 0) | (b == 0), 0.0, a * b), columns=one.columns)

def negated(truth):
    """Where it does not hold; the unknown stays unknown."""
    return 1 - truth

def cross_up(one, other):
    """Where one is above the other and was not on the session before; a number is always the same."""
    before = [x.shift(1) if isinstance(x, pd.DataFrame) else x for x in (one, other)]
    return both(greater(one, other), negated(greater(*before)))


snapshot = GLOBAL_DATA_STATE.snapshot()
traded = snapshot["ohlcv"]["close"].notna()
factors = factor_of(snapshot)
factor = own_sessions(factors, traded)
close = own_sessions(snapshot["ohlcv"]["close"], traded) * factor
sma_5 = close.rolling(5).mean()
sma_20 = close.rolling(30).mean()
entry = cross_up(sma_5, sma_20)
leave = cross_up(sma_20, sma_5)
signal = signal_of(entry, leave, traded)
GLOBAL_DATA_STATE.update("signal", {"cross_up_sma_5_sma_20": signal})
print("signal cross_up_sma_5_sma_20:", *signal.shape, "sessions x securities")
