//! Servers of HTTP/3 that are not ours: `h3` on `quinn`, and one of `quinn` alone that says on its streams what it is told to.

use std::io::{self, IoSliceMut};
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use bytes::{Buf, Bytes};
use quinn::crypto::rustls::QuicServerConfig;
use quinn::udp::{RecvMeta, Transmit};
use quinn::{
    AsyncUdpSocket, Connection, Endpoint, EndpointConfig, Runtime, TokioRuntime, TransportConfig, UdpPoller,
    VarInt,
};

use testkit::now_ns;

use crate::serving::streams::{Clock, Conduct, Count};

/// How long a request is left unanswered that is to have no answer.
const SILENCE: Duration = Duration::from_secs(60);

/// Answers over HTTP/3 on a free port of 127.0.0.1 until the test ends.
pub(crate) fn serve(tls: rustls::ServerConfig, conduct: Conduct) -> (SocketAddr, Count) {
    serve_on(free_port(), tls, conduct)
}

fn free_port() -> UdpSocket {
    UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).unwrap()
}

/// The same on a port of the caller's.
pub(crate) fn serve_on(
    socket: UdpSocket,
    tls: rustls::ServerConfig,
    conduct: Conduct,
) -> (SocketAddr, Count) {
    let count = Count::default();
    let kept = count.clone();
    let (most, clock) = (conduct.most, conduct.clock.clone());
    let address = each_connection(socket, tls, (most, clock), move |connection| {
        let (conduct, count) = (conduct.clone(), kept.clone());
        tokio::spawn(async move { talk(connection, conduct, count).await });
    });
    (address, count)
}

/// What a server says that is none.
#[derive(Debug, Clone, Default)]
pub(crate) struct Script {
    /// The bytes of each stream that it begins.
    pub(crate) streams: Vec<Vec<u8>>,
    /// Its answer to each request; nothing is answered where there is none.
    pub(crate) answer: Option<Vec<u8>>,
    /// Whether it ends the streams that it begins.
    pub(crate) ends: bool,
    /// Whether it goes on for ever with the last of them.
    pub(crate) endless: bool,
    /// How many requests of a connection it answers before it says so on the first of them, and answers no more.
    pub(crate) farewell_after: Option<u8>,
}

/// Says on streams of QUIC what `script` tells it to; gives how many requests there were, too.
pub(crate) fn say(tls: rustls::ServerConfig, script: Script) -> (SocketAddr, Arc<AtomicUsize>) {
    let requests = Arc::<AtomicUsize>::default();
    let kept = Arc::clone(&requests);
    let script = Arc::new(script);
    let address = each_connection(free_port(), tls, (None, None), move |connection| {
        let (script, requests) = (Arc::clone(&script), Arc::clone(&kept));
        tokio::spawn(async move { recite(connection, &script, &requests).await });
    });
    (address, requests)
}

/// `most` is how many streams a connection may have at a time; `clock` is told when something is sent.
fn each_connection(
    socket: UdpSocket,
    mut tls: rustls::ServerConfig,
    (most, clock): (Option<u32>, Option<Clock>),
    take: impl Fn(Connection) + Send + 'static,
) -> SocketAddr {
    if tls.alpn_protocols.iter().any(|protocol| protocol == b"h2") {
        tls.alpn_protocols = vec![b"h3".to_vec()];
    }
    let mut config = quinn::ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap()));
    let mut transport = TransportConfig::default();
    if let Some(most) = most {
        transport.max_concurrent_bidi_streams(VarInt::from_u32(most));
    }
    config.transport_config(Arc::new(transport));
    let address = socket.local_addr().unwrap();
    std::thread::spawn(move || {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        runtime.block_on(async move {
            let socket = Watched { socket: TokioRuntime.wrap_udp_socket(socket).unwrap(), clock };
            let endpoint = Endpoint::new_with_abstract_socket(
                EndpointConfig::default(),
                Some(config),
                Arc::new(socket),
                Arc::new(TokioRuntime),
            )
            .unwrap();
            while let Some(incoming) = endpoint.accept().await {
                if let Ok(connection) = incoming.await {
                    take(connection);
                }
            }
        });
    });
    address
}

/// A socket that tells a clock what it sends. All that a server does is on one thread, so that what is answered before it sends is
/// in what it sends, encrypted already.
#[derive(Debug)]
struct Watched {
    socket: Arc<dyn AsyncUdpSocket>,
    clock: Option<Clock>,
}

impl AsyncUdpSocket for Watched {
    fn create_io_poller(self: Arc<Self>) -> Pin<Box<dyn UdpPoller>> {
        Arc::clone(&self.socket).create_io_poller()
    }

    fn try_send(&self, transmit: &Transmit<'_>) -> io::Result<()> {
        if let Some(clock) = &self.clock {
            clock.sends();
        }
        self.socket.try_send(transmit)
    }

    fn poll_recv(
        &self,
        cx: &mut Context<'_>,
        bufs: &mut [IoSliceMut<'_>],
        meta: &mut [RecvMeta],
    ) -> Poll<io::Result<usize>> {
        self.socket.poll_recv(cx, bufs, meta)
    }

    fn local_addr(&self) -> io::Result<SocketAddr> {
        self.socket.local_addr()
    }

    fn max_transmit_segments(&self) -> usize {
        self.socket.max_transmit_segments()
    }

    fn max_receive_segments(&self) -> usize {
        self.socket.max_receive_segments()
    }

    fn may_fragment(&self) -> bool {
        self.socket.may_fragment()
    }
}

type Stream = h3::server::RequestStream<h3_quinn::BidiStream<Bytes>, Bytes>;

async fn talk(connection: Connection, conduct: Conduct, count: Count) -> Option<()> {
    count.0.connections.fetch_add(1, Ordering::SeqCst);
    let mut connection =
        h3::server::Connection::<_, Bytes>::new(h3_quinn::Connection::new(connection)).await.ok()?;
    let open = Arc::new(AtomicUsize::new(0));
    let mut seen = 0;
    while let Ok(Some(resolver)) = connection.accept().await {
        let Ok((request, stream)) = resolver.resolve_request().await else { continue };
        seen += 1;
        *count.0.paths.lock().unwrap().entry(request.uri().path().to_owned()).or_default() += 1;
        let number = count.0.requests.fetch_add(1, Ordering::SeqCst) + 1;
        let timed = conduct.clock.as_ref().map(Clock::received);
        let (conduct, count, open) = (conduct.clone(), count.clone(), Arc::clone(&open));
        if conduct.goodbye_after == Some(seen) {
            let _ = connection.shutdown(0).await;
        }
        tokio::spawn(async move {
            count.0.most_at_once.fetch_max(open.fetch_add(1, Ordering::SeqCst) + 1, Ordering::SeqCst);
            answer(stream, number, &conduct, &count, (Instant::now(), timed)).await;
            open.fetch_sub(1, Ordering::SeqCst);
        });
    }
    Some(())
}

/// `came` is when the request did, and its number by the clock, with when that wants it answered.
async fn answer(
    mut stream: Stream,
    number: usize,
    conduct: &Conduct,
    count: &Count,
    (came, timed): (Instant, Option<(usize, u64)>),
) {
    while let Ok(Some(mut bytes)) = stream.recv_data().await {
        count.0.received.fetch_add(bytes.remaining(), Ordering::SeqCst);
        bytes.advance(bytes.remaining());
    }
    let every = |every: Option<usize>| every.is_some_and(|every| number.is_multiple_of(every));
    if every(conduct.silent_every) || conduct.is_frozen(number) {
        return tokio::time::sleep(SILENCE).await;
    }
    if every(conduct.reset_every) {
        return stream.stop_stream(h3::error::Code::H3_INTERNAL_ERROR);
    }
    if !conduct.delay.is_zero() {
        tokio::time::sleep(conduct.delay.saturating_sub(came.elapsed())).await;
    }
    if let Some((clock, (entry, due_ns))) = conduct.clock.as_ref().zip(timed) {
        let left_ns = due_ns.saturating_sub(now_ns());
        if left_ns > 0 {
            tokio::time::sleep(Duration::from_nanos(left_ns)).await;
        }
        clock.answers(entry);
    }
    let mut response = http::Response::builder().header("server", "witness").body(()).unwrap();
    if conduct.numbered {
        response.headers_mut().insert("x-number", number.into());
    }
    let _ = stream.send_response(response).await;
    if !conduct.halt.is_zero() {
        tokio::time::sleep(conduct.halt).await;
    }
    if conduct.body > 0 {
        let _ = stream.send_data(Bytes::from(vec![b'x'; conduct.body])).await;
    }
    let _ = stream.finish().await;
}

async fn recite(connection: Connection, script: &Script, requests: &AtomicUsize) -> Option<()> {
    let mut begun = Vec::new();
    for bytes in &script.streams {
        let mut stream = connection.open_uni().await.ok()?;
        let _ = stream.write_all(bytes).await;
        if script.ends {
            let _ = stream.finish();
        }
        begun.push(stream);
    }
    if let Some(stream) = begun.last_mut().filter(|_| script.endless) {
        while stream.write_all(&[0x21; 4096]).await.is_ok() {}
    }
    let mut left = script.farewell_after;
    while let Ok((mut send, mut receive)) = connection.accept_bi().await {
        let _ = receive.read_to_end(1 << 20).await;
        requests.fetch_add(1, Ordering::SeqCst);
        match script.answer.as_ref().filter(|_| left != Some(0)) {
            Some(answer) => {
                let _ = send.write_all(answer).await;
                let _ = send.finish();
            }
            None => std::mem::forget(send),
        }
        if let Some(left) = left.as_mut().filter(|left| **left > 0) {
            *left -= 1;
            if *left == 0 {
                // GOAWAY with the first stream that it does not look at. Source: RFC 9114, section 7.2.6.
                let first = 4 * script.farewell_after?;
                let _ = begun[0].write_all(&[7, 1, first]).await;
            }
        }
    }
    Some(())
}
