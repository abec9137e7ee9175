# accelbench: `make bench` measures this machine, `make test` runs the fast tests, `make help` lists all targets.

PYTHON ?= python3
VENV ?= .venv
DEVICE ?= auto
MINUTES ?= 10
CUDA ?= 13
JOBS =

.DEFAULT_GOAL := help
.PHONY: device-there gpu-tests on-path
.PHONY: help bench list resume report reproduce tensorboard doctor schema install test test-all test-slow test-alone fuzz test-gpu sanitize gpu-day kernels-report lint format bench-self fleet-proof records-page pins clean image sif sbom container-bench container-test

help:  ## list all targets
	@awk -F ':.*## ' '/^[a-z -]+:.*## /{printf "  make %-15s %s\n", $$1, $$2}' $(MAKEFILE_LIST)
	@echo
	@echo '  DEVICE=auto|cpu|gpu|tpu  SUITE=quick|kernels|full|FILE.toml  BENCH="matmul nqueens"'
	@echo '  ARGS="--rounds 5 --param n=1024,2048" (further options of the command, separated by spaces: accelbench run --help)'
	@echo '  ENGINE=docker|podman|apptainer  BASE=IMAGE  SIF=FILE  FLAGS="--cpus 2 --memory 8g" (containers)'
	@echo '  SET=cpu|gpu|gpu13|tpu|tpu-tensorflow (dependency set; default: by DEVICE)'
	@echo '  PYTHON=python3 VENV= (use an interpreter with all packages installed; install nothing)'

# A misspelt variable on the command line is an error; otherwise it would be ignored silently.
# Targets of containers have no PYTHON, VENV and SET: an image has its own Python and packages.
KNOWN = $(INSTALLATION) DEVICE SUITE BENCH ARGS ENGINE BASE SIF FLAGS PYTEST JOBS MINUTES CUDA PART
INSTALLATION = PYTHON VENV SET
TAKEN = $(if $(filter container-bench,$(MAKECMDGOALS)),$(filter-out $(INSTALLATION),$(KNOWN)),$(KNOWN))
UNKNOWN := $(foreach name,$(filter-out $(TAKEN) SHELL MAKE%,$(.VARIABLES)),$(if $(filter command,$(firstword $(origin $(name)))),$(name)))
$(if $(strip $(UNKNOWN)),$(error make $(MAKECMDGOALS) has no variable $(strip $(UNKNOWN)) (available: $(sort $(TAKEN))); pass options of accelbench in ARGS="…"))

# A user's value is one line of text: it is not expanded by make (`override`) and is quoted for the shell.
define NEWLINE


endef
$(foreach name,$(KNOWN),$(if $(findstring $(NEWLINE),$(value $(name))),$(error $(name)= has more than one line))$(eval override $(name) := $$(value $(name))))
quoted = '$(subst ','\'',$(1))'
each_quoted = $(foreach word,$(1),$(call quoted,$(word)))
# These values become part of program and target names, which make cannot quote; PYTHON may have options.
ODD := $(shell printf %s $(call quoted,$(DEVICE)$(subst $() $(),,$(PYTHON))$(VENV)$(SET)) | tr -cd ' \t;:&|<>()[]{}$$`"'\''*?!\#%\\')
$(if $(ODD),$(error DEVICE, PYTHON, VENV and SET must not contain these characters: $(ODD)))

# The dependency set depends on the device; `auto` selects the set of the first device found. The search needs no package.
PYTHON_HERE = $(or $(if $(VENV),$(wildcard $(VENV)/bin/python)),$(PYTHON))
FOUND = $(eval FOUND := $(or $(shell $(PYTHON_HERE) -m accelbench.profiling.devices auto 2>/dev/null),cpu))$(FOUND)
CHOSEN = $(if $(filter auto,$(DEVICE)),$(FOUND),$(DEVICE))
# With an empty VENV, the given PYTHON is used, and nothing is created or installed.
PY = $(if $(VENV),$(VENV)/bin/python,$(PYTHON))
INSTALLED = $(if $(VENV),$(VENV)/.installed-$(or $(SET),$(CHOSEN)))
DEVELOPMENT = $(if $(VENV),$(VENV)/.installed-dev)
# The compilers of CUDA 12 need a separate environment: the packages of CUDA 12 and 13 have files with equal names.
CUDA12 = $(if $(VENV),$(VENV)/cuda12/.installed)

bench: device-there $(INSTALLED) on-path  ## measure this machine: a table, runs/<run-id>/ and its report.html
	@$(PY) -m accelbench run --device $(call quoted,$(DEVICE)) $(if $(SUITE),--suite $(call quoted,$(SUITE))) $(call each_quoted,$(BENCH) $(ARGS))

# Messages and reports name the command `accelbench`, which is not on PATH before the environment is activated.
on-path: $(INSTALLED)
	@command -v accelbench >/dev/null || echo $(call quoted,for the command accelbench: $(ON_PATH)) >&2
ON_PATH = $(if $(VENV),source $(VENV)/bin/activate,alias accelbench="$(PYTHON) -m accelbench")

# A missing device is reported before its packages (gigabytes) are installed.
device-there: $(if $(VENV),$(VENV)/bin/python)
	@$(PY) -m accelbench.profiling.devices $(call quoted,$(DEVICE)) >/dev/null
ifeq ($(VENV),)
	@$(PY) -m accelbench --version >/dev/null || \
	  { echo 'this Python lacks packages of accelbench: omit VENV=, or install them with pip' >&2; exit 2; }
endif

list resume report reproduce tensorboard doctor schema: $(INSTALLED)  ## the accelbench command of this name: make report ARGS=latest
	@$(PY) -m accelbench $@ $(call each_quoted,$(ARGS))

install: $(INSTALLED)  ## create the environment only (VENV=.venv)

# pytest splits PYTEST into options and interprets quotes: PYTEST="-k 'matmul or stream'".
WITH_OPTIONS = $(if $(PYTEST),PYTEST_ADDOPTS=$(call quoted,$(PYTEST)) )
RUN_PYTEST = $(WITH_OPTIONS)$(PY) -m pytest

# Most tests are not CPU-bound, so two run in parallel; tests that measure run one at a time.
NONE_CHOSEN = [ $$? = 5 ]
# Continuous integration omits exhaustive variants and the compilers of CUDA 12, which take minutes to install and use.
KEPT = $(if $(CI), and not exhaustive)
# It runs the fast tests before it installs the requirements of some of them. Those that could not run (not in the file
# $TESTS_PASSED) run with the slow tests.
AGAIN = $(if $(CI), or again)
SHARED = --numprocesses $(call quoted,$(or $(JOBS),2)) --dist loadfile
test: $(DEVELOPMENT)  ## run the fast tests, in five minutes (PYTEST="-k matmul": a part, JOBS=1: sequentially)
	$(RUN_PYTEST) -m "not slow and not alone and not gpu and not container" $(SHARED) || $(NONE_CHOSEN)

test-all: test  ## run all tests that need neither a GPU nor container engines
	@$(MAKE) --no-print-directory test-slow
	@$(MAKE) --no-print-directory test-alone

test-slow: $(DEVELOPMENT) $(if $(CI),,$(CUDA12))  ## run the slow tests that do not measure
	$(RUN_PYTEST) -m "(slow$(AGAIN)) and not alone and not gpu and not container$(KEPT)" $(SHARED) || $(NONE_CHOSEN)

test-alone: $(DEVELOPMENT)  ## run the tests that measure, one at a time
	$(RUN_PYTEST) -m "alone and not gpu and not container$(KEPT)" || $(NONE_CHOSEN)

fuzz: $(DEVELOPMENT)  ## repeat the property-based tests with new seeds (MINUTES=60, PYTEST="-k statistics": a part)
	$(WITH_OPTIONS)$(PY) -m tests.fuzz $(call quoted,$(MINUTES)) $(SHARED)

# JOBS=auto: the number of processes is limited by the memory of card and host and by the CPUs.
test-gpu:  ## verify all GPU kernels on the device with JOBS=n processes; fails without a GPU
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	$(RUN_PYTEST) tests/gpu -m "gpu and not alone" --ignore $(SANITIZER) --numprocesses $(call quoted,$(or $(JOBS),auto)) --dist worksteal || $(NONE_CHOSEN)
	$(RUN_PYTEST) tests/gpu -m "gpu and alone" || $(NONE_CHOSEN)

sanitize:  ## run all GPU kernels with small sizes under compute-sanitizer; takes minutes
	@$(MAKE) --no-print-directory gpu-tests DEVICE=gpu
	$(RUN_PYTEST) -m gpu $(SANITIZER) --numprocesses $(call quoted,$(or $(JOBS),2))

gpu-day:  ## measure this GPU completely in half an hour: probe, tests, kernels, training (ARGS="--budget 540")
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

sbom:  ## write containers/build/accelbench-DEVICE.cdx.json: the image's packages, as CycloneDX
	@$(IN_CONTAINER) sbom

container-bench:  ## run `make bench` in the image or the SIF; results are in runs/
	@$(IN_CONTAINER) bench $(foreach name,SUITE BENCH ARGS,$(if $($(name)),$(call quoted,$(name)=$($(name)))))

container-test: $(DEVELOPMENT)  ## build and run images with all installed engines (containers/ci/engines.sh installs them)
	$(RUN_PYTEST) -m "container$(KEPT)" tests/containers

kernels-report: $(DEVELOPMENT) $(if $(filter 12,$(CUDA)),$(CUDA12))  ## list registers, spills, executed instructions and predicted bounds of GPU kernels (ARGS="nqueens tuned" CUDA=13|12)
	@$(if $(filter 12,$(CUDA)),$(VENV)/cuda12/bin/python -m accelbench.kernels.report,$(PY) -m tests.ptx.report) $(call each_quoted,$(ARGS))

lint: $(DEVELOPMENT)  ## run ruff, mypy and the import contracts (layers, no cycles)
	$(PY) -m ruff check .
	$(PY) -m ruff format --check .
	$(PY) -m mypy
	$(dir $(PY))lint-imports --no-logo --no-cache

format: $(DEVELOPMENT)  ## format the source with ruff
	$(PY) -m ruff format .
	$(PY) -m ruff check --fix .

bench-self: $(DEVELOPMENT)  ## measure accelbench itself: against likwid and C, start-up, overhead (PART=…)
	@$(PY) -m tests.bench_self $(call each_quoted,$(PART))

fleet-proof: $(DEVELOPMENT)  ## find 100 slow nodes among 10,000 made-up ones with measured noise (ARGS=--grid: other noise)
	@$(PY) -m tests.fleet_proof $(call each_quoted,$(ARGS))

records-page: $(DEVELOPMENT)  ## write docs/records.md, the fields of a record, from the record types
	@$(PY) docs/records.py >docs/.records.md.new && mv docs/.records.md.new docs/records.md

pins: $(DEVELOPMENT)  ## update the pinned dependency sets in requirements/ and the hash locks of the images
	$(PY) requirements/resolve.py
	$(PY) requirements/lock.py

clean:  ## remove the environment and caches, but no runs
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis *.egg-info

$(VENV)/bin/python:
	@$(PYTHON) requirements/install.py $(VENV)

# The set `dev` includes the CPU's packages: the tests run CPU kernels and compile GPU kernels on any device.
$(VENV)/.installed-%: pyproject.toml requirements/%.txt
	@$(PYTHON) requirements/install.py $(VENV) $*

$(VENV)/cuda12/.installed: requirements/gpu.txt requirements/dev.txt | $(VENV)/bin/python
	@echo 'installing the compilers of CUDA 12 to $(VENV)/cuda12 (once, about a minute)'
	@$(VENV)/bin/python -m venv --without-pip --clear $(VENV)/cuda12
	@$(VENV)/bin/python -m pip --python $(VENV)/cuda12/bin/python install --quiet --disable-pip-version-check \
	  --constraint requirements/gpu.txt 'numba-cuda[cu12]' psutil pydantic rich scipy \
	  $$(grep '^nvidia-cuda-nvdisasm==' requirements/dev.txt)
	@touch $@
