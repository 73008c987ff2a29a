use crate::Address;
use crate::session::Feed;

/// What one thread sends, and where.
#[derive(Debug)]
pub struct Supply {
    /// What.
    pub requests: Requests,
    /// Where to, if not where all threads do.
    pub address: Option<Address>,
}

/// The requests of one thread.
#[derive(Debug)]
pub enum Requests {
    /// One request as it goes over the wire, again and again.
    Same(Vec<u8>),
    /// Each from a feed.
    Each(Box<dyn Feed>),
}
