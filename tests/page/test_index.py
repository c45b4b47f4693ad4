"""The page of all runs: a row a run, links to their pages, damaged folders with the reason."""

from __future__ import annotations

import shutil

from quantgraph.page._index import render_index
from quantgraph.runs import run_strategy, write_index

from .page_views import HOSTILE

SHORT = "000341.SZ，5日均线上穿20日均线买入，下穿卖出，20240102到20240229"


def test_the_page_of_all_runs_has_each_run_and_is_the_same_again(tmp_path):
    result = run_strategy(SHORT, out=tmp_path)
    result.report()
    shutil.copytree(result.folder, tmp_path / "damaged")
    (tmp_path / "damaged" / "run.json").write_text("{}")
    page = write_index(tmp_path, language="zh")
    text = page.read_text(encoding="utf-8")
    assert page == tmp_path / "index.html"
    assert f'href="{result["run_id"]}/report.html"' in text
    assert f'data-value="{result["account"]["return"]}"' in text
    assert f'data-value="{result["benchmark"]["return"]}"' in text
    assert "无法读取" in text
    assert "<svg" in text
    assert str(tmp_path) not in text
    assert write_index(tmp_path, language="zh").read_text(encoding="utf-8") == text


def test_hostile_texts_of_runs_stay_texts():
    names = ("run", "sentence", "ended", "error")
    page = render_index([dict.fromkeys(names, HOSTILE) | {"started": None, "page": True}], {}, "en")
    assert "<img" not in page
    assert page.count("</script>") == 3
