//! Figures of a running load for those who want them sent: `--otlp URL` and `--remote-write URL`.

use std::io::{ErrorKind, Read, Write};
use std::net::{SocketAddr, TcpStream, ToSocketAddrs};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use anyhow::{Context, anyhow, bail};

use super::so_far::SoFar;

/// How often figures are sent; and once more when the load is over.
const EVERY: Duration = Duration::from_secs(5);
/// How long a step of sending them may take.
const PATIENCE: Duration = Duration::from_secs(3);
/// Bytes of an answer that are read: its status line is enough.
const ANSWER_BYTES: usize = 1024;
/// Where a collector takes metrics. Source: OpenTelemetry protocol, "OTLP/HTTP".
const OTLP_PATH: &str = "/v1/metrics";

/// What figures are written as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Format {
    /// OTLP over HTTP, as JSON.
    Otlp,
    /// Remote write 1.0 of Prometheus.
    RemoteWrite,
}

/// Where figures are sent to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Receiver {
    format: Format,
    /// Host and port.
    authority: String,
    path: String,
}

impl Receiver {
    /// Reads `http://host:port/path`.
    pub(crate) fn read(format: Format, url: &str) -> anyhow::Result<Self> {
        let Some(rest) = url.strip_prefix("http://") else {
            bail!(
                "figures are sent over http:// only, not to '{url}': name a collector near by, such as http://127.0.0.1:4318"
            );
        };
        let end = rest.find('/').unwrap_or(rest.len());
        let (authority, path) = rest.split_at(end);
        if authority.is_empty() || !rest.bytes().all(|byte| byte.is_ascii_graphic()) {
            bail!("'{url}' is not the URL of a collector: write one such as http://127.0.0.1:4318");
        }
        let port = authority.rsplit_once(':').is_some_and(|(_, port)| port.parse::<u16>().is_ok());
        let authority = if port { authority.to_owned() } else { format!("{authority}:80") };
        let path = match format {
            Format::Otlp if !path.ends_with(OTLP_PATH) => path.trim_end_matches('/').to_owned() + OTLP_PATH,
            _ => if path.is_empty() { "/" } else { path }.to_owned(),
        };
        Ok(Self { format, authority, path })
    }

    /// Says that figures did not arrive.
    pub(super) fn complain(&self, error: &anyhow::Error) {
        let authority = &self.authority;
        crate::say(&format!(
            "figures cannot be sent to {authority}: {}; all else goes on",
            crate::exit::told(error)
        ));
    }

    /// Sends one body; an answer of 2xx is the only good one.
    pub(crate) fn post(&self, body: &[u8]) -> anyhow::Result<()> {
        let fields = match self.format {
            Format::Otlp => "Content-Type: application/json\r\n",
            Format::RemoteWrite => {
                "Content-Type: application/x-protobuf\r\nContent-Encoding: snappy\r\nX-Prometheus-Remote-Write-Version: 0.1.0\r\n"
            }
        };
        let head = format!(
            "POST {} HTTP/1.1\r\nHost: {}\r\nUser-Agent: whyslow\r\nConnection: close\r\n{fields}Content-Length: {}\r\n\r\n",
            self.path,
            self.authority,
            body.len()
        );
        let mut addresses = self.authority.to_socket_addrs()?;
        let address = addresses.next().context("its name has no address")?;
        exchange(address, &[head.as_bytes(), body].concat())
            .map_err(|error| match error.kind() {
                // What the system says of a time-out depends on the call, and is "Resource temporarily unavailable" of a read.
                ErrorKind::WouldBlock | ErrorKind::TimedOut => {
                    anyhow!("no answer within {} s", PATIENCE.as_secs())
                }
                _ => error.into(),
            })
            .and_then(|line| match line.split(' ').nth(1) {
                Some(status) if status.len() == 3 && status.starts_with('2') => Ok(()),
                _ => bail!("it answers '{line}'"),
            })
    }
}

/// Sends `request`, and gives the first line of the answer.
fn exchange(address: SocketAddr, request: &[u8]) -> std::io::Result<String> {
    let mut stream = TcpStream::connect_timeout(&address, PATIENCE)?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.set_write_timeout(Some(PATIENCE))?;
    stream.write_all(request)?;
    let (mut answer, mut length) = ([0; ANSWER_BYTES], 0);
    while length < ANSWER_BYTES && !answer[..length].contains(&b'\n') {
        match stream.read(&mut answer[length..])? {
            0 => break,
            bytes => length += bytes,
        }
    }
    let line = String::from_utf8_lossy(&answer[..length]);
    Ok(line.lines().next().unwrap_or_default().to_owned())
}

/// Sends the figures of a load on a thread of its own, which nothing of the load waits for.
pub(super) struct Push {
    end: Sender<()>,
    thread: JoinHandle<bool>,
}

impl Push {
    /// Begins to send what `figures` has.
    pub(super) fn begin(receiver: Receiver, figures: SoFar) -> anyhow::Result<Self> {
        let (end, ended) = channel();
        let work = move || {
            let mut sending = Sending { receiver, figures, began_ns: unix_ns(), complained: false };
            while ended.recv_timeout(EVERY) == Err(RecvTimeoutError::Timeout) {
                sending.send();
            }
            // What there is at the end is there once more.
            sending.send();
            sending.complained
        };
        let thread = std::thread::Builder::new().name("figures".to_owned()).spawn(work);
        Ok(Self { end, thread: thread.context("cannot start a thread to send figures")? })
    }

    /// The load is over: sends what there is at the end. Whether it was said that something could not be sent.
    pub(super) fn close(self) -> bool {
        drop(self.end);
        // A thread that has failed has said so.
        self.thread.join().unwrap_or(true)
    }
}

struct Sending {
    receiver: Receiver,
    figures: SoFar,
    began_ns: u64,
    complained: bool,
}

impl Sending {
    fn send(&mut self) {
        const NS_PER_MS: u64 = 1_000_000;
        let (figures, now_ns) = (self.figures.copy(), unix_ns());
        let sent = match self.receiver.format {
            Format::Otlp => {
                self.receiver.post(report::load_live_otlp(&figures, self.began_ns, now_ns).as_bytes())
            }
            Format::RemoteWrite => {
                self.receiver.post(&report::load_remote_write(&figures, now_ns / NS_PER_MS))
            }
        };
        if let Err(error) = sent
            && !self.complained
        {
            self.complained = true;
            self.receiver.complain(&error);
        }
    }
}

fn unix_ns() -> u64 {
    let since = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_receiver_is_a_url_and_a_collector_has_a_path_of_its_own() {
        for (format, url, authority, path) in [
            (Format::Otlp, "http://127.0.0.1:4318", "127.0.0.1:4318", "/v1/metrics"),
            (Format::Otlp, "http://collector/base/", "collector:80", "/base/v1/metrics"),
            (Format::Otlp, "http://collector:1/v1/metrics", "collector:1", "/v1/metrics"),
            (Format::RemoteWrite, "http://[::1]:9090/api/v1/write", "[::1]:9090", "/api/v1/write"),
        ] {
            let want = Receiver { format, authority: authority.to_owned(), path: path.to_owned() };
            assert_eq!(Receiver::read(format, url).unwrap(), want);
        }
        for url in ["https://collector:4318", "collector:4318", "http://", "http://a b"] {
            assert!(Receiver::read(Format::Otlp, url).is_err(), "{url}");
        }
    }
}
