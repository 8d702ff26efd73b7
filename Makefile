# Each target does its own set-up (scripts/setup); on a bare Debian or Ubuntu only `apt install make git` comes first.
.PHONY: help demo test bench callgrind dev docs-test fuzz tsan asan-python setup clean

help:
	@echo 'make demo       the main job on real data: a Dask cluster, 336,776 flights, no pickle'
	@echo 'make test       every check, as CI runs it'
	@echo 'make bench      measurements beside their rivals'
	@echo 'make callgrind  instructions of encode and decode, and how they changed since the committed figures'
	@echo 'make dev        an editable transload in .venv (again after a change in C++)'
	@echo 'make docs-test  the examples in docstrings and in docs/'
	@echo 'make fuzz       libFuzzer on every decoder, a few seconds each (SECONDS=60 for longer)'
	@echo 'make tsan       the C++ tests under the thread sanitizer'
	@echo 'make asan-python  the Python tests on a module with the address sanitizer'
	@echo 'make setup      only the set-up'

demo:
	@scripts/setup demo
	@build/installed/bin/python examples/flights_demo/main.py $(ARGS)

test:
	@scripts/test

bench:
	@scripts/setup demo bench
	@scripts/bench $(ARGS)

callgrind:
	@scripts/callgrind $(ARGS)

dev:
	@scripts/dev

docs-test:
	@scripts/setup test demo
	@build/installed/bin/python -m pytest --doctest-modules --doctest-glob='*.md' --pyargs transload README.md docs $(ARGS)

SECONDS ?= 5
fuzz:
	@scripts/setup --no-wheel fuzz
	@PATH="$(CURDIR)/.venv/bin:$$PATH" && cmake --preset fuzz -DTRANSLOAD_FUZZ_SECONDS=$(SECONDS) \
	  && cmake --build --preset fuzz && ctest --preset fuzz

tsan:
	@scripts/setup --no-wheel test
	@PATH="$(CURDIR)/.venv/bin:$$PATH" cmake --workflow --preset tsan

asan-python:
	@scripts/setup test demo
	@scripts/asan_python $(ARGS)

setup:
	@scripts/setup test demo

clean:
	rm -rf build
