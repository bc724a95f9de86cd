# Two commands do all the set-up: `make demo` and `make test`. Both need nothing but Python 3.11 or newer.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PEERS := .venv-peers
PIP := $(BIN)/python -m pip install --quiet --disable-pip-version-check
# Hundreds of tests start Python: where this is set, each of them would compile numpy, polars and altair again, 3 of its 5 CPU seconds.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test lint types contracts quick slow bench coverage alarms gates claims attack responses clean

demo: $(VENV)/.demo
	$(BIN)/evenhand demo

test:
	$(MAKE) quick lint types contracts
	$(MAKE) slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

quick: $(VENV)/.dev
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m "not slow"

slow: $(VENV)/.dev  # of files that have one: the others would only be imported
	$(BIN)/python -m pytest -q -n 2 --dist loadfile -m slow $$(grep -l 'mark\.slow' tests/test_*.py)

# Packages that evenhand works inside: an environment and a constraints file each, for they cannot share one.
HOSTS := ir-measures lenskit mlflow
.PHONY: $(HOSTS:%=host-%)
hosts: $(HOSTS:%=host-%)

$(HOSTS:%=host-%): host-%: .venv-%/.host
	.venv-$*/bin/python -m pytest -q tests/hosts

.venv-mlflow/.host: BESIDE := pandas scikit-learn matplotlib  # which mlflow.models.evaluate imports, and mlflow-skinny leaves out
$(HOSTS:%=.venv-%/.host): .venv-%/.host: pyproject.toml constraints-%.txt
	$(PYTHON) -m venv .venv-$*
	.venv-$*/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-$*.txt --editable '.[$*,report]' pytest hypothesis $(BESIDE)
	touch $@

# The oldest versions that pyproject.toml allows, and pandas 2: what readers, labels and engines do with them.
OLDEST := tests/test_text_files.py tests/test_label_types.py tests/test_pandas.py tests/test_unsorted_rankings.py
.PHONY: oldest
oldest: .venv-oldest/.stamp
	.venv-oldest/bin/python -m pytest -q $(OLDEST)

.venv-oldest/.stamp: pyproject.toml constraints-oldest.txt
	$(PYTHON) -m venv .venv-oldest
	.venv-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt --editable '.[arrow,report]' pandas pytest hypothesis
	touch $@

# The site, from docs/: examples are run and pictures drawn by the build; a link that leads nowhere or a misspelt word fails it.
DOCS := .venv-docs
.PHONY: docs
docs: $(DOCS)/.stamp
	$(DOCS)/bin/codespell *.md docs/*.md conformance/README.md
	$(DOCS)/bin/sphinx-build --quiet --fail-on-warning --keep-going --nitpicky --jobs 2 -d $(DOCS)/doctrees docs site
	@echo 'open site/index.html'

$(DOCS)/.stamp: pyproject.toml constraints.txt constraints-docs.txt
	$(PYTHON) -m venv $(DOCS)
	$(DOCS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints.txt --constraint constraints-docs.txt --editable '.[docs]'
	touch $@

# The sdist, the wheel made from it, what is in them, and the wheel in clean environments with the oldest and newest dependencies.
.PHONY: package package-kit
package: package-kit
	rm -rf dist .venv-wheel-oldest .venv-wheel-newest
	.venv-package/bin/python -m build --outdir dist . > /dev/null
	.venv-package/bin/python .ci/check_package.py contents dist
	$(PYTHON) -m venv .venv-wheel-oldest
	.venv-wheel-oldest/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-oldest.txt dist/*.whl dist-kit/*.whl
	.venv-package/bin/python .ci/check_package.py works .venv-wheel-oldest/bin/python
	$(PYTHON) -m venv .venv-wheel-newest
	.venv-wheel-newest/bin/python -m pip install --quiet --disable-pip-version-check dist/*.whl dist-kit/*.whl
	.venv-package/bin/python .ci/check_package.py works .venv-wheel-newest/bin/python

# The conformance kit by itself, in an environment that holds nothing else.
package-kit: .venv-package/.stamp
	rm -rf dist-kit .venv-wheel-kit
	.venv-package/bin/python -m build --outdir dist-kit conformance > /dev/null
	$(PYTHON) -m venv .venv-wheel-kit
	.venv-wheel-kit/bin/python -m pip install --quiet --disable-pip-version-check --no-index dist-kit/*.whl
	.venv-package/bin/python .ci/check_package.py kit .venv-wheel-kit/bin/python

.venv-package/.stamp:
	$(PYTHON) -m venv .venv-package
	.venv-package/bin/python -m pip install --quiet --disable-pip-version-check build==1.6.1
	touch $@

# The conda recipe, rendered by the builder that conda-forge uses.
.PHONY: recipe
recipe:
	$(PYTHON) -m venv .venv-recipe
	.venv-recipe/bin/python -m pip install --quiet --disable-pip-version-check py-rattler-build==0.73.0
	.venv-recipe/bin/python .ci/render_recipe.py

# The conformance kit on other tools: an environment for each, pinned, removed once it is scored (KEEP=1 keeps it). Not part of CI:
# torch alone is a gigabyte.
TOOLS := aequitas fairlearn fairranktune holisticai inequalipy ir-measures lenskit pysal ranx recbole statspai
.PHONY: conformance $(TOOLS:%=conformance-%)
conformance:  # one after the other; .NOTPARALLEL would hold for every target here, before make 4.4
	$(foreach tool,$(TOOLS),$(MAKE) conformance-$(tool) && )true

$(TOOLS:%=conformance-%): conformance-%: $(VENV)/.dev conformance/requirements/%.txt
	$(PYTHON) -m venv .venv-conformance-$*
	.venv-conformance-$*/bin/python -m pip install --quiet --disable-pip-version-check --requirement conformance/requirements/$*.txt
	$(BIN)/python -m conformance.score $*=.venv-conformance-$*/bin/python
	$(if $(KEEP),,rm -rf .venv-conformance-$*)

# All that CI runs in, for `make -j`.
.PHONY: environments
environments: $(VENV)/.dev $(HOSTS:%=.venv-%/.host) .venv-oldest/.stamp .venv-package/.stamp $(DOCS)/.stamp

# QUICK=1 for smaller sizes.
bench: $(VENV)/.dev $(PEERS)/.stamp
	$(BIN)/python -m benchmarks.run $(if $(QUICK),--quick)

coverage: $(VENV)/.dev
	$(BIN)/python -m benchmarks.coverage $(if $(QUICK),--quick)

gates: $(VENV)/.dev
	$(BIN)/python -m benchmarks.gates $(if $(QUICK),--builds 20 --interval normal)

alarms: $(VENV)/.dev
	$(BIN)/python -m benchmarks.alarms $(if $(QUICK),--series 200)

attack: $(VENV)/.dev
	$(BIN)/python -m benchmarks.attack --calls $(if $(QUICK),1000,100000) --append benchmarks/out/attack.jsonl

claims: $(VENV)/.dev
	$(BIN)/python -m benchmarks.null_worlds $(if $(QUICK),--quick)

responses: $(VENV)/.dev
	$(BIN)/python -m benchmarks.responses

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit("evenhand needs Python 3.11 or newer; set PYTHON=...") if sys.version_info < (3, 11) else None'
	$(PYTHON) -m venv $(VENV)

# Stamps: a second run does not install again, a changed requirement does.
$(VENV)/.demo: pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt --editable .
	touch $@

$(VENV)/.dev: pyproject.toml conformance/pyproject.toml constraints.txt | $(VENV)/bin/python
	$(PIP) --constraint constraints.txt --editable '.[dev]' --editable ./conformance
	touch $@ $(VENV)/.demo

# The packages we are measured against share no environment with us. Torch comes first and pinned, or pip picks one that
# brings several gigabytes of CUDA along.
$(PEERS)/.stamp: constraints-peers.txt
	$(PYTHON) -m venv $(PEERS)
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt torch
	$(PEERS)/bin/python -m pip install --quiet --disable-pip-version-check --constraint constraints-peers.txt lenskit inequality FairRankTune holisticai
	touch $@

clean:
	rm -rf $(VENV) .venv-* .mypy_cache .ruff_cache .pytest_cache .hypothesis evenhand-demo benchmarks/out site
