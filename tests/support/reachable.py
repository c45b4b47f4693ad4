from __future__ import annotations

import gc
import types
import weakref
from collections.abc import Iterator

import numpy as np


def reachable(*roots: object) -> Iterator[object]:
    """Everything that hangs on objects, but for modules, types and functions' globals."""
    queue, seen = [*roots], {}
    while queue:
        thing = queue.pop()
        if id(thing) in seen or thing is seen or thing is queue:
            continue
        if isinstance(thing, types.ModuleType | type):
            continue
        seen[id(thing)] = thing
        yield thing
        if isinstance(thing, types.FunctionType):
            queue += [thing.__closure__, thing.__defaults__, thing.__kwdefaults__, thing.__dict__]
            continue
        queue += gc.get_referents(thing)
        if isinstance(thing, np.ndarray):
            queue.append(thing.base)
            queue += list(thing.flat) if thing.dtype == object else []
        if isinstance(thing, memoryview):
            queue.append(thing.obj)
        if isinstance(thing, weakref.ref):
            queue.append(thing())
