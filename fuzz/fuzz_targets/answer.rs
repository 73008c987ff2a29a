//! `cargo +nightly fuzz run answer`: any bytes as an answer that a Lua script hears and sends back as a request.
#![no_main]

#[path = "../../crates/script/tests/it/checks.rs"]
#[allow(dead_code, reason = "each target runs one of the checks")]
mod checks;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    checks::answer(bytes);
});
