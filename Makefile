# Everything that these targets need, they install themselves, into .venv.
PYTHON ?= python3
BIN := .venv/bin
export HF_HUB_OFFLINE := 1
export TOKENIZERS_PARALLELISM := false
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.PHONY: demo test soak check bench docs browser postgresql clean

demo: .venv/demo  ## the whole job on the embedded model and data, a few minutes on two cores
	$(BIN)/plankwise demo

test: check browser postgresql .venv/plugin  ## what CI runs
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "signals and not soak"
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m "not signals and not soak" --numprocesses auto --dist loadscope

soak: .venv/ready  ## faults and bad input by the thousand, under half an hour on two cores; prints how many
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -m soak --numprocesses 2 --dist load -rA tests/faults tests/sweep

check: .venv/ready  ## format, lint, types
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy

# The tests open the report's page in Debian's Chromium; where it is missing and cannot be installed, they fail.
browser:
	@command -v chromium >/dev/null || { \
		as_root=; test "$$(id -u)" = 0 || as_root=sudo; \
		$$as_root apt-get update -qq && \
		$$as_root env DEBIAN_FRONTEND=noninteractive \
			apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core; \
	} || echo "chromium could not be installed; the tests that open the report's page will fail" >&2

# The tests start servers of their own, with Debian's programs, in temporary folders: no other is made when these are installed.
# Where the programs are missing and cannot be installed, these tests fail.
NO_CLUSTER := /etc/postgresql-common/createcluster.conf
postgresql:
	@command -v initdb >/dev/null || ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || { \
		as_root=; test "$$(id -u)" = 0 || as_root=sudo; \
		$$as_root apt-get update -qq && \
		$$as_root sh -c 'test -e $(NO_CLUSTER) || { mkdir -p $(dir $(NO_CLUSTER)) && \
			echo "create_main_cluster = false" >$(NO_CLUSTER); }' && \
		$$as_root env DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends \
			-o Dpkg::Options::=--force-confold postgresql; \
	} || echo "postgresql could not be installed; the tests of workers that share a server will fail" >&2

# GLUE=folder (with CoLA, SST-2, RTE) adds these tasks; ENCODER=folder of a 12-layer BERT runs them on real weights.
GLUE ?= $(wildcard ../shared/data/glue)
bench: .venv/ready  ## every benchmark, under 15 minutes on two free cores; writes benchmarks/results.md
	$(BIN)/python benchmarks/all.py $(if $(GLUE),--glue "$(GLUE)") $(if $(ENCODER),--encoder "$(ENCODER)")

docs: .venv/ready  ## the site of docs/, strict: a warning or a broken link is an error; writes build/site
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet
	@echo "build/site/index.html; with search: $(BIN)/python -m http.server --directory build/site"

# torch by itself first, by the exact version in constraints.txt.
.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet "$$(grep '^torch==' constraints.txt)"
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[demo,onnx]"
	touch $@

.venv/ready: .venv/demo
	$(BIN)/pip install --quiet --constraint constraints.txt --editable ".[dev]"
	touch $@

# The tests' own plug-in; editable, so that only another list of entry points asks for another install.
.venv/plugin: tests/plugin/pyproject.toml .venv/ready
	$(BIN)/pip install --quiet --no-deps --no-build-isolation --editable tests/plugin
	touch $@

clean:
	rm -rf .venv build runs .pytest_cache .mypy_cache .ruff_cache .hypothesis
