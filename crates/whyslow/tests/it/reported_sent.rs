//! What other tools were reported to send wrongly: how many requests, to whom, and with which fields. docs/benchmarks/reports.md
//! lists them.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde_json::Value;

use crate::reported::{errors, load};
use crate::serving::streams::{self, Conduct};
use crate::support::{fresh_folder, whyslow, within};

/// The heads of all requests, as they came.
type Heads = Arc<Mutex<Vec<String>>>;

/// Answers each request by 200 after `delay`, one to HEAD without the body that it announces, and notes its head.
fn record(listener: TcpListener, delay: Duration) -> (SocketAddr, Heads) {
    let (address, heads) = (listener.local_addr().unwrap(), Heads::default());
    let kept = Arc::clone(&heads);
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let heads = Arc::clone(&kept);
            std::thread::spawn(move || note(stream, delay, &heads));
        }
    });
    (address, heads)
}

fn recorded() -> (SocketAddr, Heads) {
    record(TcpListener::bind("127.0.0.1:0").unwrap(), Duration::ZERO)
}

fn note(mut stream: TcpStream, delay: Duration, heads: &Heads) -> Option<()> {
    let (mut unread, mut buf) = (Vec::new(), [0; 4096]);
    loop {
        match stream.read(&mut buf).ok()? {
            0 => return None,
            bytes => unread.extend_from_slice(&buf[..bytes]),
        }
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let head = String::from_utf8(unread[..end].to_vec()).unwrap();
            let body = head.lines().find_map(|line| line.strip_prefix("Content-Length: "));
            let bytes: usize = body.map_or(0, |text| text.parse().unwrap());
            if unread.len() < end + 4 + bytes {
                break;
            }
            unread.drain(..end + 4 + bytes);
            let body = if head.starts_with("HEAD ") { "" } else { "ok" };
            heads.lock().unwrap().push(head);
            std::thread::sleep(delay);
            stream
                .write_all(format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\n\r\n{body}").as_bytes())
                .ok()?;
        }
    }
}

#[test]
fn a_count_is_sent_exactly_by_whatever_it_is_divided() {
    let cases: [(&[&str], usize); 6] = [
        (&["-t1", "-c50", "-d20s"], 49),
        (&["-t1", "-c2", "-d30s"], 5),
        (&["-t1", "-c1", "--pipeline", "16", "-d20s"], 100),
        (&["-t3", "-c7", "--pipeline", "2", "-d20s"], 101),
        (&["-t2", "-c40", "-d20s", "-X", "POST", "--body", "{}"], 97),
        (&["-t2", "-c8", "-R", "300", "-d20s"], 61),
    ];
    for (flags, count) in cases {
        let (address, heads) = recorded();
        let json = load(address, &[flags, &["--requests", &count.to_string()]].concat());
        let received = heads.lock().unwrap().len();
        assert_eq!((json["requests"].as_u64(), errors(&json)), (Some(count as u64), 0), "{flags:?}: {json}");
        assert_eq!(received, count, "{flags:?}");
    }
}

#[test]
fn what_was_sent_is_answered_or_said_to_be_on_its_way() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let (address, heads) = record(listener, Duration::from_millis(30));
    // More is due than can be answered: some are under way when the window ends.
    let json = load(address, &["-t2", "-c4", "-R", "400", "-d1s"]);
    let number = |name: &str| json[name].as_u64().unwrap();
    let sent = number("requests") + number("unfinished");
    assert_eq!((sent + number("unsent"), errors(&json)), (400, 0), "{json}");
    assert!(number("unfinished") > 0 && number("unsent") > 0, "{json}");
    // A busy machine may let the server read what it was sent when the load is over.
    let received = || heads.lock().unwrap().len() as u64;
    assert!(within(Duration::from_secs(10), || received() == sent), "{} of {json}", received());
}

#[test]
fn a_host_that_is_given_is_the_only_one() {
    let (address, heads) = recorded();
    let list = fresh_folder().join("list.http");
    std::fs::write(&list, "GET /\nHost: cdn.example\n").unwrap();
    let list = format!("--requests={}", list.display());
    for flags in [&["-H", "Host: cdn.example", "--requests", "9", "-d60s"][..], &[&list, "-R", "9", "-d1s"]] {
        heads.lock().unwrap().clear();
        load(address, &[&["-t1", "-c2"], flags].concat());
        for head in &*heads.lock().unwrap() {
            let hosts: Vec<&str> = head.lines().filter(|line| line.starts_with("Host:")).collect();
            assert_eq!(hosts, ["Host: cdn.example"], "{flags:?}");
        }
        assert_eq!(heads.lock().unwrap().len(), 9);
    }
    let (address, count) = streams::serve(Conduct::default());
    let flags = ["-t1", "-c2", "--http2", "-H", "Host: cdn.example", "--requests", "9", "-d20s"];
    let json = load(address, &flags);
    assert_eq!((json["requests"].as_u64(), errors(&json)), (Some(9), 0), "{json}");
    assert_eq!(count.hosts().into_iter().collect::<Vec<_>>(), ["cdn.example"]);
}

#[test]
fn the_host_of_an_address_is_that_of_the_url() {
    for bind in ["127.0.0.1:0", "[::1]:0"] {
        let Ok(listener) = TcpListener::bind(bind) else {
            testkit::skipped(&format!("nothing can listen on {bind}"));
            continue;
        };
        let (address, heads) = record(listener, Duration::ZERO);
        let url = format!("http://{address}/tools/time?a=b");
        let printed = whyslow(&["load", "-t1", "-c1", "--requests", "3", "-d20s", "--format", "json", &url]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        let heads = heads.lock().unwrap();
        assert_eq!(heads.len(), 3);
        let wanted = format!("GET /tools/time?a=b HTTP/1.1\r\nHost: {address}");
        assert!(heads.iter().all(|head| head.starts_with(&wanted)), "{heads:?}");
    }
}

#[test]
fn fields_go_out_as_they_are_written_from_the_first_request_on() {
    let (address, heads) = recorded();
    let list = fresh_folder().join("list.http");
    std::fs::write(&list, "GET /\nX-ACCOUNT-ID: 1\nX-Account-Name: ann\nUser-Agent: own\n").unwrap();
    let (list, fields) = (list.display().to_string(), ["-H", "X-ACCOUNT-ID: 1", "-H", "X-Account-Name: ann"]);
    let given: [&[&str]; 2] = [&["--requests", &list], &[&fields[..], &["-H", "User-Agent: own"]].concat()];
    for flags in given {
        heads.lock().unwrap().clear();
        load(address, &[&["-t2", "-c4", "-R", "40", "-d1s"], flags].concat());
        let heads = heads.lock().unwrap();
        let has = |head: &String| {
            ["X-ACCOUNT-ID: 1", "X-Account-Name: ann", "User-Agent: own"]
                .iter()
                .all(|line| head.lines().filter(|own| own == line).count() == 1)
        };
        assert!(heads.len() == 40 && heads.iter().all(has), "{flags:?}: {heads:?}");
    }
}

#[test]
fn methods_and_paths_of_a_list_stay_together() {
    let list = fresh_folder().join("list.http");
    let text = "### get\n# @weight 9\nGET /get\n\n### save\nPOST /save\n\n{\"a\": 1}\n\n### head\n# @weight 3\nHEAD /head\n";
    std::fs::write(&list, text).unwrap();
    let list = format!("--requests={}", list.display());
    for flags in [["-c4", "--pipeline=1"], ["-c2", "--pipeline=8"]] {
        let (address, heads) = recorded();
        let json = load(address, &[&["-t1", "-R", "400", "-d1s", &list], &flags[..]].concat());
        let number = |json: &Value, name: &str| json[name].as_u64().unwrap();
        let sent = number(&json, "requests") + number(&json, "unfinished");
        assert_eq!((sent, errors(&json)), (400, 0), "{json}");
        let heads = heads.lock().unwrap();
        let lines = |line: &str| heads.iter().filter(|head| head.lines().next() == Some(line)).count() as u64;
        let counts = ["GET /get HTTP/1.1", "POST /save HTTP/1.1", "HEAD /head HTTP/1.1"].map(lines);
        assert_eq!(counts.iter().sum::<u64>(), heads.len() as u64, "{counts:?}");
        let named = ["get", "save", "head"].map(|name| number(&json["requests_by_name"][name], "requests"));
        assert_eq!(named.iter().sum::<u64>(), number(&json, "requests"), "{json}");
        assert!(named.iter().zip(counts).all(|(named, count)| *named <= count), "{named:?} {counts:?}");
    }
}

#[test]
fn a_name_that_has_addresses_of_both_families_is_tried_by_each() {
    let (address, heads) = recorded();
    let url = format!("http://localhost:{}/", address.port());
    let printed = whyslow(&["load", "-t1", "-c3", "--requests", "10", "-d20s", "--format", "json", &url]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert_eq!((printed.json()["requests"].as_u64(), heads.lock().unwrap().len()), (Some(10), 10));
}

#[test]
fn one_stream_at_a_time_is_one() {
    let (address, count) = streams::serve(Conduct { delay: Duration::from_millis(5), ..Conduct::default() });
    let json = load(address, &["-t1", "-c1", "--http2", "--streams", "1", "--requests", "20", "-d20s"]);
    assert_eq!(
        (json["requests"].as_u64(), count.requests(), count.most_at_once()),
        (Some(20), 20, 1),
        "{json}"
    );
}

#[test]
fn a_line_that_is_no_request_is_refused_by_its_number_and_what_to_write() {
    let list = fresh_folder().join("targets.http");
    for (text, words) in [
        ("### first\nGET /\n\n### second\nno request at all\n", &["targets.http:5", "METHOD URL"][..]),
        ("### first\nGET /\nHost localhost\n", &["targets.http:3", "Name: value"]),
    ] {
        std::fs::write(&list, text).unwrap();
        let printed = whyslow(&["load", "--requests", list.to_str().unwrap(), "http://127.0.0.1:9/"]);
        assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
        assert!(words.iter().all(|word| printed.err.contains(word)), "{text:?}: {printed:?}");
    }
}

#[test]
fn a_name_with_a_line_feed_in_a_request_file_is_refused_by_its_field() {
    let har = fresh_folder().join("list.har");
    let entry = r#"{"request": {"method": "GET", "url": "http://127.0.0.1:9/", "headers": [{"name": "X-Own\nX-Other", "value": "1"}]}}"#;
    std::fs::write(&har, format!(r#"{{"log": {{"entries": [{entry}]}}}}"#)).unwrap();
    let printed = whyslow(&["load", "--requests", har.to_str().unwrap(), "http://127.0.0.1:9/"]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
    assert!(printed.err.contains(r"the field 'X-Own' is not 'Name: value' on one line"), "{printed:?}");
    let printed = whyslow(&["load", "-H", "X-Own: a\nX-Other: b", "http://127.0.0.1:9/"]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
    assert!(printed.err.contains("X-Own"), "{printed:?}");
}
