# make quickstart   raw text -> vocabulary -> records -> BERT -> classifier -> SavedModel -> an answer (about 6 minutes)
# make test         every test (make test TESTS=tests/test_config.py for some)
# make lint         style
# make three-seeds  does pre-training help? the quickstart three times, each beside the same model from scratch
# All of them first make a virtual environment in .venv; PYTHON names another Python 3.11 to 3.13.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
TESTS ?= tests
OUTPUT ?= quickstart

.PHONY: install quickstart test lint three-seeds clean

install: $(VENV)/installed

$(VENV)/installed: setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); sys.exit(None if ok else "keras_bert needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[test,plots,tensorboard]'
	@touch $@

quickstart: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash run_scripts/quickstart.sh $(OUTPUT) $(INPUT)

test: install
	$(BIN)/python -m pytest --numprocesses 2 --dist loadfile $(TESTS)

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

three-seeds: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash benchmarks/three_seeds.sh $(OUTPUT)

clean:
	rm -rf $(VENV) build dist *.egg-info .pytest_cache .ruff_cache
