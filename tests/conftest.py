"""Shared fixtures. Real data lies beside the project and is not shipped; a test that needs it says so."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

os.environ["LANGGRAPH_STRICT_MSGPACK"] = "true"  # read once, when langgraph is imported
# What is made once for a module is made before any fixture; two runs of one thing are held against each other.
os.environ["QUANTGRAPH_AUDIT"] = '{"prove": "sampled", "cuts": 3, "seed": 0}'

# Whoever starts pytest may have told it not to write bytecode: then every process that a test starts compiles the
# whole package again.
os.environ.pop("PYTHONDONTWRITEBYTECODE", None)

import hypothesis
import numpy as np
import pandas as pd
import pytest
from kept_code import KeptCode

from quantgraph.audit.causality import LookLog
from quantgraph.state import DataState

# The same examples in every run, however slow the machine; ``--hypothesis-profile=default`` draws others.
hypothesis.settings.register_profile(
    "suite", derandomize=True, deadline=None, suppress_health_check=[hypothesis.HealthCheck.too_slow]
)
hypothesis.settings.load_profile("suite")

SHARED = Path(__file__).resolve().parents[1] / ".." / "shared" / "data"
SHORT_AUDIT = os.environ["QUANTGRAPH_AUDIT"]
"""Hundreds of runs prove their strategy: three sessions of it are enough where the proof is not the matter."""
_SECRETS = (
    "OPENAI_API_KEY",
    "OPENAI_BASE_URL",
    "OPENAI_API_BASE",
    "TUSHARE_TOKEN",
    "TS_TOKEN",
    "JINA_API_KEY",
)


KEPT_CODE = KeptCode()


@pytest.fixture(scope="module", autouse=True)
def kept_code() -> Iterator[None]:
    """Code that many tests run on the same frames is run once; a folder that is about running code overrides this."""
    KEPT_CODE.begin_test()
    with contextlib.nullcontext() if os.environ.get("WHOLE") else KEPT_CODE.serve():
        yield


@pytest.fixture(scope="session", autouse=True)
def first_looks() -> Iterator[None]:
    """Every look at data is the first one: tests run as if each were on a machine of its own."""
    with patch.object(LookLog, "add", lambda *_, **__: 0):
        yield


@pytest.fixture(autouse=True)
def clean_environment(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """No key, no configuration of the machine, a short audit, and a working folder and caches of its own."""
    for name in [*_SECRETS, *(name for name in os.environ if name.startswith("QUANTGRAPH_"))]:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("QUANTGRAPH_AUDIT", SHORT_AUDIT)
    caches = tmp_path.with_name(f"{tmp_path.name}-caches")
    archives = tmp_path_factory.getbasetemp().parent / "archives"  # made once for all tests and workers
    for folder in (caches, archives):
        folder.mkdir(exist_ok=True)
    (caches / "sandbox").symlink_to(archives)
    monkeypatch.setenv("QUANTGRAPH_CACHE_DIR", str(caches))
    monkeypatch.chdir(tmp_path)
    KEPT_CODE.begin_test()


@pytest.fixture
def whole_audit(clean_environment: None, monkeypatch: pytest.MonkeyPatch) -> None:
    """Strategies are proved as they are for a user."""
    monkeypatch.delenv("QUANTGRAPH_AUDIT")


@pytest.fixture(scope="session")
def shared_data() -> Path:
    """Folder of the real data sets."""
    if not SHARED.is_dir():
        pytest.fail(
            f"the real data sets are missing: {SHARED} is not a folder; CI has it, see CONTRIBUTING.md"
        )
    return SHARED.resolve()


@pytest.fixture(scope="session")
def a_share(shared_data: Path) -> Path:
    """Folder with the SSE 50 files."""
    return shared_data / "ai-trader" / "a_share"


@pytest.fixture
def store() -> Iterator[DataState]:
    """A data state of the test's own."""
    return DataState()


@pytest.fixture
def frame() -> pd.DataFrame:
    """Five sessions of three symbols, 0.0 to 14.0."""
    index = pd.to_datetime(["2024-01-02", "2024-01-03", "2024-01-04", "2024-01-05", "2024-01-08"])
    return pd.DataFrame(
        np.arange(15.0).reshape(5, 3), index=index, columns=["000001.SZ", "600000.SH", "600519.SH"]
    )
