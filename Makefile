PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: help install demo claims test lint clean

help:
	@echo "make demo    the plane of a ReLU ResNet on scikit-learn's digits, beside an unscaled MLP"
	@echo "make claims  every paper's claim: predicted, measured, verdict; a quarter of an hour or so"
	@echo "make test    the whole test suite, two workers"
	@echo "make lint    ruff, pyright, import-linter"

$(STAMP): pyproject.toml constraints.txt
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed: make PYTHON=python3.11")'
	$(BIN)/python -m pip install -qq --disable-pip-version-check -c constraints.txt -e '.[dev]'
	@touch $@

install: $(STAMP)

demo: $(STAMP)
	$(BIN)/deeplimits compare resnet --activation relu --data digits --against mlp --estimators

claims: $(STAMP)
	$(BIN)/deeplimits claims --html out/claims/claims.html

test: $(STAMP)
	$(BIN)/python -m pytest -q -n 2 --dist worksteal --durations=15 $(PYTEST)

lint: $(STAMP)
	$(BIN)/ruff check
	$(BIN)/pyright
	$(BIN)/lint-imports

clean:
	rm -rf $(VENV) out build dist .pytest_cache .ruff_cache .import_linter_cache
