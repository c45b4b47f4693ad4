"""The document's example as a whole execution: bars, MA30, RSI, a decision; with its numbers on daily bars."""

import numpy as np
import pytest
import talib
from execution_play import act, call, decide, execution_of, observations, run_execution

from quantgraph.agents.execution import execute_action, parse_action

SYMBOL = "600000.SH"
PRICE, MA30, RSI = 50_500, 50_200, 65
REASONS = (
    "需要获取BTCUSDT的1小时K线数据来分析价格趋势",
    "根据策略规则，需要计算30日移动平均线",
    "检查RSI指标，确认是否超买超卖",
    "价格突破MA30且RSI在正常区间，满足建仓条件",
)


def closes():
    """Thirty closes that end at 50,500, with a mean of 50,200 and an RSI(14) of 65, and an open after them.

    They are p + x, 27 times p, p - 100, 50,500. RSI is 100 g / (g + l) with g and l the averages of gains
    and losses: over the first 14 changes, then 13/14 of the last average and 1/14 of the change. With the last
    gain G, 28 changes lead to l = (13/14 · 100 + (13/14)^15 · x) / 14 and g = G / 14.
    """
    fade = 13 / 14
    # 35 G = 65 (fade · 100 + fade^15 · x);  x = 29 G - 28 · 100 - 9,000;  p = 50,500 - G + 100
    gain, shift = np.linalg.solve([[35, -65 * fade**15], [-29, 1]], [65 * fade * 100, -28 * 100 - 9_000])
    flat = PRICE - gain + 100
    return [flat + shift, *[flat] * 27, flat - 100, float(PRICE), float(PRICE)]


@pytest.fixture(scope="module")
def market(small_market):
    days = closes()
    assert np.mean(days[:30]) == pytest.approx(MA30)
    return small_market({SYMBOL: days})


@pytest.fixture(scope="module")
def done(market):
    binance = {"exchange": "Binance", "symbol": "BTCUSDT", "timeframe": "1h", "limit": 100}
    daily = {"exchange": "", "symbol": SYMBOL, "timeframe": "1d", "limit": 100}
    desk = execution_of(
        market,
        SYMBOL,
        act("tool_call", REASONS[0], tool_name="get_kline_data", params=binance),
        call("get_kline_data", **daily),
        act(
            "calculation",
            REASONS[1],
            {"ma30": MA30, "current_price": PRICE, "price_above_ma": True},
            calculation_type="MA",
            formula="MA30 = sum(close[-30:]) / 30",
            inputs={"period": 30, "data": "kline_data"},
        ),
        act(
            "calculation",
            REASONS[2],
            {"rsi": RSI, "is_oversold": False, "is_overbought": False},
            calculation_type="RSI",
            formula="RSI(14) = ...",
            inputs={"period": 14, "data": "kline_data"},
        ),
        act(
            "decision",
            REASONS[3],
            action="buy",
            reason="价格突破30日均线，趋势向上，RSI未超买",
            confidence=0.75,
        ),
        rule="价格突破30日均线且RSI未超买时买入",
    )
    return run_execution(desk)


def test_it_fetches_calculates_and_decides(done):
    history = done["execution_history"]
    assert [each["step"] for each in history] == [1, 2, 3, 4, 5]
    assert [each["type"] for each in history] == ["tool_call"] * 2 + ["calculation"] * 2 + ["decision"]
    assert [history[place]["reasoning"] for place in (0, 2, 3, 4)] == list(REASONS)
    assert done["decision"] == {
        "action": "buy",
        "reason": "价格突破30日均线，趋势向上，RSI未超买",
        "confidence": 0.75,
    }


def test_hourly_bars_of_a_crypto_exchange_are_refused_and_told(done):
    refused = done["execution_history"][0]
    assert list(refused["result"]) == ["error"]
    assert refused["result"]["error"].startswith("bad_option: ")
    assert observations(done)[0] == refused["result"]


def test_the_bars_end_before_the_open(done, market):
    bars = done["execution_history"][1]["result"]
    assert len(bars) == 30
    assert list(bars[-1]) == ["time", "date", "open", "high", "low", "close", "volume"]
    assert bars[-1]["close"] == PRICE
    assert bars[-1]["time"] == market.days[29].timestamp()  # of the session's date at 00:00 UTC


def test_ta_libs_numbers_stand_beside_the_calculations(done):
    average, strength = done["execution_history"][2:4]
    assert average["result"] == {"talib": {"ma(30)": pytest.approx(MA30, abs=1e-5)}}
    assert strength["result"] == {"talib": {"rsi(14)": pytest.approx(RSI, abs=1e-5)}}
    assert (average["intermediate_result"]["ma30"], strength["intermediate_result"]["rsi"]) == (MA30, RSI)
    assert observations(done)[2:] == [average["result"], strength["result"]]  # the model is told


def test_another_number_has_that_of_ta_lib_beside_it_and_is_no_error(market):
    wrong = act(
        "calculation",
        "by heart",
        {"ma30": 50_000},
        calculation_type="MA",
        formula="MA30 = sum(close[-30:]) / 30",
        inputs={"period": 30},
    )
    done = run_execution(execution_of(market, SYMBOL, wrong, decide()))
    assert done["execution_history"][0]["result"] == {"talib": {"ma(30)": pytest.approx(MA30, abs=1e-5)}}
    assert done["execution_history"][0]["intermediate_result"] == {"ma30": 50_000}
    assert done["reply_errors"] == {"replies": 2}


def test_the_inputs_are_the_bars_that_were_shown(market):
    """MA30 over the last twenty bars has no number."""
    sums = act("calculation", "mine", 1, calculation_type="MA30", formula="MA30", inputs={})
    bars = [call("get_kline_data", symbol=SYMBOL, timeframe="1d", limit=count) for count in (30, 20)]
    done = run_execution(execution_of(market, SYMBOL, bars[0], sums, bars[1], sums, decide()))
    first, second = done["execution_history"][1:4:2]
    assert first["result"] == {"talib": {"ma(30)": pytest.approx(MA30, abs=1e-5)}}
    assert "result" not in second


CLOSES = np.array([10 + day % 7 + day / 10 for day in range(60)])
TALIB = {  # over closes that are also highs and lows, without the close of the open's own session
    "MA20": {"ma": talib.SMA(CLOSES[:-1], 20)},
    "EMA20": {"ema": talib.EMA(CLOSES[:-1], 20)},
    "RSI": {"rsi": talib.RSI(CLOSES[:-1], 14)},
    "MACD": dict(zip(("dif", "dea", "hist"), talib.MACD(CLOSES[:-1], 12, 26, 9), strict=True)),
    "BOLL": dict(zip(("upper", "middle", "lower"), talib.BBANDS(CLOSES[:-1], 20, 2, 2), strict=True)),
    "KDJ": dict(zip("kd", talib.STOCH(CLOSES[:-1], CLOSES[:-1], CLOSES[:-1], 9, 3, 0, 3, 0), strict=True)),
    "ATR": {"atr": talib.ATR(CLOSES[:-1], CLOSES[:-1], CLOSES[:-1], 14)},
}


@pytest.mark.parametrize("name", TALIB)
def test_each_indicator_by_the_model_has_ta_libs_beside_it(small_market, name):
    market = small_market({SYMBOL: CLOSES})
    right = {key: float(values[-1]) for key, values in TALIB[name].items()}
    sums = act("calculation", "mine", {"value": 1}, calculation_type=name, formula=f"{name}(...)", inputs={})
    done = run_execution(execution_of(market, SYMBOL, sums, decide()))
    found = {
        key.partition("(")[0]: value for key, value in done["execution_history"][0]["result"]["talib"].items()
    }
    assert {key: found[key] for key in right} == pytest.approx(right, rel=1e-5)


def test_every_step_has_the_simulated_moment(done, market):
    opened = f"{market.days[-1]:%Y-%m-%d}T09:00:00"  # when the open is known
    assert {each["timestamp"][:19] for each in done["execution_history"]} == {opened}


def test_an_action_is_carried_out_by_hand_and_the_execution_stays_where_it_is(market):
    context = execution_of(market, SYMBOL, decide())
    action = parse_action(call("get_kline_data", symbol=SYMBOL, limit=1), step=1)
    assert [each["close"] for each in execute_action(action, context)] == [PRICE]
    unknown = execute_action(parse_action(call("get_moon"), step=1), context)
    assert "there is no tool 'get_moon'" in unknown["error"]
    assert "place_order" not in unknown["error"]
    assert execute_action(parse_action(decide("buy"), step=1), context) is None
    assert context.state == {}
