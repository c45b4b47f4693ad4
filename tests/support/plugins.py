"""Packages with entry points, as an installer would leave them on a path."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path


def install(
    site: Path, name: str, entries: Mapping[str, Mapping[str, str]], *, version: str = "0.1.0", **sources: str
) -> Path:
    """Write modules and the metadata of a distribution; ``entries`` by group (``deciders``) and name."""
    info = site / f"{name.replace('-', '_')}.dist-info"
    info.mkdir(parents=True, exist_ok=True)
    for module, text in sources.items():
        (site / f"{module}.py").write_text(text, encoding="utf-8")
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n", "utf-8")
    lines = [
        line
        for group, named in entries.items()
        for line in (f"[quantgraph.{group}]", *(f"{key} = {value}" for key, value in named.items()))
    ]
    (info / "entry_points.txt").write_text("\n".join(lines), encoding="utf-8")
    return site
