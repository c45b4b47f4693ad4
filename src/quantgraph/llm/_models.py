"""The model of each role: ``ChatOpenAI`` with a key, the keyless planner without one.

Building a model never touches the network.
"""

from __future__ import annotations

import re
import socket
from collections.abc import Mapping
from typing import Any
from urllib.parse import urlsplit

from langchain_core.language_models import BaseChatModel
from langchain_core.runnables import Runnable
from pydantic import SecretStr

from quantgraph.errors import NotConfigured
from quantgraph.llm._capability_model import CapabilityChatModel
from quantgraph.llm._model_call import load_prices, reply_cache
from quantgraph.llm._recorded_model import RecordedChatModel
from quantgraph.llm._retry import CallPolicy
from quantgraph.llm._runnable_model import given_model
from quantgraph.settings import Role, Settings, check_key, check_role, is_loopback, load_settings

Model = str | Runnable[Any, Any] | Mapping[Role, str | Runnable[Any, Any]]
"""A chat model, or what ends in one; a model's name, ``provider:name``, too; or either by role."""


KEYLESS = "keyless"
"""The model name of the keyless planner, for use even with a key."""

DEFAULT_MODEL = "gpt-4o-mini"
"""Default for OpenAI's own server. Other servers have no default."""

_LOCAL_KEY = "local-server-needs-no-key"
_KEEPALIVE = ((socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1),)


def get_llm(
    role: Role = "reflection", *, model: Model | None = None, settings: Settings | None = None
) -> BaseChatModel:
    """Return the chat model of a role.

    Parameters
    ----------
    role
        The role that uses the model.
    model
        A chat model, returned unchanged, or what ends in one (fallbacks, retries, bound options); a model
        name of the settings' server, or ``provider:name``; ``"keyless"`` for the planner; or a mapping by
        role, in which the settings decide missing roles. None means that the settings decide.
    settings
        None means :func:`~quantgraph.settings.load_settings`.

    Raises
    ------
    BadOption
        The role, or the kind of ``model``, does not exist.
    NotConfigured
        A model is named without a key (a loopback server needs no key), or a server is set without a
        model name. The message names the variable to set.
    """
    return _choose(role, model, settings)


def get_light_llm(
    role: Role = "data_fetch", *, model: Model | None = None, settings: Settings | None = None
) -> BaseChatModel:
    """Return the model of a role that does simple work: as :func:`get_llm`, with another default."""
    return get_llm(role, model=model, settings=settings)


def role_model(
    role: Role, *, model: Model | None, settings: Settings, keyless: Mapping[str, Any] | None = None
) -> BaseChatModel:
    """The model of a role as the graphs use it: recorded, within its budget, retried, and calling tools.

    ``keyless`` are the replies of a decider, if the model is the keyless planner.

    Raises
    ------
    BadFile
        If the file of prices cannot be read.
    """
    chosen = get_llm(role, model=model, settings=settings)
    if keyless:
        from quantgraph.llm._keyless import KeylessPlanner

        if isinstance(chosen, KeylessPlanner):
            chosen = chosen.model_copy(update={"replies": keyless})
    recorded = RecordedChatModel(
        chosen,
        role=role,
        policy=CallPolicy(max_attempts=settings.max_attempts, first_wait=settings.of_role(role).retry_wait),
        prices=load_prices(settings.prices),
        cache=reply_cache(settings.cache_dir, settings.llm_cache, settings.llm_cache_ttl_hours),
        node_seconds=settings.node_seconds,
    )
    return CapabilityChatModel(recorded, mode=settings.tool_calling)


def _choose(role: Role, model: Model | None, settings: Settings | None) -> BaseChatModel:
    for name in (role, *(model if isinstance(model, Mapping) else ())):
        check_role(name)
    choice = model.get(role) if isinstance(model, Mapping) else model
    if isinstance(found := given_model(choice or None), BaseChatModel):
        return found
    settings = settings or load_settings()
    found = found or given_model(settings.model_for(role))
    return found if isinstance(found, BaseChatModel) else _build(found, role, settings)


def _build(name: str | None, role: Role, settings: Settings) -> BaseChatModel:
    key = settings.openai_api_key
    local = is_loopback(settings.openai_base_url)
    if name == KEYLESS or (name is None and key is None and not local):
        from quantgraph.llm._keyless import KeylessPlanner

        return KeylessPlanner()
    check_key(name, role, settings)
    return _chat_openai(
        name or _default_name(settings), role, key or SecretStr(_LOCAL_KEY), settings, local=local
    )


_OPENAI_HOSTS = ("api.openai.com", ".openai.azure.com")
_OPENAI_REASONING = re.compile(r"(?:openai/)?(?:o\d|gpt-5)")  # "o3-mini"


def _default_name(settings: Settings) -> str:
    url = settings.openai_base_url
    if url is None or urlsplit(url).hostname == "api.openai.com":
        return DEFAULT_MODEL
    raise NotConfigured(
        f"no model is named for the server {urlsplit(url).netloc}: set QUANTGRAPH_MODEL to one of its models",
        variable="QUANTGRAPH_MODEL",
    )


def _chat_openai(name: str, role: Role, key: SecretStr, settings: Settings, *, local: bool) -> BaseChatModel:
    try:
        from quantgraph.llm._vendor_model import VendorChatOpenAI
    except ImportError as error:
        raise NotConfigured(
            f"the package langchain-openai cannot be imported ({error}); run: pip install langchain-openai",
            variable="model",
        ) from error
    params, own = settings.parameters_for(role), settings.of_role(role)
    body = own.extra_body
    if _limit_field(name, role, settings) == "max_tokens" and params["max_tokens"]:
        # ChatOpenAI renames its own max_tokens, and sends extra_body as it is.
        body = {"max_tokens": params.pop("max_tokens"), **body}
    if body:
        params["extra_body"] = body
    if own.stream is not None:
        params["streaming"] = own.stream
    return VendorChatOpenAI(
        system_role=own.system_role,
        model=name,
        base_url=settings.openai_base_url,
        api_key=key,
        timeout=settings.request_timeout,
        **params,
        stream_usage=True,  # or a streamed reply has no token counts
        max_retries=0,  # RecordedChatModel retries
        # A transport of its own keeps requests to this machine away from a proxy in the environment.
        http_socket_options=_KEEPALIVE if local else None,
    )


def _limit_field(name: str, role: Role, settings: Settings) -> str:
    """Field of a request that limits a reply.

    OpenAI's reasoning models refuse ``max_tokens``; servers of others, such as DeepSeek, ignore
    ``max_completion_tokens``.
    """
    chosen = settings.of_role(role).reply_limit_field
    if chosen != "auto":
        return chosen
    host = urlsplit(settings.openai_base_url or "https://api.openai.com").hostname or ""
    is_openai = host.endswith(_OPENAI_HOSTS) or _OPENAI_REASONING.match(name)
    return "max_completion_tokens" if is_openai else "max_tokens"
