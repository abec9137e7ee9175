# accelbench: `make bench` measures this machine, `make test` proves the suite. `make help` lists every target.

PYTHON ?= python3
VENV ?= .venv
DEVICE ?= auto
SUITE ?=
BENCH ?=
PARAMS ?=
ROUNDS ?=
BACKEND ?=
PROCS ?=
STRATEGY ?=
OUT ?=
RUN ?= latest
STAGES ?=
BUDGET ?=
PART ?=
PAPER ?=
SMALL ?=
TRACE ?=
HOST_PROFILE ?=
KERNELS ?=
MINUTES ?= 10
CUDA ?= 13
PYTEST ?=
ENGINE ?=
BASE ?=
SIF ?=
FLAGS ?=
JOBS =

# The dependency set: that of the device asked for; `auto` takes the GPU's where a driver answers.
CHOSEN = $(if $(filter auto,$(DEVICE)),$(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu),$(DEVICE))
SET ?= $(CHOSEN)

# What a user gave, as one word of a command line, whatever is in it.
quoted = '$(subst ','\'',$(1))'
each_quoted = $(foreach word,$(1),$(call quoted,$(word)))

# With VENV empty the given PYTHON is used as it is, and nothing is created or installed.
PY = $(if $(VENV),$(VENV)/bin/python,$(PYTHON))
INSTALLED = $(if $(VENV),$(VENV)/.installed-$(SET))
DEVELOPMENT = $(if $(VENV),$(VENV)/.installed-dev)
# The compilers of CUDA 12 have an environment of their own: both CUDAs' packages hold files of the same names.
CUDA12 = $(if $(VENV),$(VENV)/cuda12/.installed)

.DEFAULT_GOAL := help
.PHONY: device-there gpu-tests
.PHONY: help bench list resume report reproduce tensorboard doctor install test test-all test-slow test-alone fuzz test-gpu sanitize gpu-day kernels-report lint format bench-self schema records-page pins clean image sif sbom container-bench container-test

help:  ## list every target
	@awk -F ':.*## ' '/^[a-z-]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  DEVICE=auto|cpu|gpu|tpu  SUITE=quick|kernels|full|FILE.toml  BENCH="matmul nqueens"  PARAMS="dtype=float32 n=1024,2048"'
	@echo '  PROCS=2 (ranks on this host that measure together)  ROUNDS=5 (fresh processes that measure each point)  STRATEGY=mirrored|multiworker|data-parallel|ddp|…'
	@echo '  BACKEND=tensorflow|jax|torch  TRACE=1  HOST_PROFILE=1  OUT=DIR  RUN=latest|ID|DIR  SET=cpu|gpu|gpu13|tpu (dependencies)'
	@echo '  ENGINE=docker|podman|apptainer  BASE=IMAGE  SIF=FILE  FLAGS="--cpus 2 --memory 8g" (containers)'
	@echo '  PYTHON=python3 VENV= uses an interpreter that already has what is needed, and installs nothing'

# Each variable that `make bench` takes, and what it becomes on accelbench's command line, before `run` or after it.
# `make container-bench` hands on or refuses every variable of this list, so that one line adds a variable to both.
launch.PROCS = launch --procs $(call quoted,$(PROCS))
run.BENCH = $(call each_quoted,$(BENCH))
run.SUITE = --suite $(call quoted,$(SUITE))
run.PARAMS = $(foreach param,$(PARAMS),--param $(call quoted,$(param)))
run.ROUNDS = --rounds $(call quoted,$(ROUNDS))
run.BACKEND = --backend $(call quoted,$(BACKEND))
run.STRATEGY = --strategy $(call quoted,$(STRATEGY))
run.OUT = --out $(call quoted,$(OUT))
run.TRACE = --trace
run.HOST_PROFILE = --host-profile
BENCH_VARIABLES = $(sort $(patsubst launch.%,%,$(patsubst run.%,%,$(filter launch.% run.%,$(.VARIABLES)))))
GIVEN = $(foreach name,$(BENCH_VARIABLES),$(if $($(name)),$(name)))

# What a user gave is text: make computes nothing in it, such as $(shell …), and it is one line.
define NEWLINE


endef
ON_COMMAND_LINE := $(foreach name,PYTHON VENV SET,$(if $(findstring command,$(origin $(name))),$(name)))
NAMES = DEVICE PYTHON VENV SET CUDA JOBS
OTHERS = $(BENCH_VARIABLES) RUN STAGES BUDGET PART PAPER SMALL KERNELS MINUTES PYTEST ENGINE BASE SIF FLAGS
# A variable that is misspelt on the command line would be ignored, and something else be measured than was asked for.
MISTYPED := $(foreach name,$(filter-out $(NAMES) $(OTHERS) SHELL MAKE%,$(.VARIABLES)),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(if $(strip $(MISTYPED)),$(error no variable is called $(strip $(MISTYPED)): there is $(sort $(NAMES) $(OTHERS))))
literally = $(if $(findstring $(NEWLINE),$(value $(1))),$(error $(1)= has more than one line))$(eval override $(1) := $$(value $(1)))
$(foreach name,$(NAMES) $(OTHERS),$(if $(filter command environment,$(firstword $(origin $(name)))),$(call literally,$(name))))
# These become parts of programs' and targets' names, which make cannot quote; PYTHON may have options.
ODD := $(shell printf %s $(call quoted,$(DEVICE)$(subst $() $(),,$(PYTHON))$(VENV)$(SET)$(CUDA)$(JOBS)) | tr -cd ' \t;:&|<>()[]{}$$`"'\''*?!\#%\\')
$(if $(ODD),$(error $(NAMES): none may have any of these characters: $(ODD)))

bench: device-there $(INSTALLED)  ## measure this machine: a table, runs/<run-id>/ and its report.html
	@$(PY) -m accelbench $(foreach name,$(GIVEN),$(launch.$(name))) run --device $(call quoted,$(DEVICE)) \
	  $(foreach name,$(GIVEN),$(run.$(name)))

# A device that is not there is said before gigabytes are installed for it.
device-there: $(if $(VENV),$(VENV)/bin/python)
	@$(PY) -m profiling.machine.devices $(call quoted,$(DEVICE))
ifeq ($(VENV),)
	@$(PY) -m accelbench --version >/dev/null || \
	  { echo 'this Python lacks what accelbench needs: leave out VENV=, or pip install the packages' >&2; exit 2; }
endif

list: $(INSTALLED)  ## list the benchmarks and the suites
	@$(PY) -m accelbench list

resume: $(INSTALLED)  ## go on with an interrupted run (RUN=…)
	@$(PY) -m accelbench resume $(call quoted,$(RUN))

report: $(INSTALLED)  ## rebuild a run's table and report.html (RUN=…)
	@$(PY) -m accelbench report $(call quoted,$(RUN))

reproduce: device-there $(INSTALLED)  ## measure a paper on this machine and judge its claims (PAPER=kimm2021 SMALL=1); without PAPER list the papers
	@$(PY) -m accelbench reproduce $(if $(PAPER),$(call quoted,$(PAPER)) --device $(call quoted,$(DEVICE)) $(if $(SMALL),--small),--list)

tensorboard: $(INSTALLED)  ## open a run's traces in TensorBoard, on this machine only (RUN=…)
	@$(PY) -m accelbench tensorboard $(call quoted,$(RUN))

doctor: $(INSTALLED)  ## tell what this machine has and lacks
	@$(PY) -m accelbench doctor

install: $(INSTALLED)  ## only create the environment (VENV=.venv)

# pytest splits its own options, quotes and all: PYTEST="-k 'matmul or stream'".
WITH_OPTIONS = $(if $(PYTEST),PYTEST_ADDOPTS=$(call quoted,$(PYTEST)) )
RUN_PYTEST = $(WITH_OPTIONS)$(PY) -m pytest

# Most tests wait much, so that two at a time take half as long; those that measure have the machine for themselves.
NONE_CHOSEN = [ $$? = 5 ]
# Continuous integration leaves out further variants, and the compilers of CUDA 12, which take minutes to install and use.
KEPT = $(if $(CI), and not exhaustive)
# It runs the fast tests before it installs what some of them need: these run again with the slow ones.
AGAIN = $(if $(CI), or needs)
SHARED = --numprocesses $(or $(JOBS),2) --dist loadfile
test: $(DEVELOPMENT)  ## run the tests that are fast, in five minutes (PYTEST="-k matmul" for a part, JOBS=1 one after the other)
	$(RUN_PYTEST) -m "not slow and not alone and not gpu and not container" $(SHARED) || $(NONE_CHOSEN)

test-all: test  ## run these, and then all others that need neither a GPU nor container engines
	@$(MAKE) --no-print-directory test-slow
	@$(MAKE) --no-print-directory test-alone

test-slow: $(DEVELOPMENT) $(if $(CI),,$(CUDA12))  ## run the tests that take seconds or minutes, and measure nothing
	$(RUN_PYTEST) -m "(slow$(AGAIN)) and not alone and not gpu and not container$(KEPT)" $(SHARED) || $(NONE_CHOSEN)

test-alone: $(DEVELOPMENT)  ## run the tests that measure, one after the other
	$(RUN_PYTEST) -m "alone and not gpu and not container$(KEPT)" || $(NONE_CHOSEN)

fuzz: $(DEVELOPMENT)  ## repeat the property-based tests with new seeds (MINUTES=60, PYTEST="-k statistics" for a part)
	$(WITH_OPTIONS)$(PY) -m tests.fuzz $(call quoted,$(MINUTES)) $(SHARED)

# As many processes as the card's memory, the host's and its CPUs hold (JOBS=auto), several contexts on one card.
test-gpu:  ## verify every GPU kernel on the device, JOBS=n at a time; fails where there is none
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	$(ON_GPU) tests/gpu -m "gpu and not alone" --ignore $(SANITIZER) --numprocesses $(or $(JOBS),auto) --dist worksteal || $(NONE_CHOSEN)
	$(ON_GPU) tests/gpu -m "gpu and alone" || $(NONE_CHOSEN)

sanitize:  ## run every GPU kernel under compute-sanitizer, small; takes minutes
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	$(ON_GPU) -m gpu $(SANITIZER) --numprocesses $(or $(JOBS),2)

gpu-day:  ## all figures of this GPU in half an hour: probe, tests, kernels, trainings (STAGES=a,b BUDGET=540 OUT=DIR)
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	@$(PY) -m accelbench gpu-day $(if $(STAGES),--stages $(call quoted,$(STAGES))) $(if $(BUDGET),--budget $(call quoted,$(BUDGET))) $(if $(OUT),$(run.OUT))

ON_GPU = $(RUN_PYTEST)
SANITIZER = tests/gpu/test_sanitizer.py
gpu-tests: device-there $(INSTALLED)
	$(if $(VENV),@$(PY) -m pip install --quiet --constraint requirements/dev.txt hypothesis pytest pytest-timeout pytest-xdist)

IN_CONTAINER = DEVICE=$(call quoted,$(CHOSEN)) ENGINE=$(call quoted,$(ENGINE)) BASE=$(call quoted,$(BASE)) SIF=$(call quoted,$(SIF)) FLAGS=$(call quoted,$(FLAGS)) containers/engine.sh

image:  ## build the image accelbench:DEVICE with Docker or Podman
	@$(IN_CONTAINER) image

sif:  ## build containers/build/accelbench-DEVICE.sif for Apptainer
	@$(IN_CONTAINER) sif

sbom:  ## write containers/build/accelbench-DEVICE.cdx.json: what is in the image, as CycloneDX
	@$(IN_CONTAINER) sbom

container-bench:  ## run `make bench` in the image or the SIF; results are in runs/
	$(if $(OUT),$(error OUT= is not for container-bench: results are in runs/))
	$(foreach name,$(ON_COMMAND_LINE),$(error $(name)= is not for container-bench: the image has its own Python and packages))
	@$(IN_CONTAINER) bench $(foreach name,$(GIVEN),$(call quoted,$(name)=$($(name))))

container-test: $(DEVELOPMENT)  ## build and run images with every engine that is there (containers/ci/engines.sh installs them)
	$(RUN_PYTEST) -m "container$(KEPT)" tests/containers

kernels-report: $(DEVELOPMENT) $(if $(filter 12,$(CUDA)),$(CUDA12))  ## compile every GPU kernel: registers, shared memory, spills (KERNELS="nqueens tuned" CUDA=13|12)
	@$(if $(filter 12,$(CUDA)),$(VENV)/cuda12/bin/python,$(PY)) -m kernels.report $(call each_quoted,$(KERNELS))

lint: $(DEVELOPMENT)  ## ruff, mypy, and the imports: none goes upward or round in a circle
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(dir $(PY))lint-imports --no-logo --no-cache

format: $(DEVELOPMENT)  ## let ruff format the source
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench-self: $(DEVELOPMENT)  ## the suite's own figures: against likwid and C, start-up, harness share (PART=…)
	@$(PY) -m tests.bench_self $(call each_quoted,$(PART))

schema: $(INSTALLED)  ## print the JSON Schema of a record
	@$(PY) -m accelbench schema

records-page: $(DEVELOPMENT)  ## write docs/records.md, every field of a record, from the records' types
	@$(PY) docs/records.py >docs/.records.md.new && mv docs/.records.md.new docs/records.md

pins: $(DEVELOPMENT)  ## resolve the pinned dependency sets in requirements/ anew, and lock those of the images by hashes
	$(PY) requirements/resolve.py
	$(PY) requirements/lock.py

clean:  ## remove the environment and caches, never the runs
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) requirements/install.py $(VENV)

# The set `dev` has the CPU's packages, too: the tests run the CPU's kernels and compile the GPU's, whatever the device.
$(VENV)/.installed-%: pyproject.toml requirements/%.txt
	@$(PYTHON) requirements/install.py $(VENV) $*

$(VENV)/cuda12/.installed: requirements/gpu.txt requirements/dev.txt | $(VENV)/bin/python
	@echo 'installing the compilers of CUDA 12 into $(VENV)/cuda12 (once, a minute)'
	@$(VENV)/bin/python -m venv --without-pip --clear $(VENV)/cuda12
	@$(VENV)/bin/python -m pip --python $(VENV)/cuda12/bin/python install --quiet --disable-pip-version-check \
	  --constraint requirements/gpu.txt 'numba-cuda[cu12]' psutil pydantic rich scipy \
	  $$(grep '^nvidia-cuda-nvdisasm==' requirements/dev.txt)
	@touch $@
