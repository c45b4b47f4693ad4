"""Values from outside: which are numbers, and in one line what does not fit a model."""

from __future__ import annotations

import math
from decimal import Decimal

import numpy as np
import pytest
from pydantic import BaseModel, ConfigDict, Field, SecretStr, ValidationError

from quantgraph._util.values import faults_of, finite_number, first_of, is_number, is_whole, plain_number


@pytest.mark.parametrize("value", [0, -7, 10**400])
def test_an_int_is_whole_and_a_number(value):
    assert is_whole(value)
    assert is_number(value)


@pytest.mark.parametrize("value", [0.5, 2.0, math.nan, -math.inf, np.float64(1)])
def test_a_float_is_a_number_and_not_whole(value):
    assert is_number(value)
    assert not is_whole(value)


@pytest.mark.parametrize("value", [True, False, np.True_, None, "1", [1], 1j])
def test_what_is_neither_is_no_number(value):
    assert not is_whole(value)
    assert not is_number(value)
    assert finite_number(value) is None


def test_a_finite_number_is_a_float():
    assert [finite_number(value) for value in (3, -0.5)] == [3.0, -0.5]
    assert type(finite_number(3)) is float
    assert [finite_number(value) for value in (math.nan, math.inf, -math.inf, 10**400)] == [None] * 4


@pytest.mark.parametrize("value", [3, 3.0, Decimal("3.000")])
def test_a_whole_number_is_written_without_decimals(value):
    assert type(plain_number(value)) is int
    assert plain_number(value) == 3


@pytest.mark.parametrize("value", [0.5, Decimal("0.50")])
def test_a_part_of_one_stays(value):
    assert type(plain_number(value)) is float
    assert plain_number(value) == 0.5


class Part(BaseModel):
    model_config = ConfigDict(extra="forbid")

    size: int = Field(description="a whole number")
    note: str = "none"
    token: SecretStr | None = Field(None, description="a token")
    address: str = Field("", repr=False, description="an address")


class Document(BaseModel):
    model_config = ConfigDict(extra="forbid")

    parts: list[Part] = Field([], description="a list of parts")
    named: dict[str, Part] | None = None
    one: Part | None = Field(None, description="a part")


def lines(document, **options):
    with pytest.raises(ValidationError) as caught:
        Document.model_validate(document)
    return [fault.line for fault in faults_of(caught.value, Document, **options)]


@pytest.mark.parametrize(
    ("document", "said"),
    [
        ({"parts": [{"size": 1}, {"size": "big"}]}, "parts[1].size is 'big'; must be a whole number"),
        ({"named": {"a": {}}}, "named.a.size is missing; must be a whole number"),
        ({"one": {"size": None}}, "one.size is missing; must be a whole number"),
        ({"one": {"size": [1]}}, "one.size is a list; must be a whole number"),
        ({"parts": {"sk-hidden": 1}}, "parts is an object; must be a list of parts"),
        ({"one": {"size": 1, "note": 7}}, "one.note: Input should be a valid string"),
        ({"one": {"size": 1, "token": 7}}, "one.token is this value; must be a token"),
        ({"one": {"size": 1, "address": 7}}, "one.address is this value; must be an address"),
        ({"parts": [{"size": 1, "sizes": 2}]}, "parts[0].sizes is not a key; did you mean 'size'?"),
        (
            {"named": {"a": {"size": 1, "zz": 2}}},
            "named.a.zz is not a key; valid are size, note, token, address",
        ),
        ({"a\nb": 1}, "a b is not a key; valid are parts, named, one"),
        ({"x" * 100: 1}, f"{'x' * 59}… is not a key; valid are parts, named, one"),
    ],
)
def test_a_fault_is_one_line_with_its_place_and_what_is_valid(document, said):
    assert lines(document) == [said]


def test_the_caller_chooses_how_a_value_shows():
    assert lines({"one": {"size": 1, "token": 7}}, show=lambda value: f"<{value}>") == [
        "one.token is this value; must be a token"
    ]
    assert lines({"one": {"size": "big"}}, show=lambda value: f"<{value}>") == [
        "one.size is <big>; must be a whole number"
    ]


def test_what_does_not_fit_as_a_whole_has_no_place():
    with pytest.raises(ValidationError) as caught:
        Document.model_validate([])
    (fault,) = faults_of(caught.value, Document)
    assert (fault.place, fault.shown) == ("", "a list")
    assert fault.line == fault.problem


def test_the_first_lines_are_one_that_counts_the_rest():
    assert first_of(["a", "b", "c"]) == "a; b; c"
    assert first_of(["a", "b", "c", "d"]) == "a; b; c; and 1 more"
    assert first_of([]) == ""
