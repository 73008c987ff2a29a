//! HTTP/1.1 for straight-line code: handlers that read and write like files, at the speed of an event loop.
#![deny(unsafe_code)]

pub mod rt;
mod server;

pub use server::*;
