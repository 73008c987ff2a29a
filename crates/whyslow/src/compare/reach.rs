//! How an arm is reached, when it is ready, and what it answers to what it is asked.

use std::collections::BTreeSet;
use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use http1::HeadLimits;
use http1::response::{headers, parse_head};
use launch::{LaunchError, Launcher, NOT_YET, ProbeError, Process, Shown, Spec, log_tail, unexpected};
use load::LoadError;
use load::session::Heard;
use model::job::{Endpoint, Job, NamedRequest, Request, Requests};
use model::plan::{Arm, Placeholders, Placement, ReadyBy, ServicePlace, Workload, fill, fill_services};
use model::record::{Answer, Reply, RequestAnswers, without_secrets};

use super::placeholders;

/// How often each request is asked before anything is scored: what differs between two of the answers is not compared, and
/// a third shows what differs only now and then.
const ASKED: u32 = 3;
/// Requests of different names that are asked so: a file with more is one of many alike.
const MOST_NAMES: usize = 64;
/// How long the answers to one request may take, all together.
pub(crate) const ASKING_LIMIT: Duration = Duration::from_secs(10);
/// How long a server that runs already may take to answer once.
const MEETING_LIMIT: Duration = Duration::from_secs(10);
/// How long a server may take to answer on a port of its own, on which it has listened for some seconds.
const OWN_PORT_LIMIT: Duration = Duration::from_secs(10);
/// How long a command that is asked whether a server is ready may take.
const COMMAND_LIMIT: Duration = Duration::from_secs(10);
/// Between two such commands: each is a process, and shares CPUs with what starts.
const COMMAND_EVERY: Duration = Duration::from_millis(50);
/// Bytes of a body that a refusal shows.
const SHOWN_BYTES: usize = 200;
/// Lines of a log that go with a refusal.
const LOG_LINES: usize = 10;
/// A status from which on a server says that it cannot do its work.
const FIRST_FAILING: u16 = 500;

/// One server that is asked.
#[derive(Clone)]
pub(crate) struct Place<'a> {
    pub(crate) workload: &'a Workload,
    pub(crate) arm: &'a Arm,
    pub(crate) placement: &'a Placement,
    pub(crate) address: SocketAddr,
    /// Where its services are.
    pub(crate) services: Vec<ServicePlace>,
}

/// Where servers that are started here listen.
pub(crate) fn on_loopback(port: u16) -> SocketAddr {
    (Ipv4Addr::LOCALHOST, port).into()
}

/// Where a server that listens on `own` is met from this machine, if it was to be met on `asked`.
fn met_at(own: SocketAddr, asked: SocketAddr) -> Option<SocketAddr> {
    if launch::takes(own.ip(), asked.ip()) {
        return Some((asked.ip(), own.port()).into());
    }
    (own.ip().is_loopback() && asked.ip().is_loopback()).then_some(own)
}

/// What a server is asked and watched with while it starts.
#[derive(Clone, Copy)]
pub(crate) struct Starting<'a> {
    pub(crate) launcher: &'a Launcher,
    /// Where commands that ask whether it is ready write.
    pub(crate) log: &'a Path,
    pub(crate) limit: Duration,
}

/// The answer that showed a server ready, where it was asked for one, and milliseconds from its start.
type Ready = (Option<Answer>, u64);

impl Place<'_> {
    /// Where requests go.
    pub(crate) fn endpoint(&self) -> Endpoint {
        let Workload { reach, path, job, .. } = self.workload;
        let values = self.values();
        // Certificates name hosts, seldom addresses.
        let by_name = reach.tls && self.address.ip().is_loopback();
        let host =
            if by_name { format!("localhost:{}", self.address.port()) } else { self.address.to_string() };
        let scheme = if reach.tls { "https" } else { "http" };
        Endpoint {
            name: self.arm.name.clone(),
            url: format!("{scheme}://{host}{}", fill_services(path, &self.services)),
            unix: reach.unix.as_ref().map(|socket| fill(socket, &values).into()),
            // Requests that differ are answered with statuses that differ: none below 400 is an error.
            expected_status: match job.requests {
                Requests::Same(_) if job.has_statuses() => Some(self.arm.expect.status),
                _ => None,
            },
        }
    }

    /// Values for the placeholders of its commands.
    pub(crate) fn values(&self) -> Placeholders {
        let values = placeholders(self.arm, self.placement, self.address.port());
        Placeholders { host: self.address.ip().to_string(), services: self.services.clone(), ..values }
    }

    /// What is asked, with the places of services filled in.
    fn job(&self) -> Job {
        self.workload.job.beside(&self.services)
    }

    /// Whether it speaks HTTP/1.1 in clear on a port.
    pub(crate) fn is_plain(&self) -> bool {
        let Workload { reach, job, .. } = self.workload;
        !reach.tls && reach.unix.is_none() && !job.has_streams()
    }

    /// Waits until the server shows that it is ready; one that listens on a port of its own, whatever it was given, or on another
    /// loopback address is met there.
    pub(crate) fn wait_ready(
        &mut self,
        process: &mut Process,
        starting: &Starting<'_>,
    ) -> Result<Ready, LaunchError> {
        let error = match self.wait_here(process, starting) {
            Err(error @ LaunchError::Elsewhere { .. }) if self.workload.reach.unix.is_none() => error,
            outcome => return outcome,
        };
        let LaunchError::Elsewhere { addr, listens, .. } = &error else { return Err(error) };
        let places: BTreeSet<SocketAddr> = listens.iter().filter_map(|own| met_at(*own, *addr)).collect();
        let limit = starting.limit.min(OWN_PORT_LIMIT);
        for place in &places {
            self.address = *place;
            match self.wait_here(process, &Starting { limit, ..*starting }) {
                Err(_) if places.len() > 1 => {}
                outcome => return outcome,
            }
        }
        Err(error)
    }

    /// Waits until the server shows that it is ready, where it was told to listen.
    fn wait_here(&self, process: &mut Process, starting: &Starting<'_>) -> Result<Ready, LaunchError> {
        let (path, any_status) = match &self.workload.ready {
            Some(ReadyBy::Command(words)) => {
                let command = self.command(words, starting);
                let mut ask = |_| run(&command, starting.launcher);
                return launch::wait_until(process, self.address, starting.limit, &mut ask);
            }
            Some(ReadyBy::Get(path)) => (fill_services(path, &self.services), false),
            None if !self.workload.job.has_statuses() => {
                let mut ask = |limit| self.greet(limit).map(|answer| Shown::Ready(Some(answer)));
                return launch::wait_until(process, self.address, starting.limit, &mut ask);
            }
            None => match self.first_get() {
                Some(path) => (path, false),
                None => ("/".to_owned(), true),
            },
        };
        let as_measured = self.workload.ready.is_none() && self.workload.job.is_bare_get();
        let judge = |(answer, body): (Answer, Vec<u8>)| {
            let wrong = match as_measured {
                true => unexpected(&answer, &body, &self.arm.expect),
                false => (answer.status >= FIRST_FAILING && !any_status)
                    .then(|| format!("status {} to GET {}", answer.status, without_secrets(&path))),
            };
            match wrong {
                None => Shown::Ready(Some(answer)),
                Some(what) if answer.status == NOT_YET => Shown::Loading(what),
                Some(what) => Shown::Wrong(what),
            }
        };
        let mut ask = |limit| self.first_answer(&path, limit).map(judge);
        launch::wait_until(process, self.address, starting.limit, &mut ask)
    }

    /// The answer of a server that runs already.
    pub(crate) fn meet(&self) -> Result<Answer, LaunchError> {
        let absent = |error: ProbeError| match error {
            ProbeError::NotHttp(what) => LaunchError::WrongAnswer { what, log: Vec::new() },
            error => LaunchError::NotRunning { addr: self.address, reason: error.to_string() },
        };
        if !self.workload.job.has_statuses() {
            return self.greet(MEETING_LIMIT).map_err(absent);
        }
        let path = self.first_get().unwrap_or_else(|| "/".to_owned());
        let (answer, body) = self.first_answer(&path, MEETING_LIMIT).map_err(absent)?;
        match unexpected(&answer, &body, &self.arm.expect) {
            Some(what) if self.workload.job.is_bare_get() => {
                Err(LaunchError::WrongAnswer { what, log: Vec::new() })
            }
            _ => Ok(answer),
        }
    }

    /// The path of the first request, if it is a GET of one that nothing fills.
    fn first_get(&self) -> Option<String> {
        let own = fill_services(&self.workload.path, &self.services);
        let first = self.job().requests.named(&own).into_iter().next()?.request;
        let path = first.target.unwrap_or(own);
        (first.method == "GET" && !path.contains('{')).then_some(path)
    }

    /// Gets `path` once; where an answer may go on for ever, and no other shows that the server is ready, it asks as is measured.
    fn first_answer(&self, path: &str, limit: Duration) -> Result<(Answer, Vec<u8>), ProbeError> {
        match self.workload.ready.is_none() && self.workload.job.may_go_on() {
            true => self.ask_once(&self.job(), limit),
            false => self.get(path, limit),
        }
    }

    /// Gets `path` once, as the workload reaches the server.
    fn get(&self, path: &str, limit: Duration) -> Result<(Answer, Vec<u8>), ProbeError> {
        if self.is_plain() {
            return launch::probe_with_body(self.address, path, limit);
        }
        let request = Request { target: Some(path.to_owned()), ..Request::get() };
        let job = Job { requests: Requests::Same(request), ..self.workload.job.clone() };
        self.ask_once(&job.over_http(), limit)
    }

    /// Asks once for what is measured, where only the protocol of that shows that a server is ready.
    fn greet(&self, limit: Duration) -> Result<Answer, ProbeError> {
        self.ask_once(&self.job(), limit).map(|(answer, _)| answer)
    }

    /// Asks for the first request of `job`: its answer, and the begin of the body.
    fn ask_once(&self, job: &Job, limit: Duration) -> Result<(Answer, Vec<u8>), ProbeError> {
        let heard =
            load::ask(job, &self.endpoint(), 1, limit, &AtomicBool::new(false)).map_err(probe_error)?;
        let first = heard.first().ok_or_else(|| match job.may_go_on() {
            true => ProbeError::NotHttp(endless(limit)),
            false => ProbeError::Timeout,
        })?;
        let reply = reply(first, job);
        let answer = Answer {
            status: reply.status,
            headers: reply.fields,
            body_bytes: reply.body_bytes,
            body_sha256: reply.body_sha256,
            wire_bytes: (heard[0].head.len() + heard[0].body.len()) as u64,
        };
        Ok((answer, start(&reply.body)))
    }

    fn command(&self, words: &[String], starting: &Starting<'_>) -> Spec {
        let values = self.values();
        Spec {
            argv: words.iter().map(|word| fill(word, &values)).collect(),
            dir: self.arm.dir.as_ref().map(Into::into),
            log: starting.log.to_owned(),
            ..Spec::default()
        }
    }

    /// Asks a few times for each request, the first of those that share a name.
    pub(crate) fn answers(&self, stop: &AtomicBool) -> Result<Vec<RequestAnswers>, String> {
        let mut answers: Vec<RequestAnswers> = Vec::new();
        for named in self.job().requests.named(&self.workload.path) {
            // It is kept, and part of messages.
            let name = without_secrets(&named.name);
            let known = answers.iter().any(|answer| answer.request == name);
            if known || named.weight == 0.0 || answers.len() == MOST_NAMES {
                continue;
            }
            let job = self.asking_for(named.request);
            let heard = load::ask(&job, &self.endpoint(), ASKED, ASKING_LIMIT, stop)
                .map_err(|error| format!("asked for '{name}': {error}"))?;
            if heard.is_empty() {
                return Err(match job.may_go_on() {
                    true => endless(ASKING_LIMIT),
                    false => format!("it did not answer to '{name}'"),
                });
            }
            let expected = named.expected_status;
            if let Some(wrong) = heard.iter().find(|one| expected.is_some_and(|status| one.status != status))
            {
                let wanted = expected.unwrap_or_default();
                return Err(format!("status {} in the place of {wanted} to '{name}'", wrong.status));
            }
            let replies = heard.iter().map(|one| reply(one, &job)).collect();
            answers.push(RequestAnswers { request: name, replies, left_open: false });
        }
        Ok(answers)
    }

    /// Notes at each answer whether the server leaves the connection open that the request asks it to close. Each that
    /// stays open takes two seconds.
    pub(crate) fn note_left_open(&self, answers: &mut [RequestAnswers]) {
        let requests = self.job().requests.named(&self.workload.path);
        for answer in answers {
            let is_it =
                |named: &&NamedRequest| named.weight != 0.0 && without_secrets(&named.name) == answer.request;
            let same = requests.iter().find(is_it);
            answer.left_open =
                same.is_some_and(|named| self.leaves_open(&self.asking_for(named.request.clone())));
        }
    }

    /// The job of an arm that is asked for one thing alone.
    fn asking_for(&self, request: Request) -> Job {
        let requests = Requests::Same(request);
        Job { requests, ..self.workload.job.clone() }.under(&self.arm.circumstances)
    }

    /// Whether the server leaves a connection open that the request of `job` asks it to close. The generator closes such a connection
    /// by itself, so that only another client sees this.
    fn leaves_open(&self, job: &Job) -> bool {
        let config = load::Config::of_job(job, &self.endpoint());
        let Some(request) = config.ok().map(|config| config.request).filter(load::Request::closes) else {
            return false;
        };
        match request.render() {
            Ok(bytes) if self.is_plain() && request.method != "HEAD" && request.is_literal(None) => {
                launch::closes_after(self.address, &bytes, MEETING_LIMIT).is_ok_and(|closes| !closes)
            }
            _ => false,
        }
    }

    /// Whether this is the status that its one request is to be answered with.
    pub(crate) fn expects(&self, status: u16) -> bool {
        self.endpoint().expected_status == Some(status)
    }

    /// What is wrong with the answers, if anything is: those to the one request that commands and targets say the answer of.
    pub(crate) fn wrong(&self, answers: &[RequestAnswers]) -> Option<String> {
        if !matches!(self.workload.job.requests, Requests::Same(_)) {
            return None;
        }
        let reply = answers.first()?.replies.first()?;
        let answer = Answer {
            status: reply.status,
            headers: reply.fields.clone(),
            body_bytes: reply.body_bytes,
            body_sha256: reply.body_sha256.clone(),
            wire_bytes: 0,
        };
        unexpected(&answer, &start(&reply.body), &self.arm.expect)
    }
}

/// A command that says by its status whether a server is ready.
fn run(command: &Spec, launcher: &Launcher) -> Result<Shown<Option<Answer>>, ProbeError> {
    let not_yet = |why: String| Shown::Loading(format!("--ready: '{}' {why}", command.argv.join(" ")));
    let shown = match launcher.start(command) {
        Ok(mut process) => {
            let exit = process.wait(COMMAND_LIMIT);
            let _ = process.stop();
            match exit {
                Some(launch::Exit::Code(0)) => return Ok(Shown::Ready(None)),
                Some(exit) => {
                    let last_line = log_tail(&command.log, LOG_LINES).pop().unwrap_or_default();
                    not_yet(format!("{exit}: {last_line}"))
                }
                None => not_yet(format!("took more than {} s", COMMAND_LIMIT.as_secs())),
            }
        }
        Err(error @ LaunchError::NoProgram(_)) => Shown::Wrong(format!("--ready: {error}")),
        Err(error) => not_yet(error.to_string()),
    };
    std::thread::sleep(COMMAND_EVERY);
    Ok(shown)
}

/// Refuses a server whose streams of events do not end, by asking for one.
pub(crate) fn check_end(job: &Job) -> anyhow::Result<()> {
    let Some(endpoint) = job.endpoints.first().filter(|_| job.may_go_on()) else { return Ok(()) };
    if load::ask(job, endpoint, 1, ASKING_LIMIT, &AtomicBool::new(false))?.is_empty() {
        anyhow::bail!("{}", endless(ASKING_LIMIT));
    }
    Ok(())
}

/// What is said of a stream that has not ended in time.
fn endless(limit: Duration) -> String {
    format!(
        "its stream of events did not end within {:.0} s, and what is compared are answers that end: say with --events N after how many events one is complete",
        limit.as_secs_f64()
    )
}

fn start(body: &[u8]) -> Vec<u8> {
    body[..body.len().min(SHOWN_BYTES)].to_vec()
}

fn probe_error(error: LoadError) -> ProbeError {
    match error {
        LoadError::Tls { .. } | LoadError::Foreign { .. } | LoadError::Unanswered { .. } => {
            ProbeError::NotHttp(error.to_string())
        }
        other => ProbeError::Connect(std::io::Error::other(other.to_string())),
    }
}

/// An answer to a request of `job` as a record keeps it.
fn reply(heard: &Heard, job: &Job) -> Reply {
    let to_head = matches!(&job.requests, Requests::Same(request) if request.method == "HEAD");
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let fields = headers(&heard.head).map(|(name, value)| (text(name), text(value))).collect();
    let head = parse_head(&heard.head, to_head, &HeadLimits::DEFAULT);
    // A stream of HTTP/2 or HTTP/3 ends without its connection.
    let closed = !job.has_streams() && matches!(head, Ok(Some(head)) if !head.keep_alive);
    Reply::new(heard.status, fields, closed, &heard.body)
}
