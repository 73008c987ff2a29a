//! TLS: the same server behind it, and what a client may do to it.

use crate::protocol::cases::{BAD_CHUNKS, Case, REFUSED};
use crate::support::{Client, MODELS, Model, PATIENCE, TestServer, echo};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use std::io::{self, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::time::{Duration, Instant};
use straightline::rustls::pki_types::{CertificateDer, PrivateKeyDer, PrivatePkcs8KeyDer, ServerName};
use straightline::rustls::{
    ClientConfig, ClientConnection, ProtocolVersion, RootCertStore, ServerConfig, StreamOwned,
};
use straightline::{Limits, Running, Server, rustls};

/// A certificate for localhost, its key, and what a client needs to trust it.
pub(crate) fn identity() -> (CertificateDer<'static>, PrivateKeyDer<'static>) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let key = PrivateKeyDer::Pkcs8(PrivatePkcs8KeyDer::from(signing_key.serialize_der()));
    (cert.der().clone(), key)
}

/// What a client needs to trust `certificate`.
pub(crate) fn trusting(certificate: CertificateDer<'static>) -> ClientConfig {
    let mut roots = RootCertStore::empty();
    roots.add(certificate).unwrap();
    ClientConfig::builder().with_root_certificates(roots).with_no_client_auth()
}

/// The server's half of TLS, by a certificate of its own, and that of a client which trusts it.
pub(crate) fn halves() -> (ServerConfig, Arc<ClientConfig>) {
    let (certificate, key) = identity();
    (showing(certificate.clone(), key), Arc::new(trusting(certificate)))
}

fn showing(certificate: CertificateDer<'static>, key: PrivateKeyDer<'static>) -> ServerConfig {
    ServerConfig::builder().with_no_client_auth().with_single_cert(vec![certificate], key).unwrap()
}

/// A client that shakes hands at the first byte it sends.
pub(crate) fn connect(address: SocketAddr, config: Arc<ClientConfig>) -> TlsClient {
    let name = ServerName::try_from("localhost").unwrap();
    StreamOwned::new(ClientConnection::new(config, name).unwrap(), tcp(address))
}

struct TlsServer {
    running: Running,
    certificate: CertificateDer<'static>,
    client: Arc<ClientConfig>,
}

pub(crate) type TlsClient = StreamOwned<ClientConnection, TcpStream>;

impl TlsServer {
    fn new(model: Model, limits: Limits) -> Self {
        let (certificate, key) = identity();
        let mut client = trusting(certificate.clone());
        client.alpn_protocols = vec![b"http/1.1".to_vec()];
        let config = showing(certificate.clone(), key);
        let server = Server::bind("127.0.0.1:0").unwrap().limits(limits).tls(config);
        let server = match model {
            Model::Coroutines => server.workers(1),
            Model::Threads => server.threads(),
        };
        Self { running: server.spawn(handle).unwrap(), certificate, client: Arc::new(client) }
    }

    fn connect(&self) -> TlsClient {
        connect(self.running.local_addr(), Arc::clone(&self.client))
    }

    fn metric(&self, name: &str) -> u64 {
        let text = self.running.handle().metrics();
        let line = text.lines().find(|line| line.starts_with(&format!("straightline_{name}{{"))).unwrap();
        line.rsplit(' ').next().unwrap().parse().unwrap()
    }
}

fn tcp(address: SocketAddr) -> TcpStream {
    let stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream
}

/// Says how long the body was, or answers with a body as long as the path says.
fn handle(
    request: &mut straightline::Request<'_>,
    response: straightline::Response<'_>,
) -> io::Result<straightline::Done> {
    if let Ok(length) = request.path()[1..].parse::<usize>() {
        return response.send(&vec![b'x'; length]);
    }
    if request.path() == "/cut" {
        let mut response = response.start()?;
        response.write_all(b"the first half")?;
        response.flush()?;
        return Err(io::Error::other("meant to"));
    }
    let bytes = io::copy(request, &mut io::sink())?;
    response.send(bytes.to_string().as_bytes())
}

/// One answer, after which nothing comes.
pub(crate) fn answer(stream: &mut TlsClient) -> Vec<u8> {
    let mut pending = Vec::new();
    let body = next_answer(stream, &mut pending);
    assert!(pending.is_empty(), "more came than was asked for");
    body
}

/// The body of the next answer; what came after it is kept in `pending`.
fn next_answer(stream: &mut TlsClient, pending: &mut Vec<u8>) -> Vec<u8> {
    let mut buffer = [0; 16 * 1024];
    loop {
        let end = pending.windows(4).position(|window| window == b"\r\n\r\n");
        if let Some(end) = end.map(|end| end + 4) {
            let head = String::from_utf8(pending[..end].to_vec()).unwrap();
            let length = head.lines().find_map(|line| line.strip_prefix("Content-Length: ")).unwrap();
            let whole = end + length.parse::<usize>().unwrap();
            if pending.len() >= whole {
                return pending.drain(..whole).skip(end).collect();
            }
        }
        let count = stream.read(&mut buffer).unwrap();
        assert!(count > 0, "ended in an answer");
        pending.extend_from_slice(&buffer[..count]);
    }
}

fn get(path: &str) -> Vec<u8> {
    format!("GET /{path} HTTP/1.1\r\nHost: localhost\r\n\r\n").into_bytes()
}

#[test]
fn requests_and_bodies_of_every_size_pass_both_ways() {
    for model in MODELS {
        let server = TlsServer::new(model, Limits::default());
        let mut client = server.connect();
        for length in [0, 1, 13, 16_000, 16_384, 16_385, 70_000, 3_000_000] {
            client.write_all(&get(&length.to_string())).unwrap();
            assert_eq!(answer(&mut client).len(), length, "{model:?}: sent");
            let head = format!("POST /up HTTP/1.1\r\nHost: localhost\r\nContent-Length: {length}\r\n\r\n");
            client.write_all(head.as_bytes()).unwrap();
            client.write_all(&vec![b'y'; length]).unwrap();
            assert_eq!(answer(&mut client), length.to_string().as_bytes(), "{model:?}: received");
        }
        assert_eq!(client.conn.alpn_protocol(), Some(&b"http/1.1"[..]));
        assert_eq!(client.conn.protocol_version(), Some(ProtocolVersion::TLSv1_3));
        drop(client);
        assert_eq!(server.running.drain(Duration::from_secs(2)).abandoned, 0);
    }
}

#[test]
fn pipelined_requests_in_one_record_are_all_answered() {
    let server = TlsServer::new(Model::Coroutines, Limits::default());
    let mut client = server.connect();
    client.write_all(&[get("1"), get("2"), get("3")].concat()).unwrap();
    let mut pending = Vec::new();
    for length in 1..=3 {
        assert_eq!(next_answer(&mut client, &mut pending).len(), length);
    }
}

#[test]
fn tls_1_2_is_spoken_too() {
    let server = TlsServer::new(Model::Coroutines, Limits::default());
    let of_old = |certificate| {
        let mut roots = RootCertStore::empty();
        roots.add(certificate).unwrap();
        let versions = &[&rustls::version::TLS12];
        let config = ClientConfig::builder_with_protocol_versions(versions)
            .with_root_certificates(roots)
            .with_no_client_auth();
        connect(server.running.local_addr(), Arc::new(config))
    };
    let mut client = of_old(server.certificate.clone());
    client.write_all(&get("1")).unwrap();
    assert_eq!(answer(&mut client), b"x");
    assert_eq!(client.conn.protocol_version(), Some(ProtocolVersion::TLSv1_2));
    // One that trusts another certificate refuses, and the next is served.
    assert!(of_old(identity().0).write_all(&get("1")).is_err());
    let mut client = server.connect();
    client.write_all(&get("1")).unwrap();
    assert_eq!(answer(&mut client), b"x", "the next is served");
}

#[test]
fn a_handshake_may_come_byte_by_byte_and_must_come_in_time() {
    let limits = Limits { head_time: Duration::from_millis(300), ..Limits::default() };
    let server = TlsServer::new(Model::Coroutines, limits);
    let name = ServerName::try_from("localhost").unwrap();
    let mut session = ClientConnection::new(Arc::clone(&server.client), name).unwrap();
    let mut hello = Vec::new();
    session.write_tls(&mut hello).unwrap();
    let mut stream = tcp(server.running.local_addr());
    stream.set_nodelay(true).unwrap();
    hello.iter().for_each(|byte| stream.write_all(&[*byte]).unwrap());
    let mut client = StreamOwned::new(session, stream);
    client.write_all(&get("5")).unwrap();
    assert_eq!(answer(&mut client), b"xxxxx");

    // More bytes do not buy more time.
    let mut slow = tcp(server.running.local_addr());
    let start = Instant::now();
    for byte in &hello[..20] {
        slow.write_all(&[*byte]).ok();
        std::thread::sleep(Duration::from_millis(40));
    }
    /// The kind of record that says good-bye. Source: RFC 8446, section 5.1.
    const ALERT: u8 = 21;
    let mut said = [0; 64];
    if let Ok(1..) = slow.read(&mut said) {
        assert_eq!(said[0], ALERT, "half a hello was answered");
    }
    assert!(start.elapsed() < Duration::from_secs(3));
    assert!(server.metric("timeouts_total") >= 1);
}

#[test]
fn plain_http_to_a_tls_port_is_refused_and_reaches_no_handler() {
    for model in MODELS {
        let server = TlsServer::new(model, Limits::default());
        let mut client = Client::new(server.running.local_addr());
        client.send(b"GET / HTTP/1.1\r\nHost: x\r\n\r\n");
        client.assert_ends();
        assert_eq!(server.metric("requests_total"), 0);
        let mut client = server.connect();
        client.write_all(&get("1")).unwrap();
        assert_eq!(answer(&mut client), b"x", "{model:?}: the next is served");
    }
}

#[test]
fn what_is_refused_in_the_clear_is_refused_behind_tls() {
    for model in MODELS {
        let (config, trusting) = halves();
        let server = TestServer::with(|server| model.apply_to(server).tls(config), echo);
        let ask = |name: &str, request: &[u8], status: u16| {
            let mut client = Client::over(connect(server.address, Arc::clone(&trusting)));
            client.send(request);
            let answer = client.response();
            assert_eq!((answer.status, answer.keep_alive), (status, false), "{model}: {name}");
            client.assert_closed(name);
        };
        REFUSED.iter().for_each(|Case { name, request, status }| ask(name, request, *status));
        assert_eq!(server.metric("requests_total"), 0, "{model}: one of them reached the handler");
        assert_eq!(server.metric("refused_total"), REFUSED.len() as u64, "{model}");
        let head = b"POST / HTTP/1.1\r\nHost: x\r\nTransfer-Encoding: chunked\r\n\r\n";
        BAD_CHUNKS.iter().for_each(|(name, body)| ask(name, &[&head[..], body].concat(), 400));
        ask("a good one", b"GET / HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n", 200);
    }
}

#[test]
fn the_end_of_an_answer_is_told_from_a_cut() {
    let server = TlsServer::new(Model::Coroutines, Limits::default());
    let mut client = server.connect();
    client.write_all(b"GET /5 HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n").unwrap();
    assert_eq!(answer(&mut client), b"xxxxx");
    // Without the word that ends a TLS stream, rustls would say that it was cut.
    assert_eq!(client.read(&mut [0; 8]).unwrap(), 0);
}

#[test]
fn a_cut_answer_does_not_end_as_a_whole_one_does() {
    for model in MODELS {
        let server = TlsServer::new(model, Limits::default());
        let mut client = server.connect();
        client.write_all(b"GET /cut HTTP/1.0\r\n\r\n").unwrap();
        let mut got = Vec::new();
        assert!(client.read_to_end(&mut got).is_err(), "{model:?}: it seems to be whole");
    }
}

#[test]
fn threads_refuse_a_configuration_that_names_http_2() {
    let (mut config, _) = halves();
    config.alpn_protocols = vec![b"h2".to_vec(), b"http/1.1".to_vec()];
    let server = Server::bind("127.0.0.1:0").unwrap().tls(config).threads();
    let error = server.spawn(echo).unwrap_err();
    assert!(matches!(error, straightline::Error::Http2OnThreads), "{error}");
    assert!(error.to_string().starts_with("HTTP/2 needs coroutines: leave out `.threads()`"), "{error}");
}
