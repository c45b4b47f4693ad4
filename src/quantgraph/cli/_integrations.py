"""``quantgraph trader``: the models of AI-Trader's config file trade by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer
from rich.table import Table

from quantgraph._util.texts import SOURCES, Language, Note, language_of, say
from quantgraph.cli._console import (
    CANCELLED,
    FAILED,
    AsJson,
    Debug,
    SafeConsole,
    echo_json,
    literal,
    plural,
    print_status,
    usage_errors,
)
from quantgraph.cli._run import settings_with, showing_run, stop_signals
from quantgraph.errors import QuantGraphError

if TYPE_CHECKING:
    from quantgraph.integrations.ai_trader import BaseAgent, TraderConfig, TraderModel
    from quantgraph.settings import Settings


_HEADINGS = (
    Note(zh="模型", en="model"),
    Note(zh="结束", en="end"),
    Note(zh="交易日", en="sessions"),
    Note(zh="期末资产", en="value"),
    Note(zh="收益", en="return"),
)
_NUMBERS = {2, 3, 4}


def trader(  # noqa: PLR0917 - typer reads options from the parameters
    config: Annotated[
        Path, typer.Argument(metavar="[CONFIG]", help="A config file of AI-Trader, JSON.")
    ] = Path("configs/default_config.json"),
    source: Annotated[str | None, typer.Option(help=f"{SOURCES}. Default: the settings'.")] = None,
    signature: Annotated[
        str | None, typer.Option(metavar="NAME", help="Trade this model alone. Default: all enabled ones.")
    ] = None,
    symbols: Annotated[
        str | None, typer.Option(help="Codes joined by commas, or NASDAQ-100. Default: all of the source.")
    ] = None,
    rules: Annotated[
        Literal["market", "zero-cost"],
        typer.Option(help="Rules and fees of the config's market, or the same without fees."),
    ] = "market",
    prompt: Annotated[
        str | None, typer.Option(metavar="FILE", help="A text in place of the shipped prompt.")
    ] = None,
    memory: Annotated[
        bool, typer.Option(help="Show the model its last five sessions: trades, reasons, outcomes.")
    ] = True,
    news: Annotated[bool, typer.Option(help="Let the model search the news that the source has.")] = True,
    out: Annotated[
        Path | None, typer.Option(help="Folder of the signatures' folders. Default: the config's log_path.")
    ] = None,
    log_form: Annotated[
        Literal["messages", "ai-trader"],
        typer.Option(help="messages: role and content a line. ai-trader: signature and new_messages."),
    ] = "messages",
    with_price: Annotated[
        bool, typer.Option("--with-price", help="Write the price of each trade into position.jsonl.")
    ] = False,
    budget: Annotated[
        str | None, typer.Option(help="Limits on a run's model calls, like calls=100,prompt_tokens=200000.")
    ] = None,
    session_budget: Annotated[str | None, typer.Option(help="The same for each session.")] = None,
    parallel: Annotated[
        int, typer.Option(min=1, metavar="N", help="Models that trade at the same time, each its own run.")
    ] = 1,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Let the enabled models of AI-Trader's config trade by themselves, also to a later end than before.

    Each has its run, and a folder with position/position.jsonl and log/DATE/log.jsonl; a table shows all
    at the end.
    """
    with usage_errors(debug=debug):
        from quantgraph.data.symbols import symbol_list
        from quantgraph.integrations.ai_trader import TRADER_QUESTION, read_trader_config
        from quantgraph.market import Rulebook

        read = read_trader_config(config)
        chosen = read.chosen(signature)
        settings = settings_with(budget, session_budget)
        options = {
            "source": source,
            "prompt": prompt,
            "memory": memory,
            "news": news,
            "log_form": log_form,
            "with_price": with_price,
            "log_path": out or read.log_path,
            "stock_symbols": symbol_list(symbols or ()) or None,
            "rules": Rulebook.zero_cost(read.market) if rules == "zero-cost" else None,
        }
    language = language_of(TRADER_QUESTION[read.market])
    for key in read.without_effect:
        print_status(say(language, zh=f"{key} 在这里不起作用", en=f"{key} has no effect here"))
    again = f"quantgraph trader {config}" + (f" --signature {signature}" if signature else "")
    shown = {"quiet": as_json, "debug": debug, "again": again}
    rows: list[dict[str, Any]] = []
    statuses: list[int] = []
    several = [_Traded(read, model, language) for model in chosen]
    if parallel > 1 and _trade_at_once(several, parallel, settings, options):
        for traded in several:
            traded.print_done()
        raise typer.Exit(CANCELLED)
    for traded in several:
        if len(chosen) > 1:
            print_status(f"{traded.signature}:")
        statuses.append(traded.run(settings, options, shown))
        rows.append(traded.row())
        if statuses[-1] == CANCELLED:
            break
    if as_json:
        echo_json({"models": rows})
    elif len(chosen) > 1:
        _print_table(rows, language)
    raise typer.Exit(_exit_status(statuses))


def _trade_at_once(
    several: Sequence[_Traded], parallel: int, settings: Settings, options: Mapping[str, Any]
) -> bool:
    """Trade runs side by side, which are shown afterwards; whether they were told to stop.

    A run that fails is left to that: it is tried once more there, and says why.
    """
    from quantgraph.runtime import Resources

    with stop_signals() as stop, ThreadPoolExecutor(parallel, thread_name_prefix="model") as pool:
        live = Resources(settings=settings, control=stop.control)
        for _ in pool.map(lambda each: each.trade(resources=live, **options), several):
            pass
    return stop.signalled


def _exit_status(statuses: Sequence[int]) -> int:
    """The status of all runs, if they are alike."""
    if statuses[-1] == CANCELLED:
        return CANCELLED
    return statuses[0] if len(set(statuses)) == 1 else FAILED


class _Traded:
    """What became of one model."""

    def __init__(self, config: TraderConfig, model: TraderModel, language: Language) -> None:
        self._config, self._model, self._language = config, model, language
        self._agent: BaseAgent | None = None
        self._error: str | None = None

    def run(self, settings: Settings, options: Mapping[str, Any], shown: Mapping[str, Any]) -> int:
        """Begin the model's run or go on with it, and return its exit status."""
        from quantgraph.integrations.ai_trader import TRADER_QUESTION

        question = TRADER_QUESTION[self._config.market]
        try:
            with showing_run(question, as_json=False, headless=True, **shown) as run:
                live = replace(run.live, settings=settings)
                run.result = self._result(resources=live, **options)
        except typer.Exit as ended:
            return ended.exit_code
        finally:
            self.print_done()
        return 0

    @property
    def signature(self) -> str:
        """The model's."""
        return self._model.signature

    def trade(self, **options: Any) -> None:
        """Begin the model's run or go on with it; a failure is kept."""
        with suppress(QuantGraphError):
            self._result(**options)

    def _result(self, **options: Any) -> dict[str, Any]:
        try:
            self._agent = _agent(self._config, self._model, **options)
            return self._agent.run_for_dates()
        except QuantGraphError as error:
            self._error = error.line
            raise

    def print_done(self) -> None:
        """Say what is done, whatever became of the run."""
        agent = self._agent
        for note in agent.notes if agent else ():
            print_status(note.text(self._language))
        if agent is None or agent.run_dir is None:
            return
        done = agent.traded_dates
        line = say(
            self._language,
            zh=f"已交易 {len(done)} 个交易日" + (f"，{done[0]} 至 {done[-1]}；" if done else "；"),
            en=f"{plural(len(done), 'session')} traded" + (f", {done[0]} to {done[-1]}; " if done else "; "),
        )
        print_status(f"{agent.signature}: {line}{agent.files.position_file}")

    def row(self) -> dict[str, Any]:
        """The model's row, as JSON: what is not known is None."""
        from quantgraph.runs import read_result

        agent = self._agent
        folder = agent.run_dir if agent else None
        result = (read_result(folder) if folder else None) or {}
        account = result.get("account") or {}
        return {
            "signature": self._model.signature,
            "ended_because": None if self._error else result.get("ended_because"),
            "sessions": len(agent.traded_dates) if agent else 0,
            "final_value": account.get("final_value"),
            "return": account.get("return"),
            "error": self._error or result.get("error"),
            "position_file": str(agent.files.position_file) if agent else None,
            "run_dir": str(folder) if folder else None,
        }


def _agent(config: TraderConfig, model: TraderModel, **options: Any) -> BaseAgent:
    from quantgraph.integrations.ai_trader import BaseAgent

    key = model.openai_api_key
    return BaseAgent(
        model.signature,
        model.basemodel,
        max_steps=config.max_steps,
        max_retries=config.max_retries,
        base_delay=config.base_delay,
        initial_cash=config.initial_cash,
        init_date=config.init_date,
        end_date=config.end_date,
        openai_base_url=model.openai_base_url,
        openai_api_key=key.get_secret_value() if key else None,
        market=config.market,
        **options,
    )


def _print_table(rows: Sequence[Mapping[str, Any]], language: Language) -> None:
    """Print the state of each model, and why one is not done, on stdout."""
    console = SafeConsole()
    table = Table.grid(padding=(0, 2))
    for number, heading in enumerate(_HEADINGS):
        table.add_column(literal(heading.text(language)), justify="right" if number in _NUMBERS else "left")
    table.show_header = True
    for row in rows:
        value, gain = row["final_value"], row["return"]
        cells = (
            row["signature"],
            row["ended_because"] or "failed",
            str(row["sessions"]),
            "-" if value is None else f"{value:,.2f}",
            "-" if gain is None else f"{gain:.2%}",
        )
        table.add_row(*map(literal, cells))
    console.print(table)
    for row in rows:
        if row["error"]:  # longer than a column
            console.print(literal(f"{row['signature']}: {row['error']}"), soft_wrap=True)
