"""Frames, views, accounts and decisions as bytes between this process and the sealed one."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.sandbox.wire._deciders import (
        ViewSender,
        account_to_json,
        decision_from_json,
        host_account,
    )
    from quantgraph.sandbox.wire._wire import Frames, encode_message

__all__ = ["Frames", "ViewSender", "account_to_json", "decision_from_json", "encode_message", "host_account"]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
