"""Errors: one class for each different reaction of a caller, with a stable ``code`` and a one-line message.

Each class also inherits the builtin that a caller would catch, such as ``ValueError``.
"""

from __future__ import annotations

from typing import Any, ClassVar

from quantgraph._util.texts import escape_controls

__all__ = [
    "BadFile",
    "BadFrame",
    "BadOption",
    "BadWindow",
    "BudgetExceeded",
    "CheckpointerRequired",
    "CodeFailed",
    "CodeMemoryExceeded",
    "CodeRefused",
    "CodeTimeout",
    "DataTooLarge",
    "FutureRequested",
    "LedgerConflict",
    "ModelOutputInvalid",
    "ModelUnavailable",
    "NoData",
    "NoOpenPrices",
    "NoProgress",
    "NoSignal",
    "NotConfigured",
    "PermissionDenied",
    "QuantGraphError",
    "RateLimited",
    "RunDiverged",
    "RunMismatch",
    "SandboxTooWeak",
    "SourceUnavailable",
    "StorageUnavailable",
    "ToolFailed",
    "ToolTimeout",
    "UnknownCommit",
    "UnknownField",
    "UnknownQuestion",
    "UnknownSymbol",
]


class QuantGraphError(Exception):
    """Base of all errors of this package.

    Parameters
    ----------
    message
        One line: what is wrong, where, and what is valid.
    **data
        The facts behind the message, for callers that react to them.
    """

    code: ClassVar[str] = "quantgraph_error"

    def __init__(self, message: str, **data: Any) -> None:
        super().__init__(message)
        self.message = message
        self.data = data

    def __str__(self) -> str:
        return self.message

    @property
    def line(self) -> str:
        """``code: message`` with its control characters escaped: one line for models, logs and terminals."""
        return f"{self.code}: {escape_controls(self.message)}"


class NotConfigured(QuantGraphError, RuntimeError):
    """A key, token or package that the request needs is not set up."""

    code = "not_configured"


class NoData(QuantGraphError, LookupError):
    """The source has no data for this request."""

    code = "no_data"


class RateLimited(QuantGraphError, RuntimeError):
    """The vendor limits the rate of requests, and waiting was not enough."""

    code = "rate_limited"


class PermissionDenied(QuantGraphError, PermissionError):
    """The vendor refuses this token for this request."""

    code = "permission_denied"


class SourceUnavailable(QuantGraphError, ConnectionError):
    """The vendor cannot be reached, or its answer does not follow its protocol."""

    code = "source_unavailable"


class UnknownSymbol(QuantGraphError, LookupError):
    """The source does not know a code, name or index."""

    code = "unknown_symbol"


class BadWindow(QuantGraphError, ValueError):
    """A window is malformed, reversed, or holds no session."""

    code = "bad_window"


class FutureRequested(QuantGraphError, ValueError):
    """Data later than the run's moment was requested."""

    code = "future_requested"


class BadFile(QuantGraphError, ValueError):
    """Columns, dates or numbers of a file do not follow its format."""

    code = "bad_file"


class StorageUnavailable(QuantGraphError, OSError):
    """The storage of a run cannot be written or read: a full disk, a locked or missing database.

    The run can be resumed once that is repaired.
    """

    code = "storage_unavailable"


class DataTooLarge(QuantGraphError, MemoryError):
    """A request's data need more memory than the machine has free; ``data["sessions"]`` is how many fit."""

    code = "data_too_large"


class BadFrame(QuantGraphError, ValueError):
    """A frame is not valid for the data state; names the first offending cell."""

    code = "bad_frame"


class UnknownField(QuantGraphError, KeyError):
    """A panel or field does not exist."""

    code = "unknown_field"


class UnknownCommit(QuantGraphError, LookupError):
    """A ``data_ref`` is neither in memory nor in the spill folder."""

    code = "unknown_commit"


class BadOption(QuantGraphError, ValueError):
    """An argument is not valid."""

    code = "bad_option"


class NotCausal(QuantGraphError, ValueError):
    """A strategy of the caller's uses the future, or was not proved not to; ``verdict`` has the cell."""

    code = "not_causal"


class CodeFailed(QuantGraphError, RuntimeError):
    """Generated code raised, or its process died."""

    code = "code_failed"


class CodeTimeout(CodeFailed, TimeoutError):
    """Generated code ran past its deadline."""

    code = "code_timeout"


class CodeMemoryExceeded(CodeFailed, MemoryError):
    """Generated code needs more memory than it may have."""

    code = "code_memory"


class CodeRefused(CodeFailed, PermissionError):
    """Generated code tried something that its process may not do."""

    code = "code_refused"


class CodeUnavailable(QuantGraphError, ConnectionError):
    """The machine has no process for generated code: none started in time, or one was ended.

    The code is not at fault; the run can be resumed. ``data["killed"]`` is true if a process was ended.
    """

    code = "code_unavailable"


class ToolFailed(QuantGraphError, RuntimeError):
    """A tool of an agent raised, or returned what no agent can read."""

    code = "tool_failed"


class ToolTimeout(ToolFailed, TimeoutError):
    """A tool of an agent did not answer in time."""

    code = "tool_timeout"


class SandboxTooWeak(QuantGraphError, RuntimeError):
    """The system cannot isolate generated code as the settings require."""

    code = "sandbox_weak"


class NoOpenPrices(QuantGraphError, LookupError):
    """The data have closes and no open prices: they make a signal, and no order can fill."""

    code = "no_open_prices"


class NoSignal(QuantGraphError, LookupError):
    """Generated code ended without a signal."""

    code = "no_signal"


class NoProgress(QuantGraphError, RuntimeError):
    """The same step or call was repeated too often, and was ended."""

    code = "no_progress"


class ModelOutputInvalid(QuantGraphError, ValueError):
    """A model's reply cannot be read as requested."""

    code = "model_output_invalid"


class ModelUnavailable(QuantGraphError, ConnectionError):
    """A model could not be reached, refused, or did not answer in time."""

    code = "model_unavailable"


class CheckpointerRequired(QuantGraphError, RuntimeError):
    """A question needs a checkpointer: without it the run could not continue after the answer."""

    code = "checkpointer_required"


class UnknownQuestion(QuantGraphError, LookupError):
    """An answer names a question that is not open; it is kept nowhere, and the open question stays open."""

    code = "unknown_question"


class LedgerConflict(QuantGraphError, RuntimeError):
    """A ledger already holds something else under this key."""

    code = "ledger_conflict"


class BudgetExceeded(QuantGraphError, RuntimeError):
    """A limit on model calls, tokens, money or time would be exceeded; the call was not sent, or abandoned.

    ``data["limit"]`` is ``calls``, ``prompt_tokens``, ``completion_tokens``, ``money`` or ``seconds``, and
    ``data["of"]`` is ``run``, ``session`` or ``node``.
    """

    code = "budget_exceeded"


class RunMismatch(QuantGraphError, ValueError):
    """A run cannot be resumed with another configuration, graph, data or code than it was started with."""

    code = "run_mismatch"


class RunDiverged(QuantGraphError, RuntimeError):
    """A replayed run makes a request that the recorded run did not make."""

    code = "run_diverged"
