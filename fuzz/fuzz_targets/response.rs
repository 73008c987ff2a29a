//! `cargo +nightly fuzz run response`: the checks of http1's tests on inputs that the fuzzer finds.
#![no_main]

#[path = "../../straightline/http1/tests/it/checks.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::response(bytes);
});
