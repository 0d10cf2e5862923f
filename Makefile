# What a user and a contributor type. Needs Python >= 3.11 and make; everything else goes into .venv.
PYTHON ?= python3
BIN := .venv/bin
DEMO_STEPS ?= 288000
DEMO_SEEDS ?= 3

.PHONY: demo test check slow mutants docs clean
.DEFAULT_GOAL := demo

.venv/python:
	@command -v $(PYTHON) >/dev/null || { echo "cim needs Python 3.11 or newer: none is called '$(PYTHON)'; say make PYTHON=... "; exit 1; }
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { echo "cim needs Python 3.11 or newer, $(PYTHON) is older; say make PYTHON=python3.12, for example"; exit 1; }
	@$(PYTHON) -m venv .venv || { echo "this Python has no venv; on Debian and Ubuntu: apt-get install python3-venv"; exit 1; }
	@touch $@

.venv/user: .venv/python pyproject.toml
	$(BIN)/pip install --quiet --disable-pip-version-check --editable .
	@touch $@

.venv/dev: .venv/user
	$(BIN)/pip install --quiet --disable-pip-version-check --editable '.[dev]'
	@touch $@

demo: .venv/user  ## train skills in a maze, evaluate and draw them: under 5 minutes on two cores
	$(BIN)/cim train --method cim --env PointMaze --time-limit 50 --num-envs 32 --rollout 150 --method.prior 0,1 --seeds $(DEMO_SEEDS) --steps $(DEMO_STEPS) --out runs/demo --overwrite
	@echo
	$(BIN)/cim evaluate runs/demo --episodes 200
	@echo
	$(BIN)/cim figure runs/demo
	@echo
	@echo "The skills: runs/demo/figures/skills.png. Next: $(BIN)/cim train --env Ant --steps 2e6"

test: .venv/dev  ## all tests
	$(BIN)/python -m pytest

check: .venv/dev  ## format, lint, types
	$(BIN)/ruff format --check src tests benchmarks examples docs experiments
	$(BIN)/ruff check src tests benchmarks examples docs experiments
	$(BIN)/pyright

docs: .venv/dev  ## method pages and README's table from the code
	$(BIN)/python docs/generate.py

mutants: .venv/dev  ## faults put in on purpose: every one must be seen by a test
	$(BIN)/python tests/mutants.py

clean:
	rm -rf .venv .cache
