# Every target sets up what it needs from nothing but Python 3.11+ and a package index.
# uv is used where it is installed, venv and pip where it is not.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
UV     := $(shell command -v uv 2>/dev/null)

# The tests and jobs start hundreds of processes: where this is set, each compiles every module anew, for seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: run test test-more test-nightly world audit lint unit tools frameworks files dashboard docs release bench lock clean help

help:
	@echo "make run    train a small model as a gang of four processes on this machine"
	@echo "make test   lint, and the tests to run before every change"
	@echo "make test-more     the other tests: real frameworks, long random searches, hostile objects"
	@echo "make test-nightly  the random searches with new and more examples"
	@echo "make world  live simulated worlds, SEEDS=0-99, and print the shortest story of each that fails"
	@echo "make lint   ruff, codespell, mypy --strict and import-linter"
	@echo "make audit  bandit on the code, pip-audit on what is locked"
	@echo "make bench  measure decision speed, print one table"
	@echo "make dashboard    build the page of 'unisono dashboard', with the machine's Node.js or one from the package index"
	@echo "make files  write what each module is for to build/files.md"
	@echo "make docs   build the site of docs/ to build/site; a broken link fails it"
	@echo "make release      build everything a release publishes into dist/, from a clean tree at its tag; SIGN=identity signs"
	@echo "make frameworks   add Ray, MPI, JAX and XGBoost to the environment, so that their tests run too"

run: $(VENV)/.run-ready
	$(here)
	@$(BIN)/python -m unisono run examples/digits-gang.yaml

test: lint unit

# One process more than two processors can run at a time: many tests wait for processes of their own.
unit: tools
	$(BIN)/pytest -n 3 --dist loadgroup --no-loadscope-reorder -m "not (more or frameworks)" --hypothesis-profile=quick $(PYTEST_ARGS)

# Ray, MPI, JAX and XGBoost come with make frameworks; without them their tests say that they were skipped.
test-more: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "more or frameworks" $(PYTEST_ARGS)

test-nightly: $(VENV)/.dev-ready
	$(BIN)/pytest -n 2 --dist loadgroup --no-loadscope-reorder -m "hypothesis" --hypothesis-profile=nightly $(PYTEST_ARGS)

world: tools
	@PYTHONPATH=. $(BIN)/python tests/world/world_search.py --seeds $(or $(SEEDS),0-99) $(WORLD_ARGS)

lint: tools
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/codespell docs src scripts deploy examples benchmarks *.md
	$(BIN)/mypy
	$(BIN)/lint-imports

audit: $(VENV)/.dev-ready
	@$(BIN)/python scripts/audit.py requirements/run.lock

frameworks: $(VENV)/.frameworks-ready

files: $(VENV)/.run-ready
	@mkdir -p build
	@$(BIN)/python scripts/file_table.py > build/files.md

dashboard: $(VENV)/.run-ready
	@command -v npm >/dev/null || $(BIN)/python scripts/set_up.py --only-packages requirements/dashboard.lock
	@$(BIN)/python scripts/build_dashboard.py

IMAGES ?= --images

# Everything but the upload. The image has Debian's packages: this needs apt, but neither root nor a container engine.
release: tools
	@command -v npm >/dev/null || $(BIN)/python scripts/set_up.py --only-packages requirements/dashboard.lock
	@$(if $(filter identity,$(SIGN)),$(BIN)/python scripts/set_up.py --only-packages requirements/release.lock,:)
	@$(BIN)/python scripts/release.py --tagged $(IMAGES) --sign $(or $(SIGN),dry-run) $(RELEASE_ARGS)

docs: tools
	@$(BIN)/python scripts/set_up.py --only-packages requirements/docs.lock
	@$(BIN)/python scripts/docs_site.py $(DOCS_ARGS)

bench: $(VENV)/.dev-ready
	$(BIN)/python -m benchmarks $(BENCH_ARGS)

# A Python that is too old is passed over for another that is installed, unless one is named.
PYTHONS := $(if $(filter file,$(origin PYTHON)),$(PYTHON) python3.13 python3.12 python3.11 python3.14,$(PYTHON))

$(VENV)/bin/python:
	@found=; for python in $(PYTHONS); do \
		if $$python -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1; then found=$$python; break; fi; \
	done; \
	if [ -z "$$found" ]; then \
		has=$$($(firstword $(PYTHONS)) --version 2>&1) || has="not installed"; \
		echo "Unisono needs Python 3.11 or newer; $(firstword $(PYTHONS)) is $$has." \
			"Name another: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; \
	fi; \
	if [ -n "$(UV)" ]; then \
		$(UV) venv --quiet --allow-existing --python "$$($$found -c 'import sys; print(sys.executable)')" $(VENV); \
	elif [ -e $(VENV) ] || $$found -c 'import ensurepip' 2>/dev/null; then \
		$$found -m venv $(VENV); \
	else \
		echo "$$found cannot make virtual environments. On Debian and Ubuntu: apt install python3-venv" >&2; exit 1; \
	fi

# $(1): a lock file, and options before it.
install = @$(BIN)/python scripts/set_up.py $(1)

$(VENV)/.run-ready: requirements/run.lock pyproject.toml | $(VENV)/bin/python
	$(call install,requirements/run.lock)
	@touch $@

$(VENV)/.dev-ready: requirements/dev.lock pyproject.toml | $(VENV)/bin/python
	$(call install,requirements/dev.lock)
	@touch $@ $(VENV)/.run-ready

$(VENV)/.frameworks-ready: requirements/frameworks.lock pyproject.toml | $(VENV)/bin/python
	$(call install,requirements/frameworks.lock)
	@touch $@ $(VENV)/.dev-ready $(VENV)/.run-ready

# An environment that was copied with its folder runs the code of the other folder, or nothing.
here = @$(BIN)/python scripts/set_up.py --check

tools: $(VENV)/.dev-ready
	$(here)

COMPILE = uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-header \
	--no-annotate --upgrade --quiet pyproject.toml --extra fast --extra postgres

lock:
	$(COMPILE) --group build -o requirements/run.lock
	$(COMPILE) --group dev -o requirements/dev.lock
	$(COMPILE) --group frameworks --group browser --group dev -o requirements/frameworks.lock
	$(subst pyproject.toml --extra fast --extra postgres,,$(COMPILE)) --group page -o requirements/dashboard.lock
	$(COMPILE) --group docs -o requirements/docs.lock
	$(COMPILE) --group release -o requirements/release.lock

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache dist build
