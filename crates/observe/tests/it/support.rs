//! Children that do what they are told while they are watched.

use std::io::{BufRead, BufReader, Write};
use std::process::{Child, ChildStdout, Command, Stdio};

use model::record::Usage;
use observe::{Group, Snapshot};

/// A fixture that waits to be told.
pub(crate) struct Fixture {
    child: Child,
    stdout: BufReader<ChildStdout>,
}

impl Fixture {
    pub(crate) fn new(role: &[&str]) -> Self {
        Self::start(Command::new(env!("CARGO_BIN_EXE_observe-fixture")).args(role))
    }

    /// Any program that speaks as the fixture does.
    pub(crate) fn start(command: &mut Command) -> Self {
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut fixture = Self { stdout: BufReader::new(child.stdout.take().unwrap()), child };
        fixture.expect_line("ready\n");
        fixture
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Tells it to do its work; returns when that is done and it waits again.
    pub(crate) fn work(&mut self) {
        self.child.stdin.as_mut().unwrap().write_all(b".").unwrap();
        self.expect_line("done\n");
        while self.state() != 'S' {
            std::thread::yield_now();
        }
    }

    fn state(&self) -> char {
        let stat = std::fs::read_to_string(format!("/proc/{}/stat", self.pid())).unwrap();
        stat.rsplit_once(") ").unwrap().1.chars().next().unwrap()
    }

    fn expect_line(&mut self, expected: &str) {
        let mut line = String::new();
        self.stdout.read_line(&mut line).unwrap();
        assert_eq!(line, expected);
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A fixture in a network namespace of its own; nothing where none can be made.
pub(crate) fn in_own_network(role: &[&str]) -> Option<Fixture> {
    let unshare = |args: &[&str]| {
        let mut command = Command::new("unshare");
        command.arg("--net").args(args);
        command
    };
    let may = unshare(&["true"]).output().is_ok_and(|done| done.status.success());
    may.then(|| Fixture::start(&mut unshare(&[&[env!("CARGO_BIN_EXE_observe-fixture")], role].concat())))
}

/// Watches one fixture from before its work until after it.
pub(crate) fn watch(role: &[&str]) -> (Usage, Snapshot) {
    let mut fixture = Fixture::new(role);
    while fixture.state() != 'S' {
        std::thread::yield_now();
    }
    let group = Group::from_pid(fixture.pid()).unwrap();
    let before = group.snapshot().unwrap();
    fixture.work();
    let after = group.snapshot().unwrap();
    (after.since(&before), after)
}

pub(crate) fn used(role: &[&str]) -> Usage {
    watch(role).0
}
