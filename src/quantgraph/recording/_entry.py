"""An entry of a recording: what was asked, where, and the reply or error."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from quantgraph import errors
from quantgraph.errors import QuantGraphError

Kind = Literal["model", "tool", "source", "code", "answer", "fact"]
"""Who was asked: a model, an agent's tool, the data source, a code process, a person; or a fact about the run
that is determined once."""

_ERROR_CLASSES: dict[str, type[QuantGraphError]] = {
    kind.code: kind for name in errors.__all__ for kind in [getattr(errors, name)]
}


RESTART_PATH = "begun anew"
"""Path of the entry that marks a restart of the run: entries before it need not be asked again."""


class Key(NamedTuple):
    """Identifies a request: in a resumed or replayed run the same request has the same key.

    ``path`` is the node's, from the outermost graph down, joined by ``/`` (in a decision the session is its
    last part). ``seq`` is the number of a model call at that path, from 1; for other kinds, the number of
    model calls made there before. ``digest`` is the request's content hash.
    """

    path: str
    seq: int
    kind: Kind
    digest: str


def without_number(key: Key) -> Key:
    """Return the key with no number: the same request at the same path, whenever it is made."""
    return key._replace(seq=0)


@dataclass(frozen=True, kw_only=True)
class Entry:
    """One attempt of a request.

    Attributes
    ----------
    attempt
        From 1; each but the last was repeated.
    final
        Whether the caller was given this attempt's ``reply`` or ``error``.
    request, reply
        Canonical JSON texts; ``reply`` is None after an error.
    error
        ``{code, message, data}`` of a ``QuantGraphError``.
    facts
        Of a model call: ``role``, ``model``, ``prompt_tokens``, ``completion_tokens`` (None = unknown),
        ``cost`` (text, None = unknown), ``seconds``, ``finish``, ``cached``. Of an answer not given by a
        person: ``role``, which is ``default`` or ``callable``.
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
        """Return the reply as a JSON value.

        Raises
        ------
        QuantGraphError
            The recorded error, of its own class.
        """
        if self.error is not None:
            raise error_of(self.error)
        return json.loads(self.reply or "null")


def error_json(error: QuantGraphError) -> dict[str, Any]:
    """Return an error as JSON, with those of its data that are JSON."""
    data = {key: value for key, value in error.data.items() if _is_json(value)}
    return {"code": error.code, "message": error.message, "data": data}


def error_of(value: Mapping[str, Any]) -> QuantGraphError:
    """Return the error that :func:`error_json` wrote."""
    kind = _ERROR_CLASSES.get(value["code"], QuantGraphError)
    return kind(value["message"], **value.get("data", {}))


def _is_json(value: object) -> bool:
    try:
        json.dumps(value)
    except (TypeError, ValueError):
        return False
    return True
