"""Canonical JSON and content hashes: one text for a value, one name for a content."""

from __future__ import annotations

from hashlib import blake2b
from pathlib import Path

import pytest

from quantgraph._util.canonical_json import canonical_json, content_hash, file_hash, json_copy


def test_equal_values_have_one_text() -> None:
    assert canonical_json({"b": 1, "a": [1.0, None]}) == canonical_json({"a": [1.0, None], "b": 1})
    assert canonical_json({"b": 1, "a": 2}, sort_keys=False) == '{"b":1,"a":2}'
    assert canonical_json("均线\u2028") == '"均线\u2028"'


@pytest.mark.parametrize("value", [{}, [1, 0.5, None, True], {"a": {"b": ["均线"]}}])
def test_plain_json_has_a_copy_of_its_own(value) -> None:
    assert json_copy(value) == value
    assert json_copy(value) is not value


@pytest.mark.parametrize("value", [{1: "a"}, (1,), [float("nan")], {"a": {1, 2}}, "\ud800", object()])
def test_what_json_changes_or_cannot_hold_has_no_copy(value) -> None:
    assert json_copy(value) is None


def test_a_lone_surrogate_is_replaced() -> None:
    assert canonical_json(["a\ud800b"]) == '["a?b"]'


def test_what_is_not_json_is_an_error() -> None:
    with pytest.raises(TypeError):
        canonical_json({"when": object()})
    with pytest.raises(ValueError, match="JSON compliant"):
        canonical_json(float("nan"), allow_nan=False)


def test_a_content_hash_is_blake2b_of_the_parts_joined(tmp_path: Path) -> None:
    expected = blake2b("均线 5".encode(), digest_size=16).hexdigest()
    assert content_hash("均线", b" ", memoryview(b"5")) == expected
    assert content_hash("均线 5", size=8) == blake2b("均线 5".encode(), digest_size=8).hexdigest()
    assert len(content_hash("\udcff")) == 32
    path = tmp_path / "file"
    path.write_text("均线 5", encoding="utf-8")
    assert file_hash(path) == expected
