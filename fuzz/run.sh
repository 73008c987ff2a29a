#!/bin/sh
# Builds one fuzz target with coverage and AddressSanitizer and runs it: ./run.sh TARGET [libFuzzer options].
set -eu
cd "$(dirname "$0")"
target=$1
shift
host=$(rustc +nightly -vV | sed -n 's/^host: //p')
RUSTFLAGS="-Cpasses=sancov-module -Cllvm-args=-sanitizer-coverage-level=4 \
 -Cllvm-args=-sanitizer-coverage-inline-8bit-counters -Cllvm-args=-sanitizer-coverage-pc-table \
 -Cllvm-args=-sanitizer-coverage-trace-compares -Zsanitizer=address -Coverflow-checks -Cdebug-assertions -Ccodegen-units=1" \
 cargo +nightly build --release --quiet --target "$host" --bin "$target"
mkdir -p "corpus/$target"
exec "${CARGO_TARGET_DIR:-target}/$host/release/$target" -dict=http.dict "corpus/$target" "$@"
