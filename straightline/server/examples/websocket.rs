//! Sends every message of a WebSocket back: `websocket [ADDRESS]`.

use std::time::Duration;
use straightline::kit::websocket::Upgrade;
use straightline::{Error, Running, Server};

/// Longest message in bytes.
const MESSAGE_BYTES: usize = 16 * 1024 * 1024;

fn main() -> Result<(), Error> {
    let address = std::env::args().nth(1).unwrap_or_else(|| "127.0.0.1:8080".into());
    start(Server::bind(address.as_str())?.on_signals(Duration::from_secs(5)))?.join();
    Ok(())
}

/// Begins to serve.
pub(crate) fn start(server: Server) -> Result<Running, Error> {
    let upgrade = Upgrade::new().frame_bytes(MESSAGE_BYTES).message_bytes(MESSAGE_BYTES);
    server.spawn(move |request, response| {
        upgrade.serve(request, response, |socket| {
            while let Some(message) = socket.recv()? {
                socket.send(message)?;
            }
            Ok(())
        })
    })
}
