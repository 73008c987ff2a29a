//! What every test needs: a launcher, a log, a fixture's command line, and eyes on the process table.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use launch::{
    LaunchError, Launcher, NOT_YET, Process, Shown, Spec, free_port, probe_with_body, unexpected, wait_until,
};
use model::plan::Expect;
use model::record::Answer;

pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_launch-fixture");

pub(crate) fn launcher() -> Launcher {
    Launcher::new(PathBuf::from(FIXTURE))
}

/// A log file of its own for each call.
pub(crate) fn fresh_log() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let number = NEXT.fetch_add(1, Ordering::Relaxed);
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(format!("run-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    folder.join(format!("{number}.log"))
}

pub(crate) fn spec(argv: &[&str]) -> Spec {
    let argv = argv.iter().map(|word| (*word).to_owned()).collect();
    Spec { argv, log: fresh_log(), ..Spec::default() }
}

/// A shell script as target.
pub(crate) fn script(text: &str) -> Spec {
    spec(&["sh", "-c", text])
}

/// The fixture as a server with a fault, on a port of its own.
pub(crate) fn server(fault: &str) -> (Spec, SocketAddr) {
    let addr = free_addr();
    (spec(&[FIXTURE, "serve", &addr.port().to_string(), fault]), addr)
}

pub(crate) fn free_addr() -> SocketAddr {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let seed = u64::from(std::process::id()) << 32 | u64::from(NEXT.fetch_add(1, Ordering::Relaxed));
    (Ipv4Addr::LOCALHOST, free_port(seed).unwrap().number()).into()
}

/// Waits until `holds`; `false` where it does not within `limit`.
pub(crate) fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() >= deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Process ids of all living processes that have `marker` as a word of their command line.
pub(crate) fn living(marker: &str) -> Vec<u32> {
    let pids = std::fs::read_dir("/proc").unwrap().flatten();
    pids.filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|pid| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).any(|word| word == marker.as_bytes())
        })
        .collect()
}

/// A word that marks the processes of one test.
pub(crate) fn marker(test: &str) -> String {
    format!("whyslow-test-{test}-{}", std::process::id())
}

/// The log, once it has `lines` lines.
pub(crate) fn log_lines(path: &Path, lines: usize) -> Vec<String> {
    let read = || std::fs::read_to_string(path).unwrap_or_default();
    assert!(within(Duration::from_secs(10), || read().lines().count() >= lines), "log: {}", read());
    read().lines().map(str::to_owned).collect()
}

/// Checks all cases side by side: most of their time is waiting.
pub(crate) fn at_once<C: Send>(cases: impl IntoIterator<Item = C>, check: impl Fn(C) + Sync) {
    let check = &check;
    std::thread::scope(|scope| {
        for case in cases {
            scope.spawn(move || check(case));
        }
    });
}

/// A target that answered as expected.
#[derive(Debug)]
pub(crate) struct Ready {
    pub(crate) answer: Answer,
    pub(crate) ready_ms: u64,
}

/// Waits until `path` is answered as expected.
pub(crate) fn wait_ready(
    process: &mut Process,
    addr: SocketAddr,
    path: &str,
    expect: &Expect,
    timeout: Duration,
) -> Result<Ready, LaunchError> {
    let judge = |(answer, body): (Answer, Vec<u8>)| match unexpected(&answer, &body, expect) {
        None => Shown::Ready(answer),
        Some(what) if answer.status == NOT_YET => Shown::Loading(what),
        Some(what) => Shown::Wrong(what),
    };
    let mut ask = |limit| probe_with_body(addr, path, limit).map(judge);
    let (answer, ready_ms) = wait_until(process, addr, timeout, &mut ask)?;
    Ok(Ready { answer, ready_ms })
}
