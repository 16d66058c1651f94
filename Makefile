# Two commands do everything: `make demo` and `make test`. Both make the environment they need and reuse it.
VENV    ?= .venv
PYTHON  ?= python3
RUN      = $(VENV)/bin/python
PYTEST_ARGS ?=

.PHONY: help demo test test-slow lint types bench clean env-demo env-all

help:            ## this list
	@grep -E '^[a-z-]+: *.*##' Makefile | sed -E 's/: *[a-z-]* *## */\t/' | expand -t 14

demo: env-demo   ## the paper's toy end to end: two figures and a small table
	@$(RUN) -m covshift demo

test: env-all    ## the whole test suite (not the slow paper facts)
	$(RUN) -m pytest -n 2 $(PYTEST_ARGS)

test-slow: env-all ## the paper facts that take minutes
	$(RUN) -m pytest -m slow $(PYTEST_ARGS)

lint: env-all    ## style
	$(RUN) -m ruff check covshift tests benchmarks tools
	$(RUN) -m ruff format --check covshift tests benchmarks tools

types: env-all   ## type check of the package
	$(RUN) -m mypy

bench: env-all   ## speed and memory as ratios in one run (minutes; one BLAS thread)
	$(RUN) -m benchmarks

env-demo:
	@$(PYTHON) tools/environment.py --venv $(VENV) --extras plot

env-all:
	@$(PYTHON) tools/environment.py --venv $(VENV) --extras all,dev

clean:           ## remove the environment and caches
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache
