"""LangChain's Python tool, imported here and nowhere else.

Its package is being sunset: when it goes, the base class becomes ``BaseTool`` and nothing else changes.
"""

from __future__ import annotations

import warnings

with warnings.catch_warnings():
    warnings.filterwarnings(
        "ignore", category=DeprecationWarning, module="langchain_(experimental|community)"
    )
    warnings.filterwarnings("ignore", message=".*sunset.*")
    from langchain_experimental.tools.python.tool import PythonAstREPLTool

__all__ = ["PythonAstREPLTool"]
