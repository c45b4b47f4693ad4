# Each target sets the environment up when it is missing or when the lock file changed.
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready
DEMO_READY := .venv/.demo
LOCALE := $(firstword $(LC_ALL) $(LC_MESSAGES) $(LANG))
DEMO := $(if $(filter zh%,$(LOCALE)),合成30成分股，5日均线上穿20日均线买入，下穿卖出，2025年,members of 合成30, buy when the 5-day average crosses above the 20-day average, sell when it crosses below, 2025)

.DEFAULT_GOAL := help
.PHONY: help demo test tests wings wing proofs quick lowest newest lint type docs notebooks pictures example bench bench-peers live growth mcp-conformance chat-ui zoo channels soak format clean

help:
	@echo "make demo    one sentence becomes trades, on synthetic data, without a key"
	@echo "make test    lint, types, layers, and the tests of the core that a person waits for"
	@echo "make wings   the tests of the wings: agents, integrations, vendors, testing; make wing NAME=trader: of one"
	@echo "make proofs  the rest of the tests: kills, the zoo, other processes, a browser, PostgreSQL, what measures time"
	@echo "make quick   lint, types, and the tests of what changed, in under a minute"
	@echo "make lowest  a part of the tests on the lowest declared versions; make newest: on the newest, and each Python here"
	@echo "make lint    ruff and the layers        make type    mypy --strict"
	@echo "make docs    refresh outputs and the graph's picture, and run every example"
	@echo "make notebooks  run the notebooks again and keep their outputs"
	@echo "make pictures   take the pictures of a run's page in the READMEs again; needs Chromium"
	@echo "make example  record the run anew that is shipped, where the trader or the form of a run changed"
	@echo "make bench   measure                    make format  ruff format and fixes"
	@echo "make bench-peers  beside vectorbt, bt and backtrader, in an environment of their own"
	@echo "make live    ask each vendor of data for a few rows, over the network"
	@echo "make growth  how the cost grows with symbols, sessions, fills and proofs; draws docs/growth.svg"
	@echo "make mcp-conformance  the MCP server by clients that are not ours (Node 20)"
	@echo "make chat-ui  a run from its sentence to its trades by clicks in agent-chat-ui (Node 20, Chromium)"
	@echo "make zoo     every leaky and honest strategy, every misbehaving model in every role, at every moment"
	@echo "make channels  eight ways from a process to a later one, tried on the proof with the seal open and shut"
	@echo "make soak    kill the run a thousand times and compare its ledger"
	@echo "make clean   remove .venv and caches    PYTHON=...   the python to set up with"

$(READY): requirements.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh $(PYTHON) all

$(DEMO_READY): requirements-demo.lock pyproject.toml scripts/setup.sh
	@scripts/setup.sh $(PYTHON) demo

demo: $(DEMO_READY)
	@$(BIN)/quantgraph run "$(DEMO)" --headless --out runs

test: $(READY)
	@$(MAKE) --no-print-directory --jobs 3 lint type tests

tests: $(READY)
	@$(BIN)/python scripts/compile_blocks.py
	$(BIN)/pytest -n 2 --dist loadfile -m "not proof" $$($(BIN)/python scripts/features.py --tests core)

wings: $(READY)
	@$(MAKE) --no-print-directory wing NAME=wings

wing: $(READY)
	@$(BIN)/python scripts/compile_blocks.py
	$(BIN)/pytest -n 2 --dist loadfile -m "not proof" $$($(BIN)/python scripts/features.py --tests "$(NAME)")

proofs: $(READY)
	@$(BIN)/python scripts/compile_blocks.py
	$(BIN)/pytest -n 2 --dist loadfile -m proof --ignore tests/test_benchmarks.py
	$(BIN)/pytest -q -m proof tests/test_benchmarks.py

quick: $(READY)
	@$(BIN)/python scripts/quick.py

lowest newest: $(READY)
	@$(BIN)/python scripts/versions.py $@

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/lint-imports --no-cache
	$(BIN)/python scripts/house.py --check
	$(BIN)/python scripts/features.py --check

type: $(READY)
	$(BIN)/mypy

live: $(READY)
	$(BIN)/python scripts/live.py

example: $(READY)
	$(BIN)/python scripts/make_example_run.py

docs: $(READY)
	$(BIN)/python scripts/docs.py
	$(BIN)/pytest -q tests/test_docs.py tests/test_examples.py tests/test_notebooks.py

notebooks: $(READY)
	$(BIN)/python scripts/docs.py --notebooks
	$(BIN)/pytest -q tests/test_notebooks.py

pictures: $(READY)
	$(BIN)/python scripts/page_picture.py

bench: $(READY)
	@$(BIN)/python benchmarks/core.py
	@$(BIN)/python benchmarks/replay.py
	@$(BIN)/python benchmarks/calls.py
	@$(BIN)/python benchmarks/dual_agent.py
	@$(BIN)/python benchmarks/execution_agent.py
	@$(BIN)/python benchmarks/trader.py
	@$(BIN)/python benchmarks/page.py
	@$(BIN)/python benchmarks/market.py --sizes s,m,l

bench-peers:
	@test -x .venv-bench/bin/python || $(PYTHON) -m venv .venv-bench
	@.venv-bench/bin/python -m pip install --quiet --disable-pip-version-check -e . -r benchmarks/requirements.txt
	@.venv-bench/bin/python benchmarks/market.py --sizes s,m,l --tools bare,account,ours,graph,vectorbt,bt,backtrader

growth: $(READY)
	@$(BIN)/python benchmarks/growth.py
	@$(BIN)/python benchmarks/growth.py --large
	@$(BIN)/python benchmarks/page.py --large

mcp-conformance: $(READY)
	@npm install --silent --no-audit --no-fund --prefix .venv-mcp @modelcontextprotocol/conformance@0.1.11 @modelcontextprotocol/inspector@0.14.3
	@$(BIN)/python benchmarks/mcp_conformance.py .venv-mcp

chat-ui: $(READY)
	@npm install --silent --no-audit --no-fund --prefix .venv-chat-ui create-agent-chat-app@0.1.6
	@mkdir -p .venv-chat-ui/page && cp -R .venv-chat-ui/node_modules/create-agent-chat-app/templates/vite/. .venv-chat-ui/page
	@cd .venv-chat-ui/page && npm install --silent --no-audit --no-fund --legacy-peer-deps && npx vite build --logLevel error
	@$(BIN)/python benchmarks/chat_ui.py .venv-chat-ui

zoo: $(READY)
	@WHOLE=1 $(BIN)/pytest -n 2 -q tests/audit tests/canary tests/conformance tests/sandbox/test_sandbox_hostile.py

channels: $(READY)
	@WHOLE=1 $(BIN)/pytest -q -n 2 --dist loadgroup tests/audit/causality/test_channels.py

soak: $(READY)
	@$(BIN)/python benchmarks/soak.py

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

clean:
	rm -rf .venv .venv-bench .venv-mcp .venv-chat-ui .venv-lowest .venv-3.* .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
