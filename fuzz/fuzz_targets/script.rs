//! `cargo +nightly fuzz run script`: any bytes as a Lua script.
#![no_main]

#[path = "../../crates/script/tests/it/checks.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::source(bytes);
});
