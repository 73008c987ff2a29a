//! A script that does not end is stopped, where it is and whatever it catches.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use script::{Limit, Script};

use crate::support::{options, requests};

/// A limit that is reached at its third look.
fn third_look() -> Limit {
    let looks = AtomicU32::new(0);
    Arc::new(move || (looks.fetch_add(1, Ordering::Relaxed) >= 2).then_some("the window is over"))
}

const LOOPS: &[&str] = &[
    "while true do end",
    "\n\nwhile true do end",
    "function init() while true do end end",
    "function setup() repeat until false end",
    "function request() while true do end end",
    "while true do pcall(function() while true do end end) end",
    "local function again() pcall(again) return again() end again()",
    "coroutine.wrap(function() while true do end end)()",
    "while true do coroutine.wrap(function() pcall(function() while true do end end) end)() end",
    "local t = setmetatable({}, { __index = function(t, k) while true do end end }) local x = t.y",
    "for i = 1, math.huge do local s = ('x'):rep(100) end",
    "while true do xpcall(error, function() while true do end end) end",
    "jit.on() while true do end",
    "jit.off() jit.flush() jit.on(true, true) require('jit').on() jit.opt.start(3) while true do end",
    "jit.on() function request() local n = 0 while true do n = n + 1 end end",
];

#[test]
fn whatever_loops_is_stopped_with_its_line() {
    for source in LOOPS {
        let begun = Instant::now();
        let error = Script::load(&options(source), 1, &third_look()).err().map(|error| error.to_string());
        let error = error.unwrap_or_default();
        assert!(error.starts_with("s.lua:") && error.contains("stopped while it ran"), "{source}: {error}");
        assert!(begun.elapsed() < Duration::from_secs(10), "{source}");
    }
    let error = Script::load(&options(LOOPS[1]), 1, &third_look()).unwrap_err().to_string();
    assert_eq!(error, "s.lua:3: stopped while it ran: the window is over");
}

#[test]
fn a_limit_that_is_not_reached_disturbs_nothing() {
    let source = "local n = 0
        function request() for i = 1, 100000 do n = n + 1 end return wrk.format(nil, '/' .. n) end";
    let looks = Arc::new(AtomicU32::new(0));
    let counted = Arc::clone(&looks);
    let limit: Limit = Arc::new(move || {
        counted.fetch_add(1, Ordering::Relaxed);
        None
    });
    let mut script = Script::load(&options(source), 1, &limit).unwrap();
    assert!(requests(&script.take_threads()[0])[0].starts_with("GET /200000 "));
    assert!(looks.load(Ordering::Relaxed) >= 20, "the limit is looked at as it runs");
}
