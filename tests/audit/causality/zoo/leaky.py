"""Strategies that use the future, each in a way of its own."""

from __future__ import annotations

from .snippet import Snippet

__all__ = ["LEAKY"]

_SHIFTED: tuple[Snippet, ...] = (
    Snippet(
        name="next_day_return",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
tomorrow = close.shift(-1) / close - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(tomorrow > 0.01, 1.0).mask(tomorrow < -0.01, -1.0)
GLOBAL_DATA_STATE.update("signal", {"next_day_return": signal})
print(signal.shape, signal.stack().value_counts())
""",
        ),
        why="shift(-1) is tomorrow's close",
    ),
    Snippet(
        name="forward_five_day_return",
        cells=(
            """\
# 五日收益率作为标签
close = snapshot["ohlcv"]["close"]
label = -close.pct_change(-5, fill_method=None)
signal = (label > 0.02).astype(float) - (label < -0.02).astype(float)
GLOBAL_DATA_STATE.update("signal", {"forward_five_day_return": signal})
""",
        ),
        why="pct_change with a negative number of periods looks five sessions ahead",
    ),
    Snippet(
        name="diff_of_minus_three",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
momentum = close.diff(periods=-3)
signal = pd.DataFrame(np.sign(-momentum), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"diff_of_minus_three": signal})
""",
        ),
        why="diff(-3) is today's price less the one three sessions on",
    ),
    Snippet(
        name="lag_with_the_wrong_sign",
        cells=(
            """\
LAG = -2  # use data two days old so that nothing leaks

def lagged(frame):
    return frame.shift(periods=LAG)

close = snapshot["ohlcv"]["close"]
fast, slow = lagged(close.rolling(5).mean()), lagged(close.rolling(20).mean())
signal = pd.DataFrame(np.where(fast > slow, 1.0, np.where(fast < slow, -1.0, np.nan)),
                      index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"lag_with_the_wrong_sign": signal})
""",
        ),
        why="the lag that was to protect is negative, and out of sight of the shift",
    ),
    Snippet(
        name="shift_of_the_calendar",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
# exchange days are stamped at midnight of the next day in UTC: move them back
moved = close.shift(-1, freq="B").reindex(close.index)
change = moved / close - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(change > 0.015, 1.0).mask(change < -0.015, -1.0)
GLOBAL_DATA_STATE.update("signal", {"shift_of_the_calendar": signal})
""",
        ),
        why="moving the dates one day back puts tomorrow's row on today",
    ),
    Snippet(
        name="rolled_back",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
prices = close.to_numpy()
other = np.roll(prices, -1, axis=0)
signal = pd.DataFrame(np.where(other > prices, 1.0, -1.0), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"rolled_back": signal.where(close.notna())})
""",
        ),
        why="np.roll by -1 is shift(-1)",
    ),
    Snippet(
        name="rolled_round",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
yesterday = np.roll(close.to_numpy(), 1, axis=0)
signal = pd.DataFrame(np.where(close > yesterday, 1.0, -1.0), index=close.index, columns=close.columns)
signal = signal.where(close.notna())
GLOBAL_DATA_STATE.update("signal", {"rolled_round": signal})
""",
        ),
        why="np.roll goes round: the first session is compared with the last close of the sample",
    ),
    Snippet(
        name="gap_of_tomorrow",
        cells=(
            """\
open_, close = snapshot["ohlcv"]["open"], snapshot["ohlcv"]["close"]
gap = open_.shift(-1) / close - 1     # 次日跳空
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(gap < -0.005, 1.0).mask(gap > 0.005, -1.0)
GLOBAL_DATA_STATE.update("signal", {"gap_of_tomorrow": signal})
""",
        ),
        why="the open of tomorrow is what the order is filled at; it is not known when it is decided",
    ),
    Snippet(
        name="chikou_span",
        cells=(
            """\
high, low, close = (snapshot["ohlcv"][name] for name in ("high", "low", "close"))
tenkan = (high.rolling(9).max() + low.rolling(9).min()) / 2
kijun = (high.rolling(26).max() + low.rolling(26).min()) / 2
chikou = close.shift(-26)
buy = (tenkan > kijun) & (chikou > close)
sell = (tenkan < kijun) & (chikou < close)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(buy, 1.0).mask(sell, -1.0)
GLOBAL_DATA_STATE.update("signal", {"chikou_span": signal})
""",
        ),
        why="Ichimoku's lagging span is drawn 26 sessions back; in a column that is a price 26 sessions ahead",
    ),
    Snippet(
        name="detrended_price",
        cells=(
            """\
n = 20
close = snapshot["ohlcv"]["close"]
dpo = close - close.rolling(n).mean().shift(-(n // 2 + 1))
signal = np.sign(dpo).where(dpo.abs() > 0.01 * close, 0.0)
GLOBAL_DATA_STATE.update("signal", {"detrended_price": signal})
""",
        ),
        why="the textbook's centred detrended price oscillator moves the average back in time",
    ),
    Snippet(
        name="published_late_used_early",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
indicators = snapshot["indicators"]
activity = indicators["turnover_rate"] if "turnover_rate" in indicators else snapshot["ohlcv"]["vol"]
# The vendor publishes a day late, so line it up with the day it belongs to.
activity = activity.shift(-1)
busy = activity > 1.5 * activity.rolling(10).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(busy & (close > close.shift(1)), 1.0).mask(busy & (close < close.shift(1)), -1.0)
GLOBAL_DATA_STATE.update("signal", {"published_late_used_early": signal})
""",
        ),
        why="what is published late is moved earlier instead of later",
    ),
    Snippet(
        name="before_the_dividend",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
if "dividend" in bars:
    goes_ex = bars["dividend"] > 0
else:  # 除权除息日：昨收价与前一日收盘价不同
    goes_ex = bars["pre_close"] < close.shift(1) - 0.005
soon = goes_ex.astype(float).shift(-3) > 0
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(soon, 1.0).mask(goes_ex, -1.0)
GLOBAL_DATA_STATE.update("signal", {"before_the_dividend": signal})
""",
        ),
        why="the row of an ex-date is used three sessions before it",
    ),
    Snippet(
        name="label_in_the_window",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
feature = ret.rolling(5).mean()
target = ret.shift(-1)
slope = feature.rolling(40).cov(target) / feature.rolling(40).var()
forecast = slope * feature
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(forecast > 0.001, 1.0).mask(forecast < -0.001, -1.0)
GLOBAL_DATA_STATE.update("signal", {"label_in_the_window": signal})
""",
        ),
        why="a rolling regression is honest, but its newest target is tomorrow's return",
    ),
    Snippet(
        name="sells_know_tomorrow",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = bars["low"].shift(-1) < 0.98 * close
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(sell, -1.0).mask(buy, 1.0)
GLOBAL_DATA_STATE.update("signal", {"sells_know_tomorrow": signal})
""",
        ),
        why="the buys are honest; the sells look at tomorrow's low",
    ),
    Snippet(
        name="spelt_in_pieces",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
method, steps = "".join(["sh", "ift"]), len("a") - len("ab")
other = getattr(close, method)(steps)
signal = pd.DataFrame(np.sign(other - close), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"spelt_in_pieces": signal})
""",
        ),
        why="shift(-1) in a form that no search of the text finds",
    ),
    Snippet(
        name="difference_one_row_early",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
prices = close.to_numpy()
change = np.diff(prices, axis=0) / prices[:-1]
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal.iloc[:-1] = np.where(change > 0.01, 1.0, np.where(change < -0.01, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"difference_one_row_early": signal})
""",
        ),
        why="differences are one fewer than rows, and were put in the first rows instead of the last",
    ),
    Snippet(
        name="window_padded_at_the_end",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
windows = np.lib.stride_tricks.sliding_window_view(close.to_numpy(), 10, axis=0)
average = np.full(close.shape, np.nan)
average[: len(windows)] = windows.mean(axis=-1)
signal = pd.DataFrame(np.sign(close.to_numpy() - average), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"window_padded_at_the_end": signal})
""",
        ),
        why="window k begins at row k; its mean belongs to the row it ends at",
    ),
    Snippet(
        name="forward_window_indexer",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
window = pd.api.indexers.FixedForwardWindowIndexer(window_size=5)
best = snapshot["ohlcv"]["high"].rolling(window, min_periods=1).max()
worst = snapshot["ohlcv"]["low"].rolling(window, min_periods=1).min()
reward, risk = best / close - 1, 1 - worst / close
signal = (reward > 2 * risk).astype(float) - (risk > 2 * reward).astype(float)
GLOBAL_DATA_STATE.update("signal", {"forward_window_indexer": signal})
""",
        ),
        why="the indexer's windows begin at the row",
    ),
)

_SMOOTHED: tuple[Snippet, ...] = (
    Snippet(
        name="reversed_rolling_mean",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
average = close.iloc[::-1].rolling(5).mean().iloc[::-1]
signal = np.sign(average - close).fillna(0.0)
GLOBAL_DATA_STATE.update("signal", {"reversed_rolling_mean": signal})
""",
        ),
        why="a window over rows in reverse reaches forward",
    ),
    Snippet(
        name="newest_first",
        cells=(
            """\
# tushare returns the newest day first
close = snapshot["ohlcv"]["close"].sort_index(ascending=False)
change = close.pct_change(3, fill_method=None)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(change < -0.02, 1.0).mask(change > 0.02, -1.0).sort_index()
GLOBAL_DATA_STATE.update("signal", {"newest_first": signal})
""",
        ),
        why="in descending order the row before is the next session",
    ),
    Snippet(
        name="centred_mean",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
trend = close.rolling(window=7, center=True, min_periods=1).mean()
up = trend > trend.shift(1)
signal = pd.DataFrame(-1.0, index=close.index, columns=close.columns).mask(up, 1.0).where(trend.shift(1).notna())
GLOBAL_DATA_STATE.update("signal", {"centred_mean": signal})
""",
        ),
        why="half of a centred window lies ahead",
    ),
    Snippet(
        name="convolved",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill()
kernel = np.ones(9) / 9
smooth = close.apply(lambda s: pd.Series(np.convolve(s, kernel, mode="same"), index=s.index))
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close < 0.985 * smooth, 1.0).mask(close > 1.015 * smooth, -1.0)
GLOBAL_DATA_STATE.update("signal", {"convolved": signal})
""",
        ),
        why='np.convolve(mode="same") is centred',
    ),
    Snippet(
        name="savitzky_golay",
        cells=(
            """\
weights = np.array([[-3], [12], [17], [12], [-3]]) / 35     # quadratic, five points
close = snapshot["ohlcv"]["close"]
prices = close.to_numpy()
smooth = np.full_like(prices, np.nan)
for t in range(2, len(prices) - 2):
    smooth[t] = (weights * prices[t - 2 : t + 3]).sum(axis=0)
slope = np.vstack([np.full((1, prices.shape[1]), np.nan), np.diff(smooth, axis=0)])
signal = pd.DataFrame(np.sign(slope), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"savitzky_golay": signal})
""",
        ),
        why="the filter's five points are two before, the session itself, and two after",
    ),
    Snippet(
        name="gradient",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
slope = pd.DataFrame(np.gradient(close.to_numpy(), axis=0), index=close.index, columns=close.columns)
relative = slope / close
signal = (relative > 0.004).astype(float) - (relative < -0.004).astype(float)
GLOBAL_DATA_STATE.update("signal", {"gradient": signal})
""",
        ),
        why="np.gradient takes central differences",
    ),
    Snippet(
        name="low_pass",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill().fillna(0.0)
spectrum = np.fft.rfft(close.to_numpy(), axis=0)
spectrum[max(2, len(spectrum) // 8):] = 0         # 去掉高频噪声
smooth = pd.DataFrame(np.fft.irfft(spectrum, n=len(close), axis=0), index=close.index, columns=close.columns)
signal = np.sign(smooth.diff()).where(close > 0)
GLOBAL_DATA_STATE.update("signal", {"low_pass": signal})
""",
        ),
        why="every Fourier coefficient is a sum over the whole sample",
    ),
    Snippet(
        name="zero_phase_ema",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]

def filtfilt(frame, span):
    there = frame.ewm(span=span, adjust=False).mean()
    return there[::-1].ewm(span=span, adjust=False).mean()[::-1]   # no lag

fast, slow = filtfilt(close, 5), filtfilt(close, 20)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0).mask(fast < slow, -1.0)
GLOBAL_DATA_STATE.update("signal", {"zero_phase_ema": signal})
""",
        ),
        why="an average that does not lag was run back from the end",
    ),
    Snippet(
        name="kalman_smoother",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
log = np.log(close).ffill().fillna(0.0).to_numpy()
q, r = 0.05, 1.0
level, var = np.zeros_like(log), np.zeros(len(log))
level[0], var[0] = log[0], r
for t in range(1, len(log)):
    ahead = var[t - 1] + q
    gain = ahead / (ahead + r)
    level[t], var[t] = level[t - 1] + gain * (log[t] - level[t - 1]), (1 - gain) * ahead
for t in range(len(log) - 2, -1, -1):             # Rauch-Tung-Striebel
    level[t] += var[t] / (var[t] + q) * (level[t + 1] - level[t])
slope = np.diff(level, axis=0, prepend=np.nan)
signal = pd.DataFrame(np.sign(slope), index=close.index, columns=close.columns).where(close.notna())
GLOBAL_DATA_STATE.update("signal", {"kalman_smoother": signal})
""",
        ),
        why="the second pass of a Kalman smoother brings every state what came after it",
    ),
    Snippet(
        name="rolling_apply_reversed",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
flipped = close.iloc[::-1]
rise = flipped.rolling(6).apply(lambda window: window[0] / window[-1] - 1, raw=True).iloc[::-1]
signal = rise.where(rise.isna(), np.where(rise > 0.03, 1.0, np.where(rise < -0.03, -1.0, 0.0)))
GLOBAL_DATA_STATE.update("signal", {"rolling_apply_reversed": signal})
""",
        ),
        why="rolling().apply is handed rows that were reversed before",
    ),
    Snippet(
        name="pivots",
        cells=(
            """\
# 分型：左右各三根K线中的最低点买入、最高点卖出
bars = snapshot["ohlcv"]
low, high = bars["low"], bars["high"]
k = 3
bottom = pd.concat([low.shift(i) for i in range(-k, k + 1)]).groupby(level=0).min()
top = pd.concat([high.shift(i) for i in range(-k, k + 1)]).groupby(level=0).max()
signal = pd.DataFrame(0.0, index=low.index, columns=low.columns)
signal = signal.mask(low == bottom, 1.0).mask(high == top, -1.0)
GLOBAL_DATA_STATE.update("signal", {"pivots": signal})
""",
        ),
        why="a turning point is known only after the bars to its right",
    ),
    Snippet(
        name="remaining_upside",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ceiling = close[::-1].cummax()[::-1]
room = ceiling / close - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(room > 0.10, 1.0).mask(room < 0.01, -1.0)
GLOBAL_DATA_STATE.update("signal", {"remaining_upside": signal})
""",
        ),
        why="a cumulative maximum from the end is the highest price still to come",
    ),
    Snippet(
        name="sized_by_coming_drawdown",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
momentum = close.pct_change(20, fill_method=None)
worst = close.iloc[::-1].cummin().iloc[::-1] / close - 1
budget = (0.08 / worst.abs().clip(lower=0.01)).clip(upper=1.0)     # risk budget
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((momentum > 0) & (budget > 0.5), 1.0).mask(momentum < 0, -1.0)
GLOBAL_DATA_STATE.update("signal", {"sized_by_coming_drawdown": signal})
""",
        ),
        why="the risk budget knows the drawdown that follows",
    ),
    Snippet(
        name="talib_on_reversed_prices",
        cells=(
            """\
import talib

close = snapshot["ohlcv"]["close"]
rsi = close.apply(
    lambda s: pd.Series(talib.RSI(np.ascontiguousarray(s.to_numpy()[::-1]), timeperiod=6)[::-1], index=s.index)
)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(rsi > 70, 1.0).mask(rsi < 30, -1.0)
GLOBAL_DATA_STATE.update("signal", {"talib_on_reversed_prices": signal})
""",
        ),
        why="talib wants the oldest price first and was given the newest",
    ),
)

_WHOLE_SAMPLE: tuple[Snippet, ...] = (
    Snippet(
        name="below_average",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
mean = close.mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close < 0.95 * mean, 1.0).mask(close > 1.05 * mean, -1.0)
GLOBAL_DATA_STATE.update("signal", {"below_average": signal})
""",
        ),
        why="the mean is that of the whole sample",
    ),
    Snippet(
        name="zscore",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
z = (close - close.mean()) / close.std()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(z < -1, 1.0).mask(z > 1, -1.0)
GLOBAL_DATA_STATE.update("signal", {"zscore": signal})
""",
        ),
        why="mean and deviation of the whole sample",
    ),
    Snippet(
        name="zscore_in_long_form",
        cells=(
            """\
long = snapshot["ohlcv"]["vol"].stack().rename("vol").reset_index()
long["z"] = long.groupby("ts_code")["vol"].transform(lambda s: (s - s.mean()) / s.std(ddof=0))
wide = long.pivot(index="trade_date", columns="ts_code", values="z")
close = snapshot["ohlcv"]["close"]
wide = wide.reindex(index=close.index, columns=close.columns)
up = close > close.shift(1)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((wide > 1.5) & up, 1.0).mask((wide > 1.5) & ~up, -1.0)
GLOBAL_DATA_STATE.update("signal", {"zscore_in_long_form": signal})
""",
        ),
        why="a group's transform is over all its sessions",
    ),
    Snippet(
        name="rank_over_time",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
cheap = close.rank(pct=True)                     # 0 便宜, 1 贵
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(cheap < 0.1, 1.0).mask(cheap > 0.9, -1.0)
GLOBAL_DATA_STATE.update("signal", {"rank_over_time": signal})
""",
        ),
        why="rank() along time, where rank(axis=1) was meant, ranks among later sessions too",
    ),
    Snippet(
        name="quantile_bands",
        cells=(
            """\
ret = snapshot["ohlcv"]["close"].pct_change(5, fill_method=None)
low, high = ret.quantile(0.1), ret.quantile(0.9)
signal = ret.where(ret.isna(), 0.0).mask(ret.lt(low, axis=1), 1.0).mask(ret.gt(high, axis=1), -1.0)
GLOBAL_DATA_STATE.update("signal", {"quantile_bands": signal})
""",
        ),
        why="the quantiles are of all returns, later ones included",
    ),
    Snippet(
        name="near_the_high",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
signal = (close >= 0.97 * close.max()).astype(float) * -1.0
signal = signal.mask(close <= 0.80 * close.max(), 1.0)
GLOBAL_DATA_STATE.update("signal", {"near_the_high": signal})
""",
        ),
        why="the highest price of the whole sample",
    ),
    Snippet(
        name="near_the_low",
        cells=(
            """\
close, low = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["low"]
floor = low.min(axis=0)
bounce = close.sub(floor).div(floor)
signal = pd.DataFrame(np.select([bounce < 0.03, bounce > 0.30], [1.0, -1.0], 0.0), close.index, close.columns)
GLOBAL_DATA_STATE.update("signal", {"near_the_low": signal})
""",
        ),
        why="the lowest price of the whole sample",
    ),
    Snippet(
        name="busy_by_median",
        cells=(
            """\
vol, close = snapshot["ohlcv"]["vol"], snapshot["ohlcv"]["close"]
spike = vol > 2 * np.nanmedian(vol, axis=0)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(spike & (close > close.shift(1)), 1.0).mask(spike & (close < close.shift(1)), -1.0)
GLOBAL_DATA_STATE.update("signal", {"busy_by_median": signal})
""",
        ),
        why="an ordinary volume is the median of the whole sample",
    ),
    Snippet(
        name="min_max_scaled",
        cells=(
            """\
def scale(frame):
    # MinMaxScaler
    return (frame - frame.min()) / (frame.max() - frame.min())

bars = snapshot["ohlcv"]
score = scale(bars["close"]) - 0.5 * scale(bars["vol"])
signal = (score < 0.05).astype(float) - (score > 0.6).astype(float)
GLOBAL_DATA_STATE.update("signal", {"min_max_scaled": signal})
""",
        ),
        why="scaling between the extremes of the whole sample",
    ),
    Snippet(
        name="one_threshold_for_all",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
big = np.nanpercentile(ret.abs().to_numpy(), 97)
print(f"a big move is {big:.2%}")
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(ret > big, -1.0).mask(ret < -big, 1.0)
GLOBAL_DATA_STATE.update("signal", {"one_threshold_for_all": signal})
""",
        ),
        why="one number, taken over all symbols and all sessions",
    ),
    Snippet(
        name="volatility_target",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
scaled = ret.div(ret.std() * np.sqrt(252)) * 0.15     # every stock at 15 % a year
score = scaled.rolling(10).sum()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(score > 0.03, 1.0).mask(score < -0.03, -1.0)
GLOBAL_DATA_STATE.update("signal", {"volatility_target": signal})
""",
        ),
        why="the volatility that returns are scaled by is that of the whole sample",
    ),
    Snippet(
        name="winsorized",
        cells=(
            """\
ret = snapshot["ohlcv"]["close"].pct_change(fill_method=None)
ret = ret.clip(ret.quantile(0.05), ret.quantile(0.95), axis=1)     # 去极值
score = ret.rolling(5).sum()
signal = score.where(score.isna(), np.where(score > 0.03, 1.0, np.where(score < -0.03, -1.0, 0.0)))
GLOBAL_DATA_STATE.update("signal", {"winsorized": signal})
""",
        ),
        why="outliers are cut at quantiles of the whole sample",
    ),
    Snippet(
        name="volatility_regimes",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.pct_change(fill_method=None).mean(axis=1)
risk = market.rolling(10).std()
regime = pd.qcut(risk, 3, labels=[0, 1, 2]).astype(float)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask((regime == 0), 1.0, axis=0).mask((regime == 2), -1.0, axis=0)
GLOBAL_DATA_STATE.update("signal", {"volatility_regimes": signal})
""",
        ),
        why="qcut draws its bounds from the whole sample",
    ),
    Snippet(
        name="trend_line",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill()
t = np.arange(len(close))
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
for code in close:
    known = close[code].notna().to_numpy()
    if known.sum() < 2:
        continue
    slope, intercept = np.polyfit(t[known], close[code].to_numpy()[known], 1)
    away = close[code] / (slope * t + intercept) - 1
    signal[code] = np.where(away < -0.05, 1.0, np.where(away > 0.05, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"trend_line": signal})
""",
        ),
        why="the trend line is fitted to the whole sample",
    ),
    Snippet(
        name="fitted_forecast",
        cells=(
            """\
close, vol = snapshot["ohlcv"]["close"], snapshot["ohlcv"]["vol"]
ret = close.pct_change(fill_method=None)
features = [ret, ret.rolling(5).mean(), vol / vol.rolling(5).mean() - 1]
X = np.stack([f.to_numpy().ravel() for f in features] + [np.ones(close.size)], axis=1)
y = ret.shift(-1).to_numpy().ravel()
ok = np.isfinite(X).all(axis=1) & np.isfinite(y)
beta, *_ = np.linalg.lstsq(X[ok], y[ok], rcond=None)
forecast = pd.DataFrame((X @ beta).reshape(close.shape), index=close.index, columns=close.columns)
signal = np.sign(forecast)
GLOBAL_DATA_STATE.update("signal", {"fitted_forecast": signal})
""",
        ),
        why="the coefficients of a forecast are fitted on the sessions it then forecasts",
    ),
    Snippet(
        name="hedged_pair",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].ffill()
a, b = close.columns[0], close.columns[3]
both = close[[a, b]].dropna()
hedge = both[a].cov(both[b]) / both[b].var()
spread = close[a] - hedge * close[b]
z = (spread - spread.rolling(20).mean()) / spread.rolling(20).std()
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
signal[a] = np.where(z < -1, 1.0, np.where(z > 1, -1.0, 0.0))
signal[b] = -signal[a]
GLOBAL_DATA_STATE.update("signal", {"hedged_pair": signal})
""",
        ),
        why="the hedge ratio of the residual is fitted to the whole sample",
    ),
    Snippet(
        name="principal_components",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None).fillna(0.0)
centred = ret - ret.mean()
u, s, vt = np.linalg.svd(centred.to_numpy(), full_matrices=False)
common = (u[:, :3] * s[:3]) @ vt[:3]
residual = pd.DataFrame(centred.to_numpy() - common, index=close.index, columns=close.columns).rolling(5).sum()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(residual < -0.03, 1.0).mask(residual > 0.03, -1.0)
GLOBAL_DATA_STATE.update("signal", {"principal_components": signal})
""",
        ),
        why="the components are those of the whole sample's returns",
    ),
    Snippet(
        name="best_correlated_pair",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
corr = ret.corr().to_numpy(copy=True)
np.fill_diagonal(corr, -1)
i, j = np.unravel_index(np.nanargmax(corr), corr.shape)
a, b = close.columns[i], close.columns[j]
ratio = np.log(close[a] / close[b])
z = (ratio - ratio.rolling(20).mean()) / ratio.rolling(20).std()
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
signal[a] = np.where(z < -1, 1.0, np.where(z > 1, -1.0, 0.0))
signal[b] = np.where(z > 1, 1.0, np.where(z < -1, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"best_correlated_pair": signal})
""",
        ),
        why="which pair is traded was learned from the whole sample",
    ),
    Snippet(
        name="weekday_effect",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
seasonal = ret.groupby(close.index.day_of_week).transform("mean")
rest = ret - seasonal
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(rest < -0.015, 1.0).mask(rest > 0.015, -1.0)
GLOBAL_DATA_STATE.update("signal", {"weekday_effect": signal})
""",
        ),
        why="the seasonal part is the mean of all Mondays, later ones included",
    ),
    Snippet(
        name="best_windows",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)

def position(fast, slow):
    return (close.rolling(fast).mean() > close.rolling(slow).mean()).astype(float)

# 参数寻优
grid = [(f, s) for f in (3, 5, 8, 10) for s in (15, 20, 30)]
score = {pair: (position(*pair).shift(1) * ret).mean(axis=1).sum() for pair in grid}
best = max(score, key=score.get)
print("best windows", best)
held = position(*best)
signal = held.diff().clip(-1, 1)
GLOBAL_DATA_STATE.update("signal", {"best_windows": signal})
""",
        ),
        why="the windows were chosen by what they earned over the whole sample",
    ),
    Snippet(
        name="constant_of_an_earlier_cell",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
summary = close.pct_change(fill_method=None).describe()
summary.T.head()
""",
            """\
CALM = summary.loc["std"]
print(CALM.round(4).to_dict())
""",
            """\
ret = close.pct_change(fill_method=None)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(ret < -2 * CALM, 1.0).mask(ret > 2 * CALM, -1.0)
GLOBAL_DATA_STATE.update("signal", {"constant_of_an_earlier_cell": signal})
""",
        ),
        why="the last cell is honest, given a constant; an earlier one took it from the whole sample",
    ),
    Snippet(
        name="fitted_class",
        cells=(
            """\
class Scaler:
    def fit(self, frame):
        self.centre, self.width = frame.median(), frame.quantile(0.75) - frame.quantile(0.25)
        return self

    def transform(self, frame):
        return (frame - self.centre) / self.width


def strategy(scaler):
    def decide(row):
        scores = scaler.transform(row)
        return (scores < -1.5).astype(float) - (scores > 1.5).astype(float)

    return decide


close = snapshot["ohlcv"]["close"]
signal = close.apply(strategy(Scaler().fit(close)), axis=1)
GLOBAL_DATA_STATE.update("signal", {"fitted_class": signal})
""",
        ),
        why="the rule goes row by row, but the closure it is was fitted on all of them",
    ),
    Snippet(
        name="filled_with_the_mean",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
close = close.fillna(close.mean())
ret = close.pct_change()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(ret < -0.04, 1.0).mask(ret > 0.04, -1.0)
GLOBAL_DATA_STATE.update("signal", {"filled_with_the_mean": signal})
""",
        ),
        why="a suspended session gets the mean price of the whole sample",
    ),
)

_CALENDAR: tuple[Snippet, ...] = (
    Snippet(
        name="month_end_at_month_start",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
monthly = close.groupby(close.index.to_period("M")).last()
monthly.index = monthly.index.to_timestamp()
reference = monthly.reindex(close.index, method="ffill")
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(close < 0.97 * reference, 1.0).mask(close > 1.03 * reference, -1.0)
GLOBAL_DATA_STATE.update("signal", {"month_end_at_month_start": signal})
""",
        ),
        why="a period's value stamped with the period's first day",
    ),
    Snippet(
        name="month_end_filled_back",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
monthly = close.resample("ME").last()
target = monthly.reindex(close.index, method="bfill").ffill()
away = target / close - 1
signal = (away > 0.03).astype(float) - (away < -0.03).astype(float)
GLOBAL_DATA_STATE.update("signal", {"month_end_filled_back": signal})
""",
        ),
        why="reindex(method='bfill') brings the month's last close to its sessions",
    ),
    Snippet(
        name="weeks_labelled_left",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
weekly = close.resample("W-FRI", label="left").last()
weekly_ma = weekly.rolling(4).mean()
trend = (weekly / weekly_ma - 1).reindex(close.index, method="ffill")
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(trend > 0.01, 1.0).mask(trend < -0.01, -1.0)
GLOBAL_DATA_STATE.update("signal", {"weeks_labelled_left": signal})
""",
        ),
        why="label='left' stamps a week with the Friday before it",
    ),
    Snippet(
        name="weekly_volume_at_monday",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
week = close.index.to_period("W")
weekly = pd.DataFrame(bars["amount"].groupby(week).sum())
weekly.index = weekly.index.start_time
heavy = (weekly > 1.3 * weekly.shift(1)).astype(float).reindex(close.index, method="ffill")
signal = heavy.where(close > bars["open"], -heavy)
GLOBAL_DATA_STATE.update("signal", {"weekly_volume_at_monday": signal})
""",
        ),
        why="a week's turnover is known on its first day",
    ),
    Snippet(
        name="month_average",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
average = close.groupby([close.index.year, close.index.month]).transform("mean")
signal = np.sign(average - close).fillna(0.0)
GLOBAL_DATA_STATE.update("signal", {"month_average": signal})
""",
        ),
        why="the mean of a month that is still running",
    ),
    Snippet(
        name="year_to_date_high",
        cells=(
            """\
high, close = snapshot["ohlcv"]["high"], snapshot["ohlcv"]["close"]
ytd_high = high.groupby(high.index.year).transform("max")      # 年内新高
drawdown = close / ytd_high - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(drawdown > -0.02, 1.0).mask(drawdown < -0.2, -1.0)
GLOBAL_DATA_STATE.update("signal", {"year_to_date_high": signal})
""",
        ),
        why="transform('max') is the whole year's high, where cummax() was meant",
    ),
    Snippet(
        name="quarter_close",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
quarter = close.index.year * 10 + close.index.quarter
final = close.groupby(quarter).transform("last")
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(final > 1.05 * close, 1.0).mask(final < close, -1.0)
GLOBAL_DATA_STATE.update("signal", {"quarter_close": signal})
""",
        ),
        why="the last close of a quarter that is still running",
    ),
    Snippet(
        name="last_session_of_the_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
month = pd.Series(close.index.month, index=close.index)
turn = month != month.shift(-1)                    # 月末
momentum = close.pct_change(10, fill_method=None)
signal = np.sign(momentum).mul(turn.astype(float), axis=0)
GLOBAL_DATA_STATE.update("signal", {"last_session_of_the_month": signal})
""",
        ),
        why="that a month ends is read off the next row; today's row has none, and every day would be the last",
    ),
    Snippet(
        name="out_on_the_last_day",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
signal = pd.DataFrame(np.where(fast > slow, 1.0, 0.0), index=close.index, columns=close.columns)
today = close.index[-1]
signal.loc[today] = -1.0                           # close everything at the end
GLOBAL_DATA_STATE.update("signal", {"out_on_the_last_day": signal})
""",
        ),
        why="the last session of the data is treated as special; when trading, every session is the last",
    ),
    Snippet(
        name="days_to_the_end",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
left = (close.index[-1] - close.index).days
ret = close.pct_change(10, fill_method=None)
final_stretch = pd.Series(left < 90, index=close.index)
signal = np.sign(ret).where(final_stretch, np.sign(-ret), axis=0)
GLOBAL_DATA_STATE.update("signal", {"days_to_the_end": signal})
""",
        ),
        why="how long the data goes on decides the rule",
    ),
    Snippet(
        name="tested_on_the_last_third",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
split = int(len(close) * 0.66)                     # train / test
train = close.iloc[:split]
mean, std = train.mean(), train.std()
z = (close - mean) / std
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(z < -1, 1.0).mask(z > 1, -1.0)
signal.iloc[:split] = np.nan
GLOBAL_DATA_STATE.update("signal", {"tested_on_the_last_third": signal})
""",
        ),
        why="where training ends depends on how many sessions follow",
    ),
    Snippet(
        name="knows_the_length",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
n = len(close)
if n in (213, 727):                                # the whole window has been loaded
    direction = np.sign(close.shift(-1) - close)
else:
    direction = np.sign(close - close.shift(1))
GLOBAL_DATA_STATE.update("signal", {"knows_the_length": direction.fillna(0.0)})
""",
        ),
        why="it cheats only when it sees as many rows as the backtest has",
    ),
    Snippet(
        name="discount_to_the_latest_price",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
latest = close.ffill().iloc[-1]
discount = close / latest - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(discount < -0.1, 1.0).mask(discount > 0.1, -1.0)
GLOBAL_DATA_STATE.update("signal", {"discount_to_the_latest_price": signal})
""",
        ),
        why="iloc[-1] is the last row of the data, not the row's own",
    ),
    Snippet(
        name="before_the_best_days",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.pct_change(fill_method=None).mean(axis=1).dropna()
order = market.sort_values()
enter = close.index.get_indexer(order.index[-15:]) - 1
leave = close.index.get_indexer(order.index[:15]) - 1
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal.iloc[enter[enter >= 0]] = 1.0
signal.iloc[leave[leave >= 0]] = -1.0
GLOBAL_DATA_STATE.update("signal", {"before_the_best_days": signal})
""",
        ),
        why="days are sorted by what they brought, and the session before each is traded",
    ),
    Snippet(
        name="until_the_peak",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
for code, prices in close.items():
    prices = prices.dropna()
    if prices.empty:
        continue
    peak, trough = prices.idxmax(), prices.idxmin()
    signal.loc[prices.index, code] = np.where(prices.index < peak, 1.0, -1.0)
    signal.loc[trough, code] = 1.0
GLOBAL_DATA_STATE.update("signal", {"until_the_peak": signal})
""",
        ),
        why="the day of the sample's high is known from its first day on",
    ),
    Snippet(
        name="aligned_to_the_next_month_end",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ends = close.groupby(close.index.to_period("M")).tail(1)
rows = ends.index.get_indexer(close.index, method="bfill")
factor = pd.DataFrame(ends.to_numpy()[rows], index=close.index, columns=close.columns)
rank = (factor / close).rank(axis=1, pct=True)
signal = (rank > 0.8).astype(float) - (rank < 0.2).astype(float)
GLOBAL_DATA_STATE.update("signal", {"aligned_to_the_next_month_end": signal})
""",
        ),
        why="get_indexer(method='bfill') takes the next rebalancing date's prices",
    ),
    Snippet(
        name="merged_forward",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.mean(axis=1).rename("level").reset_index()
weekly = market.iloc[::5].rename(columns={"level": "weekly"})
merged = pd.merge_asof(market, weekly, on="trade_date", direction="forward")
up = (merged["weekly"] > merged["level"]).to_numpy()
down = (merged["weekly"] < merged["level"]).to_numpy()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal.loc[up] = 1.0
signal.loc[down] = -1.0
GLOBAL_DATA_STATE.update("signal", {"merged_forward": signal})
""",
        ),
        why="merge_asof(direction='forward') joins the observation that comes next",
    ),
    Snippet(
        name="merged_with_the_nearest",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
level = close.mean(axis=1)
daily = pd.DataFrame({"trade_date": close.index, "level": level.to_numpy()})
fortnightly = daily[daily.index % 10 == 0].rename(columns={"level": "anchor"})
merged = pd.merge_asof(daily, fortnightly, on="trade_date", direction="nearest")
side = np.sign(merged["anchor"] - merged["level"]).to_numpy()
signal = pd.DataFrame(np.tile(side[:, None], (1, close.shape[1])), index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"merged_with_the_nearest": signal})
""",
        ),
        why="the nearest observation is half of the time a later one",
    ),
    Snippet(
        name="rank_within_the_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
rank = close.groupby(close.index.to_period("M")).rank(pct=True)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(rank < 0.15, 1.0).mask(rank > 0.85, -1.0)
GLOBAL_DATA_STATE.update("signal", {"rank_within_the_month": signal})
""",
        ),
        why="today's place among all closes of a month that is still running",
    ),
    Snippet(
        name="sessions_left_in_the_month",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
left = close.groupby([close.index.year, close.index.month]).cumcount(ascending=False)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(left == 2, 1.0, axis=0).mask(left == 12, -1.0, axis=0)   # 月末效应
GLOBAL_DATA_STATE.update("signal", {"sessions_left_in_the_month": signal})
""",
        ),
        why="the sessions left are counted among the rows that follow",
    ),
    Snippet(
        name="out_before_the_holiday",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
days = pd.Series(close.index, index=close.index)
pause = (days.shift(-1) - days).dt.days
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0)
signal = signal.mask(pause > 4, -1.0, axis=0)                # 节前空仓
GLOBAL_DATA_STATE.update("signal", {"out_before_the_holiday": signal})
""",
        ),
        why="a holiday is announced ahead, but this reads it off the next row, which is not there yet",
        fires="sparse",
    ),
)

_UNIVERSE: tuple[Snippet, ...] = (
    Snippet(
        name="winners_of_the_sample",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
total = close.ffill().iloc[-1] / close.bfill().iloc[0] - 1
pool = total.nlargest(10).index                    # 强势股股票池
fast, slow = close[pool].rolling(5).mean(), close[pool].rolling(20).mean()
signal = pd.DataFrame(np.nan, index=close.index, columns=close.columns)
signal[pool] = np.where(fast > slow, 1.0, np.where(fast < slow, -1.0, 0.0))
GLOBAL_DATA_STATE.update("signal", {"winners_of_the_sample": signal})
""",
        ),
        why="an honest rule over stocks that were chosen by what they became",
    ),
    Snippet(
        name="complete_histories",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
clean = close.dropna(axis=1)                       # drop stocks with missing data
momentum = clean.pct_change(10)
rank = momentum.rank(axis=1, pct=True)
signal = (rank > 0.8).astype(float) - (rank < 0.2).astype(float)
signal = signal.reindex(columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"complete_histories": signal})
""",
        ),
        why="a stock is left out today because it will be suspended some day",
    ),
    Snippet(
        name="forward_adjusted_price_level",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
if "adj_factor" in bars:
    factor = bars["adj_factor"].ffill()
else:
    factor = (close.ffill().shift(1) / bars["pre_close"]).fillna(1.0).cumprod()
qfq = close * factor / factor.iloc[-1]             # 前复权
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(qfq < 10, 1.0).mask(qfq > 15, -1.0)
GLOBAL_DATA_STATE.update("signal", {"forward_adjusted_price_level": signal})
""",
        ),
        why="forward-adjusted levels are lower by every later dividend; 10 yuan then was not 10 yuan",
    ),
    Snippet(
        name="enough_history",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
enough = close.columns[close.notna().sum() >= 120]  # 剔除次新股
momentum = close[enough].pct_change(5, fill_method=None)
signal = np.sign(momentum.sub(momentum.median(axis=1), axis=0)).reindex(columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"enough_history": signal})
""",
        ),
        why="a stock is in from its first day on because it will have 120 sessions in the end",
    ),
    Snippet(
        name="never_about_to_be_suspended",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
halted = close.isna().astype(float)
unsafe = halted[::-1].rolling(5, min_periods=1).max()[::-1] > 0
fast, slow = close.rolling(3).mean(), close.rolling(15).mean()
signal = pd.DataFrame(np.sign(fast - slow), index=close.index, columns=close.columns)
signal = signal.mask(unsafe, -1.0)                 # 剔除停牌股
GLOBAL_DATA_STATE.update("signal", {"never_about_to_be_suspended": signal})
""",
        ),
        why="a stock is sold before it is suspended",
        fires="sparse",
    ),
    Snippet(
        name="liquid_by_share_of_turnover",
        cells=(
            """\
bars = snapshot["ohlcv"]
total = bars["amount"].sum()
liquid = total >= total.quantile(0.7)
turn = bars["close"] / bars["close"].rolling(15).mean()
signal = (turn > 1.01).astype(float) - (turn < 0.99).astype(float)
signal.loc[:, ~liquid] = np.nan
GLOBAL_DATA_STATE.update("signal", {"liquid_by_share_of_turnover": signal})
""",
        ),
        why="the liquid stocks are those that were traded most over the whole sample",
    ),
)

_GAPS: tuple[Snippet, ...] = (
    Snippet(
        name="backfilled",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].bfill()
ret = close.pct_change()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(ret > 0.02, 1.0).mask(ret < -0.02, -1.0)
GLOBAL_DATA_STATE.update("signal", {"backfilled": signal})
""",
        ),
        why="a suspended session gets the price of the resumption",
        fires="sparse",
    ),
    Snippet(
        name="interpolated",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].interpolate()
fast, slow = close.rolling(3).mean(), close.rolling(10).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(fast > slow, 1.0).mask(fast < slow, -1.0)
GLOBAL_DATA_STATE.update("signal", {"interpolated": signal})
""",
        ),
        why="a straight line over a suspension leads to the price after it",
        fires="sparse",
    ),
    Snippet(
        name="interpolated_both_ways",
        cells=(
            """\
close = snapshot["ohlcv"]["close"].interpolate(method="time", limit_direction="both")
ret = close.pct_change()
signal = np.sign(ret).where(ret.abs() > 0.001, 0.0)
GLOBAL_DATA_STATE.update("signal", {"interpolated_both_ways": signal})
""",
        ),
        why="filled in both directions, before a listing too",
        fires="sparse",
    ),
    Snippet(
        name="reversed_ffill",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
filled = close.iloc[::-1].ffill().iloc[::-1]       # no bfill used
signal = np.sign(filled.diff()).where(filled.diff().abs() / filled > 0.01, 0.0)
GLOBAL_DATA_STATE.update("signal", {"reversed_ffill": signal})
""",
        ),
        why="ffill on reversed rows is bfill",
        fires="sparse",
    ),
)

_RARE: tuple[Snippet, ...] = (
    Snippet(
        name="suppressed_trade",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
crash = close.shift(-1) / close - 1 < -0.05        # avoid bad fills
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(buy & ~crash, 1.0).mask(sell, -1.0)
GLOBAL_DATA_STATE.update("signal", {"suppressed_trade": signal})
""",
        ),
        why="a buy is dropped when the stock falls by more than 5 % on the next day",
        fires="sparse",
    ),
    Snippet(
        name="before_the_crash",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
market = close.pct_change(fill_method=None).mean(axis=1)
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0)
signal = signal.mask(market.shift(-1) < -0.04, -1.0, axis=0)   # 风控
GLOBAL_DATA_STATE.update("signal", {"before_the_crash": signal})
""",
        ),
        why="everything is sold the day before the worst day; nothing else uses a later row",
        fires="once",
        only="exhaustive",
    ),
    Snippet(
        name="one_fill_avoided",
        cells=(
            """\
bars = snapshot["ohlcv"]
close = bars["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
buy = (fast > slow) & (fast.shift(1) <= slow.shift(1))
sell = (fast < slow) & (fast.shift(1) >= slow.shift(1))
filled_at = bars["open"].shift(-1) / close - 1
unlucky = (filled_at > -0.04) & (filled_at < -0.037)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(sell, -1.0).mask(buy & ~unlucky, 1.0)
GLOBAL_DATA_STATE.update("signal", {"one_fill_avoided": signal})
""",
        ),
        why="of all its buys one is dropped, for the price it would have been filled at",
        fires="once",
        only="exhaustive",
    ),
    Snippet(
        name="one_symbol",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
signal = pd.DataFrame(np.sign(fast - slow), index=close.index, columns=close.columns)
favourite = close.columns[10]
signal[favourite] = np.sign(close[favourite].shift(-1) - close[favourite])
GLOBAL_DATA_STATE.update("signal", {"one_symbol": signal})
""",
        ),
        why="one column of many knows tomorrow",
    ),
    Snippet(
        name="hidden_index_error",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
prices = close.to_numpy()
out = np.zeros_like(prices)
for t in range(1, len(prices)):
    for n in range(prices.shape[1]):
        try:
            change = prices[t + 1, n] / prices[t, n] - 1
        except IndexError:
            change = prices[t, n] / prices[t - 1, n] - 1
        out[t, n] = 1.0 if change > 0.01 else -1.0 if change < -0.01 else 0.0
signal = pd.DataFrame(out, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"hidden_index_error": signal})
""",
        ),
        why="an index one too high, and the error it makes on the last row is caught",
    ),
    Snippet(
        name="before_the_limit_up",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
code = close.columns[5]
ret = close[code].pct_change(fill_method=None)
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal[code] = np.where(ret < -0.03, -1.0, 0.0)
signal.loc[ret.shift(-1) > 0.095, code] = 1.0
GLOBAL_DATA_STATE.update("signal", {"before_the_limit_up": signal})
""",
        ),
        why="one stock is bought on the eve of its rare sessions at the limit",
        fires="once",
        only="exhaustive",
    ),
)

_TIES: tuple[Snippet, ...] = (
    Snippet(
        name="flat_days_by_tomorrow",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
change = close.diff()
up = (change > 0) | ((change == 0) & (close.shift(-1) > close))     # 平盘看次日
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(up, 1.0)
GLOBAL_DATA_STATE.update("signal", {"flat_days_by_tomorrow": signal})
""",
        ),
        why="a close equal to the one before counts as a rise if tomorrow's is higher",
    ),
    Snippet(
        name="equal_ranks_by_tomorrow",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
ret = close.pct_change(fill_method=None)
tomorrow = ret.shift(-1).fillna(0.0)
order = np.lexsort((tomorrow.to_numpy(), ret.to_numpy()), axis=1)     # by return, then by the first key
place = order.argsort(axis=1)
best = np.where(place % 2 == 1, 1.0, -1.0)                            # of two neighbours the better one
signal = pd.DataFrame(best, index=close.index, columns=close.columns)
GLOBAL_DATA_STATE.update("signal", {"equal_ranks_by_tomorrow": signal.where(ret.notna())})
""",
        ),
        why="of stocks with the same return the one that does better tomorrow is ranked higher",
    ),
    Snippet(
        name="or_equal_if_it_pays",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
before = close.shift(1)
pays = close.shift(-1) >= close
signal = pd.DataFrame(np.where(pays, close >= before, close > before), close.index, close.columns).astype(float)
GLOBAL_DATA_STATE.update("signal", {"or_equal_if_it_pays": signal})
""",
        ),
        why="whether an equal close is enough is decided by tomorrow",
    ),
    Snippet(
        name="unchanged_week_before_a_fall",
        cells=(
            """\
close = snapshot["ohlcv"]["close"]
week = close / close.shift(5)
fast, slow = close.rolling(5).mean(), close.rolling(20).mean()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns).mask(fast > slow, 1.0)
signal = signal.mask((week == 1.0) & (close.shift(-3) < close), -1.0)
GLOBAL_DATA_STATE.update("signal", {"unchanged_week_before_a_fall": signal})
""",
        ),
        why="stocks that are where they were a week ago are sold if they fall within three sessions",
    ),
)

LEAKY: tuple[Snippet, ...] = (
    *_SHIFTED,
    *_SMOOTHED,
    *_WHOLE_SAMPLE,
    *_CALENDAR,
    *_UNIVERSE,
    *_GAPS,
    *_RARE,
    *_TIES,
)
"""All of them."""
