# Two commands do all the set-up on a machine that has only Python, pip and make: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN = $(VENV)/bin
# The machine's own pip fills the environment (venv's way needs ensurepip, which Debian leaves out), with a pip in it for
# its users. Byte code is written at the first import, for the few modules that are imported: half of pip's time.
PIP = $(PYTHON) -m pip --python $(BIN)/python install --quiet --disable-pip-version-check --no-compile

.PHONY: demo test coverage test-torch test-all test-bounds test-lowest test-notebooks docs lint types unit fuzz mutants bench clean

$(VENV)/.made:
	$(PYTHON) -m venv --without-pip $(VENV)
	touch $@

$(VENV)/.installed: $(VENV)/.made pyproject.toml
	$(PIP) pip -e .
	touch $@

$(VENV)/.dev: $(VENV)/.made pyproject.toml
	$(PIP) pip -e ".[dev]"
	touch $(VENV)/.installed $@

demo: $(VENV)/.installed  ## declare a space, solve it with every backend, show the agreement
	$(BIN)/python -m structopt.demo

test: lint types unit  ## what CI runs

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

unit: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -q

coverage: $(VENV)/.dev  ## the same tests with the lines that they reach, at twice the time
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" --cov --cov-report=term -q

# A build without CUDA where the package index has one for this version; plain `torch` may bring gigabytes.
test-torch: $(VENV)/.dev  ## losses and layers for PyTorch, which is installed first
	$(PIP) torch==2.13.0
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not slow" -q tests/torch structopt/torch docs/howto/neural_scores.md \
		tests/estimators/test_label_forms.py

test-all: lint types  ## everything, the slow tests too, with examples that no run has seen
	STRUCTOPT_EXAMPLES=explore $(BIN)/python -m pytest -n 2 --dist worksteal --cov --cov-report=term -q

# Compiled code looks at every index, and raises where it would read past an array. numba's cache does not tell code with
# these checks from code without: it has a folder of its own.
BOUNDS = estimators hierarchy jit kernels losses model norms oracle plane recognize risks search structures surrogates train \
	test_metrics.py
test-bounds: $(VENV)/.dev  ## everything that reaches a kernel, with numba's bounds checking
	NUMBA_BOUNDSCHECK=1 NUMBA_CACHE_DIR=$(CURDIR)/.numba_bounds $(BIN)/python -m pytest -n 2 --dist worksteal \
		-m "not slow" -q $(addprefix tests/,$(BOUNDS))

LOWEST = .venv-lowest
test-lowest:  ## backends, estimators and trainers at the lowest versions that pyproject.toml allows
	$(PYTHON) -m venv --without-pip $(LOWEST)
	$(PYTHON) tests/lowest.py > $(LOWEST)/constraints.txt
	$(PYTHON) -m pip --python $(LOWEST)/bin/python install --quiet --disable-pip-version-check --no-compile \
		--constraint $(LOWEST)/constraints.txt pip -e ".[dev]"
	NUMBA_CACHE_DIR=$(CURDIR)/$(LOWEST)/numba $(LOWEST)/bin/python -m pytest -n 2 --dist worksteal -m "not slow" -q \
		tests/backends tests/estimators tests/train

test-notebooks: $(VENV)/.dev  ## every notebook, executed from top to bottom
	$(PIP) -e ".[notebooks]" torch==2.13.0
	$(BIN)/python -m pytest --nbmake notebooks -q

docs: $(VENV)/.dev  ## the site, in docs/_build/html; a warning is an error
	$(PIP) -e ".[docs]" torch==2.13.0
	$(BIN)/python -m sphinx -W -q -b html docs docs/_build/html

fuzz: $(VENV)/.dev  ## random cases against enumeration, HiGHS and cvxpy; FUZZ="--seconds 60" and the like are passed on
	$(BIN)/python tests/fuzz/run.py $(FUZZ)

mutants: $(VENV)/.dev  ## small faults, each of which a test must find; MUTANTS="--area search" and the like are passed on
	$(BIN)/python tests/mutants/run.py $(MUTANTS)

bench: $(VENV)/.dev  ## repeats every stored result with its own command
	$(BIN)/python benchmarks/run.py --stored

clean:
	rm -rf $(VENV) $(LOWEST) build dist demo-output .coverage .pytest_cache .mypy_cache .ruff_cache .hypothesis .numba_bounds
