# Uchide from a clone: `make demo` and `make test` need Linux, Python 3.11+, git and make, and nothing else.
SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help

PYTHON ?= python3
VENV := .venv
STAMP := $(VENV)/.made-from-lock
DEV_STAMP := $(VENV)/.made-from-dev-lock
SERVE_STAMP := .venv-serve/.made-from-lock

.PHONY: help venv dev serve-env demo test lint format schemas lock clean

help: ## this list
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /  make \1\t/' | expand -t 18

venv: $(STAMP) ## .venv with the pinned requirements

$(STAMP): requirements.lock pyproject.toml
	@[ "$$(uname -s)" = Linux ] || { echo "Uchide runs on Linux only: its sandboxes are made of Linux namespaces." >&2; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
	  echo "Uchide needs Python 3.11 or newer; $(PYTHON) is $$($(PYTHON) -V 2>&1). Name another one: make PYTHON=python3.12 venv" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian and Ubuntu an administrator installs it: apt-get install python3-venv" >&2; exit 1; }
	@echo "making $(VENV) (a minute the first time)"
	@[ -x $(VENV)/bin/python ] || $(PYTHON) -m venv $(VENV)
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
	@touch $@

dev: $(DEV_STAMP) ## the same with the linters

$(DEV_STAMP): $(STAMP) requirements-dev.lock
	@$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --require-hashes -r requirements-dev.lock
	@touch $@

serve-env: $(SERVE_STAMP) ## .venv-serve, with which `make test` also tests against a real model server

$(SERVE_STAMP): requirements-serve.lock
	@[ -x .venv-serve/bin/python ] || $(PYTHON) -m venv .venv-serve
	@.venv-serve/bin/python -m pip install --quiet --disable-pip-version-check --only-binary :all: --require-hashes -r $<
	@touch $@

demo: venv ## a TTS@8 sweep over eight real bugs, and its report
	@$(VENV)/bin/uchide run experiments/demo.yaml

test: venv ## the tests, with the whole mini sweep among them
	@$(VENV)/bin/python -m pytest -n auto --dist loadfile $(PYTEST_ARGS)

lint: dev ## ruff, mypy, snakefmt, codespell
	@$(VENV)/bin/ruff check .
	@$(VENV)/bin/ruff format --check .
	@$(VENV)/bin/mypy
	@$(VENV)/bin/snakefmt --check Snakefile workflow
	@$(VENV)/bin/codespell

format: dev ## let the formatters write
	@$(VENV)/bin/ruff check --fix .
	@$(VENV)/bin/ruff format .
	@$(VENV)/bin/snakefmt Snakefile workflow

schemas: venv ## workflow/schemas/ from the models
	@$(VENV)/bin/python -m uchide.pipeline.schema

lock: ## the lock files from pyproject.toml (needs the program uv)
	@export UV_CUSTOM_COMPILE_COMMAND="make lock"; \
	compile="uv pip compile --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url --no-emit-find-links"; \
	$$compile --extra test --extra build pyproject.toml -o requirements.lock; \
	$$compile --extra test --extra build --extra dev -c requirements.lock pyproject.toml -o requirements-dev.lock; \
	$$compile --group serve -o requirements-serve.lock

clean: ## remove what the others made (the clone's environment, artifacts, reports, caches)
	@rm -rf $(VENV) .venv-serve .snakemake .pytest_cache .mypy_cache .ruff_cache .hypothesis artifacts reports
	@find . -name __pycache__ -type d -prune -exec rm -rf {} +
	@echo "Downloads and built environments stay in $${UCHIDE_CACHE:-$${XDG_CACHE_HOME:-$$HOME/.cache}/uchide}; remove that folder to free their disk."
