"""Files of daily bars as people have them, and a plain reading of each by pandas alone."""

from __future__ import annotations

import gzip
import io
import zipfile
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pandas as pd

US = """\
Date,Open,High,Low,Close,Volume
2024-01-02,373.86,375.9,366.77,370.87,25258600
2024-01-03,369.01,373.26,368.51,370.6,23083500
2024-01-04,370.67,373.1,367.17,367.94,20901500
2024-01-05,368.97,372.06,366.5,367.75,20987000
2024-01-08,369.3,375.2,369.01,374.69,23134000
2024-01-09,372.01,375.99,371.19,375.79,20830000
"""
"""Six days of a US stock."""

CN = """\
日期,开盘,收盘,最高,最低,成交量,成交额
2024-01-02,1715.0,1685.01,1718.19,1678.1,3215644,5440082500
2024-01-03,1681.11,1694.0,1695.22,1676.33,2022929,3411400700
2024-01-04,1693.0,1669.0,1693.0,1662.93,2155107,3603970100
2024-01-05,1667.33,1663.36,1678.66,1652.11,2024286,3373155600
2024-01-08,1661.33,1643.99,1667.0,1640.01,2558620,4225234900
2024-01-09,1642.0,1641.15,1652.9,1634.98,1861532,3058913900
"""
"""Six days of a stock of Shanghai: volumes in shares, amounts in yuan."""

ZH = {"日期": "date", "开盘": "open", "收盘": "close", "最高": "high", "最低": "low", "成交量": "volume"}
EN = {"Date": "date", "Open": "open", "High": "high", "Low": "low", "Close": "close", "Volume": "volume"}


def table(text: str) -> pd.DataFrame:
    """The rows of a text, all of them as texts."""
    return pd.read_csv(io.StringIO(text), dtype="str", keep_default_na=False)


def csv_of(frame: pd.DataFrame, **options: Any) -> str:
    return frame.to_csv(index=False, lineterminator="\n", **options)


def bars_of(
    frame: pd.DataFrame, symbol: str = "", names: Mapping[str, str] = EN, **more: Any
) -> pd.DataFrame:
    """Plain columns ``date, symbol, open, high, low, close, volume`` of what pandas has read."""
    rows = frame.rename(columns=dict(names)).assign(**more)
    rows["date"] = pd.to_datetime(rows["date"])
    return rows if "symbol" in rows and not symbol else rows.assign(symbol=symbol)


def plain(symbol: str = "", names: Mapping[str, str] = EN, **options: Any) -> Callable[[Path], pd.DataFrame]:
    """Reading a CSV by pandas, with what this very file needs."""
    return lambda path: bars_of(pd.read_csv(path, **options), symbol, names)


@dataclass(frozen=True, kw_only=True)
class OwnFile:
    """A file or folder: its name, how it is written, and how pandas reads it when told what it is."""

    name: str
    write: Callable[[Path], object]
    read: Callable[[Path], pd.DataFrame]
    symbol: str | None = None
    """What ``--symbols`` says of a file that names no symbol."""
    options: Mapping[str, str] = field(default_factory=dict)
    """Answers to what the file leaves open."""
    asked: str = ""
    """The option that it is refused without."""
    says: str = ""
    """What its provenance says, in English."""


def text_file(name: str, text: str, read: Callable[[Path], pd.DataFrame], **more: Any) -> OwnFile:
    encoding = more.pop("encoding", "utf-8")
    return OwnFile(name=name, write=lambda path: path.write_bytes(text.encode(encoding)), read=read, **more)


def _of_yfinance() -> list[OwnFile]:
    history = table(US).assign(**{"Dividends": "0.0", "Stock Splits": "0.0"})
    history["Date"] += " 00:00:00-05:00"
    adjusted = table(US)
    adjusted.insert(5, "Adj Close", ["369.12", "368.85", "366.2", "366.01", "372.92", "374.02"])
    fields = ["Close", "High", "Low", "Open", "Volume"]
    rows = table(US)
    two = (
        "Price," + ",".join(f"{name},{name}" for name in fields) + "\n"
        "Ticker," + ",".join(["AAPL,MSFT"] * 5) + "\nDate,,,,,,,,,,\n"
    )
    one = "Price," + ",".join(fields) + "\nTicker,MSFT,MSFT,MSFT,MSFT,MSFT\nDate,,,,,\n"
    grouped = "Ticker," + ",".join(["MSFT"] * 5) + "\nPrice," + ",".join(fields) + "\nDate,,,,,\n"
    for _, row in rows.iterrows():
        two += row["Date"] + "".join(f",{row[name]},{row[name]}" for name in fields) + "\n"
        one += row["Date"] + "".join(f",{row[name]}" for name in fields) + "\n"
        grouped += row["Date"] + "".join(f",{row[name]}" for name in fields) + "\n"

    def levels(path: Path, level: str = "Ticker") -> pd.DataFrame:
        wide = pd.read_csv(path, header=[0, 1], index_col=0, skiprows=[2])
        if wide.columns.names[0] == "Ticker":
            wide = wide.swaplevel(axis=1)
        long = pd.concat(
            {each: wide.xs(each, axis=1, level=1) for each in set(wide.columns.get_level_values(1))}
        )
        long.index.names = ["symbol", "Date"]
        return bars_of(long.reset_index())

    def no_zone(path: Path) -> pd.DataFrame:
        frame = pd.read_csv(path)
        return bars_of(frame.assign(Date=frame["Date"].str[:10]), "MSFT")

    return [
        text_file("MSFT_history.csv", csv_of(history), no_zone, says="adjusted"),
        text_file("aapl.csv", US, plain("AAPL")),
        text_file("aapl.us.csv", US, plain("AAPL")),
        text_file("yf_MSFT.csv", csv_of(rows[["Date", *fields]]), plain("MSFT"), says="adjusted by Yahoo"),
        text_file("AAPL_adj.csv", US, plain("AAPL"), says="adjusted"),
        text_file("MSFT (1).csv", csv_of(adjusted), plain("MSFT"), says="Adj Close"),
        text_file("data.csv", US, plain("MSFT"), symbol="MSFT"),
        text_file("yf_two.csv", two, levels, says="adjusted by Yahoo"),
        text_file("yf_one.csv", one, levels),
        text_file("yf_grouped.csv", grouped, levels),
        text_file("GOOG.csv", US.replace("Date", ""), plain("GOOG", {"Unnamed: 0": "date", **EN})),
        text_file("0700.HK.csv", US, plain("0700.HK")),
        text_file("BTC-USD.csv", US, plain("BTC-USD")),
    ]


def _of_china() -> list[OwnFile]:
    sina = (
        table(CN)
        .rename(columns={**ZH, "成交额": "amount"})
        .assign(outstanding_share="1256197800.0", turnover="0.0026")
    )
    eastmoney = table(CN).assign(振幅="2.3", 涨跌幅="-2.37", 涨跌额="-40.99", 换手率="0.26")
    eastmoney["成交量"] = [str(round(int(each) / 100)) for each in eastmoney["成交量"]]
    eastmoney.insert(1, "股票代码", "600519")
    netease = table(CN).assign(名称="贵州茅台", 股票代码="'600519", 前收盘="1726.0", 涨跌幅="-2.3748")
    netease = netease.rename(
        columns={"收盘": "收盘价", "开盘": "开盘价", "最高": "最高价", "最低": "最低价", "成交额": "成交金额"}
    )
    netease = netease[
        [
            "日期",
            "股票代码",
            "名称",
            "收盘价",
            "最高价",
            "最低价",
            "开盘价",
            "前收盘",
            "涨跌幅",
            "成交量",
            "成交金额",
        ]
    ]
    of_netease = {"收盘价": "close", "最高价": "high", "最低价": "low", "开盘价": "open", **ZH}
    ths = table(CN).rename(columns={"日期": "时间", "成交量": "总手", "成交额": "金额"})
    ths["时间"] += [",二", ",三", ",四", ",五", ",一", ",二"]
    ths["总手"] = [f"{round(int(each) / 100):,}" for each in ths["总手"]]
    ths["金额"] = [f"{int(each):,}" for each in ths["金额"]]
    ths.insert(5, "涨幅", "-2.37%")
    ths = ths.assign(**{"换手%": "0.256"})
    tdx = table(CN)[["日期", "开盘", "最高", "最低", "收盘", "成交量", "成交额"]]
    tdx["日期"] = tdx["日期"].str.replace("-", "/")
    padded = "\n".join("\t".join(cells) for cells in tdx.to_numpy())
    heading = "      日期\t    开盘\t    最高\t    最低\t    收盘\t    成交量\t    成交额\n"
    ending = "\n数据来源:通达信\n"
    raw, forward = (
        f"600519 贵州茅台 日线 {kind}\n{heading}{padded}{ending}" for kind in ("不复权", "前复权")
    )
    choice = table(CN).rename(
        columns={
            "日期": "交易时间",
            "开盘": "开盘价",
            "收盘": "收盘价",
            "最高": "最高价",
            "最低": "最低价",
            "成交额": "成交金额",
        }
    )
    choice.insert(0, "证券代码", "600519.SH")
    choice.insert(1, "证券名称", "贵州茅台")
    choice = csv_of(choice) + "\n数据来源：东方财富Choice数据\n"
    baostock = table(CN).rename(columns={**ZH, "成交额": "amount"})
    baostock.insert(1, "code", "sh.600519")
    baostock = baostock.assign(preclose="1726.0", adjustflag="3", turn="0.256", tradestatus="1", isST="0")
    tushare = table(CN).rename(columns={**ZH, "日期": "trade_date", "成交量": "vol", "成交额": "amount"})
    tushare = tushare.assign(
        trade_date=tushare["trade_date"].str.replace("-", ""),
        vol=[str(int(each) / 100) for each in tushare["vol"]],
        amount=[str(int(each) / 1000) for each in tushare["amount"]],
        ts_code="600519.SH",
        pct_chg="-2.37",
    ).iloc[::-1]
    early = pd.DataFrame(table(CN)).iloc[:2].assign(日期=["2004-01-05", "2004-01-06"])
    early[["开盘", "收盘", "最高", "最低"]] = [
        ["-81.2", "-80.9", "-80.1", "-81.9"],
        ["-80.9", "-80.2", "-79.9", "-81.3"],
    ]
    negative = csv_of(pd.concat([early, table(CN)]))

    def hands(symbol: str, names: Mapping[str, str], **options: Any) -> Callable[[Path], pd.DataFrame]:
        def read(path: Path) -> pd.DataFrame:
            rows = bars_of(pd.read_csv(path, **options), symbol, names)
            return rows.assign(volume=rows["volume"] * 100)

        return read

    def of_ths(path: Path) -> pd.DataFrame:
        rows = pd.read_csv(path, encoding="gbk", sep="\t", thousands=",")
        rows["时间"] = rows["时间"].str[:10]
        rows = bars_of(rows, "600519.SH", {**ZH, "时间": "date", "总手": "volume"})
        return rows.assign(volume=rows["volume"] * 100)

    def of_tdx(path: Path) -> pd.DataFrame:
        rows = pd.read_csv(path, encoding="gb18030", sep="\t", skiprows=2, names=[*tdx.columns], nrows=6)
        return bars_of(rows, "600519.SH", ZH)

    suspended = pd.concat(
        [
            netease,
            netease.iloc[-1:].assign(
                日期="2024-01-10", 开盘价="0.0", 最高价="0.0", 最低价="0.0", 成交量="0", 成交金额="0"
            ),
        ]
    )
    return [
        text_file(
            "163_600519.csv",
            csv_of(suspended),
            plain("600519.SH", of_netease, encoding="gbk", nrows=6),
            encoding="gbk",
            says="whose prices are 0: 1",
        ),
        text_file("sh600519.csv", csv_of(sina), plain("600519.SH", {})),
        text_file(
            "600519_daily.csv",
            csv_of(sina.drop(columns=["outstanding_share", "turnover"])),
            plain("600519.SH", {}),
        ),
        text_file(
            "600519.csv",
            csv_of(netease),
            plain("600519.SH", of_netease, encoding="gbk"),
            encoding="gbk",
            says="GB18030",
        ),
        text_file("股票_600519.csv", csv_of(eastmoney), hands("600519.SH", ZH)),
        text_file("Table.xls", csv_of(ths, sep="\t"), of_ths, encoding="gbk", symbol="600519.SH"),
        text_file("SH#600519.txt", raw, of_tdx, encoding="gb18030", says="last row"),
        text_file("SH#600519_2.txt", forward, of_tdx, encoding="gb18030", says="前复权"),
        text_file(
            "茅台.csv",
            choice,
            plain("600519.SH", of_netease | {"交易时间": "date"}, encoding="gb18030", nrows=6),
            encoding="gb18030",
        ),
        text_file("bao.csv", csv_of(baostock), plain("600519.SH", {})),
        text_file(
            "bao_qfq.csv", csv_of(baostock.assign(adjustflag="2")), plain("600519.SH", {}), says="adjusted"
        ),
        text_file(
            "tushare.csv",
            tushare.to_csv(),
            hands("600519.SH", {"trade_date": "date", "vol": "volume"}, dtype={"trade_date": "str"}),
        ),
        text_file(
            "600519_qfq.csv",
            negative,
            plain("600519.SH", ZH, skiprows=[1, 2]),
            asked="adjusted",
            options={"adjusted": "keep"},
            says="not above 0: 2",
        ),
    ]


def _of_spreadsheets() -> list[OwnFile]:
    rows = table(US)
    thousands = rows.assign(Volume=[f"{int(each):,}" for each in rows["Volume"]])
    dollars = rows.rename(columns={"Close": "Close/Last"}).iloc[::-1]
    for name in ("Open", "High", "Low", "Close/Last"):
        dollars[name] = "$" + dollars[name]
    dollars["Date"] = [f"{each[5:7]}/{each[8:]}/{each[:4]}" for each in dollars["Date"]]
    investing = rows.rename(columns={"Close": "Price", "Volume": "Vol."})
    investing["Vol."] = [f"{int(each) / 1e6:.2f}M" for each in investing["Vol."]]
    investing = investing.assign(**{"Change %": "-0.51%"})
    comma = rows.assign(
        **{name: rows[name].str.replace(".", ",") for name in ("Open", "High", "Low", "Close")}
    )
    comma["Date"] = [f"{each[8:]}.{each[5:7]}.{each[:4]}" for each in comma["Date"]]
    comma.loc[6] = ["15.01.2024", "372,01", "375,99", "371,19", "375,79", "20830000"]
    doubtful = rows.copy()
    for name in ("Open", "High", "Low", "Close"):
        doubtful[name] = doubtful[name].str.split(".").str[0] + ",125"
    serial = rows.assign(Date=["45293", "45294", "45295", "45296", "45299", "45300"])
    turnover = table(CN).assign(换手率="0.26%")

    def of_investing(path: Path) -> pd.DataFrame:
        read = pd.read_csv(path)
        read["Vol."] = (read["Vol."].str[:-1].astype(float) * 1e6).round(2)
        return bars_of(read, "AAPL", {**EN, "Price": "close", "Vol.": "volume"})

    def of_nasdaq(path: Path) -> pd.DataFrame:
        read = pd.read_csv(
            path, converters=dict.fromkeys(["Close/Last", "Open", "High", "Low"], lambda x: float(x[1:]))
        )
        read["Date"] = pd.to_datetime(read["Date"], format="%m/%d/%Y")
        return bars_of(read, "AAPL", {**EN, "Close/Last": "close"})

    def german(path: Path) -> pd.DataFrame:
        read = pd.read_csv(path, sep=";", decimal=",")
        return bars_of(read.assign(Date=pd.to_datetime(read["Date"], format="%d.%m.%Y")), "SAP")

    def serials(path: Path) -> pd.DataFrame:
        read = pd.read_csv(path)
        return bars_of(read.assign(Date=pd.to_datetime(read["Date"], unit="D", origin="1899-12-30")), "MSFT")

    def both_sheets(path: Path) -> pd.DataFrame:
        sheets = pd.read_excel(path, sheet_name=None)
        return pd.concat(bars_of(sheet, name) for name, sheet in sheets.items())

    typed = pd.read_csv(io.StringIO(US), parse_dates=["Date"])
    chinese = pd.read_csv(io.StringIO(CN))

    def two_sheets(path: Path) -> None:
        with pd.ExcelWriter(path) as book:
            typed.to_excel(book, sheet_name="AAPL", index=False)
            typed.iloc[:4].to_excel(book, sheet_name="MSFT", index=False)

    zh_sheet = lambda path: bars_of(pd.read_excel(path), "600519.SH", ZH)  # noqa: E731
    return [
        text_file(
            "thousands_MSFT.csv",
            csv_of(thousands),
            plain("MSFT", thousands=","),
            says="separators of thousands",
        ),
        text_file(
            "HistoricalData_AAPL.csv",
            csv_of(dollars),
            of_nasdaq,
            asked="date_order",
            options={"date_order": "month_first"},
            says="month first",
        ),
        text_file("AAPL Historical Data.csv", csv_of(investing), of_investing),
        text_file("SAP.csv", csv_of(comma, sep=";"), german, says="decimal comma"),
        text_file(
            "VOW_comma.csv",
            csv_of(doubtful, sep=";"),
            plain("VOW", sep=";", decimal=","),
            asked="decimal",
            options={"decimal": "comma"},
        ),
        text_file("MSFT_serial.csv", csv_of(serial), serials, says="day numbers"),
        text_file("600519_turnover.csv", csv_of(turnover), plain("600519.SH", ZH)),
        OwnFile(
            name="MSFT.xlsx",
            write=lambda path: typed.to_excel(path, index=False),
            read=lambda path: bars_of(pd.read_excel(path), "MSFT"),
        ),
        OwnFile(name="600519.xlsx", write=lambda path: chinese.to_excel(path), read=zh_sheet),
        OwnFile(name="book.xlsx", write=two_sheets, read=both_sheets),
        text_file(
            "unicode_MSFT.txt",
            csv_of(rows, sep="\t"),
            plain("MSFT", sep="\t", encoding="utf-16"),
            encoding="utf-16",
            says="UTF-16",
        ),
        text_file("MSFT_bom.csv", US, plain("MSFT"), encoding="utf-8-sig"),
        text_file("MSFT_semicolons.csv", US.replace(",", ";"), plain("MSFT", sep=";")),
        text_file("MSFT.tsv", US.replace(",", "\t"), plain("MSFT", sep="\t")),
    ]


def _of_programs() -> list[OwnFile]:
    rows = table(US)
    closes = pd.DataFrame({"AAPL": rows["Close"], "MSFT": rows["Open"]}).set_axis(rows["Date"].rename("Date"))
    chinese = pd.DataFrame({"600519.SH": rows["Close"], "000001.SZ": rows["Open"]}).set_axis(
        rows["Date"].rename("日期")
    )
    long = pd.concat([rows[["Date", "Close"]].assign(symbol=name) for name in ("AAPL", "MSFT")])
    stooq = rows.rename(
        columns={
            "Date": "<DATE>",
            "Open": "<OPEN>",
            "High": "<HIGH>",
            "Low": "<LOW>",
            "Close": "<CLOSE>",
            "Volume": "<VOL>",
        }
    )
    stooq["<DATE>"] = stooq["<DATE>"].str.replace("-", "")
    stooq = stooq.assign(**{"<TICKER>": "AAPL.US", "<PER>": "D", "<TIME>": "000000", "<OPENINT>": "0"})
    of_stooq = {f"<{name.upper()}>": name for name in ("date", "open", "high", "low", "close")} | {
        "<VOL>": "volume"
    }
    zoned = rows.assign(Date=rows["Date"] + "T00:00:00+08:00")
    integers = rows.assign(Date=rows["Date"].str.replace("-", ""))
    vantage = rows.rename(columns={"Date": "timestamp"}).rename(columns=str.lower).iloc[::-1]

    def wide(path: Path, key: str = "Date", read: Callable[..., pd.DataFrame] = pd.read_csv) -> pd.DataFrame:
        return bars_of(read(path).melt(key, var_name="symbol", value_name="close"), names={key: "date"})

    def from_zone(path: Path) -> pd.DataFrame:
        read = pd.read_csv(path)
        return bars_of(read.assign(Date=read["Date"].str[:10]), "MSFT")

    def folder(path: Path) -> None:
        path.mkdir()
        (path / "AAPL.csv").write_text(US)
        (path / "MSFT_daily.csv").write_text(US)
        (path / "README.txt").write_text("Where these files come from.\n")
        (path / "portfolio.csv").write_text("account,owner\n1,me\n")
        (path / "intraday.csv").write_text("Date,Price\n2024-01-02 09:31,12\n")
        (path / "notes.docx").write_bytes(b"PK\x03\x04 not a table")
        (path / "chart.png").write_bytes(b"\x89PNG\r\n\x1a\n")
        (path / "empty.csv").write_bytes(b"")
        (path / ".DS_Store").write_bytes(b"\0\0\0\1Bud1")

    def of_folder(path: Path) -> pd.DataFrame:
        return pd.concat([plain("AAPL")(path / "AAPL.csv"), plain("MSFT")(path / "MSFT_daily.csv")])

    def zipped(path: Path) -> None:
        with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as file:
            file.writestr("MSFT.csv", US)
            file.writestr("__MACOSX/._MSFT.csv", b"\0\5\x16\7")

    def parquet(path: Path) -> None:
        closes.astype(float).set_axis(pd.to_datetime(closes.index)).to_parquet(path)

    return [
        text_file("closes.csv", closes.to_csv(), wide, says="closes"),
        text_file("收盘价.csv", chinese.to_csv(), lambda path: wide(path, "日期")),
        OwnFile(
            name="closes.parquet",
            write=parquet,
            read=lambda path: wide(path, read=lambda each: pd.read_parquet(each).reset_index()),
        ),
        text_file("long_closes.csv", csv_of(long), plain(names=EN)),
        text_file("AAPL_close.csv", csv_of(rows[["Date", "Close"]]), plain("AAPL")),
        text_file("aapl_us_d.csv", csv_of(stooq), plain("AAPL", of_stooq, dtype={"<DATE>": "str"})),
        text_file("MSFT_zone.csv", csv_of(zoned), from_zone),
        text_file("MSFT_integers.csv", csv_of(integers), plain("MSFT", dtype={"Date": "str"})),
        text_file("daily_MSFT.csv", csv_of(vantage), plain("MSFT", {"timestamp": "date"})),
        text_file("MSFT_down.csv", csv_of(rows.iloc[::-1]), plain("MSFT")),
        text_file(
            "MSFT_twice.csv",
            csv_of(pd.concat([rows, rows.iloc[2:4]])),
            lambda path: plain("MSFT")(path).drop_duplicates(),
            says="repeated rows left out: 2",
        ),
        OwnFile(
            name="MSFT.csv.gz",
            write=lambda path: path.write_bytes(gzip.compress(US.encode())),
            read=plain("MSFT"),
        ),
        OwnFile(
            name="MSFT.zip",
            write=zipped,
            read=lambda path: bars_of(pd.read_csv(zipfile.ZipFile(path).open("MSFT.csv")), "MSFT"),
        ),
        text_file("MSFT.CSV", US, plain("MSFT")),
        OwnFile(name="downloads", write=folder, read=of_folder, says="portfolio.csv"),
    ]


OWN_FILES = [*_of_yfinance(), *_of_china(), *_of_spreadsheets(), *_of_programs()]
"""By where they come from."""
