use std::collections::BTreeSet;
use std::net::{IpAddr, SocketAddr};
use std::time::{Duration, Instant};

use model::plan::Expect;
use model::record::{Answer, status_name};

use crate::error::listed;
use crate::listen::takes_datagrams;
use crate::program::sha256;
use crate::{LaunchError, ProbeError, Process, listeners, log_tail};

/// Lines of the log that go into a failed round.
pub(crate) const LOG_LINES: usize = 10;
/// How long one question waits for its answer before the next is tried: a slow server would go on with one that was given up.
const PROBE_LIMIT: Duration = Duration::from_secs(10);
/// Between two questions: short beside any start, long beside the cost of asking.
const PROBE_EVERY: Duration = Duration::from_millis(5);
/// Service Unavailable.
pub const NOT_YET: u16 = 503;
/// How long a server may answer wrongly before that counts as its answer. One that says of itself that it cannot answer
/// yet (status 503) has all the time there is.
const WRONG_LIMIT: Duration = Duration::from_secs(3);
/// How long a server may listen on other ports alone before they count as its ports: some open one for their own purposes
/// first, and load for some seconds more.
const ELSEWHERE_LIMIT: Duration = Duration::from_secs(10);
/// The pause before the first look at where it listens, which reads all of `/proc`, and the longest: each is twice the one before.
const LOOKS: [Duration; 2] = [Duration::from_millis(50), Duration::from_secs(1)];

/// What one question to a target brought.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Shown<T> {
    /// It is ready.
    Ready(T),
    /// It says of itself that it is not ready yet: it has all the time there is.
    Loading(String),
    /// It does not do what it should; it has a few seconds to mend that.
    Wrong(String),
}

/// Asks again and again, each time for no longer than it is told, until what is asked shows that the target is ready on
/// `addr`; gives what it showed, and milliseconds from its start.
///
/// # Errors
/// [`LaunchError::Exited`], [`LaunchError::NotReady`], [`LaunchError::Elsewhere`] where it listens on other ports alone or on the
/// same one of another loopback address, or
/// [`LaunchError::WrongAnswer`] with what came instead; each with the last lines of its log. It goes on running where it had not ended.
pub fn wait_until<T>(
    process: &mut Process,
    addr: SocketAddr,
    timeout: Duration,
    ask: &mut dyn FnMut(Duration) -> Result<Shown<T>, ProbeError>,
) -> Result<(T, u64), LaunchError> {
    let begin = Instant::now();
    let deadline = begin + timeout;
    let mut seen = Probes { wrong: None, loading: false, last: ProbeError::Timeout };
    let mut elsewhere = Elsewhere::since(begin);
    loop {
        let outcome = ask(deadline.saturating_duration_since(Instant::now()).min(PROBE_LIMIT));
        if let Some(exit) = process.try_exit() {
            return Err(LaunchError::Exited { exit, log: log_of(process) });
        }
        if process.is_unwanted() {
            return Err(LaunchError::Interrupted);
        }
        if let Some(shown) = seen.note(outcome) {
            let ready_ms = u64::try_from(process.started().elapsed().as_millis()).unwrap_or(u64::MAX);
            return own_answer(process, addr, begin.elapsed()).map(|()| (shown, ready_ms));
        }
        if Instant::now() >= deadline || seen.is_settled() || elsewhere.is_settled(process, addr) {
            return Err(seen.failure(process, addr, begin.elapsed()));
        }
        std::thread::sleep(PROBE_EVERY);
    }
}

/// Since when a server has listened on other ports alone.
struct Elsewhere {
    looked: Instant,
    /// From the last look to the next.
    pause: Duration,
    /// Whether it listened on another loopback address alone at the last look; one that opens several opens them one by one.
    beside: bool,
    since: Option<Instant>,
}

impl Elsewhere {
    fn since(begin: Instant) -> Self {
        Self { looked: begin, pause: LOOKS[0], beside: false, since: None }
    }

    fn is_settled(&mut self, process: &Process, addr: SocketAddr) -> bool {
        if self.looked.elapsed() >= self.pause {
            self.looked = Instant::now();
            self.pause = (2 * self.pause).min(LOOKS[1]);
            let ports = listeners(process.root());
            let beside = is_beside(&ports, addr);
            if beside && self.beside {
                return true;
            }
            self.beside = beside;
            let elsewhere = !ports.is_empty() && ports.iter().all(|own| own.port() != addr.port());
            let elsewhere = elsewhere && !takes_datagrams(process.supervisor_pid(), addr.port());
            self.since = elsewhere.then(|| self.since.unwrap_or(self.looked));
        }
        self.since.is_some_and(|since| since.elapsed() >= ELSEWHERE_LIMIT)
    }
}

/// Whether a server listens on the right port of another loopback address alone, as where `localhost` is ::1: it opens no other.
fn is_beside(listens: &BTreeSet<SocketAddr>, addr: SocketAddr) -> bool {
    let mut on_it = listens.iter().filter(|own| own.port() == addr.port()).map(SocketAddr::ip).peekable();
    addr.ip().is_loopback()
        && on_it.peek().is_some()
        && on_it.all(|own| own.is_loopback() && !takes(own, addr.ip()))
}

/// What the questions so far have brought.
struct Probes {
    /// What was wrong with the last answer, and when the first wrong one came.
    wrong: Option<(String, Instant)>,
    /// Whether the last answer said that the server cannot answer yet.
    loading: bool,
    last: ProbeError,
}

impl Probes {
    /// Takes note of one outcome; gives what shows that the target is ready.
    fn note<T>(&mut self, outcome: Result<Shown<T>, ProbeError>) -> Option<T> {
        self.loading = matches!(outcome, Ok(Shown::Loading(_)));
        let what = match outcome {
            Ok(Shown::Ready(shown)) => return Some(shown),
            Ok(Shown::Wrong(what) | Shown::Loading(what)) | Err(ProbeError::NotHttp(what)) => what,
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
        if let Some((what, _)) = self.wrong {
            return LaunchError::WrongAnswer { what, log };
        }
        let listens = listeners(process.root());
        let takes_some = takes_datagrams(process.supervisor_pid(), addr.port());
        let on_it = |own: &SocketAddr| own.port() == addr.port();
        let seen = if takes_some || listens.iter().any(|own| on_it(own) && takes(own.ip(), addr.ip())) {
            format!("on {addr} {}", self.last)
        } else if listens.is_empty() {
            format!("it listens on no TCP port, {addr} was expected")
        } else if listens.iter().any(on_it) && !is_beside(&listens, addr) {
            format!("it listens on {} instead of {addr}", listed(&listens))
        } else {
            return LaunchError::Elsewhere { waited, addr, listens, log };
        };
        LaunchError::NotReady { waited, seen, log }
    }
}

/// What differs from the expected answer, in words; `None` where nothing does.
/// `body_start` is what it shows of a body.
#[must_use]
pub fn unexpected(answer: &Answer, body_start: &[u8], expect: &Expect) -> Option<String> {
    let start = || String::from_utf8_lossy(body_start).escape_debug().to_string();
    if answer.status != expect.status {
        let came = status_name(answer.status);
        return Some(format!("status {came} instead of {}, body '{}'", expect.status, start()));
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
    let ports = listeners(process.root());
    if ports.is_empty() || ports.iter().any(|own| own.port() == addr.port()) {
        return Ok(());
    }
    if takes_datagrams(process.supervisor_pid(), addr.port()) {
        return Ok(());
    }
    let seen = format!("another process answers on {addr}, and it listens on {}", listed(&ports));
    Err(LaunchError::NotReady { waited, seen, log: log_of(process) })
}

/// Whether a socket that listens on `own` gets what is sent to `asked`.
#[must_use]
pub fn takes(own: IpAddr, asked: IpAddr) -> bool {
    own.is_unspecified() || own.to_canonical() == asked
}

fn log_of(process: &Process) -> Vec<String> {
    log_tail(process.log(), LOG_LINES)
}
