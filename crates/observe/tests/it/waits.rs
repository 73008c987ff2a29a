//! Servers that wait in known ways are watched, and what ended their waits is found.

mod goroutines;
mod native;

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicU8, Ordering};
use std::time::Duration;

use model::record::{EndedBy, Frame, PYTHON, RUBY, WaitLeaf, Waits, evaluated_in};
use observe::{Group, WakerWatch};

use crate::support::Fixture;

const REQUESTS: u32 = 60;

thread_local! {
    /// Whether of the last server that was watched the ends of waits were not seen, for more than a fifth of the time.
    static LEFT_OUT: Cell<bool> = const { Cell::new(false) };
}

/// Runs a test until it passes, a few times at most: Linux 6.18 was seen to leave out, on one CPU, all records of what it does while it is
/// idle (so wakings by timers, and who comes then), also from `perf record`. Where it does so every time, the test is left out, and
/// counted so.
fn in_one_of_some_tries(test: fn()) {
    const TRIES: usize = 5;
    for tries_left in (0..TRIES).rev() {
        LEFT_OUT.set(false);
        match std::panic::catch_unwind(test) {
            Ok(()) => return,
            Err(failure) if tries_left == 0 && !LEFT_OUT.get() => std::panic::resume_unwind(failure),
            Err(_) => {}
        }
    }
    testkit::skipped("the kernel leaves out what a CPU does while it is idle");
}

/// A loopback address that no other test of this process and no other process uses.
fn address() -> String {
    static NEXT: AtomicU8 = AtomicU8::new(1);
    let [.., high, low] = std::process::id().to_be_bytes();
    format!("127.{high}.{low}.{}:7878", NEXT.fetch_add(1, Ordering::Relaxed))
}

fn server(what: &str) -> (Fixture, String) {
    let address = address();
    (Fixture::new(&["waiting", what, &address]), address)
}

/// Asks the server one request after another, each after a time to think.
fn ask(address: &str, think: Duration) {
    let mut server = TcpStream::connect(address).unwrap();
    for _ in 0..REQUESTS {
        std::thread::sleep(think);
        server.write_all(b".").unwrap();
        server.read_exact(&mut [0]).unwrap();
    }
}

/// What ended the waits of a server while it was asked; nothing, and the reason said, where that may not be seen.
fn watched(mut server: Fixture, address: &str, think: Duration) -> Option<Waits> {
    let group = Group::from_pid(server.pid()).unwrap();
    let mut watch = match WakerWatch::attach(&group) {
        Ok(watch) => watch,
        Err(error) => {
            testkit::skipped(&format!("{error}"));
            return None;
        }
    };
    watch.begin();
    std::thread::scope(|scope| {
        scope.spawn(|| ask(address, think));
        server.work();
    });
    let waits = watch.stop();
    let unseen = waits.leaves.iter().filter(|leaf| leaf.ended_by == EndedBy::Unknown);
    LEFT_OUT.set(unseen.map(|leaf| leaf.ns).sum::<u64>() > waits.idle_ns / 5);
    assert_eq!(waits.leaves.iter().map(|leaf| leaf.ns).sum::<u64>(), waits.idle_ns);
    assert!(waits.idle_ns <= waits.threads * waits.wall_ns, "{}", table(&waits));
    Some(waits)
}

/// The share of the waits that are the server's own, and of no client, that ended so.
fn share(waits: &Waits, ended_by: EndedBy) -> f64 {
    let own = |leaf: &&WaitLeaf| !matches!(leaf.ended_by, EndedBy::Client | EndedBy::Cpu);
    let all: u64 = waits.leaves.iter().filter(own).map(|leaf| leaf.ns).sum();
    let these = waits.leaves.iter().filter(|leaf| leaf.ended_by == ended_by);
    these.map(|leaf| leaf.ns).sum::<u64>() as f64 / all.max(1) as f64
}

/// The longest wait that ended so.
fn longest(waits: &Waits, ended_by: EndedBy) -> &WaitLeaf {
    waits.leaves.iter().find(|leaf| leaf.ended_by == ended_by).unwrap()
}

fn is_in(waits: &Waits, stack: &[u32], name: &str) -> bool {
    waits.frames_of(stack).any(|frame| frame.name.contains(name))
}

/// The leaves as lines, for whoever reads why a test failed.
fn table(waits: &Waits) -> String {
    let names = |stack: &[u32]| {
        let names: Vec<&str> =
            waits.frames_of(stack).rev().take(12).map(|frame| frame.name.as_str()).collect();
        names.join(" < ")
    };
    let line = |leaf: &WaitLeaf| {
        let WaitLeaf { ended_by, behind, by, count, ns, .. } = leaf;
        let [waited, woken] = [&leaf.waited_in, &leaf.woken_from].map(|stack| names(stack));
        format!("{ended_by:?} {behind:?} {by:?} {count} x {ns} ns\n  in {waited}\n  from {woken}\n")
    };
    let head = format!(
        "{} lost, {} threads, {} ns of {} ns idle\n",
        waits.lost, waits.threads, waits.idle_ns, waits.wall_ns
    );
    std::iter::once(head).chain(waits.leaves.iter().take(8).map(line)).collect()
}

#[test]
fn who_sleeps_waits_for_a_time() {
    in_one_of_some_tries(|| {
        let (server, address) = server("time");
        let Some(waits) = watched(server, &address, Duration::ZERO) else { return };
        assert!(share(&waits, EndedBy::Timer) > 0.8, "{}", table(&waits));
        let leaf = longest(&waits, EndedBy::Timer);
        assert!(
            leaf.count >= u64::from(REQUESTS) / 2 && is_in(&waits, &leaf.waited_in, "nanosleep"),
            "{}",
            table(&waits)
        );
    });
}

#[test]
fn who_waits_for_a_lock_is_told_who_held_it_and_what_that_one_waited_for() {
    in_one_of_some_tries(|| {
        let (server, address) = server("lock");
        let Some(waits) = watched(server, &address, Duration::ZERO) else { return };
        assert!(share(&waits, EndedBy::Lock) > 0.6, "{}", table(&waits));
        // A crowded machine may keep the holder from its CPU for longer than it sleeps: then that is the longest wait.
        let asleep = |leaf: &&WaitLeaf| leaf.ended_by == EndedBy::Lock && leaf.behind == Some(EndedBy::Timer);
        let Some(leaf) = waits.leaves.iter().find(asleep) else { panic!("{}", table(&waits)) };
        assert_eq!(leaf.by.as_deref(), Some("holder"), "{}", table(&waits));
        assert!(!leaf.woken_from.is_empty(), "{leaf:?}");
    });
}

#[test]
fn who_waits_for_a_process_is_told_so() {
    in_one_of_some_tries(|| {
        let (server, address) = server("child");
        let Some(waits) = watched(server, &address, Duration::ZERO) else { return };
        assert!(share(&waits, EndedBy::Child) > 0.8, "{}", table(&waits));
    });
}

#[test]
fn another_service_is_told_from_a_client_and_named_with_its_port() {
    in_one_of_some_tries(|| {
        let (mut backend, behind) = server("time");
        let (server, address) = server(&behind);
        let waits = std::thread::scope(|scope| {
            scope.spawn(|| backend.work());
            watched(server, &address, Duration::ZERO)
        });
        let Some(waits) = waits else { return };
        assert!(share(&waits, EndedBy::Service) > 0.8, "{}", table(&waits));
        let by = longest(&waits, EndedBy::Service).by.clone().unwrap();
        assert!(by.contains("fixture") && by.ends_with("(port 7878)"), "{by}");
    });
}

#[test]
fn a_service_that_the_server_has_begun_is_one_too_and_what_it_waits_for_is_marked() {
    in_one_of_some_tries(|| {
        let (server, address) = server("office");
        let Some(waits) = watched(server, &address, Duration::ZERO) else { return };
        let by = longest(&waits, EndedBy::Service).by.clone().unwrap();
        assert!(by.contains("fixture") && by.ends_with("(port 7879)"), "{by}");
        let sleeps = longest(&waits, EndedBy::Timer);
        assert!(sleeps.of_service && is_in(&waits, &sleeps.waited_in, "nanosleep"), "{}", table(&waits));
        let of_server = waits.leaves.iter().filter(|leaf| leaf.ended_by == EndedBy::Service);
        assert!(
            of_server.map(|leaf| leaf.count).sum::<u64>() >= u64::from(REQUESTS) / 2,
            "{}",
            table(&waits)
        );
    });
}

#[test]
fn a_server_that_has_nothing_to_do_waits_for_its_client() {
    in_one_of_some_tries(|| {
        let (server, address) = server("nothing");
        let Some(waits) = watched(server, &address, Duration::from_millis(3)) else { return };
        let client = longest(&waits, EndedBy::Client).ns;
        assert!(client as f64 > 0.8 * waits.idle_ns as f64, "{}", table(&waits));
        assert!(share(&waits, EndedBy::Lock) + share(&waits, EndedBy::Timer) < 0.5, "{}", table(&waits));
    });
}

/// A server in which two of three requests wait in `slow_lock` for a lock whose holder sleeps, and the third one sleeps itself in `slow_sleep`;
/// each does so in the first line of its function.
struct Script {
    text: &'static str,
    /// What the names of its files end in, and the module of its functions.
    ends: &'static str,
    module: &'static str,
}

const OF_PYTHON: Script = Script { text: PYTHON_SERVER, ends: "py", module: PYTHON };
const OF_RUBY: Script = Script { text: RUBY_SERVER, ends: "rb", module: RUBY };

const PYTHON_SERVER: &str = r#"
import queue, socket, sys, threading, time

lock = threading.Lock()
taken = queue.SimpleQueue()

def holds():
    while True:
        taken.get()
        with lock:
            held.set()
            time.sleep(0.004)

def slow_lock():
    with lock:
        pass

def slow_sleep():
    time.sleep(0.004)

held = threading.Event()
host, port = sys.argv[1].split(":")
listener = socket.create_server((host, int(port)))

def serves():
    client, _ = listener.accept()
    turn = 0
    while client.recv(1):
        if turn % 3 == 2:
            slow_sleep()
        else:
            held.clear()
            taken.put(None)
            held.wait()
            slow_lock()
        turn += 1
        client.sendall(b".")
    over.set()

over = threading.Event()
threading.Thread(target=holds, daemon=True).start()
threading.Thread(target=serves, daemon=True).start()
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read(1)
over.wait()
sys.stdout.write("done\n")
sys.stdout.flush()
sys.stdin.read(1)
"#;

const RUBY_SERVER: &str = r#"
require "socket"

LOCK = Mutex.new
TAKEN, HELD, OVER = Queue.new, Queue.new, Queue.new

def holds
  loop do
    TAKEN.pop
    LOCK.synchronize do
      HELD << true
      sleep 0.004
    end
  end
end

def slow_lock
  LOCK.synchronize { nil }
end

def slow_sleep
  sleep 0.004
end

host, port = ARGV[0].split(":")
LISTENER = TCPServer.new(host, Integer(port))

def serves
  client = LISTENER.accept
  turn = 0
  while client.read(1)
    if turn % 3 == 2
      slow_sleep
    else
      TAKEN << true
      HELD.pop
      slow_lock
    end
    turn += 1
    client.write(".")
  end
  OVER << true
end

Thread.new { holds }
Thread.new { serves }
$stdout.sync = true
puts "ready"
$stdin.readpartial(1)
OVER.pop
puts "done"
$stdin.readpartial(1)
"#;

impl Script {
    /// The first line of one of its functions.
    fn line_in(&self, function: &str) -> u32 {
        let defines = |line: &str| line.starts_with("def ") && line.contains(function);
        self.text.lines().position(defines).unwrap() as u32 + 2
    }

    /// Whether a wait is in the first line of a function, and in no function that works on those.
    fn is_at(&self, waits: &Waits, leaf: &WaitLeaf, function: &str) -> bool {
        let line = Some(self.line_in(function));
        let is_there = |frame: &Frame| {
            let is_of_script = frame.file.as_ref().is_some_and(|file| file.ends_with(self.ends));
            frame.module == self.module && frame.name == function && frame.line == line && is_of_script
        };
        let works = |frame: &Frame| evaluated_in(&frame.name).is_some();
        waits.frames_of(&leaf.waited_in).any(is_there) && !waits.frames_of(&leaf.waited_in).any(works)
    }

    /// Watches it while this program runs it, begun by the words before that.
    fn functions_wait(&self, before: &[&str], program: &str) {
        let words = || before.iter().copied().chain([program]);
        let command = || {
            let mut command = Command::new(words().next().unwrap());
            command.args(words().skip(1));
            command
        };
        if !command().arg("--version").output().is_ok_and(|output| output.status.success()) {
            testkit::skipped(&format!("{program} is not installed, or may not begin so"));
            return;
        }
        let address = address();
        let file = std::env::temp_dir().join(format!("observe-waits-{address}.{}", self.ends));
        std::fs::write(&file, self.text).unwrap();
        let server = Fixture::start(command().arg(&file).arg(&address));
        let waits = watched(server, &address, Duration::ZERO);
        std::fs::remove_file(&file).unwrap();
        let Some(waits) = waits else { return };
        let sum = |ended_by: EndedBy, function: &str| -> u64 {
            let of = |leaf: &&WaitLeaf| leaf.ended_by == ended_by && self.is_at(&waits, leaf, function);
            waits.leaves.iter().filter(of).map(|leaf| leaf.ns).sum()
        };
        // Of 60 requests 40 wait for the lock, and 20 sleep: 4 ms each.
        let (in_lock, in_sleep) = (sum(EndedBy::Lock, "slow_lock"), sum(EndedBy::Timer, "slow_sleep"));
        assert!((60_000_000..300_000_000).contains(&in_lock), "{program}: {in_lock}: {}", table(&waits));
        assert!((30_000_000..200_000_000).contains(&in_sleep), "{program}: {in_sleep}: {}", table(&waits));
    }
}

#[test]
fn waits_of_python_are_in_its_functions_and_lines() {
    in_one_of_some_tries(|| {
        let programs = ["python3.11", "python3.12", "python3.13"];
        programs.into_iter().for_each(|program| OF_PYTHON.functions_wait(&[], program));
    });
}

#[test]
fn waits_of_ruby_are_in_its_functions_and_lines() {
    in_one_of_some_tries(|| OF_RUBY.functions_wait(&[], "ruby"));
}

/// As which it is process 1 of a container's own processes.
const INSIDE: [&str; 4] = ["unshare", "--pid", "--fork", "--kill-child"];

#[test]
fn waits_of_python_in_a_container_are_so_too() {
    in_one_of_some_tries(|| OF_PYTHON.functions_wait(&INSIDE, "python3.11"));
}

#[test]
fn waits_of_ruby_in_a_container_are_so_too() {
    in_one_of_some_tries(|| OF_RUBY.functions_wait(&INSIDE, "ruby"));
}
