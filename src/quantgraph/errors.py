"""One family of errors: a stable code for machines, a teaching message for people.

Every class stands for one reaction of a caller. It also inherits the builtin that a caller would
catch anyway, so ``except ValueError`` works where it reads naturally.
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
    "FutureRequested",
    "LedgerConflict",
    "ModelOutputInvalid",
    "ModelUnavailable",
    "NoData",
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
    "UnknownCommit",
    "UnknownField",
    "UnknownSymbol",
]


class QuantGraphError(Exception):
    """Base of the family.

    Parameters
    ----------
    message
        One line: what is wrong, where, and what would be valid.
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
    """The source answered, and has nothing for this request."""

    code = "no_data"


class RateLimited(QuantGraphError, RuntimeError):
    """The vendor asks to slow down and waiting was not enough."""

    code = "rate_limited"


class PermissionDenied(QuantGraphError, PermissionError):
    """The vendor refuses this token for this request."""

    code = "permission_denied"


class SourceUnavailable(QuantGraphError, ConnectionError):
    """The vendor cannot be reached, or answers with something that is not its protocol."""

    code = "source_unavailable"


class UnknownSymbol(QuantGraphError, LookupError):
    """A code, name or index that the source does not know."""

    code = "unknown_symbol"


class BadWindow(QuantGraphError, ValueError):
    """A start or end date that is malformed, reversed, or holds no session."""

    code = "bad_window"


class FutureRequested(QuantGraphError, ValueError):
    """Something later than the run's moment was asked for."""

    code = "future_requested"


class BadFile(QuantGraphError, ValueError):
    """A file whose columns, dates or numbers are not what its format promises."""

    code = "bad_file"


class StorageUnavailable(QuantGraphError, OSError):
    """What a run keeps cannot be written or read now: a full disk, a database that is locked or gone.

    Nothing is wrong with the run: once that is mended, it can be resumed.
    """

    code = "storage_unavailable"


class BadFrame(QuantGraphError, ValueError):
    """A frame that may not enter the data state; names the first offending cell."""

    code = "bad_frame"


class UnknownField(QuantGraphError, KeyError):
    """A panel or field name that does not exist."""

    code = "unknown_field"


class UnknownCommit(QuantGraphError, LookupError):
    """A ``data_ref`` that is neither in memory nor in the spill folder."""

    code = "unknown_commit"


class BadOption(QuantGraphError, ValueError):
    """An argument outside its valid range."""

    code = "bad_option"


class CodeFailed(QuantGraphError, RuntimeError):
    """Generated code raised, or its process died."""

    code = "code_failed"


class CodeTimeout(CodeFailed, TimeoutError):
    """Generated code ran past its deadline."""

    code = "code_timeout"


class CodeMemoryExceeded(CodeFailed, MemoryError):
    """Generated code asked for more memory than it may have."""

    code = "code_memory"


class CodeRefused(CodeFailed, PermissionError):
    """Generated code reached for something that its process may not have."""

    code = "code_refused"


class SandboxTooWeak(QuantGraphError, RuntimeError):
    """The system cannot lock generated code in as well as the settings ask for."""

    code = "sandbox_weak"


class NoSignal(QuantGraphError, LookupError):
    """The generated code ended without handing over a signal."""

    code = "no_signal"


class NoProgress(QuantGraphError, RuntimeError):
    """The same step or call again and again: it is ended before it is paid for once more."""

    code = "no_progress"


class ModelOutputInvalid(QuantGraphError, ValueError):
    """A model answered something that cannot be read as what was asked for."""

    code = "model_output_invalid"


class ModelUnavailable(QuantGraphError, ConnectionError):
    """A model could not be reached, refused, or did not answer in time."""

    code = "model_unavailable"


class CheckpointerRequired(QuantGraphError, RuntimeError):
    """A question has to be asked, and nothing would remember where the run stands."""

    code = "checkpointer_required"


class LedgerConflict(QuantGraphError, RuntimeError):
    """A ledger already holds something else under this key."""

    code = "ledger_conflict"


class BudgetExceeded(QuantGraphError, RuntimeError):
    """A limit on model calls, tokens, money or time would be passed; the call was not sent, or was left.

    ``data["limit"]`` is ``calls``, ``prompt_tokens``, ``completion_tokens``, ``money`` or ``seconds``.
    """

    code = "budget_exceeded"


class RunMismatch(QuantGraphError, ValueError):
    """A run is to be resumed with another configuration, graph, data or code than it was begun with."""

    code = "run_mismatch"


class RunDiverged(QuantGraphError, RuntimeError):
    """A replayed run asks for something that the recorded run did not."""

    code = "run_diverged"
