"""The same policy for model errors inside an agent of ``langchain.agents.create_agent``."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from langchain.agents.middleware import AgentMiddleware, ModelRequest, ModelResponse

from quantgraph.llm.calls import CallPolicy

__all__ = ["ModelErrors"]


class ModelErrors(AgentMiddleware[Any, Any, Any]):
    """Retry and translate model errors inside an agent as :func:`~quantgraph.llm.calls.call_model` does.

    Parameters
    ----------
    what
        Whose agent this is, in a few words: every error message starts with it.
    policy
        None means :class:`~quantgraph.llm.calls.CallPolicy` as it is.
    """

    def __init__(self, what: str = "agent", *, policy: CallPolicy | None = None) -> None:
        super().__init__()
        self._what = what
        self._policy = policy or CallPolicy()

    def wrap_model_call(
        self, request: ModelRequest[Any], handler: Callable[[ModelRequest[Any]], ModelResponse[Any]]
    ) -> ModelResponse[Any]:
        """Call the model under the policy."""
        return self._policy.run(lambda: handler(request), model=request.model, what=self._what)

    async def awrap_model_call(
        self,
        request: ModelRequest[Any],
        handler: Callable[[ModelRequest[Any]], Awaitable[ModelResponse[Any]]],
    ) -> ModelResponse[Any]:
        """Call the model under the policy, without blocking the loop while waiting."""
        return await self._policy.arun(lambda: handler(request), model=request.model, what=self._what)
