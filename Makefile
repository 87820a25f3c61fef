# Every target sees to its own set-up: `make test` is all that a fresh machine needs.

SHELL := bash
.SHELLFLAGS := -euo pipefail -c
.ONESHELL:
MAKEFLAGS += --no-builtin-rules
.NOTPARALLEL:
.DEFAULT_GOAL := help

export PATH := $(CURDIR)/.tools/bin:$(CURDIR)/.tools/venv/bin:$(PATH)
TARGET_DIR := $(or $(CARGO_TARGET_DIR),target)

# One set of packages and features for everything that compiles, so that it compiles once.
EVERYTHING := --workspace --all-features --locked
NEXTEST_PROFILE := $(if $(CI),ci,default)

.PHONY: help
help: ## Show this list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)
	echo
	echo "  ARGS is passed on, e.g. make run ARGS='--listen 127.0.0.1:9000'"

.PHONY: run
run: ## Build the server with light optimization and start it
	@scripts/setup-build
	cargo build --profile quick --locked --bin longhaul
	exec $(TARGET_DIR)/quick/longhaul serve $(ARGS)

.PHONY: fmt
fmt: ## Format the code
	@cargo fmt --all

# nextest comes last, so that what is read last is how many tests there were and how they went.
.PHONY: test
test: check test-doc test-api test-e2e test-bench test-rust ## Check and test everything, as CI does
	@echo "make test: everything passed."

.PHONY: check
check: setup-test ## Format, lints, licences, spelling and house rules: all but the tests
	@echo "== format"
	cargo fmt --all --check
	echo "== house rules"
	python3 scripts/tidy.py --self-test
	python3 scripts/tidy.py
	echo "== spelling"
	typos
	echo "== shell"
	shellcheck $$(git grep -lE '^#!.*\b(bash|sh)$$')
	echo "== licences, bans, sources"
	cargo deny --locked --log-level error --all-features check bans licenses sources
	echo "== clippy"
	cargo clippy $(EVERYTHING) --all-targets --quiet -- -D warnings

.PHONY: test-doc
test-doc: setup-test ## The examples in the documentation
	@echo "== documentation"
	cargo test $(EVERYTHING) --doc --quiet
	RUSTDOCFLAGS="-D warnings" cargo doc $(EVERYTHING) --no-deps --quiet

.PHONY: test-api
test-api: setup-test ## The running server against its own OpenAPI document
	@echo "== openapi"
	cargo build $(EVERYTHING) --bins --tests --quiet
	scripts/schemathesis

# e2e/run drives the real binary from outside, where that takes more than Rust.
.PHONY: test-e2e
test-e2e: setup-test
	@if [[ -x e2e/run ]]; then
		echo "== end to end"
		cargo build $(EVERYTHING) --bins --tests --quiet
		LONGHAUL_BINARY=$(abspath $(TARGET_DIR))/debug/longhaul e2e/run
	fi

# The committed pictures are the debug build's, which draws what the release build draws.
.PHONY: gallery
gallery: setup-test ## Draw docs/gallery.md anew, and compare with mermaid's own pictures
	@cargo build $(EVERYTHING) --bins --tests --quiet
	scripts/gallery.py $(TARGET_DIR)/debug/longhaul
	node e2e/comparison/sheet.mjs .tools/node/node_modules $(TARGET_DIR)/artifacts

# Only that every scenario runs: a release build would cost minutes here, and on the debug build that
# is there anyway the numbers mean nothing. They are not shown.
.PHONY: test-bench
test-bench: setup-test
	@echo "== benchmarks run"
	cargo build $(EVERYTHING) --bins --tests --quiet
	python3 bench/goals_test.py --quiet
	bench/run --quick --binary $(TARGET_DIR)/debug/longhaul >/dev/null

.PHONY: test-rust
test-rust: setup-test ## The Rust tests; ARGS names some: make test-rust ARGS=cancel
	@echo "== tests"
	INSTA_UPDATE=no scripts/with-postgres \
		cargo nextest run $(EVERYTHING) --profile $(NEXTEST_PROFILE) $(ARGS)

.PHONY: bench
bench: ## Measure beside the disk and plain SQLite; ARGS=--postgres: beside peers on Postgres
	@scripts/setup-build
	cargo build --release --locked --bin longhaul
	bench/run --binary $(TARGET_DIR)/release/longhaul $(ARGS)

# A minute of `make test` looks at few of the orders in which things can go wrong; an hour at many.
TORTURE_FOR ?= 1h
TORTURE_CASES ?= 2000
.PHONY: torture
torture: setup-test ## The tests again and again with many more random plans (TORTURE_FOR=1h)
	@INSTA_UPDATE=no PROPTEST_CASES=$(TORTURE_CASES) scripts/with-postgres \
		cargo nextest run $(EVERYTHING) \
		--profile torture --stress-duration $(TORTURE_FOR) $(ARGS)

# RUSTC_BOOTSTRAP lets the stable compiler build for libFuzzer, which counts which code it reached.
# Of the time, archives get a third: they are one reader of some thirty-five.
FUZZ_SECONDS ?= 300
FUZZ_ARCHIVE := crates/longhaul-net/fuzz
FUZZ_READERS := crates/longhaul-server/fuzz
.PHONY: fuzz
fuzz: ## Give what libFuzzer makes of a few good texts to all that reads from outside (FUZZ_SECONDS=300)
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
mutants: ## Change the code at random places and see whether a test notices
	@scripts/setup-test 'cargo-mutants@^27'
	scripts/with-postgres cargo mutants --workspace --all-features --test-tool nextest --no-shuffle $(ARGS)

.PHONY: mutants-sql
mutants-sql: ## Break one SQL statement at a time and see whether the conformance suite notices
	@scripts/setup-build
	crates/longhaul/tests/mutants.sh $(ARGS)

.PHONY: clean-data
clean-data: ## Delete ./longhaul-data, where `make run` keeps its jobs
	@rm -rf longhaul-data

.PHONY: setup-test
setup-test:
	@scripts/setup-test
