//! Generated connections and fields, for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (6 by default) on.

use crate::checks;
use http2::frame;
use std::time::{Duration, Instant};

struct Random(u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0 % bound
    }

    fn bytes(&mut self, most: u64) -> Vec<u8> {
        (0..self.below(most + 1)).map(|_| self.below(256) as u8).collect()
    }
}

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |text| text.parse().expect("the value is a number"))
}

/// A request's fields: those of GET and some that the table knows.
fn block(random: &mut Random) -> Vec<u8> {
    let mut block = vec![0x82, 0x86, 0x84, 0x01, 1, b'x'];
    for _ in 0..random.below(3) {
        match random.below(4) {
            0 => block.extend_from_slice(b"\x40\x01a\x01b"),
            1 => block.extend_from_slice(b"\x0f\x0d\x011"),
            2 => block.push(0x80 | random.below(70) as u8),
            _ => block.extend_from_slice(&random.bytes(4)),
        }
    }
    block
}

fn frames(random: &mut Random) -> Vec<u8> {
    let mut out = Vec::new();
    for _ in 0..=random.below(12) {
        let stream = 2 * random.below(5) as u32 + u32::from(random.below(20) > 0);
        let kind = random.below(11) as u8;
        let (flags, payload) = match kind {
            frame::HEADERS | frame::CONTINUATION => (4 | random.below(2) as u8, block(random)),
            frame::RST_STREAM | frame::WINDOW_UPDATE => (0, vec![0, random.below(2) as u8, 0, 1]),
            frame::PING | frame::GOAWAY => (random.below(2) as u8, vec![0; 8]),
            frame::SETTINGS => (0, vec![0, random.below(7) as u8, 0, 0, random.below(256) as u8, 0]),
            _ => (random.below(2) as u8, random.bytes(20)),
        };
        let of_connection =
            matches!(kind, frame::SETTINGS | frame::PING | frame::GOAWAY) || random.below(30) == 0;
        let flags = if random.below(12) == 0 { random.below(256) as u8 } else { flags };
        frame::whole(&mut out, kind, flags, if of_connection { 0 } else { stream }, &payload);
    }
    for _ in 0..random.below(3) {
        let at = random.below(out.len() as u64) as usize;
        out[at] ^= 1 << random.below(8);
    }
    out
}

fn run(what: &str, generate: fn(&mut Random) -> Vec<u8>, check: fn(&[u8]) -> usize) {
    let time = Duration::from_secs(number("FUZZ_SECONDS", 2));
    let seed = number("FUZZ_SEED", 6);
    let mut random = Random(seed.max(1));
    let (start, mut inputs, mut found) = (Instant::now(), 0u64, 0);
    while start.elapsed() < time {
        let bytes = generate(&mut random);
        let checked = std::panic::catch_unwind(|| check(&bytes));
        found += checked.unwrap_or_else(|_| panic!("{what}, seed {seed}, input {inputs}: {bytes:?}"));
        inputs += 1;
    }
    println!("{what}, seed {seed}: {inputs} inputs, {found} found");
    assert!(found > 100, "the inputs reach what is tested: {found} of {inputs}");
}

#[test]
fn fuzz_connections() {
    run("connections", frames, checks::connection);
}

#[test]
fn fuzz_fields() {
    run("fields", block, checks::fields);
}
