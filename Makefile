PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
WORKERS ?= 2

.DEFAULT_GOAL := help
.PHONY: help demo test test-full check bench docs serve-docs pins clean

help:  ## this list
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):[^#]*## /\1\t/' | sort | awk -F'\t' '{printf "make %-12s %s\n", $$1, $$2}'

demo: $(READY)  ## a sender is killed after the server accepted; watch the ledger tell the truth
	$(BIN)/python examples/demo/run.py

test: $(READY)  ## everything the library promises, with real processes and real servers (short forms)
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q

test-full: $(READY)  ## the same with the exhaustive forms: every crash point, long fuzzing; takes long
	$(BIN)/python -m pytest -n $(WORKERS) --dist loadgroup -q -m "full or not full" -o faulthandler_timeout=7200

check: $(READY)  ## style, types, import rules
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(READY)  ## the figures we quote, as ratios taken in one run; writes build/benchmarks.md
	$(BIN)/python benchmarks/run.py

docs: $(READY)  ## build the documentation into site/
	$(BIN)/python docs/generate.py
	$(BIN)/mkdocs build --strict

serve-docs: $(READY)  ## the documentation on a local address
	$(BIN)/mkdocs serve

pins:  ## renew constraints.txt from dev-requirements.in
	$(PYTHON) -m venv build/pins && build/pins/bin/pip -q install uv
	( echo "# Exact versions with hashes, and no index address. Made by \`make pins\` from dev-requirements.in."; \
	  build/pins/bin/uv pip compile dev-requirements.in --universal --python-version 3.11 --generate-hashes \
	    --no-emit-index-url --no-header --no-annotate -q ) > build/constraints.new
	mv build/constraints.new constraints.txt

clean:  ## remove everything a command can make again
	rm -rf $(VENV) build site dist .pytest_cache .mypy_cache .ruff_cache .hypothesis

$(READY): constraints.txt packages/send-once/pyproject.toml packages/cadensend/pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "Python 3.11 or later is needed; $(PYTHON) is $$($(PYTHON) --version 2>&1). Try: make PYTHON=python3.11 ..."; exit 1; }
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r constraints.txt
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e packages/send-once -e packages/cadensend
	@touch $(READY)
