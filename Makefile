# The commands that a newcomer needs; everything else is `cargo xtask --help` and `whyslow --help`.

WHYSLOW := $(or $(CARGO_TARGET_DIR),target)/release/whyslow

.PHONY: help build demo test targets

help:
	@echo 'make demo      build whyslow and compare its built-in servers (a few minutes)'
	@echo 'make test      every check and every test, as CI runs them'
	@echo 'make targets   install what they need, and build every server under targets/ that this machine can'
	@echo 'make build     build whyslow alone'

build:
	cargo build --release -p whyslow

# An inconclusive or invalid comparison (exit code 4 or 5) is an answer too, and the text says why.
demo: build
	$(WHYSLOW) compare || [ $$? -ge 4 ]

test:
	cargo xtask ci

# As root on Debian, what is missing is installed first. One that does not build is told, and the others go on.
targets: build
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		packages=$$($(WHYSLOW) targets list | sed -n 's/^ *needs .*: apt-get install \([^&|]*\)$$/\1/p' | sort -u); \
		if [ -n "$$packages" ]; then apt-get update && apt-get install -y --no-install-recommends $$packages; fi; \
	fi || echo 'some packages were not installed: whyslow targets list says which'
	$(WHYSLOW) targets list | awk '$$3 == "ready" || $$3 == "buildable" { print $$1 }' | xargs $(WHYSLOW) targets build
