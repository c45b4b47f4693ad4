"""One share in the forms of many vendors: each is worth the same to who holds it, whatever its columns say.

The right values are reckoned here from the share's own prices and actions.
"""

from __future__ import annotations

import io
from dataclasses import dataclass

import numpy as np
import pandas as pd
import pytest

from quantgraph.audit.bars import unexplained_moves
from quantgraph.data import open_source
from quantgraph.errors import BadFile

SESSIONS = pd.bdate_range("2024-01-02", periods=60)
PRICES = ["Open", "High", "Low", "Close"]


@dataclass(frozen=True)
class Share:
    """Prices as traded, and cash and shares that each session brings to who held the share before it."""

    raw: pd.DataFrame
    cash: pd.Series
    split: pd.Series

    @property
    def later_splits(self) -> pd.Series:
        """Shares of the last session that one of each session became."""
        return self.split[::-1].cumprod()[::-1].shift(-1).fillna(1.0)

    @property
    def adjusted(self) -> pd.Series:
        """Closes adjusted for splits and dividends, as vendors do: a dividend is a part of the close before."""
        close = self.raw["Close"]
        kept = (1 - self.cash / close.shift()).fillna(1.0) / self.split
        return close * kept[::-1].cumprod()[::-1].shift(-1).fillna(1.0)

    def gain(self) -> float:
        """What holding from the second open to the last close gains, the dividends kept as cash."""
        return held(self.raw["Open"], self.raw["Close"], self.cash, self.split)


def held(opens: pd.Series, closes: pd.Series, cash: pd.Series, split: pd.Series) -> float:
    shares, purse = 1.0, 0.0
    for place in range(2, len(closes)):
        purse += shares * cash.iloc[place]
        shares *= split.iloc[place]
    return (shares * closes.iloc[-1] + purse) / opens.iloc[1] - 1


def share_of(actions: dict[int, tuple[float, float]], seed: int = 1) -> Share:
    random = np.random.default_rng(seed)
    close = 100 * np.exp(np.cumsum(random.normal(0, 0.01, len(SESSIONS))))
    raw = pd.DataFrame({"Open": close * 1.002, "High": close * 1.01, "Low": close * 0.99, "Close": close})
    raw = raw.set_index(SESSIONS).round(2)
    cash, split = pd.Series(0.0, SESSIONS), pd.Series(1.0, SESSIONS)
    for place, (dividend, ratio) in actions.items():
        raw.iloc[place:] = ((raw.iloc[place:] - dividend) / ratio).round(2)
        cash.iloc[place], split.iloc[place] = dividend, ratio
    raw["Volume"] = random.integers(100_000, 200_000, len(SESSIONS))
    return Share(raw, cash, split)


def alpha_vantage(share: Share) -> pd.DataFrame:
    return pd.DataFrame(
        {
            "timestamp": SESSIONS,
            **{name.lower(): share.raw[name].to_numpy() for name in PRICES},
            "adjusted_close": share.adjusted.round(4).to_numpy(),
            "volume": share.raw["Volume"].to_numpy(),
            "dividend_amount": share.cash.to_numpy(),
            "split_coefficient": share.split.to_numpy(),
        }
    )[::-1]


def tiingo(share: Share) -> pd.DataFrame:
    of_adjusted = {f"adj{name}": share.raw[name].to_numpy() for name in ("High", "Low", "Open", "Volume")}
    return pd.DataFrame(
        {
            "date": [f"{day:%Y-%m-%d}T00:00:00.000Z" for day in SESSIONS],
            **{name.lower(): share.raw[name].to_numpy() for name in (*PRICES, "Volume")},
            "adjClose": share.adjusted.to_numpy(),
            **of_adjusted,
            "divCash": share.cash.to_numpy(),
            "splitFactor": share.split.to_numpy(),
        }
    )


def yahoo(share: Share, *columns: str) -> pd.DataFrame:
    """Yahoo's prices are adjusted for splits; its dividends are for today's shares."""
    later = share.later_splits
    return pd.DataFrame(
        {
            "Date": SESSIONS,
            **{name: (share.raw[name] / later).round(6).to_numpy() for name in PRICES},
            "Adj Close": share.adjusted.round(6).to_numpy(),
            "Volume": share.raw["Volume"].to_numpy(),
            "Dividends": (share.cash / later).to_numpy(),
            "Stock Splits": share.split.where(share.split != 1, 0.0).to_numpy(),
        }
    ).drop(columns=[*columns])


def eodhd(share: Share) -> pd.DataFrame:
    table = share.raw.reset_index(names="Date")
    table.insert(5, "Adjusted_close", share.adjusted.round(4).to_numpy())
    return table


def own(share: Share) -> pd.DataFrame:
    named = share.raw.rename(columns=str.lower).reset_index(names="date")
    return named.assign(symbol="MSFT", dividend=share.cash.to_numpy(), split=share.split.to_numpy())


FORMS = {
    "Alpha Vantage": alpha_vantage,
    "Tiingo": tiingo,
    "Yahoo": yahoo,
    "Yahoo, a twin alone": lambda share: yahoo(share, "Dividends", "Stock Splits"),
    "Yahoo, adjusted by itself": lambda share: auto_adjusted(share),
    "EODHD": eodhd,
    "own columns": own,
}
ACTIONS = {
    "nothing": {},
    "a split up": {30: (0.0, 4.0)},
    "a split down": {30: (0.0, 0.2)},
    "three for two": {30: (0.0, 1.5)},
    "dividends": {20: (0.6, 1.0), 40: (0.7, 1.0)},
    "a special dividend": {30: (9.0, 1.0)},
    "a dividend before a split": {20: (0.8, 1.0), 30: (0.0, 2.0)},
    "a split before a dividend": {20: (0.0, 2.0), 30: (0.4, 1.0)},
    "splits both ways": {20: (0.0, 10.0), 40: (0.0, 0.5)},
}


def auto_adjusted(share: Share) -> pd.DataFrame:
    table = yahoo(share)
    factor = table["Adj Close"] / table["Close"]
    return table.assign(**{name: table[name] * factor for name in PRICES}).drop(columns="Adj Close")


def gain_of(file) -> float:
    bars = open_source(file).market.bars
    (symbol,) = bars["close"].columns

    def series(name: str, empty: float) -> pd.Series:
        frame = bars.get(name)
        return pd.Series(empty, SESSIONS) if frame is None else frame[symbol].fillna(empty)

    return held(bars["open"][symbol], bars["close"][symbol], series("dividend", 0.0), series("split", 1.0))


@pytest.mark.parametrize("actions", ACTIONS.values(), ids=ACTIONS)
@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_each_form_is_worth_what_the_share_is(form, actions, tmp_path):
    share = share_of(actions)
    form(share).to_csv(tmp_path / "MSFT.csv", index=False)
    # Adjusted prices put a dividend into shares at once; a factor has it to the digits that are written.
    assert gain_of(tmp_path / "MSFT.csv") == pytest.approx(share.gain(), abs=2e-3)


@pytest.mark.parametrize("seed", range(2, 14))
def test_raw_adjusted_and_twin_forms_agree(seed, tmp_path):
    random = np.random.default_rng(seed)
    places = sorted(random.choice(np.arange(5, 55), 3, replace=False).tolist())
    kinds = [(0.0, float(random.choice([0.25, 0.5, 2, 3, 5]))), (round(random.uniform(0.2, 0.6), 2), 1.0)]
    share = share_of({place: kinds[number % 2] for number, place in enumerate(places)}, seed)
    gains = []
    for name in ("Alpha Vantage", "EODHD", "Yahoo, a twin alone", "Yahoo, adjusted by itself"):
        FORMS[name](share).to_csv(tmp_path / "MSFT.csv", index=False)
        gains.append(gain_of(tmp_path / "MSFT.csv"))
    assert gains == pytest.approx([share.gain()] * 4, abs=5e-3)


MAINLAND = {
    "a bonus share": ({30: (0.0, 2.0)}, 2.0),
    "a dividend": ({30: (0.5, 1.0)}, 1.0),
    "nothing": ({}, 1.0),
}


@pytest.mark.parametrize("stated", ["涨跌额", "涨跌幅"])
@pytest.mark.parametrize("actions", [each for each, _ in MAINLAND.values()], ids=MAINLAND)
def test_a_change_states_the_previous_close(actions, stated, tmp_path):
    share = share_of(actions)
    before = ((share.raw["Close"].shift() - share.cash) / share.split).round(2)
    change = share.raw["Close"] - before
    column = change.round(2) if stated == "涨跌额" else (100 * change / before).round(2)
    names = {"Open": "开盘", "Close": "收盘", "High": "最高", "Low": "最低", "Volume": "成交量"}
    table = share.raw.rename(columns=names).reset_index(names="日期").assign(**{stated: column.to_numpy()})
    table["股票代码"] = "600000"
    table.to_csv(tmp_path / "a.csv", index=False)
    bars = open_source(tmp_path / "a.csv").market.bars
    assert "vol" not in bars
    read = bars["pre_close"]["600000.SH"]
    assert read.iloc[1:].to_numpy() == pytest.approx(before.iloc[1:].to_numpy(), abs=0.0051)


def test_a_split_in_the_prices_already_is_named(tmp_path):
    yahoo(share_of({30: (0.0, 4.0)})).to_csv(tmp_path / "MSFT.csv", index=False)
    (told, *_) = open_source(tmp_path / "MSFT.csv").provenance("en")
    assert "prices are adjusted already for 1 splits, left out" in told


@pytest.mark.parametrize(
    ("cells", "told"),
    [
        ({"split_coefficient": -1.0}, "split_coefficient: -1 is too small"),
        ({"dividend_amount": 900.0}, "dividend_amount: 900 is not below the close before"),
        ({"adjusted_close": -5.0}, "adjusted_close: -5 is too small"),
    ],
)
def test_actions_that_cannot_be_are_named(cells, told, tmp_path):
    table = alpha_vantage(share_of({}))
    for column, value in cells.items():
        table.loc[30, column] = value
    table.to_csv(tmp_path / "MSFT.csv", index=False)
    with pytest.raises(BadFile, match=f"MSFT.csv, row 30, column {told}"):
        open_source(tmp_path / "MSFT.csv").symbols()


@pytest.mark.parametrize("ratio", [0.0, 1.0, 1e9])
def test_a_split_that_the_prices_do_not_show_is_none(ratio, tmp_path):
    table = alpha_vantage(share_of({}))
    table.loc[30, "split_coefficient"] = ratio
    table.to_csv(tmp_path / "MSFT.csv", index=False)
    assert gain_of(tmp_path / "MSFT.csv") == pytest.approx(share_of({}).gain(), abs=1e-9)


DATES = {
    "ISO": lambda day: f"{day:%Y-%m-%d}",
    "with a fraction": lambda day: f"{day:%Y%m%d}.0",
    "seconds": lambda day: int(day.tz_localize("America/New_York").timestamp()) + 34_200,
    "milliseconds": lambda day: int(day.tz_localize("UTC").timestamp()) * 1000,
    "microseconds": lambda day: int(day.tz_localize("America/New_York").timestamp()) * 10**6,
    "nanoseconds": lambda day: int(day.tz_localize("Asia/Shanghai").timestamp()) * 10**9,
    "a close": lambda day: f"{day:%Y-%m-%d} 15:00",
    "24:00": lambda day: f"{day:%Y-%m-%d} 24:00:00",
    "midnight of New York": lambda day: f"{day.tz_localize('America/New_York').tz_convert('UTC')}",
}


@pytest.mark.parametrize("written", DATES.values(), ids=DATES)
@pytest.mark.parametrize("heading", ["time", "day", "trade_time", "date"])
def test_dates_are_read_by_their_content(written, heading, tmp_path):
    table = share_of({}).raw.reset_index(names=heading)
    table[heading] = [written(day) for day in SESSIONS]
    table.to_csv(tmp_path / "MSFT.csv", index=False)
    assert open_source(tmp_path / "MSFT.csv").sessions().equals(SESSIONS.as_unit("us"))


def test_rows_within_the_day_are_refused_with_the_line_that_makes_days_of_them(tmp_path):
    hours = pd.date_range("2024-01-02 10:00", periods=40, freq="h")
    share_of({}).raw.iloc[:40].set_axis(hours).to_csv(tmp_path / "MSFT.csv", index_label="date")
    with pytest.raises(BadFile, match=r"several: these are not daily bars; make them so: frame.resample"):
        open_source(tmp_path / "MSFT.csv").symbols()


@pytest.mark.parametrize(
    ("volume", "amount", "of_volume", "of_amount"),
    [
        ("成交量(万股)", "成交额(百万)", 1e4, 1e6),
        ("成交量(百万股)", "成交额(亿元)", 1e6, 1e8),
        ("成交量(千手)", "成交额(千元)", 1e5, 1e3),
        ("Volume (k shares)", "amount (m usd)", 1e3, 1e6),
        ("volume [mn shares]", "amount [bn]", 1e6, 1e9),
    ],
)
def test_units_in_brackets_are_a_scale_and_a_measure(volume, amount, of_volume, of_amount):
    raw = share_of({}).raw
    shares = raw["Volume"] * 100.0
    table = raw[PRICES].assign(**{volume: shares / of_volume, amount: shares * raw["Close"] / of_amount})
    bars = open_source({"600000.SH": table}).market.bars
    assert bars["vol"].iloc[:, 0].to_numpy() == pytest.approx((shares / 100).to_numpy())
    assert bars["amount"].iloc[:, 0].to_numpy() == pytest.approx((shares * raw["Close"] / 1000).to_numpy())


@pytest.mark.parametrize(
    "columns",
    [
        {"order_book_id": "600000.XSHG"},
        {"instrument": "SH600000"},
        {"code": "sh.600000"},
        {"secid": "1.600000"},
        {"symbol": "600000", "exchange": "SSE"},
        {"what_it_is": "600000.SH"},
    ],
)
def test_a_column_of_codes_is_the_symbol_before_the_name_of_the_file(columns, tmp_path):
    share_of({}).raw.assign(**columns).to_csv(tmp_path / "RQ.csv", index_label="date")
    assert open_source(tmp_path / "RQ.csv").symbols() == ("600000.SH",)


def test_an_unknown_column_is_named_and_a_harmless_one_is_not_unknown():
    raw = share_of({}).raw.assign(VWAP=1.0, trade_count=3, mood=2)
    (told,) = open_source({"MSFT": raw}).provenance("en")[:1]
    assert told.startswith("MSFT: unknown, so not used: mood; ")
    assert told.endswith("; not used: VWAP, trade_count")


def test_a_file_without_a_header_is_named_as_one(tmp_path):
    text = io.StringIO()
    share_of({}).raw.to_csv(text, header=False)
    (tmp_path / "MSFT.csv").write_text(text.getvalue())
    with pytest.raises(BadFile, match=r"its first row .* is of data: put one with the names"):
        open_source(tmp_path / "MSFT.csv").symbols()


@pytest.mark.parametrize("form", FORMS.values(), ids=FORMS)
def test_prices_in_another_unit_from_a_day_on_are_a_question_in_each_form(form, tmp_path):
    share = share_of({})
    later = share.raw.copy()
    later.loc[later.index[30:], PRICES] *= 100
    changed = Share(later, share.cash, share.split)
    path = tmp_path / "MSFT.csv"
    form(changed).to_csv(path, index=False)
    market = open_source(path).market
    (move,) = unexplained_moves(market.bars, symbols=["MSFT"], sessions=market.sessions)["MSFT"]
    assert (move["session"], move["split"]) == (f"{SESSIONS[30]:%Y-%m-%d}", pytest.approx(0.01))
    # As an action it is worth what the share is.
    split = share.split.copy()
    split.iloc[30] = move["split"]
    assert held(later["Open"], later["Close"], share.cash, split) == pytest.approx(share.gain(), abs=1e-3)
