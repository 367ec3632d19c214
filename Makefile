# What a developer does with this repository. `make` alone lists it.

TARGET := $(or $(CARGO_TARGET_DIR),target)

.PHONY: help run test lint fmt docs openapi console plugins screenshots bench bench-mcp bench-beside
.DEFAULT_GOAL := help

help: ## This list
	@sed -n 's/^\([a-z%-]*\):.*## /\1\t/p' Makefile | while IFS="$$(printf '\t')" read -r name text; do \
		printf '  make %-9s %s\n' "$$name" "$$text"; done

run: ## Build and start Toolgate with example tools (ARGS="--listen 127.0.0.1:9000" adds flags)
	@echo "Building Toolgate in the dev profile: a first build takes about five minutes on two cores, later ones seconds."
	@scripts/console
	@cargo build -p toolgate-cli
	@$(TARGET)/debug/toolgate serve --data $(TARGET)/run-data --examples $(ARGS)

test: ## Install what is missing, then check and test everything; leaves nothing running
	@scripts/setup
	@scripts/with-services scripts/test

lint: ## The checks that run nothing: tidy, format, clippy
	cargo xtask tidy
	cargo fmt --all --check
	cargo clippy --workspace --all-targets -- -D warnings

fmt: ## Format the code
	cargo fmt --all
	cd console && npm run --silent format

console: ## Build the console into console/dist; `npm run dev` in console/ shows changes at once beside `make run`
	@scripts/console

screenshots: console ## Take the pictures of docs/images anew, of every page, light and dark
	@cargo build -p toolgate-cli
	@node tests/browser/screenshots.mjs

plugins: ## Build the plug-ins of the examples and the tests
	@scripts/plugins

docs: ## Make the documents a site in target/site
	cargo xtask docs

openapi: ## Write the API's description to docs/openapi.json, and schemas to docs/schemas
	@cargo build -q -p toolgate-cli
	@$(TARGET)/debug/toolgate openapi >$(TARGET)/openapi.json
	@mv $(TARGET)/openapi.json docs/openapi.json
	@mkdir -p docs/schemas
	@$(TARGET)/debug/toolgate openapi --schemas docs/schemas

bench: bench-beside ## Run every benchmark, in the release profile (its first build takes over ten minutes)
	scripts/with-services $(TARGET)/release/bench $(ARGS)

bench-mcp: bench-beside ## Run the benchmark that needs other programs beside it
	scripts/with-services $(TARGET)/release/bench mcp $(ARGS)

bench-%: ## Run one benchmark: `make bench-search`
	@scripts/setup
	scripts/with-services cargo run --release -p bench -- $* $(ARGS)

# Both at once: by itself, each would be built with other features.
bench-beside:
	@scripts/setup
	@scripts/bench-beside
	cargo build --release -p bench -p toolgate-cli
