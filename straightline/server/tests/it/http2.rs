//! HTTP/2 over real sockets: the cases of h2spec and h2spec itself, other clients, floods, and what handlers see.

mod clients;
pub(crate) mod floods;
mod h2spec;
pub(crate) mod handlers;
pub(crate) mod raw;
mod spec;
