"""Every example of the documentation is read, in both languages, to the same code."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from quantgraph.sentences._request import RequestContext, read_request
from quantgraph.sentences._rules import write_code

PAGE = Path(__file__).resolve().parents[2] / "docs" / "keyless-planner.md"


def family() -> list[tuple[str, str, str, str]]:
    """Rows of the family table: family, Chinese, English, signal name."""
    table = PAGE.read_text(encoding="utf-8").split("## The family")[1].split("\n## ")[0]
    rows = [line for line in table.splitlines() if line.startswith("| ")]
    cells = [[cell.strip() for cell in re.split(r"(?<!\\)\|", row)[1:-1]] for row in rows[2:]]
    return [(row[0], row[1], row[2], row[3].strip("`")) for row in cells]


ROWS = family()


def test_the_table_has_every_family() -> None:
    assert len(ROWS) >= 25


@pytest.mark.parametrize(("family_name", "chinese", "english", "name"), ROWS, ids=[row[0] for row in ROWS])
def test_both_examples_of_the_table_write_the_same_code(
    family_name: str, chinese: str, english: str, name: str
) -> None:
    ours, theirs = (read_request(text, RequestContext()) for text in (chinese, english))
    assert ours.strategy is not None, ours.unparsed
    assert theirs.strategy is not None, theirs.unparsed
    assert ours.unparsed == theirs.unparsed == ()
    assert ours.strategy == theirs.strategy
    code = write_code(ours.strategy)
    assert code == write_code(theirs.strategy)
    if name:
        assert code.name == name
