#!/bin/sh
# Create .venv, install what a lock file names and this package, and mark it done.
#
# usage: scripts/setup.sh PYTHON demo|all. "demo" has what a run without a key and a network needs
# (requirements-demo.lock), "all" everything that development needs (requirements.lock). Called by make; nothing
# outside .venv is written.
set -eu
cd "$(dirname "$0")/.."
python=$1
case "$2" in
    demo) lock=requirements-demo.lock ;;
    all) lock=requirements.lock ;;
esac

say() { # in the language of the locale: Chinese, English
    case "${LC_ALL:-${LC_MESSAGES:-${LANG:-}}}" in
        zh*) echo "quantgraph: $1" ;;
        *) echo "quantgraph: $2" ;;
    esac
}

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
    say "1/3 新建 .venv（$("$python" --version)）" "1/3 making .venv ($("$python" --version))"
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

count_packages() { # print every tenth number of the packages that pip names; end as pip did, with its errors
    number=0
    while read -r first second _; do
        case "$first" in
            Collecting | Processing | Requirement | Ignoring)
                number=$((number + 1))
                [ $((number % 10)) -ne 0 ] || printf ' %s' "$number"
                ;;
            Installing) printf ' …' ;;
            status)
                echo
                [ "$second" -eq 0 ] || cat .venv/setup.log >&2
                return "$second"
                ;;
        esac
    done
}

say "2/3 安装 $(grep -c '^[A-Za-z]' $lock) 个包：" "2/3 installing $(grep -c '^[A-Za-z]' $lock) packages:" | tr -d '\n'
# The lock is complete, so that nothing beside it is needed: --no-deps. What the demo imports is compiled then; the
# tests, in which a warning of the compiler is an error, need all of it compiled before.
[ "$2" = demo ] && compile=--no-compile || compile=--compile
# forbiddenfruit, with which the server of the tests finds what blocks it, is a few lines of Python that are not
# shipped as a wheel.
{
    pip install --progress-bar off --disable-pip-version-check --require-hashes --no-deps $compile \
        --only-binary :all: --no-binary forbiddenfruit -r "$lock" 2> .venv/setup.log &&
        echo "status 0" || echo "status 1"
} | count_packages
say "3/3 安装 quantgraph" "3/3 installing quantgraph"
pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
touch .venv/.demo
[ "$2" = demo ] || touch .venv/.ready
