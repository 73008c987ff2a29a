//! Every protocol that `whyslow load` speaks, on one port and one thread: what is spoken is told by the first bytes.

#[path = "../../common/target.rs"]
mod target;

use std::error::Error;
use std::net::SocketAddr;
use std::sync::Arc;

use bytes::Bytes;
use futures_util::{SinkExt, StreamExt};
use http::{HeaderMap, HeaderValue, Request, Response, StatusCode};
use quinn::crypto::rustls::QuicServerConfig;
use rustls::ServerConfig;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio_rustls::TlsAcceptor;

type Outcome<T> = Result<T, Box<dyn Error + Send + Sync>>;

/// First byte of a TLS handshake. Source: RFC 8446, section 5.1.
const HANDSHAKE: u8 = 0x16;
/// How HTTP/2 begins by prior knowledge. Source: RFC 9113, section 3.4.
const PREFACE: &[u8] = b"PRI ";
/// A message of gRPC with the text in field 1.
const REPLY: &[u8] = b"\x00\x00\x00\x00\x0f\x0a\x0dHello, World!";
/// Longest head of a request that is waited for.
const HEAD_BYTES: usize = 16 * 1024;

fn main() -> Outcome<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let address: SocketAddr = target::address();
    let tls = certified()?;
    runtime.block_on(async {
        let quic = offering(&tls, &[b"h3"]);
        let config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(quic)?));
        let endpoint = quinn::Endpoint::server(config, address)?;
        tokio::spawn(async move {
            while let Some(incoming) = endpoint.accept().await {
                tokio::spawn(http3(incoming));
            }
        });
        let acceptor = TlsAcceptor::from(Arc::new(offering(&tls, &[b"h2", b"http/1.1"])));
        let listener = TcpListener::bind(address).await?;
        loop {
            let (socket, _) = listener.accept().await?;
            socket.set_nodelay(true)?;
            tokio::spawn(serve(acceptor.clone(), socket));
        }
    })
}

fn certified() -> Outcome<ServerConfig> {
    let made = rcgen::generate_simple_self_signed(vec!["localhost".to_owned()])?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    Ok(ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])?
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?)
}

fn offering(tls: &ServerConfig, protocols: &[&[u8]]) -> ServerConfig {
    let mut tls = tls.clone();
    tls.alpn_protocols = protocols.iter().map(|name| name.to_vec()).collect();
    tls
}

/// Serves a connection, whose first bytes say what is spoken.
async fn serve(acceptor: TlsAcceptor, socket: TcpStream) -> Outcome<()> {
    let mut first = [0; 1024];
    let seen = socket.peek(&mut first).await?;
    let begin = &first[..seen];
    if begin.first() == Some(&HANDSHAKE) {
        let stream = acceptor.accept(socket).await?;
        return match stream.get_ref().1.alpn_protocol() {
            Some(b"h2") => http2(stream).await,
            _ => http1(stream).await,
        };
    }
    if begin.starts_with(PREFACE) {
        return http2(socket).await;
    }
    match begin.to_ascii_lowercase().windows(18).any(|text| text == b"upgrade: websocket") {
        true => echo(socket).await,
        false => http1(socket).await,
    }
}

fn answer<T>(request: &Request<T>) -> (Response<()>, &'static str) {
    let (status, body) = match request.uri().path() {
        "/plaintext" => (StatusCode::OK, target::BODY),
        _ => (StatusCode::NOT_FOUND, "Not Found"),
    };
    let mut response = Response::new(());
    *response.status_mut() = status;
    let fields = [
        ("server", target::SERVER.to_owned()),
        ("content-type", "text/plain".to_owned()),
        ("content-length", body.len().to_string()),
    ];
    for (name, value) in fields {
        response.headers_mut().insert(name, value.parse().expect("a field"));
    }
    (response, body)
}

/// Requests without bodies.
async fn http1<S: AsyncRead + AsyncWrite + Unpin>(mut stream: S) -> Outcome<()> {
    let whole = |status: &str, body: &str| {
        let (server, length) = (target::SERVER, body.len());
        format!(
            "HTTP/1.1 {status}\r\nServer: {server}\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\n\r\n{body}"
        )
    };
    let (found, missing) = (whole("200 OK", target::BODY), whole("404 Not Found", "Not Found"));
    let (mut unread, mut out) = (Vec::new(), Vec::new());
    while stream.read_buf(&mut unread).await? > 0 && unread.len() <= HEAD_BYTES {
        while let Some(end) = unread.windows(4).position(|four| four == b"\r\n\r\n") {
            let answer = if unread.starts_with(b"GET /plaintext ") { &found } else { &missing };
            out.extend_from_slice(answer.as_bytes());
            unread.drain(..end + 4);
        }
        stream.write_all(&out).await?;
        stream.flush().await?;
        out.clear();
    }
    Ok(())
}

async fn http2<S: AsyncRead + AsyncWrite + Unpin>(stream: S) -> Outcome<()> {
    let mut connection = h2::server::handshake(stream).await?;
    while let Some(request) = connection.accept().await {
        let (request, mut respond) = request?;
        let kind = request.headers().get("content-type");
        if kind.is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc")) {
            tokio::spawn(call(request, respond));
            continue;
        }
        let (response, body) = answer(&request);
        respond.send_response(response, false)?.send_data(Bytes::from_static(body.as_bytes()), true)?;
    }
    Ok(())
}

/// Answers a call of gRPC, whatever it is, when its message has come.
async fn call(request: Request<h2::RecvStream>, mut respond: h2::server::SendResponse<Bytes>) -> Outcome<()> {
    let mut message = request.into_body();
    while let Some(part) = message.data().await {
        message.flow_control().release_capacity(part?.len())?;
    }
    let response = Response::builder().header("content-type", "application/grpc").body(())?;
    let mut stream = respond.send_response(response, false)?;
    stream.send_data(Bytes::from_static(REPLY), false)?;
    let status = [(http::HeaderName::from_static("grpc-status"), HeaderValue::from_static("0"))];
    Ok(stream.send_trailers(HeaderMap::from_iter(status))?)
}

/// Sends every message back.
async fn echo(socket: TcpStream) -> Outcome<()> {
    let mut socket = tokio_tungstenite::accept_async(socket).await?;
    while let Some(message) = socket.next().await {
        let message = message?;
        if message.is_text() || message.is_binary() {
            socket.send(message).await?;
        }
    }
    Ok(())
}

async fn http3(incoming: quinn::Incoming) -> Outcome<()> {
    let connection = h3_quinn::Connection::new(incoming.await?);
    let mut connection = h3::server::Connection::<_, Bytes>::new(connection).await?;
    while let Some(resolver) = connection.accept().await? {
        tokio::spawn(async move {
            let (request, mut stream) = resolver.resolve_request().await?;
            let (response, body) = answer(&request);
            stream.send_response(response).await?;
            stream.send_data(Bytes::from_static(body.as_bytes())).await?;
            stream.finish().await?;
            Outcome::Ok(())
        });
    }
    Ok(())
}
