"""The command ``quantgraph``: ``run``, ``signal`` and ``audit``, and its other subcommands."""

from __future__ import annotations

import os
import signal as signals
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph._util.files import check_text
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
from quantgraph.cli._doctor import doctor
from quantgraph.cli._integrations import mcp, trader
from quantgraph.cli._ledger import app as ledger
from quantgraph.cli._run import (
    DeciderPlace,
    decider_of,
    replay,
    resume,
    settings_with,
    shown_run,
)
from quantgraph.cli._runs import compare, logs, report, runs, show
from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.market import Rulebook
    from quantgraph.runs import RunSpec


_NAME = "quantgraph"
"""The command in its help and for completion, also as ``python -m quantgraph``."""

app = typer.Typer(
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A sentence about a trading strategy becomes an audited signal and trades in an exact ledger.",
)
app.add_typer(ledger, name="ledger")
for _command in (resume, replay, runs, show, compare, report, logs, mcp, doctor, trader):
    app.command()(_command)

Question = Annotated[str, typer.Argument(metavar="SENTENCE", help="The strategy, in Chinese or English.")]
Source = Annotated[
    str | None,
    typer.Option(
        help="sample (synthetic), tushare, or a file or folder. Default: the settings', else sample."
    ),
]
Start = Annotated[str | None, typer.Option(help="First date, YYYYMMDD; wins over the sentence.")]
End = Annotated[str | None, typer.Option(help="Last date, YYYYMMDD; wins over the sentence.")]
Symbols = Annotated[
    str | None, typer.Option(help="Codes, names or an index code, joined by commas; win over the sentence.")
]
Model = Annotated[str | None, typer.Option(help="A model's name, or keyless. Default: the settings'.")]
Out = Annotated[
    Path | None,
    typer.Option(help="Folder of the runs; this one gets a folder in it. Default: the settings' runs_dir."),
]
Headless = Annotated[
    bool, typer.Option(help="Ask nothing: take the documented defaults and list them as assumptions.")
]
Confirm = Annotated[
    bool, typer.Option("--confirm", help="Show what was understood, and ask before anything is traded.")
]
Budget = Annotated[
    str | None, typer.Option(help="Limits on model calls, like calls=100,prompt_tokens=200000,money=2.5.")
]
SessionBudget = Annotated[str | None, typer.Option(help="The same for each session.")]


@app.command()
def run(  # noqa: PLR0917 - typer reads options from the parameters
    question: Question,
    source: Source = None,
    start: Start = None,
    end: End = None,
    symbols: Symbols = None,
    cash: Annotated[float, typer.Option(help="Initial cash, in the market's currency.")] = 1_000_000,
    market: Annotated[
        Literal["cn", "us"] | None,
        typer.Option(
            help="cn: mainland China's rules and fees by date. us: US stocks. Default: by the codes.",
            show_default=False,
        ),
    ] = None,
    slippage_bps: Annotated[
        float, typer.Option(help="Slippage of each fill, in hundredths of a percent of its amount.")
    ] = 0,
    confirm: Confirm = False,
    approve: Annotated[bool, typer.Option(help="Ask before each session's orders are sent.")] = False,
    fund: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE=KIND", help="Kind of a mainland fund whose code does not tell; repeatable."
        ),
    ] = None,
    decider: DeciderPlace = None,
    model: Model = None,
    budget: Budget = None,
    session_budget: SessionBudget = None,
    out: Out = None,
    as_json: AsJson = False,
    headless: Headless = False,
    debug: Debug = False,
) -> None:
    """Turn a sentence into a signal and trade it in a simulated account, session by session."""
    with usage_errors(debug=debug), quick_imports():
        settings = settings_with(budget, session_budget)
        if decider in {None, "signal_rule"}:
            start_code_process(settings)  # it starts while the rest is imported
        from quantgraph.runs import run_strategy

        more = {"approve": approve, "confirm": _confirmed(confirm, headless=headless)}
        spec = _specification(question, symbols, start=start, end=end, cash=cash, **more)
        rules, made = _rules(market, slippage_bps, fund or []), decider_of(decider)
    with shown_run(question, as_json=as_json, headless=headless, debug=debug) as shown:
        live = replace(shown.live, settings=settings)
        shown.result = run_strategy(
            replace(spec, rules=rules),
            source=source,
            decider=made,
            model=model,
            slippage_bps=0 if rules else slippage_bps,
            out=out,
            resources=live,
        )


@app.command()
def signal(  # noqa: PLR0917
    question: Question,
    source: Source = None,
    start: Start = None,
    end: End = None,
    symbols: Symbols = None,
    confirm: Confirm = False,
    model: Model = None,
    budget: Budget = None,
    session_budget: SessionBudget = None,
    out: Out = None,
    as_json: AsJson = False,
    headless: Headless = False,
    debug: Debug = False,
) -> None:
    """Turn a sentence into a validated signal and the strategy that makes it, without trading."""
    with usage_errors(debug=debug), quick_imports():
        settings = settings_with(budget, session_budget)
        start_code_process(settings)
        from quantgraph.runs import run_strategy

        more = {"trade": False, "confirm": _confirmed(confirm, headless=headless)}
        spec = _specification(question, symbols, start=start, end=end, **more)
    with shown_run(question, as_json=as_json, headless=headless, debug=debug) as shown:
        live = replace(shown.live, settings=settings)
        shown.result = run_strategy(spec, source=source, model=model, out=out, resources=live)


@app.command()
def audit(  # noqa: PLR0917
    strategy: Annotated[
        Path, typer.Argument(metavar="STRATEGY.py", help="A strategy as a run saves it, or a run's folder.")
    ],
    source: Annotated[
        str | None, typer.Option(help="sample, tushare, or a file or folder. Default: the settings'.")
    ] = None,
    symbols: Annotated[
        str | None, typer.Option(help="Codes, names or an index code, joined by commas. Default: all.")
    ] = None,
    start: Annotated[str | None, typer.Option(help="First date, YYYYMMDD. Default: the source's.")] = None,
    end: Annotated[str | None, typer.Option(help="Last date, YYYYMMDD. Default: the source's.")] = None,
    exhaustive: Annotated[bool, typer.Option(help="Prove every session, however long it takes.")] = False,
    said: Annotated[
        str | None, typer.Option(help="The sentence; its positions are held against the code's instead.")
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Prove that each row of a strategy's signal uses only what was known by then, or show where not.

    With ``--said``, show where the code does not do what the sentence says.
    """
    from quantgraph._util.texts import language_of
    from quantgraph.runs import read_strategy
    from quantgraph.runs.verification import audit_strategy

    data: dict[str, Any] = {"source": source, "symbols": symbols or (), "start": start, "end": end}
    if said is not None:
        _audit_said(strategy, said, data, as_json=as_json)
        return
    with usage_errors():
        verdict = audit_strategy(strategy, exhaustive=exhaustive or "auto", **data)
        language = language_of(read_strategy(strategy).about)
    if as_json:
        echo_json(verdict.as_json())
    else:
        echo(verdict.text(language))
    if not verdict.causal:
        raise typer.Exit(FAILED)


def _audit_said(strategy: Path, said: str, data: Mapping[str, Any], *, as_json: bool) -> None:
    """Show the findings of a strategy held against a sentence; status 3 if there was nothing to compare."""
    from dataclasses import asdict

    from quantgraph._util.texts import language_of, say
    from quantgraph.audit import issue_text
    from quantgraph.runs.verification import audit_said

    with usage_errors():
        held = audit_said(strategy, said, **data)
    language, why = language_of(said), held.not_compared
    found = [
        {name: value for name, value in asdict(finding).items() if value is not None}
        for finding in held.findings
    ]
    if as_json:
        reason = {} if why is None else {"why": why.text(language)}
        echo_json({"said": said, "compared": why is None, **reason, "findings": found})
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
    cash: float | None = None,
    **more: Any,
) -> RunSpec:
    from quantgraph.broker import Account
    from quantgraph.data.symbols import symbol_list
    from quantgraph.runs import RunSpec

    if not question.strip():
        raise BadOption(
            "SENTENCE is empty; describe a strategy, for example: "
            "quantgraph run 'all stocks, 5-day average crosses above the 20-day average, past year'"
        )
    if cash is not None:
        more["cash"] = Account.opening(cash).cash
    return RunSpec(
        question=question, symbols=symbol_list(symbols or ()), start=start or "", end=end or "", **more
    )


def _confirmed(confirm: bool, *, headless: bool) -> bool:
    if confirm and headless:
        raise BadOption("--confirm asks and --headless asks nothing; give one of them", parameter="confirm")
    return confirm


def _rules(market: str | None, slippage_bps: float, funds: Sequence[str]) -> Rulebook | None:
    """The rules that the options say; None leaves them to the codes."""
    from quantgraph.market import Rulebook

    if market == "us" and funds:
        raise BadOption(f"--fund {funds[0]}: the US market has no kinds of funds", parameter="fund")
    if market == "us":
        return Rulebook.us(slippage_bps=slippage_bps)
    if market is None and not funds:
        return None
    kinds: dict[str, Any] = dict(_pair(fund) for fund in funds)
    return Rulebook.mainland(slippage_bps=slippage_bps, funds=kinds)


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
        app(prog_name=_NAME)


@contextmanager
def _errors_in_one_line() -> Iterator[None]:
    before = signals.signal(signals.SIGINT, _interrupted)
    try:
        yield
    except BadOption as error:
        print_error(error, debug=False)
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
        if signals.getsignal(signals.SIGINT) is _interrupted:
            signals.signal(signals.SIGINT, before)


def _check_encoding(argument: str, name: str) -> None:
    """Refuse a text in UTF-8 that this Python was told to read otherwise, as it would paths in it."""
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


def _interrupted(*_: object) -> None:
    """Ctrl-C ends the command once: the clean-up is not interrupted again."""
    signals.signal(signals.SIGINT, signals.SIG_IGN)
    raise KeyboardInterrupt
