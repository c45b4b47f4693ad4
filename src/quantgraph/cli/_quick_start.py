"""The start of a command that runs code: its imports, and its code process, which starts beside them."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from quantgraph.settings import Settings


@contextmanager
def quick_imports() -> Iterator[None]:
    """Import without the garbage collector, which takes a tenth of the time and finds next to nothing."""
    gc.disable()
    try:
        yield
    finally:
        gc.freeze()
        gc.enable()


def start_code_process(settings: Settings) -> None:
    """Begin to start the process of the settings for generated code, if it is one that is kept."""
    from quantgraph.sandbox import ForkRunner, runner_of

    if settings.code_isolation != "trusted":
        runner = runner_of(settings)
        if isinstance(runner, ForkRunner):
            runner.start_early()
