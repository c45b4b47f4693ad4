"""The process in which the package ``baostock`` runs: one request a line in, one answer a line out.

The package prints to standard output, which therefore is moved away first. It waits for ever for a server
that has closed the connection; after the login a closed connection is an error here. The process that started
this one ends it when an answer takes too long.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

_LOST = "10002007"  # the package's code of a failed receive


class _Connection:
    """A connection that does not return nothing for ever once the server has closed it."""

    def __init__(self, inner: Any) -> None:
        self._inner = inner

    def recv(self, size: int) -> bytes:
        received: bytes = self._inner.recv(size)
        if not received:
            raise ConnectionError("the server closed the connection")
        return received

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)


def _failed(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


def _login(host: str, port: int) -> dict[str, Any] | None:
    """Log in; None if it worked."""
    import baostock
    from baostock.common import contants, context

    if host:
        contants.BAOSTOCK_SERVER_IP, contants.BAOSTOCK_SERVER_PORT = host, port
    told = baostock.login()
    if told.error_code != contants.BSERR_SUCCESS:
        return _failed(told.error_code, told.error_msg)
    context.default_socket = _Connection(context.default_socket)
    return None


def _answer(function: str, arguments: dict[str, str]) -> dict[str, Any]:
    """All pages of a request. ``get_data`` of the package cannot join pages with pandas 2 and newer."""
    import baostock
    from baostock.common.contants import BAOSTOCK_PER_PAGE_COUNT, BSERR_SUCCESS

    result = getattr(baostock, function)(**arguments)
    rows = []
    while result.error_code == BSERR_SUCCESS and result.next():
        rows.append(result.get_row_data())
    if result.error_code != BSERR_SUCCESS:
        return _failed(result.error_code, result.error_msg)
    if len(result.data) == BAOSTOCK_PER_PAGE_COUNT:  # a full page that no other one followed
        return _failed(_LOST, "a page is missing")
    return {"code": BSERR_SUCCESS, "fields": result.fields, "rows": rows}


def main(host: str, port: int) -> None:
    """Answer requests until standard input ends."""
    answers = os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(2, 1)
    logged_in = False
    for line in sys.stdin:
        request = json.loads(line)
        try:
            refused = None if logged_in else _login(host, port)
            logged_in = refused is None
            answer = refused or _answer(request["function"], request["arguments"])
        except (ValueError, LookupError, AttributeError, TypeError) as error:  # of an answer in another form
            answer = _failed("", f"the answer is not its protocol ({type(error).__name__})")
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
