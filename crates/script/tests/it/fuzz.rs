//! The checks of the boundary on generated inputs for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (1
//! by default) on.
//!
//! `FUZZ_SECONDS=60 cargo test -p whyslow-script fuzz -- --nocapture` is what CI runs.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::checks;

/// Inputs that are checked however long they take.
const INPUTS: u64 = 100;

/// Source: Marsaglia, "Xorshift RNGs", 2003.
struct Random(u64);

impl Random {
    /// The numbers of one input. Source: Steele, Lea, Flood, "Fast splittable pseudorandom number generators", 2014.
    fn for_input(seed: u64, input: u64) -> Self {
        let mixed = (seed << 32 | input).wrapping_add(1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        Self((mixed ^ mixed >> 31).max(1))
    }

    fn next(&mut self) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        self.0
    }

    fn below(&mut self, bound: usize) -> usize {
        (self.next() % bound as u64) as usize
    }
}

/// Words of Lua and of HTTP: put together at random they are sometimes right.
const WORDS: &[&str] = &[
    "function request() ",
    "function response(s, h, b) ",
    "function delay() ",
    "function done(s, l, r) ",
    "function init(args) ",
    "function setup(thread) ",
    "return ",
    "end ",
    "wrk.format(",
    "wrk.headers",
    "wrk.thread",
    ":stop() ",
    ":get('x') ",
    ":set('x', ",
    "thread",
    "thread.addr = ",
    "wrk.lookup('127.0.0.1', '80')[1] ",
    "wrk.connect(",
    "nil ",
    "wrk = ",
    "{} ",
    "1 ",
    "-1 ",
    "0/0 ",
    "'GET / HTTP/1.1\\r\\n\\r\\n' ",
    ") ",
    "( ",
    "= ",
    "x ",
    "while true do ",
    "local ",
    "error(",
    "pcall(",
    "setmetatable({}, ",
    "_G ",
    "coroutine.wrap(",
    ".. ",
    "\n",
    "l:percentile(",
    "l(",
    "#l ",
    "s.errors.",
    "string.rep('x', 100) ",
    "jit.on() ",
    "\0",
    "\u{ff}",
    "'",
    "--",
];

fn number(name: &str, default: u64) -> u64 {
    std::env::var(name).map_or(default, |value| value.parse().expect("the value is a number"))
}

/// Checks one input after the other. A failure names seed, number and bytes.
#[expect(clippy::print_stdout, reason = "a check says how much it checked")]
fn fuzz(what: &str, generate: fn(&mut Random) -> Vec<u8>, check: fn(&[u8])) {
    let (time, seed) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 1));
    let (start, mut inputs) = (Instant::now(), 0);
    while inputs < INPUTS || start.elapsed() < time {
        let bytes = generate(&mut Random::for_input(seed, inputs));
        catch_unwind(AssertUnwindSafe(|| check(&bytes)))
            .unwrap_or_else(|_| panic!("seed {seed}, input {inputs}: \"{}\"", bytes.escape_ascii()));
        inputs += 1;
    }
    println!("{what}, seed {seed}, {} s: {inputs} inputs", time.as_secs());
}

#[test]
fn fuzz_scripts_run_or_are_refused() {
    let generate = |random: &mut Random| {
        let words = (0..random.below(24)).map(|_| WORDS[random.below(WORDS.len())]);
        words.collect::<String>().into_bytes()
    };
    fuzz("scripts", generate, checks::source);
}

#[test]
fn fuzz_answers_come_back_as_they_were() {
    const PARTS: [&[u8]; 9] = [
        b"HTTP/1.1 200 OK\r\n",
        b"A: b\r\n",
        b"\r\n",
        b"GET / HTTP/1.1\r\n\r\n",
        b"\0\xff",
        b"Content-Length: 3\r\n",
        b"abc",
        b"Transfer-Encoding: chunked\r\n",
        b"3\r\nabc\r\n0\r\n\r\n",
    ];
    let generate = |random: &mut Random| {
        (0..random.below(12)).flat_map(|_| PARTS[random.below(PARTS.len())].to_vec()).collect()
    };
    fuzz("answers", generate, checks::answer);
}
