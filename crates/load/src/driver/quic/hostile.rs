//! Datagrams that are lost, doubled, late, cut, changed, glued together or made up, between a connection of ours and a server
//! in memory: whatever comes, the connection goes on or ends, and keeps no more than it may.

use std::collections::{HashSet, VecDeque};
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::BytesMut;
use model::plan::SplitMix64;
use quinn_proto::crypto::rustls::QuicServerConfig;
use quinn_proto::{
    Connection, ConnectionHandle, DatagramEvent, Dir, Endpoint, EndpointConfig, Event, ServerConfig,
    StreamEvent, StreamId,
};
use rcgen::KeyPair;
use rustls::crypto::ring;
use rustls::pki_types::PrivateKeyDer;

use super::client::Client;
use super::core::Core;
use crate::session::http3::piece::Piece;
use crate::{Roots, Target, Tls};

const SERVER: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4433);
const CLIENT: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(Ipv4Addr::LOCALHOST), 4434);
/// Requests of one run.
const REQUESTS: usize = 20;
/// Turns of one run; each is a millisecond on the clock of the test.
const TURNS: u32 = 400;

fn server() -> Arc<ServerConfig> {
    let key = KeyPair::generate().unwrap();
    let certificate =
        rcgen::CertificateParams::new(vec!["localhost".to_owned()]).unwrap().self_signed(&key).unwrap();
    let mut tls = rustls::ServerConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .unwrap()
        .with_no_client_auth()
        .with_single_cert(
            vec![certificate.der().clone()],
            PrivateKeyDer::try_from(key.serialize_der()).unwrap(),
        )
        .unwrap();
    tls.alpn_protocols = vec![b"h3".to_vec()];
    Arc::new(ServerConfig::with_crypto(Arc::new(QuicServerConfig::try_from(tls).unwrap())))
}

fn client() -> Client {
    let mut target = Target::unix("https://localhost/", "x".into()).unwrap();
    target.addresses.clear();
    let tls = Tls { roots: Roots::Anyone, identity: None };
    tls.quic_client(&target, "h3", 4).unwrap().quic.unwrap()
}

/// A server that answers every stream with what was sent on it.
struct Echo {
    endpoint: Endpoint,
    connections: Vec<(ConnectionHandle, Connection)>,
}

impl Echo {
    fn take_in(&mut self, now: Instant, datagram: &[u8], out: &mut VecDeque<Vec<u8>>) {
        let mut buf = Vec::new();
        match self.endpoint.handle(now, CLIENT, None, None, BytesMut::from(datagram), &mut buf) {
            Some(DatagramEvent::ConnectionEvent(handle, event)) => {
                if let Some((_, connection)) = self.connections.iter_mut().find(|(own, _)| *own == handle) {
                    connection.handle_event(event);
                }
            }
            Some(DatagramEvent::NewConnection(incoming)) => {
                if let Ok((handle, connection)) = self.endpoint.accept(incoming, now, &mut buf, None) {
                    self.connections.push((handle, connection));
                }
            }
            Some(DatagramEvent::Response(transmit)) => out.push_back(buf[..transmit.size].to_vec()),
            None => {}
        }
    }

    fn turn(&mut self, now: Instant, out: &mut VecDeque<Vec<u8>>) {
        for (handle, connection) in &mut self.connections {
            if connection.poll_timeout().is_some_and(|due| due <= now) {
                connection.handle_timeout(now);
            }
            while let Some(event) = connection.poll_endpoint_events() {
                if let Some(event) = self.endpoint.handle_event(*handle, event) {
                    connection.handle_event(event);
                }
            }
            while let Some(event) = connection.poll() {
                match event {
                    Event::Stream(StreamEvent::Opened { dir: Dir::Bi }) => {
                        while let Some(id) = connection.streams().accept(Dir::Bi) {
                            echo(connection, id);
                        }
                    }
                    Event::Stream(StreamEvent::Readable { id }) => echo(connection, id),
                    _ => {}
                }
            }
            let mut buf = Vec::new();
            while let Some(transmit) = connection.poll_transmit(now, 1, &mut buf) {
                out.push_back(buf[..transmit.size].to_vec());
                buf.clear();
            }
        }
    }
}

fn echo(connection: &mut Connection, id: StreamId) {
    let (mut bytes, mut ended) = (Vec::new(), false);
    {
        let mut stream = connection.recv_stream(id);
        let Ok(mut chunks) = stream.read(true) else { return };
        while let Ok(next) = chunks.next(usize::MAX) {
            match next {
                Some(chunk) => bytes.extend_from_slice(&chunk.bytes),
                None => {
                    ended = true;
                    break;
                }
            }
        }
        let _ = chunks.finalize();
    }
    let mut stream = connection.send_stream(id);
    let _ = stream.write(&bytes);
    if ended {
        let _ = stream.finish();
    }
}

/// What becomes of a datagram on its way to the client.
fn mangled(random: &mut SplitMix64, mut datagram: Vec<u8>) -> Vec<Vec<u8>> {
    let place = |random: &mut SplitMix64, length: usize| random.below(length.max(1) as u64) as usize;
    match random.below(10) {
        0 => vec![],
        1 => vec![datagram.clone(), datagram],
        2 => {
            let at = place(random, datagram.len());
            datagram[at] ^= 1 << random.below(8);
            vec![datagram]
        }
        3 => {
            datagram.truncate(place(random, datagram.len()));
            vec![datagram]
        }
        4 => {
            let made_up = (0..random.below(1500)).map(|_| random.below(256) as u8).collect();
            vec![made_up, datagram]
        }
        5 => vec![[&datagram[..], &datagram[..]].concat()],
        6 => {
            // The first byte says what kind of packet it is.
            datagram[0] = random.below(256) as u8;
            vec![datagram]
        }
        _ => vec![datagram],
    }
}

/// One connection on which requests are echoed; how many were, whole.
fn run(seed: u64, hostile: bool, client: &Client, server: &Arc<ServerConfig>) -> usize {
    let mut random = SplitMix64::fork(seed, "datagrams", 0);
    let mut now = Instant::now();
    let mut core = Core::new(client, SERVER, false, now).unwrap();
    let endpoint = Endpoint::new(Arc::new(EndpointConfig::default()), Some(Arc::clone(server)), false, None);
    let mut echo = Echo { endpoint, connections: Vec::new() };
    let mut to_client = VecDeque::new();
    let (mut sent, mut answered, mut buf) = (0, HashSet::new(), vec![0; 16 * 1024]);
    for _ in 0..TURNS {
        now += Duration::from_millis(1);
        core.tick(now);
        let mut out = Vec::new();
        while let Some(transmit) = core.transmit(now, 4, &mut out) {
            let stride = transmit.segment_size.unwrap_or(transmit.size);
            let datagrams: Vec<Vec<u8>> = out[..transmit.size].chunks(stride).map(<[u8]>::to_vec).collect();
            datagrams.iter().for_each(|datagram| echo.take_in(now, datagram, &mut to_client));
            out.clear();
        }
        echo.turn(now, &mut to_client);
        while let Some(datagram) = to_client.pop_front() {
            let parts = if hostile { mangled(&mut random, datagram) } else { vec![datagram] };
            for part in parts {
                let stride =
                    if hostile && random.below(10) == 0 { 1 + random.below(99) as usize } else { part.len() };
                core.take_in(now, &part, stride, None);
            }
        }
        core.turn();
        sent = ask(&mut core, now, &mut buf, sent, &mut answered);
        if core.is_broken() || answered.len() == REQUESTS {
            break;
        }
    }
    assert!(answered.len() <= sent);
    answered.len()
}

/// Takes the pieces that are there, and asks on every stream that may be begun.
fn ask(core: &mut Core, now: Instant, buf: &mut [u8], mut sent: usize, answered: &mut HashSet<u64>) -> usize {
    loop {
        let bytes = core.give(buf);
        if bytes == 0 {
            return sent;
        }
        let (mut pieces, mut out) = (&buf[..bytes], Vec::new());
        while let Some(piece) = Piece::next(&mut pieces) {
            match piece {
                Piece::Room { stream } if sent < REQUESTS => {
                    Piece::Data { stream, bytes: &[b'x'; 3000], last: true }.write(&mut out);
                    sent += 1;
                }
                Piece::Data { stream, bytes, last } => {
                    assert!(bytes.iter().all(|byte| *byte == b'x'), "what arrives is what was sent");
                    if last {
                        answered.insert(stream);
                    }
                }
                _ => {}
            }
        }
        assert!(pieces.is_empty(), "pieces are whole");
        let _ = core.take_pieces(now, &out);
    }
}

#[test]
fn without_faults_everything_is_answered() {
    assert_eq!(run(0, false, &client(), &server()), REQUESTS);
}

/// For as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (0 by default) on, and at least so many.
#[test]
fn fuzz_datagrams_do_no_more_than_end_a_connection() {
    const RUNS: u64 = 20;
    let number =
        |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"));
    let (time, first) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 0));
    let (client, server, start) = (client(), server(), Instant::now());
    let (mut runs, mut answered) = (0, 0);
    while runs < RUNS || start.elapsed() < time {
        answered += run(first + runs, true, &client, &server);
        runs += 1;
    }
    // Runs in which nothing ever arrives would prove nothing.
    assert!(answered as u64 > runs, "{answered} answers in {runs} runs");
}
