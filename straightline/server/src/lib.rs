//! HTTP/1.1 and HTTP/2 for straight-line code: handlers that read and write like files, at the speed of an event loop.
//!
//! [`Server`] is the way in. [`rt`] has what handlers wait with: sleeping, locks, channels, connections, work on helper
//! threads. [`kit`] has what most services need besides, each part behind a feature of its name. [`http1`] reads and
//! writes the messages, for handlers that speak to other servers.
#![deny(unsafe_code)]

pub mod kit;
pub mod rt;
mod server;

pub use http1;
pub use http1::write::FieldLine;
pub use server::*;

#[cfg(feature = "tls")]
pub use rustls;

#[cfg(doctest)]
#[doc = include_str!("../README.md")]
struct Readme;

/// The tour, whose programs are compiled.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/straightline.md")]
struct Tour;

/// The guide for those who come from other servers, whose programs are compiled, too.
#[cfg(doctest)]
#[doc = include_str!("../../../docs/migrate.md")]
struct Migrate;
