"""Compile the array code, before several processes need it at once; `make test` runs this."""

from __future__ import annotations

from quantgraph.broker.session._simulate import compile_block_code

if __name__ == "__main__":
    compile_block_code()
