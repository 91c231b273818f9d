# Needs Python >= 3.11 and make; everything else is set up in .venv.
PYTHON ?= python3
BIN := .venv/bin
LOWEST := .venv-lowest/bin
PIP := -m pip install --quiet --disable-pip-version-check
# What works with the core dependencies alone, and what test-lowest runs.
UNIT_TESTS := tests/tables tests/io tests/nn tests/training tests/scoring tests/explain tests/models \
  tests/test_detector.py tests/test_accuracy.py

.PHONY: demo test test-lowest torture lint results docs wheel clean

demo: .venv/demo
	$(BIN)/nptad demo

# Two processes with a thread each: more threads would fight over the cores.
test: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest -n 2 --dist loadfile

# The unit tests with the lowest versions that pyproject.toml allows, but for torch, which constraints.txt pins. Old
# libraries use what newer ones deprecate, and old versions of scikit-learn do not have the array API check as it is now.
test-lowest: .venv-lowest/installed
	OMP_NUM_THREADS=1 $(LOWEST)/python -m pytest -W ignore::DeprecationWarning $(UNIT_TESTS) \
	  --deselect tests/test_detector.py::test_scikit_learn_array_api_check

# Hostile cases, for minutes or hours; what is done is not done again. See tests/torture/.
torture: .venv/installed
	OMP_NUM_THREADS=1 $(BIN)/python tests/torture/run.py

lint: .venv/installed
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The tables and figures of results/ from the committed runs; benchmarks/plan.sh makes those.
results: .venv/installed
	$(BIN)/nptad bench figures
	$(BIN)/nptad bench tables

# The documentation as pages in build/docs. They are built from copies in the same places, since they link to files
# that are not in docs/. Warnings are errors, but not with --quiet, which would not count them.
docs: .venv/docs
	rm -rf build/docs build/docs-source && mkdir -p build/docs-source
	tar cf - README.md CHANGELOG.md CONTRIBUTING.md LICENSE CITATION.cff docs benchmarks/README.md results/*.md \
	  results/figures results/one-table/README.md results/one-table/critical_difference.svg | tar xf - -C build/docs-source
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build
	@echo "build/docs/index.html"

# The wheel, checked, listed, and installed where nothing else is.
wheel: .venv/docs
	rm -rf build/wheel && mkdir -p build/wheel
	$(BIN)/python -m build --wheel --outdir build/wheel .
	$(BIN)/twine check --strict build/wheel/*.whl
	$(BIN)/python -m zipfile --list build/wheel/*.whl
	$(PYTHON) -m venv build/wheel/venv
	build/wheel/venv/bin/python $(PIP) -c constraints.txt build/wheel/*.whl
	cd build/wheel && venv/bin/nptad demo

# The demo needs the core dependencies only; Ray, Spark and the browser tools of the tests are two more gigabytes.
.venv/demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/python $(PIP) -c constraints.txt -e .
	touch $@

.venv/installed: .venv/demo
	$(BIN)/python $(PIP) -c constraints.txt -e ".[test,lint]"
	touch $@

.venv/docs: .venv/demo
	$(BIN)/python $(PIP) -c constraints.txt -e ".[docs]"
	touch $@

.venv-lowest/installed: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv-lowest
	$(LOWEST)/python -c 'import tomllib; project = tomllib.load(open("pyproject.toml", "rb"))["project"]; \
	  extras = project["optional-dependencies"]; declared = project["dependencies"] + extras["report"] + extras["unit"]; \
	  print(*(d.replace(">=", "==") for d in declared if not d.startswith(("torch", "nptad"))), sep="\n")' > .venv-lowest/lowest.txt
	$(LOWEST)/python $(PIP) -c constraints.txt -c .venv-lowest/lowest.txt -e ".[unit]"
	touch $@

clean:
	rm -rf .venv .venv-lowest .pytest_cache .mypy_cache .ruff_cache .hypothesis
