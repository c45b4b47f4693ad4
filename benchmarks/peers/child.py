"""What ``market.py`` does in processes of their own: make a panel, check the bare loop, run one tool."""

from __future__ import annotations

import importlib
import json
import sys
from dataclasses import asdict
from pathlib import Path

from peers.decimals import check
from peers.panel import SIZES, Panel, make_panel

if __name__ == "__main__":
    result = {}
    match sys.argv[1:]:
        case ["check"]:
            for gappy in (False, True):
                check(make_panel(SIZES["s"], gappy=gappy))
        case ["panel", size, folder]:
            make_panel(SIZES[size]).save(Path(folder))
        case ["run", tool, folder]:
            module, _, name = tool.partition(":")
            run = getattr(importlib.import_module(module), name)
            result = asdict(run(Panel.load(Path(folder))))
    print(json.dumps(result))
