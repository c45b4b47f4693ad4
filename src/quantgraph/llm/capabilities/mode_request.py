"""One request to the inner model, as a rung has it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from langchain_core.callbacks import CallbackManagerForLLMRun
from langchain_core.language_models import BaseChatModel
from langchain_core.messages import AIMessage, BaseMessage
from langchain_core.runnables import RunnableBinding

from quantgraph.llm.capabilities.conversation import plain
from quantgraph.llm.capabilities.modes import Rung
from quantgraph.llm.capabilities.protocol import Wanted, format_of, note_of

__all__ = ["ask_on"]


def ask_on(
    rung: Rung,
    model: BaseChatModel,
    messages: Sequence[BaseMessage],
    wanted: Wanted,
    *,
    bound: Mapping[str, Any] | None = None,
    run_manager: CallbackManagerForLLMRun | None = None,
    **options: Any,
) -> AIMessage:
    """Ask a model on a rung.

    Parameters
    ----------
    bound
        Arguments of ``bind_tools`` on the rung ``native``; None binds nothing.
    run_manager
        Of whoever is asked; only native replies are streamed to it, the others are read first.
    **options
        Of the request, beside those of the rung.
    """
    if rung != "native":
        messages, run_manager = plain(messages, note_of(wanted, rung)), None
        options = {**format_of(wanted, rung), **options}
    elif bound:
        tied: Any = model.bind_tools(**bound)
        if isinstance(tied, RunnableBinding):
            tied, options = tied.bound, {**tied.kwargs, **options}
        model = tied
    # As langchain-core's own ``invoke`` does, without a second model run beside the one that called us.
    result = model._generate_with_cache(list(messages), run_manager=run_manager, **options)  # noqa: SLF001
    message = result.generations[0].message if result.generations else AIMessage("")
    if not isinstance(message, AIMessage):
        return AIMessage(message.content)
    return message
