"""Files of one's own at the command: what they do not tell is said or asked; ``quantgraph data check``."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING, Annotated

import typer

from quantgraph.cli._console import print_status
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.data import MarketDataSource
    from quantgraph.settings import Settings

TableFacts = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="KEY=VALUE",
        help="What files leave open: decimal=comma, volume_unit=hands, date_order=day_first; repeatable.",
        rich_help_panel="Data",
    ),
]
_MOST_QUESTIONS = 5


def with_tables(settings: Settings, facts: Sequence[str] | None) -> Settings:
    """The settings with what ``--table`` says.

    Raises
    ------
    BadOption
        If it is not KEY=VALUE, or not a key or value of ``[tables]``.
    """
    if not facts:
        return settings
    from quantgraph.settings import load_settings

    said = settings.tables.model_dump(exclude_none=True)
    for fact in facts:
        key, sign, value = fact.partition("=")
        if not sign:
            raise BadOption(f"--table {fact}: must be KEY=VALUE, such as decimal=comma", parameter="table")
        said[key.strip()] = value.strip()
    return settings.model_copy(update={"tables": load_settings(tables=said).tables})


def open_own(
    source: str | None, settings: Settings, symbols: str | None, *, asks: bool
) -> tuple[MarketDataSource | None, Settings]:
    """Open and read a file or folder; what it does not tell is asked on the terminal if ``asks``.

    Returns
    -------
    tuple
        The source, None if it is no file; and the settings with the answers.

    Raises
    ------
    BadFile, BadOption
        If it cannot be read, or an answer is missing.
    """
    source = source or settings.data_source
    if source in {"sample", "tushare"}:
        return None, settings
    from quantgraph.data import open_source
    from quantgraph.data.symbols import symbol_list

    codes = symbol_list(symbols or ())
    for _ in range(_MOST_QUESTIONS):
        opened = open_source(source, settings=settings, symbol=codes[0] if len(codes) == 1 else None)
        try:
            opened.symbols()
        except BadFile as error:
            answer = _asked(error) if asks and "choices" in error.data else None
            if answer is None:
                raise
            settings = with_tables(settings, [f"{error.data['parameter']}={answer}"])
        else:
            break
    return opened, settings


def _asked(error: BadFile) -> str | None:
    """The answer to what a file leaves open; None if there is none."""
    choices = error.data["choices"]
    print_status(error.message)
    for number, choice in enumerate(choices, 1):
        print_status(f"  {number}. {choice}")
    answer = sys.stdin.readline().strip()
    if answer.isdecimal() and 1 <= int(answer) <= len(choices):
        return str(choices[int(answer) - 1])
    return answer if answer in choices else None
