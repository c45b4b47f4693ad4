"""The skill: a client that codes as it says comes through, by the rule reader, the proof and the ledger."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from quantgraph.broker import TradePlan
from quantgraph.errors import NotCausal
from quantgraph.integrations.mcp._research import Research
from quantgraph.integrations.mcp._research_answers import AuditAnswer, Question, ResultAnswer, RunAnswer
from quantgraph.integrations.mcp._research_runs import ResearchRuns
from quantgraph.integrations.mcp._research_tools import TOOLS
from quantgraph.runs import RunSpec, run_strategy
from quantgraph.runs.verification import audit_sentence
from quantgraph.runtime import Resources
from quantgraph.settings import load_settings
from quantgraph.subgraphs.signal import HeldSignal

FOLDER = Path(__file__).parents[3] / "src" / "quantgraph" / "integrations" / "mcp"
TEXT, CHINESE = ((FOLDER / name).read_text(encoding="utf-8") for name in ("SKILL.md", "skill_zh.md"))
SAMPLE = {"source": "sample"}


def cells(text: str) -> list[tuple[str, str]]:
    """Each cell below the sentence that it codes."""
    found = re.findall(r"\n\n([^\n`]+(?:\n[^\n`]+)?)\n\n```python\n(.*?)```", text, re.DOTALL)
    return [(" ".join(sentence.split()), code) for sentence, code in found]


CELLS = cells(TEXT)
NAMES = [re.search(r'"signal", \{"(\w+)"', code)[1] for _, code in CELLS]


def held(code: str, sentence: str, folder: Path) -> HeldSignal:
    path = folder / "cell.py"
    path.write_text(code, encoding="utf-8")
    return audit_sentence(path, sentence, **SAMPLE)


def tables(text: str) -> list[list[list[str]]]:
    """The rows of the plan and of the errors."""
    found = re.findall(r"^\| --- .*\n((?:^\|.*\n)+)", text, re.MULTILINE)
    return [
        [[cell.strip() for cell in line.strip("|").split("|")] for line in body.splitlines()]
        for body in found
    ]


PLAN, ERRORS = tables(TEXT)


def test_the_front_matter_is_that_of_an_agent_skill():
    head = yaml.safe_load(re.match(r"---\n(.*?)\n---\n", TEXT, re.DOTALL)[1])
    assert set(head) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert len(head["name"]) <= 64
    assert 0 < len(head["description"]) <= 1024
    assert not re.search(r"[<>]", head["description"])


def test_it_is_short():
    assert len(TEXT.splitlines()) <= 170


@pytest.mark.parametrize("text", [TEXT, CHINESE], ids=["en", "zh"])
def test_every_call_that_it_shows_is_one_of_a_tool_with_its_arguments(text: str):
    calls = [call for call in re.findall(r"`(\w+)\(([^()`]*)\)`", text) if call[0] != "shift"]
    assert {name for name, _ in calls} == {*TOOLS}
    for name, given in calls:
        words = [each.partition("=")[0].strip() for each in given.split(",")]
        assert [
            word for word in words if word not in TOOLS[name][0].model_json_schema()["properties"]
        ] == [], name


def test_every_field_of_an_answer_that_it_names_is_there():
    fields = {
        name for each in (RunAnswer, AuditAnswer, ResultAnswer, Question) for name in each.__annotations__
    }
    named = {
        "next",
        "id",
        "text",
        "options",
        "default",
        "counterexample",
        "departures",
        "not_compared",
        "not_done",
    }
    assert named <= fields
    assert [name for name in sorted(named) if f"`{name}`" not in TEXT] == []


def test_the_tools_say_of_the_first_cell_what_it_promises(tmp_path: Path):
    runs = ResearchRuns(tmp_path, Resources(settings=load_settings()), most=2, most_mb=1_000)
    research = Research(runs)

    def call(name: str, **args: object) -> dict:
        return research.call(name, args, lambda *_: None)

    sentence, code = CELLS[0]
    assert call("understand", sentence=sentence)["state"] == "understood"
    audited = call("audit", code=code, said=sentence)
    assert (audited["causal"], audited["compared"], audited["departures"]) == (True, True, [])
    departing = code.replace("mean(20)", "mean(30)")
    assert len(call("audit", code=departing, said=sentence)["departures"]) == 1
    assert call("run", code=departing, sentence=sentence)["question"]["kind"] == "meaning"
    leaky = call("audit", code=code.replace("rolling(days)", "rolling(days, center=True)"), said=sentence)
    assert leaky["counterexample"]["symbol"] in sentence
    assert call("run", code=code, sentence=sentence)["state"] == "done"
    assert call("understand", sentence="buy low, sell high")["state"] == "asks"


def test_there_are_five_cells_and_no_block_escapes_the_tests():
    assert len(CELLS) == len(set(NAMES)) == TEXT.count("```python") == 5


@pytest.mark.parametrize(("sentence", "code"), CELLS, ids=NAMES)
def test_a_cell_is_causal_trades_and_does_what_its_sentence_says(sentence: str, code: str, tmp_path: Path):
    found = held(code, sentence, tmp_path)
    assert (found.not_compared, found.findings) == (None, ())
    spec = RunSpec(question=sentence, on_clarify="ask")  # as the server runs it
    result = run_strategy(spec, strategy=tmp_path / "cell.py", out=tmp_path / "runs", **SAMPLE)
    assert result["ended_because"] == "done"
    assert result["causality"]["causal"]
    assert result["account"]["trades"] > 0


@pytest.mark.parametrize(("sentence", "code"), CELLS, ids=NAMES)
def test_the_comparison_notices_a_cell_that_buys_where_it_sells(sentence: str, code: str, tmp_path: Path):
    swapped = re.sub(r"(GLOBAL_DATA_STATE\.update\(.*: )", r"\1-1.0 * ", code)
    assert swapped != code
    assert "meaning_differs" in {each.code for each in held(swapped, sentence, tmp_path).findings}


def test_the_errors_that_it_describes_come_with_their_place(tmp_path: Path):
    sentence, code = CELLS[0]
    (differs,) = held(code.replace("mean(20)", "mean(30)"), sentence, tmp_path).findings
    assert differs.code == "meaning_differs"
    assert differs.session
    assert differs.symbol
    centred = code.replace("rolling(days)", "rolling(days, center=True)")
    (tmp_path / "cell.py").write_text(centred, encoding="utf-8")
    with pytest.raises(NotCausal) as caught:
        run_strategy(sentence, strategy=tmp_path / "cell.py", out=tmp_path / "runs", **SAMPLE)
    example = caught.value.data["verdict"]["counterexample"]
    assert example["session"]
    assert example["symbol"]
    assert example["hints"][0]["line"] == centred[: centred.index("center=True")].count("\n") + 1
    assert caught.value.code in ERRORS[0][0]


def test_every_word_of_the_plan_is_in_its_table_and_every_form_is_a_plan():
    assert [row[0].strip("`") for row in PLAN] == list(TradePlan.__dataclass_fields__)
    for word, forms, _ in PLAN:
        found = [json.loads(form) for form in re.findall(r"`(\{.*?\})`", forms)]
        assert found, word
        for form in found:
            assert word.strip("`") in form
            TradePlan.of(form)


def test_every_kind_of_size_and_every_schedule_is_shown():
    table = {row[0].strip("`"): row[1] for row in PLAN}
    for kind in ("equal_slots", "equal_weight", "percent", "cash", "shares", "weights"):
        assert f'"{kind}"' in table["size"]
    for schedule in ("every", "week_start", "month_start", "quarter_start"):
        assert f'"{schedule}"' in table["trade_on"]
    for way in ("amount", "percent", "shares", "rise", "fall", "by", "times"):
        assert f'"{way}"' in table["accumulate"]


def test_the_chinese_twin_has_the_same_headings_cells_forms_and_codes():
    headings = [
        re.findall(r"^#+(?= )", re.sub(r"```.*?```", "", text, flags=re.DOTALL), re.MULTILINE)
        for text in (TEXT, CHINESE)
    ]
    assert headings[0] == headings[1]
    assert [code for _, code in cells(CHINESE)] == [code for _, code in CELLS]
    plan, errors = tables(CHINESE)
    assert [row[:2] for row in plan] == [row[:2] for row in PLAN]
    assert [re.findall(r"`.*?`", row[0]) for row in errors] == [
        re.findall(r"`.*?`", row[0]) for row in ERRORS
    ]


@pytest.mark.parametrize(("sentence", "code"), cells(CHINESE), ids=NAMES)
def test_a_chinese_sentence_says_what_its_cell_does(sentence: str, code: str, tmp_path: Path):
    found = held(code, sentence, tmp_path)
    assert (found.not_compared, found.findings) == (None, ())
