.DEFAULT_GOAL := help
.PHONY: audit bill help demo test test-rest test-airflow test-all test-yarn servers flakes generated quick check pictures docs faults torture \
	newest up down lock release-check clean bench

# Hundreds of processes import the package: each would compile it anew.
unexport PYTHONDONTWRITEBYTECODE

BIN := .venv/bin
READY := .venv/.ready
# The scripts in .venv hold the path of the clone: in a copy they would run the other clone's code.
MADE_IN := $(shell sed 's/ [0-9]* [0-9]*$$//' $(READY) 2>/dev/null)
ifneq ($(filter-out help clean down,$(MAKECMDGOALS)),)
ifneq ($(shell [ -z "$(MADE_IN)" ] || [ "$(MADE_IN)" -ef . ] || echo moved),)
$(error .venv was made in $(MADE_IN) and works there alone: run rm -rf .venv, then this again)
endif
endif
# Six keep two cores busy: tests wait more than they compute. WORKERS=0 runs them one after another.
WORKERS := 6
PYTEST = $(BIN)/python -m pytest -n $(WORKERS)

help: ## Print this list
	@echo "Tidemark: Kafka to Postgres, exactly once. Needs Python 3.11 to 3.14 and Java 17 or newer."
	@echo
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

EXAMPLE := flights
demo: $(READY) ## Replay flights into Kafka, kill drivers, prove the result; EXAMPLE=orders_cdc, payments_avro
	@$(BIN)/python -m scripts.demo $(EXAMPLE)

test: check servers ## Check the code, then prove every feature on real Kafka, Postgres, Spark and Airflow
	@$(PYTEST)

SHARE := 1/1
test-rest: $(READY) servers ## Run what test leaves out: the whole fault table, large models; SHARE=2/4: the second fourth
	@$(PYTEST) --tier rest --share $(SHARE)

test-all: test test-rest ## Run every test there is

servers: $(READY)
	@scripts/postgres15
	@scripts/chromium
	@scripts/promtool

MINUTES := 60
flakes: $(READY) servers ## Run the tests in random order again and again; print each that was ever red
	@scripts/flakes $(MINUTES)

quick: check ## Check the code, then run the tests that need no server: a minute
	@$(BIN)/python -m pytest -n 2 -q --quick tests/unit tests/property

test-yarn: $(READY) ## Run flights through Hadoop YARN, with an executor killed: minutes
	@$(BIN)/python -m pytest tests/clusters/yarn.py

AIRFLOW := 3.3.1
test-airflow: $(READY) servers ## Run what tests Airflow with another of its versions, AIRFLOW=3.1.8, or newest: minutes
	@scripts/other-airflow $(AIRFLOW)

newest: $(READY) ## Run what is strict about values with the newest pyarrow, fastavro, protobuf and msgspec
	@scripts/newest

check: $(READY) ## Check format, lint, types, imports, images, the compose file and workflows
	@$(BIN)/ruff format --check .
	@$(BIN)/ruff check .
	@$(BIN)/mypy
	@PYTHONPATH=plugins:tools $(BIN)/lint-imports
	@$(BIN)/hadolint Dockerfile deploy/helm/Dockerfile
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.compose-spec docker-compose.yml
	@$(BIN)/compose-lint check --quiet --skip-suppressed --strict-config --fail-on low docker-compose.yml
	@$(BIN)/check-jsonschema --quiet --builtin-schema vendor.github-workflows .github/workflows/*.yml
	@$(BIN)/zizmor --quiet --offline .github/workflows

generated: $(READY) ## Write what is made from the code: configuration.md, errors, schemas, guards, rooms
	@$(BIN)/python -m scripts.docs.generated

pictures: $(READY) servers ## Run the example DAGs in Airflow and take the pictures of them that docs show: minutes
	@$(BIN)/python -m pytest --tier all tests/browser/test_examples.py
	@cp .tidemark/test/screenshots/example-*.png docs

REPOSITORY :=
docs: $(READY) ## Build the docs site; any link or anchor that leads nowhere is an error
	@NO_MKDOCS_2_WARNING=1 REPOSITORY=$(REPOSITORY) $(BIN)/python -m mkdocs build
	@echo .tidemark/site/html/index.html

release-check: $(READY) ## Install the built packages in clean environments and try them: half an hour
	@$(BIN)/python -m scripts.release.check

WHAT := peers
BENCHES := peers start ledger upsert decode
bench: $(READY) ## Measure Tidemark beside what one would write: 40 minutes; WHAT=start, ledger, upsert, decode
	@case " $(BENCHES) " in *" $(WHAT) "*) ;; *) echo "WHAT is one of: $(BENCHES)" >&2; exit 2 ;; esac
	@$(BIN)/python -m scripts.bench.$(WHAT)

faults: $(READY) ## Break every step in every way and print the whole table of results
	@$(PYTEST) --tier all tests/faults

torture: MINUTES := 20
torture: $(READY) ## Break all at random for MINUTES (20), heal, compare every record; SEED=7, MIX=ids,upsert
	@$(BIN)/python -m tests.torture --minutes $(MINUTES) $(if $(SEED),--seed $(SEED)) $(if $(MIX),--mix $(MIX))

up: $(READY) ## Start Kafka, Postgres and Airflow on this machine
	@$(BIN)/tidemark local up

down: ## Stop every process of every local stack in .tidemark; the data stays
	@for pids in .tidemark/*/pids .tidemark/pids; do \
		if [ -d "$$pids" ]; then $(BIN)/tidemark local down --dir "$$(dirname "$$pids")" || exit 1; fi; \
	done

RESOLVE = $(BIN)/uv pip compile pyproject.toml --all-extras --python-version 3.11 \
	--no-emit-package airflow-provider-tidemark --no-emit-package tidemark-local \
	--no-annotate --custom-compile-command "make lock"
lock: $(READY) ## Resolve the newest versions: requirements.lock for developers, requirements.txt for users
	@$(RESOLVE) --group dev --group docs --upgrade --generate-hashes -o requirements.lock
	@$(RESOLVE) --constraint requirements.lock -o requirements.txt

audit: $(READY) ## Ask the package index for known vulnerabilities of what requirements.lock names
	@scripts/release/audit

bill: $(READY) ## Write dist/sbom.cdx.json and dist/licences.md: what an installation is made of
	@scripts/release/bill

clean: ## Stop everything, then delete .tidemark with all data, .venv and caches
	@for pids in .tidemark/*/pids .tidemark/pids; do \
		if [ -d "$$pids" ]; then $(BIN)/tidemark local down --erase --dir "$$(dirname "$$pids")" || exit 1; fi; \
	done
	rm -rf .tidemark .venv .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache

$(READY): requirements.lock pyproject.toml tools/pyproject.toml scripts/bootstrap
	@scripts/bootstrap
