# `make demo` and `make test` are the two to know. Each target works on a clean clone; what is installed once is not
# installed again until a pyproject.toml or constraints.txt changes.

SHELL := /bin/bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
# What can be installed side by side is; what is run stays one after the other (see test).
ifeq ($(MAKELEVEL),0)
MAKEFLAGS += --jobs=2
endif
.PHONY: help install demo test lint unit learning docs space-table bench clean

# The first of these that runs and is new enough; the pinned versions are tested with 3.11.
PYTHON ?= $(firstword $(foreach python,python3.11 python3.12 python3.13 python3,$(shell \
  $(python) -c 'import sys; sys.exit(sys.version_info < (3, 11))' >/dev/null 2>&1 && echo $(python))))

VENV := .venv
BIN := $(VENV)/bin
BENCH := .venv-bench
TORCH := torch==2.13.0
BUILD := hatchling editables
TOOLS := mkdocs-material mypy pytest-timeout pytest-xdist ruff types-PyYAML

KERNEL := pyproject.toml constraints.txt
DEMO_PLUGINS := plugins/rlcore-gym plugins/rlcore-torch plugins/rlcore-sync
BENCH_PLUGINS := $(DEMO_PLUGINS) plugins/rlcore-replay plugins/rlcore-tf
# rlcore-gym first: pip takes it, with its extras, for another package than the one that those after it require.
PLUGINS := $(patsubst %/pyproject.toml,%,plugins/rlcore-gym/pyproject.toml \
  $(sort $(filter-out plugins/rlcore-gym/%,$(wildcard plugins/*/pyproject.toml))))

# pip compiles every module on one core, which takes longer than all else; `compile` uses all cores, and the demo has
# what it imports compiled on first use.
unexport PYTHONDONTWRITEBYTECODE
pip = $(1)/bin/python -m pip install -qq --disable-pip-version-check --no-compile --progress-bar off \
  --constraint constraints.txt
# Some packages hold templates and tests that do not compile: no failure of ours.
compile = $(1)/bin/python -m compileall -qq -j 0 $(1)/lib rlcore plugins || true
editable = --no-build-isolation $(addprefix --editable=,$(1))
GYM := '[atari,classic-control,mujoco]'
MULTIAGENT := '[openspiel,pettingzoo]'
EXPORT := '[runtime]'
OFFLINE := '[minari]'
ALL := '.[plot,tensorboard,testing,video]' $(patsubst %/rlcore-multiagent,%/rlcore-multiagent$(MULTIAGENT),\
  $(patsubst %/rlcore-export,%/rlcore-export$(EXPORT),$(patsubst %/rlcore-offline,%/rlcore-offline$(OFFLINE),\
  $(patsubst %/rlcore-gym,%/rlcore-gym$(GYM),$(PLUGINS)))))

help:
	@echo 'make demo      trains PPO on CartPole to a learnt policy and draws its curve'
	@echo 'make test      all that CI runs: lint, types, tests, packaging, documentation'
	@echo 'make install   .venv with the kernel, all plugins and the tools'
	@echo 'make lint      ruff and mypy'
	@echo 'make learning  the long tests: training to learnt policies, compiling'
	@echo 'make docs      the documentation, into site/'
	@echo 'make space-table  runs every algorithm in every space and writes docs/space-table.md, in some minutes'
	@echo 'make bench     ours beside Stable-Baselines3 and a plain torch loop, torch beside TensorFlow, in .venv-bench'
	@echo 'make clean     removes the environments and everything built'

# -- environments

$(VENV)/.made $(BENCH)/.made:
	@test -n '$(PYTHON)' || { echo 'no Python 3.11 or newer found; name one with PYTHON=' >&2; exit 1; }
	@echo 'creating $(@D) with $(PYTHON)'
	@$(PYTHON) -m venv $(@D)
	@touch $@

# torch goes first: asked for by a range it may come as a build of several gigabytes. Without its requirements, which
# come later, it shares no file with what is installed beside it.
$(VENV)/.torch $(BENCH)/.torch: %/.torch: %/.made constraints.txt
	@echo 'installing torch into $(@D)'
	@$(call pip,$(@D)) --no-deps $(TORCH)
	@touch $@

$(VENV)/.kernel $(BENCH)/.kernel: %/.kernel: %/.made $(KERNEL)
	@echo 'installing rlcore into $(@D)'
	@$(call pip,$(@D)) --no-warn-conflicts $(BUILD)
	@$(call pip,$(@D)) --no-warn-conflicts $(call editable,'.[plot]')
	@touch $@

$(VENV)/.demo: $(VENV)/.torch $(VENV)/.kernel $(addsuffix /pyproject.toml,$(DEMO_PLUGINS))
	@echo 'installing rlcore-gym, rlcore-torch and rlcore-sync into $(VENV)'
	@$(call pip,$(VENV)) $(TORCH) $(call editable,$(DEMO_PLUGINS))
	@touch $@

$(VENV)/.all: $(VENV)/.torch $(VENV)/.kernel $(addsuffix /pyproject.toml,$(PLUGINS))
	@echo 'installing every plugin and the tools into $(VENV)'
	@$(call pip,$(VENV)) $(TORCH) $(TOOLS) $(call editable,$(ALL))
	@$(call compile,$(VENV))
	@touch $@ $(VENV)/.demo

$(BENCH)/.all: $(BENCH)/.torch $(BENCH)/.kernel benchmarks/requirements.txt $(addsuffix /pyproject.toml,$(BENCH_PLUGINS))
	@echo 'installing what rlcore is compared with into $(BENCH)'
	@$(call pip,$(BENCH)) $(TORCH) --requirement benchmarks/requirements.txt $(call editable,$(BENCH_PLUGINS))
	@$(call compile,$(BENCH))
	@touch $@

install: $(VENV)/.all

# -- what is run

# Whatever environment there is will do for the demo; the smaller one where there is none.
demo: RUN := runs/demo-$(shell date +%Y%m%d-%H%M%S)
demo: $(if $(wildcard $(VENV)/.all),$(VENV)/.all,$(VENV)/.demo)
	@$(BIN)/rlcore train ppo --env CartPole-v1 --seed 1 --stop episode_return_mean=475 --stop env_steps=200000 --out $(RUN)
	@picture=$$($(BIN)/rlcore plot $(RUN)); echo 'run folder:     $(RUN)'; echo "learning curve: $$picture"

test: $(VENV)/.all
	@$(MAKE) --no-print-directory lint
	@$(MAKE) --no-print-directory unit
	@$(MAKE) --no-print-directory docs

lint: $(VENV)/.all
	$(BIN)/ruff check .
	$(BIN)/mypy

unit: export OMP_NUM_THREADS = 1
unit: $(VENV)/.all
	$(BIN)/python -m pytest -n 2 --dist loadgroup

learning: export OMP_NUM_THREADS = 1
learning: $(VENV)/.all
	$(BIN)/python -m pytest -m "learning or slow" -n 2

docs: export NO_MKDOCS_2_WARNING = 1
docs: $(VENV)/.all
	$(BIN)/mkdocs build --strict --quiet

space-table: export OMP_NUM_THREADS = 1
space-table: export PYTHONPATH = tests
space-table: $(VENV)/.all
	$(BIN)/python -m support.space_table docs/space-table.md

bench: export OMP_NUM_THREADS = 1
bench: $(BENCH)/.all
	$(BENCH)/bin/python benchmarks/run.py

clean:
	rm -rf $(VENV) $(BENCH) site build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis
