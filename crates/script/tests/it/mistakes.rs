//! What is wrong with a script is said with its file and line.

use crate::support::{load, thread};

#[test]
fn a_mistake_before_the_run_names_its_line() {
    let cases = [
        ("x = = 1", "s.lua:1: unexpected symbol near '='"),
        ("\n\nerror('no')", "s.lua:3: no"),
        ("#!/usr/bin/env wrk\nerror('no')", "s.lua:2: no"),
        ("function init()\n  nothing.at = 1\nend", "s.lua:2: attempt to index global 'nothing'"),
        ("function setup(thread)\n  thread:set('f', function() end)\nend", "s.lua:2: cannot copy a function"),
        (
            "function setup(thread)\n  local t = {}\n  t.t = t\n  thread:set('t', t)\nend",
            "s.lua:4: cannot copy a table",
        ),
        ("function setup(thread)\n  thread.addr = 'x'\nend", "s.lua:2: "),
        ("function setup(thread)\n  thread.name = 'x'\nend", "s.lua:2: "),
        ("function setup()\n  wrk.lookup('127.0.0.1', 'gopher')\nend", "s.lua:2: 'gopher' is not a service"),
        (
            "\nwrk.lookup('no.such.host.invalid', '80')",
            "s.lua:2: the host 'no.such.host.invalid' has no address",
        ),
        ("\nrequire('ffi')", "s.lua:2: "),
        ("function request() return nil end", "s.lua: request() returned a nil, not the text of a request"),
        ("function request() return {} end", "s.lua: request() returned a table"),
        ("function request() return '' end", "s.lua: request() returned what is not a request: it is empty"),
        (
            "function request() return 'hello\\r\\n\\r\\n' end",
            "its first line is not 'METHOD /path HTTP/1.1'",
        ),
        ("function request() return 'GET / HTTP/1.1\\r\\n' end", "its head does not end with an empty line"),
        (
            "function request() return 'GET / HTTP/1.1\\r\\nContent-Length: 2\\r\\n\\r\\nx' end",
            "its body is shorter than its Content-Length",
        ),
        ("function request()\n  error({})\nend", "s.lua"),
        ("wrk = nil", "s.lua: "),
    ];
    for (source, want) in cases {
        let error = load(source, 1).err().map(|error| error.to_string()).unwrap_or_default();
        assert!(error.contains(want) && error.lines().count() == 1, "{source}: {error}");
    }
}

#[test]
fn a_mistake_in_the_run_names_its_line() {
    let calls = "local calls = 0
        function request() calls = calls + 1
          if calls == 2 then
            local x = nil .. 'x'
          end
          return wrk.format()
        end";
    let error = thread(calls).request(|_| ()).unwrap_err().to_string();
    assert!(error.starts_with("s.lua:4: attempt to concatenate"), "{error}");

    let mut heard = thread("function response(status, headers)\n  return headers['A'].b.c\nend");
    let error = heard.response(200, b"HTTP/1.1 200 OK\r\n\r\n", b"").unwrap_err().to_string();
    assert!(error.starts_with("s.lua:2: attempt to index"), "{error}");

    for (value, want) in
        [("nil", "a nil"), ("-1", "a number"), ("0/0", "a number"), ("1/0", "a number"), ("{}", "a table")]
    {
        let error = thread(&format!("function delay() return {value} end")).delay().unwrap_err().to_string();
        assert_eq!(error, format!("s.lua: delay() returned {want}, not milliseconds from 0 on"), "{value}");
    }
}
