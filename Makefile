# Two commands do all their own set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready

.PHONY: help demo test test-deep quality lock clean

help:
	@echo "make demo        the main job on an embedded default (under a minute)"
	@echo "make test        the test suite (under five minutes on two cores)"
	@echo "make test-deep   thousands of instances per property, by the hour"
	@echo "make quality     ruff and mypy --strict"
	@echo "make lock        pin the newest versions that pyproject.toml allows"

$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || (echo "error: $(PYTHON): older than Python 3.11; pass PYTHON=python3.11" >&2; exit 2)
	$(PYTHON) -m venv $(VENV) \
	  || ($(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV))
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check \
	  --no-deps --no-build-isolation --editable .
	$(BIN)/bfio prepare
	@touch $(READY)

demo: $(READY)
	$(BIN)/bfio demo

test: $(READY)
	$(BIN)/python -m pytest -n 2 -m "not deep"

test-deep: $(READY)
	BFIO_TEST_PROFILE=deep $(BIN)/python -m pytest -n 2 --timeout 7200

quality: $(READY)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock: $(READY)
	$(BIN)/uv pip compile pyproject.toml --extra test --extra quality --universal --upgrade \
	  --python-version 3.11 --no-header --no-emit-index-url --quiet -o requirements.lock

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
