# PORT=…, DATA_DIR=… and PYTHON=… may be given with any of these.
.DEFAULT_GOAL := help
.PHONY: help setup demo up test test-postgresql check messages lock reference bench chaos cluster fuzz matrix matrix-crewai matrix-crewai-new matrix-langgraph screens screenshots clean-demo web development
export PORT DATA_DIR PYTHON VERSIONS ROWS

help: ## List the targets
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

setup: web ## Create the environments and install the requirements
	@scripts/demo-environments

demo: web ## Run the demo project and serve the dashboard
	@# The engines are installed meanwhile.
	@exec .venv/bin/python -m scripts.demo --parent $$PPID

up: web ## Serve your own checkpoints: make up LOCATION=…
	@scripts/system-packages dot
	@exec .venv/bin/python manage.py up --parent $$PPID $(if $(LOCATION),"$(LOCATION)")

test: setup development ## Run the whole test suite
	@scripts/system-packages dot browser postgresql pgbouncer proxy sandbox
	@# Some environments write no bytecode: each program that a test starts would compile all modules.
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m pytest $(or $(TESTS),-n auto --maxprocesses 5 --dist loadfile --no-loadscope-reorder)

test-postgresql: setup development ## Run the tests of queries and transactions with the rows in PostgreSQL
	@scripts/system-packages postgresql
	@PYTHONDONTWRITEBYTECODE= .venv/bin/python -m scripts.postgresql_tests $(TESTS)

check: development ## Lint, check formatting, types and translations
	@scripts/check

messages: development ## Update the catalogues of all languages with the texts that are marked now
	@.venv/bin/python -m scripts.catalogues update

lock: development ## Pin the web application's packages, with hashes
	@scripts/lock

reference: web ## Write docs/reference.md from the code
	@.venv/bin/python -m scripts.reference

bench: setup development ## Measure, and print the tables
	@scripts/system-packages dot browser
	@.venv/bin/python -m scripts.bench

chaos: development ## Kill writers, workers and jobs thousands of times, and check that nothing is lost
	@.venv/bin/python -m quality.chaos

cluster: development ## Run forks on five hosts with one PostgreSQL, kill any process, and cut one off: FORKS=… KILLS=… CUT=…
	@scripts/system-packages postgresql
	@.venv/bin/python -m quality.cluster

fuzz: development ## Read broken files and stores, try what needs consent or a right, and show script payloads in a browser
	@scripts/system-packages browser sandbox
	@.venv/bin/python -m quality.fuzz

matrix: ## Test every kind of run on each version of both engines
	@# Each engine has versions and rows of its own.
	$(if $(VERSIONS)$(ROWS),$(error VERSIONS and ROWS work with matrix-crewai and matrix-langgraph only))
	@crewai=0; $(MAKE) --no-print-directory matrix-crewai || crewai=1; \
	$(MAKE) --no-print-directory matrix-langgraph && exit $$crewai

matrix-crewai: development ## Test every kind of run on each version of CrewAI: VERSIONS=… ROWS=…
	@.venv/bin/python -m quality.compatibility

matrix-crewai-new: development ## Test the newest CrewAI release and print what changed in its table
	@.venv/bin/python -m quality.compatibility --new

matrix-langgraph: development ## Test forks and resumes on each version of LangGraph, next to LangGraph itself: VERSIONS=… ROWS=…
	@scripts/system-packages postgresql mariadb
	@.venv/bin/python -m quality.compatibility.graphs

screens: setup development ## Take every screen of the demo at four widths, light and dark, into screens/, and docs/pictures/stops
	@scripts/system-packages dot browser font
	@.venv/bin/python -m scripts.pictures.screens

screenshots: setup development ## Take the README's pictures from the real demo
	@scripts/system-packages dot browser font
	@.venv/bin/python -m scripts.pictures.screenshots

clean-demo: web ## Delete what the demo created
	@.venv/bin/python -m scripts.demo --clean

web:
	@scripts/environment .venv requirements.lock
	@.venv/bin/python -m scripts.catalogues compile

development:
	@scripts/environment .venv requirements.lock requirements-dev.txt
	@.venv/bin/python -m scripts.catalogues compile
