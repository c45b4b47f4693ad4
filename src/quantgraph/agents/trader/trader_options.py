"""The options of the trader, checked once, and the desk of a day that they make."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, get_args

from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, AnyMessage
from langchain_core.tools import BaseTool

from quantgraph._util.texts import Language
from quantgraph.agents.trader.conversation import LEAST_WINDOW
from quantgraph.agents.trader.trader_prompt import get_agent_system_prompt
from quantgraph.agents.trader.trading_day import ResultsAs, TraderDesk
from quantgraph.errors import BadOption
from quantgraph.tools.decision_tools import DecisionTools

CASH: Final = 10_000
"""Cash of an account where none is given."""

_MOST_STEPS, _MOST_RETRIES = 200, 20
_MOST_WATCHED = 1_000


def no_step_kept(_step: int, _action: Mapping[str, Any], _result: Any) -> None:
    """Steps are kept by a run."""


@dataclass(frozen=True, kw_only=True)
class TraderOptions:
    """Options of a day, see :class:`.TraderAgent`.

    Raises
    ------
    BadOption
        If one is out of its range.
    """

    max_steps: int = 30
    max_retries: int = 3
    base_delay: float = 1.0
    tool_timeout: float = 30.0
    window: int = 60_000
    results_as: ResultsAs = "messages"
    watched: tuple[str, ...] = ()

    def __post_init__(self) -> None:
        _check_whole("max_steps", self.max_steps, 1, _MOST_STEPS)
        _check_whole("max_retries", self.max_retries, 1, _MOST_RETRIES)
        _check_whole("window", self.window, LEAST_WINDOW, None)
        for name, least in (("base_delay", "at least 0"), ("tool_timeout", "above 0")):
            value = getattr(self, name)
            is_number = not isinstance(value, bool) and isinstance(value, int | float)
            if not is_number or not 0 <= value < math.inf or (value == 0 and name == "tool_timeout"):
                raise BadOption(f"{name}={value!r:.40}; must be seconds, {least}", parameter=name)
        if self.results_as not in get_args(ResultsAs):
            raise BadOption(
                f"results_as={self.results_as!r:.40}; must be one of {', '.join(get_args(ResultsAs))}",
                parameter="results_as",
            )
        watched: object = self.watched
        if isinstance(watched, str) or not all(isinstance(each, str) for each in self.watched):
            raise BadOption(f"watched={watched!r:.60}; must be symbols", parameter="watched")
        if len(self.watched) > _MOST_WATCHED:
            raise BadOption(
                f"watched has {len(self.watched)} symbols; must be at most {_MOST_WATCHED}",
                parameter="watched",
            )
        object.__setattr__(self, "watched", tuple(self.watched))

    @property
    def identity(self) -> dict[str, Any]:
        """The options as plain JSON: a run is not continued with others."""
        names = ("max_steps", "max_retries", "base_delay", "tool_timeout", "window", "results_as")
        own = {"watched": list(self.watched)} if self.watched else {}
        return {**{name: getattr(self, name) for name in names}, **own}

    @property
    def model_settings(self) -> dict[str, Any]:
        """What the options fix of the settings of the model."""
        return {"max_attempts": self.max_retries, "retry_wait": float(self.base_delay)}

    def desk(
        self,
        *,
        model: BaseChatModel,
        context: DecisionTools,
        tools: Mapping[str, BaseTool],
        rule: str = "",
        language: Language = "en",
        remembered: str = "",
        keep: Callable[[int, Mapping[str, Any], Any], None] = no_step_kept,
    ) -> TraderDesk:
        """Return what the day of a context is worked with."""
        bound: Any = model.bind_tools(list(tools.values()))

        def ask(messages: Sequence[AnyMessage]) -> AIMessage:
            reply: AIMessage = bound.invoke(list(messages))
            return reply

        today = f"{context.as_of.session:%Y-%m-%d}"
        return TraderDesk(
            today=today,
            prompt=get_agent_system_prompt(
                today,
                context=context,
                rule=rule,
                language=language,
                watched=self.watched,
                remembered=remembered,
            ),
            ask=ask,
            tools=tools,
            context=context,
            keep=keep,
            max_steps=self.max_steps,
            results_as=self.results_as,
            window=self.window,
            tool_timeout=self.tool_timeout,
        )


def _check_whole(name: str, value: object, least: int, most: int | None) -> None:
    is_whole = isinstance(value, int) and not isinstance(value, bool)
    if is_whole and value >= least and (most is None or value <= most):  # type: ignore[operator]
        return
    upto = "" if most is None else f" to {most}"
    raise BadOption(f"{name}={value!r:.40}; must be a whole number from {least}{upto}", parameter=name)
