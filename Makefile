# Every target sets itself up: a bare machine needs make and Python 3.11 or later, nothing else.
# Another interpreter: make demo PYTHON=python3.13. Options of the demo command: make demo DEMO='--to de'.

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Compile once for all commands that follow: with PYTHONDONTWRITEBYTECODE set, each command would compile the package again.
COMPILE := $(BIN)/python -m compileall -q src
# One worker process per core, one thread per worker.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal

ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
endif

# Older versions of make read a bare # as the start of a comment everywhere.
HASH := \#
# The CPU library needs a C++17 compiler and Python's headers; without them dragoman uses PyTorch only.
HEADERS := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
COMPILER := $(shell for name in $(CXX) c++ g++ clang++; do \
	printf '$(HASH)include <Python.h>\nstatic_assert(__cplusplus >= 201703L);\n' | \
	$$name -std=c++17 -I"$(HEADERS)" -x c++ -fsyntax-only - 2>/dev/null && echo $$name && break; done)
NATIVE := $(shell find native -name '*.cpp' -o -name '*.hpp' -o -path '*/dragoman_cpu/*.py*' -o -name CMakeLists.txt -o -name pyproject.toml)

# Packages for tests and checks; CI adds Ray, which is large.
EXTRAS := dev
COMMA := ,
DEV := $(VENV)/$(subst $(COMMA),-,$(EXTRAS)).stamp
# What `make check` needs is part of what tests need, and is installed alone where nothing else is.
CHECK := $(firstword $(wildcard $(DEV)) $(VENV)/check.stamp)

.DEFAULT_GOAL := help
.PHONY: demo test test-all check audit sanitize bench docs clean help

demo: $(VENV)/demo.stamp $(VENV)/cpu_library.stamp ## train a small translator of dates, times, numbers and amounts, and show it (3 minutes)
	@$(COMPILE)
	$(BIN)/dragoman demo $(DEMO)

test: $(DEV) $(VENV)/cpu_library.stamp ## run the fast tests, one process per core (TESTS='tests/unit -k cache' runs a part)
	@$(COMPILE)
	DRAGOMAN_TESTS=fast $(PYTEST) -m 'not slow' $(TESTS)

test-all: $(DEV) $(VENV)/cpu_library.stamp ## run all tests: also trainings, process kills, the browser, several workers
	@$(COMPILE)
	$(PYTEST) $(TESTS)

check: $(CHECK) ## run the linter, the formatter, the type checker, the import contract and the documentation check
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

audit: $(DEV) ## look for known holes in the installed packages and in the oldest versions accepted; needs the network
	$(BIN)/python .ci/audit.py

sanitize: $(DEV) ## run the tests of the CPU library under the address, undefined-behavior and thread sanitizers
ifeq ($(COMPILER),)
	@echo "No C++17 compiler with Python's headers: the CPU library is not tested under sanitizers."
else
	@CXX=$(COMPILER) native/sanitize "$(CURDIR)/$(BIN)"
endif

bench: $(DEV) ## time beam search with and without cached states (RUN=runs/en-de SOURCE=test.en)
	@test -n "$(RUN)" && test -n "$(SOURCE)" || { \
		echo "Name a run and a source text: make bench RUN=runs/en-de SOURCE=test.en" >&2; exit 1; }
	$(BIN)/python -m benchmarks.cached_decoding.cached_decoding "$(RUN)" --source "$(SOURCE)" $(BENCH)

docs: $(DEV) ## write the generated pages of the documentation
	$(BIN)/python docs/generate.py

clean: ## remove the virtual environment, caches and builds; keep runs/
	rm -rf $(VENV) build dist native/build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests docs benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
		printf 'make %-8s  %s\n' "$$name" "$$text"; done

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV). The first installation takes a few minutes."
	@$(INSTALL) -e '.[demo]'
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV). The first installation takes a few minutes."
	@$(INSTALL) -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/check.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV). The first installation takes a few minutes."
	@$(INSTALL) -e '.[check]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/cpu_library.stamp: $(NATIVE) constraints.txt | $(BIN)/python
ifeq ($(COMPILER),)
	@echo "No C++17 compiler with Python's headers: the CPU library is left out, and dragoman uses PyTorch only."
else
	@echo "Building the CPU library with $(COMPILER). The first build takes a minute."
	@CXX=$(COMPILER) PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(INSTALL) ./native
	@touch $@
endif

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dragoman needs Python 3.11 or later, and $${PYTHON:-python3} is $$("$${PYTHON:-python3}" --version 2>&1 || :)." >&2; \
		echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
		echo "The module venv does not work; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
