"""The command's entry: ``quantgraph run`` and ``quantgraph signal``, and where the others hang."""

from __future__ import annotations

import signal as signals
import sys
from collections.abc import Sequence
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph._util.input_limits import check_text
from quantgraph.cli.audit import audit
from quantgraph.cli.console import echo, echo_traceback, safe_streams
from quantgraph.cli.ledger_commands import app as ledger
from quantgraph.cli.replay import replay
from quantgraph.cli.resume import resume
from quantgraph.cli.run_command import CANCELLED, FAILED, WRONG_USAGE, print_error, print_status, run_and_show
from quantgraph.errors import BadOption, QuantGraphError

if TYPE_CHECKING:
    from quantgraph.market.rulebook import Rulebook

__all__ = ["app", "main"]

app = typer.Typer(
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
    rich_markup_mode=None,
    help="A sentence about a trading strategy becomes an audited signal and trades in an exact ledger.",
)
app.add_typer(ledger, name="ledger")
app.command()(audit)
app.command()(resume)
app.command()(replay)

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
AsJson = Annotated[
    bool, typer.Option("--json", help="Print the result as one JSON object and nothing else to stdout.")
]
Headless = Annotated[
    bool, typer.Option(help="Ask nothing: take the documented defaults and list them as assumptions.")
]
Budget = Annotated[
    str | None, typer.Option(help="Limits on model calls, like calls=100,prompt_tokens=200000,money=2.5.")
]
SessionBudget = Annotated[str | None, typer.Option(help="The same for each session.")]
Debug = Annotated[bool, typer.Option(help="Show a traceback when something goes wrong.")]


@app.command()
def run(  # noqa: PLR0917 - typer reads options from the parameters
    question: Question,
    source: Source = None,
    start: Start = None,
    end: End = None,
    symbols: Symbols = None,
    cash: Annotated[float, typer.Option(help="Initial cash, in the market's currency.")] = 1_000_000,
    market: Annotated[
        Literal["cn", "us"], typer.Option(help="cn: mainland China's rules and fees by date. us: US stocks.")
    ] = "cn",
    slippage_bps: Annotated[
        float, typer.Option(help="Slippage of each fill, in hundredths of a percent of its amount.")
    ] = 0,
    approve: Annotated[bool, typer.Option(help="Ask before each session's orders are sent.")] = False,
    fund: Annotated[
        list[str] | None,
        typer.Option(
            metavar="CODE=KIND", help="Kind of a mainland fund whose code does not tell; repeatable."
        ),
    ] = None,
    model: Model = None,
    budget: Budget = None,
    session_budget: SessionBudget = None,
    out: Out = None,
    as_json: AsJson = False,
    headless: Headless = False,
    debug: Debug = False,
) -> None:
    """Turn a sentence into a signal and trade it in a simulated account, session by session."""
    options = {
        "source": source,
        "start": start,
        "end": end,
        "symbols": _codes(symbols),
        "model": model,
        "budget": budget,
        "session_budget": session_budget,
        "out": out,
    }
    trading = {"cash": cash, "approve": approve, "book": (market, slippage_bps, fund or [])}
    _go(question, options | trading, as_json=as_json, headless=headless, debug=debug)


@app.command()
def signal(  # noqa: PLR0917
    question: Question,
    source: Source = None,
    start: Start = None,
    end: End = None,
    symbols: Symbols = None,
    model: Model = None,
    budget: Budget = None,
    session_budget: SessionBudget = None,
    out: Out = None,
    as_json: AsJson = False,
    headless: Headless = False,
    debug: Debug = False,
) -> None:
    """Turn a sentence into a validated signal and the strategy that makes it, without trading."""
    options = {
        "source": source,
        "start": start,
        "end": end,
        "symbols": _codes(symbols),
        "model": model,
        "budget": budget,
        "session_budget": session_budget,
        "out": out,
    }
    _go(question, {**options, "trade": False}, as_json=as_json, headless=headless, debug=debug)


@app.callback(invoke_without_command=True)
def about(version: Annotated[bool, typer.Option("--version", help="Show the version.")] = False) -> None:
    """Say which version this is."""
    if version:
        from importlib.metadata import version as installed

        echo(f"quantgraph {installed('quantgraph')}")
        raise typer.Exit


def _codes(text: str | None) -> list[str]:
    return [code for code in (text or "").replace("，", ",").split(",") if code.strip()]


def _go(question: str, options: dict[str, Any], *, as_json: bool, headless: bool, debug: bool) -> None:
    from quantgraph.runs import run_strategy
    from quantgraph.settings import load_settings

    try:
        if not question.strip():
            raise BadOption(
                "SENTENCE is empty; describe a strategy, for example: "
                "quantgraph run 'all stocks, 5-day average crosses above the 20-day average, past year'"
            )
        if "book" in options:
            options["rules"] = _rules(*options.pop("book"))
        budgets = {name: options.pop(name) for name in ("budget", "session_budget")}
        options["settings"] = load_settings(**{name: text for name, text in budgets.items() if text})
    except QuantGraphError as error:
        print_error(error, debug=debug)
        raise typer.Exit(WRONG_USAGE) from None
    run_and_show(
        question, partial(run_strategy, question, **options), as_json=as_json, headless=headless, debug=debug
    )


def _rules(market: str, slippage_bps: float, funds: Sequence[str]) -> Rulebook:
    from quantgraph.market.rulebook import Rulebook

    if market == "us":
        if funds:
            raise BadOption(f"--fund {funds[0]}: the US market has no kinds of funds", parameter="fund")
        return Rulebook.us(slippage_bps=slippage_bps)
    kinds: dict[str, Any] = dict(_pair(fund) for fund in funds)
    return Rulebook.mainland(slippage_bps=slippage_bps, funds=kinds)


def _pair(fund: str) -> tuple[str, str]:
    code, sign, kind = fund.partition("=")
    if not sign:
        raise BadOption(
            f"--fund {fund}; CODE=KIND is wanted, for example 159915.SZ=stock_20", parameter="fund"
        )
    return code.strip().upper(), kind.strip()


def main() -> None:
    """Entry point. What is not ours is shown in one line too, with ``--debug`` behind a traceback."""
    with safe_streams():
        _main()


def _main() -> None:
    before = signals.signal(signals.SIGINT, _interrupted)
    try:
        for number, argument in enumerate(sys.argv[1:], 1):
            check_text(argument, f"argument {number}")
        app()
    except BadOption as error:
        print_error(error, debug=False)
        sys.exit(WRONG_USAGE)
    except KeyboardInterrupt:
        print_status("cancelled")
        sys.exit(CANCELLED)
    except Exception as error:  # noqa: BLE001 - the last door
        debug = "--debug" in sys.argv
        if debug:
            echo_traceback(error)
        hint = "" if debug or sys.argv[1:2] == ["ledger"] else " (--debug shows where)"
        print_status(f"{type(error).__name__}: {' '.join(str(error).split())[:300]}{hint}")
        sys.exit(FAILED)
    finally:
        if signals.getsignal(signals.SIGINT) is _interrupted:
            signals.signal(signals.SIGINT, before)


def _interrupted(*_: object) -> None:
    """Ctrl-C ends the command once: what cleans up after it is not interrupted again."""
    signals.signal(signals.SIGINT, signals.SIG_IGN)
    raise KeyboardInterrupt
