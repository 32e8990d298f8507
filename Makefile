# Each target makes .venv itself and installs only when pyproject.toml or constraints.txt changed.
SHELL := /bin/bash
PYTHON ?= python3
BIN := .venv/bin
READY := .venv/.ready

.PHONY: demo test test-root prove slo bench bench-peers retrieval soak lint format schema docs wheel constraints clean

demo: $(READY)
	$(BIN)/agentbox demo

test: $(READY)
	$(BIN)/pytest -n 3 --durations 12 $(ARGS)

# What needs root or apt: failing disks and full ones, and sandboxes.
test-root: $(READY)
	command -v strace bwrap | grep -c . | grep -qx 2 || { apt-get update -qq && apt-get install -y -qq strace bubblewrap; }
	$(BIN)/pytest -m root tests/root $(ARGS)

# Known-bad adapters against the suites: a clause that catches nothing proves nothing.
prove: $(READY)
	$(BIN)/agentbox contract --prove

# Every adapter at the load of its service levels.
slo: $(READY)
	$(BIN)/pytest -m slo -s tests/contract/test_service_levels.py $(ARGS)

bench: $(READY)
	$(BIN)/python -m tests.bench $(ARGS)

# Memory beside other vector stores, in a venv of their own: they bring hundreds of megabytes.
bench-peers: .venv-peers/.ready
	.venv-peers/bin/python -m tests.bench.peers

.venv-peers/.ready: pyproject.toml
	$(PYTHON) -m venv .venv-peers
	.venv-peers/bin/python -m pip install --quiet --disable-pip-version-check -e '.[vectors]' chromadb lancedb sqlite-vec apsw
	@touch $@

# How well searches find, on the documentation of a package in the index.
retrieval: $(READY)
	$(BIN)/python -m tests.bench.retrieval

soak: $(READY)
	$(BIN)/pytest -m soak --timeout 3600 -s $(ARGS)

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

format: $(READY)
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

schema: $(READY)
	$(BIN)/agentbox schema --write schemas

# Write the pages' tables from the code, and check every link and command.
docs: $(READY)
	$(BIN)/python docs/generate.py
	$(BIN)/pytest tests/unit/test_docs.py $(ARGS)

wheel: $(READY)
	$(BIN)/python -m build --wheel --no-isolation --outdir dist

$(READY): pyproject.toml constraints.txt
	@if command -v uv >/dev/null 2>&1; then \
	  uv venv --quiet --allow-existing --python $(PYTHON) .venv && \
	  uv pip install --quiet --python $(BIN)/python -c constraints.txt -e '.[dev]'; \
	else \
	  $(PYTHON) -m venv .venv && \
	  $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev]'; \
	fi
	@touch $@

constraints: $(READY)
	$(BIN)/python -m pip freeze --exclude-editable > constraints.txt

clean:
	rm -rf .venv .venv-peers dist build .mypy_cache .ruff_cache .pytest_cache
