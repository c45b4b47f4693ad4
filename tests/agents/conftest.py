from pathlib import Path

import pytest
from load_script import load_script


@pytest.fixture(scope="session")
def plain():
    """The independent account."""
    return load_script(Path(__file__).with_name("plain_account.py"))
