//! JSON, forms, cookies and pages of other origins, as clients of every kind send them.

mod generated;

use crate::http2::raw::{Raw, asking, block, frame};
use crate::support::{Client, MODELS, Model, TestServer};
use http2::frame::{END_HEADERS, END_STREAM, HEADERS};
use std::io::{self, Read};
use straightline::kit::forms::{Form, Multipart};
use straightline::kit::{Cors, cookies, json};
use straightline::{Done, Request, Response};

/// What is asked with a body, and what is answered.
fn ask(client: &mut Client, path: &str, kind: &str, body: &[u8]) -> (u16, String) {
    let head = format!("POST {path} HTTP/1.1\r\nHost: x\r\n{kind}Content-Length: {}\r\n\r\n", body.len());
    client.send(&[head.as_bytes(), body].concat());
    let answer = client.response();
    (answer.status, answer.text())
}

#[test]
fn json_is_taken_if_it_fits() {
    fn handle(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
        match request.path() {
            "/any" => {
                let value: serde_json::Value = json::read(request, 10_000)?;
                json::send(response, &value)
            }
            _ => {
                let (name, age): (String, u8) = json::read(request, 100)?;
                json::send(response, &serde_json::json!({ "name": name, "age": age }))
            }
        }
    }
    let deep = |depth: usize| "[".repeat(depth) + &"]".repeat(depth);
    for model in MODELS {
        let server = TestServer::of_model(model, handle);
        for (path, kind, body, status, said) in [
            ("/", "application/json", "[\"Ada\", 36]", 200, "{\"age\":36,\"name\":\"Ada\"}"),
            ("/", "Application/JSON; charset=utf-8", "[\"\\u00e9\", 1]", 200, "{\"age\":1,\"name\":\"é\"}"),
            ("/", "text/plain", "[\"Ada\", 36]", 415, "application/json"),
            ("/", "application/json", "[\"Ada\", 360]", 400, "line 1 column 11"),
            ("/", "application/json", "", 400, "EOF"),
            ("/", "application/json", "[\"a\", 1] x", 400, "trailing"),
            ("/", "application/json", "[\"\u{1}\", 1]", 400, "control character"),
            ("/", "application/json", "[\"\\ud800\", 1]", 400, ""),
            ("/", "application/json", "{\"a\":1,\"a\":1}", 400, "invalid type"),
            ("/", "application/json", &"x".repeat(101), 413, "larger"),
            ("/any", "application/json", &deep(32), 200, &deep(32)),
            ("/any", "application/json", &deep(33), 400, "too deep"),
            ("/any", "application/json", &"[".repeat(5000), 400, "too deep"),
            ("/any", "application/json", "1e400", 400, "number out of range"),
        ] {
            let (found, text) =
                ask(&mut server.connect(), path, &format!("Content-Type: {kind}\r\n"), body.as_bytes());
            assert!(found == status && text.contains(said), "{model}: {body:.40}: {found} {text}");
            assert_eq!(
                text.matches('\n').count(),
                usize::from(status != 200),
                "{model}: {body:.40}: {text:?}"
            );
        }
        let (status, _) =
            ask(&mut server.connect(), "/", "Content-Type: application/json\r\n", b"[\"\xff\", 1]");
        assert_eq!(status, 400);
        assert_eq!(ask(&mut server.connect(), "/", "", b"[\"a\", 1]").0, 415);
    }
}

/// Reads forms in the way that the path asks for.
fn forms(request: &mut Request<'_>, response: Response<'_>) -> io::Result<Done> {
    match request.path() {
        "/upload" => {
            let (mut form, mut seen) = (Multipart::new(request, 40_000_000)?, String::new());
            while let Some(mut part) = form.next()? {
                seen += part.name();
                match part.file_name().map(str::to_owned) {
                    Some(name) => {
                        let path =
                            std::env::temp_dir().join(format!("straightline-upload-{}", std::process::id()));
                        let mut file = std::fs::File::create(&path)?;
                        let bytes = io::copy(&mut part, &mut file)?;
                        assert_eq!(file.metadata()?.len(), bytes);
                        std::fs::remove_file(&path)?;
                        seen += &format!(" {name} {bytes}; ");
                    }
                    None => seen += &format!("={}; ", part.text(20)?),
                }
            }
            response.send(seen.as_bytes())
        }
        "/skip" => {
            let mut form = Multipart::new(request, 40_000_000)?;
            let mut names = Vec::new();
            while let Some(part) = form.next()? {
                names.push(part.name().to_owned());
            }
            response.send(names.join(" ").as_bytes())
        }
        "/query" => response.send(Form::of_query(request)?.require("a")?.as_bytes()),
        _ => {
            let form = Form::read(request, 10_000)?;
            let fields: Vec<_> = form.iter().map(|(name, value)| format!("{name}={value}")).collect();
            response.send([form.require("a")?, &fields.join("|")].join(" ").as_bytes())
        }
    }
}

#[test]
fn forms_are_read_whole() {
    let server = TestServer::of_model(Model::Coroutines, forms);
    let urlencoded = "Content-Type: application/x-www-form-urlencoded\r\n";
    for (body, status, said) in [
        ("a=1&b=x+y%2B%c3%a9&a=2", 200, "1 a=1|b=x y+é|a=2".to_owned()),
        ("a", 200, " a=".to_owned()),
        ("a=%zz&%", 200, "%zz a=%zz|%=".to_owned()),
        ("b=1", 400, "no field a".to_owned()),
        (&"a&".repeat(1001), 400, "too many".to_owned()),
        (&"a=1".repeat(4000), 413, "larger".to_owned()),
    ] {
        let (found, text) = ask(&mut server.connect(), "/", urlencoded, body.as_bytes());
        assert!(found == status && text.contains(&said), "{body:.40}: {found} {text}");
    }
    assert_eq!(ask(&mut server.connect(), "/", "Content-Type: text/plain\r\n", b"a=1").0, 415);
    assert_eq!(ask(&mut server.connect(), "/query?a=b%20c", "", b""), (200, "b c".into()));
}

#[test]
fn forms_are_read_part_by_part() {
    let server = TestServer::of_model(Model::Coroutines, forms);
    let part = |head: &str, value: &[u8]| {
        [format!("--XX\r\nContent-Disposition: form-data; {head}\r\n\r\n").as_bytes(), value, b"\r\n"]
            .concat()
    };
    let file = vec![b'-'; 30_000_000];
    let body = [
        part("name=a", b"one"),
        part("name=f; filename=\"x.bin\"", &file),
        part("name=z", b""),
        b"--XX--\r\n".to_vec(),
    ];
    let kind = "Content-Type: multipart/form-data; boundary=XX\r\n";
    let mut client = server.connect();
    assert_eq!(
        ask(&mut client, "/upload", kind, &body.concat()),
        (200, "a=one; f x.bin 30000000; z=; ".into())
    );
    assert_eq!(ask(&mut client, "/skip", kind, &body.concat()), (200, "a f z".into()));
    for (body, status) in [
        (part("name=a", &[b'x'; 21]), 413),
        (part("name=a", b"\xff"), 400),
        (part("name=a", b"cut"), 400),
        (b"garbage".to_vec(), 400),
    ] {
        let found = ask(&mut server.connect(), "/upload", kind, &[body.clone(), b"--XX--".to_vec()].concat());
        let cut = ask(&mut server.connect(), "/upload", kind, &body);
        assert!(found.0 == status || body.ends_with(b"cut\r\n") && found.0 == 200, "{found:?}");
        assert!(cut.0 == 400 || cut.0 == 413, "{cut:?}");
    }
    assert_eq!(ask(&mut server.connect(), "/upload", "Content-Type: multipart/form-data\r\n", b"").0, 400);
    assert_eq!(ask(&mut server.connect(), "/upload", kind, &vec![b'x'; 40_000_001]).0, 413);
}

#[test]
fn cookies_come_and_go_and_nothing_else_with_them() {
    let server = TestServer::new(|request, response| match request.path() {
        "/read" => {
            let all: Vec<_> = cookies::all(request).map(|c| format!("{}={}", c.name(), c.value())).collect();
            response.send(format!("{:?} {}", cookies::get(request, "a"), all.join("|")).as_bytes())
        }
        "/set" => cookies::set(response, &cookies::secret("key", "abc"))?.send(b""),
        "/remove" => cookies::remove(response, "key")?.send(b""),
        _ => {
            let mut text = String::new();
            request.read_to_string(&mut text)?;
            let (name, value) = text.split_once('=').unwrap();
            cookies::set(response, &cookies::secret(name, value))?.send(b"")
        }
    });
    for (fields, said) in [
        ("Cookie: a=1; b=2\r\n", "Some(\"1\") a=1|b=2"),
        ("Cookie: a=1\r\nCookie: a=3;c\r\n", "Some(\"1\") a=1|a=3"),
        ("Cookie: a=\"q\";;; =x; b=x=y\r\n", "Some(\"\\\"q\\\"\") a=\"q\"|b=x=y"),
        ("Cookie: \u{e9}\r\n", "None "),
        ("", "None "),
    ] {
        assert_eq!(ask(&mut server.connect(), "/read", fields, b""), (200, said.into()), "{fields}");
    }
    let mut client = server.connect();
    client.send(b"GET /set HTTP/1.1\r\nHost: x\r\n\r\n");
    let set = client.response().header("set-cookie").unwrap();
    assert_eq!(set, "key=abc; HttpOnly; SameSite=Lax; Secure; Path=/");
    client.send(b"GET /remove HTTP/1.1\r\nHost: x\r\n\r\n");
    assert!(client.response().header("set-cookie").unwrap().contains("Max-Age=0"));
    for (text, status) in [
        ("a=b", 200),
        ("a=", 200),
        ("a=b; Domain=evil.example", 500),
        ("a=b\r\nSet-Cookie: c=d", 500),
        ("a b=c", 500),
        ("=c", 500),
        ("a=\u{e9}", 500),
    ] {
        assert_eq!(ask(&mut server.connect(), "/", "", text.as_bytes()).0, status, "{text}");
    }
}

#[test]
fn only_pages_that_are_named_may_read() {
    let some = Cors::for_origins(&["https://a.example", "https://b.example"])
        .credentials()
        .headers("content-type")
        .methods("PUT");
    let all = Cors::of_all().credentials();
    let server = TestServer::new(move |request, response| {
        let cors = if request.path() == "/all" { &all } else { &some };
        cors.serve(request, response, |_, response| response.send(b"hi"))
    });
    let get = |method: &str, path: &str, fields: &str| {
        let mut client = server.connect();
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
        client.response()
    };
    for (path, origin, allowed, credentials) in [
        ("/", "https://a.example", Some("https://a.example"), true),
        ("/", "https://b.example", Some("https://b.example"), true),
        ("/", "https://a.example.evil", None, false),
        ("/", "https://A.example", None, false),
        ("/", "http://a.example", None, false),
        ("/", "null", None, false),
        ("/all", "https://c.example", Some("*"), false),
    ] {
        for (method, ask) in [("GET", ""), ("OPTIONS", "Access-Control-Request-Method: PUT\r\n")] {
            let answer = get(method, path, &format!("Origin: {origin}\r\n{ask}"));
            assert_eq!(answer.header("access-control-allow-origin").as_deref(), allowed, "{method} {origin}");
            assert_eq!(answer.header("access-control-allow-credentials").is_some(), credentials);
            assert_eq!(answer.header("vary").is_some(), path == "/", "{method} {origin}");
            let preflight = method == "OPTIONS";
            assert_eq!(answer.status, if preflight { 204 } else { 200 });
            assert_eq!(
                answer.header("access-control-allow-methods").is_some(),
                preflight && allowed.is_some()
            );
        }
    }
    assert_eq!(get("OPTIONS", "/", "Origin: https://a.example\r\n").text(), "hi", "no question of a browser");
    assert_eq!(get("GET", "/", "").header("access-control-allow-origin"), None);
}

#[test]
fn pages_that_are_named_may_read_errors_too() {
    fn handle(request: &mut Request<'_>) -> io::Result<()> {
        match request.path() {
            "/none" => Err(straightline::StatusError::new(404, "there is none").into()),
            "/fails" => Err(io::Error::other("meant to")),
            "/body" => json::read::<u8>(request, 1).map(|_| ()),
            "/panic" => std::panic::resume_unwind(Box::new("meant to")),
            _ => Ok(()),
        }
    }
    fn answer<'a>(request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
        let cors = Cors::for_origins(&["https://a.example"]).credentials();
        let response = response.lasting_header("X-Request-Id", "17")?.header("x-lost", "1")?;
        cors.serve(request, response, |request, response| {
            handle(request)?;
            response.send(b"well")
        })
    }
    for model in MODELS {
        let server = TestServer::of_model(model, answer);
        for (path, status) in [("/", 200), ("/none", 404), ("/fails", 500), ("/body", 415), ("/panic", 500)] {
            for (origin, allowed) in [("https://a.example", true), ("https://b.example", false)] {
                let mut client = server.connect();
                client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\nOrigin: {origin}\r\n\r\n").as_bytes());
                let answer = client.response();
                assert_eq!(answer.status, status, "{model}: {path}");
                let field = |name: &str| answer.header(name);
                let wanted = allowed.then_some(origin);
                assert_eq!(field("access-control-allow-origin").as_deref(), wanted, "{model}: {path}");
                assert_eq!(field("access-control-allow-credentials").is_some(), allowed, "{model}: {path}");
                assert_eq!(field("vary").as_deref(), Some("origin"), "{model}: {path}");
                assert_eq!(field("x-request-id").as_deref(), Some("17"), "{model}: {path}");
                assert_eq!(field("x-lost").is_some(), status == 200, "{model}: {path}");
                assert_eq!(answer.head.matches("X-Request-Id").count(), 1, "{model}: {path}");
            }
        }
        if model == MODELS[0] {
            let mut raw = Raw::open(&server);
            let fields = block(&[&asking("GET", "/none")[..], &[("origin", "https://a.example")]].concat());
            raw.send(&frame(HEADERS, END_HEADERS | END_STREAM, 1, &fields));
            let answer = raw.answer(1);
            assert_eq!((answer.status(), answer.text().as_str()), ("404", "there is none\n"));
            assert_eq!(answer.field("access-control-allow-origin"), Some("https://a.example"));
            assert_eq!(answer.field("x-request-id"), Some("17"));
        }
    }
}

#[test]
fn what_the_server_says_of_an_error_itself_cannot_last() {
    let server = TestServer::new(|request, response| {
        let name = request.query().unwrap_or_default().to_owned();
        response.lasting_header(&name, "1")?.send(b"")
    });
    for (name, status) in [
        ("content-security-policy", 200),
        ("Content-Type", 500),
        ("content-length", 500),
        ("Date", 500),
        ("connection", 500),
        ("transfer-encoding", 500),
        ("no%20token", 200),
        ("", 500),
    ] {
        let mut client = server.connect();
        client.send(format!("GET /?{name} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
        assert_eq!(client.response().status, status, "{name}");
    }
}
