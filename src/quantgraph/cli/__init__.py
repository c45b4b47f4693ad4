"""The command ``quantgraph``."""

from quantgraph.cli.main import main

__all__ = ["main"]
