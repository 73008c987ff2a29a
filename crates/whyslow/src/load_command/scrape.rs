//! Figures of a running load for a Prometheus that comes for them: `--metrics-port`.

use std::net::SocketAddr;
use std::time::Duration;

use anyhow::{Context, bail};
use straightline::{Running, Server};

use super::so_far::SoFar;

/// Time that a scrape under way has to end in once the load is over.
const DRAIN: Duration = Duration::from_millis(100);
/// Where a port alone is listened on.
const LOOPBACK: [u8; 4] = [127, 0, 0, 1];
/// Media type of Prometheus' text format. Source: Prometheus documentation, "Exposition formats".
const TEXT: &str = "text/plain; version=0.0.4; charset=utf-8";

/// Reads `--metrics-port`: a port of 127.0.0.1, or an address of this machine alone.
pub(crate) fn address(text: &str) -> anyhow::Result<SocketAddr> {
    let port = || text.parse::<u16>().ok().map(|port| SocketAddr::from((LOOPBACK, port)));
    match port().or_else(|| text.parse().ok()) {
        Some(address) if address.ip().is_loopback() => Ok(address),
        Some(address) => bail!(
            "whoever reaches {address} could read the figures: name a port, or an address of this machine such as 127.0.0.1:9464"
        ),
        None => bail!("'{text}' is neither a port nor an address such as 127.0.0.1:9464"),
    }
}

/// Who hands the figures out.
pub(super) struct Scrape(Running);

impl Scrape {
    /// Listens on `address` for as long as the load lasts.
    pub(super) fn open(address: SocketAddr, figures: SoFar) -> anyhow::Result<Self> {
        let server = Server::bind(address)
            .with_context(|| format!("cannot listen on {address}: choose another with --metrics-port"))?;
        crate::say(&format!("figures for Prometheus: http://{}/metrics", server.local_addr()));
        let running = server
            .threads()
            .spawn(move |request, response| {
                let response = response.header("Cache-Control", "no-store")?;
                match (request.method(), request.path()) {
                    ("GET" | "HEAD", "/metrics") => {
                        let text = report::load_live(&figures.copy());
                        response.header("Content-Type", TEXT)?.send(text.as_bytes())
                    }
                    _ => response.status(404).send(b"the figures are at /metrics\n"),
                }
            })
            .context("--metrics-port")?;
        Ok(Self(running))
    }

    /// The load is over.
    pub(super) fn close(self) {
        self.0.drain(DRAIN);
    }
}

#[cfg(test)]
mod tests {
    use super::address;

    #[test]
    fn only_this_machine_is_listened_on() {
        for (text, wanted) in [
            ("9464", Ok("127.0.0.1:9464")),
            ("127.0.0.2:1", Ok("127.0.0.2:1")),
            ("[::1]:9464", Ok("[::1]:9464")),
            ("0.0.0.0:9464", Err("whoever reaches 0.0.0.0:9464")),
            ("70000", Err("'70000' is neither a port")),
            ("localhost", Err("'localhost' is neither a port")),
        ] {
            match (address(text), wanted) {
                (Ok(address), Ok(wanted)) => assert_eq!(address.to_string(), wanted),
                (Err(error), Err(wanted)) => assert!(error.to_string().contains(wanted), "{error}"),
                (got, wanted) => panic!("{text}: {got:?} and not {wanted:?}"),
            }
        }
    }
}
