"""Prompts with tagged parts, and JSON read from a model's reply."""

from __future__ import annotations

from typing import TYPE_CHECKING

from quantgraph._util.lazy_names import lazy_names

if TYPE_CHECKING:
    from quantgraph.llm.messages._json import (
        build_request,
        escape_markup,
        escape_tags,
        field_list,
        is_cut_off,
        is_too_deep,
        read,
        reply_text,
        reworded,
        to_json,
        token_counts,
        vendor_fields,
        without_thoughts,
        wrap,
    )
    from quantgraph.llm.messages._structured import ask_json, find_json, read_json, read_object, typed_args

__all__ = [
    "ask_json",
    "build_request",
    "escape_markup",
    "escape_tags",
    "field_list",
    "find_json",
    "is_cut_off",
    "is_too_deep",
    "read",
    "read_json",
    "read_object",
    "reply_text",
    "reworded",
    "to_json",
    "token_counts",
    "typed_args",
    "vendor_fields",
    "without_thoughts",
    "wrap",
]

if not TYPE_CHECKING:  # a type checker must still find misspelt names
    __getattr__, __dir__ = lazy_names(__name__, __file__)
