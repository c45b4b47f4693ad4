"""What a process may use of the machine."""

from __future__ import annotations

import os

import pytest

from quantgraph._util import files as machine


@pytest.mark.skipif(not os.path.exists("/proc/meminfo"), reason="Linux only")
def test_available_memory_is_less_than_the_machine_has(tmp_path, monkeypatch):
    machine_has = os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")
    assert 0 < machine.available_memory() < machine_has
    (tmp_path / "memory.max").write_text("3000\n")
    (tmp_path / "memory.current").write_text("1000\n")
    monkeypatch.setattr(machine, "_GROUP", tmp_path)
    assert machine.available_memory() == 2000
    (tmp_path / "memory.max").write_text("max\n")
    assert machine.available_memory() > 2000
