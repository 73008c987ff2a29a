//! The API from the script's side.

use std::time::Duration;

use script::{Errors, Stats, Summary};

use crate::support::{load, options, parts, requests, thread, unlimited};

#[test]
fn without_functions_the_command_line_is_the_request() {
    let request = requests(&thread("")).remove(0);
    let (first, fields, body) = parts(&request);
    assert_eq!(first, "GET /path?q=1 HTTP/1.1");
    assert_eq!(fields, ["Host: 127.0.0.1:8080", "X-Own: a b"]);
    assert_eq!(body, "");
}

#[test]
fn wrk_format_takes_from_wrk_what_it_is_not_given() {
    let cases = [
        ("wrk.format()", "GET /path?q=1 HTTP/1.1", vec!["Host: 127.0.0.1:8080", "X-Own: a b"], ""),
        ("wrk.format('PUT', '/x')", "PUT /x HTTP/1.1", vec!["Host: 127.0.0.1:8080", "X-Own: a b"], ""),
        (
            "wrk.format('POST', nil, { A = 1, B = true }, 'hello')",
            "POST /path?q=1 HTTP/1.1",
            vec!["A: 1", "B: true", "Content-Length: 5", "Host: 127.0.0.1:8080"],
            "hello",
        ),
        (
            "wrk.format('POST', nil, { ['transfer-encoding'] = 'Chunked' }, 'hello, hello, hello')",
            "POST /path?q=1 HTTP/1.1",
            vec!["Host: 127.0.0.1:8080", "transfer-encoding: Chunked"],
            "13\r\nhello, hello, hello\r\n0\r\n\r\n",
        ),
        (
            "wrk.format('POST', nil, { ['Transfer-Encoding'] = 'chunked' }, '2\\r\\nhi\\r\\n0\\r\\n\\r\\n')",
            "POST /path?q=1 HTTP/1.1",
            vec!["Host: 127.0.0.1:8080", "Transfer-Encoding: chunked"],
            "2\r\nhi\r\n0\r\n\r\n",
        ),
        ("wrk.format(nil, nil, { Host = 'other' })", "GET /path?q=1 HTTP/1.1", vec!["Host: other"], ""),
    ];
    for (call, first, fields, body) in cases {
        let request = requests(&thread(&format!("request = function() return {call} end"))).remove(0);
        assert_eq!(
            parts(&request),
            (first.to_owned(), fields.iter().map(|f| (*f).to_owned()).collect(), body.to_owned()),
            "{call}"
        );
    }
}

#[test]
fn the_fields_of_wrk_are_those_of_the_url() {
    let source = "assert(wrk.scheme == 'http' and wrk.host == '127.0.0.1' and wrk.port == '8080')
        assert(wrk.path == '/path?q=1' and wrk.method == 'GET' and wrk.body == nil and wrk.thread == nil)
        assert(require('wrk') == wrk)
        function init(args)
          assert(args[0] == 'http://127.0.0.1:8080/path?q=1' and args[1] == 'one' and args[2] == 'two')
          assert(#args == 2 and wrk.headers['Host'] == '127.0.0.1:8080')
          assert(tostring(wrk.thread.addr) == '127.0.0.1:8080')
        end";
    assert!(load(source, 1).is_ok(), "{:?}", load(source, 1).err());
    let mut six = options("");
    (six.host, six.port) = ("::1".to_owned(), None);
    let mut script = script::Script::load(&six, 1, &unlimited()).unwrap();
    let request = requests(&script.take_threads()[0]).remove(0);
    assert!(request.contains("\r\nHost: [::1]\r\n"), "{request}");
}

#[test]
fn each_thread_has_a_state_and_values_are_copied_between_them() {
    let source = "
        local threads = {}
        function setup(thread)
          threads[#threads + 1] = thread
          thread:set('id', #threads)
          thread:set('deep', { list = { 1, 2, { yes = true } }, text = 'a\\0b' })
        end
        local own = 0
        function request()
          own = own + 1
          assert(deep.list[3].yes and #deep.text == 3)
          count = own
          return wrk.format(nil, '/' .. id .. '/' .. own)
        end
        function done()
          assert(threads[1]:get('count') == 4 and threads[2]:get('count') == 1)
          assert(threads[1]:get('deep').list[2] == 2 and threads[1]:get('nothing') == nil)
        end";
    let mut script = load(source, 2).unwrap();
    let threads = script.take_threads();
    let paths: Vec<String> = [0, 0, 0, 1]
        .iter()
        .map(|thread| parts(&requests(&threads[*thread]).remove(0)).0.split(' ').nth(1).unwrap().to_owned())
        .collect();
    // The first thread is asked once beforehand, and what it says then is not sent.
    assert_eq!(paths, ["/1/2", "/1/3", "/1/4", "/2/1"]);
    script.done(&Summary::default(), Stats::default(), Stats::default()).unwrap();
}

#[test]
fn a_thread_has_an_address_and_can_be_stopped() {
    let source = "
        function setup(thread)
          assert(tostring(thread.addr) == '127.0.0.1:8080')
          thread.addr = wrk.lookup('127.0.0.2', '81')[1]
        end
        function response(status)
          if status == 200 then wrk.thread:stop() end
        end";
    let mut thread = thread(source);
    assert_eq!(thread.address().unwrap().to_string(), "127.0.0.2:81");
    thread.response(500, b"HTTP/1.1 500 X\r\n\r\n", b"").unwrap();
    assert!(!thread.is_stopped());
    thread.response(200, b"HTTP/1.1 200 OK\r\n\r\n", b"").unwrap();
    assert!(thread.is_stopped());
}

#[test]
fn an_answer_comes_with_status_fields_and_body() {
    let source = "
        function response(status, headers, body)
          assert(status == 201 and headers['X-Token'] == 'abc' and headers['x-token'] == nil)
          assert(headers['Twice'] == 'b' and body == 'a\\0b\\255')
          wrk.path = '/heard'
        end
        function request() return wrk.format() end";
    let mut thread = thread(source);
    let head = b"HTTP/1.1 201 Created\r\nX-Token:  abc \r\nTwice: a\r\nTwice: b\r\n\r\n";
    thread.response(201, head, b"a\0b\xff").unwrap();
    assert!(requests(&thread)[0].starts_with("GET /heard "));
}

#[test]
fn what_a_script_does_is_found_out_after_init() {
    let cases = [
        ("", [false, false, false], 1),
        ("function request() return wrk.format() end", [true, false, false], 1),
        ("function init() function delay() return 1 end end", [false, true, false], 1),
        ("function response() end", [false, false, true], 1),
        ("function request() local r = wrk.format() return r .. r .. r end", [true, false, false], 3),
    ];
    for (source, [requests, delays, listens], at_once) in cases {
        let script = load(source, 1).unwrap();
        let kind = script.kind();
        assert_eq!([kind.requests, kind.delays, kind.listens], [requests, delays, listens], "{source}");
        assert_eq!(kind.at_once, at_once, "{source}");
    }
}

#[test]
fn delays_are_milliseconds() {
    for (value, ms) in [("0", 0), ("12", 12), ("12.9", 12), ("'7'", 7)] {
        let thread = thread(&format!("function delay() return {value} end"));
        assert_eq!(thread.delay().unwrap(), Duration::from_millis(ms), "{value}");
    }
}

#[test]
fn done_sees_the_figures() {
    let source = "
        function done(summary, latency, requests)
          assert(summary.duration == 2000000 and summary.requests == 10 and summary.bytes == 1234)
          local e = summary.errors
          assert(e.connect == 1 and e.read == 2 and e.write == 3 and e.status == 4 and e.timeout == 5)
          assert(latency.min == 10 and latency.max == 1000.5 and latency.mean == 110 and latency.stdev == 3)
          assert(latency:percentile(50) == 10 and latency:percentile(90) == 10)
          assert(latency:percentile(99) == 1000.5 and latency:percentile(100) == 1000.5)
          assert(#latency == 2 and latency[2] == 1000.5)
          local value, count = latency(1)
          assert(value == 10 and count == 9)
          value, count = latency(2)
          assert(value == 1000.5 and count == 1)
          value, count = latency(3)
          assert(value == 0 and count == 0)
          assert(#requests == 0 and requests:percentile(50) == 0)
        end";
    let errors = Errors { connect: 1, read: 2, write: 3, status: 4, timeout: 5 };
    let summary = Summary { duration_us: 2_000_000, requests: 10, bytes: 1234, errors };
    let values = vec![(10.0, 9), (1000.5, 1)];
    let latency = Stats { min: 10.0, max: 1000.5, mean: 110.0, stdev: 3.0, values };
    load(source, 2).unwrap().done(&summary, latency, Stats::default()).unwrap();
}

#[test]
fn functions_may_be_redefined_at_any_time() {
    let source = "
        function request()
          request = function() return wrk.format(nil, '/second') end
          return wrk.format(nil, '/first')
        end";
    // The first call is the trial.
    assert!(requests(&thread(source))[0].starts_with("GET /second "));
}
