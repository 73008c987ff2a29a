//! What most services need besides a server: small parts, each behind the feature of its name.
//!
//! | feature | part |
//! |---|---|
//! | `router` | `Router`: handlers by method and path |
//! | `files` | `Files`: the files of a folder, with ranges and conditions, compressed beforehand or not |
//! | `compress` | `Compressed`: answers in Brotli or gzip, as the client likes |
//! | `access-log` | `logged`: a line for each answer |
//! | `events` | `Events`: server-sent events |
//! | `postgres` | `postgres`: a client of PostgreSQL that suspends the handler, not the thread |
//! | `redis` | `redis`: a client of Redis that does the same |
//! | `json` | `json`: bodies in JSON |
//! | `forms` | `forms`: forms, with files part by part |
//! | `cookies` | `cookies`: read and set |
//! | `cors` | `Cors`: pages of other origins that may read answers |
//! | `websocket` | `websocket`: messages both ways |

#[cfg(feature = "access-log")]
mod access_log;
#[cfg(any(feature = "compress", feature = "files"))]
#[cfg_attr(not(feature = "compress"), expect(unreachable_pub, reason = "it is exported with `Compressed`"))]
mod coding;
#[cfg(feature = "compress")]
mod compress;
#[cfg(feature = "cookies")]
pub mod cookies;
#[cfg(feature = "cors")]
mod cors;
#[cfg(feature = "events")]
mod events;
#[cfg(feature = "files")]
mod files;
#[cfg(feature = "forms")]
pub mod forms;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod host;
#[cfg(feature = "json")]
pub mod json;
#[cfg(any(feature = "forms", feature = "json"))]
mod media;
#[cfg(any(feature = "files", feature = "postgres", feature = "redis", feature = "router"))]
mod percent;
#[cfg(feature = "postgres")]
pub mod postgres;
#[cfg(feature = "redis")]
pub mod redis;
#[cfg(feature = "router")]
mod router;
#[cfg(any(feature = "postgres", feature = "redis"))]
mod shelf;
#[cfg(feature = "websocket")]
pub mod websocket;

#[cfg(feature = "access-log")]
pub use access_log::{Entry, logged};
#[cfg(feature = "compress")]
pub use coding::{Coding, preferred};
#[cfg(feature = "compress")]
pub use compress::Compressed;
#[cfg(feature = "cors")]
pub use cors::Cors;
#[cfg(feature = "events")]
pub use events::{Events, ServerEvent};
#[cfg(feature = "files")]
pub use files::Files;
#[cfg(feature = "router")]
pub use router::{Params, RouteError, Router};

/// The type of what `Router` and `Files` say of errors, where the service says nothing else.
#[cfg(any(feature = "files", feature = "router"))]
const PLAIN: crate::FieldLine = crate::FieldLine::new("content-type: text/plain");
