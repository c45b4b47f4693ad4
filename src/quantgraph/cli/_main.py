"""The command ``quantgraph``: ``run`` and ``audit``, and its other subcommands."""

from __future__ import annotations

import os
import signal as signals
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, cast

import typer
from typer.exceptions import TyperException

from quantgraph._util.files import check_text
from quantgraph._util.packages import entries, is_own, load_entry
from quantgraph._util.texts import SOURCES
from quantgraph.cli._console import (
    CANCELLED,
    FAILED,
    NOT_COMPARED,
    WRONG_USAGE,
    AsJson,
    Debug,
    echo,
    echo_json,
    echo_traceback,
    print_error,
    print_status,
    quick_imports,
    safe_streams,
    start_code_process,
    usage_errors,
)
from quantgraph.cli._data import TableFacts, Unexplained, open_own, with_tables
from quantgraph.cli._data import app as data
from quantgraph.cli._doctor import doctor
from quantgraph.cli._help import CommandGroup, PanelCommand, usage_line
from quantgraph.cli._ledger import app as ledger
from quantgraph.cli._ledger import latest_run
from quantgraph.cli._plan import (
    Accumulate,
    Band,
    Benchmark,
    CashReserve,
    Commission,
    MaxHolding,
    MaxPositions,
    Rank,
    Rebalance,
    Size,
    SlippageBps,
    StopLoss,
    TakeProfit,
    TradeOn,
    TrailingStop,
    plan_of,
)
from quantgraph.cli._rule import Entry, Exit, strategy_of
from quantgraph.cli._run import (
    DeciderOptions,
    DeciderPlace,
    ShowCode,
    decider_of,
    replay,
    resume,
    settings_with,
    showing_run,
)
from quantgraph.cli._runs import compare, runs, show, verify
from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.data import FrameSource
    from quantgraph.market import Rulebook
    from quantgraph.market.rules import MarketCode
    from quantgraph.runs import RunSpec
    from quantgraph.settings import Settings


_NAME = "quantgraph"
"""The command in its help and for completion, also as ``python -m quantgraph``."""

app = typer.Typer(
    cls=CommandGroup,
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A sentence about a trading strategy becomes an audited signal and trades in an exact ledger.",
)
app.add_typer(data, name="data")
app.add_typer(ledger, name="ledger")
for _command in (resume, verify, replay, runs, show, compare, doctor):
    app.command(cls=PanelCommand)(_command)
for _entry in filter(is_own, entries("quantgraph.commands")):
    _command = load_entry(_entry)
    if isinstance(_command, typer.Typer):
        app.add_typer(_command, name=_entry.name)
    else:
        app.command(cls=PanelCommand)(_command)

Question = Annotated[
    str | None, typer.Argument(metavar="SENTENCE", help="The strategy, in Chinese or English.")
]
_STRATEGY, _DATA, _ACCOUNT, _ASKING = "Strategy", "Data", "Account", "Questions"
_MODEL, _OUTPUT = "Model", "Output"
"""Panels of the options in help."""
Source = Annotated[
    str | None, typer.Option(help=f"{SOURCES}. Default: the settings'.", rich_help_panel=_DATA)
]
Start = Annotated[
    str | None, typer.Option(help="First date, YYYYMMDD; wins over the sentence.", rich_help_panel=_DATA)
]
End = Annotated[
    str | None, typer.Option(help="Last date, YYYYMMDD; wins over the sentence.", rich_help_panel=_DATA)
]
Symbols = Annotated[
    str | None,
    typer.Option(
        help="Codes, names or an index code, joined by commas; win over the sentence.", rich_help_panel=_DATA
    ),
]


@app.command(cls=PanelCommand)
def run(  # noqa: PLR0917 - typer reads options from the parameters
    question: Question = None,
    strategy: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE.py",
            help="Your own code in place of a sentence, like a run's strategy.py: sealed, proved. Symbols "
            "and dates default to its docstring's.",
            rich_help_panel=_STRATEGY,
        ),
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option(
            "--said",
            help="With --strategy: the sentence that its positions are compared with.",
            rich_help_panel=_STRATEGY,
        ),
    ] = None,
    entry: Entry = None,
    leave: Exit = None,
    source: Source = None,
    start: Start = None,
    end: End = None,
    split: Annotated[
        str | None,
        typer.Option(
            metavar="DATE",
            help="Make and check the strategy with data before this date alone; trade and judge both sides.",
            rich_help_panel=_STRATEGY,
        ),
    ] = None,
    symbols: Symbols = None,
    table: TableFacts = None,
    fund: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE=KIND",
            help="Kind of a mainland fund whose code does not tell; repeatable.",
            rich_help_panel=_DATA,
        ),
    ] = None,
    unexplained: Unexplained = None,
    signal_only: Annotated[
        bool,
        typer.Option(
            "--signal-only", help="Stop at the checked signal; trade nothing.", rich_help_panel=_ACCOUNT
        ),
    ] = False,
    cash: Annotated[
        float | None,
        typer.Option(
            help="Initial cash, in the market's currency. Default: the sentence's, else 1,000,000.",
            rich_help_panel=_ACCOUNT,
        ),
    ] = None,
    market: Annotated[
        Literal["cn", "us"] | None,
        typer.Option(
            help="cn: mainland China's rules and fees by date. us: US stocks. Default: by the codes.",
            show_default=False,
            rich_help_panel=_ACCOUNT,
        ),
    ] = None,
    costs: Annotated[
        Literal["market", "none"],
        typer.Option(
            help="market: the fees of the day. none: no costs; years before the fee tables run, too.",
            rich_help_panel=_ACCOUNT,
        ),
    ] = "market",
    commission: Commission = None,
    slippage_bps: SlippageBps = None,
    benchmark: Benchmark = None,
    size: Size = None,
    max_positions: MaxPositions = None,
    rank: Rank = None,
    trade_on: TradeOn = None,
    accumulate: Accumulate = None,
    rebalance: Rebalance = None,
    band: Band = None,
    cash_reserve: CashReserve = None,
    stop_loss: StopLoss = None,
    take_profit: TakeProfit = None,
    trailing_stop: TrailingStop = None,
    max_holding: MaxHolding = None,
    decider: DeciderPlace = None,
    option: DeciderOptions = None,
    confirm: Annotated[
        bool,
        typer.Option(
            "--confirm",
            help="Show what was understood, and ask before anything is traded.",
            rich_help_panel=_ASKING,
        ),
    ] = False,
    approve: Annotated[
        bool,
        typer.Option("--approve", help="Ask before each session's orders are sent.", rich_help_panel=_ASKING),
    ] = False,
    headless: Annotated[
        bool,
        typer.Option(
            "--headless",
            help="Ask nothing: take the documented defaults; a question without one ends the run.",
            rich_help_panel=_ASKING,
        ),
    ] = False,
    model: Annotated[
        str | None,
        typer.Option(help="A model's name, or keyless. Default: the settings'.", rich_help_panel=_MODEL),
    ] = None,
    budget: Annotated[
        str | None,
        typer.Option(
            help="Limits on model calls, like calls=100,prompt_tokens=200000,money=2.5.",
            rich_help_panel=_MODEL,
        ),
    ] = None,
    session_budget: Annotated[
        str | None, typer.Option(help="The same for each session.", rich_help_panel=_MODEL)
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            help="Folder of the runs; this one gets a folder in it. Default: the settings' runs_dir.",
            rich_help_panel=_OUTPUT,
        ),
    ] = None,
    code: ShowCode = False,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Turn a sentence into a checked signal and trade it in a simulated account, day by day."""
    with usage_errors(debug=debug), quick_imports():
        facts = [*(table or ()), *([f"unexplained={unexplained}"] if unexplained else ())]
        settings = with_tables(settings_with(budget, session_budget), facts)
        traded = strategy_of(entry, leave, question, strategy)
        question, shown_in = _sentence(question, entry, strategy, sentence)
        _check_at_once(shown_in, model, settings)
        own = open_own(source, settings, symbols, sentence=shown_in, asks=not headless)
        settings, symbols = own.settings, own.symbols
        if costs == "none" and market is None and own.source is None:
            raise BadOption("--costs none needs --market cn or --market us", parameter="market")
        made = decider_of(decider, option)
        if decider in {None, "signal_rule"}:
            start_code_process(settings)  # it starts while the rest is imported
        from quantgraph.runs import run_strategy

        confirmed = _confirm(confirm, headless=headless)
        more: dict[str, Any] = {"trade": not signal_only, "approve": approve and not signal_only}
        more |= {"start": start, "end": end, "split": split, "cash": cash, "confirm": confirmed}
        spec = _specification(question, symbols, **more)
        plan = plan_of(
            size=size,
            max_positions=max_positions,
            rank=rank,
            trade_on=trade_on,
            accumulate=accumulate,
            rebalance=rebalance,
            band=band,
            cash_reserve=cash_reserve,
            stop_loss=stop_loss,
            take_profit=take_profit,
            trailing_stop=trailing_stop,
            max_holding=max_holding,
            commission=commission,
            slippage_bps=slippage_bps,
            benchmark=benchmark,
        )
        rules = None if signal_only else _rules(market, fund or [], costs, own.source)
    with showing_run(shown_in, as_json=as_json, headless=headless, debug=debug, code=code) as shown:
        live = replace(shown.live, settings=settings)
        shown.result = run_strategy(
            replace(spec, rules=rules, plan=plan),
            strategy=traded,
            source=own.source or source,
            decider=made,
            model=model,
            out=out,
            resources=live,
        )


def _sentence(
    question: str | None, entry: str | None, strategy: Path | None, sentence: str | None
) -> tuple[str, str]:
    """The sentence, and the text that sets the language: without a sentence the rule or the docstring."""
    if strategy is None:
        if sentence is not None:
            raise BadOption("--said needs --strategy FILE.py", parameter="said")
        if entry is not None:
            return "", entry
        if question is None:
            raise BadOption("missing argument 'SENTENCE' (help: quantgraph run --help)")
        return question, question
    if question is not None:
        raise BadOption("SENTENCE and --strategy are both set; write --said SENTENCE")
    from quantgraph.runs.verification import read_strategy

    return sentence or "", sentence or read_strategy(strategy).about or strategy.name


def _check_at_once(question: str, model: str | None, settings: Settings) -> None:
    """Refuse a wrong sentence or model before all that a run needs is imported."""
    if not question.strip():
        raise BadOption(
            "SENTENCE is empty; describe a strategy, for example: "
            "quantgraph run 'all stocks, 5-day average crosses above the 20-day average, past year'"
        )
    if model not in {None, "keyless"} and ":" not in str(model):  # "anthropic:claude" has a key of its own
        from quantgraph.settings import check_key

        check_key(model, "reflection", settings)


@app.command(cls=PanelCommand)
def audit(  # noqa: PLR0917
    strategy: Annotated[
        Path | None,
        typer.Argument(
            metavar="[STRATEGY.py]",
            help="A strategy as a run saves it, or a run's folder. Default: the latest run's.",
        ),
    ] = None,
    source: Annotated[str | None, typer.Option(help=f"{SOURCES}. Default: the settings'.")] = None,
    symbols: Annotated[
        str | None, typer.Option(help="Codes, names or an index code, joined by commas. Default: all.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First date, YYYYMMDD. Default: the source's.")] = None,
    end: Annotated[str | None, typer.Option(help="Last date, YYYYMMDD. Default: the source's.")] = None,
    table: TableFacts = None,
    prove: Annotated[
        Literal["auto", "all", "sampled"] | None,
        typer.Option("--walk", help="Sessions to prove: all, however long it takes; sampled; auto: by size."),
    ] = None,
    sentence: Annotated[
        str | None,
        typer.Option("--said", help="The sentence; its positions are held against the code's instead."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that each row of a strategy's signal uses only what was known by then, or show where not.

    With ``--said``, show where the code departs from the sentence.
    """
    with usage_errors():
        strategy = strategy or latest_run("strategy.py")
        if not strategy.exists():
            problem = f"STRATEGY.py={strategy} is neither a file nor a run's folder"
            raise BadOption(problem, parameter="strategy")
    from quantgraph._util.texts import language_of
    from quantgraph.runs.verification import audit_strategy, read_strategy
    from quantgraph.settings import load_settings

    with usage_errors():
        settings = with_tables(load_settings(), table)
        own = open_own(source, settings, symbols, sentence=sentence or "", asks=False)
    data: dict[str, Any] = {
        "source": own.source or source,
        "symbols": symbols or (),
        "start": start,
        "end": end,
    }
    if sentence is not None:
        _audit_sentence(strategy, sentence, data, as_json=as_json)
        return
    with usage_errors():
        verdict = audit_strategy(strategy, prove=prove, **data)
        language = language_of(read_strategy(strategy).about)
    if as_json:
        echo_json(verdict.as_json())
    else:
        echo(verdict.text(language))
    if not verdict.causal:
        raise typer.Exit(FAILED)


def _audit_sentence(strategy: Path, sentence: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    """Show the findings of a strategy held against a sentence; status 3 if there was nothing to compare."""
    from dataclasses import asdict

    from quantgraph._util.texts import language_of, say
    from quantgraph.audit import issue_text
    from quantgraph.runs.verification import audit_sentence

    with usage_errors():
        held = audit_sentence(strategy, sentence, **data)
    language, why = language_of(sentence), held.not_compared
    found = [
        {name: value for name, value in asdict(finding).items() if value is not None}
        for finding in held.findings
    ]
    if as_json:
        reason = {} if why is None else {"why": why.text(language)}
        echo_json({"said": sentence, "compared": why is None, **reason, "findings": found})
    else:
        same = say(language, zh="没有发现与这句话不符之处", en="no departure from the sentence was found")
        if why is not None:
            same = say(language, zh=f"没有比较：{why.zh}", en=f"not compared: {why.en}")
        lines = [issue_text(finding, language) for finding in found]
        echo("\n".join([*lines, same] if why is not None or not lines else lines))
    if found or why is not None:
        raise typer.Exit(FAILED if found else NOT_COMPARED)


@app.callback(invoke_without_command=True)
def about(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Say which version this is."""
    if version:
        from importlib.metadata import version as installed

        echo(f"quantgraph {installed('quantgraph')}")
        raise typer.Exit


def _specification(
    question: str,
    symbols: str | None,
    *,
    start: str | None,
    end: str | None,
    split: str | None = None,
    cash: float | None = None,
    **more: Any,
) -> RunSpec:
    from quantgraph.broker import Account
    from quantgraph.data.symbols import symbol_list
    from quantgraph.runs import RunSpec

    if cash is not None:
        more["cash"] = Account.opening(cash).cash
    more |= {"start": start or "", "end": end or "", "split": split or ""}
    return RunSpec(question=question, symbols=symbol_list(symbols or ()), **more)


def _confirm(confirm: bool, *, headless: bool) -> bool:
    if confirm and headless:
        raise BadOption("--confirm asks and --headless asks nothing; give one of them", parameter="confirm")
    return confirm


def _rules(
    market: str | None, funds: Sequence[str], costs: str, source: FrameSource | None
) -> Rulebook | None:
    """The rules that the options say; None leaves them to the codes.

    Without costs, symbols of a market whose rules are not here trade under plain ones.
    """
    from quantgraph.data.symbols import rules_of
    from quantgraph.market import Rulebook
    from quantgraph.market.rules import market_elsewhere

    if market == "us" and funds:
        raise BadOption(f"--fund {funds[0]}: the US market has no kinds of funds", parameter="fund")
    kinds: dict[str, Any] = dict(_pair(fund) for fund in funds)
    if costs == "none" and market is None and source is not None:
        found = {each[1] for code in source.symbols() if (each := market_elsewhere(code))}
        if len(found) == 1:
            return Rulebook.plain(*found)
        market = rules_of(source).market
    if costs == "none":
        return Rulebook.zero_cost(cast("MarketCode", market), funds=kinds)
    if market == "us":
        return Rulebook.us()
    return Rulebook.mainland(funds=kinds) if market or funds else None


def _pair(fund: str) -> tuple[str, str]:
    code, sign, kind = fund.partition("=")
    if not sign:
        raise BadOption(f"--fund {fund}; must be CODE=KIND, for example 159915.SZ=stock_20", parameter="fund")
    return code.strip().upper(), kind.strip()


def main() -> None:
    """Entry point. Every error is shown in one line, with ``--debug`` after a traceback."""
    with safe_streams(), _errors_in_one_line():
        for number, argument in enumerate(sys.argv[1:], 1):
            _check_encoding(argument, f"argument {number}")
            check_text(argument, f"argument {number}")
        sys.exit(app(prog_name=_NAME, standalone_mode=False) or 0)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    before = signals.signal(signals.SIGINT, _interrupt_once)
    try:
        yield
    except BadOption as error:
        print_error(error, debug=False)
        sys.exit(WRONG_USAGE)
    except TyperException as error:
        print_status(usage_line(error))
        sys.exit(WRONG_USAGE)
    except KeyboardInterrupt:
        print_status("cancelled")
        sys.exit(CANCELLED)
    except Exception as error:  # noqa: BLE001 - the last resort
        debug = "--debug" in sys.argv
        if debug:
            echo_traceback(error)
        hint = "" if debug or sys.argv[1:2] == ["ledger"] else " (--debug shows where)"
        print_status(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{hint}")
        sys.exit(FAILED)
    finally:
        if signals.getsignal(signals.SIGINT) is _interrupt_once:
            signals.signal(signals.SIGINT, before)


def _check_encoding(argument: str, name: str) -> None:
    """Refuse a text in UTF-8 that this Python is to read otherwise, as it would paths in it."""
    encoding = sys.getfilesystemencoding()
    if encoding == "utf-8" or argument.isascii():
        return
    with suppress(UnicodeError):
        text = os.fsencode(argument).decode()
        raise BadOption(
            f"{name} {text!a:.60} is UTF-8, and Python reads and opens files in {encoding} here; leave "
            "PYTHONUTF8=0 out, or set a UTF-8 locale",
            parameter=name,
        )


def _interrupt_once(*_: object) -> None:
    """Ctrl-C ends the command once: the clean-up is not interrupted again."""
    signals.signal(signals.SIGINT, signals.SIG_IGN)
    raise KeyboardInterrupt
