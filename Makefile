# The only two commands a newcomer needs are `make demo` and `make test`.
VENV ?= .venv
PYTHON ?= python3
# Installed first and by itself: a range would take the newest, with several GB for GPUs. Another build of it, or another
# index: make test TORCH=… TORCH_ARGS="--index-url …"
TORCH ?= torch==2.13.0
TORCH_ARGS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: demo test test-all test-slow check bench clean
# With bytecode written, whatever the environment says: the tests start hundreds of processes that would each compile the
# project anew. A crashed worker process ends the run: restarted, it can leave the others waiting for the tests that it held.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -n auto --maxprocesses 4 --dist loadfile --max-worker-restart 0

demo: $(STAMP)
	$(BIN)/querytruth demo --out demo

test: $(DEV_STAMP)
	$(PYTEST) -m "not slow and not thorough"

test-all: test
	$(PYTEST) -m "thorough and not slow"

test-slow: $(DEV_STAMP)
	PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest -m "slow or not slow"

check: $(DEV_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[bench]"
	$(BIN)/python benchmarks/annotations.py
	$(BIN)/python benchmarks/near_duplicates.py
	$(BIN)/python benchmarks/novelty.py
	$(BIN)/python benchmarks/ambiguity.py
	$(BIN)/python benchmarks/captioning.py
	test -x .peers/bin/python || $(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet $(TORCH_ARGS) "$(TORCH)"
	.peers/bin/python -m pip install --quiet imagehash simplejpeg 'pyvips[binary]' cleanvision img2dataset scikit-learn PyWavelets \
		datasketch pytrec_eval ir_measures ranx
	.peers/bin/python -m pip install --quiet --no-deps imagededup
	$(BIN)/python benchmarks/gallery.py --peers-python .peers/bin/python
	$(BIN)/python benchmarks/web_fetch.py --peers-python .peers/bin/python
	$(BIN)/python benchmarks/metrics.py --peers-python .peers/bin/python
	$(BIN)/python benchmarks/search.py
	$(BIN)/python benchmarks/evaluation.py
	$(BIN)/python benchmarks/collecting.py
	$(BIN)/python benchmarks/gallery_at_scale.py
	$(BIN)/python -m pip install --quiet playwright
	$(BIN)/python benchmarks/review_page.py

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check $(TORCH_ARGS) "$(TORCH)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e .
	touch $(STAMP)

$(DEV_STAMP): $(STAMP)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -e ".[dev]"
	touch $(DEV_STAMP)

clean:
	rm -rf $(VENV) .peers demo
