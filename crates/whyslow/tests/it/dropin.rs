//! Called wrk or wrk2: their command lines and their words.

use std::path::PathBuf;
use std::process::Command;
use std::time::Instant;

use testkit::{Behaviour, Reply, Server, ServerSpec};

use crate::support::{Printed, WHYSLOW, fresh_folder, whyslow};

/// wrk 4.1 as Debian has it; the witness.
const WRK: &str = "/usr/bin/wrk";

/// A link to whyslow called `name`.
fn link(name: &str) -> PathBuf {
    let link = fresh_folder().join(name);
    std::os::unix::fs::symlink(WHYSLOW, &link).unwrap();
    link
}

fn run(program: impl AsRef<std::ffi::OsStr>, args: &[&str]) -> Printed {
    Printed::from_output(Command::new(program).args(args).output().unwrap())
}

/// The text with every number (and its unit) a `#` and every run of blanks one blank.
fn shape(text: &str) -> String {
    let lines = text.lines().map(|line| {
        let words = line.split_whitespace().map(|word| {
            match word.starts_with(|first: char| first.is_ascii_digit()) {
                true => "#",
                false => word,
            }
        });
        words.collect::<Vec<_>>().join(" ")
    });
    lines.collect::<Vec<_>>().join("\n")
}

fn server() -> Server {
    Server::start(ServerSpec::new(Behaviour::Prompt))
}

#[test]
fn a_link_called_wrk_prints_what_wrk_prints() {
    let link = link("wrk");
    for args in
        [&["-t1", "-c2", "-d1"][..], &["-t", "2", "-c", "4", "-d", "1s", "--latency", "--timeout", "3"]]
    {
        let server = server();
        let ours = run(&link, &[args, &[&server.url()]].concat());
        assert_eq!(ours.code, Some(0), "{ours:?}");
        assert!(ours.out.starts_with("Running 1s test @ http://127.0.0.1:"), "{}", ours.out);
        assert!(
            ours.out.contains("\nRequests/sec: ") && ours.out.contains("\nTransfer/sec: "),
            "{}",
            ours.out
        );
        if std::path::Path::new(WRK).exists() {
            let theirs = run(WRK, &[args, &[&server.url()]].concat());
            assert_eq!(shape(&ours.out), shape(&theirs.out));
            let columns = |text: &str| text.lines().map(|line| line.trim_end().len()).collect::<Vec<_>>();
            // Of the table, heading and rows end in the same columns.
            assert_eq!(columns(&ours.out)[2..5], columns(&theirs.out)[2..5], "{}\n{}", ours.out, theirs.out);
        }
    }
}

#[test]
fn errors_are_told_in_the_lines_of_wrk() {
    let good = Reply::good();
    let missing =
        Reply { bytes: b"HTTP/1.1 404 Not Found\r\nContent-Length: 0\r\n\r\n".to_vec(), close: false };
    // Broken off in the middle of its body.
    let broken = Reply { bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 99\r\n\r\nhel".to_vec(), close: true };
    let cases: [(&[&Reply], &[&str]); 4] = [
        (&[&good], &[]),
        (&[&good, &missing], &["Non-2xx or # responses: #"]),
        (&[&good, &good, &broken], &["Socket errors: connect # read # write # timeout #"]),
        (
            &[&good, &missing, &broken],
            &["Socket errors: connect # read # write # timeout #", "Non-2xx or # responses: #"],
        ),
    ];
    let is_error = |line: &&str| line.starts_with("  Socket errors: ") || line.starts_with("  Non-2xx ");
    for (replies, want) in cases {
        let replies: Vec<Reply> = replies.iter().map(|reply| (*reply).clone()).collect();
        let slow = Behaviour::Delay { by_ns: 1_000_000 };
        let server = Server::start(ServerSpec { replies, ..ServerSpec::new(slow) });
        let args = ["-t1", "-c2", "-d1s", &server.url()];
        let ours = run(link("wrk"), &args);
        assert_eq!(ours.code, Some(0), "{ours:?}");
        // "3xx" begins with a digit, too.
        let errors: Vec<String> = ours.out.lines().filter(is_error).map(shape).collect();
        assert_eq!(errors, want, "{}", ours.out);
        if std::path::Path::new(WRK).exists() {
            assert_eq!(shape(&ours.out), shape(&run(WRK, &args).out));
        }
    }
}

#[test]
fn a_rate_that_nobody_can_send_ends_in_time_under_either_name() {
    let server = server();
    for (name, duration) in [("wrk", "1s"), ("wrk2", "1s")] {
        let begun = Instant::now();
        let printed = run(link(name), &["-t8", "-c40", "-d", duration, "-R", "10000000", &server.url()]);
        assert_eq!(printed.code, Some(0), "{name}: {printed:?}");
        assert!(begun.elapsed().as_secs() < 5, "{name}: {:?}", begun.elapsed());
        let reached = printed.out.split_once("\nRequests/sec: ").and_then(|(_, rest)| rest.lines().next());
        let reached: f64 = reached.unwrap().trim().parse().unwrap();
        assert!(reached > 100.0 && reached < 5e6, "{name}: {}", printed.out);
        assert!(printed.err.contains("of the requests that were due were answered"), "{name}: {printed:?}");
    }
}

#[test]
fn a_line_feed_alone_is_an_error_under_either_name() {
    let reply = Reply { bytes: b"HTTP/1.1 200 OK\r\nContent-Length: 0\r\nX: a\n\r\n".to_vec(), close: false };
    for (name, flags) in [("wrk", &[][..]), ("wrk2", &["-R", "100"])] {
        let slow = Behaviour::Delay { by_ns: 1_000_000 };
        let server = Server::start(ServerSpec { replies: vec![reply.clone()], ..ServerSpec::new(slow) });
        let printed = run(link(name), &[&["-t1", "-c2", "-d1s"], flags, &[&server.url()]].concat());
        assert_eq!(printed.code, Some(0), "{name}: {printed:?}");
        assert!(printed.out.contains("\n  Socket errors: connect 0, read "), "{name}: {}", printed.out);
        assert!(printed.out.contains("\n  0 requests in "), "{name}: {}", printed.out);
        assert!(printed.err.contains("a line feed alone"), "{name}: {printed:?}");
    }
}

#[test]
fn a_link_called_wrk2_wants_a_rate_and_prints_the_spectrum() {
    let link = link("wrk2");
    let refused = run(&link, &["http://127.0.0.1:9/"]);
    assert_eq!((refused.code, refused.out.as_str()), (Some(2), ""));
    assert!(refused.err.contains("wrk2 needs a rate: give it with -R"), "{refused:?}");

    let server = server();
    let printed = run(&link, &["-t1", "-c2", "-d1s", "-R", "1k", "-U", &server.url()]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    for want in [
        "  Latency Distribution (HdrHistogram - Recorded Latency)\n 50.000% ",
        "\n 99.999% ",
        "\n\n  Detailed Percentile spectrum:\n       Value   Percentile   TotalCount 1/(1-Percentile)\n\n",
        "     1.000000         1000          inf\n#[Mean    = ",
        "(HdrHistogram - Uncorrected Latency (measured without taking delayed starts into account))",
    ] {
        assert!(printed.out.contains(want), "'{want}' is not in {}", printed.out);
    }
    // The last are on their way when the window ends, where the machine is busy: they are in the spectrum and no answers.
    let requests =
        printed.out.split_once(" requests in ").and_then(|(before, _)| before.split_whitespace().last());
    let requests: u32 = requests.and_then(|count| count.parse().ok()).unwrap();
    assert!((950..=1000).contains(&requests), "{}", printed.out);
    assert!(printed.err.contains("wrk2 leaves out its first 10 s"), "{printed:?}");
    assert_eq!(printed.err.lines().filter(|line| line.starts_with("note: ")).count(), 1, "{printed:?}");
}

#[test]
fn what_wrk_gets_wrong_is_said_once() {
    let spec = ServerSpec::new(Behaviour::Freeze { after_ns: 300_000_000 });
    let server = Server::start(spec);
    let printed = whyslow(&["load", "--format", "wrk", "-t1", "-c4", "-d1s", "-L", &server.url()]);
    let notes: Vec<&str> = printed.err.lines().filter(|line| line.starts_with("note: ")).collect();
    assert_eq!(notes.len(), 1, "{printed:?}");
    assert!(notes[0].contains("4 requests without an answer count as at least as long"), "{}", notes[0]);
}

#[test]
fn every_option_of_both_is_taken() {
    let server = server();
    let url = server.url();
    let folder = fresh_folder();
    let script = folder.join("empty.lua");
    std::fs::write(&script, "").unwrap();
    let script = script.to_str().unwrap();
    let lines: [&[&str]; 4] = [
        &["--connections", "2", "--duration", "1", "--threads", "1", "--header", "A: b", "--script", script],
        &["-c", "2", "-d", "1s", "-t", "1", "-H", "A: b", "-s", script, "-L", "--timeout", "2s"],
        &["-c2", "-d1s", "-t1", "--rate", "100", "--u_latency", "--batch_latency", "--latency", "-T", "2"],
        &["-c2", "-d1s", "-t1", "-R", "100", "-U", "-B"],
    ];
    for line in lines {
        let printed = whyslow(&[&["load"], line, &[url.as_str()]].concat());
        assert_eq!(printed.code, Some(0), "{line:?}: {printed:?}");
    }
    for version in ["-v", "--version"] {
        let printed = run(link("wrk"), &[version]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        assert!(printed.out.contains(env!("CARGO_PKG_VERSION")), "{printed:?}");
    }
}

#[test]
fn mistakes_of_a_script_are_told_from_mistakes_of_a_run() {
    let folder = fresh_folder();
    let script = |text: &str| {
        let file = folder.join("s.lua");
        std::fs::write(&file, text).unwrap();
        file.to_str().unwrap().to_owned()
    };
    let server = server();
    let url = server.url();
    let load = |file: &str| whyslow(&["load", "-t1", "-c1", "-d1s", "-s", file, &url]);
    for (text, code, want) in [
        ("\nx = = 1", 2, "s.lua:2: unexpected symbol"),
        ("function init()\n  nothing()\nend", 2, "s.lua:2: attempt to call global 'nothing'"),
        ("function request() return 1 end", 2, "its head does not end with an empty line"),
        ("n = 0\nfunction response()\n  n = n + nil\nend", 1, "s.lua:3: attempt to perform arithmetic"),
        ("function done()\n  error('sum')\nend", 1, "s.lua:2: sum"),
    ] {
        let printed = load(&script(text));
        assert_eq!(printed.code, Some(code), "{text}: {printed:?}");
        assert!(printed.err.contains(want), "{text}: {printed:?}");
        assert_eq!(printed.err.lines().filter(|line| line.starts_with("error: ")).count(), 1, "{printed:?}");
    }
    let printed = whyslow(&["load", "-s", "no-such.lua", &url]);
    assert_eq!(
        (printed.code, printed.err.as_str()),
        (Some(2), "error: cannot read -s no-such.lua: No such file or directory (os error 2)\n")
    );
}

#[test]
fn a_script_that_loops_for_ever_is_stopped_at_the_end_of_the_window() {
    let file = fresh_folder().join("s.lua");
    std::fs::write(&file, "n = 0\nfunction response()\n  n = n + 1\n  while n > 9 do end\nend").unwrap();
    let server = server();
    let begun = Instant::now();
    let printed = whyslow(&["load", "-t1", "-c1", "-d1s", "-s", file.to_str().unwrap(), &server.url()]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains("s.lua:4: stopped while it ran: the window is over"), "{printed:?}");
    assert!(begun.elapsed().as_secs() < 10);
}

#[test]
fn a_script_that_escapes_its_hook_is_stopped_too() {
    // With the compiler on, no hook would see the loop; in one call of the library there is none to see.
    let cases = [
        (
            "jit.on() n = 0\nfunction response()\n  n = n + 1\n  while n > 9 do end\nend",
            "s.lua:4: stopped while it ran: the window is over",
        ),
        (
            "local long, pattern = ('a'):rep(40), ('a*'):rep(40) .. 'b'\nfunction response() long:find(pattern) end",
            "s.lua: the window is over, and 3s later it is still in one call that cannot be interrupted",
        ),
    ];
    let file = fresh_folder().join("s.lua");
    for (text, want) in cases {
        std::fs::write(&file, text).unwrap();
        let server = server();
        let begun = Instant::now();
        let printed = whyslow(&["load", "-t2", "-c2", "-d1s", "-s", file.to_str().unwrap(), &server.url()]);
        assert_eq!((printed.code, printed.out.as_str()), (Some(1), ""), "{text}: {printed:?}");
        assert!(printed.err.contains(want) && printed.err.lines().count() == 1, "{text}: {printed:?}");
        assert!(begun.elapsed().as_secs() < 15, "{text}");
    }
}

#[test]
fn a_mistake_in_one_thread_ends_the_run_while_another_loops() {
    let file = fresh_folder().join("s.lua");
    let text = "local count = 0
        function setup(thread) count = count + 1 thread:set('id', count) end
        function delay()
          if id == 1 then error('first') end
          while true do end
        end";
    std::fs::write(&file, text).unwrap();
    let server = server();
    let begun = Instant::now();
    let printed = whyslow(&["load", "-t2", "-c2", "-d30s", "-s", file.to_str().unwrap(), &server.url()]);
    assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "nothing was sent: {printed:?}");
    assert!(printed.err.contains("s.lua:4: first"), "{printed:?}");
    assert!(begun.elapsed().as_secs() < 20, "the other thread is not waited for");
}

#[test]
fn done_is_given_the_figures_that_are_printed() {
    let file = fresh_folder().join("s.lua");
    let text = "function done(summary, latency, requests)
      print(('%d %d %d %d %.0f'):format(summary.requests, summary.errors.status, #requests > 0 and 1 or 0,
        summary.duration > 0 and 1 or 0, latency.max))
    end";
    std::fs::write(&file, text).unwrap();
    let server = server();
    let printed = whyslow(&[
        "load",
        "-t2",
        "-c4",
        "-d10s",
        "--requests",
        "101",
        "--format",
        "json",
        "-s",
        file.to_str().unwrap(),
        &server.url(),
    ]);
    let (json, summary) = printed.out.split_once("\n}\n").unwrap();
    let report: serde_json::Value = serde_json::from_str(&format!("{json}\n}}")).unwrap();
    let max_us = (report["response_ns"]["max"].as_f64().unwrap() / 1000.0).round();
    let words: Vec<f64> = summary.split_whitespace().map(|word| word.parse().unwrap()).collect();
    assert_eq!((words[0], words[1]), (101.0, 0.0), "{printed:?}");
    assert!((words[4] - max_us).abs() <= 1.0, "{printed:?}");
}
