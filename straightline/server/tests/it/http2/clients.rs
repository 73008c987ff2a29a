//! Clients that others wrote.

use super::raw::server;
use crate::support::TestServer;
use crate::tls;
use bytes::Bytes;
use h2::client;
use http::Request;
use std::io::{Read, Write};
use std::process::{Command, Stdio};
use std::sync::Arc;
use straightline::Server;
use tokio::net::TcpStream;

fn on_tokio<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap().block_on(work)
}

#[test]
fn the_client_of_the_crate_h2() {
    let server = server();
    on_tokio(async {
        let tcp = TcpStream::connect(server.address).await.unwrap();
        let (mut ask, connection) = client::handshake(tcp).await.unwrap();
        tokio::spawn(async move { connection.await.unwrap() });
        {
            for round in 0..20u32 {
                ask = ask.ready().await.unwrap();
                let request = Request::post("http://x/echo").body(()).unwrap();
                let (answer, mut body) = ask.send_request(request, false).unwrap();
                // Far more than the window, so that it must be given back.
                let bytes = Bytes::from(vec![b'x'; 200_000]);
                body.send_data(bytes, true).unwrap();
                let answer = answer.await.unwrap();
                assert_eq!(
                    (answer.status().as_u16(), &answer.headers()["content-type"]),
                    (200, &"text/plain".parse().unwrap()),
                    "{round}"
                );
                let mut text = Vec::new();
                let mut body = answer.into_body();
                while let Some(piece) = body.data().await {
                    text.extend_from_slice(&piece.unwrap());
                }
                assert_eq!(text, b"POST /echo 200000");
                let request = Request::get("http://x/bytes/300000").body(()).unwrap();
                ask = ask.ready().await.unwrap();
                let mut body = ask.send_request(request, true).unwrap().0.await.unwrap().into_body();
                let mut count = 0;
                while let Some(piece) = body.data().await {
                    let piece = piece.unwrap();
                    count += piece.len();
                    body.flow_control().release_capacity(piece.len()).unwrap();
                }
                assert_eq!(count, 300_000);
            }
        }
    });
}

/// What curl prints, or `None` where there is none that speaks HTTP/2.
fn curl(arguments: &[&str]) -> Option<String> {
    let version = Command::new("curl").arg("--version").output().ok()?;
    if !String::from_utf8_lossy(&version.stdout).contains("HTTP2") {
        return None;
    }
    let mut child = Command::new("curl")
        .args([
            "--silent",
            "--show-error",
            "--max-time",
            "10",
            "--write-out",
            " %{http_version} %{response_code}",
        ])
        .args(arguments)
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut text = String::new();
    child.stdout.take().unwrap().read_to_string(&mut text).unwrap();
    assert!(child.wait().unwrap().success(), "{text}");
    Some(text)
}

#[test]
fn curl_by_prior_knowledge_and_over_tls() {
    let server = server();
    let url = format!("http://{}/curl", server.address);
    let cases: [(&[&str], &str); 3] = [
        (&["--http2-prior-knowledge", &url], "GET /curl 0 2 200"),
        (&["--http2-prior-knowledge", "--data", "hello", &url], "POST /curl 5 2 200"),
        (&["--http1.1", &url], "GET /curl 0 1.1 200"),
    ];
    for (arguments, wanted) in cases {
        let Some(text) = curl(arguments) else { return };
        assert_eq!(text, wanted);
    }
    let (config, _) = tls::halves();
    let server = TestServer::with(|server: Server| server.workers(1).tls(config), super::raw::handle);
    let url = format!("https://{}/curl", server.address);
    for (arguments, wanted) in [
        (["--insecure", "--http2", &url], "GET /curl 0 2 200"),
        (["--insecure", "--http1.1", &url], "GET /curl 0 1.1 200"),
    ] {
        assert_eq!(curl(&arguments).as_deref(), Some(wanted));
    }
}

#[test]
fn what_was_agreed_on_by_alpn_must_be_spoken() {
    let (config, client) = tls::halves();
    let server = TestServer::with(|server: Server| server.workers(1).tls(config), super::raw::handle);
    let preface = [http2::PREFACE.as_slice(), &super::raw::frame(4, 0, 0, &[])].concat();
    let ask = b"GET / HTTP/1.1\r\nHost: x\r\n\r\n".to_vec();
    let goaway = [7, 0, 0, 0, 0, 0];
    let cases: [(&[&str], &Vec<u8>, &[u8]); 5] = [
        (&["h2"], &preface, &[0, 0, 0, 4, 1, 0, 0, 0, 0]),
        (&["h2", "http/1.1"], &ask, &goaway),
        (&["http/1.1"], &preface, b"HTTP/1.1 505"),
        (&["http/1.1"], &ask, b"HTTP/1.1 200"),
        (&[], &ask, b"HTTP/1.1 200"),
    ];
    for (offered, said, wanted) in cases {
        let mut client = (*client).clone();
        client.alpn_protocols = offered.iter().map(|name| name.as_bytes().to_vec()).collect();
        let mut stream = tls::connect(server.address, Arc::new(client));
        stream.write_all(said).unwrap();
        let mut came = Vec::new();
        while !came.windows(wanted.len()).any(|window| window == wanted) {
            let mut bytes = [0; 4096];
            let count = stream.read(&mut bytes).unwrap_or(0);
            assert!(count > 0, "{offered:?}: {:?}", String::from_utf8_lossy(&came));
            came.extend_from_slice(&bytes[..count]);
        }
    }
}
