"""``quantgraph trader``: a model of AI-Trader's config file trades, day by day."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from quantgraph.cli.console import AsJson, Debug, counted, print_status, usage_errors
from quantgraph.cli.run_command import execute_and_show

if TYPE_CHECKING:
    from quantgraph.runs import BaseAgent, TraderConfig, TraderModel
    from quantgraph.runtime import Resources

__all__ = ["trader"]


def trader(  # noqa: PLR0917 - typer reads options from the parameters
    config: Annotated[
        Path, typer.Argument(metavar="[CONFIG]", help="A config file of AI-Trader, JSON.")
    ] = Path("configs/default_config.json"),
    source: Annotated[
        str | None, typer.Option(help="sample, tushare, or a file or folder. Default: the settings'.")
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(metavar="NAME", help="Signature or name of the model, if several are enabled."),
    ] = None,
    symbols: Annotated[
        str | None, typer.Option(help="Codes joined by commas. Default: all of the source.")
    ] = None,
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
        str | None, typer.Option(help="Limits on model calls, like calls=100,prompt_tokens=200000,money=2.5.")
    ] = None,
    session_budget: Annotated[str | None, typer.Option(help="The same for each session.")] = None,
    as_json: AsJson = False,
    debug: Debug = False,
) -> None:
    """Let one model of AI-Trader's config trade a portfolio by itself, session by session.

    Its folder has position/position.jsonl, log/DATE/log.jsonl and the run. The same command goes on with it.
    """
    with usage_errors(debug=debug):
        from quantgraph.runs import read_trader_config
        from quantgraph.settings import load_settings

        read = read_trader_config(config)
        chosen = read.model(model)
        limits = {"budget": budget, "session_budget": session_budget}
        settings = load_settings(**{name: text for name, text in limits.items() if text})
        options = {"source": source, "log_form": log_form, "with_price": with_price}
        codes = [code.strip() for code in (symbols or "").replace("，", ",").split(",") if code.strip()]
        for key in read.without_effect:
            print_status(f"{key} has no effect here")
    made: list[BaseAgent] = []

    def work(live: Resources) -> dict[str, Any]:
        agent = _agent(
            read,
            chosen,
            log_path=out or read.log_path,
            stock_symbols=codes or None,
            resources=replace(live, settings=settings),
            **options,
        )
        made.append(agent)
        return agent.run_for_dates()

    again = f"quantgraph trader {config}" + (f" --model {chosen.signature}" if model else "")
    try:
        execute_and_show(chosen.signature, work, as_json=as_json, headless=True, debug=debug, again=again)
    finally:
        for agent in made:
            _print_done(agent)


def _agent(config: TraderConfig, model: TraderModel, **options: Any) -> BaseAgent:
    from quantgraph.runs import BaseAgent

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


def _print_done(agent: BaseAgent) -> None:
    """Say what is done, whatever became of the run."""
    for note in agent.notes:
        print_status(str(note))
    done = agent.traded_dates
    if agent.run_dir is None:
        return
    upto = f", {done[0]} to {done[-1]}" if done else ""
    print_status(
        f"{agent.signature}: {counted(len(done), 'session')} traded{upto}; {agent.files.position_file}"
    )
