# make install  what the commands and the tests need, into .venv; torch for the CPU first
# make run      everything from nothing to an evaluated, re-ranked run on the bundled sample
# make serve    the live service over the bundled sample, at http://localhost:8080
# make test-fast  the tests that need neither Java, a browser nor clients: three minutes, and an installation of one
# make check    style, types and layers: ruff, mypy, import-linter
# make test     the tests, as many at once as WORKERS says
# make test-all-pythons   the tests with every Python of PYTHONS, each in an environment of its own
# make campaign  kills, limits, damages and attacks for MINUTES, going on where the last one stopped; its report is experiments/results/campaign.md
# make mutants  plants the faults of tests/mutants.txt, and reports those that no test sees: an hour
# make gpu      tests and times of a GPU, written as experiments/results/gpu.md; PYTHON is one with torch for it
# make docs     the pages as a site, in build/site; python -m http.server --directory build/site shows it
# make wheel    the source distribution and the wheel, in dist/
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt
# PyTorch's own builds for the CPU; pip's default build, which brings CUDA's libraries, where they cannot be reached. For a
# GPU: make install TORCH_INDEX=
TORCH_INDEX ?= https://download.pytorch.org/whl/cpu
PYTHONS ?= 3.10 3.11 3.12 3.13
WORKERS ?= 2
MINUTES ?= 180
SEED ?= 1

.PHONY: install run serve check format test test-fast test-all-pythons campaign mutants gpu docs wheel clean

install: $(VENV)/.installed

# The editable install follows the sources; it is repeated only when the packaging changes.
$(VENV)/.installed: setup.cfg pyproject.toml constraints.txt
	@echo "Installing what the commands and the tests need into $(VENV): 3.5 GB, some 5 minutes, torch without CUDA first"
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --retries 1 $(if $(TORCH_INDEX),--index-url $(TORCH_INDEX)) torch || \
		{ echo "$(TORCH_INDEX) gave no torch (above): taking pip's own"; $(PIP) torch; }
	$(PIP) --editable '.[test]'
	touch $@

SAMPLE := indexes/sample
CHECKPOINT := checkpoints/sample-delta32lex3

run: install
	test -d $(SAMPLE) || $(BIN)/python -m rerank_plugin.index --corpus sample --index $(SAMPLE)
	$(BIN)/python -m rerank_plugin.embed words --corpus sample --min-count 3 --dimension 100 --epochs 20 \
		--output embeddings/sample --overwrite
	$(BIN)/python -m rerank_plugin.train --model delta --lexical-features lex3 --index $(SAMPLE) \
		--words embeddings/sample --train sample:train --validation sample:dev --epochs 8 \
		--output $(CHECKPOINT) --overwrite
	$(BIN)/python -m rerank_plugin.search --index $(SAMPLE) --queries sample:test --output runs/sample-bm25.run --overwrite
	$(BIN)/python -m rerank_plugin.search --index $(SAMPLE) --queries sample:test \
		--reranker delta:$(CHECKPOINT) --output runs/sample-bm25-delta.run --overwrite
	$(BIN)/python -m rerank_plugin.search --index $(SAMPLE) --query "heart attack aspirin" --reranker delta
	$(BIN)/python -m rerank_plugin.evaluate --qrels sample:test runs/sample-bm25.run runs/sample-bm25-delta.run \
		--baseline runs/sample-bm25.run

serve: install
	$(BIN)/python -m rerank_plugin.serve

check: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/python -m mypy
	$(BIN)/lint-imports

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# A file stays on one worker, which starts Java and makes the shared index once. tests/conftest.py orders the files.
test: install
	$(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

# Of a library that is not installed, such as torch, the tests are skipped.
test-fast: $(VENV)/.dev
	$(BIN)/python -m pytest --fast -r fE --numprocesses $(WORKERS) --dist loadfile --no-loadscope-reorder

$(VENV)/.dev: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[dev]'
	touch $@

# All are tried, whatever fails. PYENV_VERSION is for pyenv, whose python3.10 otherwise is the default Python or none.
test-all-pythons:
	failed=; for version in $(PYTHONS); do \
		PYENV_VERSION=$$version $(MAKE) test PYTHON=python$$version VENV=.venv-$$version || failed="$$failed $$version"; \
	done; test -z "$$failed" || { echo "failed with Python$$failed" >&2; exit 1; }

campaign: install
	nice $(BIN)/python -m tests.campaign --minutes $(MINUTES) --seed $(SEED)

mutants: install
	nice $(BIN)/python -m tests.mutants

# Without an environment of its own: torch for the GPU takes gigabytes, and is there. GPU_OPTIONS are those of the command.
gpu:
	PYTHONPATH=. $(PYTHON) -m experiments.gpu --output experiments/results/gpu.md --overwrite $(GPU_OPTIONS)

# Nothing of the package runs for it: the reference is read from the sources.
docs: $(VENV)/.docs
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build

$(VENV)/.docs: setup.cfg constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) --editable '.[docs]'
	touch $@

wheel: install
	$(BIN)/python -m build --no-isolation

clean:
	rm -rf .venv .venv-* build dist *.egg-info
