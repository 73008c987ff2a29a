//! Bad input: exit code 2, one sentence that says what and how to mend it, nothing started.

use std::process::Command;

use crate::support::{Printed, WHYSLOW, fresh_folder};

/// A command line, and what its one sentence says.
const CASES: &[(&[&str], &str)] = &[
    (&["compare", "--no-such-flag"], "unexpected argument '--no-such-flag'"),
    (&["no-such-command"], "unrecognized subcommand 'no-such-command'"),
    (&["compare", "no-such-target"], "there is no target 'no-such-target': choose one of threads, futures"),
    (&["compare", "../planted", "threads"], "there is no target '../planted'"),
    (&["compare", "threads"], "a comparison needs two arms"),
    (&["compare", "--rate", "fast"], "'fast' is not a rate: write requests per second"),
    (&["compare", "--rate", "0"], "'0' is not a rate"),
    (&["compare", "--rate", "100", "--equal-rates", "50", "--list"], "--equal-rates is for --rate max"),
    (&["compare", "--connections", "1000000", "--list"], "1000000 connections need "),
    (&["compare", "--expect-status", "700", "--list"], "--expect-status 700 is no status of HTTP"),
    (&["compare", "--equal-rates", "100"], "--equal-rates '100' is not a percentage"),
    (&["compare", "--server-cpus", "first"], "'first' is not a CPU list: write Linux list notation"),
    (
        &["compare", "--server-cpus", "8191"],
        "--server-cpus names CPU 8191, which this process may not use: it has ",
    ),
    (
        &["compare", "--load-cpus", "8191"],
        "--load-cpus names CPU 8191, which this process may not use: it has ",
    ),
    (
        &["compare", "a=./s", "b=./s {port}"],
        "the command of 'a' has no {port}: put {port} where the port goes",
    ),
    (
        &["compare", "a=./s '{port}", "b=./s {port}"],
        "the command of 'a' cannot be split into words: check its quotes",
    ),
    (&["compare", "a=", "b=./s {port}"], "the command of 'a' cannot be split into words"),
    (&["compare", "a=./s {port}", "a=./t {port}"], "two arms are called 'a': give one another name"),
    (&["compare", "a/b=./s {port}", "c=./t {port}"], "'a/b' cannot name an arm"),
    (&["compare", "pilot=./s {port}", "c=./t {port}"], "'pilot' cannot name an arm: a log of the run itself"),
    (
        &["compare", "--cmd", "./s {port}"],
        "--cmd './s {port}' has no name: write --cmd NAME='COMMAND with {port}'",
    ),
    (&["compare", "--baseline", "x"], "the baseline 'x' is not an arm: choose one of threads, futures"),
    (
        &["compare", "--fail-if", "is it much slower"],
        "--fail-if 'is it much slower' is not a condition: write",
    ),
    (&["compare", "--fail-if", "x slower"], "--fail-if 'x slower' names no arm: there is no 'x'"),
    (
        &["compare", "--fail-if", "threads bad"],
        "--fail-if 'threads bad' names no verdict: there is no 'bad', write slower",
    ),
    (
        &["compare", "--fail-if", "threads slower in p42"],
        "names no metric: there is no 'p42'; did you mean 'p",
    ),
    (&["compare", "--fail-if", "threads slower"], "can never hold: 'threads' is the baseline"),
    (&["compare", "--fail-if", "futures sycalls > 1"], "there is no 'sycalls'; did you mean 'syscalls'?"),
    (&["compare", "--fail-if", "future syscalls > 1"], "there is no 'future'; did you mean 'futures'?"),
    (&["compare", "--fail-if", "futures p99 > 20"], "'20' is no time: write 20ms for p99 itself, 1.05x"),
    (
        &["compare", "--fail-if", "threads rss > 1.1x"],
        "'threads' is the baseline; write a value such as 64KiB",
    ),
    (&["compare", "--no-why", "--fail-if", "futures writes > 1"], "leave out --no-why"),
    (
        &["compare", "--fail-if", "futures slower in p99", "--equal-rates", "none"],
        "can never hold: this run does not compare p99",
    ),
    (
        &["compare", "--fail-if", "futures slower in rate", "--rate", "100"],
        "can never hold: this run does not compare rate",
    ),
    (&["compare", "--path", "/ü"], "--path is /ü: it must be a path that begins with / and has only visible"),
    (&["compare", "--path", "/a#b"], "without a fragment (#)"),
    (&["compare", "--window", "0s"], "--window is 0s: it must be between 1s and 1h"),
    (&["compare", "--window", "5"], "'5' is not a duration: write a number and a unit"),
    (&["compare", "--warmup", "3m", "--warmup-cap", "2m"], "--warmup is 3m: it must be at most --warmup-cap"),
    (&["compare", "--slice", "0s"], "--slice is 0s: it must be between 20ms and 5s"),
    (&["compare", "--cycles", "0"], "--cycles is 0: it must be between 1 and 10000"),
    (&["compare", "--alone", "--slice", "200ms"], "'--alone' cannot be used with '--slice <SLICE>'"),
    (&["compare", "--blocks", "0"], "--blocks is 0: it must be between 1 and 500"),
    (&["compare", "--connections", "0"], "--connections is 0: it must be between 1 and 1000000"),
    (&["compare", "--pipeline", "0"], "--pipeline is 0: it must be between 1 and 1024"),
    (&["compare", "--path", "users"], "--path is users: it must be a path that begins with /"),
    (
        &["compare", "a=http://10.0.0.1:80/", "threads"],
        "'http://10.0.0.1:80/' is not on this machine: whyslow asks",
    ),
    (
        &["compare", "a=http://example.org/", "threads"],
        "'example.org' in 'http://example.org/' is not an address",
    ),
    (&["compare", "a=podman:", "threads"], "'podman:' names no image: write a=podman:IMAGE"),
    (&["compare", "a=docker:--rm", "threads"], "'docker:--rm' names no image"),
    (
        &["compare", "a=podman:shop ./server --port {port} --data {tmp}", "threads"],
        "'a' runs in a container, which has no {tmp}",
    ),
    (
        &["compare", "a=compose:shop.yml", "threads"],
        "names no service of a compose file: write a=compose:FILE#SERVICE",
    ),
    (&["compare", "a=compose:shop.yml#web", "threads"], "'a': 'shop.yml': it cannot be read: No such file"),
    (
        &["compare", "a=docker run --rm -p {port}:80 shop", "threads"],
        "write a='docker:IMAGE COMMAND with {port}'",
    ),
    (
        &["compare", "a=https://127.0.0.1:1/", "threads"],
        "is not the address of a running server: write http://127.0.0.1:PORT",
    ),
    (
        &["compare", "a=ws://127.0.0.1:9/chat", "b=ws://127.0.0.1:8/chat"],
        "write http://127.0.0.1:PORT/PATH and add --ws\n",
    ),
    (
        &["compare", "a=wss://127.0.0.1:9/", "threads"],
        "write http://127.0.0.1:PORT/PATH and add --ws and, for TLS, --insecure or --cacert FILE\n",
    ),
    (
        &["compare", "a=grpc://127.0.0.1:9", "b=grpc://127.0.0.1:8"],
        "write http://127.0.0.1:PORT and add --grpc SERVICE/METHOD\n",
    ),
    (&["compare", "a=grpcs://127.0.0.1:9", "threads"], "add --grpc SERVICE/METHOD and, for TLS, --insecure"),
    (
        &["compare", "a=https://127.0.0.1:9/", "threads"],
        "write http://127.0.0.1:PORT/PATH and add, for TLS, --insecure or --cacert FILE\n",
    ),
    (
        &["compare", "a=http://127.0.0.1:9/x", "b=http://127.0.0.1:9/y"],
        "the arms have different paths: all are asked for one",
    ),
    (
        &["compare", "a=http://127.0.0.1:9", "threads", "--watch-pid", "4194305"],
        "there is no process 4194305",
    ),
    (
        &["compare", "a=http://127.0.0.1:9", "threads", "--watch-unit", "nothing"],
        "there is no cgroup 'nothing'",
    ),
    (&["compare", "--watch-pid", "1"], "--watch-pid '1' is for an arm that runs already"),
    (
        &["compare", "a=http://127.0.0.1:9", "b=http://127.0.0.1:8", "--watch-pid", "1"],
        "several arms run already, write --watch-pid NAME=1",
    ),
    (&["compare", "a=http://127.0.0.1:9", "threads", "--confirm"], "--confirm starts every arm anew"),
    // File descriptors or ports, whichever this machine has fewer of.
    (&["compare", "--connections", "1000000"], "1000000 connections need "),
    (&["compare", "--expect-body", "no-such-file"], "cannot read --expect-body no-such-file"),
    (&["compare", "--blocks", "3", "--quick"], "'--blocks <BLOCKS>' cannot be used with '--quick'"),
    (&["load", "ftp://127.0.0.1/"], "ftp://127.0.0.1/"),
    (&["load", "-R", "0", "http://127.0.0.1:9/"], "'0' is not a rate"),
    (
        &["load", "-H", "nothing", "http://127.0.0.1:9/"],
        "a header of -H has no colon: write -H 'Name: value'",
    ),
    (
        &["load", "--cpus", "8191", "http://127.0.0.1:9/"],
        "--cpus names CPU 8191, which this process may not use",
    ),
    (&["load", "-c", "0", "http://127.0.0.1:9/"], "connections must be from 1 to 1000000"),
    (&["load", "--body", "@no-such-file", "http://127.0.0.1:9/"], "cannot read --body @no-such-file"),
    (&["serve", "--model", "goroutines"], "invalid value 'goroutines'"),
    (&["serve", "--model", "threads", "--workers", "0"], "0 is not in 1..=1024"),
    (&["man", "nothing"], "there is no command 'nothing'"),
    (&["load", "--cert", "/nowhere.pem", "https://127.0.0.1:9/"], "--key <FILE>"),
    (&["load", "--cacert", "/nowhere.pem", "https://127.0.0.1:9/"], "/nowhere.pem cannot be used"),
    (&["load", "--unix", "/x", "--source", "127.0.0.2", "http://x/"], "cannot be used with"),
    (&["load", "--replay", "x", "-R", "5", "http://127.0.0.1:9/"], "cannot be used with"),
    (&["load", "--replay", "x", "--steps", "5,6", "http://127.0.0.1:9/"], "cannot be used with"),
    (&["load", "--urls", "x", "-s", "y.lua", "http://127.0.0.1:9/"], "cannot be used with"),
    (&["load", "--requests", "a", "--requests", "b", "http://127.0.0.1:9/"], "--requests has two files"),
    (&["load", "--requests", "1", "--requests", "2", "http://127.0.0.1:9/"], "--requests has two counts"),
    (&["load", "--data", "/nowhere.csv", "http://127.0.0.1:9/"], "cannot read /nowhere.csv"),
    (&["load", "--urls", "/nowhere.txt", "http://127.0.0.1:9/"], "cannot read /nowhere.txt"),
    (&["load", "--streams", "4", "http://127.0.0.1:9/"], "--http2"),
    (&["load", "--http2", "--pipeline", "4", "http://127.0.0.1:9/"], "use --streams"),
    (&["load", "--shard", "3/3", "http://127.0.0.1:9/"], "write I/N with I from 0 to N-1"),
    (&["load", "--start-at", "soon", "http://127.0.0.1:9/"], "write a time such as"),
    (&["load", "--source", "somewhere", "http://127.0.0.1:9/"], "invalid value 'somewhere'"),
];

#[test]
fn each_is_refused_with_its_sentence_and_nothing_is_started() {
    let folder = fresh_folder();
    for (args, want) in CASES {
        let output = Command::new(WHYSLOW).args(*args).current_dir(&folder).output().unwrap();
        let printed = Printed::from_output(output);
        assert_eq!(printed.code, Some(2), "{args:?}: {printed:?}");
        assert_eq!(printed.out, "", "{args:?}: standard output is for data");
        assert!(
            printed.err.starts_with("error: ") && printed.err.contains(want),
            "{args:?}: {}",
            printed.err
        );
        // The argument parser adds how to get help; all else is one line.
        let lines = printed.err.lines().count();
        assert!(lines == 1 || printed.err.contains("--help"), "{args:?}: {}", printed.err);
        let left = std::fs::read_dir(&folder).unwrap().count();
        assert_eq!(left, 0, "{args:?} left something: a run was begun");
    }
}

#[test]
fn a_description_that_is_none_is_refused_by_what_is_wrong_with_it() {
    let folder = fresh_folder();
    let good = "syntax = \"proto3\"; package shop; message Item { int32 id = 1; }
        service Shop { rpc Buy(Item) returns (Item); rpc Fill(stream Item) returns (Item); }";
    for (name, text) in [
        ("good", good),
        ("broken", "syntax = \"proto3\";\nmessage {"),
        ("alone", "syntax = \"proto3\"; import \"nowhere.proto\";"),
    ] {
        std::fs::write(folder.join(format!("{name}.proto")), text).unwrap();
    }
    let url = "http://127.0.0.1:1/";
    for (method, file, message, want) in [
        ("shop.Shop/Buy", "none.proto", "{}", "--proto none.proto cannot be used: "),
        ("shop.Shop/Buy", "broken.proto", "{}", "--proto broken.proto cannot be used: "),
        ("shop.Shop/Buy", "alone.proto", "{}", "nowhere.proto"),
        ("shop.Till/Buy", "good.proto", "{}", "good.proto has no service 'shop.Till': it has shop.Shop"),
        ("shop.Shop/Sell", "good.proto", "{}", "shop.Shop has no method 'Sell': it has Buy, Fill"),
        ("shop.Shop/Fill", "good.proto", "{}", "shop.Shop.Fill takes a stream of messages"),
        ("shop.Shop/Buy", "good.proto", "{\"id\": \"x\"}", "is no message of shop.Item"),
    ] {
        for command in [&["load", url][..], &["compare", "threads", "futures"]] {
            let asked = ["--grpc", method, "--proto", file, "--message", message];
            let printed = crate::support::whyslow_in(&folder, &[command, &asked].concat());
            let said = (printed.code, printed.out.as_str(), printed.err.lines().count());
            assert_eq!(said, (Some(2), "", 1), "{file}: {printed:?}");
            assert!(printed.err.starts_with("error: ") && printed.err.contains(want), "{file}: {printed:?}");
        }
    }
}

#[test]
fn a_file_that_cannot_be_written_is_said_before_anything_is_measured_and_is_no_wrong_command_line() {
    let folder = crate::support::fresh_folder();
    for (flag, file, reason) in [
        ("--comment", "/no/where.md", "--comment /no/where.md: there is no folder /no"),
        // Not even root can make a file there.
        ("--comment", "/proc/comment.md", "--comment /proc/comment.md: it cannot be written ("),
        ("--junit", "/tmp", "--junit /tmp: that is a folder; name a file"),
    ] {
        let printed = crate::support::whyslow_in(&folder, &["compare", flag, file]);
        assert_eq!((printed.code, printed.err.lines().count()), (Some(1), 1), "{printed:?}");
        assert!(printed.err.contains(reason) && !folder.join("whyslow-runs").exists(), "{printed:?}");
    }
}

#[test]
fn runs_and_arms_that_are_not_there_are_named_with_what_is() {
    let folder = crate::support::fresh_folder();
    let run = crate::report::kept_run();
    std::fs::create_dir(folder.join("whyslow-runs")).unwrap();
    std::fs::rename(run, folder.join("whyslow-runs/one")).unwrap();
    let cases: [(&[&str], i32, &str); 6] = [
        (&["view", "nosuch"], 2, "nosuch: there is no such run; the last ones here are whyslow-runs/one"),
        (&["view", "--runs", "nosuch"], 2, "--runs nosuch: there is no such folder"),
        (&["view", "--listen", "9000"], 2, "such as 127.0.0.1:9000"),
        (&["history", "--runs", "/nosuch"], 2, "--runs /nosuch: there is no such folder"),
        (&["history", "nosuch"], 2, "has an arm or target 'nosuch': there are "),
        (&["analyse", "nosuch"], 1, "nosuch: there is no such run; the last ones here are whyslow-runs/one"),
    ];
    for (args, code, reason) in cases {
        let printed = crate::support::whyslow_in(&folder, args);
        assert_eq!(printed.code, Some(code), "{printed:?}");
        assert!(printed.err.contains(reason), "{printed:?}");
    }
}

#[test]
fn a_folder_with_other_files_takes_no_run() {
    let folder = crate::support::fresh_folder();
    std::fs::create_dir(folder.join("notes")).unwrap();
    std::fs::write(folder.join("notes/todo"), "mine").unwrap();
    let printed = crate::support::whyslow_in(&folder, &["compare", "--quick", "--out", "notes"]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(1), 1), "{printed:?}");
    assert!(printed.err.contains("it holds todo and no run: name a folder that is empty"), "{printed:?}");
    assert_eq!(std::fs::read_dir(folder.join("notes")).unwrap().count(), 1);
    // Of a run of which half was removed.
    std::fs::create_dir_all(folder.join("half/rounds")).unwrap();
    std::fs::write(folder.join("half/rounds/b000-p0.json"), "{}").unwrap();
    let printed = crate::support::whyslow_in(&folder, &["compare", "--quick", "--out", "half"]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(1), 1), "{printed:?}");
    assert!(printed.err.contains("it holds rounds/b000-p0.json and no run: name a folder"), "{printed:?}");
    assert_eq!(std::fs::read_dir(folder.join("half")).unwrap().count(), 1);
}
