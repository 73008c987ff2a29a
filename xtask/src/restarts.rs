//! The example service of straightline, restarted again and again while `whyslow load` asks it: no client is to see an error.

use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::os::fd::OwnedFd;
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail, ensure};
use rustix::process::{Pid, Signal, kill_process};
use serde_json::Value;

use crate::bench::release;
use crate::shell::{root, run as run_words};

/// How often the service is restarted at full size.
const RESTARTS: u32 = 10;
/// How long a generation serves at full size, before the next takes over.
const GENERATION_TIME: Duration = Duration::from_secs(2);
/// How long capacity is measured.
const CAPACITY_TIME: &str = "5s";
/// What of its capacity the service is asked for.
const SHARE_OF_CAPACITY: f64 = 0.5;
/// Connections of the load.
const CONNECTIONS: &str = "16";
/// Longest load: it is ended by a signal long before.
const LOAD_TIME: &str = "1h";
/// A request that takes longer is an error. On a busy machine a generation takes seconds to start.
const ANSWER_TIME: &str = "30s";
/// Answers of a generation to the load before it may be replaced.
const ANSWERS_MIN: u64 = 20;
/// Longest wait for anything to begin, or to end.
const PATIENCE: Duration = Duration::from_secs(120);
/// Between two looks at what is waited for.
const LOOK: Duration = Duration::from_millis(20);
const LOGIN: &str = r#"{"name":"ada","password":"correct horse"}"#;

struct Plan {
    whyslow: PathBuf,
    service: PathBuf,
    restarts: u32,
    /// Requests per second; without it [`SHARE_OF_CAPACITY`] of what is measured first.
    rate_per_s: Option<f64>,
    /// How long each generation serves at least.
    generation: Duration,
}

/// What the load reported at its end.
struct Outcome {
    rate_per_s: f64,
    requests: u64,
    /// How many failed, of each kind.
    failed: BTreeMap<String, u64>,
    /// Requests that were due when the load was ended, and had not been sent.
    unsent: u64,
    /// Requests that met the close of an idle connection, and were sent again.
    resent: u64,
    p99_ms: Option<f64>,
}

/// Restarts the service at full size; any error fails.
///
/// `program` loads it: a release build of this workspace where none is given.
pub(crate) fn full_size(program: Option<&Path>) -> anyhow::Result<()> {
    let whyslow = if let Some(program) = program {
        std::path::absolute(program)?
    } else {
        run_words(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
        release().join("whyslow")
    };
    let words =
        ["cargo", "build", "--quiet", "--release", "--package", "straightline", "--example", "service"];
    run_words(&words)?;
    let service = release().join("examples/service");
    let plan = Plan { whyslow, service, restarts: RESTARTS, rate_per_s: None, generation: GENERATION_TIME };
    let outcome = restart(&plan)?;
    println!("   {}", outcome.words(plan.restarts));
    ensure!(outcome.failed.is_empty(), "requests failed: {:?}", outcome.failed);
    Ok(())
}

impl Outcome {
    fn words(&self, restarts: u32) -> String {
        let Self { rate_per_s, requests, failed, unsent, resent, p99_ms } = self;
        let errors: u64 = failed.values().sum();
        let kinds = if failed.is_empty() { String::new() } else { format!(" {failed:?}") };
        let p99 = p99_ms.map_or_else(|| "too few for a p99".to_owned(), |ms| format!("p99 {ms:.1} ms"));
        format!(
            "{restarts} restarts at {rate_per_s:.0} requests/s: {requests} requests, {errors} errors{kinds}, \
             {resent} sent again, {unsent} unsent at the end; {p99}"
        )
    }
}

fn restart(plan: &Plan) -> anyhow::Result<Outcome> {
    let database = Database::start()?;
    let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
    let address = listener.local_addr()?;
    let mut current = Running::service(&plan.service, &listener, &database)?;
    let cookie = log_in(address)?;
    let load = |words: &[&str]| Running::load(&plan.whyslow, address, &cookie, words);
    let rate_per_s = match plan.rate_per_s {
        Some(rate) => rate,
        None => {
            let figures = load(&["--duration", CAPACITY_TIME])?.figures()?;
            SHARE_OF_CAPACITY * figures["rate_per_s"].as_f64().context("the load tells no rate")?
        }
    };
    let mut generator = load(&["--duration", LOAD_TIME, "--rate", &format!("{rate_per_s:.0}")])?;
    for _ in 0..plan.restarts {
        serve_for(plan.generation, address)?;
        ensure!(generator.is_running(), "the load ended by itself");
        let next = Running::service(&plan.service, &listener, &database)?;
        std::mem::replace(&mut current, next).end()?;
    }
    serve_for(plan.generation, address)?;
    generator.signal(Signal::INT);
    let figures = generator.figures()?;
    current.end()?;
    outcome(rate_per_s, &figures)
}

fn outcome(rate_per_s: f64, figures: &Value) -> anyhow::Result<Outcome> {
    let count = |name: &str| figures[name].as_u64().with_context(|| format!("the load tells no {name}"));
    let failed = figures["errors"].as_object().context("the load tells no errors")?.iter();
    let failed = failed.filter_map(|(kind, count)| Some((kind.clone(), count.as_u64()?)));
    let failed = failed.filter(|(_, count)| *count > 0).collect();
    let p99_ms = figures["response_ns"]["p99"].as_f64().map(|ns| ns / 1e6);
    let (requests, unsent, resent) = (count("requests")?, count("unsent")?, count("resent")?);
    Ok(Outcome { rate_per_s, requests, failed, unsent, resent, p99_ms })
}

/// Waits until the present generation has served for so long, and has answered the load.
fn serve_for(time: Duration, address: SocketAddr) -> anyhow::Result<()> {
    std::thread::sleep(time);
    wait_for("the service answers the load", || {
        let metrics = ask(address, "GET", "/metrics", "")?;
        let counts = metrics.lines().filter(|line| line.starts_with("straightline_requests_total"));
        let counts = counts.filter_map(|line| line.rsplit(' ').next()?.parse::<u64>().ok());
        Ok(counts.sum::<u64>() >= ANSWERS_MIN)
    })
}

fn wait_for(what: &str, mut condition: impl FnMut() -> anyhow::Result<bool>) -> anyhow::Result<()> {
    let begin = Instant::now();
    while !condition()? {
        ensure!(begin.elapsed() < PATIENCE, "{what}: not within {} s", PATIENCE.as_secs());
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Makes a user; the cookie of a session.
fn log_in(address: SocketAddr) -> anyhow::Result<String> {
    ask(address, "POST", "/users", LOGIN)?;
    let answer = ask(address, "POST", "/sessions", LOGIN)?;
    let cookie = answer.lines().find_map(|line| {
        let (name, value) = line.split_once(": ")?;
        name.eq_ignore_ascii_case("set-cookie").then(|| value.split(';').next().unwrap_or(value).to_owned())
    });
    cookie.with_context(|| format!("the service gives no session: {answer}"))
}

/// The whole answer to a request on a connection of its own.
fn ask(address: SocketAddr, method: &str, path: &str, body: &str) -> anyhow::Result<String> {
    let mut stream = TcpStream::connect(address).context("the service cannot be reached")?;
    stream.set_read_timeout(Some(PATIENCE))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Type: application/json\r\n\
         Content-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = String::new();
    stream.read_to_string(&mut answer).with_context(|| format!("no answer to {method} {path}"))?;
    Ok(answer)
}

/// A process that ends with this one.
struct Running {
    what: &'static str,
    child: Child,
}

impl Running {
    fn start(what: &'static str, command: &mut Command) -> anyhow::Result<Self> {
        let child = command.spawn().with_context(|| format!("cannot start {what}"))?;
        Ok(Self { what, child })
    }

    /// The next generation of the service, on a socket that it is handed as by systemd; returns when it serves.
    fn service(program: &Path, listener: &TcpListener, database: &Database) -> anyhow::Result<Self> {
        let script = "exec 3<&0 0</dev/null; export LISTEN_FDS=1 LISTEN_PID=$$; exec \"$0\" \"$@\"";
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM", "sh", "-c", script]).arg(program);
        command.arg(database.url()).stdin(OwnedFd::from(listener.try_clone()?));
        let mut service = Self::start("the service", &mut command)?;
        let tasks = PathBuf::from(format!("/proc/{}/task", service.child.id()));
        wait_for("the service starts", || {
            ensure!(service.is_running(), "the service ended as it began");
            // The thread of a shard that listens.
            let mut names = std::fs::read_dir(&tasks)?
                .filter_map(|task| std::fs::read_to_string(task.ok()?.path().join("comm")).ok());
            Ok(names.any(|name| name.trim_end() == "straightline-0"))
        })?;
        Ok(service)
    }

    fn load(program: &Path, address: SocketAddr, cookie: &str, words: &[&str]) -> anyhow::Result<Self> {
        let mut command = Command::new("setpriv");
        command.args(["--pdeathsig", "TERM"]).arg(program);
        command.args(["load", &format!("http://{address}/me"), "--header", &format!("Cookie: {cookie}")]);
        command.args(["--threads", "1", "--connections", CONNECTIONS, "--timeout", ANSWER_TIME]);
        command.args(["--format", "json"]).args(words).stdout(Stdio::piped()).stderr(Stdio::null());
        Self::start("whyslow load", &mut command)
    }

    fn is_running(&mut self) -> bool {
        matches!(self.child.try_wait(), Ok(None))
    }

    fn signal(&self, signal: Signal) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            // It may have ended by itself, which shows in how it ended.
            kill_process(pid, signal).ok();
        }
    }

    /// What a load says at its end.
    fn figures(mut self) -> anyhow::Result<Value> {
        let mut text = String::new();
        let mut out = self.child.stdout.take().context("a load's output is read once")?;
        out.read_to_string(&mut text)?;
        self.child.wait()?;
        serde_json::from_str(&text).with_context(|| format!("whyslow load gave no figures: {text}"))
    }

    /// Lets it end in good order.
    fn end(mut self) -> anyhow::Result<()> {
        self.signal(Signal::TERM);
        wait_for("it ends", || Ok(!self.is_running()))?;
        let status = self.child.wait()?;
        ensure!(status.success(), "{} ended with {status}", self.what);
        Ok(())
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        // Where it has ended there is nothing to do.
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A PostgreSQL of this process's own, which ends with it.
struct Database {
    /// Its standard input is the server's life line.
    child: Child,
    port: u16,
}

impl Database {
    fn start() -> anyhow::Result<Self> {
        let folder = std::env::temp_dir().join(format!("whyslow-restarts-{}", std::process::id()));
        std::fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
        let port = TcpListener::bind("127.0.0.1:0")?.local_addr()?.port();
        // TERM ends what prepares the folder, INT the server itself, without waiting for who is connected.
        let script = "sh \"$0\" \"$1\" \"$2\" >/dev/null 2>&1 & server=$!; cat >/dev/null; \
            kill -TERM $server; kill -INT $server; wait $server; cd /; rm -rf \"$2\"";
        let child = Command::new("sh")
            .args(["-c", script])
            .arg(root().join("targets/common/techempower/postgres.sh"))
            .arg(port.to_string())
            .arg(&folder)
            .stdin(Stdio::piped())
            // Ctrl-C is for this process alone, which then ends all in order.
            .process_group(0)
            .spawn()
            .context("cannot start PostgreSQL")?;
        let mut database = Self { child, port };
        wait_for("PostgreSQL starts", || database.is_ready())?;
        Ok(database)
    }

    /// Whether it lets somebody in. The cluster that is being prepared listens at no port.
    fn is_ready(&mut self) -> anyhow::Result<bool> {
        /// A question for TLS, which is answered by one byte.
        ///
        /// Source: PostgreSQL 15, chapter 55.2.11, `SSLRequest`.
        const QUESTION: [u8; 8] = [0, 0, 0, 8, 4, 210, 22, 47];
        if let Some(status) = self.child.try_wait()? {
            bail!("PostgreSQL does not start ({status}): apt-get install postgresql");
        }
        let Ok(mut stream) = TcpStream::connect(("127.0.0.1", self.port)) else { return Ok(false) };
        stream.set_read_timeout(Some(PATIENCE))?;
        let mut answer = [0];
        Ok(stream.write_all(&QUESTION).and_then(|()| stream.read_exact(&mut answer)).is_ok())
    }

    fn url(&self) -> String {
        format!("postgres://techempower@127.0.0.1:{}/postgres?sslmode=disable", self.port)
    }
}

impl Drop for Database {
    fn drop(&mut self) {
        drop(self.child.stdin.take());
        self.child.wait().ok();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The folder where cargo puts the programs that this test belongs to.
    fn programs() -> PathBuf {
        let test = std::env::current_exe().unwrap();
        test.ancestors().nth(2).unwrap().to_owned()
    }

    fn missing() -> Option<String> {
        let programs = programs();
        for program in ["whyslow", "examples/service"] {
            if !programs.join(program).exists() {
                return Some(format!("{program} is not built: cargo test --workspace builds it"));
            }
        }
        let installed =
            std::fs::read_dir("/usr/lib/postgresql").is_ok_and(|mut folders| folders.next().is_some());
        (!installed).then(|| "PostgreSQL is not installed: apt-get install postgresql".to_owned())
    }

    #[test]
    fn clients_see_nothing_of_two_restarts() {
        if let Some(missing) = missing() {
            testkit::skipped(&missing);
            return;
        }
        // As many as are asked for, or two at a low rate.
        let restarts = std::env::var("STRAIGHTLINE_RESTARTS").ok().map(|count| count.parse().unwrap());
        let (rate_per_s, generation) = match restarts {
            Some(_) => (None, GENERATION_TIME),
            None => (Some(100.0), Duration::ZERO),
        };
        let (whyslow, service) = (programs().join("whyslow"), programs().join("examples/service"));
        let restarts = restarts.unwrap_or(2);
        let plan = Plan { whyslow, service, restarts, rate_per_s, generation };
        let outcome = restart(&plan).unwrap();
        println!("{}", outcome.words(plan.restarts));
        assert!(outcome.failed.is_empty(), "of {} requests: {:?}", outcome.requests, outcome.failed);
        assert!(outcome.requests >= 3 * ANSWERS_MIN / 2, "{} requests", outcome.requests);
    }
}
