//! What a server was told to do: the same for all of its shards.

use super::error_body::ErrorBodies;
use super::event::Event;
use super::limits::Limits;
use super::request::Request;
use super::response::{Done, Response};
use super::transport::Transport;
use crate::rt::waker::contained;
use crate::rt::watch::Name;
use std::io;

/// What answers requests.
pub(crate) type Handler = dyn for<'a> Fn(&mut Request<'a>, Response<'a>) -> io::Result<Done> + Send + Sync;

/// Takes what the server has to tell.
pub(crate) type OnEvent = Box<dyn Fn(Event) + Send + Sync>;

pub(crate) struct Service {
    pub(crate) handler: Box<Handler>,
    pub(crate) name: &'static Name,
    pub(crate) limits: Limits,
    pub(crate) on_event: OnEvent,
    pub(crate) error_bodies: Option<ErrorBodies>,
    #[cfg(feature = "tls")]
    pub(crate) tls: Option<std::sync::Arc<rustls::ServerConfig>>,
}

impl Service {
    /// Tells what happened, to someone whose panics must cost neither a thread nor what is to be done next.
    pub(crate) fn tell(&self, event: Event) {
        contained(|| (self.on_event)(event));
    }

    /// Whether clients get and send bytes as they are.
    pub(crate) fn is_plain(&self) -> bool {
        #[cfg(feature = "tls")]
        return self.tls.is_none();
        #[cfg(not(feature = "tls"))]
        true
    }

    /// The way of a new connection.
    pub(crate) fn transport(&self) -> io::Result<Transport> {
        #[cfg(feature = "tls")]
        if let Some(config) = &self.tls {
            return super::tls::Tls::new(config).map(|tls| Transport::Tls(Box::new(tls)));
        }
        Ok(Transport::Plain)
    }
}
