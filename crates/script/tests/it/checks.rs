//! What must hold of any bytes at the boundary; the fuzzer runs the same.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};

use script::{Limit, Options, Script, ScriptError, requests};

/// Looks at the limit that a script is given: some ten milliseconds.
const LOOKS: u32 = 100;

/// Returns to each request what the last answer brought.
const ECHO: &str = "
    local answer = wrk.format()
    function delay() return #answer end
    function request() return answer end
    function response(status, headers, body)
      local fields = 0
      for name, value in pairs(headers) do
        assert(type(name) == 'string' and type(value) == 'string')
        fields = fields + 1
      end
      answer = body
      last = { status = status, headers = headers, body = body, fields = fields }
    end
    function setup(thread) own = thread end
    function done(summary, latency) copied = own:get('last') assert(copied == nil or copied.body) end";

/// Bytes as an answer: they come back as they went in, and as a request they are cut without loss or refused.
pub(crate) fn answer(bytes: &[u8]) {
    let mut script = load(ECHO.as_bytes()).expect("it is a good script");
    let mut threads = script.take_threads();
    let split = bytes.len() / 2;
    threads[0].response(200, &bytes[..split], &bytes[split..]).expect("any bytes may be an answer");
    let mut whole = Vec::new();
    let cut: Result<Vec<&[u8]>, _> = requests(&bytes[split..]).collect();
    match threads[0].request(|request| whole.extend_from_slice(request)) {
        Ok(()) => assert_eq!((whole.as_slice(), cut.is_ok()), (&bytes[split..], true)),
        Err(error) => assert!(cut.is_err(), "{error}"),
    }
    threads[0].delay().expect("a length is a delay");
    script
        .done(&Default::default(), Default::default(), Default::default())
        .expect("what was heard can be copied");
}

/// Bytes as a script: it runs or it is refused with the name of its file, and it ends.
pub(crate) fn source(bytes: &[u8]) {
    // A script may write files, run programs and end the process: that is not what is looked for.
    let tame =
        [b"io,os,print,package,require,loadstring,load,dofile,loadfile=nil ".as_slice(), bytes].concat();
    match load(&tame) {
        Ok(mut script) => {
            for mut thread in script.take_threads() {
                let _ = thread.request(|request| assert!(!request.is_empty()));
                let _ = thread.delay();
                let _ = thread.response(200, b"HTTP/1.1 200 OK\r\nA: b\r\n\r\n", bytes);
            }
            let _ = script.done(&Default::default(), Default::default(), Default::default());
        }
        Err(error) => {
            let error = error.to_string();
            assert!(error.starts_with("f.lua") && !error.contains('\n'), "{error}");
        }
    }
}

fn load(source: &[u8]) -> Result<Script, ScriptError> {
    let options = Options {
        file: "f.lua".to_owned(),
        source: source.to_vec(),
        scheme: "http".to_owned(),
        host: "127.0.0.1".to_owned(),
        path: "/".to_owned(),
        method: "GET".to_owned(),
        ..Options::default()
    };
    let looks = AtomicU32::new(0);
    let limit: Limit = Arc::new(move || {
        let looks = looks.fetch_add(1, Ordering::Relaxed);
        (looks > LOOKS).then_some("enough")
    });
    Script::load(&options, 1, &limit)
}
