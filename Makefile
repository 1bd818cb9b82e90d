# `make demo`: install and run OmniFC on ten clients. `make test`: install and check everything.
# PYTHON=python3.12 picks an interpreter, VENV=path another virtual environment.

PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help demo test check lint types layers spelling tests mutants mutants-report clean

help:            ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1: /p' Makefile

$(VENV)/.made:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null || \
	  { echo "daskfc needs Python 3.11 or newer as $(PYTHON); give another with PYTHON=..." >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

# One stamp a set of extras: nothing is installed again unless the pins or the metadata changed.
$(VENV)/.installed-fast: pyproject.toml constraints.txt $(VENV)/.made
	$(PIP) install -c constraints.txt -e '.[fast]'
	@touch $@

$(VENV)/.installed-test: pyproject.toml constraints.txt $(VENV)/.made
	$(PIP) install -c constraints.txt -e '.[test,fast]'
	@touch $@ $(VENV)/.installed-fast

demo: $(VENV)/.installed-fast  ## install, build ten client stores from digits, run OmniFC
	$(BIN)/daskfc run pipelines/omnifc.yaml --storage storage/digits.yaml --cluster cluster-configs/local.yaml

test: $(VENV)/.installed-test  ## install, then every check and every test
	$(MAKE) --no-print-directory check VENV=$(VENV)

check: lint types layers spelling tests  ## every check and every test, in the environment as it is

lint:            ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:           ## mypy, strict
	$(BIN)/mypy

layers:          ## import-linter: imports point down
	$(BIN)/lint-imports

spelling:        ## codespell
	$(BIN)/codespell daskfc tests pipelines storage cluster-configs docs README.md CONTRIBUTING.md CHANGELOG.md Makefile

tests:           ## pytest: tests and the examples in the documentation
	$(BIN)/python -m pytest $(PYTEST_ARGS)

$(VENV)/.installed-mutants: $(VENV)/.installed-test
	$(PIP) install -c constraints.txt -e '.[test,fast,mutants]'
	@touch $@

mutants: $(VENV)/.installed-mutants  ## change the source bit by bit and see what tests notice: hours, goes on where it was
	$(BIN)/python tests/mutations/mutants.py $(MUTANTS)

mutants-report:  ## what `make mutants` has found so far
	$(BIN)/python tests/mutations/mutants.py report

clean:           ## remove caches and the virtual environment; runs and stores stay
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks
