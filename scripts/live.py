"""Ask each vendor for a few rows over the network, into a cache of their own, and print a line for each.

A vendor that is not installed, or has no token, is skipped. Ends with 1 if another one has no answer.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path

import pandas as pd

from quantgraph.data import open_source
from quantgraph.errors import NotConfigured, QuantGraphError
from quantgraph.settings import load_settings
from quantgraph.testing import check_source

VENDORS = {"tushare": "600519.SH", "baostock": "600519.SH", "yfinance:AAPL": "AAPL"}


def ask(spec: str, code: str, folder: Path, first: pd.Timestamp, last: pd.Timestamp) -> str:
    """What a vendor has of one symbol in a window."""
    source = open_source(spec, settings=load_settings().model_copy(update={"cache_dir": folder}))
    bars = source.bars([code], first, last)
    check_source(source, [code], (first, last))
    close = bars["close"][code].dropna()
    return f"{len(close)} sessions of {code} to {close.index[-1]:%Y-%m-%d}, close {close.iloc[-1]:g}"


def main(folder: Path, first: str, last: str) -> int:
    """Ask all vendors."""
    failed = 0
    for spec, code in VENDORS.items():
        try:
            told = ask(spec, code, folder, pd.Timestamp(first), pd.Timestamp(last))
        except NotConfigured as error:
            told = f"skipped: {error.line}"
        except (QuantGraphError, AssertionError) as error:
            failed = 1
            told = error.line if isinstance(error, QuantGraphError) else str(error)
        print(f"{spec}: {told}", flush=True)
    return failed


if __name__ == "__main__":
    today = pd.Timestamp.now().normalize()
    with tempfile.TemporaryDirectory() as place:
        sys.exit(main(Path(place), f"{today - pd.Timedelta(days=30):%Y-%m-%d}", f"{today:%Y-%m-%d}"))
