"""The model of a role as the graphs use it: recorded, within its budget, asked again, and calling tools."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING

from langchain_core.language_models import BaseChatModel

from quantgraph.llm.cache import reply_cache
from quantgraph.llm.capabilities import LadderChatModel
from quantgraph.llm.models import get_light_llm, get_llm
from quantgraph.llm.prices import load_prices
from quantgraph.llm.recorded_model import RecordedChatModel
from quantgraph.llm.retry_policy import CallPolicy
from quantgraph.settings import Role, Settings

if TYPE_CHECKING:
    from pydantic import BaseModel


__all__ = ["Model", "role_model"]

Model = str | BaseChatModel | Mapping[Role, str | BaseChatModel]
"""A chat model, a model's name, or either by role."""


def role_model(
    role: Role,
    *,
    model: Model | None,
    settings: Settings,
    light: bool = False,
    answer: type[BaseModel] | None = None,
) -> BaseChatModel:
    """The model of a role, see :func:`~quantgraph.llm.get_llm`, in its wrapper and on its ladder.

    Parameters
    ----------
    light
        Whether it is simple work, see :func:`~quantgraph.llm.get_light_llm`.
    answer
        What its last reply has to be: a JSON object of this kind. None means text.

    Raises
    ------
    BadFile
        If the file of prices is none.
    """
    choose = get_light_llm if light else get_llm
    recorded = RecordedChatModel(
        choose(role, model=model, settings=settings),
        role=role,
        policy=CallPolicy(max_attempts=settings.max_attempts),
        prices=load_prices(settings.prices),
        cache=reply_cache(settings.cache_dir, settings.llm_cache, settings.llm_cache_ttl_hours),
        node_seconds=settings.node_seconds,
    )
    return LadderChatModel(recorded, rung=settings.model_rung, answer=answer, cache_dir=settings.cache_dir)
