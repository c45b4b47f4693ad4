"""The python_repl tool: the interface of LangChain's REPL, with cells run by a code runner."""

from __future__ import annotations

import re
from typing import Any, Literal

from langchain.tools import ToolRuntime
from langchain_core.callbacks import CallbackManagerForToolRun
from langchain_core.tools import tool
from pydantic import BaseModel, ConfigDict, Field

from quantgraph.errors import BadOption
from quantgraph.sandbox import Isolation
from quantgraph.tools._code import ReplTool
from quantgraph.tools._context import context_of
from quantgraph.tools._results import with_docstring

_FENCE = re.compile(r"\A\s*```[a-zA-Z0-9_+-]*\n(.*?)\n?```\s*\Z", re.DOTALL)  # "```python\nclose\n```"

_ISOLATION_NOTES: dict[Isolation, str] = {
    "limits_only": "ran in a process with limits, but with files and network in reach",
    "none": "ran without limits, with files and network in reach",
    "trusted": "ran in this process, not isolated",
}


_SCOPE = (
    "Runs a cell of Python over the run's data. In scope: pd (pandas 3), np, GLOBAL_DATA_STATE and "
    "snapshot = GLOBAL_DATA_STATE.snapshot(); import talib if needed. Frames are read-only. The field vol is "
    "in hundreds of shares (手), of US symbols too. "
)
_HANDING_OVER = "Hand a signal over with GLOBAL_DATA_STATE.update('signal', {'name': frame}). "
_REHEARSAL = "of invented rows"
_CELLS = (
    "Within an agent's run variables of earlier cells live on; called by hand, every call starts anew. "
    "There is no network and no file."
)


@with_docstring
class ReplInput(BaseModel):
    """What a model may pass, and what the agent passes beside it."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    query: str = Field(description="Python source of one cell. The value of its last expression is shown.")
    # With an Optional annotation the agent would not inject it.
    runtime: ToolRuntime[Any, Any] = Field(default=None)  # type: ignore[arg-type]


class PythonRepl(ReplTool):
    """Run a cell in a process of its own that holds only the run's view of the data.

    Called outside of an agent, it publishes signals to ``GLOBAL_DATA_STATE``. In an agent they stay in the
    :class:`~quantgraph.tools.ToolContext`, where the node finds them.

    Raises
    ------
    CodeFailed, CodeTimeout, CodeMemoryExceeded, CodeRefused
        With the line that failed; inside an agent they become a tool message with status ``error``.
    """

    name: str = "python_repl"
    description: str = _SCOPE + _HANDING_OVER + _CELLS
    args_schema: type[BaseModel] = ReplInput
    response_format: Literal["content", "content_and_artifact"] = "content_and_artifact"
    sanitize_input: bool = False

    def _run(  # type: ignore[override]
        self,
        query: str,
        runtime: ToolRuntime[Any, Any] | None = None,
        run_manager: CallbackManagerForToolRun | None = None,  # noqa: ARG002 - the base class passes it
    ) -> tuple[str, dict[str, Any]]:
        context = context_of(runtime, by_hand=True)
        fenced = _FENCE.match(query)
        result = context.run(fenced.group(1) if fenced else query)
        if result.error is not None:
            raise result.error
        if result.signals and context.publish:
            context.tree.update("signal", result.signals)
        text = "\n".join(part for part in (result.stdout.rstrip(), result.value) if part) or "(no output)"
        if result.isolation in _ISOLATION_NOTES:
            text += f"\n({_ISOLATION_NOTES[result.isolation]})"
        if context.rehearsal:
            text += f"\n({_REHEARSAL})"
        artifact = {"signals": sorted(result.signals), "seconds": result.seconds}
        return text, artifact | {"isolation": result.isolation}

    async def _arun(  # type: ignore[override]
        self,
        query: str,
        runtime: ToolRuntime[Any, Any] | None = None,
        run_manager: Any = None,  # noqa: ARG002
    ) -> tuple[str, dict[str, Any]]:
        from langchain_core.runnables import run_in_executor

        return await run_in_executor(None, self._run, query, runtime)


python_repl = PythonRepl()
"""The tool, one for all graphs: it has no state."""

reading_repl = PythonRepl(description=_SCOPE + _CELLS)
"""The same for agents that decide, which hand no signal over."""


_MAX_CHARACTERS = 1_000


@tool("ask", return_direct=True, parse_docstring=True)
@with_docstring
def ask(question: str) -> str:
    """Ask the user one question, if the rule has two readings that trade differently. It ends your turn.

    Args:
        question: The question, in the user's language, with the possible answers.
    """
    return _text("question", question)


@tool("decline", return_direct=True, parse_docstring=True)
@with_docstring
def decline(reason: str) -> str:
    """Say that the rule cannot be coded with these data. It ends the run.

    Args:
        reason: Why, in the user's language, in one or two sentences.
    """
    return _text("reason", reason)


def _text(name: str, value: str) -> str:
    """Return a text on one line."""
    text = " ".join(value.split())
    if not 0 < len(text) <= _MAX_CHARACTERS:
        raise BadOption(f"{name} must have 1 to {_MAX_CHARACTERS} characters; it has {len(text)}")
    return text
