//! `cargo +nightly fuzz run websocket`: what a client sends after its handshake, to an echo in this process. Whatever it
//! is, the connection ends, with one close at most, and the next one is served.
#![no_main]

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::LazyLock;
use std::time::Duration;
use straightline::kit::websocket::Upgrade;

/// Longest wait for a connection to end: only a hang takes so long.
const PATIENCE: Duration = Duration::from_secs(10);
const HANDSHAKE: &[u8] = b"GET / HTTP/1.1\r\nHost: x\r\nUpgrade: websocket\r\nConnection: Upgrade\r\n\
    Sec-WebSocket-Key: dGhlIHNhbXBsZSBub25jZQ==\r\nSec-WebSocket-Version: 13\r\n\r\n";

static SERVER: LazyLock<SocketAddr> = LazyLock::new(|| {
    let server = straightline::Server::bind("127.0.0.1:0").expect("there is a free port").workers(1);
    let running = server.spawn(|request, response| {
        Upgrade::new().message_bytes(10_000).serve(request, response, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        })
    });
    // Dropping what runs lets it run on.
    running.expect("the server starts").local_addr()
});

libfuzzer_sys::fuzz_target!(|bytes: &[u8]| {
    let mut stream = TcpStream::connect(*SERVER).expect("the server is there");
    stream.set_read_timeout(Some(PATIENCE)).expect("the time is not zero");
    stream.write_all(&[HANDSHAKE, bytes].concat()).ok();
    stream.shutdown(Shutdown::Write).ok();
    let mut answer = Vec::new();
    if let Err(error) = stream.read_to_end(&mut answer) {
        assert_eq!(error.kind(), std::io::ErrorKind::ConnectionReset, "it did not end");
        return;
    }
    let head = answer.windows(4).position(|end| end == b"\r\n\r\n").expect("a whole head came");
    check_frames(&answer[head + 4..]);
});

/// Every frame is whole, without a mask, of a kind that a server sends, and none follows a close.
fn check_frames(mut rest: &[u8]) {
    let mut closed = false;
    while let [first, second, after @ ..] = rest {
        assert!(
            !closed && second & 0x80 == 0 && matches!(first, 0x81 | 0x82 | 0x88 | 0x8a),
            "{first:x} {second:x}"
        );
        let (length, after) = match second {
            126 => (usize::from(u16::from_be_bytes([after[0], after[1]])), &after[2..]),
            length => (usize::from(*length), after),
        };
        (closed, rest) = (*first == 0x88, &after[length..]);
    }
    assert!(rest.is_empty());
}
