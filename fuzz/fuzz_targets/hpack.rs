//! `cargo +nightly fuzz run hpack`: the checks of http2's tests on compressed fields that the fuzzer finds.
#![no_main]

#[path = "../../straightline/http2/tests/it/checks.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::fields(bytes);
});
