"""Strategies that use nothing later than their row, some of them in ways that look as if they did."""

from __future__ import annotations

from .snippet import Snippet

__all__ = ["HONEST"]

_INDICATORS: tuple[Snippet, ...] = (
    Snippet(
        name="sma_cross",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(buy, 1.0).mask(sell, -1.0).where(slow.shift(1).notna())
GLOBAL_DATA_STATE.update("signal", {"sma_cross": signal})
print(signal.shape, signal.stack().value_counts())
""",
        ),
        why="trailing windows",
    ),
    Snippet(
        name="ema_adjusted",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.ewm(span=8).mean(), close.ewm(span=21).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0).mask(fast < slow, -1.0)
GLOBAL_DATA_STATE.update("signal", {"ema_adjusted": signal})
""",
        ),
        why="the weights of adjust=True are normalised over what came before",
    ),
    Snippet(
        name="ema_recursive",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ema = close.ewm(halflife=6, adjust=False, ignore_na=True).mean()
std = close.ewm(halflife=6, adjust=False).std()
signal = np.sign(close - ema).where((close - ema).abs() > std, 0.0)
GLOBAL_DATA_STATE.update("signal", {"ema_recursive": signal})
""",
        ),
        why="a recursion from the first row on",
    ),
    Snippet(
        name="macd",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
dif = close.ewm(span=12, adjust=False).mean() - close.ewm(span=26, adjust=False).mean()
dea = dif.ewm(span=9, adjust=False).mean()
hist = 2 * (dif - dea)
golden = (hist > 0) & (hist.shift(1) <= 0)          # 金叉
death = (hist < 0) & (hist.shift(1) >= 0)           # 死叉
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(golden, 1.0).mask(death, -1.0)
GLOBAL_DATA_STATE.update("signal", {"macd": signal})
""",
        ),
        why="recursions from the first row on",
    ),
    Snippet(
        name="macd_talib",
        cells=(
            """\
import talib

close = snapshot["ohlcv"]["close"]
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
for code in close:
    dif, dea, hist = talib.MACD(close[code].to_numpy(), fastperiod=12, slowperiod=26, signalperiod=9)
    signal[code] = np.sign(hist)
GLOBAL_DATA_STATE.update("signal", {"macd_talib": signal})
""",
        ),
        why="talib runs from the first price on; what follows a gap is NaN",
    ),
    Snippet(
        name="rsi",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
move = close.diff()
gain = move.clip(lower=0).ewm(alpha=1 / 14, min_periods=14, adjust=False).mean()
loss = -move.clip(upper=0).ewm(alpha=1 / 14, min_periods=14, adjust=False).mean()
rsi = 100 - 100 / (1 + gain / loss)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(rsi < 30, 1.0).mask(rsi > 70, -1.0).where(rsi.notna())
GLOBAL_DATA_STATE.update("signal", {"rsi": signal})
""",
        ),
        why="Wilder's smoothing is a recursion",
    ),
    Snippet(
        name="rsi_talib",
        cells=(
            """\
import talib

close = snapshot["ohlcv"]["close"].ffill()
rsi = close.apply(lambda s: pd.Series(talib.RSI(s.to_numpy(), timeperiod=6), index=s.index))
signal = pd.DataFrame(np.where(rsi < 20, 1.0, np.where(rsi > 80, -1.0, 0.0)), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"rsi_talib": signal.where(rsi.notna())})
""",
        ),
        why="the prices are given in order",
    ),
    Snippet(
        name="bollinger",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
middle, width = close.rolling(20).mean(), close.rolling(20).std()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close < middle - 2 * width, 1.0).mask(close > middle + 2 * width, -1.0).where(width.notna())
GLOBAL_DATA_STATE.update("signal", {"bollinger": signal})
""",
        ),
        why="trailing mean and deviation",
    ),
    Snippet(
        name="bollinger_talib",
        cells=(
            """\
import talib

close = snapshot["ohlcv"]["close"]
out = {}
for code, prices in close.items():
    known = prices.dropna()
    if len(known) < 20:
        continue
    upper, middle, lower = talib.BBANDS(known.to_numpy(), timeperiod=20, nbdevup=1.5, nbdevdn=1.5)
    value = np.where(known < lower, 1.0, np.where(known > upper, -1.0, 0.0))
    out[code] = pd.Series(np.where(np.isnan(middle), np.nan, value), index=known.index)
signal = pd.DataFrame(out, index=close.index).reindex(columns=close.columns).astype(float)
GLOBAL_DATA_STATE.update("signal", {"bollinger_talib": signal})
""",
        ),
        why="suspended sessions are left out before the window, not filled",
    ),
    Snippet(
        name="kdj",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
low, high = bars["low"].rolling(9).min(), bars["high"].rolling(9).max()
rsv = ((close - low) / (high - low).replace(0, np.nan) * 100).to_numpy()
k = np.full(close.shape[1], 50.0)
d = k.copy()
out = np.zeros(close.shape)
for t in range(len(close)):
    was_above = k > d
    fresh = np.isfinite(rsv[t])
    k = np.where(fresh, k * 2 / 3 + rsv[t] / 3, k)
    d = np.where(fresh, d * 2 / 3 + k / 3, d)
    out[t] = np.where(~fresh, np.nan, np.where((k > d) & ~was_above, 1.0, np.where((k < d) & was_above, -1.0, 0.0)))
signal = pd.DataFrame(out, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"kdj": signal})
""",
        ),
        why="a loop that carries K and D forward",
    ),
    Snippet(
        name="atr_breakout",
        cells=(
            """\
high, low, close = (snapshot["ohlcv"][name] for name in ("high", "low", "close"))
before = close.shift(1)
true_range = np.maximum(high - low, np.maximum((high - before).abs(), (low - before).abs()))
atr = true_range.rolling(14).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close > before + atr, 1.0).mask(close < before - atr, -1.0)
GLOBAL_DATA_STATE.update("signal", {"atr_breakout": signal})
""",
        ),
        why="the range of today is known after the close",
    ),
    Snippet(
        name="atr_channel_talib",
        cells=(
            """\
import talib

bars = snapshot["ohlcv"]
high, low, close = bars["high"].ffill(), bars["low"].ffill(), bars["close"].ffill()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
for code in close.columns:
    h, l, c = (frame[code].to_numpy() for frame in (high, low, close))
    middle, atr = talib.EMA(c, timeperiod=20), talib.ATR(h, l, c, timeperiod=14)
    signal[code] = np.where(c > middle + 1.5 * atr, 1.0, np.where(c < middle - 1.5 * atr, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"atr_channel_talib": signal})
""",
        ),
        why="Keltner's channel of trailing averages",
    ),
    Snippet(
        name="on_balance_volume",
        cells=(
            """\
close, vol = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["vol"]
obv = (np.sign(close.diff()) * vol).cumsum()
trend = obv.rolling(10).mean()
signal = np.sign(obv - trend)
GLOBAL_DATA_STATE.update("signal", {"on_balance_volume": signal})
""",
        ),
        why="a cumulative sum of whole numbers grows at its end only",
    ),
    Snippet(
        name="rolling_vwap",
        cells=(
            """\
bars = snapshot["ohlcv"]
# 成交额千元、成交量手
vwap = bars["amount"].rolling(10).sum() * 10 / bars["vol"].rolling(10).sum()
close = bars["close"]
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close > 1.01 * vwap, 1.0).mask(close < 0.99 * vwap, -1.0)
GLOBAL_DATA_STATE.update("signal", {"rolling_vwap": signal})
""",
        ),
        why="trailing sums of money and volume",
    ),
    Snippet(
        name="donchian",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
upper = bars["high"].rolling(20).max().shift(1)
lower = bars["low"].rolling(10).min().shift(1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(close > upper, 1.0).mask(close < lower, -1.0)
GLOBAL_DATA_STATE.update("signal", {"donchian": signal})
""",
        ),
        why="the channel ends the session before",
    ),
    Snippet(
        name="ichimoku_without_the_lagging_span",
        cells=(
            """\
bars = snapshot["ohlcv"]
high, low, close = bars["high"], bars["low"], bars["close"]

def middle(n):
    return (high.rolling(n).max() + low.rolling(n).min()) / 2

span_a = ((middle(9) + middle(26)) / 2).shift(26)   # drawn ahead: today's cloud is 26 sessions old
span_b = middle(52).shift(26)
cloud_top, cloud_bottom = np.maximum(span_a, span_b), np.minimum(span_a, span_b)
above_past = close > close.shift(26)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((close > cloud_top) & above_past, 1.0).mask(close < cloud_bottom, -1.0)
GLOBAL_DATA_STATE.update("signal", {"ichimoku_without_the_lagging_span": signal})
""",
        ),
        why="spans drawn ahead of the price are old values",
    ),
    Snippet(
        name="convolved_causally",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill()
kernel = np.array([5, 4, 3, 2, 1]) / 15             # the newest price weighs most
smooth = close.apply(lambda s: pd.Series(np.convolve(s, kernel, mode="full")[: len(s)], index=s.index))
smooth.iloc[:4] = np.nan
signal = np.sign(close - smooth)
GLOBAL_DATA_STATE.update("signal", {"convolved_causally": signal})
""",
        ),
        why="np.convolve(mode='full') cut to the first rows is a trailing window",
    ),
)

_CROSS_SECTION: tuple[Snippet, ...] = (
    Snippet(
        name="rank_of_the_day",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
momentum = close.pct_change(10, fill_method=None)
rank = momentum.rank(axis=1, pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(rank > 0.9, 1.0).mask(rank < 0.5, -1.0).where(rank.notna())
GLOBAL_DATA_STATE.update("signal", {"rank_of_the_day": signal})
""",
        ),
        why="ranks go across one row",
    ),
    Snippet(
        name="zscore_of_the_day",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(5, fill_method=None)
z = ret.sub(ret.mean(axis=1), axis=0).div(ret.std(axis=1), axis=0)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(z < -1.5, 1.0).mask(z > 1.5, -1.0)
GLOBAL_DATA_STATE.update("signal", {"zscore_of_the_day": signal})
""",
        ),
        why="mean and deviation of one row",
    ),
    Snippet(
        name="demeaned",
        cells=(
            """\
ret = snapshot["ohlcv"]["close"].pct_change(fill_method=None)
alpha = ret.apply(lambda row: row - row.mean(), axis=1)
strength = alpha.rolling(8).sum()
signal = np.sign(strength).where(strength.abs() > 0.03, 0.0)
GLOBAL_DATA_STATE.update("signal", {"demeaned": signal})
""",
        ),
        why="apply(axis=1) hands one session at a time",
    ),
    Snippet(
        name="top_ten",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
momentum = close.pct_change(20, fill_method=None)
place = momentum.rank(axis=1, ascending=False, method="first")
held = place <= 10
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(held & ~held.shift(1, fill_value=False), 1.0)
signal = signal.mask(~held & held.shift(1, fill_value=False), -1.0)
GLOBAL_DATA_STATE.update("signal", {"top_ten": signal})
""",
        ),
        why="places of one row, compared with the row before",
    ),
    Snippet(
        name="weights_by_rank",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
vol = close.pct_change(fill_method=None).rolling(20).std()
weight = (1 / vol).div((1 / vol).sum(axis=1), axis=0)
rank = weight.rank(axis=1)
count = rank.max(axis=1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(rank.gt(0.8 * count, axis=0), 1.0).mask(rank.lt(0.4 * count, axis=0), -1.0)
GLOBAL_DATA_STATE.update("signal", {"weights_by_rank": signal})
""",
        ),
        why="max(axis=1) is the number of stocks that were ranked that day",
    ),
    Snippet(
        name="breadth",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
above = (close > close.rolling(20).mean()).sum(axis=1) / close.notna().sum(axis=1).clip(lower=1)
calm = above.rolling(3).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(calm > 0.6, 1.0, axis=0).mask(calm < 0.3, -1.0, axis=0)
GLOBAL_DATA_STATE.update("signal", {"breadth": signal})
""",
        ),
        why="a share of the stocks of one session",
    ),
    Snippet(
        name="with_the_market",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.pct_change(fill_method=None).mean(axis=1).fillna(0.0)
level = (1 + market).cumprod()
up = level > level.rolling(15).mean()
own = close > close.rolling(5).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(own.mul(up, axis=0), 1.0).mask(~own & close.notna(), -1.0)
GLOBAL_DATA_STATE.update("signal", {"with_the_market": signal})
""",
        ),
        why="an index made of the sessions so far",
    ),
    Snippet(
        name="neighbouring_columns",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(3, fill_method=None)
neighbour = ret.shift(-1, axis=1).bfill(axis=1).ffill(axis=1)
signal = np.sign(ret - neighbour)
GLOBAL_DATA_STATE.update("signal", {"neighbouring_columns": signal})
""",
        ),
        why="shift(-1), bfill and the like go across symbols with axis=1, not along time",
    ),
    Snippet(
        name="sector_reversal_by_code",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
board = close.columns.str[:3]
ret = close.pct_change(5, fill_method=None)
mean = ret.T.groupby(board).transform("mean").T
gap = ret - mean
signal = (gap < -0.03).astype(float) - (gap > 0.03).astype(float)
GLOBAL_DATA_STATE.update("signal", {"sector_reversal_by_code": signal})
""",
        ),
        why="transform('mean') over symbols of a board, the frame being turned on its side",
    ),
    Snippet(
        name="factor_scores",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
ret = close.pct_change(fill_method=None)
factors = np.stack([
    close.pct_change(20, fill_method=None).rank(axis=1, pct=True).to_numpy(),
    (-ret.rolling(20).std()).rank(axis=1, pct=True).to_numpy(),
    bars["amount"].rolling(5).mean().rank(axis=1, pct=True).to_numpy(),
], axis=-1)
score = factors @ np.array([0.5, 0.3, 0.2137])       # 多因子打分
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(score > 0.7, 1.0).mask(score < 0.3, -1.0)
GLOBAL_DATA_STATE.update("signal", {"factor_scores": signal})
""",
        ),
        why="a BLAS product whose rounding may depend on the number of rows, but no decision does",
    ),
    Snippet(
        name="market_by_weights",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None).fillna(0.0)
weights = np.arange(1.0, close.shape[1] + 1)
weights /= weights.sum()
index = ret.dot(weights)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(index > 0.00123, 1.0, axis=0).mask(index < -0.00123, -1.0, axis=0)
GLOBAL_DATA_STATE.update("signal", {"market_by_weights": signal})
""",
        ),
        why="df.dot(w) against a threshold, the same for rounding",
    ),
    Snippet(
        name="fixed_pair",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
a, b = close.columns[1], close.columns[2]
ratio = np.log(close[a] / close[b])
z = (ratio - ratio.rolling(30).mean()) / ratio.rolling(30).std()
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
signal[a] = np.where(z < -1.5, 1.0, np.where(z > 1.5, -1.0, 0.0))
signal[b] = np.where(z > 1.5, 1.0, np.where(z < -1.5, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"fixed_pair": signal})
""",
        ),
        why="the pair is given, the spread's statistics trail",
    ),
)

_EXPANDING: tuple[Snippet, ...] = (
    Snippet(
        name="expanding_zscore",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
past = close.expanding(min_periods=20)
z = (close - past.mean()) / past.std()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(z < -1, 1.0).mask(z > 1, -1.0)
GLOBAL_DATA_STATE.update("signal", {"expanding_zscore": signal.where(z.notna())})
""",
        ),
        why="all rows so far, not all rows",
    ),
    Snippet(
        name="expanding_quantiles",
        cells=(
            """\
ret = snapshot["ohlcv"]["close"].pct_change(5, fill_method=None)
low, high = ret.expanding(30).quantile(0.1).shift(1), ret.expanding(30).quantile(0.9).shift(1)
signal = pd.DataFrame(0.0, index=ret.index, columns=ret.columns).mask(ret < low, 1.0).mask(ret > high, -1.0)
GLOBAL_DATA_STATE.update("signal", {"expanding_quantiles": signal})
""",
        ),
        why="quantiles of what went before",
    ),
    Snippet(
        name="rolling_rank",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
place = close.rolling(30).rank(pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(place <= 0.1, 1.0).mask(place >= 0.9, -1.0).where(place.notna())
GLOBAL_DATA_STATE.update("signal", {"rolling_rank": signal})
""",
        ),
        why="today's place in a trailing window",
    ),
    Snippet(
        name="rolling_regression",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
t = pd.Series(np.arange(len(close), dtype=float), index=close.index)
slope = close.rolling(20).cov(t) / t.rolling(20).var().iloc[-1] if len(close) >= 20 else close * np.nan
relative = slope / close
signal = (relative > 0.002).astype(float) - (relative < -0.002).astype(float)
GLOBAL_DATA_STATE.update("signal", {"rolling_regression": signal.where(relative.notna())})
""",
        ),
        why="iloc[-1] is of the variance of 20 row numbers, 35 whichever row it is taken from",
    ),
    Snippet(
        name="beta_to_the_market",
        cells=(
            """\
ret = snapshot["ohlcv"]["close"].pct_change(fill_method=None)
market = ret.mean(axis=1)
beta = ret.rolling(30).cov(market).div(market.rolling(30).var(), axis=0)
residual = (ret - beta.mul(market, axis=0)).rolling(5).sum()
signal = pd.DataFrame(0.0, index=ret.index, columns=ret.columns)
signal = signal.mask(residual < -0.03, 1.0).mask(residual > 0.03, -1.0)
GLOBAL_DATA_STATE.update("signal", {"beta_to_the_market": signal})
""",
        ),
        why="trailing covariance over trailing variance",
    ),
    Snippet(
        name="refitted_forecast",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
x, y = ret.rolling(5).mean().shift(1).to_numpy(), ret.to_numpy()
now = ret.rolling(5).mean().to_numpy()
out = np.full(close.shape, np.nan)
xx = xy = 0.0
for t in range(len(close)):
    ok = np.isfinite(x[t]) & np.isfinite(y[t])
    xx += float(np.sum(x[t][ok] ** 2))
    xy += float(np.sum(x[t][ok] * y[t][ok]))        # target is today's return, feature is yesterday's
    if t >= 30:
        out[t] = np.sign(xy / xx * now[t])
signal = pd.DataFrame(out, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"refitted_forecast": signal})
""",
        ),
        why="a regression is refitted each session on targets that are already known",
    ),
    Snippet(
        name="windows_chosen_as_it_goes",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
positions = [(close > close.rolling(n).mean()).astype(float) for n in (5, 10, 20)]
earned = np.stack([(p.shift(1) * ret).mean(axis=1).fillna(0.0).cumsum() for p in positions])
best = earned.argmax(axis=0)                          # walk-forward
held = np.select([(best == i)[:, None] for i in range(3)], [p.to_numpy() for p in positions])
signal = pd.DataFrame(np.where(held > 0, 1.0, -1.0), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"windows_chosen_as_it_goes": signal.where(close.notna())})
""",
        ),
        why="the window is the one that has earned most so far",
    ),
    Snippet(
        name="volatility_target_rolling",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
sigma = ret.rolling(20).std() * np.sqrt(252)
exposure = (0.2 / sigma).clip(upper=1.0)
trend = close / close.shift(10) - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((exposure > 0.6) & (trend > 0), 1.0).mask((exposure < 0.5) | (trend < -0.03), -1.0)
GLOBAL_DATA_STATE.update("signal", {"volatility_target_rolling": signal})
""",
        ),
        why="the volatility of the last 20 sessions",
    ),
    Snippet(
        name="running_drawdown",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
drawdown = close / close.cummax() - 1
worst = drawdown.cummin()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(drawdown > -0.01, 1.0).mask(drawdown < 0.7 * worst, -1.0)
GLOBAL_DATA_STATE.update("signal", {"running_drawdown": signal})
""",
        ),
        why="cumulative extremes from the first row",
    ),
    Snippet(
        name="cumulative_flow",
        cells=(
            """\
bars = snapshot["ohlcv"]
span = (bars["high"] - bars["low"]).replace(0.0, np.nan)
share = (2 * bars["close"] - bars["high"] - bars["low"]) / span
line = (share * bars["vol"]).fillna(0.0).cumsum()
fast, slow = line.ewm(span=3).mean(), line.ewm(span=10).mean()
signal = np.sign(fast - slow).where(bars["close"].notna())
GLOBAL_DATA_STATE.update("signal", {"cumulative_flow": signal})
""",
        ),
        why="Chaikin's line is a cumulative sum",
    ),
    Snippet(
        name="kalman_filter",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
log = np.log(close).to_numpy()
level, variance = log[0].copy(), np.ones(close.shape[1])
out = np.zeros(close.shape)
q, r = 0.05, 1.0
for t in range(1, len(log)):
    seen = np.isfinite(log[t])
    level = np.where(np.isnan(level), log[t], level)
    variance = variance + q
    gain = np.where(seen, variance / (variance + r), 0.0)
    surprise = np.where(seen, log[t] - level, 0.0)
    level, variance = level + gain * surprise, (1 - gain) * variance
    out[t] = np.where(surprise > 0.02, -1.0, np.where(surprise < -0.02, 1.0, 0.0))
signal = pd.DataFrame(out, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"kalman_filter": signal})
""",
        ),
        why="the forward pass alone",
    ),
    Snippet(
        name="momentum_but_the_last_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
momentum = close.shift(21) / close.shift(126) - 1     # 6-1 momentum
rank = momentum.rank(axis=1, pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(rank > 0.8, 1.0).mask(rank < 0.5, -1.0).where(momentum.notna())
GLOBAL_DATA_STATE.update("signal", {"momentum_but_the_last_month": signal})
""",
        ),
        why="both ends of the return lie behind",
    ),
    Snippet(
        name="since_the_first_close",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
base = close.iloc[0]
since = close / base - 1
signal = (since < -0.05).astype(float) - (since > 0.15).astype(float)
GLOBAL_DATA_STATE.update("signal", {"since_the_first_close": signal.where(since.notna())})
""",
        ),
        why="the reference is the first row, which every later one knows",
    ),
    Snippet(
        name="weighted_window",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
newest_first = np.array([0.4, 0.3, 0.2, 0.1])
smooth = close.rolling(4).apply(lambda window: float(np.sum(window[::-1] * newest_first)), raw=True)
signal = np.sign(close - smooth)
GLOBAL_DATA_STATE.update("signal", {"weighted_window": signal})
""",
        ),
        why="the window is reversed inside itself, the rows are not",
    ),
    Snippet(
        name="backward_adjusted",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
if "adj_factor" in bars:
    factor = bars["adj_factor"].ffill()
else:
    factor = (close.ffill().shift(1) / bars["pre_close"]).fillna(1.0).cumprod()
hfq = close * factor                                  # 后复权
fast, slow = hfq.rolling(5).mean(), hfq.rolling(20).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0).mask(fast < slow, -1.0)
GLOBAL_DATA_STATE.update("signal", {"backward_adjusted": signal})
""",
        ),
        why="backward-adjusted prices are scaled from the first session on",
    ),
    Snippet(
        name="seeded_dice",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
dice = np.random.default_rng(0).random(close.shape)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(dice > 0.98, 1.0).mask(dice < 0.02, -1.0)
GLOBAL_DATA_STATE.update("signal", {"seeded_dice": signal})
""",
        ),
        why="numbers are drawn row by row from a fixed seed: a row's do not depend on how many follow",
    ),
)

_STATES: tuple[Snippet, ...] = (
    Snippet(
        name="trailing_stop",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
prices, average = close.to_numpy(), close.rolling(10).mean().to_numpy()
out = np.zeros(close.shape)
for n in range(close.shape[1]):
    held, peak = False, 0.0
    for t in range(len(close)):
        price = prices[t, n]
        if np.isnan(price) or np.isnan(average[t, n]):
            out[t, n] = np.nan
        elif not held and price > average[t, n]:
            held, peak, out[t, n] = True, price, 1.0
        elif held:
            peak = max(peak, price)
            if price < 0.95 * peak:                   # 移动止损
                held, out[t, n] = False, -1.0
signal = pd.DataFrame(out, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"trailing_stop": signal})
""",
        ),
        why="a state that goes forward one session at a time",
    ),
    Snippet(
        name="held_for_ten_days",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
enter = (close > close.rolling(20).max().shift(1)).to_numpy()
left = np.zeros(close.shape[1], dtype=int)
rows = []
for today in enter:
    left = np.maximum(left - 1, 0)
    ended = (left == 0) & ~today
    left = np.where(today, 10, left)
    rows.append(np.where(today, 1.0, np.where(ended, -1.0, 0.0)))
signal = pd.DataFrame(np.array(rows), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"held_for_ten_days": signal})
""",
        ),
        why="days left are counted down from the entry",
    ),
    Snippet(
        name="turtle",
        cells=(
            """\
bars = snapshot["ohlcv"]
high, low, close = bars["high"], bars["low"], bars["close"]
entry, leave = high.rolling(20).max().shift(1), low.rolling(10).min().shift(1)
n = (high - low).rolling(20).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
for code in close:
    bought = None
    values = []
    for price, up, down, width in zip(close[code], entry[code], leave[code], n[code]):
        value = 0.0
        if bought is None and price > up:
            bought, value = price, 1.0
        elif bought is not None and (price < down or price < bought - 2 * width):
            bought, value = None, -1.0
        values.append(value)
    signal[code] = values
GLOBAL_DATA_STATE.update("signal", {"turtle": signal})
""",
        ),
        why="the entry price is remembered",
    ),
    Snippet(
        name="opinion_carried_on",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
z = (close - close.rolling(15).mean()) / close.rolling(15).std()
event = pd.DataFrame(np.nan, index=close.index, columns=close.columns).mask(z < -1.5, 1.0).mask(z > 1.0, -1.0)
state = event.ffill()
changed = state != state.shift(1)
signal = state.where(changed, 0.0)
GLOBAL_DATA_STATE.update("signal", {"opinion_carried_on": signal})
""",
        ),
        why="ffill carries an opinion forward",
    ),
    Snippet(
        name="streak",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
down = close < close.shift(1)
block = (~down).cumsum()
streak = pd.DataFrame({code: down[code].astype(int).groupby(block[code]).cumsum() for code in close})
signal = (streak >= 4).astype(float) - (close > 1.03 * close.shift(1)).astype(float)
GLOBAL_DATA_STATE.update("signal", {"streak": signal.reindex(columns=close.columns)})
""",
        ),
        why="groups of losing days, summed up to the row",
    ),
    Snippet(
        name="class_with_a_memory",
        cells=(
            """\
class Strategy:
    def __init__(self, window):
        self.window, self.seen = window, []

    def on_bar(self, row):
        self.seen.append(row)
        if len(self.seen) < self.window:
            return row * np.nan
        mean = np.mean(self.seen[-self.window:], axis=0)
        return np.where(row > 1.01 * mean, 1.0, np.where(row < 0.99 * mean, -1.0, 0.0))


close = snapshot["ohlcv"]["close"]
strategy = Strategy(12)
signal = pd.DataFrame([strategy.on_bar(row) for row in close.to_numpy()], index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"class_with_a_memory": signal})
""",
        ),
        why="an object that is shown one session after the other",
    ),
)

_CALENDAR: tuple[Snippet, ...] = (
    Snippet(
        name="session_of_the_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
number = close.groupby([close.index.year, close.index.month]).cumcount() + 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(number == 3, 1.0, axis=0).mask(number == 13, -1.0, axis=0)
GLOBAL_DATA_STATE.update("signal", {"session_of_the_month": signal})
""",
        ),
        why="sessions are counted from the start of the month",
    ),
    Snippet(
        name="high_of_the_month_so_far",
        cells=(
            """\
high, close = snapshot["ohlcv"]["high"], snapshot["ohlcv"]["close"]
so_far = high.groupby(high.index.to_period("M")).cummax()
pullback = close / so_far - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(pullback < -0.05, 1.0).mask(pullback > -0.005, -1.0)
GLOBAL_DATA_STATE.update("signal", {"high_of_the_month_so_far": signal})
""",
        ),
        why="cummax within the month, where transform('max') would leak",
    ),
    Snippet(
        name="first_session_of_the_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
month = close.index.month.to_numpy()
first = np.r_[False, month[1:] != month[:-1]]         # 每月第一个交易日调仓
rank = close.pct_change(20, fill_method=None).rank(axis=1, pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((rank > 0.8).mul(first, axis=0), 1.0).mask((rank < 0.5).mul(first, axis=0), -1.0)
GLOBAL_DATA_STATE.update("signal", {"first_session_of_the_month": signal})
""",
        ),
        why="a month begins where the session before is of another",
    ),
    Snippet(
        name="completed_weeks",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
weekly = close.resample("W-FRI").last()
trend = (weekly / weekly.rolling(3).mean() - 1).shift(1)   # the running week is not used
trend = trend.reindex(close.index, method="bfill")
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(trend > 0.01, 1.0).mask(trend < -0.01, -1.0)
GLOBAL_DATA_STATE.update("signal", {"completed_weeks": signal})
""",
        ),
        why="the row of this Friday is brought back to Monday, but holds what last Friday knew",
    ),
    Snippet(
        name="last_month_end",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
month = close.index.to_period("M")
monthly = close.groupby(month).last().shift(1)
reference = monthly.reindex(month).set_axis(close.index)
signal = (close > 1.03 * reference).astype(float) - (close < 0.97 * reference).astype(float)
GLOBAL_DATA_STATE.update("signal", {"last_month_end": signal})
""",
        ),
        why="every session sees the last close of the month before",
    ),
    Snippet(
        name="first_close_of_the_year",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
start = close.groupby(close.index.year).transform("first")
ytd = close / start - 1
signal = (ytd < -0.1).astype(float) - (ytd > 0.1).astype(float)
GLOBAL_DATA_STATE.update("signal", {"first_close_of_the_year": signal})
""",
        ),
        why="transform('first') is the one transform that later rows do not change",
    ),
    Snippet(
        name="sell_in_may",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
month = close.index.month
out = pd.Series((month >= 5) & (month <= 9), index=close.index)
turn = out != out.shift(1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(turn & ~out, 1.0, axis=0).mask(turn & out, -1.0, axis=0)
GLOBAL_DATA_STATE.update("signal", {"sell_in_may": signal})
""",
        ),
        why="the month of a session is known in it",
    ),
    Snippet(
        name="merged_backward",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.mean(axis=1).rename("level").reset_index()
weekly = market.iloc[::5].rename(columns={"level": "weekly"})
merged = pd.merge_asof(market, weekly, on="trade_date", direction="backward")
rise = (merged["level"] / merged["weekly"] - 1).to_numpy()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal.loc[rise > 0.005] = 1.0
signal.loc[rise < -0.005] = -1.0
GLOBAL_DATA_STATE.update("signal", {"merged_backward": signal})
""",
        ),
        why="the newest observation that is not later",
    ),
    Snippet(
        name="reindexed_forward",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
every_fifth = close.iloc[::5]
smooth = every_fifth.rolling(3).mean().reindex(close.index, method="ffill")
signal = np.sign(close - smooth)
GLOBAL_DATA_STATE.update("signal", {"reindexed_forward": signal})
""",
        ),
        why="rows are counted from the start, and carried forward",
    ),
)

_DATA: tuple[Snippet, ...] = (
    Snippet(
        name="filled_forward",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill()
ret = close.pct_change()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(ret > 0.02, 1.0).mask(ret < -0.02, -1.0)
GLOBAL_DATA_STATE.update("signal", {"filled_forward": signal})
""",
        ),
        why="a suspended session has the price before it",
    ),
    Snippet(
        name="gaps_left_alone",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
traded = close.notna()
resumed = traded & ~traded.shift(1, fill_value=True)     # 复牌首日
change = close / close.ffill().shift(1) - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(traded & (change > 0.03), 1.0).mask(resumed | (change < -0.03), -1.0).where(traded)
GLOBAL_DATA_STATE.update("signal", {"gaps_left_alone": signal})
""",
        ),
        why="that trading has resumed is seen on the day it does",
    ),
    Snippet(
        name="without_empty_sessions",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].dropna(how="all").dropna(axis=1, how="all")
fast, slow = close.rolling(3).mean(), close.rolling(12).mean()
signal = pd.DataFrame(np.where(fast > slow, 1.0, np.where(fast < slow, -1.0, np.nan)), close.index, close.columns)
full = snapshot["ohlcv"]["close"]
GLOBAL_DATA_STATE.update("signal", {"without_empty_sessions": signal.reindex(index=full.index, columns=full.columns)})
""",
        ),
        why="what is dropped is empty altogether: a stock that is not yet listed has no signal anyway",
    ),
    Snippet(
        name="volume_spike",
        cells=(
            """\
close, vol = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["vol"]
usual = vol.rolling(20, min_periods=10).median().shift(1)
spike = vol > 2 * usual
up = close > close.shift(1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(spike & up, 1.0).mask(spike & ~up, -1.0)
GLOBAL_DATA_STATE.update("signal", {"volume_spike": signal})
""",
        ),
        why="the usual volume is that of the 20 sessions before",
    ),
    Snippet(
        name="turnover_filter",
        cells=(
            """\
bars, indicators = snapshot["ohlcv"], snapshot["indicators"]
close = bars["close"]
if "turnover_rate" in indicators:
    turnover = indicators["turnover_rate"]
else:
    turnover = bars["vol"] / bars["vol"].rolling(60, min_periods=20).mean()
calm = turnover < turnover.rolling(20).mean()
fast, slow = close.rolling(4).mean(), close.rolling(16).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((fast > slow) & calm, 1.0).mask(fast < slow, -1.0)
GLOBAL_DATA_STATE.update("signal", {"turnover_filter": signal})
""",
        ),
        why="turnover of the day itself, decided after the close",
    ),
    Snippet(
        name="cheap_by_earnings",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
indicators = snapshot["indicators"]
value = 1 / indicators["pe_ttm"] if "pe_ttm" in indicators else -close.pct_change(60, fill_method=None)
rank = value.rank(axis=1, pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(rank > 0.85, 1.0).mask(rank < 0.6, -1.0).where(rank.notna())
GLOBAL_DATA_STATE.update("signal", {"cheap_by_earnings": signal})
""",
        ),
        why="the day's own price-earnings ratios, ranked across one row",
    ),
    Snippet(
        name="after_the_dividend",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
goes_ex = bars["dividend"] > 0 if "dividend" in bars else bars["pre_close"] < close.shift(1) - 0.005
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(goes_ex, 1.0).mask(goes_ex.shift(10, fill_value=False), -1.0)   # 填权行情
GLOBAL_DATA_STATE.update("signal", {"after_the_dividend": signal})
""",
        ),
        why="bought in the row of the ex-date, sold ten sessions later",
    ),
    Snippet(
        name="not_at_the_limit",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
top = bars["up_limit"] if "up_limit" in bars else (1.1 * bars["pre_close"]).round(2)
at_top = close >= top - 0.001
strong = close > close.rolling(10).max().shift(1)
signal = np.where(strong & ~at_top, 1.0, np.where(close < close.rolling(10).min().shift(1), -1.0, 0.0))
signal = pd.DataFrame(signal, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"not_at_the_limit": signal})
""",
        ),
        why="the limit price is announced before the session",
    ),
    Snippet(
        name="overnight_gap",
        cells=(
            """\
open_, close, before = (snapshot["ohlcv"][name] for name in ("open", "close", "pre_close"))
gap = open_ / before - 1
kept = (close > open_) & (gap > 0.005)
lost = (close < open_) & (gap < -0.005)
signal = kept.astype(float) - lost.astype(float)
GLOBAL_DATA_STATE.update("signal", {"overnight_gap": signal})
""",
        ),
        why="this morning's gap, and decided after the close; it is the gap of tomorrow that would leak",
    ),
    Snippet(
        name="in_long_form",
        cells=(
            """\
bars = snapshot["ohlcv"]
long = bars["close"].stack().rename("close").reset_index()
grouped = long.groupby("ts_code")["close"]
long["average"] = grouped.transform(lambda s: s.rolling(10).mean())
long["before"] = grouped.shift(1)
long["value"] = 0.0
long.loc[(long["close"] > long["average"]) & (long["before"] <= long["average"]), "value"] = 1.0
long.loc[(long["close"] < long["average"]) & (long["before"] >= long["average"]), "value"] = -1.0
close = bars["close"]
signal = long.pivot(index="trade_date", columns="ts_code", values="value")
signal = signal.reindex(index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"in_long_form": signal})
""",
        ),
        why="a transform of a group that is itself a trailing window",
    ),
    Snippet(
        name="two_cells",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
print(close.describe().T.head())
full_sample_mean = close.mean()                       # only to look at
""",
            """\
fast, slow = close.rolling(6).mean(), close.rolling(24).mean()
signal = pd.DataFrame(np.sign(fast - slow), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"two_cells": signal})
print("mean of the sample", full_sample_mean.round(2).to_dict())
""",
        ),
        why="statistics of the whole sample are printed, and not used",
    ),
    Snippet(
        name="wants_twenty_rows",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
if len(close) < 20:
    raise ValueError(f"at least 20 sessions are needed, there are {len(close)}")
average = close.rolling(20).mean()
signal = np.sign(close - average)
GLOBAL_DATA_STATE.update("signal", {"wants_twenty_rows": signal})
""",
        ),
        why="it has no answer for fewer than 20 sessions and says so",
    ),
    Snippet(
        name="no_opinion",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
average = close.rolling(5000).mean()
signal = np.sign(close - average)
GLOBAL_DATA_STATE.update("signal", {"no_opinion": signal})
""",
        ),
        why="the window is never full: NaN everywhere",
    ),
)

_TIES: tuple[Snippet, ...] = (
    Snippet(
        name="ties_by_symbol",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
place = ret.rank(axis=1, method="first")             # equal returns in the order of the codes
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(place.gt(ret.count(axis=1) / 2, axis=0), 1.0)
GLOBAL_DATA_STATE.update("signal", {"ties_by_symbol": signal})
""",
        ),
        why="equal returns are ranked in the order of the columns",
    ),
    Snippet(
        name="ties_by_past_volume",
        cells=(
            """\
close, vol = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["vol"]
ret = close.pct_change(fill_method=None).fillna(0.0)
usual = vol.rolling(5).mean().shift(1).fillna(0.0)
place = np.lexsort((usual.to_numpy(), ret.to_numpy()), axis=1).argsort(axis=1)
best = np.where(place >= 0.5 * close.shape[1], 1.0, -1.0)
signal = pd.DataFrame(best, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"ties_by_past_volume": signal.where(close.notna())})
""",
        ),
        why="equal returns are ranked by the volume of the week before",
    ),
    Snippet(
        name="flat_days_by_yesterday",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
change = close.diff()
up = (change > 0) | ((change == 0) & (change.shift(1) > 0))     # 平盘看前日
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(up, 1.0)
GLOBAL_DATA_STATE.update("signal", {"flat_days_by_yesterday": signal})
""",
        ),
        why="a close equal to the one before goes on as the day before",
    ),
)

_ROUNDING: tuple[Snippet, ...] = (
    Snippet(
        name="breadth_by_a_product",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
rises = (close.diff() > 0).to_numpy(float)
share = rises @ np.full(rises.shape[1], 1 / rises.shape[1])     # 上涨家数占比
signal = pd.DataFrame(np.where(share >= 0.5, 1.0, -1.0)[:, None] * np.ones(close.shape), close.index, close.columns)
GLOBAL_DATA_STATE.update("signal", {"breadth_by_a_product": signal})
""",
        ),
        why="half of the stocks add up to 0.5, or to the number below it where a longer panel is multiplied otherwise",
    ),
    Snippet(
        name="two_ranks_by_a_product",
        cells=(
            """\
close, vol = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["vol"]
ranks = [frame.rank(axis=1).fillna(0.0).to_numpy() for frame in (close, vol)]
score = np.stack(ranks, axis=-1) @ np.array([0.3, 0.7])
tenth = np.sort(score, axis=1)[:, -10][:, None]
GLOBAL_DATA_STATE.update("signal", {"two_ranks_by_a_product":
    pd.DataFrame(np.where(score >= tenth, 1.0, -1.0), close.index, close.columns)})
""",
        ),
        why="weighted sums of ranks are often equal, and a product rounds them",
    ),
    Snippet(
        name="signs_by_a_product",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ways = np.sign(close.diff()).fillna(0.0).to_numpy()
total = ways @ np.full(ways.shape[1], 0.1)                       # 0 when as many rise as fall, but for rounding
signal = pd.DataFrame(np.where(total > 0, 1.0, 0.0)[:, None] * np.ones(close.shape), close.index, close.columns)
GLOBAL_DATA_STATE.update("signal", {"signs_by_a_product": signal})
""",
        ),
        why="tenths of signs add up to 0 or to the last bit of one, and no move of a price changes a sign",
    ),
    Snippet(
        name="running_total_by_a_product",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
change = close.pct_change(fill_method=None).fillna(0.0).to_numpy()
total = np.tril(np.ones((len(change), len(change)))) @ change
GLOBAL_DATA_STATE.update("signal", {"running_total_by_a_product":
    pd.DataFrame(np.sign(total), close.index, close.columns)})
""",
        ),
        why="a triangle of ones sums up what was, each panel's length in an order of its own",
    ),
)

HONEST: tuple[Snippet, ...] = (
    *_INDICATORS,
    *_CROSS_SECTION,
    *_EXPANDING,
    *_STATES,
    *_CALENDAR,
    *_DATA,
    *_TIES,
    *_ROUNDING,
)
"""All of them."""
