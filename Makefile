# The only command surface of this project. Every target builds what it needs.
SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.DEFAULT_GOAL := help
PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
STAMP := $(VENV)/.installed
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
# Spark's workers and the tests start hundreds of Pythons, each of which would compile every module anew.
export PYTHONDONTWRITEBYTECODE :=

$(STAMP): pyproject.toml
	@test -x $(PY) || $(PYTHON) -m venv $(VENV)
	@$(PY) -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"
	@$(PY) -m pip install --quiet --disable-pip-version-check -e ".[spark,duckdb,pandas,lance]" --group dev
	@touch $@

BENCH_STAMP := $(VENV)/.installed-bench
ROWS ?= 10000000
BENCH_SOURCE ?= auto

$(BENCH_STAMP): $(STAMP)
	@$(PY) -m pip install --quiet --disable-pip-version-check --group bench
	@touch $@

.PHONY: help venv connector demo test test-matrix wheel fuzz lint format bench bench-embedded bench-spark bench-write interop interop-read interop-write interop-store clean
help: ## list the targets
	@grep -hE '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 12

venv: $(STAMP) connector ## make the environment in .venv

connector: $(STAMP) ## build the Spark connector for the installed pyspark (needs a JDK 17 or newer)
	@$(PY) connector/build.py

demo: $(STAMP) connector ## a table's life through PySpark (create, upsert, delete, read, travel, changes), then tables that ship
	@$(PY) -m headwater.spark.story
	@$(PY) -m headwater.demo

test: $(STAMP) connector ## run every test
	@$(PY) -m pytest -n $(JOBS) --dist worksteal

SPARKS ?= 3.5 4.0 4.1 4.2 4.3

test-matrix: $(STAMP) ## run tests/spark with each supported Spark (SPARKS="3.5 4.0")
	@for minor in $(SPARKS); do \
	  $(PY) connector/build.py --minor $$minor; \
	  home=$$($(PY) connector/build.py --venv $$minor); \
	  test $$home/.installed -nt pyproject.toml || { \
	    $$home/bin/python -m pip install --quiet --disable-pip-version-check --upgrade "pip>=25.1"; \
	    $$home/bin/python -m pip install --quiet --disable-pip-version-check -e ".[duckdb,pandas,lance]" --group dev "pyspark==$$minor.*"; \
	    touch $$home/.installed; }; \
	  echo "Spark $$minor:"; \
	  $$home/bin/python -m pytest -n $(JOBS) --dist worksteal tests/spark; \
	done

wheel: $(STAMP) ## build the connector for every supported Spark, and a wheel with all of them in dist/
	@$(PY) connector/build.py --all
	@rm -rf dist/*.whl
	@$(PY) -m build --wheel --outdir dist . > /dev/null
	@$(PY) connector/check_wheel.py dist

fuzz: $(STAMP) ## run the fuzz tests for longer (SECONDS_=600)
	@HEADWATER_FUZZ_SECONDS=$${SECONDS_:-600} $(PY) -m pytest -m fuzz tests/reliability

lint: $(STAMP) ## ruff and mypy strict
	@$(PY) -m ruff check .
	@$(PY) -m ruff format --check .
	@$(PY) -m mypy

format: $(STAMP) ## format the code
	@$(PY) -m ruff format .
	@$(PY) -m ruff check --fix .

interop: interop-read interop-write ## both directions, with Apache Hudi on Spark: what it writes and what we write

interop-read: $(STAMP) connector ## random tables that Apache Hudi writes, read by it and by us (SEEDS=0-5 RELEASES=1.2.0,0.15.0 WAYS=python,dsv2)
	@$(PY) -m tests.interop.run $(if $(SEEDS),--seeds $(SEEDS)) $(if $(RELEASES),--releases $(RELEASES)) $(if $(WAYS),--ways $(WAYS))

interop-write: $(BENCH_STAMP) connector ## tables that we write, read and written on by Apache Hudi (TABLES=24 RELEASES=1.2.0,0.15.0)
	@$(PY) -m tests.interop.write_matrix.run $(if $(TABLES),--tables $(TABLES)) $(if $(RELEASES),--releases $(RELEASES))

interop-store: $(STAMP) connector ## a table on S3 that Spark's own reader opens, by the hadoop-aws that Maven brings (700 MB)
	@$(PY) -m tests.interop.store

bench: bench-embedded bench-spark bench-write ## all benchmarks, one after the other (ROWS=10000000, BENCH_SOURCE=auto|hudi|generated)

bench-embedded: $(BENCH_STAMP) ## side by side with pyarrow and hudi-rs
	@$(PY) -m benchmarks.embedded --rows $(ROWS) --source $(BENCH_SOURCE)

bench-spark: $(BENCH_STAMP) connector ## side by side with Spark's Parquet source (PEERS=1: and with Apache Hudi and Iceberg on Spark 3.5)
	@$(if $(PEERS),$(PY) connector/build.py --minor 3.5)
	@$(PY) -m benchmarks.spark --rows $(ROWS) --source $(BENCH_SOURCE) $(if $(PEERS),--peers $(if $(filter only,$(PEERS)),only,too)) $(BENCH_ARGS)

bench-write: $(BENCH_STAMP) connector ## writes beside Spark's plain Parquet write (PEERS=1: and beside Apache Hudi and Iceberg)
	@$(PY) -m benchmarks.write --rows $(ROWS) $(if $(PEERS),--peers) $(BENCH_ARGS)

clean: ## remove what the other targets made
	@rm -rf $(VENV) .venv-* dist build .demo benchmarks/data .pytest_cache .mypy_cache .ruff_cache
