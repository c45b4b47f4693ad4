#!/bin/sh
# Create .venv, install what requirements.lock names and this package, and mark it done.
#
# usage: scripts/setup.sh PYTHON. Called by make; nothing outside .venv is written.
set -eu
cd "$(dirname "$0")/.."
python=$1

if ! command -v "$python" > /dev/null; then
    echo "quantgraph: there is no '$python'; install Python 3.11 or newer, or: make PYTHON=/path/to/python3.11" >&2
    exit 1
fi
"$python" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
    echo "quantgraph: $("$python" --version 2>&1) is too old, 3.11 or newer is needed; try: make PYTHON=python3.12" >&2
    exit 1
}

# A folder that was copied or moved has paths in it that lead elsewhere.
if [ -d .venv ] && ! .venv/bin/python -c 'import sys; sys.exit(sys.prefix != sys.argv[1])' "$(pwd -P)/.venv" 2> /dev/null; then
    rm -rf .venv
fi
if [ ! -d .venv ]; then
    echo "quantgraph: setting up .venv (once, about two minutes)"
    # Some systems ship venv without ensurepip; pip can install into the new environment from outside.
    "$python" -m venv .venv > /dev/null 2>&1 || "$python" -m venv --without-pip .venv
fi

pip() {
    if .venv/bin/python -m pip --version > /dev/null 2>&1; then
        .venv/bin/python -m pip "$@"
    else
        "$python" -m pip --python .venv/bin/python "$@"
    fi
}
# The lock is complete, so that nothing beside it is wanted: --no-deps. forbiddenfruit, with which the server of the
# tests finds what blocks it, is a few lines of Python that are not shipped as a wheel.
pip install --quiet --disable-pip-version-check --require-hashes --no-deps \
    --only-binary :all: --no-binary forbiddenfruit -r requirements.lock
pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
.venv/bin/python scripts/compile_blocks.py
touch .venv/.ready
