from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from quantgraph.data import open_source
from quantgraph.data.symbols import resolve_symbols
from quantgraph.data.symbols._resolution import names_in
from quantgraph.errors import BadOption, UnknownSymbol

ON = pd.Timestamp("2024-01-03")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    bars = ["ts_code,trade_date,open,high,low,close,vol"]
    bars += [f"{code},20240102,1,1,1,1,1" for code in ("600519.SH", "000001.SZ", "300750.SZ", "000016.SZ")]
    (tmp_path / "bars.csv").write_text("\n".join(bars))
    members = ["index_code,con_code,trade_date,weight,stock_name"]
    members += ["000016.SH,600519.SH,20240930,9.8,贵州茅台", "000016.SH,600000.SH,20240930,1,浦发银行"]
    (tmp_path / "weights.csv").write_text("\n".join(members), "utf-8")
    return tmp_path


@pytest.mark.parametrize(
    ("token", "symbol"),
    [
        ("600519.SH", "600519.SH"),
        (" 600519.sh ", "600519.SH"),
        ("sh600519", "600519.SH"),
        ("600519.SS", "600519.SH"),
        ("600519.XSHG", "600519.SH"),
        ("600519", "600519.SH"),
        ("000001", "000001.SZ"),
        ("300750", "300750.SZ"),
        ("贵州茅台", "600519.SH"),
    ],
)
def test_every_way_of_writing_a_stock_resolves(folder: Path, token: str, symbol: str) -> None:
    resolved = resolve_symbols(open_source(folder), [token], ON)
    assert (resolved.symbols, resolved.index_code, resolved.notes) == ((symbol,), None, ())


@pytest.mark.parametrize("token", ["上证50", "SSE 50", "sse50", "000016.SH"])
def test_an_index_resolves_to_its_members_in_the_source_with_a_note_on_a_later_list(
    folder: Path, token: str
) -> None:
    resolved = resolve_symbols(open_source(folder), [token], ON)
    assert resolved.symbols == ("600519.SH",)
    assert resolved.index_code == "000016.SH"
    ignored_message_ids, bias = (str(note) for note in resolved.notes)
    assert "1 of 2 members" in ignored_message_ids
    assert "600000.SH" in ignored_message_ids
    assert "2024-09-30" in bias
    assert "survivorship bias" in bias


def test_tokens_together_are_ascending_and_unique(folder: Path) -> None:
    source = open_source(folder)
    resolved = resolve_symbols(source, ["贵州茅台", "600519", "000001.SZ", "上证50"], ON)
    assert resolved.symbols == ("000001.SZ", "600519.SH")
    assert resolve_symbols(source, ["all"], ON).symbols == source.symbols()


@pytest.mark.parametrize(
    ("token", "said"),
    [
        ("贵州矛台", "did you mean 贵州茅台 (600519.SH)?"),
        ("600518.SH", "did you mean 600519.SH"),
        ("沪深300", "has no list of the members of 000300.SH; say ALL for all its 4 symbols"),
        ("601318", "'601318' is not known"),
        ("MSFT", "write a ts_code such as 000001.SZ, a name, an index"),
    ],
)
def test_an_unknown_token_is_named_with_close_matches(folder: Path, token: str, said: str) -> None:
    with pytest.raises(UnknownSymbol) as caught:
        resolve_symbols(open_source(folder), ["600519.SH", token], ON)
    assert said in caught.value.message
    assert repr(token) in caught.value.message


def test_a_bare_code_that_is_a_share_and_an_index_is_asked_for(folder: Path) -> None:
    with pytest.raises(
        UnknownSymbol, match=r"'000016' may be 000016\.SZ or 000016\.SH \(上证50\) of "
    ) as caught:
        resolve_symbols(open_source(folder), ["000016"], ON)
    assert caught.value.data["close"] == ("000016.SZ", "000016.SH")


def test_one_text_is_split_at_its_commas_and_never_into_characters(folder: Path) -> None:
    source = open_source(folder)
    both = ("000001.SZ", "600519.SH")
    assert resolve_symbols(source, "600519.SH，sz000001", ON).symbols == both
    assert tuple(source.bars("600519.SH,000001.SZ", pd.Timestamp("2024-01-02"), ON)["close"].columns) == both  # type: ignore[arg-type]


def test_no_token_is_refused(folder: Path) -> None:
    with pytest.raises(BadOption, match="no symbol;"):
        resolve_symbols(open_source(folder), [], ON)


def test_a_name_of_two_stocks_is_refused(folder: Path) -> None:
    (folder / "names.csv").write_text("ts_code,name\n000001.SZ,贵州茅台\n", "utf-8")
    with pytest.raises(UnknownSymbol, match=r"000001\.SZ, 600519\.SH; write the code"):
        resolve_symbols(open_source(folder), ["贵州茅台"], ON)


@pytest.mark.parametrize("token", ["合成30", "SYN30", "990030.SH", "syn 30"])
def test_the_samples_own_index_resolves_point_in_time(token: str) -> None:
    resolved = resolve_symbols(open_source(), [token], ON)
    assert (len(resolved.symbols), resolved.index_code, resolved.notes) == (30, "990030.SH", ())


def test_a_name_of_the_sample_resolves() -> None:
    source = open_source()
    code = next(symbol for symbol, name in source.names().items() if name == "合成科技05")
    assert resolve_symbols(source, ["合成科技05"], ON).symbols == (code,)


def test_names_in_a_text_are_found_in_traditional_characters_too() -> None:
    sample = open_source("sample")
    code, name = next((code, name) for code, name in sample.names().items() if "银" in name)
    assert names_in(f"{name}, 2024", sample) == {name: code}
    assert names_in(name.replace("银", "銀"), sample) == {name: code}
    assert names_in("nothing", sample) == {}
