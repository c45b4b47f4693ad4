import importlib.util
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def plain():
    """The independent account."""
    spec = importlib.util.spec_from_file_location(
        "plain_account", Path(__file__).with_name("plain_account.py")
    )
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
