# `make demo` and `make test` do all their set-up on a machine that has Python 3.11 or newer and nothing else.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

# Without --no-compile, pip would compile every file of torch and scipy; Python compiles the few that are imported.
# So it must keep what it compiled, even where a container asks it not to: every command would compile torch again, for seconds.
unexport PYTHONDONTWRITEBYTECODE
INSTALL := $(BIN)/python -m pip install --quiet --disable-pip-version-check --no-compile --constraint constraints.txt --editable

.PHONY: setup demo test check test-slow bench docs clean

setup: $(VENV)/.ready-test

# What skidpad itself needs, and the demo with it.
$(VENV)/.ready-demo: pyproject.toml constraints.txt
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) .
	touch $@

# All extras, and what tests, checks and pages need.
$(VENV)/.ready-test: $(VENV)/.ready-demo
	$(INSTALL) '.[dev]'
	touch $@

demo: $(VENV)/.ready-demo
	$(BIN)/skidpad demo

check: setup
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# Files side by side, a core each; what a file prepares is prepared once. conftest.py says which files begin.
test: check
	$(BIN)/python -m pytest --numprocesses auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder

test-slow: setup
	$(BIN)/python -m pytest -m slow

# These need pictures or drives of yours, so `make bench` leaves them out; each says at its top how to run it.
NEED_DATA := $(addprefix benchmarks/,judges.py referee.py repair.py train_judge.py weather_sets.py weather_pictures.py fresh_eyes.py)
bench: setup
	for file in $(filter-out $(NEED_DATA),$(wildcard benchmarks/*.py)); do echo "== $$file"; $(BIN)/python $$file || exit 1; done

docs: setup
	$(BIN)/mkdocs build --strict

clean:
	rm -rf $(VENV) .mypy_cache .ruff_cache .pytest_cache .hypothesis build
