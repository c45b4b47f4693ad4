"""The language: what is read, what is refused and how, units, words, edits."""

from contextlib import suppress
from itertools import product

import pytest

from quantgraph.errors import BadOption
from quantgraph.rules import ROWS, Node, Rule, expression, in_words, make, read_condition
from quantgraph.rules._tree import MOST_DEPTH, lookback

EXPRESSIONS = {
    "cross_up(sma(close, 5), sma(close, 20)) and not volume < sma(volume, 20)": (
        "5日均线上穿20日均线 且 非 (成交量 < 20日均量)",
        "5-day average crosses above 20-day average and not (volume < 20-day average volume)",
    ),
    "rank(change(close, 20)) <= 10": ("20日涨幅最高的10只", "top 10 by 20-day return"),
    "rank_percent(-turnover_rate) <= 20 and turnover_rate > 3": (
        "换手率最低的20% 且 换手率 > 3%",
        "bottom 20% by turnover rate and turnover rate > 3%",
    ),
    'index("000300.SH", close > sma(close, 60))': (
        "(指数000300.SH: 收盘价 > 60日均线)",
        "(index 000300.SH: close > 60-day average)",
    ),
    "weekday() == 5": ("星期几 = 5", "weekday = 5"),
    "streak(close < open, 3)": ("连续3日(收盘价 < 开盘价)", "(close < open) 3 days in a row"),
    "within(cross_up(dif(12, 26), dea(12, 26, 9)), 3)": (
        "最近3日内有过(DIF上穿DEA)",
        "(DIF crosses above DEA) within the last 3 days",
    ),
    "change(close, 5) < -0.03": ("5日涨幅 < -3%", "5-day return < -3%"),
    "close > ago(highest(high, 20), 1) and close > ago(sma(open, 5), 2)": (
        "收盘价 > 前一日的20日最高价 且 收盘价 > 2日前的开盘价的5日均线",
        "close > previous 20-day high and close > 5-day average of open 2 days ago",
    ),
    "volume > 1.5 * sma(volume, 5) or close - open > high - low": (
        "成交量 > 1.5倍5日均量 或 (收盘价 - 开盘价) > (最高价 - 最低价)",
        "volume > 1.5x 5-day average volume or (close - open) > (high - low)",
    ),
    'nth("month") == 1 or close > 12.5': (
        "当月第几个交易日 = 1 或 收盘价 > 12.5",
        "number of the session in its month = 1 or close > 12.5",
    ),
}


@pytest.mark.parametrize("text", EXPRESSIONS)
def test_an_expression_is_read_back_and_put_in_words(text):
    node = read_condition(text)
    assert expression(node) == text
    assert (in_words(node, "zh"), in_words(node, "en")) == EXPRESSIONS[text]


@pytest.mark.parametrize(
    ("spelt", "same"),
    [
        ("20 < rsi() < 30", "20 < rsi(14) and rsi(14) < 30"),
        ("cross_up(dif(), dea())", "cross_up(dif(12, 26), dea(12, 26, 9))"),
        ("rsi(n=6) > 70", "rsi(6) > 70"),
        ("sma(close,n=5)>\n sma(close,20)", "sma(close, 5) > sma(close, 20)"),
        ("(close - open) / open > 0.5", "(close - open) / open > 0.5"),
        ("close - (open - low) > 0", "close - (open - low) > 0"),
        ("-change(close) > 2 * (0.1 + 0.2)", "-change(close, 1) > 2 * (0.1 + 0.2)"),
        ("(close > open) == 1 or never", None),
        ("not (close > open or close > low)", "not (close > open or close > low)"),
        ("close > 1 and (open > 1 and low > 1)", "close > 1 and open > 1 and low > 1"),
        ("（close ＞ 12.5） and rsi() ＜ ５0", "close > 12.5 and rsi(14) < 50"),
        ("close > open and (close > low or close > high)", "close > open and (close > low or close > high)"),
    ],
)
def test_spellings_of_one_tree_are_one_expression(spelt, same):
    if same is None:
        with pytest.raises(BadOption, match="a condition is joined by and, or, not"):
            read_condition(spelt)
        return
    assert expression(read_condition(spelt)) == same
    assert read_condition(same) == read_condition(spelt)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("close & open > 1", "& is written and"),
        ("(close > 1) | (open > 1)", "| is written or"),
        ("~(close > 1)", "~ is written not"),
        ("close[-1] > 2", "ago(x, n), not x[-n]"),
        ("close.shift(1) > 2", "a method is written as a function, ago(x, n)"),
        ("lambda: 1", "lambda: 1 is no part of the language"),
        ("f'{close}' > 1", "is no part of the language"),
        ("[x for x in close]", "is no part of the language"),
        ("volum > 3", "'volum' is no name of the language; did you mean 'volume'? (column 1)"),
        ("close > smaa(close, 5)", "did you mean 'sma'? (column 9)"),
        ("__import__('os')", "'__import__' is no name"),
        ("close > volume", "close (price) and volume (volume) are unlike"),
        ("close > rsi()", "are unlike"),
        ("close * pe > amount", "are unlike"),
        ("close * open > 1", "have no product in this language"),
        ("amount / pe > volume", "are unlike"),
        ("close + volume > 1", "are unlike"),
        ("weekday() + 1 > 3", "dates are compared, not computed with"),
        ("1 > 2", "two numbers are compared"),
        ("close / 0 > 1", "a division by 0"),
        ("close", "is a value (price), and no condition such as close > open"),
        ("not close", "must be a condition, such as close > open"),
        ("sma(close > open, 5)", "x = close > open; must be a value of the market"),
        ("sma(5, 3) > 1", "x = 5; must be a value of the market"),
        ("sma(close) > 1", "sma needs n: sma(x, n)"),
        ("sma(close, 5, 6) > 1", "sma is written sma(x, n)"),
        ("sma(close, m=5) > 1", "sma is written sma(x, n)"),
        ("sma(close, *[5]) > 1", "sma is written sma(x, n)"),
        ("rsi > 3", "rsi is written rsi(n=14)"),
        ("rsi(0) > 3", "n = 0; must be a whole number of sessions from 1 to 2000"),
        ("rsi(1) > 3", "rsi: n = 1; must be at least 2"),
        ("sma(close, -3) > 3", "n = -3; must be"),
        ("sma(close, 2.5) > 3", "n = 2.5; must be"),
        ("sma(close, 1e9) > 3", "n = 1000000000; must be"),
        ("ago(close, -1) > 3", "n = -1; must be"),
        ("boll_upper(20, 0) > 3", "width = 0; must be a number above 0"),
        ("nth('year') == 1", "period = year; must be one of week, month, quarter"),
        ("index('沪深300', close > 1)", "must be a code in quotes"),
        ('index("000300.SH", rank(close) < 3)', "inside it there is one security"),
        ('sma(of("600519.SH", close), 20) > 3', 'of another one inside it: of("CODE", sma(close, 20))'),
        ("close > 5%", "5% is written 0.05"),
        ("close > 1 && open > 1", "it has and, or, not"),
        ("close => 1", "it has and, or, not"),
        ("of(600519.SH, close) > 1", "codes stand in straight quotes"),
        ("close > 10,000", "10,000 is written 10000"),
        ("SMA(close, 5) > 1", "did you mean 'sma'?"),
        ("sma(close, n=5, n=6) > 1", "a parameter twice"),
        ("sma(close, 1e400) > 1", "n = inf; must be a whole number"),
        ("dif(26, 12) > 0", "fast must be below slow"),
        ("close > 1e400", "inf is not a number"),
        ("close > 'x'", "texts in quotes are codes and periods"),
        ("close > True", "True is no value"),
        ("close > None", "None is no value"),
        ("close is open", "values are compared by > >= < <= == !="),
        ("close > open; 1", "is no expression"),
        ("close >", "is no expression"),
        ("", "must be an expression of 1 to 4000 characters"),
        ("a" * 1_000_000, "must be an expression of 1 to 4000 characters"),
        ("(" * 500 + "close" + ")" * 500, "is no expression"),
        ("not " * 900 + "close > 1", "at most 500 parts, 40 inside each other"),
        ("-" * 60 + "change(close) > 1", "at most 500 parts, 40 inside each other"),
        (" and ".join(["close > 1"] * 200), "at most 500 parts"),
    ],
)
def test_what_is_not_of_the_language_is_refused_in_one_line_with_the_cure(text, told):
    with pytest.raises(BadOption) as refused:
        read_condition(text, "entry")
    assert told in refused.value.message
    assert refused.value.message.startswith("entry: ")
    assert len(refused.value.message) < 300
    assert "\n" not in refused.value.message


def test_an_entry_equal_to_its_exit_is_refused():
    with pytest.raises(BadOption, match="entry and exit are the same, close > 5: it would buy what it sells"):
        Rule.read("close>5", "close > 5.0")
    assert Rule.read("close > 5").expressions == ("close > 5", "never()")
    with pytest.raises(BadOption, match=r"never\(\) buys nothing"):
        Rule.read("never()")
    with pytest.raises(BadOption, match="exit: must be an expression"):
        Rule.read("close > 5", "")


def test_a_rule_is_edited_by_path():
    rule = Rule.read("cross_up(sma(close, 5), sma(close, 20))", "rsi() > 70")
    longer = rule.edited("entry", (1, 1), 30.0)
    assert longer.expressions == ("cross_up(sma(close, 5), sma(close, 30))", "rsi(14) > 70")
    assert rule.edited("exit", (1, 0), 80.0).expressions[1] == "rsi(14) > 80"
    assert rule.edited("exit", (), make("never")).expressions[1] == "never()"
    assert longer.hash != rule.hash == Rule.read("cross_up(sma(close,n=5),sma(close,20))", "rsi(14)>70").hash
    for path, arg, told in [
        ((1, 1), -1.0, "n = -1"),
        ((7,), 1.0, "no argument 7"),
        ((1, 1, 0), 1.0, "nothing below"),
    ]:
        with pytest.raises(BadOption, match=told):
            rule.edited("entry", path, arg)


@pytest.mark.parametrize(
    ("text", "sessions"),
    [
        ("close > open", 0),
        ("cross_up(sma(close, 5), sma(close, 20))", 20),
        ("ago(highest(high, 20), 1) < close", 20),
        ("within(cross_up(dif(), dea()), 3)", 2 + 1 + 33),
        ('index("000300.SH", close > sma(close, 60)) or rsi() > 3', 59),
    ],
)
def test_a_lookback_is_the_sum_along_the_longest_path(text, sessions):
    assert lookback(read_condition(text)) == sessions


def test_each_row_has_words_with_its_parameters_and_a_unit():
    for row in ROWS.values():
        for words in (row.zh, row.en):
            assert words
            assert {f"{{{each.name}}}" for each in row.params} == {
                f"{{{name}}}" for name in words.replace("{", "}").split("}")[1::2]
            }, row.name
        assert row.unit in {"price", "volume", "money", "ratio", "count", "date", "truth", "same"}


def test_different_trees_have_different_words():
    choices = {
        "value": ["close", "open", "sma(close, 5)", "volume"],
        "side": ["close", "open", "sma(close, 5)", "12.5"],
        "truth": ["close > open", "close < open", "rsi() > 70"],
        "sessions": ["1", "2", "9", "14", "20"],
        "number": ["1.5", "2"],
        "period": ['"week"', '"month"'],
    }
    for row in ROWS.values():
        if row.formula:
            texts, said = set(), {"zh": set(), "en": set()}
            for args in product(*(choices[each.kind] for each in row.params)):
                text = f"{row.name}({', '.join(args)})"
                with suppress(BadOption):  # such as the volume beside a price
                    node = read_condition(text if row.unit == "truth" else f"{text} == {text}")
                    texts.add(text)
                    for language, words in said.items():
                        words.add(in_words(node if row.unit == "truth" else node.operands[0], language))
            assert len(texts) == len(said["zh"]) == len(said["en"]), row.name


def test_a_tree_is_not_deeper_than_python_can_follow():
    node = read_condition("close > open")
    for _ in range(MOST_DEPTH - 2):
        node = make("not", node)
    assert isinstance(node, Node)
    with pytest.raises(BadOption, match="inside each other"):
        make("not", node)
