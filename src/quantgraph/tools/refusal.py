"""How a tool says no: one line, a code, and the facts behind it, as plain JSON."""

from __future__ import annotations

from typing import Any

from quantgraph._util.texts import escape_controls


def refusal(code: str, message: str, **facts: Any) -> dict[str, Any]:
    """Return a refusal as a tool answers it; facts that are None are left out.

    >>> refusal("lot_size", "5 shares of 600519.SH; lots are 100", symbol="600519.SH", lot=None)
    {'error': '5 shares of 600519.SH; lots are 100', 'code': 'lot_size', 'symbol': '600519.SH'}
    """
    known = {name: value for name, value in facts.items() if value is not None}
    return {"error": escape_controls(message), "code": code, **known}
