"""A runnable that ends in a chat model, as LangChain makes them, in the form of one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel, LanguageModelInput
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.outputs import ChatGeneration, ChatResult
from langchain_core.runnables import Runnable, RunnableWithFallbacks
from langchain_core.runnables.base import RunnableBindingBase
from langchain_core.runnables.config import ensure_config
from langchain_core.runnables.configurable import DynamicRunnable
from langchain_core.tools import BaseTool
from pydantic import Field, SkipValidation

from quantgraph._util.texts import short_line
from quantgraph.errors import BadOption, NotConfigured


class RunnableChatModel(BaseChatModel):
    """A chat model with fallbacks, retries, bound options or configurable fields, as one model.

    It is recorded, counted and replayed as the model that is asked first; a reply names the one that gave it.
    """

    runnable: SkipValidation[Runnable[Any, Any]] = Field(repr=False)

    @property
    def inner(self) -> Any:
        """The model that is asked first."""
        return next(_models_in(self.runnable))

    @property
    def others(self) -> list[Any]:
        """The models that stand in for it."""
        return [*_models_in(self.runnable)][1:]

    @property
    def _llm_type(self) -> str:
        return "quantgraph-runnable"

    def bind_tools(
        self,
        tools: Sequence[dict[str, Any] | type | Callable[..., Any] | BaseTool],
        *,
        tool_choice: str | None = None,
        **kwargs: Any,
    ) -> Runnable[LanguageModelInput, AIMessage]:
        """The same with the tools bound to each model in it."""

        def bind(model: Any) -> Any:
            return model.bind_tools(tools, tool_choice=tool_choice, **kwargs)

        return self.model_copy(update={"runnable": _with_models(self.runnable, bind)})

    def _generate(
        self,
        messages: list[BaseMessage],
        stop: list[str] | None = None,
        run_manager: CallbackManagerForLLMRun | None = None,  # noqa: ARG002 - see below
        **kwargs: Any,
    ) -> ChatResult:
        options = {**kwargs, "stop": stop} if stop else kwargs
        # Callbacks hear of the call by this model: those of the graph around would hear of it twice.
        reply = self.runnable.invoke(messages, {"callbacks": []}, **options)
        return ChatResult(generations=[ChatGeneration(message=reply)])


def given_model(choice: object) -> BaseChatModel | str | None:
    """What a caller chose as a chat model, or as a name that the settings' server knows."""
    if isinstance(choice, BaseChatModel) or choice is None:
        return choice
    if isinstance(choice, Runnable):
        next(_models_in(choice))  # it ends in one
        return RunnableChatModel(runnable=choice)
    if not isinstance(choice, str):
        raise _bad(choice)
    provider, _, name = choice.partition(":")
    if provider == "openai" and name:
        return name
    return _of_provider(choice) if name and provider in _providers() else choice


def _providers() -> Collection[str]:
    from langchain.chat_models import base

    return getattr(base, "_BUILTIN_PROVIDERS", ())


def _of_provider(choice: str) -> BaseChatModel:
    """A model of another provider, with the key that its package reads from the environment."""
    from langchain.chat_models import init_chat_model

    try:
        return init_chat_model(choice)
    except ImportError as error:
        package = f"langchain-{choice.partition(':')[0].replace('_', '-')}"
        raise NotConfigured(
            f"model {choice!r} needs a package: pip install {package}", variable="QUANTGRAPH_MODEL"
        ) from error
    except Exception as error:  # noqa: BLE001 - the package's own: no key, an unknown name
        raise NotConfigured(
            f"model {choice!r}: {short_line(error, 200)}", variable="QUANTGRAPH_MODEL"
        ) from None


def _bad(choice: object) -> BadOption:
    return BadOption(
        "model must be a chat model, a model name, or a mapping by role, not "
        f"{type(choice).__name__}; a runnable must end in a chat model",
        option="model",
    )


def _models_in(runnable: Any) -> Iterator[Any]:
    """The model that is asked first, and those that stand in for it."""
    if isinstance(runnable, RunnableWithFallbacks):
        for each in (runnable.runnable, *runnable.fallbacks):
            yield from _models_in(each)
    elif isinstance(runnable, RunnableBindingBase):
        yield from _models_in(runnable.bound)
    elif isinstance(runnable, DynamicRunnable):
        yield from _models_in(runnable.prepare(ensure_config())[0])
    elif type(runnable).__name__ == "_ConfigurableModel":  # of init_chat_model(configurable_fields=...)
        yield _configured(runnable)
    elif isinstance(runnable, BaseChatModel):
        yield runnable
    else:
        raise _bad(runnable)


def _configured(model: Any) -> Any:
    """The model that the configuration around chooses, else its default."""
    try:
        return model._model(ensure_config())  # noqa: SLF001 - nothing public tells
    except (KeyError, TypeError, ValueError) as error:
        raise BadOption(
            f"model: a configurable model needs a default ({short_line(error, 120)})", option="model"
        ) from None


def _with_models(runnable: Any, change: Callable[[Any], Any]) -> Any:
    """The same runnable with each of its models changed: the first, and those that stand in for it."""
    if isinstance(runnable, RunnableWithFallbacks):
        first, *others = (_with_models(each, change) for each in (runnable.runnable, *runnable.fallbacks))
        return runnable.model_copy(update={"runnable": first, "fallbacks": others})
    if isinstance(runnable, RunnableBindingBase):
        return runnable.model_copy(update={"bound": _with_models(runnable.bound, change)})
    if isinstance(runnable, DynamicRunnable):
        return _with_models(runnable.prepare(ensure_config())[0], change)
    return change(runnable)
