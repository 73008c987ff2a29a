//! `cargo +nightly fuzz run session`: the check of load's tests on inputs that the fuzzer finds.
#![no_main]

#[path = "../../crates/load/tests/it/framing.rs"]
mod framing;

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    use framing::Spoken;
    const SPOKEN: [Spoken; 8] = [
        Spoken::Http1,
        Spoken::Head,
        Spoken::WebSocket,
        Spoken::Events,
        Spoken::Http2,
        Spoken::Grpc,
        Spoken::Http3,
        Spoken::Upgrade,
    ];
    if let Some((first, rest)) = bytes.split_first() {
        framing::check(rest, SPOKEN[usize::from(*first) % SPOKEN.len()]);
    }
});
