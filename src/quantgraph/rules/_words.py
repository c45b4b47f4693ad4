"""A rule in words, in Chinese or English."""

from __future__ import annotations

from quantgraph._util.texts import Language
from quantgraph.rules._registry import ROWS
from quantgraph.rules._tree import COMPARISONS, PERIODS, SUMS, Node, number_text

_SIGNS = {**SUMS, **COMPARISONS, "mul": "×", "div": "÷", "ge": "≥", "le": "≤", "eq": "=", "ne": "≠"}
_JOINED = {"and": ("，且", " and "), "or": ("，或", " or ")}


def in_words(node: Node, language: Language) -> str:
    """A tree as one phrase.

    >>> from quantgraph.rules import read_condition
    >>> in_words(read_condition("close > sma(close, 20) and not rsi(14) > 70"), "en")
    '(the close > the 20-day average of the close) and not (RSI(14) > 70)'
    """
    zh = language == "zh"
    if node.name == "number":
        return number_text(node.constant)
    if node.name in _JOINED:
        return _JOINED[node.name][not zh].join(_in_brackets(each, language) for each in node.operands)
    if node.name in {"not", "neg"}:
        text = in_words(node.operands[0], language)
        return f"-{text}" if node.name == "neg" else f"{'非' if zh else 'not '}({text})"
    if node.name in _SIGNS:
        one, other = node.operands
        return f"{_side(one, other, language)} {_SIGNS[node.name]} {_side(other, one, language)}"
    if node.name in {"of", "index"}:
        code, inner = node.watched
        text = in_words(inner, language)
        return f"{code}的（{text}）" if zh else f"{code}'s ({text})"
    row = ROWS[node.name]
    shown = {param.name: _argument(arg, language) for param, arg in zip(row.params, node.args, strict=True)}
    return (row.zh if zh else row.en).format(**shown)


def _argument(arg: Node | float | str, language: Language) -> str:
    if isinstance(arg, str):
        return PERIODS[arg][1] if language == "zh" else arg
    return _in_brackets(arg, language) if isinstance(arg, Node) else number_text(arg)


def _side(node: Node, other: Node, language: Language) -> str:
    """One side of an operator: a number beside a fraction is in percent."""
    if node.name == "number" and other.name in ROWS and ROWS[other.name].percent:
        return f"{number_text(round(100 * node.constant, 10))}%"
    return f"({in_words(node, language)})" if node.name in SUMS else in_words(node, language)


def _in_brackets(node: Node, language: Language) -> str:
    text = in_words(node, language)
    return f"({text})" if node.name in {*_JOINED, *_SIGNS} else text
