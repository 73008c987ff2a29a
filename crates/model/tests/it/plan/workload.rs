//! What is asked of arms, as runs keep it and pages tell it.

use model::job::{Job, NamedRequest, Protocol, Request, Requests, Reuse};
use model::plan::{Circumstances, Reach, ReadyBy, Same, Workload};

/// A workload as runs of before a job stood in it have it.
const BEFORE: &str = r#"{"path": "/users", "connections": 64, "pipeline": 16, "keep_alive": false, "poisson": true,
    "conditions": [{"kind": "capacity"}], "allow_difference": true}"#;

fn posted(body: &[u8]) -> Workload {
    let fields = vec![("Authorization".to_owned(), "Bearer t0ken".to_owned())];
    let request = Request { method: "POST".to_owned(), fields, body: body.to_vec(), ..Request::get() };
    Workload {
        job: Job { requests: Requests::Same(request), ..Job::get(8) },
        ..Workload::get("/orders?key=k3y", 8)
    }
}

#[test]
fn a_workload_of_before_is_the_one_get_that_it_was() {
    let old: Workload = serde_json::from_str(BEFORE).unwrap();
    assert_eq!((old.job.connections, old.job.protocol), (64, Protocol::Http1 { pipeline: 16 }));
    assert_eq!(old.job.reuse, Reuse::Requests(1));
    assert!(old.job.is_bare_get() && old.allow_difference && old.same == Same::Shape);
    assert_eq!(old.describe(), "GET /users");
}

#[test]
fn what_is_sent_is_kept_whole_and_bodies_are_text_where_they_are_text() {
    for body in [&b"{\"item\": 7}"[..], b"", b"\xff\x00binary"] {
        let workload = posted(body);
        let text = serde_json::to_string(&workload).unwrap();
        assert_eq!(serde_json::from_str::<Workload>(&text).unwrap(), workload);
        let quoted = serde_json::to_string(&String::from_utf8_lossy(body)).unwrap();
        assert_eq!(text.contains(&quoted), !body.is_empty() && std::str::from_utf8(body).is_ok(), "{text}");
    }
}

#[test]
fn a_description_names_no_secret_and_tells_requests_apart() {
    let (one, two) = (posted(b"s3cret").describe(), posted(b"s3cre7").describe());
    assert!(one.starts_with("POST /orders with 6 bytes and authorization #"), "{one}");
    assert!(["t0ken", "s3cret", "k3y"].iter().all(|secret| !one.contains(secret)), "{one}");
    assert!(one != two && one == posted(b"s3cret").describe());
    let named = |name: &str, path: &str| NamedRequest {
        name: name.to_owned(),
        weight: 1.0,
        request: Request { target: Some(path.to_owned()), ..Request::get() },
        expected_status: None,
    };
    let drawn = Requests::Drawn(vec![named("list", "/a"), named("", "/b?c=d")]);
    let workload = Workload { job: Job { requests: drawn, ..Job::get(1) }, ..Workload::get("/", 1) };
    assert!(
        workload.describe().starts_with("2 requests by weight (list, GET /b) #"),
        "{}",
        workload.describe()
    );
}

#[test]
fn a_description_says_what_is_spoken_once() {
    let protocols = [
        (Protocol::Http1 { pipeline: 1 }, "", " over TLS"),
        (Protocol::Http2 { streams: 1 }, " over HTTP/2", " and TLS"),
        (Protocol::Http3 { streams: 1 }, " over HTTP/3", ""),
        (Protocol::Events { most: None }, " as a stream of events", " over TLS"),
        (Protocol::Grpc { streams: 1, one_message: false }, " over gRPC", " and TLS"),
        (Protocol::WebSocket { in_flight: 1 }, " over WebSocket", " and TLS"),
    ];
    for (protocol, over, secured) in protocols {
        for (tls, more) in [(false, ""), (true, secured)] {
            let workload = Workload {
                job: Job { protocol, ..Job::get(1) },
                reach: Reach { tls, unix: None },
                ..Workload::get("/list", 1)
            };
            let said = workload.describe();
            let (_, said) = said.split_once("/list").unwrap();
            assert!(said.ends_with(&[over, more].concat()), "{protocol:?}, {tls}: {said}");
            for word in ["over", "and", "TLS", "HTTP", "gRPC", "WebSocket", "events"] {
                assert!(said.matches(word).count() <= 1, "{word} is said twice: {said}");
            }
        }
    }
}

#[test]
fn circumstances_of_one_arm_change_its_job_alone() {
    let job = posted(b"x").job.with_depth(4);
    let alone = Circumstances { pipeline: Some(1), keep_alive: Some(false), ..Circumstances::default() };
    let changed = job.under(&alone);
    assert_eq!((changed.depth(), changed.reuse), (1, Reuse::Requests(1)));
    let Requests::Same(request) = &changed.requests else { panic!("{changed:?}") };
    assert_eq!(request.fields[1], ("Connection".to_owned(), "close".to_owned()));
    let kept = changed.under(&Circumstances {
        keep_alive: Some(true),
        pipeline: Some(4),
        ..Circumstances::default()
    });
    assert_eq!(kept, job, "and back");
    let head = Job::get(1).under(&Circumstances { head: Some(true), ..Circumstances::default() });
    assert!(matches!(&head.requests, Requests::Same(request) if request.method == "HEAD"));
}

#[test]
fn a_path_and_a_command_are_told_apart() {
    assert_eq!(ReadyBy::parse("/health"), Ok(ReadyBy::Get("/health".to_owned())));
    let words = |words: &[&str]| Ok(ReadyBy::Command(words.iter().map(|word| (*word).to_owned()).collect()));
    assert_eq!(ReadyBy::parse("test -s '{port} log'"), words(&["test", "-s", "{port} log"]));
    assert_eq!(ReadyBy::parse("/bin/test -s log"), words(&["/bin/test", "-s", "log"]));
    assert!(ReadyBy::parse("it's").is_err());
}
