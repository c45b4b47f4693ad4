"""The process in which the package ``baostock`` runs.

The package waits for ever, and busily, for a server that has closed the connection. After the login that is
an error here; before, the process is ended by its time limit.
"""

from __future__ import annotations

import sys
from typing import Any

from quantgraph.data._vendor_process import serve

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


def _failure(code: str, message: str) -> dict[str, Any]:
    return {"code": code, "message": message}


def _login(host: str, port: int) -> dict[str, Any] | None:
    """Log in; None if it worked."""
    import baostock
    from baostock.common import contants, context

    if host:
        contants.BAOSTOCK_SERVER_IP, contants.BAOSTOCK_SERVER_PORT = host, port
    login = baostock.login()
    if login.error_code != contants.BSERR_SUCCESS:
        return _failure(login.error_code, login.error_msg)
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
        return _failure(result.error_code, result.error_msg)
    if len(result.data) == BAOSTOCK_PER_PAGE_COUNT:  # a full page that no other one followed
        return _failure(_LOST, "a page is missing")
    return {"code": BSERR_SUCCESS, "fields": result.fields, "rows": rows}


class _Worker:
    """Logs in at the first request."""

    def __init__(self, host: str, port: int) -> None:
        self._host, self._port, self._logged_in = host, port, False

    def answer(self, request: dict[str, Any]) -> dict[str, Any]:
        """The answer to one request, or what failed."""
        try:
            refused = None if self._logged_in else _login(self._host, self._port)
            self._logged_in = refused is None
            return refused or _answer(request["function"], request["arguments"])
        except (ValueError, LookupError, AttributeError, TypeError) as error:  # of an answer in another form
            return _failure("", f"the answer is not its protocol ({type(error).__name__})")


if __name__ == "__main__":
    serve(_Worker(sys.argv[1], int(sys.argv[2])).answer)
