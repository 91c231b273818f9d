# Needs Python >= 3.11 and make; everything else is set up in .venv.
PYTHON ?= python3
BIN := .venv/bin

.PHONY: demo test lint results clean

demo: .venv/installed
	$(BIN)/nptad demo

# Two processes with a thread each: more threads would fight over the cores.
test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The tables and figures of results/ and README from the committed runs; benchmarks/plan.sh makes those.
results: .venv/installed
	$(BIN)/nptad bench figures
	$(BIN)/nptad bench tables

.venv/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e ".[test,lint]"
	touch $@

clean:
	rm -rf .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis
