# Everything runs in .venv, which the first target makes. Needed beforehand: Python 3.11 or newer, pip, make.
PYTHON ?= python3
VENV ?= .venv
# The exact versions that are installed, what builds the package among them; `make lock` renews the file.
LOCK := constraints.txt
BIN := $(VENV)/bin
PIP := $(if $(LOCK),PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK)) $(BIN)/python -m pip --disable-pip-version-check
UV := .venv-tools/bin/uv
PAPERS := $(wildcard reproductions/pyproject.toml)

.DEFAULT_GOAL := help
.NOTPARALLEL:
.DELETE_ON_ERROR:
.PHONY: help demo test test-slow test-all lint bench docs dist lock latest lowest clean

help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## /\1\t/p' $(MAKEFILE_LIST) | expand -t 12

demo: $(VENV)/.stamp-demo ## private posteriors from bundled public data: a table and out/demo.png
	$(BIN)/python examples/demo.py

test: $(VENV)/.stamp-test ## the tests, without those marked slow
	$(BIN)/python -m pytest -n auto -m "not slow"

test-slow: $(VENV)/.stamp-slow ## only the tests marked slow: evidence that takes minutes, as in CI
	$(BIN)/python -m pytest -n auto -m "slow and not long" -rs

test-all: $(VENV)/.stamp-slow ## every test; those marked long take an hour
	$(BIN)/python -m pytest -n auto -rs

# mypy reads the types of whatever is installed, so lint wants the same packages in .venv every time.
lint: $(VENV)/.stamp-slow $(VENV)/.stamp-lint ## ruff (rules and format) and mypy
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.stamp-test ## speed and memory, then against other tools (10 minutes more); DATA=FOLDER adds Adult
	$(BIN)/python benchmarks/run.py
	$(BIN)/python benchmarks/logistic.py $(if $(DATA),--data $(DATA))
	$(BIN)/python benchmarks/peers.py $(if $(DATA),--data $(DATA))

docs: $(VENV)/.stamp-docs ## build the documentation into site/, which opens from the disk; a warning is an error
	rm -rf site
	$(BIN)/python -m sphinx --quiet --fresh-env --fail-on-warning --conf-dir docs --doctree-dir build/doctrees . site
	@echo "open site/index.html"

dist: $(VENV)/.stamp-release ## the source archive, and the wheel made from it, in dist/
	rm -rf dist
	$(if $(LOCK),PIP_CONSTRAINT=$(LOCK) PIP_BUILD_CONSTRAINT=$(LOCK)) $(BIN)/python -m build --outdir dist >/dev/null
	$(BIN)/python -m twine check --strict dist/*

lock: $(UV) ## write constraints.txt anew, with the newest versions that pyproject.toml allows
	printf '%s\n' '# Exact versions of everything for Python 3.11 and newer, which pip reads:' \
	    "#     pip install -c constraints.txt -e '.[test]'" \
	    '# Written by `make lock`; do not edit.' >$(LOCK).new
	$(UV) pip compile --quiet --no-config --universal --python-version 3.11 --all-extras --upgrade \
	    --no-annotate --no-header pyproject.toml >>$(LOCK).new
	mv $(LOCK).new $(LOCK)

latest: ## the newest of everything, without the lock, in .venv-latest: what the bounds hold back, then the quick tests
	rm -rf .venv-latest
	$(MAKE) VENV=.venv-latest LOCK= .venv-latest/.stamp-slow
	.venv-latest/bin/python -m pip --disable-pip-version-check list --outdated
	.venv-latest/bin/python -m pytest -n auto -m "not slow"

lowest: $(UV) ## the lowest versions that pyproject.toml allows, in .venv-lowest, with Python 3.11: the quick tests
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info[:2] != (3, 11))' || { echo "make: the lowest versions are those of Python 3.11 and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); name it: make lowest PYTHON=python3.11" >&2; exit 1; }
	rm -rf .venv-lowest
	"$(PYTHON)" -m venv .venv-lowest
	$(UV) pip install --quiet --no-config --python .venv-lowest/bin/python --resolution lowest-direct \
	    --editable ".[slow]" $(if $(PAPERS),--editable ./reproductions)
	.venv-lowest/bin/python -m pytest -n auto -m "not slow"

clean: ## remove the environments and everything that was built
	rm -rf $(VENV) .venv-bench .venv-tools .venv-latest .venv-lowest site docs/reference/api out build dist .mypy_cache .ruff_cache .pytest_cache .hypothesis
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(BIN)/python:
	@command -v "$(PYTHON)" >/dev/null || { echo "make: '$(PYTHON)' was not found; install Python 3.11 or newer, or name it: make PYTHON=/path/to/python3" >&2; exit 1; }
	@"$(PYTHON)" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "make: discreet needs Python 3.11 or newer and '$(PYTHON)' is $$("$(PYTHON)" --version 2>&1); name another: make PYTHON=python3.12" >&2; exit 1; }
	@echo "making $(VENV) with $$("$(PYTHON)" --version)"
	@"$(PYTHON)" -m venv "$(VENV)"

$(VENV)/.stamp-%: pyproject.toml $(PAPERS) $(LOCK) | $(BIN)/python
	@echo "installing discreet[$*] into $(VENV)"
	@$(PIP) install --quiet --editable ".[$*]" $(if $(PAPERS),--editable ./reproductions)
	@touch $@

$(UV):
	"$(PYTHON)" -m venv .venv-tools
	.venv-tools/bin/python -m pip --disable-pip-version-check install --quiet "uv>=0.8,<1"
