"""The trader's day as a subgraph."""

from __future__ import annotations

from typing import Any, Final

from langgraph.graph.state import CompiledStateGraph

from quantgraph.agents._model_decider import loop_graph, scratch_context
from quantgraph.agents.trader._day import TraderInput, TraderLoop, TraderOptions, TraderState
from quantgraph.agents.trader._prompt import universe
from quantgraph.broker.accounts import order_from_json
from quantgraph.data.symbols import rules_of
from quantgraph.errors import BadOption
from quantgraph.llm import Model, role_model
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources, merge_resources, open_resources
from quantgraph.tools import tools_of

CASH: Final = 10_000
"""Cash of an account where none is given."""
_OF_A_RUN = ("memory", "tools", "allow_leaky_tools", "news", "allow_leaky_search")
CompiledTraderGraph = CompiledStateGraph[TraderState, None, TraderInput, TraderState]


def create_trader_subgraph(
    options: TraderOptions | None = None,
    *,
    rules: Rulebook | None = None,
    model: Model | None = None,
    resources: Resources | None = None,
) -> CompiledTraderGraph:
    """Compiled trader: it trades one session's open on a scratch account, and returns its orders.

    It works without a key: the keyless planner answers by a rule. For the state see :class:`TraderState`.

    Parameters
    ----------
    options
        See :class:`.TraderAgent`; memory, news and other tools belong to a run.
    rules
        The market's rules. Default: those of the market whose codes the data have.
    model, resources
        See :class:`~quantgraph.runtime.Resources`: the model, and the store of ``data_ref``.

    Raises
    ------
    BadOption
        If an option is of a run.
    """
    chosen = options or TraderOptions()
    for name in _OF_A_RUN:
        if getattr(chosen, name) != getattr(TraderOptions, name):
            raise BadOption(
                f"{name} is an option of a run, of TraderAgent; the subgraph has one day", parameter=name
            )
    opened = open_resources(merge_resources(resources, model=model))
    settings = opened.settings.with_model("trader", chosen.model_settings["trader"])

    def loop_of(state: TraderState) -> TraderLoop:
        """The loop of a state's day; its market has the orders so far."""
        context = scratch_context(
            state,
            opened,
            lambda view: rules or rules_of(opened.source, universe(view)),
            cash=CASH,
            trades=True,
        )
        for each in state.get("submitted", ()):
            context.session.submit(order_from_json(each))
        return chosen.loop(
            model=role_model("trader", model=opened.model, settings=settings),
            context=context,
            tools=tools_of("trader"),
            rule=state.get("rule", ""),
            language=state.get("language", "en"),
        )

    return loop_graph(TraderLoop, loop_of, _fresh, name="trader", schemas=(TraderState, TraderInput))


def _fresh() -> dict[str, Any]:
    return {
        "conversation": [],
        "step": 0,
        "reply": None,
        "results": [],
        "calls": [],
        "call_count": 0,
        "log": [],
        "ended": None,
        "error": "",
        "final_text": "",
    }
