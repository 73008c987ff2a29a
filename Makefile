# The commands that a newcomer needs; everything else is `cargo xtask --help` and `whyslow --help`.

WHYSLOW := $(or $(CARGO_TARGET_DIR),target)/release/whyslow

# The same code, built in a third of the time.
DEMO := $(or $(CARGO_TARGET_DIR),target)/demo/whyslow

XTASK := $(or $(CARGO_TARGET_DIR),target)/debug/xtask

# Where `make install` puts the program, its pages and completions; DESTDIR is put before all paths, for packagers.
PREFIX ?= /usr/local
DESTDIR ?=
SHARE = $(DESTDIR)$(PREFIX)/share

.PHONY: help build demo test targets charts web web-test install uninstall dist

help:
	@echo 'make demo      build whyslow and compare its built-in servers (a few minutes)'
	@echo 'make test      every check and every test, as CI runs them'
	@echo 'make targets   install what they need, and build every server under targets/ that this machine can'
	@echo 'make web       build the charts of the report page (Node 20)'
	@echo 'make web-test  drive the report page in Chromium'
	@echo 'make build     build whyslow alone'
	@echo 'make install   put what was built, man pages and completions under PREFIX (/usr/local); make uninstall removes them'
	@echo 'make dist      what a release consists of, tried out, under target/dist'

build:
	cargo build --release -p whyslow

# An inconclusive or invalid comparison (exit code 4 or 5) is an answer too, and the text says why.
demo: charts
	cargo build --profile demo -p whyslow
	$(DEMO) compare --quick || [ $$? -ge 4 ]
	$(DEMO) report "$$(ls -td whyslow-runs/*/ | head -n 1)" -o report.html

# Without Node whyslow is built without charts; its pages say so.
charts:
	@command -v npm >/dev/null && $(MAKE) web || echo 'no Node: the report page will have tables and no charts'

web: web/node_modules
	npm --prefix web run --silent build

web/node_modules: web/package-lock.json
	npm --prefix web ci --no-audit --no-fund
	@touch $@

web-test: web
	cargo build -p whyslow
	WHYSLOW=$(abspath $(or $(CARGO_TARGET_DIR),target)/debug/whyslow) npm --prefix web test

# All at once: built alone, xtask has fewer features of what it shares with the tests, which would be built twice.
test:
	cargo build --workspace --bins --tests --examples
	$(XTASK) ci

# As root on Debian, what is missing is installed first. One that does not build is told, and the others go on.
targets: build
	@if [ "$$(id -u)" = 0 ] && command -v apt-get >/dev/null; then \
		packages=$$($(WHYSLOW) targets list | sed -n 's/^ *needs .*: apt-get install \([^&|]*\)$$/\1/p' | sort -u); \
		if [ -n "$$packages" ]; then apt-get update && apt-get install -y --no-install-recommends $$packages; fi; \
	fi || echo 'some packages were not installed: whyslow targets list says which'
	$(WHYSLOW) targets list | awk '$$3 == "ready" || $$3 == "buildable" { print $$1 }' | xargs $(WHYSLOW) targets build

# Root often has no Rust, so that this builds nothing: `make charts build && sudo make install`. A page is named by the page
# above it: those of commands by that of the program, those of commands of commands by theirs.
install:
	@test -x $(WHYSLOW) || { echo 'nothing is built yet: make charts build' >&2; exit 1; }
	install -D -m 755 $(WHYSLOW) $(DESTDIR)$(PREFIX)/bin/whyslow
	install -d $(SHARE)/man/man1 $(SHARE)/bash-completion/completions $(SHARE)/zsh/site-functions $(SHARE)/fish/vendor_completions.d
	@set -e; \
	below() { $(WHYSLOW) man $$1 | sed -n 's/^whyslow\\-\(.*\)(1)$$/\1/p' | sed 's/\\-/-/g' | grep -v 'help$$' || true; }; \
	$(WHYSLOW) man >$(SHARE)/man/man1/whyslow.1; \
	for command in $$(below); do for page in $$command $$(below $$command); do \
		$(WHYSLOW) man $$page >$(SHARE)/man/man1/whyslow-$$page.1; \
	done; done
	$(WHYSLOW) completions bash >$(SHARE)/bash-completion/completions/whyslow
	$(WHYSLOW) completions zsh >$(SHARE)/zsh/site-functions/_whyslow
	$(WHYSLOW) completions fish >$(SHARE)/fish/vendor_completions.d/whyslow.fish

uninstall:
	rm -f $(DESTDIR)$(PREFIX)/bin/whyslow $(SHARE)/man/man1/whyslow.1 $(SHARE)/man/man1/whyslow-*.1
	rm -f $(SHARE)/bash-completion/completions/whyslow $(SHARE)/zsh/site-functions/_whyslow
	rm -f $(SHARE)/fish/vendor_completions.d/whyslow.fish

dist:
	cargo xtask dist
