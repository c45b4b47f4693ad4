from __future__ import annotations

import json
import re
import time
from typing import Literal

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ConfigDict, Field, JsonValue

from quantgraph.errors import ModelOutputInvalid
from quantgraph.llm.messages._structured import find_json, read_json, repair_json


class Answer(BaseModel):
    model_config = ConfigDict(extra="forbid")

    action: Literal["buy", "hold", "sell"]
    weight: float = Field(0.0, ge=0, le=1)
    note: str = ""


class Anything(BaseModel):
    value: JsonValue


class Nested(BaseModel):
    decisions: dict[str, Answer]


@pytest.mark.parametrize(
    "reply",
    [
        '{"action": "buy", "weight": 0.5}',
        '```json\n{"action": "buy", "weight": 0.5}\n```',
        '```\n{"action": "buy", "weight": 0.5}```',
        'My answer:\n\n```JSON\n\n{"action": "buy", "weight": 0.5}\n```\nThank you.',
        'I think {"action": "buy", "weight": 0.5} is best.',
        'The placeholder {symbol} and f(x) = {x} aside: {"action": "buy", "weight": 0.5}, as in {this}.',
        'Sources [1] and [2, 3] say {"action": "buy", "weight": 0.5}.',
        '<think>maybe {"action": "sell"} or {oops</think>{"action": "buy", "weight": 0.5}',
        '<THINKING>\n{"action": "sell"}</THINKING>\n\n<think></think>{"action": "buy", "weight": 0.5}',
        'first I thought {"action": "sell"}\n</think>\n{"action": "buy", "weight": 0.5}',
        'For [{x}, {y}] in [{z}]: {"action": "buy", "weight": 0.5}',
        'Use { to open an object. {"action": "buy", "weight": 0.5}',
        '\ufeff  \n{"action":"buy","weight":5e-1}\n',
        '答案：{"action": "buy", "weight": 0.5}。',
    ],
)
def test_the_object_is_found_wherever_it_stands(reply: str) -> None:
    assert read_json(reply, Answer) == Answer(action="buy", weight=0.5)


@pytest.mark.parametrize(
    "note",
    [
        "}{",
        "a { b",
        'she said "{"',
        "back\\slash }",
        "```python\nx = {}\n```",
        "<think>{</think>",
        "</think>",
        "[{",
        "多行\n文本",
    ],
)
def test_braces_fences_and_tags_inside_strings_are_text(note: str) -> None:
    text = json.dumps({"action": "hold", "note": note}, ensure_ascii=False)
    for reply in (text, f"```json\n{text}\n```", f"Well: {text} - that is it {{really}}."):
        assert read_json(reply, Answer).note == note


def test_a_raw_line_break_inside_a_string_is_accepted() -> None:
    assert read_json('{"action": "hold", "note": "two\nlines"}', Answer).note == "two\nlines"


def test_content_blocks_are_read_without_the_thinking() -> None:
    blocks = [
        {"type": "thinking", "thinking": '{"action": "sell"}'},
        {"type": "text", "text": '{"action": '},
        '"buy"}',
        {"type": "image_url", "image_url": {"url": "x"}},
    ]
    assert read_json(blocks, Answer).action == "buy"


def test_a_fenced_object_comes_first() -> None:
    reply = 'Not {"action": "sell"} but\n```json\n{"action": "buy"}\n```\nand never {"action": "hold"}.'
    assert read_json(reply, Answer).action == "buy"


def test_the_last_fitting_object_is_taken() -> None:
    reply = 'Draft {"action": "sell"}; better {"action": "buy"}; unlike {"colour": "red"}.'
    assert read_json(reply, Answer).action == "buy"


@pytest.mark.parametrize(
    ("reply", "says"),
    [
        ('{"action": "sell"} no: {"action": }', "broken: Expecting value"),
        ('{"action": "buy", "weight": 50%}', "broken: Expecting ',' delimiter"),
        ('{"action": "buy", // or "sell"?\n"weight": 1}', "broken: Expecting property name"),
        ("{'action': 'buy', 'action': 'sell'}", "broken: Expecting property name"),
        ('{"action": "buy", "weight": NaN}', "NaN is not a JSON number"),
        ('{"action": "buy", "weight": -Infinity}', "-Infinity is not a JSON number"),
        ('{"action": "buy", "weight": 1e999}', "1e999 is out of range"),
        ('{"action": "buy", "action": "sell"}', "key 'action' is given twice"),
        ('{"decisions": {"a": 1, "a": 1}}', "key 'a' is given twice"),
        ('[{"action": "buy"}, {"action": "sell"}]', "it is a list; one object is asked for"),
        (
            '{"action": "buy", "note": {"action": "sell"}',
            "never closed or broken inside; was the reply cut off?",
        ),
        ('```json\n{"action": "buy", "no', "never closed or broken inside; was the reply cut off?"),
        ('[{"action": "buy"}, {"action"', "never closed or broken inside; was the reply cut off?"),
        ('[{"action": "buy"} oops, {"action": "sell"}]', "never closed or broken inside"),
        ('<think>I wonder {"action": "buy"}', "thinking block is never closed"),
        ('{"a":' * 100_000 + "1" + "}" * 100_000, "nested too deeply"),
    ],
)
def test_broken_json_says_where_it_breaks(reply: str, says: str) -> None:
    with pytest.raises(ModelOutputInvalid) as caught:
        read_json(reply, Answer)
    message = str(caught.value)
    assert message.startswith("the reply's JSON is broken: ")
    assert says in message
    assert "\n" not in message
    assert len(message) < 250


@pytest.mark.parametrize(
    "reply",
    [
        "{'action': 'buy', 'weight': 0.50}",
        '{action: "buy", weight: 0.5,}',
        '{"action": "buy" "weight": .5}',
        '{“action”: “buy”, "weight": 0.5}',
        '```json\n{"action": buy, "weight": 0.5,}\n```',
        'Not {"action": "sell"} but {"action": "buy", "weight": 0.5,}',
    ],
)
def test_broken_json_whose_words_are_all_there_is_repaired(reply: str) -> None:
    assert read_json(reply, Answer) == Answer(action="buy", weight=0.5)


def test_an_extra_quote_does_not_make_fields_part_of_a_string() -> None:
    """All words are there in order; the structure is broken."""
    assert repair_json('{"first":" {"a": -1, "b": 2}') is None
    assert repair_json('{"first":" "a": 1, "last": "x"}') is None


@pytest.mark.parametrize(
    "reply",
    [
        "{'action': 'increase'}",
        "{'action': 'buy', 'weight': 2}",
        "{'weight': 1}",
        '{"action": "buy", "weight": 0,5}',
    ],
)
def test_a_repaired_object_must_fit_the_schema(reply: str) -> None:
    with pytest.raises(ModelOutputInvalid, match="does not fit"):
        read_json(reply, Answer)


def test_a_truncated_reply_is_not_repaired() -> None:
    assert read_json('{"action": "buy"} because', Answer, cut_off=True).action == "buy"
    with pytest.raises(ModelOutputInvalid, match="broken"):
        read_json("{'action': 'buy'}", Answer, cut_off=True)


@settings(max_examples=150)
@given(
    st.dictionaries(
        st.text("abcdef_", min_size=1, max_size=6),
        st.integers(-999, 999) | st.text("abc 中", max_size=6) | st.booleans() | st.none(),
        max_size=4,
    ),
    st.integers(1, 400),
    st.sampled_from(["", ",", "'", '"', ":", "5", "x", " ", "{"]),
)
def test_a_repair_loses_and_adds_no_word(value: dict[str, JsonValue], at: int, put: str) -> None:
    """An object with one character lost or inserted."""
    text = json.dumps({"first": value, "last": 1}, ensure_ascii=False)
    broken = text[: at % len(text)] + put + text[at % len(text) + (not put) :]
    for found in find_json(broken):
        if found.problem is None and found.begin == 0:
            written = json.dumps(found.value, ensure_ascii=False)
            assert re.findall(r"\w+", broken.casefold()) == re.findall(r"\w+", written.casefold())


class Loose(BaseModel):
    note: str | None = "unset"
    count: int | None = None
    share: float = 0.5
    text: str = "unset"
    kind: Literal["a", "b"] = "a"


@pytest.mark.parametrize("null", ["null", "None", "", " NULL "])
def test_a_null_string_is_null_in_a_nullable_field_and_absent_in_an_optional_one(null: str) -> None:
    fields = {"note": null, "count": null, "share": null, "kind": null}
    assert read_json(json.dumps(fields), Loose) == Loose(note=None, count=None)
    assert read_json(json.dumps({"text": null}), Loose).text == null, "a text is what was written"
    with pytest.raises(ModelOutputInvalid, match="'action'"):
        read_json(json.dumps({"action": null}), Answer)


def test_numbers_may_be_strings() -> None:
    assert read_json('{"count": "7", "share": "0.25"}', Loose) == Loose(count=7, share=0.25)


def test_an_empty_reply_is_reported_as_empty() -> None:
    with pytest.raises(ModelOutputInvalid, match=r"no JSON object; it is empty$"):
        read_json(" \n", Answer)


def test_prose_without_json_is_quoted_up_to_80_characters() -> None:
    prose = "I am afraid\nI cannot do that. " + "x" * 200
    with pytest.raises(ModelOutputInvalid) as caught:
        read_json(prose, Answer)
    begin = ("I am afraid I cannot do that. " + "x" * 200)[:80]
    assert str(caught.value) == f"the reply holds no JSON object; it begins {begin!r}"


@pytest.mark.parametrize("reply", ["", "   ", "42", "[]", '"text"', "null", "{curly} words"])
def test_a_reply_without_an_object_is_invalid(reply: str) -> None:
    with pytest.raises(ModelOutputInvalid, match="holds no JSON object"):
        read_json(reply, Answer)


def test_a_misfit_names_every_faulty_key_and_what_is_valid() -> None:
    with pytest.raises(ModelOutputInvalid) as caught:
        read_json('{"weight": "much", "colour": 1}', Answer)
    message = str(caught.value)
    assert "'action': missing" in message
    assert "'weight': Input should be a valid number" in message
    assert "'colour': Extra inputs are not permitted" in message
    assert "(its keys: action, weight, note)" in message
    assert set(caught.value.data["faults"]) == {"action", "weight", "colour"}


def test_a_misfit_inside_is_named_by_its_path_and_the_list_is_cut() -> None:
    decisions = {f"60000{n}.SH": {"action": "increase"} for n in range(8)}
    with pytest.raises(ModelOutputInvalid) as caught:
        read_json(json.dumps({"decisions": decisions}), Nested)
    message = str(caught.value)
    assert "'decisions.600000.SH.action': Input should be 'buy', 'hold' or 'sell'" in message
    assert "; and 3 more" in message
    assert "\n" not in message


@given(value=st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(st.characters(exclude_categories=["Cs"])),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(st.characters(exclude_categories=["Cs"])), inner),
    max_leaves=10,
))  # fmt: skip
def test_any_json_value_survives_prose_and_fence(value: JsonValue) -> None:
    text = json.dumps({"value": value}, ensure_ascii=False)
    assert read_json(text, Anything).value == value
    assert read_json(f"Here {{you}} are:\n```json\n{text}\n```\n", Anything).value == value


@given(st.text(alphabet='{}[]"\\:,ab <>/think`', max_size=80))
def test_any_text_is_read_or_refused_with_one_error(text: str) -> None:
    try:
        read_json(text, Anything)
    except ModelOutputInvalid as error:
        lines = str(error).splitlines()
        assert len(lines) == 1


@pytest.mark.proof
@pytest.mark.parametrize(
    "reply", ["{" * 200_000, "[{" * 100_000, '{"' * 100_000, '"{' * 100_000, "{}" * 50_000]
)
def test_a_hostile_reply_is_refused_in_reasonable_time(reply: str) -> None:
    start = time.process_time()
    with pytest.raises(ModelOutputInvalid):
        read_json(reply, Answer)
    assert time.process_time() - start < 5
