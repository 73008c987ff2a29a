//! From a request to a WebSocket.

use super::{Bounds, WebSocket};
use crate::{Done, Request, Response, StatusError};
use std::io;
use std::time::Duration;
use tungstenite::handshake::derive_accept_key;

/// Longest frame and longest message in bytes, unless said: what a chat or a feed sends, many times over.
const MESSAGE_BYTES: usize = 1024 * 1024;
/// Longest silence of a client, unless said; half of it after which it is asked whether it is there. Proxies commonly close
/// what is silent for a minute.
const SILENCE: Duration = Duration::from_secs(60);
/// A key is 16 bytes in base64.
const KEY_BYTES: usize = 24;

/// How a request becomes a WebSocket.
#[derive(Clone, Debug)]
pub struct Upgrade {
    bounds: Bounds,
    origins: Origins,
    protocols: Vec<String>,
}

/// Which pages may connect.
#[derive(Clone, Debug)]
enum Origins {
    /// Those of the host that is asked, and what is no page.
    Same,
    /// Those, and these.
    Also(Vec<String>),
    Any,
}

impl Default for Upgrade {
    fn default() -> Self {
        let bounds = Bounds { frame_bytes: MESSAGE_BYTES, message_bytes: MESSAGE_BYTES, silence: SILENCE };
        Self { bounds, origins: Origins::Same, protocols: Vec::new() }
    }
}

impl Upgrade {
    /// With limits as they are; pages of other hosts are refused.
    pub fn new() -> Self {
        Self::default()
    }

    /// Longest frame in bytes, 1 MiB unless said.
    pub fn frame_bytes(mut self, most: usize) -> Self {
        self.bounds.frame_bytes = most;
        self
    }

    /// Longest message in bytes, 1 MiB unless said.
    pub fn message_bytes(mut self, most: usize) -> Self {
        self.bounds.message_bytes = most;
        self
    }

    /// Longest silence of a client, 60 s unless said, at least 10 ms. After half of it a ping is sent.
    pub fn silence(mut self, longest: Duration) -> Self {
        self.bounds.silence = longest.max(Duration::from_millis(10));
        self
    }

    /// Lets pages of this origin connect too, such as `https://example.com`.
    pub fn allow_origin(mut self, origin: &str) -> Self {
        match &mut self.origins {
            Origins::Also(others) => others.push(origin.to_owned()),
            Origins::Same => self.origins = Origins::Also(vec![origin.to_owned()]),
            Origins::Any => {}
        }
        self
    }

    /// Lets pages of every origin connect: they do so with the cookies of whoever looks at them.
    pub fn allow_any_origin(mut self) -> Self {
        self.origins = Origins::Any;
        self
    }

    /// A protocol that is spoken; the first that a client offers and that is one of these is chosen.
    pub fn protocol(mut self, name: &str) -> Self {
        self.protocols.push(name.to_owned());
        self
    }

    /// Answers with 101 and runs `talk`; the connection is closed when it returns, with 1000, or with 1011 after an error.
    /// A request that is no WebSocket is answered with 400, 403 or 426.
    ///
    /// # Errors
    ///
    /// Those of `talk`, and of sending.
    pub fn serve<'a, F>(&self, request: &mut Request<'a>, response: Response<'a>, talk: F) -> io::Result<Done>
    where
        F: FnOnce(&mut WebSocket<'_, 'a>) -> io::Result<()>,
    {
        let other_version = request.header("sec-websocket-version").is_some_and(|version| version != "13");
        if other_version && request.version() == "HTTP/1.1" {
            return another_version(response);
        }
        let key = key_of(request)?;
        if !self.lets_in(request) {
            return Err(StatusError::new(403, "pages of this origin may not connect").into());
        }
        let mut response = response.header("sec-websocket-accept", derive_accept_key(key.as_bytes()))?;
        if let Some(protocol) = self.chosen(request) {
            response = response.header("sec-websocket-protocol", protocol)?;
        }
        let stream = response.upgrade(request, "websocket").map_err(|error| match error.kind() {
            io::ErrorKind::InvalidInput => not_one(),
            _ => error,
        })?;
        let mut socket = WebSocket::over(stream, self.bounds);
        match talk(&mut socket) {
            Ok(()) => socket.close(1000, "")?,
            Err(error) => {
                socket.close(1011, "").ok();
                return Err(error);
            }
        }
        drop(socket);
        Ok(Done::upgraded())
    }

    fn lets_in(&self, request: &Request<'_>) -> bool {
        let Some(origin) = one(request, "origin") else { return true };
        let same =
            origin.split_once("://").is_some_and(|(_, host)| host.eq_ignore_ascii_case(request.host()));
        match &self.origins {
            Origins::Any => true,
            Origins::Same => same,
            Origins::Also(others) => same || others.iter().any(|other| other.eq_ignore_ascii_case(origin)),
        }
    }

    fn chosen(&self, request: &Request<'_>) -> Option<&str> {
        let mut offers =
            request.headers().filter(|(name, _)| name.eq_ignore_ascii_case("sec-websocket-protocol"));
        offers
            .find_map(|(_, value)| {
                let mut names = value.split(|byte| *byte == b',').map(<[u8]>::trim_ascii);
                names.find_map(|name| self.protocols.iter().find(|known| known.as_bytes() == name))
            })
            .map(String::as_str)
    }
}

/// Says which version is spoken.
///
/// Source: RFC 6455, section 4.4; RFC 9110, sections 7.8 and 15.5.22.
fn another_version(response: Response<'_>) -> io::Result<Done> {
    let response = response.status(426).header("upgrade", "websocket")?.header("connection", "upgrade")?;
    response.header("sec-websocket-version", "13")?.send(b"")
}

fn not_one() -> io::Error {
    StatusError::new(400, "this is no WebSocket").into()
}

/// The only field of this name; what is said several times, or is no text, is as good as something wrong.
fn one<'a>(request: &Request<'a>, name: &str) -> Option<&'a str> {
    let mut fields = request.headers().filter(|(other, _)| other.eq_ignore_ascii_case(name));
    let (_, value) = fields.next()?;
    if fields.next().is_some() {
        return Some("");
    }
    Some(std::str::from_utf8(value).unwrap_or_default())
}

/// The key of a request that is a WebSocket's.
fn key_of<'a>(request: &Request<'a>) -> io::Result<&'a str> {
    let key = one(request, "sec-websocket-key").unwrap_or_default();
    let digits = key.strip_suffix("==").unwrap_or_default();
    let whole = key.len() == KEY_BYTES
        && digits.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'+' || byte == b'/');
    let good = whole
        && request.method() == "GET"
        && request.version() == "HTTP/1.1"
        && one(request, "sec-websocket-version") == Some("13");
    if good { Ok(key) } else { Err(not_one()) }
}
