"""What a page tells of the machine: names of files without folders, and no host."""

from __future__ import annotations

import pytest

from quantgraph._util.texts import without_places
from quantgraph.runs._page import _without_folders


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ("/home/me/prices/a.csv, row 3: is empty", "a.csv, row 3: is empty"),
        ("读取/home/me/价格/a.csv失败", "读取a.csv失败"),
        ("~/runs/x/y.csv is no table", "y.csv is no table"),
        ("文件 /data/价格/a.csv，第3行", "文件 a.csv，第3行"),
        (r"C:\Users\me\a.csv is missing", "a.csv is missing"),
        ("file:///srv/x/a.csv", "a.csv"),
        ("the connection to 127.0.0.1:9 failed", "the connection to … failed"),
        ("http://box.local:8080/v1/chat: 404", "http://…/v1/chat: 404"),
        ("localhost:5432 refused", "… refused"),
        ("buy/sell 1/2, 2024/01/02 at 3.5% and/or /v1", "buy/sell 1/2, 2024/01/02 at 3.5% and/or /v1"),
        ("1.2.3 of numpy", "1.2.3 of numpy"),
    ],
)
def test_places_are_left_out_and_all_else_stays(told, left):
    assert without_places(told) == left


@pytest.mark.parametrize(
    ("told", "left"),
    [
        ('File "/usr/lib/python3/a.py", line 3', 'File "a.py", line 3'),
        ("failed:\n/opt/it/bin/python -m x", "failed:\npython -m x"),
        ("文件：/data/价格/a.csv", "文件：a.csv"),
        ("ratio = (high - low)/close/2 + open /2/ x", "ratio = (high - low)/close/2 + open /2/ x"),
        (
            "Strategy / 策略, http://host/v1/chat, 2024/01/02, </b>",
            "Strategy / 策略, http://host/v1/chat, 2024/01/02, </b>",
        ),
    ],
)
def test_folders_are_left_out_of_texts_with_code(told, left):
    assert _without_folders({"a": [told]}) == {"a": [left]}
