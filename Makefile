.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PY := $(VENV)/bin/python
# Workers of `make test`. Its tests wait for servers, JVMs and disks almost half of the time, so three workers use two
# cores better than two do. A worker needs up to 4 GB with its servers and Spark; on less memory there are two workers.
MEMORY := $(shell awk '/^MemTotal/ {print int($$2 / 1000000)}' /proc/meminfo 2>/dev/null || echo 0)
TEST_JOBS := $(or $(TEST_JOBS),$(JOBS),$(shell test 0$(MEMORY) -ge 14 && echo 3 || echo 2))
# Two cores are what continuous integration has; xdist starts one worker a core.
JOBS ?= 2
# pytest keeps its rewritten tests as bytecode: without it, each worker rewrites all of them for ten seconds.
export PYTHONDONTWRITEBYTECODE :=

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'
	@echo
	@echo "one test:    $(PY) -m pytest -q tests/unit/table/read/test_plan.py -k NAME"

$(VENV)/.ready: requirements.lock pyproject.toml
	@command -v python3 >/dev/null || { echo "python3 (3.11 or newer) is needed"; exit 1; }
	@test -x $(PY) || python3 -m venv $(VENV)
	@test -x $(VENV)/bin/uv || $(PY) -m pip install -q uv
	$(VENV)/bin/uv pip install -q --python $(PY) -r requirements.lock
	@touch $@

.build/penstock: pyproject.toml hatch_build.py
	@$(PY) hatch_build.py && touch .build/penstock

env: $(VENV)/.ready .build/penstock ## make the environment

lock: $(VENV)/.ready ## resolve the dependencies again
	$(VENV)/bin/uv pip compile -q pyproject.toml --all-extras --universal --no-annotate --no-header --generate-hashes --no-emit-index-url -o requirements.lock

format: env ## format the code, and fix what the linter can fix
	$(VENV)/bin/ruff check -q --fix-only .
	$(VENV)/bin/ruff format -q .
	$(VENV)/bin/ruff check -q .

# Unit tests wait for the disk and for timeouts a fifth of the time: one worker more than cores, and the types beside them.
CHECK_JOBS ?= 3
# Their files are in memory where it has a gigabyte for them: a quarter of the time goes into files on disk otherwise.
CHECK_TEMP ?= $(shell test -w /dev/shm && df -Pk /dev/shm | awk 'NR == 2 && $$4 >= 1000000 {print "/dev/shm"}')
check: env ## format, lint, types, unit tests, the first steps of 200 random stories: under two minutes
	$(VENV)/bin/ruff format --check -q .
	$(VENV)/bin/ruff check -q .
	@$(VENV)/bin/mypy >.build/mypy.log 2>&1 & types=$$!; \
	  PYTEST_DEBUG_TEMPROOT=$(CHECK_TEMP) $(PY) -m pytest -q -n $(CHECK_JOBS) --check --durations 5 -m "not slow" tests/unit tests/stories/test_beginnings.py; tests=$$?; \
	  wait $$types; types=$$?; cat .build/mypy.log; exit $$((tests | types))

coverage: env ## the unit tests, and which lines and branches they miss (details in .build/coverage-html)
	$(PY) -m pytest -q -n $(JOBS) --check --cov --cov-report=term:skip-covered --cov-report=html tests/unit

prepare: env ## fetch what the tests run against: Java Paimon, pypaimon, Kafka, MySQL, MariaDB, PostgreSQL, a stand-in for MongoDB, HDFS, YARN
	@$(PY) -m tests.prepare

# One file's tests stay in one process: servers, sessions and JVMs are started once a file.
# On a slow or busy machine a run leaves out the last of the further tests (tests/order.py), and says so at its end.
# A few tests that fail are run a second time, alone (tests/whole_run.py).
test: prepare ## every test; the servers and peers are real: under an hour
	@timeout --kill-after=60 3400 $(PY) -m tests.whole_run -q -n $(TEST_JOBS) --dist loadfile --max-worker-restart 1 --durations 15 --further-until 2800

interop: prepare ## ours against Java Paimon and pypaimon, both ways
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile tests/golden tests/interop

chaos: prepare ## processes killed, networks cut
	@$(PY) -m pytest -q tests/chaos

# Sizes of the long runs. `make nightly NIGHTLY="--stories 2000 --kills 10"` runs a smaller night.
NIGHTLY ?=
MUTANTS ?=
MINUTES ?= 60

mutants: env ## planted faults: a story or a test must notice each
	@$(PY) -m tests.mutants --jobs $(JOBS) $(MUTANTS)

nightly: prepare ## 200,000 stories, 20,000 of pipelines, 2,000 of peers, 20,000 statements of SQL, all faults of the store, orders of jobs, 500 kills, 800 commits under locks, an hour of fuzz, other tests with more cases, all mutants; continues where it was stopped
	@$(PY) -m tests.prepare --night
	@$(PY) -m tests.nightly --jobs $(JOBS) $(NIGHTLY)

soak: prepare ## a pipeline under load for MINUTES, with workers killed: memory, files, handles and threads stay flat
	@PENSTOCK_SOAK_MINUTES=$(MINUTES) $(PY) -m pytest -q -o faulthandler_timeout=0 tests/chaos/test_soak.py

oldest: env ## pipelines and tables on the oldest Spark that is supported, in an environment of its own: fetches 400 MB
	@$(PY) -m pytest -q --night tests/integration/install/test_oldest_spark.py

demo: env ## a small shop's changes through a pipeline into tables, on this machine alone
	@PYTHONPATH=.build $(PY) -W ignore -m penstock.pipelines.commands.main demo

sbom: env ## the bill of materials of the lock, as CycloneDX: .build/sbom.json
	@$(PY) -m tests.sbom

audit: env ## known vulnerabilities of the packages of the lock; needs the data of pypi.org
	@$(VENV)/bin/uv tool run pip-audit@2.10.1 --strict --disable-pip --require-hashes --progress-spinner off -r requirements.lock

docs: env ## write the generated parts of the documentation again
	$(PY) -m docs.generate

# `make bench BENCH="--only hashes --only decode"` runs some; `BENCH=--list` names them.
BENCH ?=
bench: env ## the benchmarks beside their peers, hours on an idle machine: writes benchmarks/RESULTS.md
	@$(PY) -m benchmarks.all $(BENCH)

clean: ## remove what builds and tests leave behind; keep .venv and .cache
	rm -rf .build dist .hypothesis spark-warehouse metastore_db derby.log
	find . -name __pycache__ -not -path './.venv/*' -not -path './.cache/*' -prune -exec rm -rf {} +

.PHONY: audit bench chaos check clean coverage demo docs env format help interop lock mutants nightly oldest prepare sbom soak test
