//! `cargo +nightly fuzz run session`: the check of load's tests on inputs that the fuzzer finds.
#![no_main]

#[path = "../../crates/load/tests/it/framing.rs"]
mod framing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    if let Some((first, rest)) = bytes.split_first() {
        framing::check(rest, first & 1 == 1);
    }
});
