# Every target sets up what it needs in .venv; a second call does not reinstall.
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := PIP_DISABLE_PIP_VERSION_CHECK=1 $(BIN)/python -m pip install --quiet --constraint constraints.txt
SETUP  := pyproject.toml constraints.txt
# One more than there are cores: the worker that has the real deployments mostly waits.
WORKERS = $$($(BIN)/python -c 'import os; print((os.cpu_count() or 1) + 1)')

.DEFAULT_GOAL := help
.PHONY: help demo test thorough check lint types imports docs package licences soak bench bench-peers clean

help:  ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1\t/' | expand -t 13

$(VENV)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "pausefl needs Python 3.11 or newer, found $$($(PYTHON) -V 2>&1); run: make PYTHON=python3.11 $(MAKECMDGOALS)" >&2; exit 2; }
	$(PYTHON) -m venv $(VENV)
	@touch $@

$(VENV)/demo: $(VENV)/python $(SETUP)
	@echo "setting up $(VENV) (what the demo needs; about a minute)"
	@$(PIP) torch  # first and alone, so that its pin decides and not a range of another package
	@$(PIP) --editable '.[learn,report]'
	@touch $@

$(VENV)/dev: $(VENV)/demo
	@echo "setting up $(VENV) (everything; a few minutes)"
	@$(PIP) --editable '.[all,dev,docs]'
	@touch $@

demo: $(VENV)/demo  ## the showcase: digits, 30 clients, every policy, two units of privacy; ends with tables and HTML reports
	@$(BIN)/pausefl demo

test: $(VENV)/dev  ## all tests but the thorough ones
	@$(BIN)/python -m pytest -n $(WORKERS)

thorough: $(VENV)/dev  ## the tests that take long, of which `make test` has smaller siblings
	@$(BIN)/python -m pytest -n $(WORKERS) -m thorough

lint: $(VENV)/dev
	@$(BIN)/ruff check . && $(BIN)/ruff format --check .

types: $(VENV)/dev
	@$(BIN)/mypy

imports: $(VENV)/dev
	@$(BIN)/lint-imports

docs: $(VENV)/dev  ## the documentation site, into build/site
	@mkdir -p build  # not --quiet: it hides warnings from --strict, and a broken link would pass
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict >build/site.log 2>&1 || { cat build/site.log >&2; exit 1; }
	@$(BIN)/python tools/offline.py build/site

package: $(VENV)/dev  ## wheel and sdist into dist, and the wheel tried in a new environment
	@$(BIN)/python -m build --outdir dist . >/dev/null
	@$(BIN)/python -m pytest -m package tests/packaging

licences: $(VENV)/dev  ## write docs/licences.md from the installed packages
	@$(BIN)/python tools/licences.py docs/licences.md

check: lint types imports test thorough docs package  ## lint, types, import rules, all tests, the site and the wheel

soak: $(VENV)/dev  ## the slow part of the robustness tests: memory over 5,000 rounds, 2,000 strange inputs
	@$(BIN)/python tests/robustness/soak.py

bench: $(VENV)/dev  ## speed, as ratios measured in one run
	@$(BIN)/python -m benchmarks

.venv-peers/pfl: constraints.txt
	@echo "setting up .venv-peers (torch and pfl; takes a few minutes once)"
	@$(PYTHON) -m venv .venv-peers
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-peers/bin/python -m pip install --quiet --constraint constraints.txt torch
	@PIP_DISABLE_PIP_VERSION_CHECK=1 .venv-peers/bin/python -m pip install --quiet --constraint constraints.txt 'pfl[pytorch]==0.6.0'
	@touch $@

bench-peers: $(VENV)/dev .venv-peers/pfl  ## speed against other simulators (own environment)
	@$(BIN)/python -m benchmarks.peers .venv-peers/bin/python

clean:  ## remove the environments and caches
	rm -rf $(VENV) .venv-peers .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
