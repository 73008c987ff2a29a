//! URLs and requests: what is read, and what is refused with which words.

use load::{Address, Request, Target};

#[test]
fn reads_urls() {
    let cases = [
        ("http://127.0.0.1:8080/a?b=c#d", "127.0.0.1:8080", "/a?b=c", "127.0.0.1:8080"),
        ("http://127.0.0.1", "127.0.0.1", "/", "127.0.0.1:80"),
        ("http://127.0.0.1?x", "127.0.0.1", "/?x", "127.0.0.1:80"),
        ("http://[::1]:81/", "[::1]:81", "/", "[::1]:81"),
        ("http://[::1]/", "[::1]", "/", "[::1]:80"),
        ("http://[fe80::1%25lo]:8080/", "[fe80::1]:8080", "/", "[fe80::1%1]:8080"),
        ("https://127.0.0.1/x", "127.0.0.1", "/x", "127.0.0.1:443"),
        ("http://me:secret@127.0.0.1/", "127.0.0.1", "/", "127.0.0.1:80"),
    ];
    for (url, authority, path, address) in cases {
        let target = Target::resolve(url).unwrap();
        assert_eq!((target.authority.as_str(), target.path.as_str()), (authority, path), "{url}");
        assert_eq!(target.addresses, [Address::Tcp(address.parse().unwrap())], "{url}");
    }
}

#[test]
fn refuses_what_it_cannot_drive_in_one_sentence() {
    let cases = [
        ("127.0.0.1:80", "write http://host:port/path"),
        ("ftp://x/", "only http://, https://, ws:// and wss:// are spoken"),
        ("http:///x", "it has no host"),
        ("http://:80/", "it has no host"),
        ("http://127.0.0.1:x/", "its port is not a number"),
        ("http://127.0.0.1:0/", "its port is not a number"),
        ("http://127.0.0.1:70000/", "its port is not a number"),
        ("http://127.0.0.1/a b", "percent-encoded"),
        ("http://host.invalid/", "check the name"),
    ];
    for (url, words) in cases {
        let text = Target::resolve(url).unwrap_err().to_string();
        assert!(text.contains(words) && !text.contains('\n'), "{url}: {text}");
    }
}

#[test]
fn renders_requests() {
    let target = Target::resolve("http://127.0.0.1:8080/x").unwrap();
    let get = Request::get(&target);
    assert_eq!(get.render().unwrap(), b"GET /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\n\r\n");
    let post = Request { method: "POST".into(), body: b"hello".to_vec(), ..get.clone() };
    assert_eq!(
        post.render().unwrap(),
        b"POST /x HTTP/1.1\r\nHost: 127.0.0.1:8080\r\nContent-Length: 5\r\n\r\nhello"
    );
    let chunked = Request {
        headers: vec![("Transfer-Encoding".into(), "chunked".into())],
        body: vec![b'x'; 16 * 1024 + 1],
        ..post.clone()
    };
    let rendered = String::from_utf8(chunked.render().unwrap()).unwrap();
    assert!(
        rendered.starts_with("POST /x HTTP/1.1\r\nTransfer-Encoding: chunked\r\n\r\n4000\r\nxxx"),
        "{rendered}"
    );
    assert!(rendered.ends_with("xxx\r\n1\r\nx\r\n0\r\n\r\n"), "{rendered}");
    let both = [("Transfer-Encoding", "chunked"), ("Content-Length", "1")].map(|(n, v)| (n.into(), v.into()));
    assert!(Request { headers: both.to_vec(), ..get.clone() }.render().is_err());
    let field = |name: &str, value: &str| {
        Request { headers: vec![(name.into(), value.into())], ..get.clone() }.render().is_ok()
    };
    assert!(!field("Transfer-Encoding", "gzip"));
    assert!(field("X-A", "b c"));
    assert!(!field("X A", "b") && !field("X", "a\r\nY: b") && !field("", "x"));
    assert!(Request { path: "/a b".into(), ..get.clone() }.render().is_err());
    assert!(Request { method: "GE T".into(), ..get }.render().is_err());
}
