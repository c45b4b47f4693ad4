"""Where generated code runs."""

from quantgraph.sandbox.runner import CodeResult, CodeRunner, ForkRunner, FreshRunner, default_runner

__all__ = ["CodeResult", "CodeRunner", "ForkRunner", "FreshRunner", "default_runner"]
