# Two commands: `make demo` sets up and runs the main job, `make test` sets up and passes the tests.
PYTHON ?= $(shell command -v python3.11 || command -v python3)
VENV := .venv
BIN := $(VENV)/bin
# what to install beside the program: `make test EXTRAS=dev,docs,encoders,gpu,hf,index,ray,track,trace` tests everything;
# tests of what is not installed are skipped, and said to be
EXTRAS ?= dev
# processes that divide the test files among them, at most 8; each computes on one thread, because
# the threads of several would wait for each other
JOBS ?= $(shell getconf _NPROCESSORS_ONLN)
READY := $(VENV)/.ready-$(EXTRAS)

.PHONY: demo test lint docs gallery notebooks benchmark lab-results embedding-benchmark paper-arithmetic auto-weight-results class-means-results peers-benchmark peers-results study-results replication-benchmark clean

demo: $(READY)
	$(BIN)/marc demo

test: $(READY) lint
	OMP_NUM_THREADS=1 $(BIN)/pytest -q -rs -n $(JOBS) --maxprocesses 8 --dist loadfile

lint: $(READY)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# the site, docs/_build/html/index.html; a dead link, picture or anchor is an error; needs EXTRAS=dev,docs
docs: $(READY)
	$(BIN)/sphinx-build -W --keep-going -q -c docs -d docs/_build/doctrees . docs/_build/html

# the live pages of the site, some minutes; `make gallery docs EXTRAS=dev,docs` puts them into it
gallery: $(READY)
	$(BIN)/python docs/gallery.py

# what the notebooks print, stored in them
notebooks: $(READY)
	$(BIN)/python docs/notebooks/execute.py

benchmark: $(READY)
	$(BIN)/python -m benchmarks.ratios

# DEVICE: cpu or cuda; needs EXTRAS=dev,encoders
DEVICE ?= cpu
embedding-benchmark: $(READY)
	$(BIN)/python -m benchmarks.embedding --device $(DEVICE)

lab-results: $(READY)
	$(BIN)/python -m benchmarks.lab.results > docs/results/lab.md.new
	mv docs/results/lab.md.new docs/results/lab.md

peers-benchmark: $(READY)
	$(BIN)/python -m benchmarks.peers.speed

# about forty minutes; needs EXTRAS=dev,encoders; PACKS as above, those with views
peers-results: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.peers.results $(PACKS) > docs/results/peers.md.new
	mv docs/results/peers.md.new docs/results/peers.md

study-results: $(READY)
	$(BIN)/marc study --lab -o studies/lab
	$(BIN)/python -m marc_paper.results studies/lab > docs/results/study.md.new
	mv docs/results/study.md.new docs/results/study.md

# needs EXTRAS=dev,encoders
replication-benchmark: $(READY)
	$(BIN)/python -m marc_paper.replication --device $(DEVICE)

paper-arithmetic: $(READY)
	$(BIN)/python -m marc_paper.arithmetic.document > docs/results/paper-arithmetic.md.new
	mv docs/results/paper-arithmetic.md.new docs/results/paper-arithmetic.md

# PACKS: feature packs of photographs, if there are any
auto-weight-results: $(READY)
	$(BIN)/python -m benchmarks.auto_weight.results $(PACKS) > docs/results/auto-weight.md.new
	mv docs/results/auto-weight.md.new docs/results/auto-weight.md

# two processes: each computes on one thread
class-means-results: $(READY)
	OMP_NUM_THREADS=1 $(BIN)/python -m benchmarks.class_means.results $(PACKS) > docs/results/class-means.md.new
	mv docs/results/class-means.md.new docs/results/class-means.md

$(READY): pyproject.toml constraints-cpu.txt
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints-cpu.txt -e '.[$(EXTRAS)]'
	touch $@

clean:
	rm -rf $(VENV) docs/_build docs/_gallery demo runs stores studies sweeps
