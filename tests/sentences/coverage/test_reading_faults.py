"""The numbers of a reading held against the words that it quotes."""

import pytest

from quantgraph.rules import read_condition
from quantgraph.sentences.coverage import QuotedClause, left_words, numbers_in, plain, reading_faults


def quoted(quote, rule="", plan=None, became=""):
    tree = read_condition(rule) if rule else None
    return QuotedClause(quote=quote, name="it", rule=tree, plan=plan or {}, became=became)


def kinds(text, *clauses):
    return [each.kind for each in reading_faults(text, clauses)]


@pytest.mark.parametrize(
    ("quote", "rule", "found"),
    [
        ("连跌三天买入", "streak(close < ago(close), 3)", []),
        ("连跌三天买入", "streak(close < ago(close), 4)", ["lost", "added"]),
        ("buy 10% below the 60-day average", "close < 0.9 * sma(close, 60)", []),
        ("buy 10% below the 60-day average", "close < 0.99 * sma(close, 60)", ["lost", "added"]),
        ("站上20日线买入", "close > sma(close, 20)", []),
        ("大盘站上60日线才买", 'index("000300.SH", close > sma(close, 60))', []),
        ("PE在历史20%分位以下买", "history_percent(pe, 250) < 0.2", ["added"]),
        ("CCI上穿-100买入", "cross_up(cci(), 100)", ["lost"]),
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
        ("每涨4%加一成", {"accumulate": {"percent": 0.1, "on": "rise", "by": 0.04}}, []),
        ("周五不开新仓", {"no_entry_on": {"weekdays": [5]}}, []),
        ("4月、8月、10月不开新仓", {"no_entry_on": {"months": [4, 8, 10]}}, []),
        ("最多拿两周", {"max_holding": 10}, []),
    ],
)
def test_each_value_of_the_plan_comes_from_its_words(quote, plan, found):
    faults = [each.kind for each in reading_faults(quote, [quoted(quote, plan=plan)])]
    assert sorted(faults) == sorted(found)


def test_a_quote_is_letter_by_letter_and_what_no_clause_quotes_is_named():
    clause = quoted("5日线上穿20日线买入", "cross_up(sma(close, 5), sma(close, 20))")
    assert kinds("5日线上穿20日线买入", clause) == []
    assert kinds("5日线上穿30日线买入", clause)[0] == "quote"
    assert kinds("5日线上穿20日线买入，拿满30天", clause) == ["unquoted"]
    assert left_words("帮我看看，图个吉利", []) == ("图个吉利",)


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
