"""Chat models that misbehave, each in one way and always the same: what a graph has to withstand.

They speak in a fitting role as the keyless planner would, and then spoil it. All bind tools and stream; all
count their calls (``len(model.calls)``); :meth:`.OpenAIStub.serving` puts each behind HTTP.

>>> sorted(MISBEHAVING)[:4]
['apologises', 'bad_json', 'dsml', 'empty']
>>> MISBEHAVING["apologises"]().invoke("Buy or sell?").text[:30]
'I apologise for the confusion.'
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from functools import partial
from types import MappingProxyType

from langchain_core.language_models import BaseChatModel

from quantgraph.errors import BadOption
from quantgraph.llm.planner import KeylessPlanner
from quantgraph.settings import ROLES, Role, check_role
from quantgraph.testing.models import format_faults, semantic_faults
from quantgraph.testing.models.faulty_model import FaultyChatModel, Spoil
from quantgraph.testing.models.semantic_faults import INJECTIONS

__all__ = ["INJECTIONS", "MISBEHAVING", "flaky_model", "misbehaving_in", "slow_model"]

_SPOILERS: dict[str, Spoil] = {
    spoil.__name__: spoil
    for spoil in (
        format_faults.prose,
        format_faults.bad_json,
        format_faults.truncated,
        format_faults.empty,
        format_faults.null_strings,
        format_faults.wrong_types,
        format_faults.numbers_as_strings,
        format_faults.strings_as_numbers,
        format_faults.thinking_blocks,
        format_faults.thinking_text,
        format_faults.never_stops_thinking,
        format_faults.dsml,
        format_faults.xml_calls,
        semantic_faults.repeats_itself,
        semantic_faults.ping_pong,
        semantic_faults.unknown_tools,
        semantic_faults.invents_symbols,
        semantic_faults.apologises,
        semantic_faults.refuses,
        semantic_faults.never_content,
        semantic_faults.obeys_data,
    )
}


def slow_model(seconds: float = 0.02, *, sleep: Callable[[float], None] = time.sleep) -> FaultyChatModel:
    """Right answers, each after ``seconds`` by the clock ``sleep``."""
    return FaultyChatModel(semantic_faults.slow(partial(sleep, seconds)), model_name="slow")


def flaky_model(failures: int = 1) -> FaultyChatModel:
    """A ``ConnectionError`` ``failures`` times before each right answer."""
    return FaultyChatModel(semantic_faults.flaky(failures), model_name="flaky")


MISBEHAVING: Mapping[str, Callable[[], BaseChatModel]] = MappingProxyType(
    {name: partial(FaultyChatModel, spoil, model_name=name) for name, spoil in _SPOILERS.items()}
    | {"slow": slow_model, "flaky": flaky_model}
)
"""Factories by name; each call gives a model of its own.

What one does is told by the function of its name: those that spoil the form of an answer are in
:mod:`quantgraph.testing.models.format_faults`, those that spoil its sense in
:mod:`quantgraph.testing.models.semantic_faults`.
"""


def misbehaving_in(role: Role, model: str | BaseChatModel) -> dict[Role, BaseChatModel]:
    """A cast for ``create_signal_subgraph(model=...)``: one misbehaves, the keyless planner plays the others.

    Parameters
    ----------
    role
        In which.
    model
        A name in :data:`MISBEHAVING`, or a chat model.

    Raises
    ------
    BadOption
        If there is no such role, or no such model.

    Examples
    --------
    >>> cast = misbehaving_in("validation", "prose")
    >>> cast["validation"].model_name, cast["reflection"].name
    ('prose', 'keyless planner')
    """
    if isinstance(model, str) and model not in MISBEHAVING:
        raise BadOption(f"model={model!r}; valid are {', '.join(MISBEHAVING)}", parameter="model")
    bad = MISBEHAVING[model]() if isinstance(model, str) else model
    return {**{each: KeylessPlanner() for each in ROLES}, check_role(role): bad}
