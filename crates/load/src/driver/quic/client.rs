use std::sync::Arc;
use std::time::Duration;

use quinn_proto::crypto::rustls::QuicClientConfig;
use quinn_proto::{
    ClientConfig, EndpointConfig, MtuDiscoveryConfig, RandomConnectionIdGenerator, TransportConfig, VarInt,
};

use crate::session::http3::MOST_INBOUND;

/// Flow-control windows of one stream and of the connection: a server must not wait for us to read, which we do at once, and
/// one that sends out of order takes no more memory than this.
const STREAM_BYTES: u32 = 4 * 1024 * 1024;
const CONNECTION_BYTES: u32 = 8 * 1024 * 1024;
/// Time between searches for a larger datagram that the path carries.
const SEARCH_EVERY: Duration = Duration::from_secs(600);

/// What every connection to one server is begun with.
#[derive(Debug, Clone)]
pub(crate) struct Client {
    pub(super) config: ClientConfig,
    pub(super) endpoint: Arc<EndpointConfig>,
    /// The name that its certificate must have.
    pub(super) name: String,
    /// Streams that are begun ahead at most.
    pub(super) ahead: u32,
}

impl Client {
    /// With what TLS is set to, the server's name, and so many streams at a time.
    ///
    /// # Errors
    /// What QUIC needs of TLS and is not there.
    pub(crate) fn new(tls: &Arc<rustls::ClientConfig>, name: &str, streams: u32) -> Result<Self, String> {
        let crypto = QuicClientConfig::try_from(Arc::clone(tls)).map_err(|error| error.to_string())?;
        let mut config = ClientConfig::new(Arc::new(crypto));
        config.transport_config(Arc::new(transport()));
        let mut endpoint = EndpointConfig::default();
        // Each connection has a socket of its own, and needs no name besides.
        endpoint.cid_generator(|| Box::new(RandomConnectionIdGenerator::new(0)));
        // One more of each than there are lanes: a lane that is free again does not wait for the next read.
        Ok(Self { config, endpoint: Arc::new(endpoint), name: name.to_owned(), ahead: 2 * streams })
    }
}

fn transport() -> TransportConfig {
    let mut search = MtuDiscoveryConfig::default();
    search.interval(SEARCH_EVERY);
    let mut transport = TransportConfig::default();
    transport
        .max_concurrent_bidi_streams(VarInt::from_u32(0))
        .max_concurrent_uni_streams(VarInt::from_u32(MOST_INBOUND))
        .stream_receive_window(VarInt::from_u32(STREAM_BYTES))
        .receive_window(VarInt::from_u32(CONNECTION_BYTES))
        .datagram_receive_buffer_size(None)
        .mtu_discovery_config(Some(search))
        // How long to wait for a server is for the timeout to say.
        .max_idle_timeout(None);
    transport
}
