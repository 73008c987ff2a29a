//! The parts beside the server, over real sockets: mostly through the examples, as a user would have them.

use crate::examples::site;
use crate::support::{Answer, Client, MODELS, Random, TestServer};
use crate::tls;
use std::io::{Read, Write};
use std::ops::Range;
use std::os::unix::fs::symlink;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};
use straightline::kit::{Files, RouteError, Router};
use straightline::{Server, rt};

/// A folder that is removed in the end.
struct Folder(PathBuf);

impl Folder {
    fn new(name: &str) -> Self {
        let path = std::env::temp_dir().join(format!("straightline-{}-{name}", std::process::id()));
        std::fs::create_dir_all(path.join("public/below/.well-known")).unwrap();
        std::fs::write(path.join("secret.txt"), "secret").unwrap();
        let public = path.join("public");
        for (file, text) in [
            ("a.txt", "0123456789"),
            ("index.html", "<p>index"),
            ("below/index.html", "<p>below"),
            ("below/.well-known/x", "known"),
            (".hidden", "hidden"),
            ("with space.txt", "space"),
            ("no-kind", "?"),
            ("empty.css", ""),
        ] {
            std::fs::write(public.join(file), text).unwrap();
        }
        symlink(path.join("secret.txt"), public.join("absolute-link.txt")).unwrap();
        symlink("../secret.txt", public.join("link-out.txt")).unwrap();
        symlink("a.txt", public.join("link-in.txt")).unwrap();
        rustix::fs::mkfifoat(rustix::fs::CWD, public.join("pipe"), rustix::fs::Mode::RWXU).unwrap();
        Self(path)
    }

    fn public(&self) -> PathBuf {
        self.0.join("public")
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

fn ask(client: &mut Client, method: &str, path: &str, fields: &str) -> Answer {
    client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}\r\n").as_bytes());
    client.response_to(method == "HEAD")
}

fn files_server(folder: &Folder) -> TestServer {
    let files = Files::new(folder.public()).unwrap().cache_control("max-age=60");
    TestServer::new(move |request, response| files.serve(request.path(), request, response))
}

#[test]
fn files_are_served_and_nothing_else_is() {
    let folder = Folder::new("files");
    let server = files_server(&folder);
    let mut client = server.connect();
    for (path, status, kind, body) in [
        ("/a.txt", 200, "text/plain; charset=utf-8", "0123456789"),
        ("/", 200, "text/html; charset=utf-8", "<p>index"),
        ("/below/", 200, "text/html; charset=utf-8", "<p>below"),
        ("/below/.well-known/x", 200, "application/octet-stream", "known"),
        ("/with%20space.txt", 200, "text/plain; charset=utf-8", "space"),
        ("/no-kind", 200, "application/octet-stream", "?"),
        ("/empty.css", 200, "text/css; charset=utf-8", ""),
        ("/link-in.txt", 200, "text/plain; charset=utf-8", "0123456789"),
        ("//a.txt", 200, "text/plain; charset=utf-8", "0123456789"),
    ] {
        let answer = ask(&mut client, "GET", path, "");
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{path}");
        assert_eq!(answer.header("content-type").as_deref(), Some(kind), "{path}");
        assert_eq!(answer.header("x-content-type-options").as_deref(), Some("nosniff"));
        assert_eq!(answer.header("cache-control").as_deref(), Some("max-age=60"));
    }
    for path in [
        "/../secret.txt",
        "/below/../../secret.txt",
        "/%2e%2e/secret.txt",
        "/..%2fsecret.txt",
        "/below%2f..%2f..%2fsecret.txt",
        "/absolute-link.txt",
        "/link-out.txt",
        "/.hidden",
        "/%2ehidden",
        "/below/.well-known",
        "/a.txt/",
        "/pipe",
        "/nothing",
    ] {
        let answer = ask(&mut client, "GET", path, "");
        assert_eq!(answer.status, 404, "{path}: {}", answer.text());
    }
    assert_eq!(ask(&mut client, "DELETE", "/a.txt", "").status, 405);
    let mut other = server.connect();
    assert_eq!(ask(&mut other, "GET", "/a%00.txt", "").status, 400);
}

#[test]
fn a_folder_is_its_index_and_a_redirect_goes_there() {
    let folder = Folder::new("folders");
    std::fs::create_dir_all(folder.public().join("a:b")).unwrap();
    std::fs::write(folder.public().join("a:b/index.html"), "<p>a:b").unwrap();
    let server = files_server(&folder);
    let files = Files::new(folder.public()).unwrap();
    let routed = Router::new()
        .route("GET", "/{site}/files/{*path}", move |request, response, params| {
            files.serve(params.get("path").unwrap(), request, response)
        })
        .unwrap();
    let routed = TestServer::new(move |request, response| routed.serve(request, response));
    for (server, path, status, said) in [
        (&server, "/below", 301, "./below/"),
        (&server, "/below?a=1&b=//c", 301, "./below/?a=1&b=//c"),
        (&server, "//below", 301, "./below/"),
        (&server, "/%62elow", 301, "./%62elow/"),
        (&server, "/a:b", 301, "./a:b/"),
        (&server, "/a:b/", 200, "<p>a:b"),
        (&server, "//evil.example", 404, ""),
        (&server, "//evil.example/below", 404, ""),
        (&routed, "/x/files/", 200, "<p>index"),
        (&routed, "/x/files/below/", 200, "<p>below"),
        (&routed, "/x/files/below", 301, "./below/"),
        (&routed, "/x/files//below", 301, "./below/"),
        (&routed, "/x/files", 404, ""),
        (&routed, "/x/files/below/.well-known", 404, ""),
    ] {
        for method in ["GET", "HEAD"] {
            let answer = ask(&mut server.connect(), method, path, "");
            assert_eq!(answer.status, status, "{method} {path}");
            match status {
                301 => assert_eq!(answer.header("location").as_deref(), Some(said), "{method} {path}"),
                200 if method == "GET" => assert_eq!(answer.text(), said, "{path}"),
                _ => {}
            }
        }
    }
}

#[test]
fn files_that_were_compressed_beforehand_are_sent_to_those_who_take_them() {
    let folder = Folder::new("precompressed");
    for (file, text) in
        [("a.css", "plain"), ("a.css.gz", "gzip!"), ("a.css.br", "brotl"), ("index.html.gz", "zipped index")]
    {
        let path = folder.public().join(file);
        std::fs::write(&path, text).unwrap();
        // As a build leaves them, so that neither time nor size tells them apart.
        let times = std::fs::FileTimes::new().set_modified(std::time::UNIX_EPOCH);
        std::fs::File::options().append(true).open(&path).unwrap().set_times(times).unwrap();
    }
    let css = "text/css; charset=utf-8";
    let files = Files::new(folder.public()).unwrap().precompressed();
    let server = TestServer::new(move |request, response| files.serve(request.path(), request, response));
    let mut client = server.connect();
    let mut etags = Vec::new();
    for (path, accepted, coding, kind, body) in [
        ("/a.css", "", None, css, "plain"),
        ("/a.css", "gzip, br", Some("br"), css, "brotl"),
        ("/a.css", "br;q=0.5, gzip", Some("gzip"), css, "gzip!"),
        ("/a.css", "br;q=0, gzip;q=0", None, css, "plain"),
        ("/a.css", "identity, gzip;q=0.5", None, css, "plain"),
        ("/", "br, gzip", Some("gzip"), "text/html; charset=utf-8", "zipped index"),
        ("/a.txt", "br, gzip", None, "text/plain; charset=utf-8", "0123456789"),
        ("/a.css.gz", "br, gzip", None, "application/gzip", "gzip!"),
    ] {
        let answer = ask(&mut client, "GET", path, &format!("Accept-Encoding: {accepted}\r\n"));
        let what = format!("{path} for {accepted}");
        assert_eq!((answer.status, answer.text().as_str()), (200, body), "{what}");
        assert_eq!(answer.header("content-encoding").as_deref(), coding, "{what}");
        assert_eq!(answer.header("content-type").as_deref(), Some(kind), "{what}");
        assert_eq!(answer.header("vary").as_deref(), Some("accept-encoding"), "{what}");
        etags.push(answer.header("etag").unwrap());
    }
    assert!(etags[0] != etags[1] && etags[1] != etags[2] && etags[2] != etags[0], "{etags:?}");
    let known = format!("If-None-Match: {}\r\n", etags[2]);
    let again = ask(&mut client, "GET", "/a.css", &format!("Accept-Encoding: gzip\r\n{known}"));
    assert_eq!((again.status, again.header("vary").as_deref()), (304, Some("accept-encoding")));
    assert_eq!(ask(&mut client, "GET", "/a.css", &known).status, 200, "it is another answer");
    let part = ask(&mut client, "GET", "/a.css", "Accept-Encoding: gzip\r\nRange: bytes=1-2\r\n");
    assert_eq!((part.status, part.text().as_str()), (206, "zi"));
    assert_eq!(part.header("content-encoding").as_deref(), Some("gzip"));
}

#[test]
fn parts_and_conditions_of_files_are_honoured() {
    let folder = Folder::new("parts");
    let server = files_server(&folder);
    let mut client = server.connect();
    let whole = ask(&mut client, "GET", "/a.txt", "");
    let (etag, modified) = (whole.header("etag").unwrap(), whole.header("last-modified").unwrap());
    for (method, fields, status, body, range) in [
        ("GET", "Range: bytes=2-4\r\n".to_owned(), 206, "234", Some("bytes 2-4/10")),
        ("GET", "Range: bytes=-3\r\n".into(), 206, "789", Some("bytes 7-9/10")),
        ("GET", "Range: bytes=10-\r\n".into(), 416, "", Some("bytes */10")),
        ("GET", "Range: bytes=0-0,2-2\r\n".into(), 200, "0123456789", None),
        ("HEAD", "Range: bytes=2-4\r\n".into(), 200, "", None),
        ("GET", format!("If-None-Match: {etag}\r\n"), 304, "", None),
        ("HEAD", format!("If-None-Match: W/{etag}\r\n"), 304, "", None),
        ("GET", format!("If-Modified-Since: {modified}\r\n"), 304, "", None),
        ("GET", "If-Modified-Since: Sun, 06 Nov 1994 08:49:37 GMT\r\n".into(), 200, "0123456789", None),
        ("GET", "If-Match: \"other\"\r\n".into(), 412, "", None),
        ("GET", format!("If-Range: {etag}\r\nRange: bytes=9-\r\n"), 206, "9", Some("bytes 9-9/10")),
        ("GET", "If-Range: \"other\"\r\nRange: bytes=9-\r\n".into(), 200, "0123456789", None),
    ] {
        let answer = ask(&mut client, method, "/a.txt", &fields);
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{method} {fields}");
        assert_eq!(answer.header("content-range").as_deref(), range, "{method} {fields}");
        assert_eq!(answer.header("etag").as_ref(), Some(&etag), "{method} {fields}");
    }
    let length = ask(&mut client, "HEAD", "/a.txt", "").header("content-length");
    assert_eq!(length.as_deref(), Some("10"));
    std::fs::write(folder.public().join("a.txt"), "other").unwrap();
    let answer = ask(&mut client, "GET", "/a.txt", &format!("If-None-Match: {etag}\r\n"));
    assert_eq!((answer.status, answer.text().as_str()), (200, "other"), "it changed since");
}

#[test]
fn a_file_that_nobody_will_have_is_not_read() {
    let folder = Folder::new("sparse");
    let length = 1u64 << 40;
    std::fs::File::create(folder.public().join("sparse.bin")).unwrap().set_len(length).unwrap();
    let server = files_server(&folder);
    let start = std::time::Instant::now();
    let answer = ask(&mut server.connect(), "HEAD", "/sparse.bin", "");
    assert_eq!((answer.status, answer.header("content-length")), (200, Some(length.to_string())));
    assert!(start.elapsed() < std::time::Duration::from_secs(5), "{:?}", start.elapsed());
}

#[test]
fn a_large_file_passes_whole_to_a_slow_client() {
    let folder = Folder::new("large");
    let mut random = Random(20_261_120);
    let bytes: Vec<u8> = (0..1_000_000).flat_map(|_| random.next().to_le_bytes()).collect();
    std::fs::write(folder.public().join("large.bin"), &bytes).unwrap();
    let server = files_server(&folder);
    let mut slow = server.connect();
    slow.send(b"GET /large.bin HTTP/1.1\r\nHost: x\r\n\r\n");
    // The socket is full by now, and the handler waits; others are served.
    std::thread::sleep(std::time::Duration::from_millis(50));
    assert_eq!(ask(&mut server.connect(), "GET", "/a.txt", "").status, 200);
    assert!(slow.response().body == bytes, "the file arrived otherwise than it was");
    assert_eq!(ask(&mut slow, "GET", "/a.txt", "").text(), "0123456789", "the connection goes on");
}

/// The kernel copies a part of a file where a length was promised and nothing is encrypted; elsewhere the server does.
#[test]
fn a_file_is_the_same_whichever_way_it_goes() {
    let folder = Folder::new("ways");
    let mut random = Random(20_261_123);
    let bytes: Vec<u8> = (0..LENGTH).map(|_| random.next() as u8).collect();
    let path = folder.public().join("file.bin");
    std::fs::write(&path, &bytes).unwrap();
    for (model, is_secret) in MODELS.into_iter().flat_map(|model| [(model, false), (model, true)]) {
        let (path, files) = (path.clone(), Files::new(folder.public()).unwrap());
        let (config, trusting) = tls::halves();
        let server = TestServer::with(
            |server| if is_secret { model.apply_to(server).tls(config) } else { model.apply_to(server) },
            move |request, response| {
                if request.path() != "/streamed" {
                    return files.serve(request.path(), request, response);
                }
                let mut response = response.start()?;
                response.write_file(&std::fs::File::open(&path)?, STREAMED)?;
                response.end()
            },
        );
        let how = format!("{model}, TLS: {is_secret}");
        if is_secret {
            let connect = || Client::over(tls::connect(server.address, Arc::clone(&trusting)));
            check_ways(connect, &bytes, &how);
        } else {
            check_ways(|| server.connect(), &bytes, &how);
        }
    }
}

/// Length of a file in bytes: more than the buffers on its way, and no multiple of any.
const LENGTH: usize = 1_000_003;
/// What is sent of it without a length.
const STREAMED: Range<u64> = 4_095..700_001;

fn check_ways<S: Read + Write>(connect: impl Fn() -> Client<S>, bytes: &[u8], how: &str) {
    for (path, field, status, part) in [
        ("/file.bin", "", 200, 0..LENGTH),
        ("/file.bin", "Range: bytes=32767-700000\r\n", 206, 32_767..700_001),
        ("/file.bin", "Range: bytes=-1\r\n", 206, LENGTH - 1..LENGTH),
        ("/streamed", "", 200, STREAMED.start as usize..STREAMED.end as usize),
    ] {
        for version in ["1.0", "1.1"] {
            let mut client = connect();
            client.send(format!("GET {path} HTTP/{version}\r\nHost: x\r\n{field}\r\n").as_bytes());
            let answer = client.response();
            let what = format!("{how}: {path} {field} on {version}: {}", answer.head);
            assert_eq!(answer.status, status, "{what}");
            assert!(answer.body == bytes[part.clone()], "{what}: it is not what the file holds");
            let length = (path != "/streamed").then(|| part.len().to_string());
            assert_eq!(answer.header("content-length"), length, "{what}");
            let chunked = answer.header("transfer-encoding").is_some();
            assert_eq!(chunked, length.is_none() && version == "1.1", "{what}");
            if version == "1.1" {
                client.send(b"GET /a.txt HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
                assert_eq!(client.response().text(), "0123456789", "{what}: the connection goes on");
            }
            client.assert_closed(&what);
        }
    }
}

#[test]
fn the_site_of_the_examples_works() {
    static LOG: Mutex<Vec<String>> = Mutex::new(Vec::new());
    let folder = Folder::new("site");
    let server = Server::bind("127.0.0.1:0").unwrap().workers(1);
    let log = |line: &str| LOG.lock().unwrap().push(line.to_owned());
    let running = site::start(server, Files::new(folder.public()).unwrap(), log).unwrap();
    let mut client = Client::new(running.local_addr());
    for (method, path, fields, status, body) in [
        ("GET", "/hello/J%C3%B6rg", "", 200, "Hello, Jörg!\n"),
        ("HEAD", "/hello/x", "", 200, ""),
        ("POST", "/hello/x", "Content-Length: 0\r\n", 405, ""),
        ("OPTIONS", "/hello/x", "", 204, ""),
        ("GET", "/nowhere", "", 404, "there is nothing here\n"),
        ("GET", "/files/a.txt", "Range: bytes=0-0\r\n", 206, "0"),
        ("GET", "/files/../secret.txt", "", 404, "there is no such file\n"),
        ("GET", "/files/", "", 200, "<p>index"),
        ("GET", "/files/below", "", 301, ""),
        ("POST", "/length", "Content-Length: 3\r\n\r\nabc", 200, "3\n"),
    ] {
        // The body of the last one ends its head.
        let fields = if fields.contains("abc") { fields.replace("abc", "") } else { fields.to_owned() };
        client.send(format!("{method} {path} HTTP/1.1\r\nHost: x\r\n{fields}").as_bytes());
        client.send(if path == "/length" { b"abc" } else { b"\r\n" });
        let answer = client.response_to(method == "HEAD");
        assert_eq!((answer.status, answer.text().as_str()), (status, body), "{method} {path}");
        let allow = (status == 405 || status == 204).then(|| "GET, HEAD, OPTIONS".to_owned());
        assert_eq!(answer.header("allow"), allow, "{method} {path}");
    }
    let log = LOG.lock().unwrap().clone();
    assert_eq!(log.len(), 10, "{log:?}");
    assert!(
        log[0].starts_with("127.0.0.1 - - [") && log[0].contains("\"GET /hello/J%C3%B6rg HTTP/1.1\" 200 14 ")
    );
    assert!(log[4].contains(" 404 22 "), "{log:?}");
}

#[test]
fn the_log_says_what_the_client_was_answered() {
    const PIECE_BYTES: usize = 64 * 1024;
    for model in MODELS {
        let log = Arc::new(Mutex::new(Vec::new()));
        let told = Arc::clone(&log);
        let handler = straightline::kit::logged(
            |request, response| {
                let failed = || std::io::Error::other("meant to");
                match request.path() {
                    "/send" => response.send(&vec![b'x'; 50_000_000]),
                    "/stream" => {
                        let mut response = response.status(203).start()?;
                        loop {
                            response.write_all(&[b'x'; PIECE_BYTES])?;
                        }
                    }
                    "/cut" => {
                        let mut response = response.start()?;
                        response.write_all(b"some")?;
                        Err(failed())
                    }
                    "/refused" => Err(straightline::StatusError::new(418, "meant to").into()),
                    "/fails" => Err(failed()),
                    _ => response.send(b"well"),
                }
            },
            move |entry| told.lock().unwrap().push((entry.status, entry.body_bytes)),
        );
        let server = TestServer::of_model(model, handler);
        for (path, wanted, most) in [
            ("/send", 200, 50_000_000),
            ("/stream", 203, u64::MAX),
            ("/cut", 200, 4),
            ("/refused", 418, 0),
            ("/fails", 500, 0),
            ("/", 200, 4),
        ] {
            let mut client = server.connect();
            client.send(format!("GET {path} HTTP/1.1\r\nHost: x\r\n\r\n").as_bytes());
            // Whatever comes is left unread, so that the connection is reset where more would.
            client.stream.read_exact(&mut [0; 1]).ok();
            drop(client);
            server.until("it is logged", |_| !log.lock().unwrap().is_empty());
            let (status, bytes) = log.lock().unwrap().pop().unwrap();
            let has_body = (bytes > 0) == (most > 0) && bytes <= most;
            assert!(status == wanted && has_body, "{model}: {path}: {status} {bytes}");
        }
    }
}

#[test]
fn numbers_are_compressed_as_the_client_likes() {
    let server = Server::bind("127.0.0.1:0").unwrap().workers(1);
    let folder = Folder::new("numbers");
    let running = site::start(server, Files::new(folder.public()).unwrap(), |_| {}).unwrap();
    let mut client = Client::new(running.local_addr());
    let plain = ask(&mut client, "GET", "/numbers", "");
    assert_eq!(plain.header("content-encoding"), None);
    assert_eq!(plain.body.len(), 48_890);
    let mut text = Vec::new();
    let gzip = ask(&mut client, "GET", "/numbers", "Accept-Encoding: gzip\r\n");
    assert_eq!(gzip.header("content-encoding").as_deref(), Some("gzip"));
    flate2::read::GzDecoder::new(&gzip.body[..]).read_to_end(&mut text).unwrap();
    assert!(text == plain.body && gzip.body.len() < plain.body.len() / 2);
    let brotli = ask(&mut client, "GET", "/numbers", "Accept-Encoding: gzip, br\r\n");
    assert_eq!(brotli.header("content-encoding").as_deref(), Some("br"));
    assert_eq!(brotli.header("vary").as_deref(), Some("accept-encoding"));
    text.clear();
    brotli::Decompressor::new(&brotli.body[..], 4096).read_to_end(&mut text).unwrap();
    assert!(text == plain.body && brotli.body.len() < gzip.body.len());
}

#[test]
fn an_encoder_that_is_given_up_ends_no_answer() {
    let server = TestServer::new(|request, response| {
        let mut body = straightline::kit::Compressed::start(request, response)?;
        std::io::Write::write_all(&mut body, &[b'x'; 100_000])?;
        std::io::Write::flush(&mut body)?;
        Err(std::io::Error::other("meant to"))
    });
    for coding in ["br", "gzip", "identity"] {
        let mut client = server.connect();
        client.send(format!("GET / HTTP/1.1\r\nHost: x\r\nAccept-Encoding: {coding}\r\n\r\n").as_bytes());
        let mut got = Vec::new();
        let ended = client.stream.read_to_end(&mut got);
        assert!(ended.is_err() || !got.ends_with(b"0\r\n\r\n"), "{coding}: it seems to be whole");
    }
}

#[test]
fn events_come_one_by_one_as_they_happen() {
    let server = TestServer::new(|request, response| {
        use straightline::kit::{Events, ServerEvent};
        let last = Events::last_seen(request).unwrap_or("none").to_owned();
        let mut events = Events::start(response)?;
        events.send(&ServerEvent { data: &last, ..Default::default() })?;
        let bad = events.send(&ServerEvent { name: Some("a\nb"), ..Default::default() });
        assert!(bad.is_err(), "a name with a line end");
        rt::sleep(std::time::Duration::from_millis(20))?;
        events.comment()?;
        events.send(&ServerEvent { name: Some("n"), id: Some("7"), data: "one\ntwo\rthree\r\nfour" })?;
        events.end()
    });
    let mut client = server.connect();
    let answer = ask(&mut client, "GET", "/", "Last-Event-ID: 6\r\n");
    assert_eq!(answer.header("content-type").as_deref(), Some("text/event-stream"));
    assert_eq!(
        answer.text(),
        "data: 6\n\n:\n\nevent: n\nid: 7\ndata: one\ndata: two\ndata: three\ndata: four\n\n"
    );
}

#[test]
fn options_tell_of_one_path_or_of_all() {
    let router = Router::new()
        .route("GET", "/a", |_, response, _| response.send(b""))
        .and_then(|router| router.route("POST", "/a", |_, response, _| response.send(b"")))
        .and_then(|router| router.route("PUT", "/b", |_, response, _| response.send(b"")))
        .unwrap();
    let server = TestServer::new(move |request, response| router.serve(request, response));
    let mut client = server.connect();
    for (path, status, allowed) in [
        ("/a", 204, Some("GET, HEAD, OPTIONS, POST")),
        ("/b", 204, Some("PUT, OPTIONS")),
        ("*", 204, Some("GET, HEAD, OPTIONS, POST, PUT")),
        ("/c", 404, None),
    ] {
        let answer = ask(&mut client, "OPTIONS", path, "");
        assert_eq!((answer.status, answer.header("allow").as_deref()), (status, allowed), "{path}");
    }
}

#[test]
fn what_is_left_of_a_path_may_be_nothing() {
    let answer = |text: &'static str| {
        move |_: &mut straightline::Request<'_>,
              response: straightline::Response<'_>,
              params: &straightline::kit::Params<'_>| {
            response.send(format!("{text} {:?}", params.get("rest")).as_bytes())
        }
    };
    let router = Router::new()
        .route("GET", "/a/{*rest}", answer("a"))
        .and_then(|router| router.route("GET", "/before/", answer("own")))
        .and_then(|router| router.route("GET", "/before/{*rest}", answer("before")))
        .and_then(|router| router.route("GET", "/after/{*rest}", answer("after")))
        .and_then(|router| router.route("GET", "/after/", answer("own")))
        .and_then(|router| router.route("GET", "/{{*rest}}", answer("braces")))
        .and_then(|router| router.route("GET", "/all/{id}/{*rest}", answer("all")))
        .unwrap();
    let twice = Router::new()
        .route("GET", "/a/{*rest}", answer("a"))
        .and_then(|router| router.route("GET", "/a/", answer("own")))
        .and_then(|router| router.route("GET", "/a/", answer("own")));
    assert!(matches!(twice, Err(RouteError::Twice { .. })));
    let server = TestServer::new(move |request, response| router.serve(request, response));
    for (path, wanted) in [
        ("/a/", "a Some(\"\")"),
        ("/a/b/c", "a Some(\"b/c\")"),
        ("/before/", "own None"),
        ("/before/x", "before Some(\"x\")"),
        ("/after/", "own None"),
        ("/after/x", "after Some(\"x\")"),
        ("/all/7/", "all Some(\"\")"),
        ("/a", "there is nothing here\n"),
        ("/", "there is nothing here\n"),
    ] {
        assert_eq!(ask(&mut server.connect(), "GET", path, "").text(), wanted, "{path}");
    }
}

#[test]
fn routes_that_cannot_be_are_refused_at_the_start() {
    let add = |router: Router, method: &str, path: &str| {
        router.route(method, path, |_, response, _| response.send(b""))
    };
    let router = add(Router::new(), "GET", "/a/{b}").unwrap();
    let router = add(router, "POST", "/a/{b}").unwrap();
    assert!(matches!(add(router, "GET", "/a/{b}"), Err(RouteError::Twice { .. })));
    let router = add(Router::new(), "GET", "/a/{b}").unwrap();
    let error = add(router, "GET", "/a/{c}").unwrap_err();
    assert!(error.to_string().contains("/a/{c}"), "{error}");
}
