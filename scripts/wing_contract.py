"""The contract of import-linter that the core imports no wing of FEATURES.toml, and a wing no other."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from grimp import ImportGraph
from importlinter import Contract, ContractCheck, output
from scripts import features

INSIDE = {("integrations", "agents"), ("agents", "integrations")}
"""The integrations trade with the agents' parts, and the trader calls tools over MCP."""


class WingContract(Contract):
    """No module of the core imports one of a wing; wings are found by entry points."""

    def check(self, graph: ImportGraph, verbose: bool) -> ContractCheck:  # noqa: ARG002 - of the protocol
        """Look at each import of a module of a wing."""
        table = features.read((features.ROOT / features.FILE).read_text(encoding="utf-8"))
        rows = features.features(table)
        wings = {module: _wing(rows, module) for module in graph.modules if module.startswith("quantgraph")}
        around = sorted(
            f"{importer} ({wing}) imports {imported} ({wings[imported]})"
            for importer, wing in wings.items()
            for imported in graph.find_modules_directly_imported_by(importer)
            if wings.get(imported, features.CORE) not in {features.CORE, wing}
            and (wing, wings[imported]) not in INSIDE
        )
        return ContractCheck(kept=not around, metadata={"around": around})

    def render_broken_contract(self, check: Any) -> None:
        """Print the imports."""
        for line in check.metadata["around"]:
            output.print_error(line)


def _wing(rows: list[features.Feature], module: str) -> str:
    path = Path(*module.split(".")[1:])
    package = (features.ROOT / features.SOURCE / path).is_dir()
    row = features.owner(
        rows, (path / "__init__.py" if package else path.with_suffix(".py")).as_posix(), "src"
    )
    return row.wing if row else features.CORE
