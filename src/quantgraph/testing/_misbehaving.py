"""Misbehaving chat models, each with one deterministic fault, for tests of what a graph withstands.

Apart from its fault a model replies like the keyless planner. All bind tools, stream and record their calls
(``model.calls``); :meth:`.OpenAIStub.serving` puts each behind HTTP.

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
from quantgraph.llm import KeylessPlanner
from quantgraph.settings import ROLES, Role, check_role
from quantgraph.testing import _faults as semantic_faults
from quantgraph.testing._faults import FORMAT_FAULTS, SEMANTIC_FAULTS
from quantgraph.testing._faulty import FaultyChatModel


def slow_model(seconds: float = 0.02, *, sleep: Callable[[float], None] = time.sleep) -> FaultyChatModel:
    """Model with correct replies, each after ``sleep(seconds)``."""
    return FaultyChatModel(semantic_faults.slow(partial(sleep, seconds)), model_name="slow")


def flaky_model(failures: int = 1) -> FaultyChatModel:
    """Model that raises ``ConnectionError`` ``failures`` times before each correct reply."""
    return FaultyChatModel(semantic_faults.flaky(failures), model_name="flaky")


MISBEHAVING: Mapping[str, Callable[[], BaseChatModel]] = MappingProxyType(
    {
        name: partial(FaultyChatModel, fault, model_name=name)
        for name, fault in (FORMAT_FAULTS | SEMANTIC_FAULTS).items()
    }
    | {"slow": slow_model, "flaky": flaky_model}
)
"""Factories by name; each call makes a new model.

A fault is documented by the function of its name in :mod:`quantgraph.testing._faults` or
:mod:`quantgraph.testing._faults`.
"""


def misbehaving_in(role: Role, model: str | BaseChatModel) -> dict[Role, BaseChatModel]:
    """Models by role for ``create_signal_subgraph(model=...)``: one misbehaves, the others are keyless.

    Parameters
    ----------
    role
        Role of the misbehaving model.
    model
        A name in :data:`MISBEHAVING`, or a chat model.

    Raises
    ------
    BadOption
        If the role or the model is unknown.

    Examples
    --------
    >>> models = misbehaving_in("validation", "prose")
    >>> models["validation"].model_name, models["reflection"].name
    ('prose', 'keyless planner')
    """
    if isinstance(model, str) and model not in MISBEHAVING:
        raise BadOption(f"model={model!r}; valid are {', '.join(MISBEHAVING)}", parameter="model")
    misbehaving = MISBEHAVING[model]() if isinstance(model, str) else model
    return {**{each: KeylessPlanner() for each in ROLES}, check_role(role): misbehaving}
