# PORT=…, DATA_DIR=… and PYTHON=… may be given with any of these.
.DEFAULT_GOAL := help
.PHONY: help setup demo up test check lock reference bench battery matrix matrix-new screenshots clean-demo web development
export PORT DATA_DIR PYTHON VERSIONS ROWS

help: ## Say what can be made
	@grep -hE '^[a-z-]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/^([a-z-]+):.*## /\1|/' | column -t -s '|'

setup: web ## Make both environments and install what they need
	@scripts/environment demo/.venv requirements.txt

demo: setup ## Run the demo project for real, and serve the dashboard
	@scripts/system-packages dot
	@exec .venv/bin/python -m scripts.demo --parent $$PPID

up: web ## Serve your own checkpoints: make up LOCATION=…
	@scripts/system-packages dot
	@exec .venv/bin/python manage.py up --parent $$PPID $(if $(LOCATION),"$(LOCATION)")

test: setup development ## Run the whole test suite
	@scripts/system-packages dot browser
	@.venv/bin/python -m pytest $(or $(TESTS),-n auto --maxprocesses 4 --dist loadfile --no-loadscope-reorder)

check: development ## Lint, check the format and the types
	@scripts/check

lock: development ## Pin the web application's packages, with hashes
	@scripts/lock

reference: web ## Write docs/reference.md from the code
	@.venv/bin/python -m scripts.reference

bench: setup development ## Measure, and print the tables
	@scripts/system-packages dot browser
	@.venv/bin/python -m scripts.bench

battery: development ## Kill writers and jobs, break files and stores, and show hostile texts, thousands of times
	@scripts/system-packages browser
	@.venv/bin/python -m quality.chaos

matrix: development ## Run every kind of run on each version of CrewAI: VERSIONS=… ROWS=…
	@.venv/bin/python -m quality.compatibility

matrix-new: development ## Run them on a CrewAI release that docs/matrix.md does not have, and print what changed
	@.venv/bin/python -m quality.compatibility --new

screenshots: setup development ## Take the README's pictures from the real demo
	@scripts/system-packages dot browser font
	@.venv/bin/python -m scripts.screenshots

clean-demo: web ## Take back what the demo made
	@.venv/bin/python -m scripts.demo --clean

web:
	@scripts/environment .venv requirements.lock

development:
	@scripts/environment .venv requirements.lock requirements-dev.txt
