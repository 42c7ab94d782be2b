# Everything that these targets need, they install themselves, into .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test check bench clean

demo: .venv/ready  ## the whole job on the embedded model and data, a few minutes on two cores
	$(BIN)/plankwise demo

test: check  ## what CI runs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest

check: .venv/ready  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

bench: .venv/ready  ## ratios, measured interleaved
	$(BIN)/python benchmarks/training_step.py

# torch by itself first, by the exact version in constraints.txt.
.venv/ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

clean:
	rm -rf .venv build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
