"""Callbacks of a model call that give each token the id of its message.

The id tells LangGraph that a message has been streamed, and a display that the tokens of a broken attempt and
those of the next belong to different messages.
"""

from __future__ import annotations

from typing import Any, Self

from langchain_core.callbacks import AsyncCallbackManagerForLLMRun, CallbackManagerForLLMRun
from langchain_core.callbacks.manager import BaseRunManager
from langchain_core.outputs import ChatGenerationChunk, GenerationChunk

_LANGCHAIN_ID = "lc_"


class _WithMessageId(BaseRunManager):
    message_id: str
    abandoned = False
    """Set when the call is abandoned: the next token then ends the stream."""

    @classmethod
    def of(cls, manager: Any, message_id: str) -> Self | None:
        """The callbacks of a manager under the same run; None without a manager."""
        if manager is None:
            return None
        made = cls(
            run_id=manager.run_id,
            handlers=manager.handlers,
            inheritable_handlers=manager.inheritable_handlers,
            parent_run_id=manager.parent_run_id,
            tags=manager.tags,
            inheritable_tags=manager.inheritable_tags,
            metadata=manager.metadata,
            inheritable_metadata=manager.inheritable_metadata,
        )
        made.message_id = message_id
        return made

    def name(self, chunk: GenerationChunk | ChatGenerationChunk | None) -> None:
        """Give a chunk the id, unless the server gave it one."""
        if self.abandoned:
            raise TimeoutError("the model call was abandoned")
        if isinstance(chunk, ChatGenerationChunk):
            own = chunk.message.id
            if own is None or own.startswith(_LANGCHAIN_ID):
                chunk.message.id = self.message_id


class TokenCallbacks(_WithMessageId, CallbackManagerForLLMRun):
    """For a call in a thread."""

    def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **kwargs: Any,
    ) -> None:
        """Tell of a token."""
        self.name(chunk)
        super().on_llm_new_token(token, chunk=chunk, **kwargs)


class AsyncTokenCallbacks(_WithMessageId, AsyncCallbackManagerForLLMRun):
    """For a call in a task."""

    async def on_llm_new_token(
        self,
        token: str | list[str | dict[str, Any]],
        *,
        chunk: GenerationChunk | ChatGenerationChunk | None = None,
        **kwargs: Any,
    ) -> None:
        """Tell of a token."""
        self.name(chunk)
        await super().on_llm_new_token(token, chunk=chunk, **kwargs)
