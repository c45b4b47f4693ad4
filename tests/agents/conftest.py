from pathlib import Path

import numpy as np
import pytest
from load_script import load_script
from small_market import SmallMarket


@pytest.fixture(scope="session")
def plain():
    """The independent account."""
    return load_script(Path(__file__).with_name("plain_account.py"))


@pytest.fixture(scope="session")
def small_market():
    """Makes a :class:`SmallMarket`."""
    return SmallMarket


@pytest.fixture(scope="session")
def rising():
    """A number of closes 1.0, 2.0, …"""
    return lambda count: np.arange(1.0, count + 1).tolist()
