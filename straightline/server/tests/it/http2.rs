//! HTTP/2 over real sockets: the cases of h2spec, other clients, floods, and what handlers see.

mod clients;
pub(crate) mod floods;
pub(crate) mod handlers;
mod raw;
mod spec;
