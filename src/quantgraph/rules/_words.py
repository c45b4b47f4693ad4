"""A rule in words, in Chinese or English."""

from __future__ import annotations

import re

from quantgraph._util.texts import Language
from quantgraph.rules._registry import ROWS
from quantgraph.rules._tree import COMPARISONS, GIVEN, PERIODS, SUMS, WATCHED, Node, make, number_text

_SIGNS = {**SUMS, **COMPARISONS, "mul": "×", "div": "÷", "eq": "=", "ne": "≠"}
_JOINED = {"and": (" 且 ", " and "), "or": (" 或 ", " or ")}
_USUAL = {"highest": make("high"), "lowest": make("low")}
"""What a node is of where people do not say it: mostly of the close, with the usual constants."""
_OF_VOLUME = {"sma": ("{n}日均量", "{n}-day average volume")}
_UNSAID = re.compile(r"\[([^|]*)\|([^]]*)\]")  # "{n}-day [highest {x}|high]"


def in_words(node: Node, language: Language) -> str:  # noqa: C901, PLR0911 - one case a kind
    """A tree as one phrase.

    >>> from quantgraph.rules import read_condition
    >>> in_words(read_condition("cross_up(close, sma(close, 20)) and not rsi(14) > 70"), "en")
    'close crosses above 20-day average and not (RSI(14) > 70)'
    """
    zh = language == "zh"
    if node.name == "number":
        return number_text(node.constant)
    if node.name in _JOINED:
        return _JOINED[node.name][not zh].join(_in_brackets(each, language) for each in node.operands)
    if node.name == "not":
        return f"{'非' if zh else 'not'} ({in_words(node.operands[0], language)})"
    if node.name == "neg":
        return f"-{_in_brackets(node.operands[0], language)}"
    if node.name in _SIGNS:
        one, other = node.operands
        if node.name == "le" and one.name in {"rank", "rank_percent"} and other.name == "number":
            return _placed(one, other, zh)
        if node.name == "mul" and one.name == "number":
            return f"{number_text(one.constant)}{'倍' if zh else 'x '}{_in_brackets(other, language)}"
        return f"{_side(one, other, language)} {_SIGNS[node.name]} {_side(other, one, language)}"
    if node.name == GIVEN:
        return f"{'代码' if zh else 'code'} {node.args[0]}"
    if node.name in WATCHED:
        code, inner = node.watched
        what = "" if node.name == "of" else "指数" if zh else "index "
        if inner.unit == "truth":
            return f"({what}{code}: {in_words(inner, language)})"
        text = _in_brackets(inner, language)
        return f"{what}{code}的{text}" if zh else f"{text} of {what}{code}"
    row = ROWS[node.name]
    defaults = tuple(param.default for param in row.params)
    is_usual = node.args[:1] == (_USUAL.get(node.name, make("close")),) or node.args == defaults
    is_usual = node.args[1] == 1 if node.name == "ago" else is_usual and bool(node.args)
    words = (row.zh, row.en)[not zh]
    if node.name in _OF_VOLUME and node.args[0] == make("volume"):
        words = _OF_VOLUME[node.name][not zh]
    words = _UNSAID.sub(lambda found: found[1 + is_usual], words)
    shown = {param.name: _argument(arg, language) for param, arg in zip(row.params, node.args, strict=True)}
    return words.format(**shown)


def _placed(ranked: Node, most: Node, zh: bool) -> str:
    """A place in a ranking: of the negative, from its lower end."""
    (value,) = ranked.operands
    top = value.name != "neg"
    text = in_words(value if top else value.operands[0], "zh" if zh else "en")
    amount = number_text(most.constant) + ("%" if ranked.name == "rank_percent" else "只" if zh else "")
    if zh:
        return f"{text}{'最高' if top else '最低'}的{amount}"
    return f"{'top' if top else 'bottom'} {amount} by {text}"


def _argument(arg: Node | float | str, language: Language) -> str:
    if isinstance(arg, str):
        return PERIODS[arg][1] if language == "zh" else arg
    if isinstance(arg, float):
        return number_text(arg)
    return f"({in_words(arg, language)})" if arg.unit == "truth" else _in_brackets(arg, language)


def _side(node: Node, other: Node, language: Language) -> str:
    """One side of an operator: a number beside a fraction is in percent."""
    if node.name == "number" and other.name in ROWS and ROWS[other.name].percent:
        return f"{number_text(round(ROWS[other.name].percent * node.constant, 10))}%"
    return _in_brackets(node, language)


def _in_brackets(node: Node, language: Language) -> str:
    """A part in brackets if it has signs of its own."""
    text = in_words(node, language)
    is_times = node.name == "mul" and node.operands[0].name == "number"
    return f"({text})" if node.name in {*_JOINED, *SUMS, "neg"} and not is_times else text
