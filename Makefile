# Two commands do all the set-up: `make demo` and `make test`. Both need nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check

.PHONY: demo test lint types contracts quick slow bench clean

demo: $(VENV)/.demo
	$(BIN)/evenhand demo

test: lint types contracts quick slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

slow: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m slow

bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.run $(if $(QUICK),--quick)

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("evenhand needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# Stamps: a second run does not install again, a changed requirement does.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt --editable '.[dev]'
	touch $@ $(VENV)/.demo

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis evenhand-demo benchmarks/out
