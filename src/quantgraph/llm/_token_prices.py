"""Prices of models' tokens: a small table, and a file that overrides it."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from decimal import Decimal
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

from quantgraph.errors import BadFile

_MILLION = Decimal(1_000_000)
_DATED = re.compile(r"-\d{4}-?\d{2}-?\d{2}$")


class Price(NamedTuple):
    """Money per million tokens."""

    prompt: Decimal
    completion: Decimal

    def cost(self, prompt_tokens: int, completion_tokens: int) -> Decimal:
        """The exact cost; tokens from the server's cache count in full.

        >>> Price(Decimal("0.15"), Decimal("0.60")).cost(1000, 500)
        Decimal('0.00045')
        """
        return (self.prompt * prompt_tokens + self.completion * completion_tokens) / _MILLION


def _usd(prompt: str, completion: str) -> Price:
    return Price(Decimal(prompt), Decimal(completion))


PRICES: Mapping[str, Price] = MappingProxyType(
    {
        "quantgraph-keyless-planner": _usd("0", "0"),
        "gpt-4o": _usd("2.50", "10.00"),
        "gpt-4o-mini": _usd("0.15", "0.60"),
        "gpt-4.1": _usd("2.00", "8.00"),
        "gpt-4.1-mini": _usd("0.40", "1.60"),
        "gpt-4.1-nano": _usd("0.10", "0.40"),
        "gpt-5": _usd("1.25", "10.00"),
        "gpt-5-mini": _usd("0.25", "2.00"),
        "gpt-5-nano": _usd("0.05", "0.40"),
        "o3": _usd("2.00", "8.00"),
        "o4-mini": _usd("1.10", "4.40"),
        "deepseek-chat": _usd("0.28", "0.42"),
        "deepseek-reasoner": _usd("0.28", "0.42"),
    }
)
"""List prices in US dollars: OpenAI's as of April 2026, DeepSeek's as of December 2025."""


def price_of(model: str, prices: Mapping[str, Price] = PRICES) -> Price | None:
    """Price of a model; a dated version has the price of the model. None if unknown.

    >>> price_of("gpt-4o-mini-2024-07-18") == price_of("gpt-4o-mini"), price_of("mine")
    (True, None)
    """
    return prices.get(model) or prices.get(_DATED.sub("", model))


def load_prices(path: Path | None) -> Mapping[str, Price]:
    """The table, updated from a TOML file with a table of ``prompt`` and ``completion`` per model."""
    if path is None:
        return PRICES
    try:
        table = tomllib.loads(path.read_text(encoding="utf-8-sig"), parse_float=Decimal)
    except OSError as error:
        raise BadFile(f"prices: {path} cannot be read: {error.strerror}", path=str(path)) from error
    except (UnicodeDecodeError, tomllib.TOMLDecodeError) as error:
        raise BadFile(f"prices: {path} is not readable TOML: {error}", path=str(path)) from error
    return {**PRICES, **{model: _read(path, model, given) for model, given in table.items()}}


def _read(path: Path, model: str, given: Any) -> Price:
    numbers = list(given.values()) if isinstance(given, dict) and given.keys() == {*Price._fields} else []
    if not numbers or not all(map(_is_money, numbers)):
        raise BadFile(
            f"prices: {path}: model {model!r} needs prompt and completion, money for a million "
            f'tokens, 0 or more, like ["{model}"] prompt = 0.5, completion = 1.5',
            path=str(path),
        )
    return Price(Decimal(given["prompt"]), Decimal(given["completion"]))


def _is_money(value: Any) -> bool:
    number = isinstance(value, int | Decimal) and not isinstance(value, bool)
    return number and Decimal(value).is_finite() and value >= 0
