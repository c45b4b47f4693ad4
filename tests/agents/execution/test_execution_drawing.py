"""Drawings of an execution: every step in order, nothing that a model wrote is more than text."""

from xml.etree import ElementTree as ET

import pytest
from hypothesis import given
from hypothesis import strategies as st

from quantgraph.agents.execution import draw_execution
from quantgraph.agents.execution._drawing import text_width
from quantgraph.errors import BadOption

SVG = "{http://www.w3.org/2000/svg}"
HISTORY = [
    {
        "type": "tool_call",
        "reasoning": "look at the bars",
        "tool_name": "get_kline_data",
        "params": {"symbol": "600519.SH", "limit": 40},
        "result": [{"close": 1700.5}] * 40,
    },
    {
        "type": "calculation",
        "reasoning": "the average",
        "calculation_type": "MA",
        "formula": "sum(close[-20:]) / 20",
        "inputs": {"period": 20},
        "intermediate_result": 1690.25,
        "result": {"talib": {"ma(20)": 1700.5}},
    },
    {
        "type": "decision",
        "reasoning": "above",
        "action": "buy",
        "reason": "close above MA20",
        "confidence": 0.75,
    },
]
HOSTILE = [
    '"]; click s1 "javascript:alert(1)"',
    '<script>alert("x")</script><img src=x onerror=alert(1)>',
    "]] --> s9[stolen]\n    s1 --> s3\nend\nsubgraph x",
    "%%{init: {'theme': 'dark', 'securityLevel': 'loose'}}%%",
    "`**markdown**` #35; &quot; &#60;b&#62; \\n \\u003c",
    "]]></svg><!-- --> <?xml?> &amp; &nope;",
    "\x00\x1b[31m\u202e\u2028\ud800\ufffe\uffff\x85",
    "1. a list\n- another\n# heading\n:::alert",
]


def hostile_history(text):
    return [
        {
            "type": "tool_call",
            "reasoning": text,
            "tool_name": text,
            "params": {text: text},
            "result": [text, {text: 1}],
        },
        {
            "type": "calculation",
            "reasoning": text,
            "calculation_type": text,
            "formula": text,
            "inputs": {"a": text},
        },
        {"type": text, "reasoning": text, "result": text},
        {"type": "decision", "reasoning": text, "action": text, "reason": text, "confidence": text},
    ]


def texts_of(svg):
    return [element.text or "" for element in ET.fromstring(svg).iter(f"{SVG}text")]


def test_the_steps_are_drawn_in_order_with_inputs_outputs_and_numbers():
    drawing = draw_execution(HISTORY)
    assert texts_of(drawing.svg) == [
        "1 · tool_call · get_kline_data",
        "why: look at the bars",
        "input: symbol=600519.SH, limit=40",
        "result: 40 entries, the last: close=1700.5",
        "2 · calculation · MA",
        "why: the average",
        "input: sum(close[-20:]) / 20 | period=20",
        "result: 1690.25",
        "TA-Lib: ma(20)=1700.5",
        "3 · decision · buy",
        "why: above",
        "reason: close above MA20",
        "result: confidence 0.75",
    ]


def test_the_result_of_a_tool_that_failed_is_drawn_in_another_colour_and_no_calculation_is():
    failed = {**HISTORY[0], "result": {"error": "tool_timeout: 30 s"}}
    judged = {**HISTORY[1], "result": {"checked": True, "matches": False, "talib": {"ma": 1700.5}}}
    svg = ET.fromstring(draw_execution([failed, HISTORY[1], judged]).svg)
    colours = {element.text: element.get("fill") for element in svg.iter(f"{SVG}text")}
    assert colours["result: tool_timeout: 30 s"] != colours["result: 1690.25"]
    assert colours["TA-Lib: ma(20)=1700.5"] == colours["result: 1690.25"]
    assert colours["TA-Lib: ma=1700.5"] == colours["result: 1690.25"]


def test_labels_are_in_the_language_that_is_asked_for():
    told = texts_of(draw_execution(HISTORY, language="zh").svg)
    assert {"思考: above", "理由: close above MA20", "结果: 信心 0.75"} <= set(told)


@pytest.mark.parametrize("text", HOSTILE)
def test_hostile_text_stays_text(text):
    drawing = draw_execution(hostile_history(text))
    root = ET.fromstring(drawing.svg)
    assert {element.tag for element in root.iter()} == {
        f"{SVG}{name}" for name in ("svg", "title", "rect", "text", "path")
    }
    assert not [
        name for element in root.iter() for name in element.attrib if name.startswith("on") or "href" in name
    ]


@given(st.text(max_size=300))
def test_any_text_stays_text(text):
    drawing = draw_execution(hostile_history(text))
    ET.fromstring(drawing.svg)


@pytest.mark.parametrize("text", ["x" * 100_000, "均线" * 50_000, "a b " * 30_000, "\u0301" * 5_000])
def test_long_text_is_cut_and_the_width_is_bounded(text):
    drawing = draw_execution(hostile_history(text))
    root = ET.fromstring(drawing.svg)
    assert int(root.get("width")) <= 800
    # A column of a monospaced font of 13 pixels is 7.8 pixels wide.
    widest = max(text_width(line) for line in texts_of(drawing.svg))
    assert widest * 7.8 + 2 * 28 <= int(root.get("width")) + 8
    assert len(drawing.svg) < 20_000


def test_every_box_is_inside_the_picture():
    root = ET.fromstring(draw_execution(HISTORY * 17).svg)
    height = int(root.get("height"))
    for box in root.iter(f"{SVG}rect"):
        assert int(box.get("y", "0")) + int(box.get("height")) <= height
    assert all(int(text.get("y")) < height for text in root.iter(f"{SVG}text"))


def test_ink_and_paper_are_given_so_that_a_dark_page_changes_nothing():
    drawing = draw_execution(HISTORY)
    rectangles = {element.get("fill") for element in ET.fromstring(drawing.svg).iter(f"{SVG}rect")}
    inks = {element.get("fill") for element in ET.fromstring(drawing.svg).iter(f"{SVG}text")}
    assert min(contrast(paper[1:], ink[1:]) for paper in rectangles for ink in inks) > 4.5


def contrast(one, other):
    """The contrast ratio of two colours, WCAG 2.1; 4.5 is the least for text."""

    def luminance(colour):
        parts = [int(colour[place : place + 2], 16) / 255 for place in (0, 2, 4)]
        linear = [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]
        return 0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2]

    darker, lighter = sorted((luminance(one), luminance(other)))
    return (lighter + 0.05) / (darker + 0.05)


def test_a_notebook_shows_the_picture(tmp_path):
    drawing = draw_execution(HISTORY)
    assert drawing._repr_svg_() == drawing.svg
    assert repr(drawing).startswith("ExecutionDrawing(svg=")


def test_a_drawing_is_saved_as_svg_alone(tmp_path):
    drawing = draw_execution(HISTORY)
    drawing.save(tmp_path / "a.svg")
    assert (tmp_path / "a.svg").read_text(encoding="utf-8") == drawing.svg
    with pytest.raises(BadOption, match=r"must end in \.svg"):
        drawing.save(tmp_path / "a.png")
    with pytest.raises(BadOption, match="there is no folder"):
        drawing.save(tmp_path / "none" / "a.svg")


def test_a_state_in_place_of_its_records_is_told():
    with pytest.raises(BadOption, match=r"give one of Ledger\.executions\(\), or state"):
        draw_execution({"execution_history": []})
