# checklistbot: `make review` shows the main job on the example, `make test` tests everything. Both set themselves up.
SHELL := /bin/sh
.DELETE_ON_ERROR:
.DEFAULT_GOAL := help

VENV := .venv
PY := $(VENV)/bin/python
UV := $(VENV)/bin/uv --quiet --no-config
# uv's own variable for "which environment": the active one of the caller must not win.
export VIRTUAL_ENV := $(CURDIR)/$(VENV)
# Every start would compile all modules anew: tests start hundreds of processes, and bench would measure the compiler.
unexport PYTHONDONTWRITEBYTECODE
STAMP := $(VENV)/.stamp
LOCK := $(UV) pip compile --universal --generate-hashes --no-emit-index-url --no-annotate --python-version 3.11 \
	--custom-compile-command "make lock"

.PHONY: help
help: ## show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "make %-12s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

## ---- set-up: each step leaves a stamp, so that a second `make` does nothing

$(STAMP)/venv: scripts/make-venv.sh requirements/uv.txt
	@sh scripts/make-venv.sh $(VENV)
	@mkdir -p $(STAMP) && touch $@

# What the product needs, and the project itself, editable. No build isolation: nothing is fetched that has no hash here.
$(STAMP)/run: $(STAMP)/venv requirements/run.txt requirements/build.txt pyproject.toml
	@$(UV) pip install --require-hashes --only-binary :all: --no-deps -r requirements/run.txt -r requirements/build.txt
	@$(UV) pip install --no-build-isolation --no-deps --editable .
	@touch $@

$(STAMP)/test: requirements/test.txt | $(STAMP)/run
	@$(UV) pip install --require-hashes --only-binary :all: --no-deps -r requirements/test.txt
	@touch $@

$(STAMP)/npm: tests/tools/package.json tests/tools/package-lock.json tests/tools/.npmrc | $(STAMP)/test
	@$(PY) -I scripts/npm.py tools ci --ignore-scripts --silent
	@touch $@

# Packages as files: the tests install the wheel and the Action from these, through an index of their own on loopback.
WHEELS := requirements/uv.txt requirements/build.txt requirements/run.txt
$(STAMP)/wheels: $(STAMP)/venv $(WHEELS)
	@rm -rf $(VENV)/wheelhouse
	@$(PY) -I -m pip download --quiet --quiet --disable-pip-version-check --require-hashes --only-binary :all: --no-deps \
		--dest $(VENV)/wheelhouse $(WHEELS:%=--requirement %)
	@touch $@

.PHONY: setup
setup: $(STAMP)/npm $(STAMP)/wheels ## make the environment in .venv and tests/tools/node_modules

.PHONY: lock
lock: $(STAMP)/venv ## renew requirements/*.txt and tests/tools/package-lock.json (LOCK_ARGS=--upgrade for newer versions)
	@$(LOCK) $(LOCK_ARGS) requirements/uv.in -o requirements/uv.txt
	@$(LOCK) $(LOCK_ARGS) requirements/build.in -o requirements/build.txt
	@$(LOCK) $(LOCK_ARGS) pyproject.toml -c requirements/build.txt -o requirements/run.txt
	@$(LOCK) $(LOCK_ARGS) pyproject.toml requirements/test.in -c requirements/build.txt -c requirements/run.txt -o requirements/test.txt
	@$(MAKE) --no-print-directory $(STAMP)/test
	@$(PY) -I scripts/npm.py tools lock
	@$(PY) -I scripts/npm.py witness lock

.PHONY: system-deps
system-deps: ## install what the tests need from the system (Debian, Ubuntu)
	@sh scripts/system-deps.sh

## ---- what there is to do

.PHONY: review
review: $(STAMP)/run ## the main job on the example: a pull request that must be blocked
	@bash scripts/review.sh $(VENV)/bin/checklistbot

.PHONY: test
test: setup ## all tests
	@$(PY) -m pytest -n 3 --dist worksteal $(TEST_ARGS)

EXAMPLES := $(patsubst %,examples/workflows/%.yml,fork nightly reusable same-repository self-hosted tick-gate)
.PHONY: lint
lint: $(STAMP)/test ## style, types, floors, shell, workflows
	@$(VENV)/bin/ruff check --quiet .
	@$(VENV)/bin/ruff format --quiet --check .
	@$(VENV)/bin/mypy --no-error-summary
	@$(VENV)/bin/mypy --no-error-summary scripts/*.py
	@$(VENV)/bin/lint-imports --no-logo > $(STAMP)/floors 2>&1 || { cat $(STAMP)/floors; exit 1; }
	@command -v shellcheck >/dev/null || { echo "make lint: shellcheck is missing; run make system-deps" >&2; exit 2; }
	@git ls-files -z -- '*.sh' .ci/run | xargs -0 shellcheck --external-sources
	@$(VENV)/bin/zizmor --quiet --offline --pedantic --no-progress .github $(EXAMPLES)
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-actions .github/actions/*/action.yml
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml $(EXAMPLES)
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.gitlab-ci examples/workflows/gitlab-ci.yml
	@$(VENV)/bin/check-jsonschema --quiet --builtin-schema vendor.dependabot .github/dependabot.yml

.PHONY: knowledge
knowledge: $(STAMP)/run ## renew the compiled form of the advisories after an edit
	@$(PY) scripts/compile_knowledge.py

.PHONY: docs
docs: setup ## README's outputs, the pictures of the comment and of the demo (needs chromium)
	@$(PY) scripts/rule_docs.py
	@$(PY) scripts/docs.py
	@$(PY) scripts/picture.py docs/comment.png < out/review/comment.md
	@$(VENV)/bin/checklistbot demo --color always > out/demo.txt
	@$(PY) scripts/picture.py --terminal docs/demo.png < out/demo.txt

.PHONY: bench
bench: $(STAMP)/run ## start-up times, CPU seconds of a review, SDK imports; check against checkov where it is on PATH
	@$(PY) scripts/bench.py

.PHONY: test-full
test-full: setup ## what the probe finds, measured: faults, healthy servers, ablation, other tests (≤ 60 min)
	@$(PY) scripts/test_full.py $(TEST_ARGS)
	@CHECKLISTBOT_TEST_FULL=1 $(PY) -m pytest tests/scripts/test_scripts_matrix.py tests/llm/test_llm_hostile_answers.py

# Real servers, each in an environment of its own outside of .venv: vLLM on the CPU, SGLang's router, llama.cpp's server.
ENGINES ?= $(HOME)/.cache/checklistbot/engines
.PHONY: test-engine
test-engine: setup ## the tests against real servers (installs 5 GB into ENGINES once, half an hour; then a few minutes)
	@sh scripts/make-engines.sh "$(ENGINES)"
	@CHECKLISTBOT_ENGINES="$(ENGINES)" $(PY) -m pytest -m engine tests/engine $(TEST_ARGS)

.PHONY: test-witness
test-witness: setup ## our GitHub calls against Prism with GitHub's own description (installs 74 MB)
	@$(PY) -I scripts/npm.py witness ci --ignore-scripts --silent
	@$(PY) -m pytest -m witness tests/witness $(TEST_ARGS)

.PHONY: test-action
test-action: setup ## each workflow of examples/workflows run by act, with GitHub on loopback (minutes)
	@$(PY) -m pytest -m act tests/action $(TEST_ARGS)

.PHONY: fuzz
fuzz: setup ## the property tests with many more, random examples
	@HYPOTHESIS_PROFILE=fuzz $(PY) -m pytest -n 2 -m hypothesis $(TEST_ARGS)
