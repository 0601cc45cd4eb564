# Every target sets up what it needs from nothing but Python 3.11+ and a package index.
# uv is used where it is installed, venv and pip where it is not.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)

# The tests and jobs start hundreds of processes: where this is set, each compiles every module anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-more test-nightly audit lint unit frameworks dashboard bench lock clean help

help:
	@echo "make run    train a small model as a gang of four processes on this machine"
	@echo "make test   lint, and the tests to run before every change"
	@echo "make test-more     the other tests: real frameworks, long random searches, hostile objects"
	@echo "make test-nightly  the random searches with new and more examples"
	@echo "make lint   ruff, mypy --strict and import-linter"
	@echo "make audit  bandit on the code, pip-audit on what is locked"
	@echo "make bench  measure decision speed, print one table"
	@echo "make dashboard    build the page of 'unisono dashboard', with the machine's Node.js or one from the package index"
	@echo "make frameworks   add Ray, MPI, JAX and XGBoost to the environment, so that their tests run too"

run: $(VENV)/.run-ready
	@$(BIN)/unisono run examples/digits-gang.yaml

test: lint unit

# One process more than two processors can run at a time: many tests wait for processes of their own.
unit: $(VENV)/.dev-ready
	$(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder -m "not (more or frameworks)" --hypothesis-profile=quick $(PYTEST_ARGS)

# Ray, MPI, JAX and XGBoost come with make frameworks; without them their tests say that they were skipped.
test-more: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "more or frameworks" $(PYTEST_ARGS)

test-nightly: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "hypothesis" --hypothesis-profile=nightly $(PYTEST_ARGS)

lint: $(VENV)/.dev-ready
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(VENV)/.dev-ready
	@$(BIN)/python scripts/audit.py requirements/run.lock

frameworks: $(VENV)/.frameworks-ready

dashboard: $(VENV)/.run-ready
	@command -v npm >/dev/null || $(call add,requirements/dashboard.lock)
	@$(BIN)/python scripts/build_dashboard.py

bench: $(VENV)/.dev-ready
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "Unisono needs Python 3.11 or newer; name one: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
ifdef UV
	$(UV) venv --quiet --allow-existing --python $$($(PYTHON) -c 'import sys; print(sys.executable)') $(VENV)
else
	$(PYTHON) -m venv $(VENV)
endif

# $(1): lock file. The project itself is installed in place, built by the hatchling that the lock pins.
ifdef UV
add = $(UV) pip install --quiet --python $(BIN)/python --require-hashes -r $(1)
install = $(call add,$(1)) && \
	$(UV) pip install --quiet --python $(BIN)/python --no-deps --no-build-isolation -e .
else
add = $(BIN)/python -m pip install --quiet --disable-pip-version-check --require-hashes -r $(1)
install = $(call add,$(1)) && \
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
endif

$(VENV)/.run-ready: requirements/run.lock pyproject.toml | $(VENV)/bin/python
	@echo "Setting up in $(VENV) (first time only) ..."
	@$(call install,requirements/run.lock)
	@touch $@

$(VENV)/.dev-ready: requirements/dev.lock pyproject.toml | $(VENV)/bin/python
	@echo "Setting up the tests in $(VENV) (first time only) ..."
	@$(call install,requirements/dev.lock)
	@touch $@ $(VENV)/.run-ready

$(VENV)/.frameworks-ready: requirements/frameworks.lock pyproject.toml | $(VENV)/bin/python
	@echo "Setting up the frameworks in $(VENV) (first time only) ..."
	@$(call install,requirements/frameworks.lock)
	@touch $@ $(VENV)/.dev-ready $(VENV)/.run-ready

COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--no-annotate --upgrade --quiet pyproject.toml --extra fast

lock:
	$(COMPILE) --group build -o requirements/run.lock
	$(COMPILE) --group dev -o requirements/dev.lock
	$(COMPILE) --group frameworks --group browser --group dev -o requirements/frameworks.lock
	$(subst pyproject.toml --extra fast,,$(COMPILE)) --group page -o requirements/dashboard.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
