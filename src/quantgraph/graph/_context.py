"""What a LangGraph server shows of the graphs, and what an assistant may choose.

The values of a context come from a client, so they are names that the server offers and numbers within
bounds: no path, no address, no key, no code.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from decimal import Decimal
from typing import Annotated, Any, Literal, NotRequired, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, create_model
from typing_extensions import TypedDict

from quantgraph._util.texts import short_line
from quantgraph._util.values import faults_of, first_of, near_or_valid
from quantgraph.agents import decider_names, make_decider
from quantgraph.broker import ModelDecider, TradePlan
from quantgraph.data import open_source
from quantgraph.errors import BadOption
from quantgraph.market import Rulebook
from quantgraph.runtime import Resources
from quantgraph.runtime.dialogue import QuestionForm
from quantgraph.settings import ROLES, Settings

_LOG = logging.getLogger(__name__)
_WAITS_FOR_A_CLIENT = frozenset({"mcp_client"})
_MOST_CASH = 1e10
"""A client's cash; a greater one makes orders of a size that takes a server minutes to split."""
_LONGEST = 16_384
"""Characters of a context as JSON."""


class SignalContext(BaseModel):
    """What an assistant chooses for the signal graph; the rest is as the server's settings say."""

    model_config = ConfigDict(frozen=True, extra="forbid", hide_input_in_errors=True)

    source: str | None = Field(None, description="the name of a source of market data of this server")
    models: dict[str, str] = Field(
        default_factory=dict,
        description='by role the name of a model of this server, like {"reflection": "keyless"}',
    )
    questions: QuestionForm = Field("quantgraph", description="hitl, which chat pages answer, or quantgraph")


class TradingContext(SignalContext):
    """What an assistant chooses for the trading graph."""

    decider: str | None = Field(None, description="the name of what turns signals into trades")
    cash: float | None = Field(
        None, gt=0, le=_MOST_CASH, strict=True, description="the starting cash, above 0 and at most 1e10"
    )
    market: Literal["cn", "us"] | None = Field(None, description="cn or us, whose trading rules hold")
    plan: dict[str, Any] = Field(
        default_factory=dict,
        description='words of the trade plan, like {"max_positions": 5, "stop_loss": 0.08}',
    )
    approve: bool = Field(
        False, strict=True, description="true or false, whether orders need approval before they are sent"
    )


class RequestMessage(TypedDict):
    """A message of the conversation."""

    role: Annotated[Literal["user", "assistant"], Field(description="who says it")]
    content: Annotated[str, Field(description="the text, in Chinese or English")]


class SignalRequest(TypedDict):
    """A sentence about a trading strategy."""

    messages: Annotated[
        list[RequestMessage],
        Field(description="the strategy in words, with stocks and dates, or a change of the last request"),
    ]


class TradingRequest(SignalRequest):
    """A sentence about a trading strategy that shall be traded."""

    run_id: NotRequired[Annotated[str, Field(description="a name for the run; one is made without it")]]


class ReplyMessage(TypedDict):
    """A message of the conversation, as LangChain writes it."""

    type: Annotated[str, Field(description="human or ai")]
    content: Annotated[str, Field(description="the text")]


class SignalReply(TypedDict):
    """How the request ended, and what there is to say about it."""

    messages: Annotated[
        list[ReplyMessage], Field(description="the conversation; its last message is the result")
    ]
    ended_because: NotRequired[
        Annotated[str | None, Field(description="done, or why there is no result; absent at a question")]
    ]
    error_messages: NotRequired[Annotated[list[str], Field(description="open errors, as code: message")]]
    data_ref: NotRequired[Annotated[str, Field(description="name of the data and the signal on the server")]]


class TradingReply(SignalReply):
    """How the run ended, and its figures."""

    run_id: NotRequired[Annotated[str, Field(description="name of the run in its ledger")]]
    summary: NotRequired[
        Annotated[dict[str, Any], Field(description="account, returns and costs of the run")]
    ]


C = TypeVar("C", bound=SignalContext)


def context_schema(kind: type[SignalContext], settings: Settings) -> type[SignalContext]:
    """Return the schema that a server shows as a form, with the names that it offers as choices."""
    offered = _offered(settings)
    choices: dict[str, Any] = {
        name: (Literal[tuple(offered[name])] | None, field)
        for name, field in kind.model_fields.items()
        if name in ("source", "decider")
    }
    return create_model(kind.__name__, __base__=kind, __doc__=kind.__doc__, **choices)


def read_context(kind: type[C], values: Mapping[str, Any] | None, settings: Settings) -> C:
    """Return a client's context with the server's defaults behind it.

    Raises
    ------
    BadOption
        If a key is not known, or a value is not a name of the server or not within bounds.
    """
    if not isinstance(values or {}, Mapping):
        raise BadOption(f"context={values!r:.40}; must be a JSON object", parameter="context")
    own = {name: value for name, value in (values or {}).items() if value is not None}
    if len(json.dumps(own, default=str)) > _LONGEST:
        raise BadOption(f"context: more than {_LONGEST} characters of JSON", parameter="context")
    defaults = dict(settings.assistants.defaults)
    if unknown := defaults.keys() - TradingContext.model_fields.keys():
        raise BadOption(
            f"assistants.defaults.{min(unknown)} is not a key; valid are "
            f"{', '.join(TradingContext.model_fields)}",
            option="assistants",
        )
    defaults = {name: value for name, value in defaults.items() if name in kind.model_fields}
    for table in ("models", "plan"):
        if isinstance(own.get(table), dict) and table in defaults:
            own[table] = {**defaults[table], **own[table]}
    try:
        context = kind.model_validate(defaults | own)
    except ValidationError as error:
        faults = faults_of(error, kind)
        line = first_of([fault.line for fault in faults])
        raise BadOption(f"context: {line}", parameter=f"context.{faults[0].place}") from None
    offered = _offered(settings)
    _check_name("source", context.source, offered["source"])
    for role, model in context.models.items():
        _check_name(f"models.{short_line(role, 60)}", model, offered["models"])
    if isinstance(context, TradingContext):
        _check_name("decider", context.decider, offered["decider"])
        _check_plan(context.plan)
    return context


def signal_resources(
    context: SignalContext, settings: Settings, resources: Resources, roles: Collection[str] = ROLES
) -> Resources:
    """Return the live objects of a context; ``resources`` are what it shares with others."""
    spec = _offered(settings)["source"][context.source] if context.source else None
    settings = _with_models(settings, context.models, roles)
    with _hiding_causes("source", context.source):
        source = open_source(spec, settings=settings)
    return replace(resources, settings=settings, source=source, questions=context.questions)


def trading_options(context: TradingContext, settings: Settings, resources: Resources) -> dict[str, Any]:
    """Return the arguments of :func:`~quantgraph.graph._trading.make_trading` for a context."""
    with _hiding_causes("decider", context.decider):
        decider = make_decider(_offered(settings)["decider"][context.decider]) if context.decider else None
    roles = (*ROLES, *(ModelDecider.of(decider).roles if decider else ()))
    rules: dict[str, Callable[[], Rulebook]] = {"cn": Rulebook.mainland, "us": Rulebook.us}
    return {
        "resources": replace(signal_resources(context, settings, resources, roles), decider=decider),
        "rules": rules[context.market]() if context.market else None,
        "cash": None if context.cash is None else Decimal(str(context.cash)),
        "plan": TradePlan.of(context.plan) if context.plan else None,
        "approve": context.approve,
        "context": context.model_dump_json(exclude_defaults=True),
    }


def _with_models(settings: Settings, models: Mapping[str, str], roles: Collection[str]) -> Settings:
    offered = _offered(settings)["models"]
    for role, name in models.items():
        if role not in roles and role in settings.assistants.defaults.get("models", {}):
            continue  # a default is for the graphs that have its role
        if role not in roles:
            place = f"models.{short_line(role, 60)}"
            raise BadOption(
                f"context: {place} is not a role; {near_or_valid(role, roles)}", parameter=f"context.{place}"
            )
        settings = settings.with_model(role, {"name": offered[name]})
    return settings


def _check_name(place: str, name: str | None, offered: Collection[str]) -> None:
    if name is not None and name not in offered:
        raise BadOption(
            f"context: {place}={name!r:.60} is not offered by this server; {near_or_valid(name, offered)}",
            parameter=f"context.{place}",
        )


def _check_plan(plan: Mapping[str, Any]) -> None:
    try:
        cash = TradePlan.of(plan).cash
    except (BadOption, ArithmeticError) as error:
        raise BadOption(f"context: plan: {short_line(error, 300)}", parameter="context.plan") from error
    if cash is not None and Decimal(cash) > _MOST_CASH:
        raise BadOption("context: plan: cash must be at most 1e10", parameter="context.plan")


@contextmanager
def _hiding_causes(place: str, name: str | None) -> Iterator[None]:
    """Keep what an error tells of the server, such as a path or an address, in the server's log."""
    try:
        yield
    except Exception as error:  # noqa: BLE001 - code of the server's owner, too
        _LOG.warning("an assistant's %s=%r cannot be made", place, name, exc_info=error)
        raise BadOption(
            f"context: {place}={name!r:.60} cannot be made; the server's log says why",
            parameter=f"context.{place}",
        ) from None


def _offered(settings: Settings) -> dict[str, dict[str, str]]:
    """What the server offers under each key of a context: by name the source, the model or the decider."""
    options = settings.assistants
    installed = {name: name for name in decider_names() if name not in _WAITS_FOR_A_CLIENT}
    named = ["keyless", settings.model, *(each.name for each in settings.models.values())]
    return {
        "source": {"sample": "sample", **options.sources},
        "models": {name: name for name in named if name} | options.models,
        "decider": options.deciders or installed,
    }
