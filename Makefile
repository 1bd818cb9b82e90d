# `make demo`: install and run OmniFC on ten clients. `make test`: install and check everything.
# PYTHON=python3.12 picks an interpreter, VENV=path another virtual environment.

PYTHON ?= python3
VENV ?= .venv
LOWEST ?= .venv-lowest
NEWEST ?= .venv-newest
PREFECT ?= .venv-prefect
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet
PYTEST_ARGS ?=
WORKERS ?= 2
FAULTS ?= 100
JOBS ?= 3
ROWS ?= .chaos-rows.jsonl
FUZZ_MINUTES ?= 60
MINUTES ?= 60
SAMPLE ?= 300
SEED ?= 0
ROOMS ?=
AGAIN ?=
DASK ?=

# What touches other packages' interfaces, and a real fit of every method; recovery hangs on the
# version of distributed. What goes wrong under a run's folder is the file system's matter.
VERSION_TESTS := tests/stores tests/coding tests/linalg tests/clustering tests/secure/sums \
  tests/federation tests/deploy tests/runs tests/cli tests/secure/distances/test_steps.py \
  tests/protocols/omnifc/test_omnifc.py::test_labels_equal_the_pooled_clusterer \
  tests/protocols/fedsc/test_fedsc.py::test_equals_the_arithmetic_in_one_place \
  tests/protocols/kcagc/test_kcagc.py::test_equals_the_protocol_without_masks \
  tests/protocols/esfmc \
  tests/baselines/test_end_to_end.py::test_equals_pooled_on_easy_data \
  --ignore=tests/runs/test_faults.py

.DEFAULT_GOAL := help
.PHONY: help demo test check static lint types layers spelling tests test-long memory attack fuzz chaos docs packages test-lowest test-newest test-dask test-deploy bench mutants mutants-report clean

# Notes on docs/long-checks.md when the check ended, and how.
NOTED = -m tests.long_checks "make $@"

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
	$(PIP) install -c constraints.txt -e '.[test,fast,multiview,umap,files]'
	@touch $@ $(VENV)/.installed-fast

demo: $(VENV)/.installed-fast  ## install, build ten client stores from digits, run OmniFC
	$(BIN)/daskfc run pipelines/omnifc.yaml --storage storage/digits.yaml --cluster cluster-configs/local.yaml

test: $(VENV)/.installed-test  ## install, then every check and every test
	$(MAKE) --no-print-directory check VENV=$(VENV)

check: static tests  ## every check and every test, in the environment as it is

static: lint types layers spelling  ## every check but the tests

lint:            ## ruff: style and format
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types:           ## mypy, strict
	$(BIN)/mypy

layers:          ## import-linter: imports point down
	$(BIN)/lint-imports

spelling:        ## codespell
	$(BIN)/codespell daskfc tests pipelines storage cluster-configs docs README.md CONTRIBUTING.md CHANGELOG.md Makefile

# One thread a file, and none that waits by taking a core: two files and their parties share them.
tests:           ## pytest: tests and the examples in the documentation, WORKERS=2 files at a time
	OMP_NUM_THREADS=1 OMP_WAIT_POLICY=passive OPENBLAS_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not deploy and not long" $(PYTEST_ARGS)

test-long: $(VENV)/.installed-test  ## the tests that `make test` leaves out for time
	$(BIN)/python $(NOTED) $(BIN)/python -m pytest -m long $(PYTEST_ARGS)

chaos: $(VENV)/.installed-test  ## FAULTS=100 seeded faults of local runs and of sites, into docs/chaos.md: goes on after ROWS, a quarter of a minute each
	$(BIN)/python -m tests.chaos.run --faults $(FAULTS) --jobs $(JOBS) --rows $(ROWS); ended=$$?; \
	  $(BIN)/python -m tests.chaos.table $(ROWS) && exit $$ended

memory: $(VENV)/.installed-test  ## what plans foresee of memory beside what processes take, into docs/memory.md: minutes
	$(BIN)/python -m tests.memory_table

attack: $(VENV)/.installed-test  ## every attempt of docs/security.md, and how it ends: minutes
	$(BIN)/python -m tests.attacks.table

fuzz: $(VENV)/.installed-test  ## wire, pickles, stores and YAML with other inputs each time, for FUZZ_MINUTES=60; stops at a fault
	$(BIN)/python -m tests.fuzz.run $(FUZZ_MINUTES)

$(VENV)/.installed-docs: pyproject.toml constraints.txt $(VENV)/.made
	$(PIP) install -c constraints.txt -e '.[docs,build,fast]'
	@touch $@

docs: $(VENV)/.installed-docs  ## the documentation site, into docs/_build/html: a few minutes; a warning or a broken link fails
	rm -rf docs/_build docs/gallery docs/reference/generated
	$(BIN)/python -m sphinx -b html -n -W --keep-going -q docs docs/_build/html
	$(BIN)/python docs/_ext/links.py docs/_build/html

packages: $(VENV)/.installed-docs  ## wheel and sdist, into dist/
	$(BIN)/python -m build

# Each in a virtual environment of its own. What numba compiled is kept there too: versions that take
# turns in one cache compile everything again.
test-lowest:     ## the lowest versions of pyproject.toml: the tests that depend on versions
	$(MAKE) --no-print-directory version-tests VENV=$(LOWEST) INSTALLED=lowest

test-newest:     ## the newest versions there are: the same tests
	$(MAKE) --no-print-directory version-tests VENV=$(NEWEST) INSTALLED=newest

test-dask: $(VENV)/.installed-test  ## eight releases of Dask, each beside the same other packages, into docs/dask-releases.md; DASK=2026.8.0 for one of them
	$(BIN)/python -m tests.dask_releases $(DASK)

.PHONY: version-tests
version-tests: $(VENV)/.installed-$(INSTALLED)
	NUMBA_CACHE_DIR=$(abspath $(VENV))/numba $(BIN)/python -m tests.long_checks "make test-$(INSTALLED)" \
	  $(BIN)/python -m pytest -n $(WORKERS) --dist loadfile -m "not deploy" $(PYTEST_ARGS) $(VERSION_TESTS)

$(VENV)/.installed-lowest: pyproject.toml constraints-lowest.txt $(VENV)/.made
	$(PIP) install -c constraints-lowest.txt -e '.[test,fast,multiview,files]'
	@touch $@

.PHONY: $(VENV)/.installed-newest  # every time: there may be newer ones
$(VENV)/.installed-newest: $(VENV)/.made
	$(PIP) install --upgrade --upgrade-strategy eager -e '.[test,fast,multiview,umap,files]'

# What pytest-benchmark saves under .benchmarks is the history: pytest-benchmark compare.
bench: $(VENV)/.installed-test  ## every benchmark beside the plain library call, into docs/benchmarks.md: an hour, on an idle machine
	mkdir -p .benchmarks
	$(BIN)/python -m pytest tests/benchmarks --timeout 3600 --benchmark-enable --benchmark-autosave --benchmark-json .benchmarks/last.json
	$(BIN)/python -m tests.benchmarks.page .benchmarks/last.json

$(VENV)/.installed-deploy: tests/deployments/requirements.txt $(VENV)/.installed-test
	$(PIP) install -c constraints.txt -e '.[ssh]' -r tests/deployments/requirements.txt
	$(PIP) install --no-deps dask-kubernetes==2026.3.0  # for the schemas in it: nothing of it runs
	@touch $@

$(PREFECT)/.installed: tests/deployments/requirements-prefect.txt
	$(PYTHON) -m venv $(PREFECT)
	$(PREFECT)/bin/python -m pip --disable-pip-version-check --quiet install -r tests/deployments/requirements-prefect.txt
	@touch $@

# Installs Python packages and no programs; what else is missing is skipped with its reason.
test-deploy: $(VENV)/.installed-deploy $(PREFECT)/.installed  ## deployments with the real programs, where they are there: minutes
	DASKFC_PREFECT=$(abspath $(PREFECT)) $(BIN)/python $(NOTED) $(BIN)/python -m pytest $(PYTEST_ARGS) tests/deployments

$(VENV)/.installed-mutants: $(VENV)/.installed-test
	$(PIP) install -c constraints.txt -e '.[test,fast,multiview,umap,mutants]'
	@touch $@

mutants: $(VENV)/.installed-mutants  ## change the source bit by bit and see what tests notice: SAMPLE=300 changes of all ROOMS, drawn by SEED=0, within MINUTES=60; goes on where it was
	$(BIN)/python -m tests.mutations.sample --sample $(SAMPLE) --seed $(SEED) --minutes $(MINUTES) \
	  --jobs $(WORKERS) $(if $(ROOMS),--rooms $(ROOMS)) $(if $(AGAIN),--again)

mutants-report:  ## what `make mutants` has found so far
	$(BIN)/python -m tests.mutations.sample --report

clean:           ## remove caches and virtual environments; runs and stores stay
	rm -rf $(VENV) $(LOWEST) $(NEWEST) .venv-dask $(PREFECT) .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis .benchmarks
