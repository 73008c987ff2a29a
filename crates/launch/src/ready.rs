use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use model::plan::Expect;
use model::record::Answer;

use crate::probe::{Connection, Reply, request};
use crate::program::sha256;
use crate::{LaunchError, ProbeError, Process, listeners, log_tail, tree};

/// Lines of the log that go into a failed round.
pub(crate) const LOG_LINES: usize = 10;
/// How long one question waits for its answer before the next is tried.
const PROBE_LIMIT: Duration = Duration::from_secs(2);
/// Between two questions: short beside any start, long beside the cost of asking.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// How long a server may answer wrongly before that counts as its answer. One that says of itself that it cannot answer
/// yet (status 503) has all the time there is.
const WRONG_LIMIT: Duration = Duration::from_secs(3);

/// A target that answered as expected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ready {
    /// Its answer.
    pub answer: Answer,
    /// Milliseconds from its start to the end of that answer.
    pub ready_ms: u64,
}

/// Asks again and again until the target answers `path` as expected.
///
/// # Errors
/// [`LaunchError::Exited`], [`LaunchError::NotReady`] with what it listens on instead, or [`LaunchError::WrongAnswer`]
/// with what came instead; each with the last lines of its log.
pub fn wait_ready(
    process: &mut Process,
    addr: SocketAddr,
    path: &str,
    expect: &Expect,
    timeout: Duration,
) -> Result<Ready, LaunchError> {
    let begin = Instant::now();
    let deadline = begin + timeout;
    let mut seen = Seen { wrong: None, loading: false, last: ProbeError::Timeout };
    loop {
        let outcome = ask(addr, path, deadline);
        if let Some(exit) = process.try_exit() {
            let left = !tree::descendants(process.supervisor_pid()).is_empty();
            return Err(LaunchError::Exited { exit, left, log: log_of(process) });
        }
        if process.is_unwanted() {
            return Err(LaunchError::Interrupted);
        }
        if let Some(answer) = seen.note(outcome, expect) {
            let ready_ms = u64::try_from(process.started().elapsed().as_millis()).unwrap_or(u64::MAX);
            return own_answer(process, addr, begin.elapsed()).map(|()| Ready { answer, ready_ms });
        }
        if Instant::now() >= deadline || seen.is_settled() {
            return Err(seen.failure(process, addr, begin.elapsed()));
        }
        std::thread::sleep(PROBE_EVERY);
    }
}

/// Asks a server that runs already, once.
///
/// # Errors
/// [`LaunchError::NotRunning`] where it does not answer, [`LaunchError::WrongAnswer`] with what came instead.
pub fn ask_running(addr: SocketAddr, path: &str, expect: &Expect) -> Result<Answer, LaunchError> {
    let reply = ask(addr, path, Instant::now() + PROBE_LIMIT)
        .map_err(|error| LaunchError::NotRunning { addr, reason: error.to_string() })?;
    match difference(&reply, expect) {
        None => Ok(reply.answer),
        Some(what) => Err(LaunchError::WrongAnswer { what, log: Vec::new() }),
    }
}

fn ask(addr: SocketAddr, path: &str, deadline: Instant) -> Result<Reply, ProbeError> {
    let left = deadline.saturating_duration_since(Instant::now());
    let mut connection = Connection::open(addr, left.min(PROBE_LIMIT))?;
    connection.send(request("GET", path, addr, "").as_bytes())?;
    connection.read_answer(false)
}

/// What the questions so far have brought.
struct Seen {
    /// What was wrong with the last answer, and when the first wrong one came.
    wrong: Option<(String, Instant)>,
    /// Whether the last answer said that the server cannot answer yet.
    loading: bool,
    last: ProbeError,
}

impl Seen {
    /// Takes note of one outcome; gives the answer if it is the expected one.
    fn note(&mut self, outcome: Result<Reply, ProbeError>, expect: &Expect) -> Option<Answer> {
        /// Service Unavailable.
        const NOT_YET: u16 = 503;
        self.loading = matches!(&outcome, Ok(reply) if reply.answer.status == NOT_YET);
        let what = match outcome {
            Ok(reply) => match difference(&reply, expect) {
                None => return Some(reply.answer),
                Some(what) => what,
            },
            Err(ProbeError::NotHttp(what)) => what,
            Err(error) => {
                self.last = error;
                return None;
            }
        };
        let since = self.wrong.as_ref().map_or_else(Instant::now, |(_, since)| *since);
        self.wrong = Some((what, since));
        None
    }

    fn is_settled(&self) -> bool {
        !self.loading && self.wrong.as_ref().is_some_and(|(_, since)| since.elapsed() >= WRONG_LIMIT)
    }

    fn failure(self, process: &Process, addr: SocketAddr, waited: Duration) -> LaunchError {
        let log = log_of(process);
        match self.wrong {
            Some((what, _)) => LaunchError::WrongAnswer { what, log },
            None => {
                let seen = instead(process, addr).unwrap_or_else(|| format!("on {addr} {}", self.last));
                LaunchError::NotReady { waited, seen, log }
            }
        }
    }
}

/// What differs from the expected answer, in words; `None` where nothing does.
pub(crate) fn difference(reply: &Reply, expect: &Expect) -> Option<String> {
    let answer = &reply.answer;
    let start = || String::from_utf8_lossy(&reply.body_start).escape_debug().to_string();
    if answer.status != expect.status {
        return Some(format!("status {} instead of {}, body '{}'", answer.status, expect.status, start()));
    }
    if let Some(body) = &expect.body
        && answer.body_sha256 != sha256(body.as_bytes())
    {
        let (came, want) = (answer.body_bytes, body.len());
        return Some(format!("a body of {came} bytes, '{}', instead of the expected {want} bytes", start()));
    }
    if expect.body_sha256.as_ref().is_some_and(|sha256| *sha256 != answer.body_sha256) {
        return Some(format!("another body than expected, of {} bytes", answer.body_bytes));
    }
    let want = expect.content_type.as_ref()?;
    let came = header(answer, "content-type").unwrap_or("none");
    (!came.starts_with(want.as_str())).then(|| format!("content type {came} instead of {want}"))
}

/// The first value of a header, by its name in lower case.
pub(crate) fn header<'a>(answer: &'a Answer, name: &str) -> Option<&'a str> {
    answer.headers.iter().find(|(given, _)| given.eq_ignore_ascii_case(name)).map(|(_, value)| value.as_str())
}

/// Makes sure that the answer came from the target and not from somebody else on its port.
fn own_answer(process: &Process, addr: SocketAddr, waited: Duration) -> Result<(), LaunchError> {
    let ports = listeners(process.supervisor_pid());
    if ports.is_empty() || ports.iter().any(|own| own.port() == addr.port()) {
        return Ok(());
    }
    let seen = format!("another process answers on {addr}, and it listens on {}", list(&ports));
    Err(LaunchError::NotReady { waited, seen, log: log_of(process) })
}

/// Where it listens instead.
fn instead(process: &Process, addr: SocketAddr) -> Option<String> {
    let ports = listeners(process.supervisor_pid());
    if ports.is_empty() {
        return Some(format!("it listens on no TCP port, {addr} was expected"));
    }
    let elsewhere = !ports.iter().any(|own| own.port() == addr.port() && takes(own.ip(), addr.ip()));
    elsewhere.then(|| format!("it listens on {} instead of {addr}", list(&ports)))
}

/// Whether a socket that listens on `own` gets what is sent to `asked`.
fn takes(own: IpAddr, asked: IpAddr) -> bool {
    own.is_unspecified() || own.to_canonical() == asked
}

fn list(ports: &std::collections::BTreeSet<SocketAddr>) -> String {
    ports.iter().map(ToString::to_string).collect::<Vec<_>>().join(", ")
}

fn log_of(process: &Process) -> Vec<String> {
    log_tail(process.log(), LOG_LINES)
}
