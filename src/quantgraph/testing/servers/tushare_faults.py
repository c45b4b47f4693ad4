"""What can go wrong with tushare, scripted.

A fault is given to :class:`~quantgraph.testing.servers.tushare_stub.TushareStub` for one endpoint (or ``"*"``
for all) and answers instead of the table, the first ``times`` requests or always.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

__all__ = [
    "TushareFault",
    "allowance_used_up",
    "bad_token",
    "connection_dropped",
    "garbage",
    "http_error",
    "no_answer",
    "no_permission",
    "points_missing",
    "rate_limited",
    "reply_cut",
    "without_data",
]

_CODE_TOKEN = 40101
_CODE_REFUSED = 40203
_DETAILS = "权限的具体详情访问：https://tushare.pro/document/1?doc_id=108。"


@dataclass(frozen=True, kw_only=True)
class TushareFault:
    """One way to fail.

    ``kind`` says how: ``refusal`` is a well-formed reply with ``code`` and ``message``; ``http`` has status
    ``code``; ``silence`` never answers; ``drop`` closes the connection; ``cut`` closes it within the reply;
    ``text`` answers ``message`` with status 200. ``times`` is how many requests it spoils; None is all.
    """

    kind: Literal["refusal", "http", "silence", "drop", "cut", "text"]
    code: int = 0
    message: str = ""
    times: int | None = None


def rate_limited(times: int | None = None, *, per_minute: int = 500) -> TushareFault:
    """Complain of too many requests in a minute."""
    message = f"抱歉，您每分钟最多访问该接口{per_minute}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def allowance_used_up(times: int | None = None, *, per_day: int = 2) -> TushareFault:
    """Complain of too many requests in a day."""
    message = f"抱歉，您每天最多访问该接口{per_day}次，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def no_permission(times: int | None = None) -> TushareFault:
    """Refuse the endpoint to this token."""
    message = f"抱歉，您没有访问该接口的权限，{_DETAILS}"
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message=message, times=times)


def points_missing(times: int | None = None) -> TushareFault:
    """Refuse for want of points."""
    return TushareFault(kind="refusal", code=_CODE_REFUSED, message="抱歉，您的积分不足。", times=times)


def bad_token(times: int | None = None) -> TushareFault:
    """Refuse the token."""
    return TushareFault(kind="refusal", code=_CODE_TOKEN, message="您的token不对，请确认。", times=times)


def http_error(status: int = 500, times: int | None = None) -> TushareFault:
    """Answer with an HTTP error, which the real client turns into an empty frame."""
    return TushareFault(kind="http", code=status, times=times)


def no_answer(times: int | None = None) -> TushareFault:
    """Say nothing until the client gives up or the stub is closed."""
    return TushareFault(kind="silence", times=times)


def connection_dropped(times: int | None = None) -> TushareFault:
    """Close the connection without a reply."""
    return TushareFault(kind="drop", times=times)


def reply_cut(times: int | None = None) -> TushareFault:
    """Close the connection in the middle of the reply."""
    return TushareFault(kind="cut", times=times)


def garbage(times: int | None = None, *, body: str = "<html>502 Bad Gateway</html>") -> TushareFault:
    """Answer with status 200 and a body that is not the protocol."""
    return TushareFault(kind="text", message=body, times=times)


def without_data(times: int | None = None) -> TushareFault:
    """Claim success, and leave ``data`` out."""
    return TushareFault(kind="text", message='{"code": 0, "msg": ""}', times=times)
