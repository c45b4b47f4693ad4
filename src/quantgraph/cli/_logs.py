"""``quantgraph logs``: what an agent did in a run, step by step."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from quantgraph._util.texts import language_of, say
from quantgraph.cli._console import AsJson, SafeConsole, echo, echo_json, plural
from quantgraph.cli._ledger import LedgerPlace, RunName, RunsFolder, join_names, open_ledger
from quantgraph.errors import BadOption

if TYPE_CHECKING:
    from quantgraph.broker.ledger import Ledger, LoggedExecution

_WIDTHS = (10, 9, 4, 11, 12, 12)
"""Least widths: a session, a symbol, a step and a type are shown whole."""

_WHAT_WIDTH, _RESULT_WIDTH = 60, 60
_FILE_WIDTH = 170
"""Columns of a table that is not shown on a terminal: each step is one line of it."""


def logs(  # noqa: PLR0917 - typer reads options from the parameters
    run: RunName = None,
    step: Annotated[int | None, typer.Option(help="Only this step of each execution, from 1.")] = None,
    symbol: Annotated[str | None, typer.Option(help="Only this symbol, such as 600519.SH.")] = None,
    session: Annotated[str | None, typer.Option(metavar="YYYYMMDD", help="Only this session.")] = None,
    ledger: LedgerPlace = None,
    out: RunsFolder = None,
    as_json: AsJson = False,
    draw: Annotated[Path | None, typer.Option(help="Draw one execution to this file, FILE.svg.")] = None,
) -> None:
    """Show step by step what a run's agent did: its tools, calculations and decisions."""
    with open_ledger(run, ledger, out) as (book, run_id, _):
        if not book.has_run(run_id):
            raise BadOption(
                f"RUN={run_id!r} is not in this ledger; it has {join_names(book.runs())}", parameter="run"
            )
        executions = _selected_executions(book, run_id, session=session, symbol=symbol, step=step)
        if draw is not None:
            _draw(executions, draw)
    if as_json:
        echo_json({"run_id": run_id, "executions": [_as_json(each) for each in executions]})
    elif draw is not None:
        echo(str(draw))
    elif executions:
        _print(run_id, executions)
    else:
        echo(f"{run_id}: no execution log; its decider keeps no steps, or no session was decided yet")


def _selected_executions(
    book: Ledger, run_id: str, *, session: str | None, symbol: str | None, step: int | None
) -> list[LoggedExecution]:
    """Return the executions that the options name, with the steps that they name."""
    from quantgraph.market import session_of

    executions = book.executions(run_id)
    if not executions:
        return []
    if session is not None:
        day = session_of(session)
        there = [f"{each.session:%Y%m%d}" for each in executions]
        executions = [each for each in executions if each.session == day]
        _check_any(executions, "--session", session, there)
    if symbol is not None:
        there = [each.symbol for each in executions]
        wanted = symbol.casefold()  # a bare code too
        executions = [
            each
            for each in executions
            if wanted in {each.symbol.casefold(), each.symbol.casefold().partition(".")[0]}
        ]
        _check_any(executions, "--symbol", symbol, there)
    if step is not None:
        last = max(one.step for each in executions for one in each.steps)
        executions = [
            replace(each, steps=tuple(one for one in each.steps if one.step == step)) for each in executions
        ]
        executions = [each for each in executions if each.steps]
        _check_any(executions, "--step", step, [f"1 to {last}"])
    return executions


def _check_any(found: Sequence[object], option: str, value: object, there: Iterable[str]) -> None:
    name = option.strip("-")
    if not found:
        raise BadOption(
            f"{option} {value}: the log has no such {name}; there is {join_names(there)}", parameter=name
        )


def _draw(executions: Sequence[LoggedExecution], path: Path) -> None:
    if len(executions) != 1:
        remedy = "name one by --session and --symbol" if executions else "the run has no execution log"
        raise BadOption(
            f"--draw {path}: it draws one execution, and {len(executions)} are selected; {remedy}",
            parameter="draw",
        )
    from quantgraph.agents.execution import draw_execution

    draw_execution(executions[0], language=language_of(executions[0].rule)).save(path)


def _as_json(execution: LoggedExecution) -> dict[str, Any]:
    names = ("step", "action_type", "action", "result", "timestamp")
    return {
        "execution_id": execution.execution_id,
        "session": f"{execution.session:%Y%m%d}",
        "symbol": execution.symbol,
        "rule_name": execution.rule_name,
        "rule": execution.rule,
        "steps": [{name: getattr(step, name) for name in names} for step in execution.steps],
    }


def _print(run_id: str, executions: Sequence[LoggedExecution]) -> None:
    from rich.box import SIMPLE
    from rich.table import Table

    from quantgraph.agents.execution import cut, step_texts

    console = SafeConsole()
    language = language_of(executions[0].rule)
    if not console.is_terminal:
        console.width = max(console.width, _FILE_WIDTH)
    steps = sum(len(each.steps) for each in executions)
    console.print(
        f"{run_id}: {plural(len(executions), 'execution')}, {plural(steps, 'step')}", soft_wrap=True
    )
    table = Table(box=SIMPLE, pad_edge=False, padding=(0, 1, 0, 0))
    headings = say(language, zh="交易日 代码 步骤 类型 内容 结果", en="session symbol step type what result")
    for heading, width in zip(headings.split(), _WIDTHS, strict=True):
        table.add_column(heading, no_wrap=True, overflow="ellipsis", min_width=width)
    for execution in executions:
        for text in step_texts(execution, language):
            beside = f"TA-Lib: {text.talib}" if text.talib else ""
            table.add_row(
                f"{execution.session:%Y-%m-%d}",
                execution.symbol,
                str(text.step),
                text.type,
                cut(": ".join(filter(None, (text.what, text.inputs or text.reasoning))), _WHAT_WIDTH),
                cut(" | ".join(filter(None, (beside, text.result))), _RESULT_WIDTH),
            )
    console.print(table)
