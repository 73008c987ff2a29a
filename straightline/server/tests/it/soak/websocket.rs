//! Random faults on connections of WebSocket. Half of them are treated well: of what these say nothing is lost.

use super::{leave, on_two_shards, outlast};
use crate::support::{Client, MODELS, Random, TestServer, in_own_process, say};
use crate::websocket::{
    BINARY, CLOSE, CONTINUE, END, HANDSHAKE, PING, PONG, TEXT, close, frame, parse, whole,
};
use std::io::Read;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU64, Ordering};
use straightline::kit::websocket::Upgrade;

/// Messages of one connection, at most.
const MESSAGES: u64 = 8;
/// Bytes of a message, at most.
const MESSAGE_BYTES: u64 = 3_000;
/// The longest message that is taken, in bytes.
const LONGEST_BYTES: usize = 10_000;

/// Messages that came back and were right.
static ECHOED: AtomicU64 = AtomicU64::new(0);

/// A message as a client sends it, and as it comes back.
fn message(random: &mut Random) -> (Vec<u8>, (u8, Vec<u8>)) {
    let payload: Vec<u8> = (0..random.below(MESSAGE_BYTES)).map(|index| b'a' + (index % 26) as u8).collect();
    let kind = if random.below(2) == 0 { TEXT } else { BINARY };
    let back = (END | kind, payload.clone());
    match random.below(4) {
        0 => {
            let (first, second) = payload.split_at(payload.len() / 2);
            ([frame(kind, first), frame(END | CONTINUE, second)].concat(), back)
        }
        1 if payload.len() < 126 => (whole(PING, &payload), (END | PONG, payload)),
        _ => (whole(kind, &payload), back),
    }
}

/// A connection that shook hands.
fn shaken(address: SocketAddr) -> Client {
    let mut client = Client::new(address);
    client.send(format!("{HANDSHAKE}\r\n").as_bytes());
    assert!(client.switching().starts_with("HTTP/1.1 101 "), "the server takes the handshake");
    client
}

/// Says something, hears all of it, and says goodbye.
fn talk_well(address: SocketAddr, random: &mut Random) -> u64 {
    let mut client = shaken(address);
    let (mut sent, mut wanted) = (Vec::new(), Vec::new());
    for _ in 0..=random.below(MESSAGES) {
        let (bytes, back) = message(random);
        sent.extend(bytes);
        wanted.push(back);
    }
    let count = wanted.len() as u64;
    sent.extend(close(1000, b""));
    wanted.push((END | CLOSE, 1000u16.to_be_bytes().to_vec()));
    client.send(&sent);
    let mut heard = Vec::new();
    client.stream.read_to_end(&mut heard).expect("the connection ends in order");
    let mut rest = &heard[..];
    for (kind, payload) in wanted {
        let (first, found, after) = parse(rest).expect("no answer is lost");
        assert!(first == kind && found == payload, "{kind:x} of {} bytes, not {first:x}", payload.len());
        rest = after;
    }
    assert!(rest.is_empty(), "more came than was asked for");
    ECHOED.fetch_add(count, Ordering::Relaxed);
    count
}

/// What a client does wrong.
fn fault(random: &mut Random) -> Vec<u8> {
    match random.below(6) {
        0 => whole(3, b"no such kind"),
        1 => frame(END | CONTINUE, b"of nothing"),
        2 => whole(TEXT, [0xff, 0xfe]),
        3 => frame(PING, b"a part of a ping"),
        4 => whole(BINARY, vec![0; LONGEST_BYTES + 1]),
        _ => close(999, b"no such code"),
    }
}

/// Breaks rules, sends half frames, flips a bit or goes away at any point, the handshake included.
fn talk_badly(address: SocketAddr, random: &mut Random) -> u64 {
    let (mut client, count) = (Client::new(address), 1 + random.below(MESSAGES));
    let mut bytes = format!("{HANDSHAKE}\r\n").into_bytes();
    for _ in 0..count {
        bytes.extend(message(random).0);
        if random.below(4) == 0 {
            bytes.extend(fault(random));
        }
    }
    if random.below(4) == 0 {
        let at = random.below(bytes.len() as u64) as usize;
        bytes[at] ^= 1 << random.below(8);
    }
    let cut = if random.below(2) == 0 { bytes.len() } else { random.below(bytes.len() as u64) as usize };
    let pieces = if random.below(10) == 0 { 97 } else { bytes.len() };
    bytes[..cut].chunks(pieces).for_each(|piece| client.send(piece));
    if random.below(2) == 0 && cut == bytes.len() {
        // Some hear a little of it before they go.
        drop(client.stream.read(&mut [0; 500]));
    }
    leave(client.stream, random);
    count
}

fn torment(address: SocketAddr, random: &mut Random) -> u64 {
    match random.below(2) {
        0 => talk_well(address, random),
        _ => talk_badly(address, random),
    }
}

/// Runs in a process of its own, where nothing else opens descriptors.
#[test]
fn random_faults_leave_nothing_behind() {
    in_own_process("soak::websocket::torment_a_server");
}

pub(crate) fn torment_a_server() {
    for model in MODELS {
        let upgrade = Upgrade::new().frame_bytes(LONGEST_BYTES).message_bytes(LONGEST_BYTES);
        let server = TestServer::with(
            |server| on_two_shards(model, server),
            move |request, response| {
                if request.path() != "/chat" {
                    return response.send(b"no socket");
                }
                upgrade.serve(request, response, |socket| {
                    while let Some(message) = socket.recv()? {
                        socket.send(message)?;
                    }
                    Ok(())
                })
            },
        );
        ECHOED.store(0, Ordering::Relaxed);
        let connections = outlast(&server, torment, &format!("WebSocket, {model}"));
        let echoed = ECHOED.load(Ordering::Relaxed);
        say(&format!("WebSocket, {model}: {echoed} messages on good connections, each came back"));
        assert!(echoed > connections / 4, "too few were treated well: {echoed} of {connections} connections");
        assert_eq!(server.metric("accepted_total"), connections);
        server.until("every handler ends", |server| server.metric("coroutines") == 0);
        server.assert_serves("the soak");
    }
}
