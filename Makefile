.DEFAULT_GOAL := help
SHELL := /bin/bash
VENV ?= .venv
PY := $(VENV)/bin/python
# Two cores are what continuous integration has; xdist starts one worker a core.
JOBS ?= 2

help: ## list the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{printf "%-12s %s\n", $$1, $$2}'

$(VENV)/.ready: requirements.lock pyproject.toml
	@command -v python3 >/dev/null || { echo "python3 (3.11 or newer) is needed"; exit 1; }
	@test -x $(PY) || python3 -m venv $(VENV)
	@test -x $(VENV)/bin/uv || $(PY) -m pip install -q uv
	$(VENV)/bin/uv pip install -q --python $(PY) -r requirements.lock
	@touch $@

.build/penstock: pyproject.toml hatch_build.py
	@$(PY) hatch_build.py && touch .build/penstock

env: $(VENV)/.ready .build/penstock ## make the environment

lock: $(VENV)/.ready ## resolve the dependencies anew
	$(VENV)/bin/uv pip compile -q pyproject.toml --all-extras --universal --no-annotate --no-header --generate-hashes --no-emit-index-url -o requirements.lock

format: env ## format the code
	$(VENV)/bin/ruff format -q . && $(VENV)/bin/ruff check -q --fix . || true

check: env ## format, lint, types, unit tests: under two minutes
	$(VENV)/bin/ruff format --check -q .
	$(VENV)/bin/ruff check -q .
	$(VENV)/bin/mypy
	$(PY) -m pytest -q -n $(JOBS) --check -m "not slow" tests/unit

prepare: env ## fetch what the tests run against: Java Paimon, pypaimon, Kafka, MySQL, MariaDB, PostgreSQL, HDFS, YARN
	@$(PY) -m tests.prepare

# One file's tests stay in one process: servers, sessions and JVMs are started once a file.
test: prepare ## every test; the servers and peers are real: under an hour
	@timeout --kill-after=60 3200 $(PY) -m pytest -q -n $(JOBS) --dist loadfile --max-worker-restart 1 --durations 15

interop: prepare ## ours against Java Paimon and pypaimon, both ways
	@$(PY) -m pytest -q -n $(JOBS) --dist loadfile tests/golden tests/interop

chaos: prepare ## processes killed, networks cut
	@$(PY) -m pytest -q tests/chaos

demo: env ## a small shop's changes through a pipeline into tables, on this machine alone
	@PYTHONPATH=.build $(PY) -W ignore -m penstock.pipelines.commands.main demo

.PHONY: demo help env lock format check prepare test interop chaos
