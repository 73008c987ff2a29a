//! A tracer counts every call of a server, whoever runs it, and leaves it running.

use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::os::unix::fs::PermissionsExt;
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};

use model::record::Counts;
use observe::{Group, ObserveError, Tracer, Untraceable};

use crate::filtered::{CALLS, ENOSYS, EPERM, refusing};

/// Requests on each connection, and calls of getppid for each.
const REQUESTS: u64 = 101;
const ASKS: u64 = 20;
/// The user that has no rights, by Linux's custom.
const NOBODY: u32 = 65534;

/// A server in a child; it ends with the test.
struct Served {
    child: Child,
    port: u16,
}

impl Served {
    fn start(how: &str, command: &mut Command) -> Self {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
        command.args(["serve", how, &port.to_string()]).stdout(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let mut line = String::new();
        BufReader::new(child.stdout.take().unwrap()).read_line(&mut line).unwrap();
        assert_eq!(line, "ready\n");
        Self { child, port }
    }

    fn new(how: &str) -> Self {
        Self::start(how, &mut Command::new(env!("CARGO_BIN_EXE_observe-fixture")))
    }

    fn group(&self) -> Group {
        Group::from_pid(self.child.id()).unwrap()
    }

    /// A connection that has been answered once, so that whoever serves it is there.
    fn connect(&self) -> TcpStream {
        let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port)).unwrap();
        ask(&mut stream, 1);
        stream
    }

    fn tracers(&self) -> Vec<String> {
        let pid = self.child.id();
        let threads = std::fs::read_dir(format!("/proc/{pid}/task")).unwrap();
        let status = |thread: std::io::Result<std::fs::DirEntry>| {
            let text = std::fs::read_to_string(thread.ok()?.path().join("status")).ok()?;
            Some(text.lines().find(|line| line.starts_with("TracerPid"))?.to_owned())
        };
        threads.filter_map(status).collect()
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn ask(stream: &mut TcpStream, times: u64) {
    for _ in 0..times {
        stream.write_all(b"?").unwrap();
        let mut answer = [0; 3];
        stream.read_exact(&mut answer).unwrap();
        assert_eq!(&answer, b"yes");
    }
}

fn assert_exact(counts: &Counts, requests: u64, connections: u64) {
    let calls = |name: &str| counts.syscalls.get(name).copied().unwrap_or(0);
    assert_eq!(calls("getppid"), ASKS * requests, "{counts:?}");
    let writes = counts.writes.unwrap();
    assert_eq!((writes.network.calls, writes.network.bytes), (requests, 3 * requests), "{counts:?}");
    // One to a file for each connection; a process that begins another writes to its pipe only where that fails.
    assert_eq!((writes.other.calls, writes.other.bytes), (connections, connections), "{counts:?}");
    // The last read of each of at most four connections may not have begun.
    assert!(calls("recvfrom").abs_diff(requests) <= 4, "{counts:?}");
    assert_eq!(counts.event("syscalls"), Some(counts.syscalls.values().sum()));
    assert_eq!((counts.counted_share, &*counts.missing), (1.0, &[][..]));
}

/// Those that are there before the tracer, and those that begin later, in threads as in processes.
#[test]
fn calls_of_threads_and_processes_are_counted_exactly() {
    for how in ["threads", "processes"] {
        let served = Served::new(how);
        let mut early = [served.connect(), served.connect()];
        let tracer = match Tracer::attach(&served.group()) {
            Ok(tracer) => tracer,
            Err(error) => {
                testkit::skipped(&format!("{error}"));
                return;
            }
        };
        let before = tracer.read();
        early.iter_mut().for_each(|stream| ask(stream, REQUESTS));
        assert_exact(&tracer.read().since(&before), 2 * REQUESTS, 0);
        let mut late = served.connect();
        ask(&mut late, REQUESTS);
        assert_exact(&tracer.read().since(&before), 3 * REQUESTS + 1, 1);
        drop(tracer);
        assert!(served.tracers().iter().all(|line| line.ends_with("\t0")), "{:?}", served.tracers());
        for stream in early.iter_mut().chain([&mut late, &mut served.connect()]) {
            ask(stream, REQUESTS);
        }
    }
}

/// A server whose calls a filter decides on is counted as any.
#[test]
fn a_server_below_a_filter_is_counted_and_a_tracer_below_one_is_told_so() {
    let served = refusing(CALLS[0], EPERM, || Served::new("threads"));
    let mut stream = served.connect();
    for errno in [EPERM, ENOSYS] {
        let refused = refusing(CALLS[1], errno, || Tracer::attach(&served.group())).unwrap_err();
        let filtered = matches!(refused, ObserveError::Untraceable { reason: Untraceable::Filtered(_), .. });
        assert!(filtered && refused.to_string().contains("allow it there"), "{refused}");
    }
    let Ok(tracer) = Tracer::attach(&served.group()) else {
        testkit::skipped("this user may not trace");
        return;
    };
    let before = tracer.read();
    ask(&mut stream, REQUESTS);
    assert_exact(&tracer.read().since(&before), REQUESTS, 0);
}

#[test]
fn a_server_that_is_traced_already_is_an_error_and_goes_on() {
    let served = Served::new("threads");
    let Ok(first) = Tracer::attach(&served.group()) else {
        testkit::skipped("this user may not trace");
        return;
    };
    let error = Tracer::attach(&served.group()).unwrap_err();
    let traced = matches!(error, ObserveError::Untraceable { reason: Untraceable::Traced(_), .. });
    assert!(traced && error.to_string().contains("traces it already"), "{error}");
    let before = first.read();
    ask(&mut served.connect(), REQUESTS);
    assert_exact(&first.read().since(&before), REQUESTS + 1, 1);
}

/// The fixture where everybody may start it; it is gone with the value.
struct ForAll(PathBuf);

impl ForAll {
    fn new() -> Self {
        let place = std::env::temp_dir().join(format!("observe-fixture-{}", std::process::id()));
        std::fs::copy(env!("CARGO_BIN_EXE_observe-fixture"), &place).unwrap();
        std::fs::set_permissions(&place, std::fs::Permissions::from_mode(0o755)).unwrap();
        Self(place)
    }

    fn as_nobody(&self) -> Command {
        let mut command = Command::new(&self.0);
        command.uid(NOBODY).gid(NOBODY).current_dir("/").stdin(Stdio::piped()).stdout(Stdio::piped());
        command
    }
}

impl Drop for ForAll {
    fn drop(&mut self) {
        let _ = std::fs::remove_file(&self.0);
    }
}

/// An ordinary user traces a server of his own whatever `kernel.perf_event_paranoid` is, and none of another's.
#[test]
fn an_ordinary_user_counts_exactly() {
    if !rustix::process::geteuid().is_root() {
        testkit::skipped("only root can become another user");
        return;
    }
    let fixture = ForAll::new();
    let own = Served::start("threads", &mut fixture.as_nobody());
    let mut stream = own.connect();
    let trace = |pid: u32| {
        let mut tracer = fixture.as_nobody().args(["trace", &pid.to_string()]).spawn().unwrap();
        let mut heard = BufReader::new(tracer.stdout.take().unwrap());
        let mut line = String::new();
        heard.read_line(&mut line).unwrap();
        (tracer, heard, line)
    };
    let (mut tracer, mut heard, line) = trace(own.child.id());
    if line.contains("yama") {
        testkit::skipped(&line);
        return;
    }
    assert_eq!(line, "ready\n");
    ask(&mut stream, REQUESTS);
    tracer.stdin.as_mut().unwrap().write_all(b".").unwrap();
    let mut counted = String::new();
    heard.read_line(&mut counted).unwrap();
    assert!(tracer.wait().unwrap().success());
    assert_eq!(counted, format!("{} {REQUESTS} {}\n", ASKS * REQUESTS, 3 * REQUESTS));
    ask(&mut stream, REQUESTS);
    let other = Served::new("threads");
    let (mut refused, _, line) = trace(other.child.id());
    assert!(line.contains("another user's"), "{line}");
    refused.wait().unwrap();
}

/// A tracer that is killed takes nobody with it.
#[test]
fn a_server_outlives_the_tracer_that_is_killed() {
    let served = Served::new("threads");
    let mut stream = served.connect();
    let mut tracer = Command::new(env!("CARGO_BIN_EXE_observe-fixture"))
        .args(["trace", &served.child.id().to_string()])
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut line = String::new();
    BufReader::new(tracer.stdout.take().unwrap()).read_line(&mut line).unwrap();
    ask(&mut stream, 3);
    tracer.kill().unwrap();
    tracer.wait().unwrap();
    ask(&mut stream, REQUESTS);
}
