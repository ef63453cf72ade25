# SPDX-License-Identifier: Apache-2.0
# make demo, make test, make bench: each sets up .venv, builds and runs; fast the second time.
SHELL := /bin/bash
.SHELLFLAGS := -o pipefail -c
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
# Objects found by ccache from any clone.
export CCACHE_BASEDIR := $(CURDIR)
export CCACHE_NOHASHDIR := 1
# Our programs, not those of a venv that happens to be active.
export PATH := $(CURDIR)/$(BIN):$(PATH)
export HF_HUB_OFFLINE := 1
# One line per package, without pip's chatter.
PIP := $(BIN)/python -m pip install --disable-pip-version-check --progress-bar off
BRIEF := 2>&1 | sed -u -E '/^ |^Looking in|is ignored: it is neither|already satisfied|^Processing/d'
WORKERS ?= 2
PYTEST_ARGS ?=

.DELETE_ON_ERROR:
.PHONY: help build test test-cc test-sanitize test-py demo bench format lint docs clean

help:
	@echo "make demo    fine-tune a small Llama 3 with LoRA on the tpu device (about 3 minutes)"
	@echo "make test    all tests           make bench   benchmarks against torch CPU and JAX"
	@echo "make build   only build          make docs    regenerate docs/environment.md, docs/ops.md"
	@echo "make format  format all files    make lint    format, lint, include and size checks"

# ---- environment: one stamp per set of packages ------------------------------------------------------
$(VENV)/.created:
	@tools/preflight.sh $(PYTHON)
	@echo "set-up: creating $(VENV)"
	@$(PYTHON) -m venv $(VENV)
	@touch $@

# torch by its exact version first: a range would take a CUDA build of several GB.
$(VENV)/.deps: pyproject.toml $(VENV)/.created
	@tools/preflight.sh $(PYTHON)
	@echo "set-up: installing torch 2.13.0, the CPU PJRT plugin and the build tools"
	@$(PIP) torch==2.13.0 $(BRIEF)
	@$(PIP) torch==2.13.0 "scikit-build-core>=0.10" ninja "cmake>=3.24" xla-cpu-pjrt numpy $(BRIEF)
	@touch $@

$(VENV)/.demo: $(VENV)/.deps tools/requirements.py
	@echo "set-up: installing transformers, peft and the demo's other packages"
	@$(PIP) torch==2.13.0 $$($(BIN)/python tools/requirements.py demo) $(BRIEF)
	@touch $@

# lammps-jax-pjrt-cpu: a newer PJRT plugin; without its dependencies, which would bring in JAX.
$(VENV)/.test: $(VENV)/.demo
	@tools/preflight.sh $(PYTHON) tests
	@echo "set-up: installing the test packages, libtpu and a second CPU plugin"
	@$(PIP) torch==2.13.0 $$($(BIN)/python tools/requirements.py test tpu) $(BRIEF)
	@$(PIP) --no-deps lammps-jax-pjrt-cpu==0.11.2 $(BRIEF)
	@touch $@

$(VENV)/.lint: $(VENV)/.deps tools/requirements.py
	@echo "set-up: installing the formatters and linters"
	@$(PIP) torch==2.13.0 $$($(BIN)/python tools/requirements.py lint) $(BRIEF)
	@touch $@

# ---- build ---------------------------------------------------------------------------------------------
# Compiles with progress first; the editable install then finds the objects ready.
$(VENV)/.installed: CMakeLists.txt pyproject.toml $(VENV)/.deps
	@echo "set-up: building torch_tpu"
	@cmake -G Ninja -B build -DCMAKE_BUILD_TYPE=Release -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python \
	  > build.log 2>&1 || { cat build.log; rm build.log; exit 1; }
	@rm build.log
	@ninja -C build
	@$(PIP) --no-build-isolation --no-deps -e . $(BRIEF)
	@touch $@

build: $(VENV)/.installed
	@ninja -C build --quiet
	@$(BIN)/python tools/check_size.py --library

# ---- tests ---------------------------------------------------------------------------------------------
test: test-cc test-py

test-cc: $(VENV)/.test build
	@cmake -B build -DTORCH_TPU_BUILD_TESTS=ON > /dev/null
	@ninja -C build
	@ctest --test-dir build --output-on-failure -j$(WORKERS) --timeout 300

# The torch-free tests under ASan and UBSan; no optimization: it compiles in a quarter of the time.
test-sanitize: $(VENV)/.test
	@cmake -G Ninja -B build-sanitize -DCMAKE_BUILD_TYPE=Sanitize -DTORCH_TPU_BUILD_MODULE=OFF \
	  -DTORCH_TPU_BUILD_TESTS=ON -DTORCH_TPU_SANITIZE=address,undefined \
	  -DPython_EXECUTABLE=$(CURDIR)/$(BIN)/python > /dev/null
	@ninja -C build-sanitize
	@ctest --test-dir build-sanitize --output-on-failure -j$(WORKERS) --timeout 300

test-py: $(VENV)/.test build
	@$(BIN)/python -m pytest $(or $(PYTEST_ARGS),tests) -n $(WORKERS) --dist worksteal

# ---- demo, benchmarks ------------------------------------------------------------------------------------
demo: $(VENV)/.demo build
	@$(BIN)/python examples/lora_llama3/train.py --config tiny --device tpu --out out/lora_llama3

bench: $(VENV)/.demo build out/jax-venv/.created
	@cmake -B build -DTORCH_TPU_BUILD_BENCH=ON > /dev/null
	@ninja -C build pjrt_execute
	@$(BIN)/python bench/run.py --jax-python out/jax-venv/bin/python --out out/bench.md

# JAX in a venv of its own: it must not decide our packages' versions.
out/jax-venv/.created:
	@echo "set-up: installing JAX into out/jax-venv, to compare with"
	@mkdir -p out && $(PYTHON) -m venv out/jax-venv
	@out/jax-venv/bin/python -m pip install --quiet --disable-pip-version-check jax==0.10.2 jaxlib==0.10.2
	@touch $@

# ---- tidiness --------------------------------------------------------------------------------------------
SOURCES = $(shell git ls-files '*.cc' '*.h')

format: $(VENV)/.lint
	@$(BIN)/clang-format -i $(SOURCES)
	@$(BIN)/ruff format --quiet .
	@$(BIN)/ruff check --quiet --fix .

lint: $(VENV)/.lint
	@$(BIN)/python tools/check_includes.py
	@$(BIN)/python tools/check_size.py
	@$(BIN)/clang-format --dry-run -Werror $(SOURCES)
	@$(BIN)/ruff format --check --quiet .
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy
	@echo "lint: all clean"

docs: build
	@$(BIN)/python tools/gen_docs.py

clean:
	rm -rf build build-sanitize out torch_tpu/*.so $(VENV)/.installed
