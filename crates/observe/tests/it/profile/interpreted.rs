//! What interpreters run.

use super::*;

/// What a script of Python does once its threads run: it works from one line of its input to the next.
const PYTHON_AT_WORK: &str = r#"
sys.stdout.write("ready\n")
sys.stdout.flush()
sys.stdin.read(1)
time.sleep(1.5)
sys.stdout.write("done\n")
sys.stdout.flush()
sys.stdin.read(1)
"#;

const PYTHON_SERVER: &str = r#"
import sys, threading, time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

class Handler(BaseHTTPRequestHandler):
    def hot_function(self, n):
        x = 0
        for i in range(n):
            x = (x * 31 + i) % 1000003
        return x

    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(str(self.hot_function(20000)).encode())

    def log_message(self, *args):
        pass

server = ThreadingHTTPServer(("127.0.0.1", int(sys.argv[1])), Handler)
threading.Thread(target=server.serve_forever, daemon=True).start()
"#;

/// A script that begins with `threads`.
fn python(threads: &str) -> String {
    format!("{threads}{PYTHON_AT_WORK}")
}

#[test]
fn functions_of_a_server_of_python_have_their_name_file_and_line() {
    for version in ["3.9", "3.10", "3.11", "3.12", "3.13"] {
        // Before 3.11 a function does not know the class that it is of.
        let is_called = |frame: &Frame, method: &str| {
            let known = if version.len() > 3 && version != "3.10" { "Handler." } else { "" };
            frame.name == format!("{known}{method}")
        };
        let program = format!("python{version}");
        let Some(profile) =
            sampled_server(&[&program, "-u"], &format!("hot-{version}.py"), &python(PYTHON_SERVER), &[])
        else {
            continue;
        };
        let interpreted = profile.interpreted.as_ref().expect("this Python is known");
        // The server is busy nearly all of 1.5 s, looked at 499 times a second; less often where others want the CPUs, too.
        assert!((50..1000).contains(&interpreted.samples), "{version}: {}", interpreted.samples);
        let of_python = Profile { stacks: interpreted.stacks.clone(), ..profile.clone() };
        let hot = hottest(&of_python);
        let begin = line_of(PYTHON_SERVER, "def hot_function").unwrap();
        let fits = hot.line.is_some_and(|line| (begin + 2..begin + 4).contains(&line));
        assert!(is_called(&hot, "hot_function") && fits && is_in(&hot, ".py"), "{version}: {hot:?}");
        let call = line_of(PYTHON_SERVER, "self.hot_function(20000)");
        let calls = |frame: &Frame| is_called(frame, "do_GET") && frame.line == call;
        assert!(
            samples_with(&of_python, calls) * 2 > interpreted.samples,
            "{version}: {}",
            of_python.folded()
        );
        // The other samples are those of the interpreter, as ever.
        assert!(samples_with(&profile, |frame| frame.name.contains("_PyEval_EvalFrame")) > 0, "{version}");
    }
}

/// Threads of which one at a time may run: each works, and waits for a moment in another function.
const PYTHON_THREADS: &str = r#"
import os, sys, threading, time

def works(n):
    x = 0
    for i in range(n):
        x = (x * 31 + i) % 1000003
    return x

def pauses():
    time.sleep(0.0001)

def serves():
    while True:
        works(5000)
        pauses()

os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
for _ in range(16):
    threading.Thread(target=serves, daemon=True).start()
"#;

#[test]
fn of_pythons_threads_only_the_one_that_runs_is_met() {
    for version in ["3.9", "3.10", "3.11", "3.12", "3.13"] {
        let (program, name) = (format!("python{version}"), format!("threads-{version}.py"));
        let Some(profile) = sampled_server(&[&program, "-u"], &name, &python(PYTHON_THREADS), &[]) else {
            continue;
        };
        let interpreted = profile.interpreted.as_ref().expect("this Python is known");
        let of_python = Profile { stacks: interpreted.stacks.clone(), ..profile.clone() };
        let works = samples_with(&of_python, |frame| frame.name == "works");
        // 1.5 s, looked at 499 times a second: not more than one thread each time. Of sixteen that are ready most wait in the other
        // function; the one with the lock may be there as well, on its way in or out.
        assert!((50..=1000).contains(&interpreted.samples), "{version}: {}", interpreted.samples);
        assert!(
            works * 2 >= interpreted.samples,
            "{version}: {works} of {}: {}",
            interpreted.samples,
            of_python.folded()
        );
    }
}

#[test]
fn nothing_is_sampled_while_interpreters_are_looked_for() {
    if !Command::new("python3").arg("--version").output().is_ok_and(|output| output.status.success()) {
        return testkit::skipped("python3 is not installed");
    }
    let fixture = Fixture::start(Command::new("python3").args(["-c", &python("import sys, time\n")]));
    if !keep_on(&fixture, 0) {
        return;
    }
    let group = Group::from_pid(fixture.pid()).unwrap();
    let own = OwnCpus { cpus: "0".parse().unwrap(), ..OwnCpus::default() };
    let Ok(mut profiler) = Profiler::attach(&group, HZ, &own) else { return };
    for _ in 0..100 {
        profiler.begin();
        std::thread::sleep(Duration::from_millis(3));
        profiler.pause();
    }
    // More samples than the time holds would make each of them stand for less.
    let step = profiler.stop().resolve(&[]).period_ns as f64 * f64::from(HZ) / 1e9;
    assert!((0.8..1.6).contains(&step), "{step} of the time between two samples");
}

/// What a script of Ruby does once its threads run, as that of Python.
const RUBY_AT_WORK: &str = r#"
$stdout.sync = true
puts "ready"
$stdin.readpartial(1)
sleep 1.5
puts "done"
$stdin.readpartial(1)
"#;

const RUBY_SERVER: &str = r#"
require "socket"

class Handler
  TEXT = "straightline" * 10_000

  def hot_function(n)
    x = 0
    i = 0
    while i < n
      x = (x * 31 + i) % 1000003
      i += 1
    end
    x
  end

  def translated
    TEXT.tr("a-y", "b-z")
  end

  def answer(socket)
    socket.readpartial(1000)
    [1].each { translated; socket.write("HTTP/1.0 200 OK\r\n\r\n", hot_function(20000).to_s) }
    socket.close
  end
end

server = TCPServer.new("127.0.0.1", Integer(ARGV[0]))
Thread.new { loop { Handler.new.answer(server.accept) } }
"#;

#[test]
fn functions_of_a_server_of_ruby_have_their_name_file_and_line() {
    let script = format!("{RUBY_SERVER}{RUBY_AT_WORK}");
    let Some(profile) = sampled_server(&["ruby"], "hot.rb", &script, &[]) else { return };
    let interpreted = profile.interpreted.as_ref().expect("this Ruby is known");
    assert!((50..1000).contains(&interpreted.samples), "{}", interpreted.samples);
    let of_ruby = Profile { stacks: interpreted.stacks.clone(), ..profile.clone() };
    let (first, last) = (line_of(RUBY_SERVER, "while i < n"), line_of(RUBY_SERVER, "i += 1"));
    let runs = |frame: &Frame| {
        frame.name == "hot_function" && first <= frame.line && frame.line <= last && is_in(frame, "hot.rb")
    };
    let answers = line_of(RUBY_SERVER, "[1].each");
    let calls = |frame: &Frame| frame.name == "answer" && frame.line == answers;
    let is_of_c = |frame: &Frame| {
        frame.name == "tr"
            && frame.line.is_none()
            && frame.file.as_ref().is_some_and(|file| file.contains("ruby"))
    };
    let text = of_ruby.folded();
    assert!(samples_with(&of_ruby, runs) * 4 > interpreted.samples, "{text}");
    assert!(samples_with(&of_ruby, calls) * 2 > interpreted.samples, "{text}");
    assert!(samples_with(&of_ruby, is_of_c) > 0, "{text}");
    let is_ruby = |frame: &Frame| frame.module == model::record::RUBY;
    assert!(of_ruby.stacks.iter().all(|stack| of_ruby.frames_of(stack).all(is_ruby)), "{text}");
}

/// As those of Python.
const RUBY_THREADS: &str = r#"
def works(n)
  x = 0
  n.times { |i| x = (x * 31 + i) % 1000003 }
  x
end

def pauses = sleep(0.0001)

16.times { Thread.new { loop { works(5000); pauses } } }
"#;

#[test]
fn of_rubys_threads_only_the_one_that_runs_is_met() {
    let script = format!("{RUBY_THREADS}{RUBY_AT_WORK}");
    let Some(profile) = sampled_server(&["ruby"], "threads.rb", &script, &[]) else { return };
    let interpreted = profile.interpreted.as_ref().expect("this Ruby is known");
    let of_ruby = Profile { stacks: interpreted.stacks.clone(), ..profile.clone() };
    let works = samples_with(&of_ruby, |frame| frame.name == "works");
    assert!((50..=1000).contains(&interpreted.samples), "{}", interpreted.samples);
    assert!(works * 2 >= interpreted.samples, "{works} of {}: {}", interpreted.samples, of_ruby.folded());
}

#[test]
fn a_ruby_that_waits_is_not_met() {
    let script = format!("8.times {{ Thread.new {{ sleep }} }}\n{RUBY_AT_WORK}");
    let Some(profile) = sampled_server(&["ruby"], "waits.rb", &script, &[]) else { return };
    let samples = profile.interpreted.as_ref().expect("this Ruby is known").samples;
    assert!(samples < 10, "{samples} samples");
}

/// What a script of PHP does: it works from one line of its input to the next.
const PHP_SERVER: &str = r#"<?php
namespace App;

class Page
{
    private function hotFunction(int $n): int
    {
        $x = 0;
        for ($i = 0; $i < $n; $i++) {
            $x = ($x * 31 + $i) % 1000003;
        }
        return $x;
    }

    public static function render(): string
    {
        $page = new Page();
        return (string) $page->hotFunction(20000);
    }
}

fwrite(STDOUT, "ready\n");
fread(STDIN, 1);
$end = microtime(true) + 1.5;
while (microtime(true) < $end) {
    Page::render();
    array_map(fn ($n) => md5(str_repeat((string) $n, 2000)), range(1, 10));
}
fwrite(STDOUT, "done\n");
fread(STDIN, 1);
"#;

#[test]
fn functions_of_php_have_their_class_file_and_line() {
    let Some(profile) = sampled_server(&["php"], "hot.php", PHP_SERVER, &[]) else { return };
    let interpreted = profile.interpreted.as_ref().expect("this PHP is known");
    assert!((50..1000).contains(&interpreted.samples), "{}", interpreted.samples);
    let of_php = Profile { stacks: interpreted.stacks.clone(), ..profile.clone() };
    let hot = hottest(&of_php);
    // Where no instruction may fail the last one that might is noted.
    let begin = line_of(PHP_SERVER, "private function hotFunction").unwrap();
    let fits = hot.line.is_some_and(|line| (begin..begin + 7).contains(&line));
    assert!(hot.name == "App\\Page::hotFunction" && fits && is_in(&hot, "hot.php"), "{hot:?}");
    let call = line_of(PHP_SERVER, "$page->hotFunction");
    let calls = |frame: &Frame| frame.name == "App\\Page::render" && frame.line == call;
    assert!(samples_with(&of_php, calls) * 2 > interpreted.samples, "{}", of_php.folded());
    // Functions of PHP itself, and those without a name.
    for name in ["(main)", "(closure)", "md5"] {
        assert!(samples_with(&of_php, |frame| frame.name == name) > 0, "{name}: {}", of_php.folded());
    }
}
