"""A number of the report is one row: summary, terminal, page and comparison show it, and nothing else is touched."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.report.metrics import METRICS, Metric, _registry

SENTENCES = {
    "zh": "000341.SZ，2日均线上穿5日均线买入，下穿卖出，20240102到20240229",
    "en": "000341.SZ, buy when the 2-day average crosses above the 5-day average, sell when it crosses below, "
    "from 20240102 to 20240329",
}
BEST = Metric(
    "best_session",
    lambda track: track.returns.max(),
    zh="单日最大收益：日收益的最大值",
    en="best session: largest return of a session",
    format="percent",
)


def command(*arguments: str) -> str:
    done = CliRunner().invoke(app, [*arguments])
    assert done.exit_code == 0, done.stderr
    return done.stdout


def best_of(values: list[float]) -> float:
    return max(after / before - 1 for before, after in zip(values, values[1:], strict=False))


def test_a_row_is_all_that_a_new_number_needs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_registry, "METRICS", (*METRICS, BEST))
    best, shown, runs = {}, {}, []
    for language, sentence in SENTENCES.items():
        shown[language] = command("run", sentence, "--headless", "--out", str(tmp_path))
        (written,) = (path for path in tmp_path.glob("*/result.json") if path.parent.name not in runs)
        runs.append(written.parent.name)
        result = json.loads(written.read_text())
        numbers = [result[name]["best_session"] for name in ("account", "benchmark")]
        assert numbers == pytest.approx(
            [best_of(result["equity"][name]) for name in ("account", "benchmark")], rel=1e-12
        )
        best[language] = [f"{number:.2%}" for number in numbers]
        page = (written.parent / "report.html").read_text()
        row = page.split('<tr id="number-best_session">')[1].split("</tr>")[0]
        for text in (BEST.words(language), BEST.explained(language), *best[language]):
            assert f">{text}<" in row.replace("\n", "<")
    lines = {language: [line.split() for line in text.splitlines()] for language, text in shown.items()}
    assert ["单日最大收益", *best["zh"]] in lines["zh"]
    assert ["best", "session", *best["en"]] in lines["en"]
    compared = command("compare", *runs, "--out", str(tmp_path)).splitlines()
    assert ["单日最大收益", best["zh"][0], best["en"][0]] in [line.split() for line in compared]
    command("compare", *runs, "--out", str(tmp_path), "--to", str(tmp_path / "both.html"))
    assert 'id="number-best_session"' in (tmp_path / "both.html").read_text()


def test_a_result_from_before_the_number_shows_a_dash(
    two_runs: list, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(_registry, "METRICS", (*METRICS, BEST))
    shown = command("show", str(two_runs[0][0]))
    assert ["单日最大收益", "-", "-"] in [line.split() for line in shown.splitlines()]


def test_every_number_has_a_label_and_a_formula_in_both_languages() -> None:
    for metric in _registry.table_metrics():
        texts = [metric.words("zh"), metric.words("en"), metric.explained("zh"), metric.explained("en")]
        assert all(texts), metric.name
        assert len({*texts}) == 4, metric.name
    names = [metric.name for metric in METRICS]
    assert len({*names}) == len(names)
    assert {metric.below for metric in METRICS} <= {"", *names}
