# The only two commands a newcomer needs are `make demo` and `make test`.
VENV ?= .venv
NEWEST ?= .venv-newest
PYTHON ?= python3
# Installed by itself: a range would take the newest, with several GB for GPUs. Another build of it, or another index:
# make test TORCH=… TORCH_ARGS="--index-url …"
export TORCH ?= torch==2.13.0
export TORCH_ARGS ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
DEV_STAMP := $(VENV)/.installed-dev

.PHONY: reference demo test test-thorough test-all test-slow test-newest check licences audit lock bench clean
# With bytecode written, whatever the environment says: the demo and the tests start processes, up to hundreds, that would
# each compile the project and its libraries anew.
BYTECODE := PYTHONDONTWRITEBYTECODE=
# A crashed worker process ends the run: restarted, it can leave the others waiting for the tests that it held.
IN_PARALLEL := -n auto --maxprocesses 4 --dist loadfile --max-worker-restart 0
PYTEST := $(BYTECODE) $(BIN)/python -m pytest $(IN_PARALLEL)

demo: $(STAMP)
	$(BYTECODE) $(BIN)/querytruth demo --out demo

test: $(DEV_STAMP)
	$(PYTEST) -m "not slow and not thorough"

test-thorough: $(DEV_STAMP)
	$(PYTEST) -m "thorough and not slow"

# Both, and the coverage by branch of the rooms that decide what is true.
COVERED := $(PYTEST) --cov-branch --cov=builders $(foreach room,audit evaluation sets,--cov=querytruth/$(room))
test-all: $(DEV_STAMP)
	rm -f .coverage
	$(COVERED) --cov-report= -m "not slow and not thorough"
	$(COVERED) --cov-append --cov-report=term:skip-covered -m "thorough and not slow"

test-slow: $(DEV_STAMP)
	$(PYTEST) --dist worksteal -m slow

check: $(DEV_STAMP)
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python locks/licences.py >/dev/null

licences: $(DEV_STAMP)
	$(BIN)/python locks/licences.py

# Known faults of what is locked, by the advisories of PyPI: it needs the network, so it is no part of `check`.
audit: $(DEV_STAMP)
	$(BIN)/python -m uv tool run --from pip-audit==2.10.1 pip-audit --no-deps --disable-pip -r locks/run.txt

# Every benchmark that draws its data, one after the other, beside its peers: hours. PHOTOS=FOLDER measures those photos,
# too; what else needs data of others (judges, text_in_images, duplicate_peers) has its command in benchmarks/README.md.
# A benchmark that fails does not keep the others from running.
PHOTOS ?=
ALONE := album_facts annotations near_duplicates novelty ambiguity ambiguity_size captioning search evaluation collecting \
	gallery_at_scale scan_records review_page review_at_scale object_storage kept_work shared_replies runners screens training audit promises
BESIDE_PEERS := gallery web_fetch metrics overlap
MEASURE := || failed="$$failed $$name"
bench: $(STAMP)
	$(BIN)/python -m pip install --quiet -e ".[bench]" playwright
	test -x .peers/bin/python || $(PYTHON) -m venv .peers
	.peers/bin/python -m pip install --quiet $(TORCH_ARGS) "$(TORCH)"
	.peers/bin/python -m pip install --quiet imagehash simplejpeg 'pyvips[binary]' cleanvision img2dataset scikit-learn PyWavelets \
		datasketch ir_measures ranx # ir_measures brings pytrec_eval
	.peers/bin/python -m pip install --quiet --no-deps imagededup
	@export PYTHONPATH=. $(BYTECODE); failed=; \
	for name in $(BESIDE_PEERS); do echo "== $$name"; \
		$(BIN)/python benchmarks/$$name.py --peers-python .peers/bin/python $(MEASURE); done; \
	for name in $(ALONE); do echo "== $$name"; $(BIN)/python benchmarks/$$name.py $(MEASURE); done; \
	for name in $(if $(PHOTOS),duplicate_cuts); do echo "== $$name"; \
		$(BIN)/python benchmarks/$$name.py $(PHOTOS) $(MEASURE); done; \
	test -z "$$failed" || { echo "failed:$$failed"; exit 1; }

# Each lock holds what the one before it holds, and more: a newcomer who wants to see the demo waits for no tool of tests.
$(STAMP): pyproject.toml locks/run.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python locks/environment.py locks/run.txt
	touch $(STAMP)

$(DEV_STAMP): pyproject.toml locks/dev.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python locks/environment.py locks/dev.txt
	touch $(STAMP) $(DEV_STAMP)

# The newest releases within the ranges of pyproject.toml, which are what a wheel may meet. They are not locked: a failure
# tells of a library that changed.
test-newest:
	test -x $(NEWEST)/bin/python || $(PYTHON) -m venv $(NEWEST)
	$(NEWEST)/bin/python locks/environment.py --newest
	$(BYTECODE) $(NEWEST)/bin/python -m pytest $(IN_PARALLEL) -m "not slow and not thorough"

# Locks the newest releases within the ranges; UPGRADE="--upgrade-package NAME" moves one package alone. torch is left out,
# and what else every build of it needs is put in (locks/torch.in).
UPGRADE ?= --upgrade
COMPILE := $(BIN)/python -m uv pip compile --quiet --universal --generate-hashes --no-emit-package torch \
	--custom-compile-command "make lock" --overrides locks/without-torch.txt $(UPGRADE)
lock: $(DEV_STAMP)
	$(COMPILE) --output-file locks/run.txt pyproject.toml locks/torch.in --extra postgres
	$(COMPILE) --output-file locks/dev.txt pyproject.toml locks/torch.in --extra dev --constraints locks/run.txt
	echo uv | $(COMPILE) --output-file locks/uv.txt -
	$(BIN)/python locks/environment.py --tested

# What docs/reference.md says is what the commands say of themselves.
reference: $(DEV_STAMP)
	$(BIN)/python -c "from querytruth.cli import app, command_line; print(command_line.describe_commands(app.app), end='')" > docs/reference.md

clean:
	rm -rf $(VENV) $(NEWEST) .peers demo
