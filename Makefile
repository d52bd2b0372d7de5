# The two commands: `make audit` and `make test`. They need make and a Python from 3.11 to 3.14; requirements.lock pins everything else.
FITTING := import sys, venv, ensurepip; sys.exit(not (3, 11) <= sys.version_info < (3, 15))
PYTHON ?= $(shell for p in python3 python python3.14 python3.13 python3.12 python3.11; do $$p -c '$(FITTING)' 2>/dev/null && echo $$p && break; done)
VENV := .venv
EXTRAS_test := [test,proofs]
EXTRAS_docs := [test,docs,proofs]
EXTRAS_lint := [dev,test,proofs]
PIP := $(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation --no-compile -c requirements.lock
ifneq ($(shell command -v uv),)
PIP := uv pip install --quiet --python $(VENV)/bin/python --no-build-isolation -c requirements.lock
endif

# One linear algebra thread a process: the tests run on all cores already.
export OPENBLAS_NUM_THREADS ?= 1

# A file's tests run in one process, in the order of the files: what they share is made once. Three
# processes for two cores, because tests wait for programs, browsers and time limits.
BY_FILE := -n $(shell echo $$(( ($$(getconf _NPROCESSORS_ONLN) * 3 + 1) / 2 ))) --dist loadfile --no-loadscope-reorder

.PHONY: audit test test-all tools lint types site docs proofs release-check clean

audit: $(VENV)/.audit
	@status=0; $(VENV)/bin/dpwitness suite zoo --workers $$(getconf _NPROCESSORS_ONLN) --report out/zoo || status=$$?; echo "The report lies in out/zoo/audit.html"; exit $$status

test:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.test tools
	$(VENV)/bin/python -m pytest $(BY_FILE)

# Also the tests that are marked as slow; TESTS=FOLDER runs a part.
test-all:
	@$(MAKE) --no-print-directory -j2 $(VENV)/.test tools
	$(VENV)/bin/python -m pytest $(BY_FILE) -m 'not benchmark' $(TESTS)

# Programs for the tests, installed while Python's packages are.
tools:
	@tests/browser.sh $(VENV)/axe
	@tests/compilers.sh

lint: $(VENV)/.lint types
	$(VENV)/bin/ruff check .
	$(VENV)/bin/ruff format --check .
	$(VENV)/bin/codespell

# In a copy as it is installed, with what the clone has in addition: in this folder, mypy would find the front door only.
types: $(VENV)/.lint
	rm -rf out/typed
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --target out/typed .
	cp -r benchmarks out/typed/dpwitness
	cd out/typed && ../../$(VENV)/bin/mypy --config-file ../../pyproject.toml -p dpwitness

site: $(VENV)/.audit
	$(VENV)/bin/python -m dpwitness.benchmarks.pages reports/published

docs: $(VENV)/.docs
	$(VENV)/bin/python -m sphinx -E -W -n --keep-going docs out/docs
	@echo "The pages lie in out/docs/index.html"

release-check: $(VENV)/.test docs
	$(PIP) build
	$(VENV)/bin/python tests/release.py

# The kernel's proof, where Coq is installed, and its check of all published witnesses, which needs Python only.
proofs:
	@if command -v coqc > /dev/null && test -f proofs_checks/kernel/coq/Makefile; then $(MAKE) -C proofs_checks/kernel/coq all check || exit 1; \
	else echo "The proof in Coq is skipped: it needs coqc (Debian: apt install coq) and proofs_checks/kernel/coq"; fi
	$(PYTHON) proofs_checks/kernel/checker.py $$(find reports/published -name 'witness-*.json' | sort) > out-proofs.txt; status=$$?; \
	for answer in ACCEPTED 'NOT CHECKED' REFUSED 'CANNOT READ'; do echo "$$answer: $$(grep -c "^$$answer" out-proofs.txt)"; done; \
	grep -A 1 -e ^REFUSED -e '^CANNOT READ' out-proofs.txt; rm -f out-proofs.txt; test $$status = 0 -o $$status = 3
	@if test -x $(VENV)/bin/python && $(VENV)/bin/python -c 'import flint, sympy' 2> /dev/null; then \
	rm -rf out/proof-objects && $(VENV)/bin/python -m dpwitness.benchmarks.proofs.proof_objects.objects write-large out/proof-objects && \
	$(VENV)/bin/python -m dpwitness.benchmarks.proofs.proof_objects.objects check benchmarks/proofs/proof_objects/stored out/proof-objects || exit 1; \
	else echo "The proof objects of claims are skipped: they need $(VENV) with dpwitness[proofs] (make lint makes it)"; fi

$(VENV)/.python:
	@test -n "$(PYTHON)" || { echo "dpwitness needs Python 3.11 to 3.14 with venv: install it (Debian: apt install python3 python3-venv), or name it: make PYTHON=PATH"; exit 2; }
	$(PYTHON) -m venv $(VENV)
	touch $@

# `audit` needs the package and its dependencies; `test` and `docs` need their extras too. Modules are compiled once, on all
# cores, because processes do not store bytecode where PYTHONDONTWRITEBYTECODE is set; some libraries have files for tests only
# that cannot be compiled.
$(VENV)/.audit $(VENV)/.test $(VENV)/.lint $(VENV)/.docs: $(VENV)/.%: $(VENV)/.python requirements.lock pyproject.toml
	$(PIP) setuptools wheel
	$(PIP) -e '.$(EXTRAS_$*)'
	@$(VENV)/bin/python -m compileall -qq -j0 $(VENV)/lib || true
	$(VENV)/bin/python -m compileall -q -j0 dpwitness core auditors mechanisms proofs_checks reports benchmarks
	touch $@

clean:
	rm -rf $(VENV) build dist out *.egg-info
