"""One line of a recording: what was asked, where, and what came back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from quantgraph import errors
from quantgraph.errors import QuantGraphError

__all__ = [
    "RESTART_PATH",
    "Entry",
    "Key",
    "Kind",
    "error_json",
    "error_of",
    "without_number",
]

Kind = Literal["model", "tool", "source", "code", "answer", "fact"]
"""Who was asked: a model, an agent's tool, the data source, a process for code, a person; or a fact about the
run that is found out once."""

_FAMILY: dict[str, type[QuantGraphError]] = {
    kind.code: kind for name in errors.__all__ for kind in [getattr(errors, name)]
}


RESTART_PATH = "begun anew"
"""Path of the line which says that a run was begun anew: what stands before it need not be asked again."""


class Key(NamedTuple):
    """What a question is known by: the same one again, in a resumed or replayed run, has the same key.

    ``path`` is the node's, names from the outermost graph down joined by ``/`` (in a decision the session is
    its last part). ``seq`` is the number of a model call at that path, from 1; for everything else, the
    number of model calls made there before. ``digest`` is the request's.
    """

    path: str
    seq: int
    kind: Kind
    digest: str


def without_number(key: Key) -> Key:
    """What a question is known by at its path, whenever it is asked there."""
    return key._replace(seq=0)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attempt.

    Attributes
    ----------
    attempt
        From 1; those before the last were asked again.
    final
        Whether this attempt is what the asker was given: its ``reply``, or its ``error``.
    request, reply
        Canonical JSON texts; ``reply`` is None where there was an error.
    error
        ``{code, message, data}`` of an error of ours.
    facts
        Of a model call: ``role``, ``model``, ``prompt_tokens``, ``completion_tokens`` (None = unknown),
        ``cost`` (text, None = unknown), ``seconds``, ``finish``, ``cached``. Of an answer that no person
        gave, as ``role`` who did: ``default`` or ``callable``.
    """

    key: Key
    request: str
    attempt: int = 1
    final: bool = True
    reply: str | None = None
    error: Mapping[str, Any] | None = None
    session: str | None = None
    at: str = ""
    facts: Mapping[str, Any] = field(default_factory=dict)

    def outcome(self) -> Any:
        """The reply as a JSON value.

        Raises
        ------
        QuantGraphError
            The recorded one, of its own class.
        """
        if self.error is not None:
            raise error_of(self.error)
        return json.loads(self.reply or "null")


def error_json(error: QuantGraphError) -> dict[str, Any]:
    """An error as JSON; of its data, what is JSON."""
    data = {key: value for key, value in error.data.items() if _is_json(value)}
    return {"code": error.code, "message": error.message, "data": data}


def error_of(told: Mapping[str, Any]) -> QuantGraphError:
    """The error that :func:`error_json` told of."""
    kind = _FAMILY.get(told["code"], QuantGraphError)
    return kind(told["message"], **told.get("data", {}))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
