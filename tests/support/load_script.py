"""Import a helper module from its file: the test folders are not packages."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType


def load_script(path: Path) -> ModuleType:
    """Import the file at ``path`` under its stem."""
    spec = importlib.util.spec_from_file_location(path.stem, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[path.stem] = module  # annotations of its classes are looked up there
    spec.loader.exec_module(module)
    return module
