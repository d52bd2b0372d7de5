# The two commands: `make audit` and `make test`. Needs Python 3.11, gcc and make; everything else comes from requirements.lock.
PYTHON ?= python3.11
VENV := .venv
STAMP := $(VENV)/.installed

# One linear algebra thread a process: the tests run on all cores already.
export OPENBLAS_NUM_THREADS ?= 1

.PHONY: audit test site docs release-check clean

audit: $(STAMP)
	@status=0; $(VENV)/bin/dpwitness suite zoo --workers $$(getconf _NPROCESSORS_ONLN) --report out/zoo || status=$$?; echo "The report lies in out/zoo/audit.html"; exit $$status

test: $(STAMP)
	@tests/browser.sh $(VENV)/axe
	@tests/compilers.sh
	$(VENV)/bin/python -m pytest -n auto

site: $(STAMP)
	$(VENV)/bin/python -m dpwitness.reports.site reports/published

docs: $(VENV)/.docs
	$(VENV)/bin/python -m sphinx -E -W -n --keep-going docs out/docs
	@echo "The pages lie in out/docs/index.html"

release-check: $(STAMP) docs
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check build
	$(VENV)/bin/python tests/release.py

$(VENV)/.docs: $(STAMP)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-build-isolation -c requirements.lock -e '.[docs]'
	touch $@

$(STAMP): requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(VENV)/bin/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $(STAMP)

clean:
	rm -rf $(VENV) build dist out *.egg-info
