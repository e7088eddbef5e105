# make demo | experiments | test | check | docs | engine | kubernetes | lab | lab-test | jar | wheel | clean. The environment is .venv, so the command is .venv/bin/sparkpace.
PYTHON ?= python3
RUNTIME ?=
BRIDGE := $(shell find bridge -type f -not -path 'bridge/build/*' 2>/dev/null)
BIN := .venv/bin
JAR := controller/jars/sparkpace-bridge.jar

.PHONY: all setup jar demo demo-time experiments test check docs engine kubernetes lab lab-test wheel clean
.DELETE_ON_ERROR:

all: setup

setup: .venv/.stamp-env $(JAR)

jar: $(JAR)

.venv/.stamp-env: pyproject.toml hatch_build.py .ci/setup
	@PYTHON='$(PYTHON)' .ci/setup env
	@touch $@

$(JAR): .venv/.stamp-env $(BRIDGE)
	$(BIN)/python bridge/build.py
	@touch $@

demo: demo-time setup
	@$(BIN)/python -m experiments.demo $(if $(RUNTIME),--runtime $(RUNTIME))

demo-time:
	@echo 'The demo takes about 4 minutes the first time, and longer if the download of Spark is slow; about 3 minutes after that.'

# A second environment holds Spark 3.5. SPARKPACE_SPARK35_PYTHON=... names one of yours instead. JOBS=0: one test at a time.
JOBS ?= 2
test: setup
	@set -e; if [ -z "$${SPARKPACE_SPARK35_PYTHON+given}" ]; then \
		SPARKPACE_SPARK35_PYTHON=$$(PYTHON='$(PYTHON)' .ci/setup spark35); \
	fi; export SPARKPACE_SPARK35_PYTHON; exec $(BIN)/python -m pytest -n $(JOBS) --dist loadfile --no-loadscope-reorder $(ARGS)

# The quick version of the experiments, a quarter of an hour: everything works; the figures are too small to tell how well.
QUICK ?= laws scale fig67-simulated overhead table4 fig4
experiments: setup
	@set -e; for spec in $(QUICK); do echo "== $$spec"; $(BIN)/python -m experiments run $$spec --quick; done

check: .venv/.stamp-env
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

# The site, in site/: a link that leads nowhere and a page that is not in mkdocs.yml are errors.
docs: .venv/.stamp-env
	$(BIN)/mkdocs build --strict

engine:
	dockerfiles/engine.sh

# One node on this machine, for tests; it ends with `dockerfiles/kubernetes.sh stop`. Another cluster: KUBECONFIG=...
kubernetes: engine
	@set -e; file=$$(dockerfiles/kubernetes.sh); echo "export SPARKPACE_TEST_KUBECONFIG=$$file"

# Virtual machines with systemd and cgroup v2, for tests. The first time, it builds disks; tests/lab/lab.sh down ends them.
lab: .venv/.stamp-env
	@set -e; folder=$$(PYTHON=$(CURDIR)/$(BIN)/python tests/lab/lab.sh up); echo "export SPARKPACE_LAB=$$folder"

lab-test: .venv/.stamp-env
	@set -e; SPARKPACE_LAB=$$(PYTHON=$(CURDIR)/$(BIN)/python tests/lab/lab.sh up); export SPARKPACE_LAB; \
	SPARKPACE_REQUIRE_LAB=1 exec $(BIN)/python -m pytest tests/lab -m lab $(ARGS)

# One file that pipx and uv install, in dist/. It holds no Spark.
wheel: setup
	$(BIN)/python -m hatchling build -t wheel

# What a build makes; out/ (results) and running clusters are yours to remove.
clean:
	rm -rf .venv .venv35 controller/jars bridge/build dist site .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
	find . -name __pycache__ -type d -prune -exec rm -rf {} +
