"""A sentence about an average, and a model's code for it: of its period and of another one."""

CROSS = "收盘价上穿20日均线买入，下穿卖出"
_RULE = """\
close = snapshot["ohlcv"]["close"]
mean = close.rolling({period}).mean()
above = close > mean
before = above.shift(1, fill_value=False)
known = mean.shift(1).notna()
signal = pd.DataFrame(0.0, index=close.index, columns=close.columns)
signal = signal.mask(above & ~before & known, 1.0).mask(~above & before & known, -1.0)
GLOBAL_DATA_STATE.update("signal", {{"cross": signal}})
"""
RIGHT, WRONG = _RULE.format(period=20), _RULE.format(period=30)
