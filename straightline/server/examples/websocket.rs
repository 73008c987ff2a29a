//! WebSocket by tungstenite, which reads and writes a stream as if it blocked: `websocket [ADDRESS]`.

use std::io;
use std::time::Duration;
use straightline::{Done, Error, Request, Response, Running, Server, StatusError};
use tungstenite::handshake::derive_accept_key;
use tungstenite::protocol::{Role, WebSocket};

fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    start(Server::bind(address.as_str())?.on_signals(Duration::from_secs(5)))?.join();
    Ok(())
}

/// Begins to serve.
pub(crate) fn start(server: Server) -> Result<Running, Error> {
    server.spawn(echo)
}

/// Sends every message back.
fn echo<'a>(request: &mut Request<'a>, response: Response<'a>) -> io::Result<Done> {
    let key = request.header("sec-websocket-key").filter(|_| request.method() == "GET");
    let key = key.ok_or(StatusError::new(400, "only WebSocket is spoken here"))?;
    if request.header("sec-websocket-version") != Some("13") {
        return response.status(426).header("sec-websocket-version", "13")?.send(b"");
    }
    let response = response.header("sec-websocket-accept", derive_accept_key(key.as_bytes()))?;
    let mut stream = response.upgrade(request, "websocket")?;
    let mut socket = WebSocket::from_raw_socket(&mut stream, Role::Server, None);
    loop {
        match socket.read() {
            Ok(message) if message.is_text() || message.is_binary() => {
                socket.send(message).map_err(io::Error::other)?;
            }
            // tungstenite answers pings, and a close, by itself.
            Ok(_) => {}
            Err(tungstenite::Error::ConnectionClosed) => break,
            Err(error) => return Err(io::Error::other(error)),
        }
    }
    drop(socket);
    Ok(stream.finish())
}
