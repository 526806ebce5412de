# Every target sets itself up: a bare machine needs make and Python 3.11 or later, nothing else.
# Another interpreter: make demo PYTHON=python3.13. What the demo takes: make demo DEMO='--to de'.

VENV := .venv
BIN := $(VENV)/bin
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
# Once for all commands that follow: with PYTHONDONTWRITEBYTECODE each of them would compile the package for itself.
COMPILED := $(BIN)/python -m compileall -q src

ifndef PYTHON
PYTHON := $(shell for name in python3 python3.14 python3.13 python3.12 python3.11 python; do \
	$$name -c 'import sys; sys.exit(sys.version_info < (3, 11))' 2>/dev/null && echo $$name && break; done)
endif

# Older makes take a bare # for a comment wherever it stands.
HASH := \#
# The compiled core needs a C++17 compiler and Python's headers; without them dragoman runs on PyTorch alone.
HEADERS := $(shell $(PYTHON) -c 'import sysconfig; print(sysconfig.get_path("include"))' 2>/dev/null)
COMPILER := $(shell for name in $(CXX) c++ g++ clang++; do \
	printf '$(HASH)include <Python.h>\nstatic_assert(__cplusplus >= 201703L);\n' | \
	$$name -std=c++17 -I"$(HEADERS)" -x c++ -fsyntax-only - 2>/dev/null && echo $$name && break; done)
NATIVE := $(wildcard native/pyproject.toml native/CMakeLists.txt native/src/*.*pp native/src/kernels/* native/src/dragoman_cpu/*)

# What is installed for tests and checks; CI adds Ray, which is large.
EXTRAS := dev
COMMA := ,
DEV := $(VENV)/$(subst $(COMMA),-,$(EXTRAS)).stamp

.DEFAULT_GOAL := help
.PHONY: demo test check sanitize bench docs clean help

demo: $(VENV)/demo.stamp $(VENV)/core.stamp ## train a small translator of dates, times, numbers and amounts, and show it (3 minutes)
	@$(COMPILED)
	$(BIN)/dragoman demo $(DEMO)

test: $(DEV) $(VENV)/core.stamp ## run all tests, one process a core (TESTS='tests/unit -k cache' runs some)
	@$(COMPILED)
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --numprocesses auto --maxprocesses 8 --dist worksteal $(TESTS)

check: $(DEV) ## lint, format, types, import contract, generated documentation: what CI runs beside the tests
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/python docs/generate.py --check

sanitize: $(DEV) ## run the compiled core's own tests under the address and undefined-behaviour sanitizers
ifeq ($(COMPILER),)
	@echo "No C++17 compiler with Python's headers: the compiled core is not checked under sanitizers."
else
	@CXX=$(COMPILER) native/sanitize "$(CURDIR)/$(BIN)"
endif

bench: $(DEV) ## time beam search beside its slow twin (RUN=runs/en-de SOURCE=test.en)
	@test -n "$(RUN)" && test -n "$(SOURCE)" || { \
		echo "Say what to translate with, and what: make bench RUN=runs/en-de SOURCE=test.en" >&2; exit 1; }
	$(BIN)/python benchmarks/decode_twin.py "$(RUN)" --source "$(SOURCE)" $(BENCH)

docs: $(DEV) ## write the generated pages of the documentation
	$(BIN)/python docs/generate.py

clean: ## remove the virtual environment, caches and builds; runs/ stays
	rm -rf $(VENV) build dist native/build .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find src tests docs benchmarks examples -name __pycache__ -type d -prune -exec rm -rf {} +

help: ## say what the targets do
	@sed -n 's/^\([a-z]*\):[^#]*## \(.*\)/\1\t\2/p' $(MAKEFILE_LIST) | while IFS="$$(printf '\t')" read -r name text; do \
		printf 'make %-8s  %s\n' "$$name" "$$text"; done

$(VENV)/demo.stamp: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV); the first time this takes a few minutes."
	@$(INSTALL) -e '.[demo]'
	@touch $@

$(DEV): pyproject.toml constraints.txt | $(BIN)/python
	@echo "Installing into $(VENV); the first time this takes a few minutes."
	@$(INSTALL) -e '.[$(EXTRAS)]'
	@touch $@ $(VENV)/demo.stamp

$(VENV)/core.stamp: $(NATIVE) constraints.txt | $(BIN)/python
ifeq ($(COMPILER),)
	@echo "No C++17 compiler with Python's headers: the compiled core is left out, and dragoman runs on PyTorch alone."
else
	@echo "Building the compiled core with $(COMPILER); the first time this takes a minute."
	@CXX=$(COMPILER) PIP_CONSTRAINT="$(CURDIR)/constraints.txt" $(INSTALL) ./native
	@touch $@
endif

$(BIN)/python:
	@test -n "$(PYTHON)" && "$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "dragoman needs Python 3.11 or later, and $${PYTHON:-python3} is $$("$${PYTHON:-python3}" --version 2>&1 || :)." >&2; \
		echo "Install one, or name it: make $(MAKECMDGOALS) PYTHON=/path/to/python3.12" >&2; exit 1; }
	@"$(PYTHON)" -m venv $(VENV) || { rm -rf $(VENV); \
		echo "The module venv does not work; on Debian and Ubuntu: apt install python3-venv" >&2; exit 1; }
