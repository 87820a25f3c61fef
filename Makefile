# Every target does its own set-up, so that `make test` works on a fresh machine.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
MAKEFLAGS += --no-builtin-rules
.NOTPARALLEL:
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/.tools/bin:$(CURDIR)/.tools/venv/bin:$(PATH)
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# Random plans of tests begin at a seed of this commit, so that each commit tries others, and can be tried again.
export TEST_FIRST_SEED ?= $(shell printf '%d' 0x$$(git rev-parse --short=8 HEAD 2>/dev/null || echo 0))

# One set of packages and features for every build, so that each crate compiles once.
EVERYTHING := --workspace --all-features --locked
NEXTEST_PROFILE := $(if $(CI),ci,default)

.PHONY: help
help: ## List the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-14s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	echo
	echo "  ARGS adds arguments, for example make run ARGS='--listen 127.0.0.1:9000'"

.PHONY: run
run: ## Build the server with light optimization and start it
	@scripts/setup-build
	cargo build --profile quick --locked --bin longhaul
	exec $(TARGET_DIR)/quick/longhaul serve $(ARGS)

.PHONY: fmt
fmt: ## Format the code
	@cargo fmt --all

# nextest comes last, so that the output ends with the number of tests and their results.
.PHONY: test
test: check test-doc test-api test-e2e test-bench test-rust ## Check and test everything, as CI does
	@echo "make test: everything passed."

.PHONY: check
check: setup-test ## Check format, project rules, spelling, licences, advisories and lints
	@echo "== format"
	cargo fmt --all --check
	echo "== project rules"
	python3 scripts/tidy.py --self-test
	python3 scripts/tidy.py
	echo "== spelling"
	typos
	echo "== shell"
	shellcheck $$(git grep -lE '^#!.*\b(bash|sh)$$')
	echo "== licences, bans, sources"
	cargo deny --locked --log-level error --all-features check bans licenses sources
	echo "== advisories"
	scripts/check-advisories
	echo "== clippy"
	cargo clippy $(EVERYTHING) --all-targets --quiet -- -D warnings
	$(MAKE) --no-print-directory check-features

# Sets of features of the engine that embedders use. Clippy checks all of them together.
FEATURE_SETS := none sqlite postgres sqlite,blobs postgres,blobs sqlite,server
.PHONY: check-features
check-features: ## Check that the engine compiles without warnings for other sets of features
	@echo "== features"
	for features in $(FEATURE_SETS); do
		cargo rustc -p longhaul --lib --profile check --locked --quiet \
			--no-default-features --features "$${features/#none/}" -- -D warnings
	done

.PHONY: test-doc
test-doc: setup-test ## Run the examples in the documentation
	@echo "== documentation"
	cargo test $(EVERYTHING) --doc --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc $(EVERYTHING) --no-deps --quiet

.PHONY: test-api
test-api: setup-test ## Test the running server against its OpenAPI document
	@echo "== openapi"
	cargo build $(EVERYTHING) --bins --tests --quiet
	scripts/schemathesis

# The real binary in a browser, beside mermaid, and under faults for some seconds.
.PHONY: test-e2e
test-e2e: setup-test
	@if [[ -x e2e/run ]]; then
		echo "== end to end"
		cargo build $(EVERYTHING) --bins --tests --quiet
		LONGHAUL_BINARY=$(abspath $(TARGET_DIR))/debug/longhaul e2e/run
	fi

# The debug build renders the same images as the release build.
.PHONY: gallery
gallery: setup-test ## Render docs/gallery.md and the diagrams of ARCHITECTURE.md; compare with mermaid
	@cargo build $(EVERYTHING) --bins --tests --quiet
	scripts/gallery.py $(TARGET_DIR)/debug/longhaul
	node e2e/comparison/sheet.mjs .tools/node/node_modules $(TARGET_DIR)/artifacts

# Checks only that every scenario runs. The numbers of a debug build mean nothing, and a release build would cost
# minutes here.
.PHONY: test-bench
test-bench: setup-test
	@echo "== benchmarks run"
	cargo build $(EVERYTHING) --bins --tests --quiet
	python3 bench/goals_test.py --quiet
	bench/run --quick --binary $(TARGET_DIR)/debug/longhaul >/dev/null

.PHONY: test-rust
test-rust: setup-test ## Run the Rust tests; some of them: make test-rust ARGS=cancel
	@echo "== tests (seeds from $(TEST_FIRST_SEED))"
	INSTA_UPDATE=no scripts/with-postgres \
		cargo nextest run $(EVERYTHING) --profile $(NEXTEST_PROFILE) $(ARGS)

.PHONY: bench
bench: ## Measure beside the disk and plain SQLite; ARGS=--postgres, ARGS='--compare OLD_BINARY'
	@scripts/setup-build
	cargo build --release --locked --bin longhaul
	bench/run --binary $(TARGET_DIR)/release/longhaul $(ARGS)

# A minute of `make test` tries few interleavings; an hour tries many.
TORTURE_FOR ?= 1h
.PHONY: torture
torture: ## Kill, pause and cut off real servers on both stores, and judge their history (TORTURE_FOR=1h)
	@scripts/setup-build
	cargo build --release --locked --bin longhaul
	e2e/torture/run --binary $(TARGET_DIR)/release/longhaul --store both --seed $(TEST_FIRST_SEED) \
		--for $(TORTURE_FOR) --keep $(TARGET_DIR)/torture $(ARGS)

TORTURE_CASES ?= 2000
.PHONY: torture-plans
torture-plans: setup-test ## Repeat the Rust tests with many more random plans (TORTURE_FOR=1h)
	@echo "== seeds from $(TEST_FIRST_SEED)"
	INSTA_UPDATE=no PROPTEST_CASES=$(TORTURE_CASES) scripts/with-postgres \
		cargo nextest run $(EVERYTHING) \
		--profile torture --stress-duration $(TORTURE_FOR) $(ARGS)

# RUSTC_BOOTSTRAP lets the stable compiler build for libFuzzer, which measures coverage.
# Archives get a third of the time, the other parsers together the rest.
FUZZ_SECONDS ?= 300
FUZZ_ARCHIVE := crates/longhaul-net/fuzz
FUZZ_READERS := crates/longhaul-server/fuzz
.PHONY: fuzz
fuzz: ## Fuzz every parser of foreign input with libFuzzer (FUZZ_SECONDS=300)
	@scripts/setup-test 'cargo-fuzz@^0.13'
	mkdir -p $(FUZZ_ARCHIVE)/corpus/archive $(FUZZ_READERS)/corpus/readers
	LONGHAUL_FUZZ_CORPUS=$(abspath $(FUZZ_ARCHIVE))/corpus/archive \
		cargo nextest run $(EVERYTHING) -E 'package(longhaul-net) & test(where_the_fuzzer_looks)'
	LONGHAUL_FUZZ_CORPUS=$(abspath $(FUZZ_READERS))/corpus/readers \
		cargo nextest run $(EVERYTHING) -E 'package(longhaul-server) & test(where_the_fuzzer_looks)'
	export RUSTC_BOOTSTRAP=1
	cargo fuzz run --fuzz-dir $(FUZZ_ARCHIVE) --sanitizer none archive -- \
		-max_total_time=$$(($(FUZZ_SECONDS) / 3)) -max_len=65536 -rss_limit_mb=512 $(ARGS)
	cargo fuzz run --fuzz-dir $(FUZZ_READERS) --sanitizer none readers -- \
		-max_total_time=$$(($(FUZZ_SECONDS) * 2 / 3)) -max_len=4096 -rss_limit_mb=1024 -timeout=10 $(ARGS)

.PHONY: mutants
mutants: ## Mutate the code and check that a test notices
	@scripts/setup-test 'cargo-mutants@^27'
	scripts/with-postgres cargo mutants --workspace --all-features --test-tool nextest --no-shuffle $(ARGS)

.PHONY: mutants-sql
mutants-sql: setup-test ## Break one SQL statement at a time and check that the tests of its store notice
	@scripts/with-postgres crates/longhaul/tests/mutants.sh sqlite postgres $(ARGS)

.PHONY: mutants-engine
mutants-engine: setup-test ## Break one line of the engine at a time and check that the simulation notices
	@crates/longhaul/tests/mutants.sh engine $(ARGS)

.PHONY: clean-data
clean-data: ## Delete ./longhaul-data, the data of `make run`
	@rm -rf longhaul-data

.PHONY: setup-test
setup-test:
	@scripts/setup-test
