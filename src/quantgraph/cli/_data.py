"""Own files at the command: what they do not state is an option or asked; ``quantgraph data check``."""

from __future__ import annotations

import io
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph._util.texts import Language, say
from quantgraph.cli._console import (
    AsJson,
    Debug,
    echo,
    echo_json,
    locale_language,
    print_status,
    usage_errors,
)
from quantgraph.errors import BadFile, BadOption

if TYPE_CHECKING:
    from quantgraph.data import FrameSource
    from quantgraph.settings import Settings

TableFacts = Annotated[
    list[str] | None,
    typer.Option(
        "--table",
        metavar="KEY=VALUE",
        help="What files leave open: decimal=comma, date_order=day_first, record_zone=UTC; repeatable.",
        rich_help_panel="Data",
    ),
]
Unexplained = Annotated[
    Literal["ask", "action", "keep", "leave_out"] | None,
    typer.Option(
        help="Moves beyond a market's limits, or near a split, of which the data have no action: take them "
        "as one, keep them, or leave the symbols out. Headless: the mainland's are left out, US ones kept.",
        show_default=False,
        rich_help_panel="Data",
    ),
]
_MOST_QUESTIONS = 5
_SHOWN = 8

app = typer.Typer(no_args_is_help=True, rich_markup_mode=None, help="Look at files of daily bars.")


@app.callback()
def _data() -> None:
    """Keep ``check`` a command of its own while it is the only one."""


@app.command()
def check(  # noqa: PLR0917 - typer reads options from the parameters
    file: Annotated[str, typer.Argument(metavar="FILE", help="A file or folder of daily bars.")],
    symbols: Annotated[
        str | None, typer.Option(help="The symbol of a file that names none, such as AAPL.")
    ] = None,
    table: TableFacts = None,
    headless: Annotated[bool, typer.Option(help="Ask nothing: what is open is an error.")] = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Say what is taken for what in a file: symbols, sessions, columns, units, adjustment, what is left out.

    Exit status 0: a run can read it. 2: it cannot, or an answer is missing, and one line says which.
    """
    from quantgraph.settings import load_settings

    with usage_errors(debug=debug):
        settings = with_tables(load_settings(), table)
        own = open_own(file, settings, symbols, asks=not headless)
        if own.source is None:
            raise BadOption(f"FILE={file} is a name of a source; give a file or folder", parameter="file")
        facts = _facts(own.source)
    if as_json:
        echo_json(facts | {"tables": own.settings.tables.model_dump(exclude_none=True)})
    else:
        echo("\n".join(_page(facts, own.source, locale_language())))


def _facts(source: FrameSource) -> dict[str, Any]:
    """What there is, as JSON."""
    from quantgraph.audit.bars import unexplained_moves
    from quantgraph.data import BAR_FIELDS

    market, sessions = source.market, source.sessions()
    bars = market.bars
    there = [field for field, frame in bars.items() if frame.notna().to_numpy().any()]
    gaps = sessions.to_series().diff().dt.days.dropna()
    return {
        "name": source.name,
        "symbols": list(market.symbols),
        "sessions": len(sessions),
        "first": f"{sessions[0]:%Y-%m-%d}",
        "last": f"{sessions[-1]:%Y-%m-%d}",
        "longest_gap_days": int(gaps.max()) if len(gaps) else 0,
        "on_weekends": int((sessions.day_of_week > 4).sum()),
        "bars": int(bars["close"].notna().to_numpy().sum()),
        "market": _market(market.symbols),
        "fields": there,
        "missing": [
            field for field in BAR_FIELDS if field not in there and (field in bars or field == "vol")
        ],
        "records": list(source.record_kinds),
        "unexplained": unexplained_moves(bars, symbols=market.symbols, sessions=sessions),
        "provenance": list(source.provenance("en")),
    }


def _market(codes: Sequence[str]) -> str | None:
    """The market by the codes: ``cn``, ``us``, ``both``; None if no code is of one."""
    from quantgraph.market.rules import find_board

    found = {"us" if board == "us" else "cn" for board in map(find_board, codes) if board}
    return "both" if len(found) > 1 else next(iter(found), None)


def _page(facts: dict[str, Any], source: FrameSource, language: Language) -> list[str]:
    """One page of text."""
    from quantgraph.audit.bars import move_lines

    codes = facts["symbols"]
    more = f" … ({len(codes)})" if len(codes) > _SHOWN else ""
    markets = {
        "cn": say(language, zh="按代码：中国内地", en="mainland China, by the codes"),
        "us": say(language, zh="按代码：美国", en="US, by the codes"),
        "both": say(language, zh="两个市场：请用 --market", en="two markets: say --market"),
        None: say(
            language,
            zh="没有这些代码的规则：可以得到信号（--signal-only），或用 --costs none 按简单规则交易",
            en="none here for these codes: a signal can be made (--signal-only), or plain rules trade it "
            "(--costs none)",
        ),
    }
    span = f"{facts['first']} … {facts['last']}, {facts['sessions']}"
    gaps = say(
        language,
        zh=f"最长间隔 {facts['longest_gap_days']} 天，周末 {facts['on_weekends']} 个",
        en=f"longest gap {facts['longest_gap_days']} days, {facts['on_weekends']} on weekends",
    )
    none = say(language, zh="无", en="none")
    rows = {
        say(language, zh="代码", en="symbols"): ", ".join(codes[:_SHOWN]) + more,
        say(language, zh="交易日", en="sessions"): f"{span} ({gaps})",
        say(language, zh="行情", en="bars"): f"{facts['bars']:,}",
        say(language, zh="规则", en="rules"): markets[facts["market"]],
        say(language, zh="字段", en="fields"): ", ".join(facts["fields"]),
        say(language, zh="缺少", en="not there"): ", ".join(facts["missing"]) or none,
        say(language, zh="首条", en="first bar"): _first_bar(source),
    }
    lines = [facts["name"], *(f"  {name}: {value}" for name, value in rows.items())]
    lines.append(say(language, zh="读法", en="read as"))
    for read in source.market.read_as:
        lines += [f"  {read.files}", *(f"    {part.text(language)}" for part in read.parts)]
    notes = [note.text(language) for note in source.market.notes]
    if moves := move_lines(facts["unexplained"], language):
        shown = "; ".join(moves[:_SHOWN]) + (" …" if len(moves) > _SHOWN else "")
        zh, en = (
            "没有说明的涨跌，运行前会问（--unexplained）",
            "moves that no action explains, asked before a run",
        )
        notes.append(say(language, zh=f"{zh}：{shown}", en=f"{en} (--unexplained): {shown}"))
    if notes:
        lines += [say(language, zh="说明", en="notes"), *(f"  {note}" for note in notes)]
    return lines


def _first_bar(source: FrameSource) -> str:
    """The first bar in the units of a run, to be held against the file."""
    import pandas as pd

    market = source.market
    symbol, row = next(iter(market.first_rows.items()))
    fields = ("open", "high", "low", "close", "vol")
    bar = {field: market.bars[field][symbol].iloc[row] for field in fields if field in market.bars}
    day = f"{market.sessions[row]:%Y-%m-%d}"
    shown = [f"{name} {value:.10g}" for name, value in bar.items() if pd.notna(value)]
    return f"{symbol} {day}: {', '.join(shown)}{' (100 shares each)' if pd.notna(bar.get('vol')) else ''}"


def with_tables(settings: Settings, facts: Sequence[str] | None) -> Settings:
    """The settings with what ``--table`` says; ``BadOption`` if it is not KEY=VALUE of ``[tables]``."""
    if not facts:
        return settings
    from quantgraph.settings import load_settings

    options = settings.tables.model_dump(exclude_none=True)
    for fact in facts:
        key, sign, value = fact.partition("=")
        if not sign:
            raise BadOption(f"--table {fact}: must be KEY=VALUE, such as decimal=comma", parameter="table")
        options[key.strip()] = value.strip()
    return settings.model_copy(update={"tables": load_settings(tables=options).tables})


@dataclass(frozen=True, kw_only=True)
class OwnSource:
    """A file or folder that was read, with its options and answers."""

    source: FrameSource | None
    """None if the source is not a file."""
    settings: Settings
    symbols: str | None


def open_own(
    source: str | None, settings: Settings, symbols: str | None, *, sentence: str = "", asks: bool
) -> OwnSource:
    """Open and read a file or folder; what it does not state is asked on the terminal if ``asks``.

    A file that names no symbol is of the only code in the sentence. ``BadFile`` or ``BadOption`` if it cannot
    be read, or an answer is missing.
    """
    source = source or settings.data_source
    none = OwnSource(source=None, settings=settings, symbols=symbols)
    if source in {"sample", "tushare"}:
        return none
    from quantgraph.data import open_source
    from quantgraph.data.symbols import symbol_list

    for _ in range(_MOST_QUESTIONS):
        codes = symbol_list(symbols or ())
        opened = open_source(source, settings=settings, symbol=codes[0] if len(codes) == 1 else None)
        from quantgraph.data import FrameSource  # loads pandas, which a wrong name needs not

        if not isinstance(opened, FrameSource):
            return none
        try:
            _check_units(opened, sentence)
        except BadFile as error:
            if error.data.get("columns") == ("ts_code",) and not codes:
                symbols = _symbol_of(error, sentence, asks=asks)
            elif asks and "choices" in error.data and (answer := _ask(error)):
                settings = with_tables(settings, [f"{error.data['parameter']}={answer}"])
            else:
                raise
        else:
            return OwnSource(source=opened, settings=settings, symbols=symbols)
    raise BadFile(f"{source} leaves too much open; say it with --table", file=source)


def _check_units(source: FrameSource, sentence: str) -> None:
    """Read the source; ``BadFile`` if a field that the sentence speaks of is in a unit that nothing shows."""
    from quantgraph.sentences.phrases import volume_words

    words = volume_words(sentence)
    for field, error in source.market.withheld.items():
        if field in words:
            raise error


def _symbol_of(error: BadFile, sentence: str, *, asks: bool) -> str:
    """The symbol of a file that names none: the only code of the sentence, else the answer."""
    from quantgraph.sentences.phrases import symbols_in

    codes = symbols_in(sentence, {})
    if len(codes) == 1:
        return codes[0]
    if asks:
        print_status(error.message)
        if answer := _line():
            return answer
    raise error


def _line() -> str:
    """The next line of the input, empty at its end."""
    if isinstance(sys.stdin, io.TextIOWrapper):
        sys.stdin.reconfigure(errors="replace")
    return sys.stdin.readline().strip()


def _ask(error: BadFile) -> str | None:
    """The answer to what a file leaves open; None if there is none."""
    choices = error.data["choices"]
    print_status(error.message)
    for number, choice in enumerate(choices, 1):
        print_status(f"  {number}. {choice}")
    answer = _line()
    if answer.isdecimal() and 1 <= int(answer) <= len(choices):
        return str(choices[int(answer) - 1])
    return answer if answer in choices else None
