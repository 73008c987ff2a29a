//! What is at which address, and who may ask.

use std::net::{IpAddr, Ipv6Addr};
use std::path::PathBuf;
use std::sync::{Mutex, PoisonError};

use report::{Page, PageData, Place};

use super::events;
use crate::history::{self, Index, Shelf};
use crate::report_command;

/// What is served.
pub(super) struct Routes {
    pub(super) shelf: Shelf,
    pub(super) index: Mutex<Index>,
}

/// An answer before it is written.
pub(super) enum Answer {
    /// A page.
    Page {
        /// Status.
        status: u16,
        /// The page.
        page: Page,
    },
    /// The events of a run in progress.
    Events {
        /// Its directory.
        run: PathBuf,
    },
}

/// Why a request is not answered, if it is not. A name in `Host` may be made to lead here by anyone who owns the name,
/// whose pages could then read ours: only addresses and `localhost` are answered.
///
/// Source: "DNS rebinding"; RFC 9110, section 15.5.20, for the status.
pub(super) fn refusal(method: &str, host: &str) -> Option<Answer> {
    if !matches!(method, "GET" | "HEAD") {
        return Some(message(405, "Not allowed", "Pages can only be read."));
    }
    (!is_own(host))
        .then(|| message(421, "Another host", "Ask for an address or localhost: names are not served."))
}

fn is_own(host: &str) -> bool {
    let name = match host.strip_prefix('[') {
        Some(rest) => return rest.split(']').next().is_some_and(|ip| ip.parse::<Ipv6Addr>().is_ok()),
        None => host.rsplit_once(':').map_or(host, |(name, _)| name),
    };
    name.eq_ignore_ascii_case("localhost") || name.parse::<IpAddr>().is_ok()
}

fn message(status: u16, title: &str, text: &str) -> Answer {
    Answer::Page { status, page: report::message_page(title, text) }
}

impl Routes {
    /// What is at `path`.
    pub(super) fn answer(&self, path: &str) -> Answer {
        let page = match path {
            "/" => self.indexed(|index| Ok(report::runs_page(&index.runs()?))),
            "/history" => self.indexed(|index| Ok(report::history_page(&history::series(index)?))),
            _ => return self.of_run(path),
        };
        page.map_or_else(|error| message(500, "It cannot be shown", &crate::exit::told(&error)), ok_page)
    }

    /// A page from the index, which is brought up to the runs first.
    fn indexed(&self, page: impl Fn(&Index) -> anyhow::Result<Page>) -> anyhow::Result<Page> {
        // A request that panicked left the index as its transaction did: whole.
        let mut index = self.index.lock().unwrap_or_else(PoisonError::into_inner);
        index.refresh(&self.shelf)?;
        page(&index)
    }

    fn of_run(&self, path: &str) -> Answer {
        let steps: Vec<&str> = path.split('/').collect();
        let run = match steps.as_slice() {
            ["", "run", name] | ["", "run", name, "events"] => {
                decode(name).and_then(|name| self.shelf.find(&name))
            }
            _ => None,
        };
        match run {
            None => message(404, "Not here", "There is no such page."),
            Some(run) if steps.len() == 4 => Answer::Events { run },
            Some(run) => {
                let data: PageData = report_command::read(&[&run]);
                let address = format!("{path}/events");
                let events = events::is_running(&run).then_some(address.as_str());
                ok_page(report::page(&data, Place::Served { events }))
            }
        }
    }
}

fn ok_page(page: Page) -> Answer {
    Answer::Page { status: 200, page }
}

/// A step of a path as a name; nothing where it is no UTF-8 or badly encoded. Source: RFC 3986, section 2.1.
fn decode(step: &str) -> Option<String> {
    let mut bytes = step.bytes();
    let mut name = Vec::new();
    while let Some(byte) = bytes.next() {
        name.push(match byte {
            b'%' => {
                let mut digit = || char::from(bytes.next()?).to_digit(16);
                (digit()? * 16 + digit()?) as u8
            }
            other => other,
        });
    }
    String::from_utf8(name).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_addresses_and_localhost_are_hosts() {
        for host in ["127.0.0.1:8710", "localhost", "LOCALHOST:1", "[::1]:8710", "192.168.1.5:80"] {
            assert!(is_own(host), "{host}");
        }
        for host in
            ["", "example.org", "example.org:8710", "127.0.0.1.example.org", "localhost.example.org", "[x]"]
        {
            assert!(!is_own(host), "{host}");
        }
    }

    #[test]
    fn steps_are_decoded_or_refused() {
        assert_eq!(decode("a%20b-1").as_deref(), Some("a b-1"));
        for bad in ["%", "%2", "%zz", "%ff"] {
            assert_eq!(decode(bad), None, "{bad}");
        }
    }

    #[test]
    fn pages_can_only_be_read() {
        assert!(refusal("GET", "localhost").is_none() && refusal("HEAD", "localhost").is_none());
        for method in ["POST", "PUT", "DELETE", "OPTIONS", "get"] {
            assert!(matches!(refusal(method, "localhost"), Some(Answer::Page { status: 405, .. })));
        }
    }
}
