//! Flags that say what is asked and how: the same in every command that sends requests.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use anyhow::{Context, bail};
use clap::Args;
use load::{Scenario, Target};
use model::job::fill::check;
use model::job::read::{Given, read};
use model::job::scenario;
use model::job::{Data, Endpoint, Job, JobPart, NamedRequest, Protocol, Request, Requests, Reuse, Tls};
use model::plan::{Reach, SentFile, service_placeholders};
use model::units::Span;

use super::load::wrk_time;
use crate::grpc;

/// Heading of what is sent.
const ASKING: &str = "What is sent";
/// Help on `--data`. Clap takes `{n}` for the end of a line, but not where an escape sequence stands in it, which resets a style that
/// is not set.
const DATA: &str = "CSV file with a header line, whose rows fill in {COLUMN} in requests; {uuid}, {random 1 100} and \
                    {\x1b[0mn}, the number of the request, need no file";
/// Heading of how the server is reached.
const REACHING: &str = "Reaching the server";

/// What `--requests` takes: a number is a count, all else a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum CountOrFile {
    Count(u64),
    File(PathBuf),
}

impl FromStr for CountOrFile {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        match text.bytes().all(|byte| byte.is_ascii_digit()) && !text.is_empty() {
            true => text.parse().map(Self::Count).map_err(|_| format!("'{text}' is too large for a count")),
            false => Ok(Self::File(text.into())),
        }
    }
}

/// What is asked and how.
#[derive(Debug, Clone, Args)]
pub(crate) struct RequestArgs {
    /// Method
    #[arg(short = 'X', long = "method", default_value = "GET", help_heading = ASKING)]
    pub(crate) method: String,
    /// Header to add to every request
    #[arg(short = 'H', long = "header", value_name = "NAME: VALUE", help_heading = ASKING)]
    pub(crate) headers: Vec<String>,
    /// Body: a string, or @FILE
    #[arg(long, value_name = "STRING|@FILE", help_heading = ASKING)]
    pub(crate) body: Option<String>,
    /// Draw requests from this file: a list of paths with methods and weights, an .http file, a HAR, or curl commands. If you give a
    /// number instead, the load ends after exactly that many requests. You may give both
    #[arg(long, visible_alias = "urls", value_name = "FILE|N", help_heading = ASKING)]
    pub(crate) requests: Vec<CountOrFile>,
    #[arg(long, value_name = "FILE", help = DATA, help_heading = ASKING)]
    pub(crate) data: Option<PathBuf>,
    /// Lua script with wrk's API, which can make requests, delay them, handle answers and print a report
    #[arg(short = 's', long, value_name = "FILE", help_heading = ASKING)]
    pub(crate) script: Option<PathBuf>,
    /// Simulate users who take the steps in this file (TOML) in order, with values taken from answers and time to think. -R is then users
    /// per second, and --requests N a number of users; without -R, each connection serves one user after another
    #[arg(long, value_name = "FILE", conflicts_with_all = ["script", "replay", "ws", "grpc", "sse", "body"], help_heading = ASKING)]
    pub(crate) scenario: Option<PathBuf>,
    /// Send the requests in this access log (combined format). load keeps the log's timing; other commands draw each request as often as
    /// it occurs
    #[arg(long, value_name = "LOG", conflicts_with_all = ["script", "data"], help_heading = ASKING)]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: how many times faster than the log [default: 1]
    #[arg(long, value_name = "FACTOR", requires = "replay", help_heading = ASKING)]
    pub(crate) speed: Option<f64>,
    /// A request that is not answered within this time counts as a timeout, once. Opening a connection, with its handshake, may take as
    /// long, but at most 10 s [default: 2s; 60s in compare, ladder and case]
    #[arg(short = 'T', long, value_parser = wrk_time, help_heading = REACHING)]
    pub(crate) timeout: Option<Span>,
    /// Connect to this unix socket; the URL's host only appears in requests
    #[arg(long, value_name = "SOCKET", help_heading = REACHING)]
    pub(crate) unix: Option<PathBuf>,
    /// Use HTTP/2: negotiated over TLS (ALPN), otherwise assumed (prior knowledge)
    #[arg(long, help_heading = REACHING)]
    pub(crate) http2: bool,
    /// Use HTTP/3 over QUIC: the URL must begin with https://, or the servers that are started must use TLS
    #[arg(long, conflicts_with_all = ["http2", "ws", "grpc", "sse", "unix", "requests_per_connection"], help_heading = REACHING)]
    pub(crate) http3: bool,
    /// With --http2, --http3 or --grpc: requests in flight on each connection
    #[arg(long, value_name = "N", default_value_t = 1, help_heading = REACHING)]
    pub(crate) streams: u32,
    /// Use WebSocket, as a URL with ws:// also does. Each request is a message with the text of --body (default 'hello'), and the next
    /// message from the server is its answer; --pipeline sets how many are in flight on each connection
    #[arg(long, conflicts_with_all = ["http2", "script", "replay", "data"], help_heading = REACHING)]
    pub(crate) ws: bool,
    /// Call this gRPC method, unary or server-streaming; any grpc-status other than 0 is an error
    #[arg(long, value_name = "SERVICE/METHOD", conflicts_with_all = ["http2", "ws", "method", "body", "script", "replay", "data", "requests_per_connection"], help_heading = ASKING)]
    pub(crate) grpc: Option<String>,
    /// With --grpc: the message, as JSON or a file with JSON (both need --proto), or as bytes from a file whose name ends in .bin
    /// [default: a message without fields]
    #[arg(long, value_name = "JSON|@FILE", requires = "grpc", help_heading = ASKING)]
    pub(crate) message: Option<String>,
    /// With --grpc: the .proto file that describes the service; its imports are looked for in the same folder. A method that does not
    /// stream must then be answered with exactly one message
    #[arg(long, value_name = "FILE", requires = "grpc", help_heading = ASKING)]
    pub(crate) proto: Option<PathBuf>,
    /// Expect streams of server-sent events, and report the time to the first event and the gaps between events. A request is answered
    /// when its stream ends, or after --events; in load it may take an hour unless --timeout says otherwise
    #[arg(long, conflicts_with_all = ["http2", "ws", "grpc", "script", "replay", "data"], help_heading = REACHING)]
    pub(crate) sse: bool,
    /// With --sse: close the connection after this many events; the answer is then complete
    #[arg(long, value_name = "N", requires = "sse", help_heading = REACHING, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) events: Option<u64>,
    /// Close each connection after this many requests, even if the server would keep it open
    #[arg(long, value_name = "N", conflicts_with = "http2", help_heading = REACHING, value_parser = clap::value_parser!(u32).range(1..))]
    pub(crate) requests_per_connection: Option<u32>,
    /// Trust the certificate authorities in this PEM file instead of the machine's own
    #[arg(long, value_name = "FILE", conflicts_with = "insecure", help_heading = REACHING)]
    pub(crate) cacert: Option<PathBuf>,
    /// Do not check the server's certificate
    #[arg(long, help_heading = REACHING)]
    pub(crate) insecure: bool,
    /// Client certificate, with the chain that leads to its authority (PEM)
    #[arg(long, value_name = "FILE", requires = "key", help_heading = REACHING)]
    pub(crate) cert: Option<PathBuf>,
    /// Private key of --cert (PEM)
    #[arg(long, value_name = "FILE", requires = "cert", help_heading = REACHING)]
    pub(crate) key: Option<PathBuf>,
    /// Services beside, whose places requests may name.
    #[arg(skip)]
    pub(crate) beside: Vec<String>,
}

/// How much is asked at once.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Size {
    pub(crate) connections: u32,
    pub(crate) threads: u32,
    pub(crate) pipeline: u32,
    /// Timeout where no flag says another.
    pub(crate) timeout: Span,
}

impl RequestArgs {
    /// What only `load` can do; `command` is the one that was asked for it.
    pub(crate) fn without_loads_own(&self, command: &str) -> anyhow::Result<()> {
        if self.script.is_some() {
            bail!(
                "--script is for load: {command} takes its requests from --requests FILE, whose placeholders vary them"
            );
        }
        if self.scenario.is_some() {
            bail!(
                "--scenario is for load: {command} holds single requests against each other, from --requests FILE"
            );
        }
        if self.speed.is_some() {
            bail!(
                "--speed scales a log's own timing, which only load keeps: in {command} the conditions say when requests are due"
            );
        }
        if let Some(count) = self.count()? {
            bail!("--requests {count} is a count, which is for load: {command} takes a file");
        }
        Ok(())
    }

    /// The files that say what is sent, with their hashes.
    pub(crate) fn files(&self) -> anyhow::Result<Vec<SentFile>> {
        let files = self.file()?.into_iter().chain(self.replay.as_deref()).chain(self.data.as_deref());
        let hashed = |file: &Path| {
            let (sha256, _) = launch::sha256_file(file)?;
            Ok(SentFile { name: file.display().to_string(), sha256 })
        };
        files.map(hashed).collect()
    }

    /// Whether a file says what is asked.
    pub(crate) fn has_file(&self) -> bool {
        self.replay.is_some() || self.requests.iter().any(|given| matches!(given, CountOrFile::File(_)))
    }

    /// How servers that are started here are reached: over TLS where any flag says something of it, or HTTP/3, which is never without.
    pub(crate) fn reach(&self) -> Reach {
        Reach {
            tls: self.http3 || self.insecure || self.cacert.is_some() || self.cert.is_some(),
            unix: self.unix.as_ref().map(|socket| socket.to_string_lossy().into_owned()),
        }
    }

    /// After how many requests to end, if `--requests` says.
    pub(crate) fn count(&self) -> anyhow::Result<Option<u64>> {
        let counts = self.requests.iter().filter_map(|given| match given {
            CountOrFile::Count(count) => Some(*count),
            CountOrFile::File(_) => None,
        });
        at_most_one("counts", counts)
    }

    /// The file of `--requests`.
    fn file(&self) -> anyhow::Result<Option<&Path>> {
        let files = self.requests.iter().filter_map(|given| match given {
            CountOrFile::File(file) => Some(file.as_path()),
            CountOrFile::Count(_) => None,
        });
        let file = at_most_one("files", files)?;
        let others = [("--replay", &self.replay), ("--script", &self.script), ("--scenario", &self.scenario)];
        for (flag, other) in others {
            if let (Some(_), Some(_)) = (file, other) {
                bail!("--requests FILE cannot be used with {flag}: both say what is asked");
            }
        }
        Ok(file)
    }

    /// A server as these flags reach it.
    pub(crate) fn endpoint(&self, name: &str, url: &str, expected_status: Option<u16>) -> Endpoint {
        Endpoint { name: name.to_owned(), url: url.to_owned(), unix: self.unix.clone(), expected_status }
    }

    /// The same where a log's requests are drawn, and its timing is not kept.
    pub(crate) fn job_without_timing(&self, size: Size) -> anyhow::Result<(Job, Vec<String>)> {
        let (job, mut notes) = self.job(Vec::new(), size)?;
        let Some(file) = &self.replay else { return Ok((job, notes)) };
        let logged = load::logged(&text(file)?, &self.pattern()?);
        let (requests, skipped) = logged.with_context(|| format!("--replay {}", file.display()))?;
        if skipped > 0 {
            notes.push(format!("{skipped} lines of the log hold no request and are left out"));
        }
        Ok((Job { requests: Requests::Drawn(requests), ..job }, notes))
    }

    /// The job that the flags describe, and what of the files was passed over. With a script or a log, its requests are
    /// the pattern of theirs.
    pub(crate) fn job(&self, endpoints: Vec<Endpoint>, size: Size) -> anyhow::Result<(Job, Vec<String>)> {
        let mut data = self.data.as_deref().map(table).transpose()?;
        if let Some(data) = &mut data {
            data.beside = self.beside.iter().flat_map(|name| service_placeholders(name)).collect();
        }
        let (pattern, one_message) = self.asked()?;
        self.check_protocol(size)?;
        let (requests, notes) = match self.file()? {
            Some(_) if self.grpc.is_some() || self.ws || self.sse => {
                bail!(
                    "a file of requests goes neither with --grpc nor with --ws or --sse: each asks one thing"
                )
            }
            None if self.grpc.is_some() || self.ws => (Requests::Same(pattern), Vec::new()),
            Some(file) => {
                let (requests, notes) = from_file(file, &pattern, data.as_ref())?;
                (Requests::Drawn(requests), notes)
            }
            None => {
                check(&pattern, data.as_ref())
                    .map_err(|why| anyhow::anyhow!("the request cannot be sent: {why}"))?;
                (Requests::Same(pattern), Vec::new())
            }
        };
        let protocol = match () {
            () if self.grpc.is_some() => Protocol::Grpc { streams: self.streams, one_message },
            () if self.http3 => Protocol::Http3 { streams: self.streams },
            () if self.http2 => Protocol::Http2 { streams: self.streams },
            () if self.sse => Protocol::Events { most: self.events },
            () if self.ws => Protocol::WebSocket { in_flight: size.pipeline },
            () => Protocol::Http1 { pipeline: size.pipeline },
        };
        let job = Job {
            endpoints,
            requests,
            data,
            protocol,
            tls: self.tls(),
            connections: size.connections,
            threads: size.threads,
            reuse: self.requests_per_connection.map_or(Reuse::All, Reuse::Requests),
            timeout: self.timeout.unwrap_or(size.timeout),
            part: JobPart::default(),
        };
        Ok((job, notes))
    }

    fn check_protocol(&self, size: Size) -> anyhow::Result<()> {
        let streams = self.http2 || self.http3 || self.grpc.is_some();
        if streams && size.pipeline != 1 {
            bail!("HTTP/2 and HTTP/3 have streams in the place of a pipeline: use --streams");
        }
        if self.sse && size.pipeline != 1 {
            bail!("--sse has one stream on each connection: leave --pipeline out");
        }
        if !streams && self.streams != 1 {
            bail!("--streams is for HTTP/2 and HTTP/3: add --http2, --http3 or --grpc");
        }
        Ok(())
    }

    fn tls(&self) -> Tls {
        Tls {
            insecure: self.insecure,
            authorities: self.cacert.clone(),
            identity: self.cert.clone().zip(self.key.clone()),
        }
    }

    /// The scenario, where there is one, as requests to `target`.
    pub(crate) fn scenario(&self, target: &Target) -> anyhow::Result<Option<Scenario>> {
        let Some(file) = &self.scenario else { return Ok(None) };
        if self.method != "GET" {
            bail!(
                "-X {} does nothing in a scenario, whose steps have their own methods: leave it out",
                self.method
            );
        }
        let data = self.data.as_deref().map(table).transpose()?;
        let (name, text) = (file.display().to_string(), text(file)?);
        let read = scenario::Scenario::read(&name, &text, &self.pattern()?, data.as_ref());
        let rendered = Scenario::new(&read.context("--scenario")?, target);
        Ok(Some(rendered.with_context(|| format!("--scenario {name}"))?))
    }

    /// What the flags say of every request.
    fn pattern(&self) -> anyhow::Result<Request> {
        Ok(self.asked()?.0)
    }

    /// The same, and whether it is a call that exactly one message answers.
    fn asked(&self) -> anyhow::Result<(Request, bool)> {
        let (mut request, one_message) = match &self.grpc {
            Some(method) => {
                let call = grpc::call(method, self.message.as_deref(), self.proto.as_deref())?;
                (call.request, call.one_message)
            }
            None => {
                let body = body(self.body.as_deref())?;
                (Request { method: self.method.clone(), body, ..Request::get() }, false)
            }
        };
        for header in &self.headers {
            let Some((name, value)) = header.split_once(':') else {
                // It may be a secret whose name was forgotten.
                bail!("a header of -H has no colon: write -H 'Name: value'");
            };
            // A name that is already there is replaced, as wrk does.
            request.fields.retain(|(other, _)| !other.eq_ignore_ascii_case(name.trim()));
            request.fields.push((name.trim().to_owned(), value.trim().to_owned()));
        }
        Ok((request, one_message))
    }
}

fn at_most_one<T>(what: &str, mut given: impl Iterator<Item = T>) -> anyhow::Result<Option<T>> {
    let first = given.next();
    if given.next().is_some() {
        bail!("--requests has two {what}: give one (a number is a count, all else a file)");
    }
    Ok(first)
}

fn body(text: Option<&str>) -> anyhow::Result<Vec<u8>> {
    match text.map(|text| (text, text.strip_prefix('@'))) {
        None => Ok(Vec::new()),
        Some((_, Some(file))) => {
            std::fs::read(Path::new(file)).with_context(|| format!("cannot read --body @{file}"))
        }
        Some((text, None)) => Ok(text.as_bytes().to_vec()),
    }
}

fn table(file: &Path) -> anyhow::Result<Data> {
    Data::csv(&file.display().to_string(), &text(file)?).context("--data")
}

fn from_file(
    file: &Path,
    pattern: &Request,
    data: Option<&Data>,
) -> anyhow::Result<(Vec<NamedRequest>, Vec<String>)> {
    let folder = file.parent().unwrap_or(Path::new(""));
    let attached =
        |name: &str| std::fs::read(folder.join(name)).map_err(|error| format!("cannot read {name}: {error}"));
    let (name, text) = (file.display().to_string(), text(file)?);
    let given = Given { file: &name, text: &text, pattern, data, attached: &attached };
    let read = read(&given).context("--requests")?;
    Ok((read.requests, read.notes))
}

/// The text of a file.
pub(crate) fn text(file: &Path) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}
