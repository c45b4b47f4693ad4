"""What a run, or one of its trading sessions, may spend on models."""

from __future__ import annotations

import re
from dataclasses import dataclass, fields
from decimal import Decimal
from typing import Any

from quantgraph.errors import BadOption

__all__ = ["Budget"]

_PART = re.compile(r"\s*(\w+)\s*=\s*(\d+(?:\.\d+)?)\s*")


@dataclass(frozen=True, kw_only=True)
class Budget:
    """Limits; None is none. What would pass one is not sent.

    Attributes
    ----------
    calls
        Requests sent; each attempt is one.
    prompt_tokens, completion_tokens
        Tokens sent and received.
    money
        In the currency of the prices, US dollars in the table that is built in.
    seconds
        Of a run: seconds in which its nodes were at work. Of a session: seconds since its first model call.
    """

    calls: int | None = None
    prompt_tokens: int | None = None
    completion_tokens: int | None = None
    money: Decimal | None = None
    seconds: float | None = None

    @classmethod
    def parse(cls, text: str | None) -> Budget:
        """Read limits as settings have them; None is no limit at all.

        Raises
        ------
        BadOption
            If a limit is not known, not a number from 0 on, or given twice.

        Examples
        --------
        >>> Budget.parse("calls=100, money=2.5").money
        Decimal('2.5')
        """
        kinds: dict[str, type] = {field.name: _KINDS.get(field.name, int) for field in fields(cls)}
        limits: dict[str, Any] = {}
        for part in text.split(",") if text else ():
            found = _PART.fullmatch(part)
            name = found.group(1) if found else None
            whole = found is not None and "." not in found.group(2)
            if found is None or name not in kinds or name in limits or not (whole or name in _KINDS):
                raise BadOption(
                    f"budget {text!r}: {part.strip()!r} is no limit; write each once, like "
                    f"calls=100,money=2.5; valid are {', '.join(kinds)}",
                    parameter="budget",
                )
            limits[name] = kinds[name](found.group(2))
        return cls(**limits)


_KINDS: dict[str, type] = {"money": Decimal, "seconds": float}
