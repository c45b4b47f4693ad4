"""Readings held against the words that they quote: faithful ones stand, faulty ones are found."""

import json
from pathlib import Path

import pytest

from quantgraph.errors import BadOption
from quantgraph.rules import read_condition
from quantgraph.sentences.coverage import QuotedClause, left_words, numbers_in, plain, reading_faults
from quantgraph.subgraphs.signal._agents import Params, rule_in

BANK = Path(__file__).parents[2] / "data" / "sentences" / "tree_readings.jsonl"
NAMES = {
    "茅台": "600519.SH",
    "宁王": "300750.SZ",
    "平安": "601318.SH",
    "五粮液": "000858.SZ",
    "招行": "600036.SH",
}


def held(text, reading):
    """What is found in a reading, and whether a question comes of it; a reading that is not one is certain."""
    params = Params.model_validate(reading).model_dump()
    try:
        rule_in(params)
        clauses = [
            QuotedClause(
                **{name: each[name] for name in ("quote", "name", "plan", "became")},
                rule=read_condition(each["rule"]) if each["rule"] else None,
                done=each["status"] == "done",
            )
            for each in params["clauses"]
        ]
    except BadOption:
        return [True]
    codes = [each for name in ("ts_code", "watch") for each in params[name].split(",") if each]
    names = {name: code for name, code in NAMES.items() if name in text}
    names |= {name: code for code in codes for name in (code, code.partition(".")[0])}
    used = f"{params['entry']} {params['exit']}"
    unused = [True for each in clauses if each.rule and each.name not in used]
    traded = [code for code in params["ts_code"].split(",") if code not in params["watch"].split(",")]
    options = {"names": names, "traded": traded}
    found = reading_faults(text, clauses, params["entry"], params["exit"], **options)
    return [*unused, *(each.certain for each in found)]


@pytest.fixture(scope="module")
def bank():
    return [json.loads(line) for line in BANK.read_text(encoding="utf-8").splitlines()]


def test_of_forty_faithful_readings_at_most_one_is_asked_about(bank):
    assert len(bank) == 40
    assert sum(any(held(each["text"], each["faithful"])) for each in bank) <= 1


def test_most_faulty_readings_are_found(bank):
    """79, by the same hand, written before the code; what is not found is a matter of order or of one day."""
    faulty = [(each["text"], fault["reading"]) for each in bank for fault in each["faulty"]]
    assert len(faulty) == 79
    assert sum(not held(*each) for each in faulty) <= 15


def quoted(quote, rule="", plan=None, became=""):
    tree = read_condition(rule) if rule else None
    return QuotedClause(quote=quote, name="it", rule=tree, plan=plan or {}, became=became)


def kinds(text, *clauses, entry="it"):
    return [each.kind for each in reading_faults(text, clauses, entry)]


@pytest.mark.parametrize(
    ("quote", "rule", "found"),
    [
        ("连跌三天买入", "streak(close < ago(close), 3)", []),
        ("连跌三天买入", "streak(close < ago(close), 4)", ["lost", "added"]),
        ("buy 10% below the 60-day average", "close < 0.9 * sma(close, 60)", []),
        ("buy 10% below the 60-day average", "close < 0.99 * sma(close, 60)", ["lost", "added"]),
        ("buy 10% below the 60-day average", "close > 0.9 * sma(close, 60)", ["turned"]),
        ("站上20日线买入", "close > sma(close, 20)", []),
        ("站上20日线买入", "close > ema(close, 20)", ["added"]),
        ("buy unless volume is below its 20-day average", "volume < sma(volume, 20)", ["turned"]),
        ("buy unless volume is below its 20-day average", "volume >= sma(volume, 20)", []),
        ("大盘站上60日线才买", "close > sma(close, 60)", ["lost"]),
        ("大盘站上60日线才买", 'index("000300.SH", close > sma(close, 60))', []),
        ("PE在历史20%分位以下买", "history_percent(pe, 250) < 0.2", ["added", "turned"]),
        ("CCI上穿-100买入", "cross_up(cci(), 100)", ["turned"]),
        ("buy a new 20-day high", "close > highest(high, 20)", ["turned"]),
        ("RSI低于30且收阳买入", "rsi() < 30 or close > open", ["turned"]),
    ],
)
def test_each_leaf_of_a_condition_comes_from_its_words(quote, rule, found):
    assert kinds(quote, quoted(quote, rule)) == found


@pytest.mark.parametrize(
    ("quote", "plan", "found"),
    [
        ("滑点0.1%", {"slippage_bps": 10}, []),
        ("滑点0.1%", {"slippage_bps": 100}, ["lost", "added"]),
        ("a third of the account", {"size": {"percent": 0.333}}, []),
        ("a third of the account", {"size": {"percent": 0.03}}, ["lost", "added"]),
        ("佣金万分之二点五", {"commission": 0.00025}, []),
        ("回撤8%止损", {"trailing_stop": 0.08}, []),
        ("回撤8%止损", {"stop_loss": 0.08}, ["plan"]),
        ("每涨4%加一成", {"accumulate": {"percent": 0.1, "on": "rise", "by": 0.04}}, []),
        ("每涨4%加一成", {"accumulate": {"percent": 0.1, "on": "fall", "by": 0.04}}, ["plan"]),
        ("涨10%或跌5%就走", {"take_profit": 0.05, "stop_loss": 0.1}, ["plan"]),
        ("周五不开新仓", {"no_entry_on": {"weekdays": [5]}}, []),
        ("周五不开新仓", {"no_entry_on": {"weekdays": [4]}}, ["plan"]),
        ("4月、8月、10月不开新仓", {"no_entry_on": {"months": [4, 8, 10]}}, []),
        ("每月调仓", {"trade_on": "quarter_start"}, ["plan"]),
        ("最多拿两周", {"max_holding": 10}, []),
        ("3 ATR trailing stop", {"trailing_stop": 0.03}, ["lost"]),
    ],
)
def test_each_value_of_the_plan_comes_from_its_words(quote, plan, found):
    faults = [each.kind for each in reading_faults(quote, [quoted(quote, plan=plan)])]
    assert sorted(faults) == sorted(found)


def test_a_quote_is_letter_by_letter_and_what_no_clause_quotes_is_named():
    clause = quoted("5日线上穿20日线买入", "cross_up(sma(close, 5), sma(close, 20))")
    assert kinds("5日线上穿20日线买入", clause) == []
    assert kinds("5日线上穿30日线买入", clause)[0] == "quote"
    assert kinds("5日线上穿20日线买入，但周五不买", clause) == ["unquoted"]
    assert left_words("帮我看看，图个吉利", []) == ("图个吉利",)


def test_an_exception_is_of_the_clause_before_it():
    high = quoted("buy above the 20-day average", "close > sma(close, 20)")
    low = QuotedClause(quote="sell below it", name="out", rule=read_condition("close < sma(close, 20)"))
    quiet = QuotedClause(quote="unless RSI is below 30", name="dip", rule=read_condition("rsi() < 30"))
    text = "buy above the 20-day average, sell below it unless RSI is below 30"
    assert reading_faults(text, [high, low, quiet], "it", "out and not dip") == []
    (fault,) = reading_faults(text, [high, low, quiet], "it and not dip", "out")
    assert (fault.kind, fault.quote, fault.certain) == ("turned", "unless RSI is below 30", False)


@pytest.mark.parametrize(
    ("text", "values"),
    [
        ("三成", {0.3, 30}),
        ("10 bps", {0.001}),
        ("千分之一", {0.001}),
        ("20万", {200_000}),
        ("52 weeks", {250, 252, 260}),
        ("三分之一", {1 / 3}),
    ],
)
def test_a_number_means_what_its_unit_says(text, values):
    (number,) = numbers_in(plain(text))
    assert sorted(number.values) == pytest.approx(sorted(values))
