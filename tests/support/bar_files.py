"""Small files of daily bars, and what a source says of them."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from quantgraph.data.files import FileSource
from quantgraph.errors import BadFile

HEADER = "ts_code,trade_date,open,high,low,close,pre_close,vol,amount"
GOOD = "600519.SH,20240102,10,10.5,9.9,10.2,9.8,1000,1020.5"
TWO_DAYS = f"""{HEADER}
600519.SH,20240102,10.00,10.50,9.90,10.20,9.80,1000,1020.5
000001.SZ,20240102,5,5.1,4.9,5.05,5,2000,1005
600519.SH,20240103,10.20,10.60,10.10,10.50,10.20,1100,1133.25
"""


def day(text: str) -> pd.Timestamp:
    return pd.Timestamp(text)


def everything(source: FileSource) -> dict[str, pd.DataFrame]:
    sessions = source.sessions()
    return source.bars(source.symbols(), sessions[0], sessions[-1])


def refusal(path: Path) -> str:
    source = FileSource(path)
    with pytest.raises(BadFile) as caught:
        source.sessions()
    assert "\n" not in caught.value.message
    return caught.value.message
