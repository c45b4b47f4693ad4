"""Where the calls of an MCP client meet a run: they wait in one line, and the run takes them one by one."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from typing import Any, Final

from quantgraph._util.canonical_json import canonical_json
from quantgraph.mcp.served_tools import CLIENT_TOOLS, ServedTool, served_tool
from quantgraph.tools.refusal import refusal

LONGEST_ARGUMENTS: Final = 20_000
"""Characters of a call's arguments, as JSON."""
_MOST_WAITING = 100
_CHECK_SECONDS = 0.05


class ClientDesk:
    """Hands the calls of a client, from the threads of a server, to the thread of a run, in their order.

    A call that arrives before a day is open, or while a day is being committed, waits.
    """

    def __init__(self) -> None:
        # The lock guards the line and what is under way, which the server's threads and the run share.
        self._changed = threading.Condition()
        self._line: deque[tuple[dict[str, Any], Future[Any]]] = deque()
        self._under_way: Future[Any] | None = None
        self._closed: dict[str, Any] | None = None

    @property
    def tools(self) -> Mapping[str, ServedTool]:
        """The tools of a client."""
        return {name: served_tool(name) for name in CLIENT_TOOLS}

    def call(self, name: str, args: Mapping[str, Any]) -> Any:
        """Wait until the run has carried a call out, and return its answer."""
        try:
            length = len(canonical_json(args, allow_nan=False))
        except (TypeError, ValueError, RecursionError):
            return refusal("bad_option", f"the arguments of {name} are not JSON with finite numbers")
        if length > LONGEST_ARGUMENTS:
            return refusal(
                "bad_option",
                f"the arguments of {name} have {length:,} characters; must be at most {LONGEST_ARGUMENTS:,}",
            )
        answer: Future[Any] = Future()
        with self._changed:
            if self._closed is not None:
                return self._closed
            if len(self._line) >= _MOST_WAITING:
                return refusal("rate_limited", f"{_MOST_WAITING} calls wait already; wait for their answers")
            self._line.append(({"tool": name, "args": dict(args)}, answer))
            self._changed.notify_all()
        return answer.result()

    def next_call(self, check: Callable[[], None]) -> dict[str, Any]:
        """Wait for the next call; ``check`` raises what ends the wait."""
        with self._changed:
            while not self._line:
                check()
                self._changed.wait(_CHECK_SECONDS)
            call, self._under_way = self._line.popleft()
            return call

    def answer(self, answer: Any) -> None:
        """Answer the call that was taken last; one that came from a record has nobody who waits."""
        with self._changed:
            waiting, self._under_way = self._under_way, None
        if waiting is not None:
            waiting.set_result(answer)

    def close(self, answer: Mapping[str, Any], *, last: Any = None) -> None:
        """Answer the calls that wait, and all later ones, by one answer.

        Parameters
        ----------
        last
            The answer of the call that was taken and not answered, if it is another.
        """
        with self._changed:
            self._closed = dict(answer)
            line, self._line = list(self._line), deque()
        self.answer(last or self._closed)
        for _, waiting in line:
            waiting.set_result(self._closed)
