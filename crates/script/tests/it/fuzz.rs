//! The checks of the boundary on generated inputs, with a fixed seed.

use crate::checks;

/// Inputs of each kind: a few seconds.
const INPUTS: u32 = 400;

/// Source: Marsaglia, "Xorshift RNGs", 2003.
struct Random(u64);

impl Random {
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

#[test]
fn generated_scripts_run_or_are_refused() {
    let mut random = Random(0x5eed_0f10_a1a2_a3a4);
    for _ in 0..INPUTS {
        let words = (0..random.below(24)).map(|_| WORDS[random.below(WORDS.len())]);
        let text: String = words.collect();
        // With the compiler on, an endless loop cannot be stopped: that is documented, and not looked for.
        checks::source(text.replace("jit.on() ", "").as_bytes());
    }
}

#[test]
fn generated_answers_come_back_as_they_were() {
    let mut random = Random(0x5eed_0f10_b1b2_b3b4);
    let parts: [&[u8]; 9] = [
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
    for _ in 0..INPUTS {
        let bytes: Vec<u8> =
            (0..random.below(12)).flat_map(|_| parts[random.below(parts.len())].to_vec()).collect();
        checks::answer(&bytes);
    }
}
