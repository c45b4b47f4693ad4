"""Where generated code runs."""

from quantgraph.sandbox.lockdown import IsolationLevel
from quantgraph.sandbox.remote import RemoteRunner, Transport
from quantgraph.sandbox.result import CodeResult, Isolation
from quantgraph.sandbox.runner import CodeRunner, ForkRunner, FreshRunner, default_runner
from quantgraph.sandbox.walk import CodeWalk, open_walk

__all__ = [
    "CodeResult",
    "CodeRunner",
    "CodeWalk",
    "ForkRunner",
    "FreshRunner",
    "Isolation",
    "IsolationLevel",
    "RemoteRunner",
    "Transport",
    "default_runner",
    "open_walk",
]
