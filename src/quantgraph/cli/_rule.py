"""The options ``--entry`` and ``--exit``: a rule in place of a sentence."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.rules import Rule

Entry = Annotated[
    str | None,
    typer.Option(
        metavar="EXPR",
        help='A rule in place of a sentence: "cross_up(sma(close, 5), sma(close, 20))".',
        rich_help_panel="Strategy",
    ),
]
Exit = Annotated[
    str | None,
    typer.Option(
        "--exit",
        metavar="EXPR",
        help="With --entry: when it sells. Default: never.",
        rich_help_panel="Strategy",
    ),
]


def strategy_of(
    entry: str | None, leave: str | None, question: str | None, strategy: Path | None
) -> Path | Rule | None:
    """What the options name in place of a sentence, read and checked."""
    if entry is None:
        if leave is not None:
            raise BadOption("--exit needs --entry EXPR", parameter="exit")
        return strategy
    if question is not None or strategy is not None:
        beside = "SENTENCE" if question is not None else "--strategy"
        raise BadOption(f"{beside} and --entry are both set; write one of them", parameter="entry")
    from quantgraph.rules import Rule

    return Rule.read(entry, leave)
