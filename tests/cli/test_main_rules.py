"""The options of ``quantgraph run`` that choose the market's rules."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from typer.testing import CliRunner

from quantgraph.cli._main import app
from quantgraph.data.symbols import _resolution
from quantgraph.market import sessions

SENTENCE = (
    "159915.SZ, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2024"
)


@pytest.fixture
def bars(tmp_path: Path) -> Path:
    """A ChiNext fund that swings."""
    days = sessions("2024-01-02", "2024-12-31")
    close = 2 + 0.3 * np.sin(np.arange(len(days)) / 9)
    price = pd.Series(close).round(3)
    table = pd.DataFrame({"ts_code": "159915.SZ", "trade_date": days.strftime("%Y%m%d"), "open": price})
    table = table.assign(high=price + 0.01, low=price - 0.01, close=price, vol=1e6)
    table.to_csv(tmp_path / "bars.csv", index=False)
    return tmp_path / "bars.csv"


def run(bars: Path, *options: str) -> tuple[int, str, str]:
    arguments = [
        "run",
        SENTENCE,
        "--source",
        str(bars),
        "--headless",
        "--json",
        "--out",
        str(bars.parent / "runs"),
    ]
    done = CliRunner().invoke(app, [*arguments, *options])
    return done.exit_code, done.stdout, done.stderr


def test_a_fund_of_unknown_kind_is_traded_when_its_kind_is_given(bars: Path) -> None:
    status, out, _ = run(bars)
    assert status == 1
    assert "159915.SZ" in json.loads(out)["error"]
    assert json.loads(out)["strategy"] is None, "it is told before any code is written"
    status, out, _ = run(bars, "--fund", "159915.SZ=stock_20")
    told = json.loads(out)
    assert (status, told["ended_because"]) == (0, "done")
    assert told["account"]["trades"] > 4
    assert told["account"]["costs"]["stamp_duty"] == 0


@pytest.mark.parametrize(
    ("options", "told"),
    [
        (("--fund", "159915.SZ"), "must be CODE=KIND"),
        (("--fund", "159915.SZ=growth"), "a fund's code and one of"),
        (("--fund", "159915.SZ=stock", "--market", "us"), "the US market has no kinds of funds"),
        (("--slippage-bps", "-1"), "slippage_bps='-1'; must be from 0 to 1000"),
        (("--commission", "1%"), "commission=Decimal('0.01'); must be from 0 to 0.003"),
    ],
)
def test_a_wrong_option_is_one_line_and_status_2(bars: Path, options: tuple[str, ...], told: str) -> None:
    status, out, err = run(bars, *options)
    assert (status, out) == (2, "")
    assert told in err.strip().splitlines()[-1]


def test_the_market_of_the_codes_is_decided_once_for_a_run(
    bars: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    decided = []
    decide = _resolution.rules_of_codes

    def watched(codes, **options):
        decided.append(options)
        return decide(codes, **options)

    monkeypatch.setattr(_resolution, "rules_of_codes", watched)
    status, out, err = run(bars, "--slippage-bps", "5")
    assert status == 1, err  # the kind of the fund is not known
    assert decided == [{"traded": True}]
    manifest = json.loads(Path(json.loads(out)["run_dir"], "run.json").read_text())
    assert manifest["spec"]["plan"]["slippage_bps"] == "5"
