# accelbench: `make bench` measures this machine, `make test` proves the suite. `make help` lists every target.

PYTHON ?= python3
VENV ?= .venv
DEVICE ?= auto
MINUTES ?= 10
CUDA ?= 13
JOBS =

.DEFAULT_GOAL := help
.PHONY: device-there gpu-tests
.PHONY: help bench list resume report reproduce tensorboard doctor schema install test test-all test-slow test-alone fuzz test-gpu sanitize gpu-day kernels-report lint format bench-self records-page pins clean image sif sbom container-bench container-test

help:  ## list every target
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  DEVICE=auto|cpu|gpu|tpu  SUITE=quick|kernels|full|FILE.toml  BENCH="matmul nqueens"'
	@echo '  ARGS="--rounds 5 --param n=1024,2048" (further options of the command, split at spaces: accelbench run --help)'
	@echo '  ENGINE=docker|podman|apptainer  BASE=IMAGE  SIF=FILE  FLAGS="--cpus 2 --memory 8g" (containers)'
	@echo '  SET=cpu|gpu|gpu13|tpu (dependencies; default: those of DEVICE)'
	@echo '  PYTHON=python3 VENV= uses an interpreter that already has what is needed, and installs nothing'

# A misspelt variable on the command line is an error: otherwise something else would be measured than was requested.
# An image has its own Python and packages.
KNOWN = $(INSTALLATION) DEVICE SUITE BENCH ARGS ENGINE BASE SIF FLAGS PYTEST JOBS MINUTES CUDA PART
INSTALLATION = PYTHON VENV SET
TAKEN = $(if $(filter container-bench,$(MAKECMDGOALS)),$(filter-out $(INSTALLATION),$(KNOWN)),$(KNOWN))
UNKNOWN := $(foreach name,$(filter-out $(TAKEN) SHELL MAKE%,$(.VARIABLES)),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(if $(strip $(UNKNOWN)),$(error make $(MAKECMDGOALS) has no variable $(strip $(UNKNOWN)): it has $(sort $(TAKEN)); options of accelbench go into ARGS="…"))

# A user's value is one line of text: make does not expand it (`override`), and the shell gets it in quotes.
define NEWLINE


endef
$(foreach name,$(KNOWN),$(if $(findstring $(NEWLINE),$(value $(name))),$(error $(name)= has more than one line))$(eval override $(name) := $$(value $(name))))
quoted = '$(subst ','\'',$(1))'
each_quoted = $(foreach word,$(1),$(call quoted,$(word)))
# These become parts of programs' and targets' names, which make cannot quote; PYTHON may have options.
ODD := $(shell printf %s $(call quoted,$(DEVICE)$(subst $() $(),,$(PYTHON))$(VENV)$(SET)) | tr -cd ' \t;:&|<>()[]{}$$`"'\''*?!\#%\\')
$(if $(ODD),$(error DEVICE, PYTHON, VENV and SET must not contain these characters: $(ODD)))

# The dependency set is the device's; `auto` takes the GPU's where a driver answers.
CHOSEN = $(if $(filter auto,$(DEVICE)),$(if $(shell command -v nvidia-smi 2>/dev/null),gpu,cpu),$(DEVICE))
# With VENV empty the given PYTHON is used as it is, and nothing is created or installed.
PY = $(if $(VENV),$(VENV)/bin/python,$(PYTHON))
INSTALLED = $(if $(VENV),$(VENV)/.installed-$(or $(SET),$(CHOSEN)))
DEVELOPMENT = $(if $(VENV),$(VENV)/.installed-dev)
# The compilers of CUDA 12 have an environment of their own: both CUDAs' packages hold files of the same names.
CUDA12 = $(if $(VENV),$(VENV)/cuda12/.installed)

bench: device-there $(INSTALLED)  ## measure this machine: a table, runs/<run-id>/ and its report.html
	@$(PY) -m accelbench run --device $(call quoted,$(DEVICE)) $(if $(SUITE),--suite $(call quoted,$(SUITE))) $(call each_quoted,$(BENCH) $(ARGS))

# A missing device is reported before gigabytes are installed for it.
device-there: $(if $(VENV),$(VENV)/bin/python)
	@$(PY) -m accelbench.profiling.devices $(call quoted,$(DEVICE))
ifeq ($(VENV),)
	@$(PY) -m accelbench --version >/dev/null || \
	  { echo 'this Python lacks packages of accelbench: leave out VENV=, or install them by pip' >&2; exit 2; }
endif

list resume report reproduce tensorboard doctor schema: $(INSTALLED)  ## accelbench's command of that name: make report ARGS=latest
	@$(PY) -m accelbench $@ $(call each_quoted,$(ARGS))

install: $(INSTALLED)  ## only create the environment (VENV=.venv)

# pytest splits its options itself, with quotes: PYTEST="-k 'matmul or stream'".
WITH_OPTIONS = $(if $(PYTEST),PYTEST_ADDOPTS=$(call quoted,$(PYTEST)) )
RUN_PYTEST = $(WITH_OPTIONS)$(PY) -m pytest

# Most tests wait much, so that two at a time take half as long; those that measure have the machine for themselves.
NONE_CHOSEN = [ $$? = 5 ]
# Continuous integration leaves out further variants, and the compilers of CUDA 12, which take minutes to install and use.
KEPT = $(if $(CI), and not exhaustive)
# It runs the fast tests before it installs what some of them need: these run again with the slow ones.
AGAIN = $(if $(CI), or needs)
SHARED = --numprocesses $(call quoted,$(or $(JOBS),2)) --dist loadfile
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
	$(RUN_PYTEST) tests/gpu -m "gpu and not alone" --ignore $(SANITIZER) --numprocesses $(call quoted,$(or $(JOBS),auto)) --dist worksteal || $(NONE_CHOSEN)
	$(RUN_PYTEST) tests/gpu -m "gpu and alone" || $(NONE_CHOSEN)

sanitize:  ## run every GPU kernel under compute-sanitizer, small; takes minutes
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	$(RUN_PYTEST) -m gpu $(SANITIZER) --numprocesses $(call quoted,$(or $(JOBS),2))

gpu-day:  ## all figures of this GPU in half an hour: probe, tests, kernels, trainings (ARGS="--budget 540")
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	@$(PY) -m accelbench gpu-day $(call each_quoted,$(ARGS))

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
	@$(IN_CONTAINER) bench $(foreach name,SUITE BENCH ARGS,$(if $($(name)),$(call quoted,$(name)=$($(name)))))

container-test: $(DEVELOPMENT)  ## build and run images with every engine that is there (containers/ci/engines.sh installs them)
	$(RUN_PYTEST) -m "container$(KEPT)" tests/containers

kernels-report: $(DEVELOPMENT) $(if $(filter 12,$(CUDA)),$(CUDA12))  ## compile every GPU kernel: registers, shared memory, spills (ARGS="nqueens tuned" CUDA=13|12)
	@$(if $(filter 12,$(CUDA)),$(VENV)/cuda12/bin/python,$(PY)) -m accelbench.kernels.report $(call each_quoted,$(ARGS))

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
