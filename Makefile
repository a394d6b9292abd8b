# `make run` and `make test` are all a newcomer needs; both set themselves up.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Tests wait for servers as long as they compute: two workers keep a core busy.
WORKERS ?= $(shell expr 2 \* $$(getconf _NPROCESSORS_ONLN))
# Hundreds of processes import the same modules: compiled once and kept, wherever the caller forbids it.
export PYTHONDONTWRITEBYTECODE :=

.PHONY: run test test-all campaign lint types check golden schema lessons rights clean

run: $(VENV)/.installed
	@$(BIN)/twopc run scenarios/immediate/lost_update.twopc.yaml --order "alice first"

test: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup

# Every test, with a sample of each grid: three quarters of an hour.
test-all: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup --slow-s inf

# Every cell of the grids and every search, of which `make test` plays a sample: hours.
campaign: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q -n $(WORKERS) --dist loadgroup --full
	@$(BIN)/python -m pytest -q tests/protocol tests/agreement --full --hypothesis-profile=thorough
	@$(BIN)/python -m tests.grid -j $(WORKERS)

lint: $(VENV)/.installed-dev
	@$(BIN)/ruff check .
	@$(BIN)/ruff format --check .

types: $(VENV)/.installed-dev
	@$(BIN)/mypy

check: lint types test

golden: $(VENV)/.installed-dev
	@$(BIN)/python -m pytest -q tests/sql tests/distribution/test_golden.py tests/proc_execution/subscriber/test_golden.py --rewrite-golden

schema: $(VENV)/.installed-dev
	@$(BIN)/python -m twopc.sim.scenario.schema

lessons: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.lessons

rights: $(VENV)/.installed-dev
	@$(BIN)/python -m tests.rights

# The compiled core is one of its source: it is made again when that changes.
$(VENV)/.installed: pyproject.toml setup.py $(wildcard twopc/core/*.py)
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[spark,plots,explore]"
	@touch $@

$(VENV)/.installed-dev: $(VENV)/.installed pyproject.toml
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable ".[dev]"
	@touch $@

clean:
	rm -rf $(VENV) build dist *.egg-info twopc/core/*.so .mypy_cache .ruff_cache .pytest_cache
