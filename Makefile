# What a fresh machine needs: git, make, Python >= 3.11 with its venv module. Two commands matter: make demo, make test.
.DEFAULT_GOAL := help
.PHONY: help setup demo test check bench lock chaos chaos-short adversarial clean
# The servers of a test run belong to it alone; make itself must not run two targets' set-ups at once.
.NOTPARALLEL:

# Which Python makes .venv: empty means the newest one >= 3.11 that is found.
PYTHON ?=
export PYTHON

BIN := .venv/bin
WORKERS ?= auto
TEST_ARGS ?=
CHAOS_ARGS ?=
BENCH_ARGS ?=
ADVERSARIAL_ARGS ?=

help:  ## this list
	@sed -nE 's/^([a-z-]+):.*## (.*)/  make \1	\2/p' $(MAKEFILE_LIST)

setup:  ## make .venv with everything that the tests need
	@ops/bootstrap dev

demo:  ## a scripted conversation through the four services (no keys, no Docker, no server)
	@ops/bootstrap runtime
	@$(BIN)/leeway demo

test: setup  ## all tests, on a real RabbitMQ and a real Postgres, against the vendors' own packages
	@ops/bootstrap oracles
	$(BIN)/pytest -n $(WORKERS) --dist loadgroup $(TEST_ARGS)

check: setup  ## format, lint, types, import rules, fast tests
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo
	$(BIN)/pytest -q -n $(WORKERS) tests/unit

bench:  ## figures beside other libraries, printed as ratios (BENCH_ARGS)
	@ops/bootstrap bench
	$(BIN)/python -m tests.bench $(BENCH_ARGS)

chaos: setup  ## the whole chaos suite (10,000 messages)
	$(BIN)/python -m tests.chaos $(CHAOS_ARGS)

adversarial: setup  ## 10,000 turns against the worst model there could be (ADVERSARIAL_ARGS="--seed N")
	$(BIN)/python -m tests.adversarial $(ADVERSARIAL_ARGS)

chaos-short: setup  ## a few minutes of it
	$(BIN)/python -m tests.chaos --short $(CHAOS_ARGS)

lock:  ## renew requirements*.lock (LOCK_ARGS=--upgrade for newer versions)
	@ops/bootstrap lock

clean:  ## remove the environments and every cache; .leeway/ (data) stays
	rm -rf .venv .oracles .mypy_cache .pytest_cache .ruff_cache .import_linter_cache .hypothesis build dist
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
