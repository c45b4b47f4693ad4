"""The skill: a client that codes as it says comes through, by the rule reader, the proof and the ledger."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest
import yaml

from quantgraph.broker import TradePlan
from quantgraph.errors import NotCausal
from quantgraph.runs import run_strategy
from quantgraph.runs.verification import audit_sentence
from quantgraph.subgraphs.signal._meaning import HeldSignal

SKILL = Path(__file__).parents[3] / "src" / "quantgraph" / "integrations" / "mcp" / "SKILL.md"
TEXT = SKILL.read_text(encoding="utf-8")
SAMPLE = {"source": "sample"}
CELLS = [
    (" ".join(sentence.split()), code)
    for sentence, code in re.findall(r"\n\n([^\n`]+(?:\n[^\n`]+)?)\n\n```python\n(.*?)```", TEXT, re.DOTALL)
]
NAMES = [re.search(r'"signal", \{"(\w+)"', code)[1] for _, code in CELLS]
TOOLS = ("understand", "audit", "run", "status", "result", "trades", "compare", "report")


def held(code: str, sentence: str, folder: Path) -> HeldSignal:
    path = folder / "cell.py"
    path.write_text(code, encoding="utf-8")
    return audit_sentence(path, sentence, **SAMPLE)


def section(title: str) -> str:
    return re.search(rf"^## {title}\n(.*?)(?=^## |\Z)", TEXT, re.MULTILINE | re.DOTALL)[1]


def rows(title: str) -> list[list[str]]:
    lines = [line for line in section(title).splitlines() if line.startswith("|")][2:]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_the_front_matter_is_that_of_an_agent_skill():
    head = yaml.safe_load(re.match(r"---\n(.*?)\n---\n", TEXT, re.DOTALL)[1])
    assert set(head) == {"name", "description"}
    assert re.fullmatch(r"[a-z0-9]+(-[a-z0-9]+)*", head["name"])
    assert len(head["name"]) <= 64
    assert 0 < len(head["description"]) <= 1024
    assert not re.search(r"[<>]", head["description"])


def test_it_is_short_and_names_every_tool():
    assert len(TEXT.splitlines()) <= 170
    assert [tool for tool in TOOLS if f"`{tool}(" not in TEXT] == []


def test_there_are_five_cells_and_no_block_escapes_the_tests():
    assert len(CELLS) == len(set(NAMES)) == TEXT.count("```python") == 5


@pytest.mark.parametrize(("sentence", "code"), CELLS, ids=NAMES)
def test_a_cell_is_causal_trades_and_does_what_its_sentence_says(sentence: str, code: str, tmp_path: Path):
    found = held(code, sentence, tmp_path)
    assert (found.not_compared, found.findings) == (None, ())
    result = run_strategy(sentence, strategy=tmp_path / "cell.py", out=tmp_path / "runs", **SAMPLE)
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
    state = code.replace(" & (fast.shift(1) <= slow.shift(1))", "")
    assert "meaning_not_an_event" in {each.code for each in held(state, sentence, tmp_path).findings}
    centred = code.replace("rolling(days)", "rolling(days, center=True)")
    (tmp_path / "cell.py").write_text(centred, encoding="utf-8")
    with pytest.raises(NotCausal) as caught:
        run_strategy(sentence, strategy=tmp_path / "cell.py", out=tmp_path / "runs", **SAMPLE)
    example = caught.value.data["verdict"]["counterexample"]
    assert example["session"]
    assert example["symbol"]
    assert example["hints"][0]["line"] == centred[: centred.index("center=True")].count("\n") + 1
    codes = " ".join(row[0] for row in rows("When something comes back"))
    assert all(code in codes for code in (differs.code, "meaning_not_an_event", caught.value.code))


def test_every_word_of_the_plan_is_in_its_table_and_every_form_is_a_plan():
    table = rows("The plan")
    assert [row[0].strip("`") for row in table] == list(TradePlan.__dataclass_fields__)
    for word, forms, _ in table:
        found = [json.loads(form) for form in re.findall(r"`(\{.*?\})`", forms)]
        assert found, word
        for form in found:
            assert word.strip("`") in form
            TradePlan.of(form)


def test_every_kind_of_size_and_every_schedule_is_shown():
    table = {row[0].strip("`"): row[1] for row in rows("The plan")}
    for kind in ("equal_slots", "equal_weight", "percent", "cash", "shares", "weights"):
        assert f'"{kind}"' in table["size"]
    for schedule in ("every", "week_start", "month_start", "quarter_start"):
        assert f'"{schedule}"' in table["trade_on"]
    for way in ("amount", "percent", "shares", "rise", "fall", "by", "times"):
        assert f'"{way}"' in table["accumulate"]
