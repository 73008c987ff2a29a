//! Running servers are watched, and what is no server is refused in one sentence.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpListener};
use std::os::unix::process::CommandExt;
use std::path::PathBuf;
use std::process::{Command, Stdio};
use std::time::Duration;

use serde_json::Value;

use crate::cgroup::Cgroup;
use crate::serve::Server;
use crate::support::{NOBODY, Printed, WHYSLOW, assert_schema, whyslow, within};

/// What is told of a server none of whose connections asked anything: wrong where they are hidden.
const SILENT: &str = "no segment with data came in";

/// What `watch` says in JSON of a server while requests come at a rate, per second.
fn watched_under_load(server: &Server, rate: &str, more: &[&str]) -> Value {
    let url = format!("http://127.0.0.1:{}/plaintext", server.port);
    let load = Command::new(WHYSLOW)
        .args(["load", "-t1", "-c4", "-d7s", "-R", rate, "--warmup", "1s", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The connections are open and busy from here on.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let port = format!(":{}", server.port);
    let args = [&["watch", &port, "-d", "2s", "--format", "json"][..], more].concat();
    let printed = whyslow(&args);
    let load = Printed::from_output(load.wait_with_output().unwrap());
    assert_eq!((printed.code, load.code), (Some(0), Some(0)), "{printed:?} {load:?}");
    printed.json()
}

#[test]
fn requests_of_somebody_elses_load_are_counted_and_their_cost_is_told() {
    let server = Server::start("threads");
    let found = watched_under_load(&server, "500", &[]);
    assert_schema("watch", &found);
    let rate = found["rate_per_s"].as_f64().unwrap();
    assert!((480.0..520.0).contains(&rate), "{found}");
    assert_eq!(found["requests_from"], "segments");
    let of = |name: &str, field: &str| {
        let rows = found["ledger"].as_array().unwrap();
        rows.iter().find(|row| row["name"] == name).unwrap()[field].as_f64().unwrap()
    };
    assert!(of("CPU", "per_request") > 1000.0 && of("CPU", "per_s") > 500.0 * 1000.0, "{found}");
    // A segment for each request and one for each answer; the model has a thread that waits for each request.
    assert!((of("segments with data out", "per_request") - 1.0).abs() < 0.02, "{found}");
    assert!(of("voluntary switches", "per_request") > 0.9, "{found}");
    let resources = found["resources"].as_array().unwrap();
    assert!(
        resources.iter().any(|row| row["resource"] == "accept queue" && row["errors"].is_u64()),
        "{found}"
    );
    assert!(found["profile"].is_null());
}

#[test]
fn a_profile_is_taken_where_it_may_be() {
    let permitted = whyslow(&["doctor", "--format", "json"]).json()["capabilities"]
        .as_array()
        .unwrap()
        .iter()
        .any(|row| row["id"] == "sampling" && row["ok"] == true);
    let server = Server::start("threads");
    if !permitted {
        let printed = whyslow(&["watch", &format!(":{}", server.port), "-d", "1s", "--profile"]);
        assert_eq!(printed.code, Some(0), "{printed:?}");
        assert!(printed.out.contains("The profile is missing: stacks cannot be sampled"), "{printed:?}");
        return;
    }
    let file = crate::support::fresh_folder().join("stacks");
    let folded = ["--folded", file.to_str().unwrap()];
    // At 5 us of CPU a request this is 50 ms of it, and so some 50 samples: none would be chance.
    let more = [&["--profile", "--frequency", "997"][..], &folded].concat();
    let found = watched_under_load(&server, "5000", &more);
    let sum = |table: &str| {
        let rows = found["profile"][table].as_array().unwrap();
        rows.iter().map(|row| row["arm_ns"].as_f64().unwrap()).sum::<f64>()
    };
    // The profile has a window of its own, whose requests cost what they do there.
    let notes = found["notes"].as_array().unwrap().iter().filter_map(Value::as_str);
    let cost = notes.clone().find(|note| note.starts_with("Sampling its CPU time was done after the window"));
    assert!(cost.is_some(), "{found}");
    let (categories, packages) = (sum("categories"), sum("packages"));
    assert!(categories > 500.0 && (categories - packages).abs() < 0.01 * packages, "{found}");
    // Every sample is in one leaf of its tree: they sum to what the tables sum to. What the clock has beyond them is told apart.
    let leaves = found["tree"].as_array().unwrap();
    let sampled = leaves.iter().filter(|leaf| leaf["path"][1] != "not sampled");
    let tree: f64 = sampled.map(|leaf| leaf["ns"].as_f64().unwrap()).sum();
    assert!((tree - categories).abs() < 0.01 * categories, "{tree} {found}");
    assert!(leaves.iter().any(|leaf| leaf["path"][0] == "kernel" && leaf["path"][2] == "TCP"), "{found}");
    let stacks = std::fs::read_to_string(file).unwrap();
    let samples: u64 =
        stacks.lines().map(|line| line.rsplit(' ').next().unwrap().parse::<u64>().unwrap()).sum();
    assert_eq!(Some(samples), found["profile"]["arm_samples"].as_u64());
}

#[test]
fn what_cannot_be_watched_is_one_sentence() {
    let cases = [
        (&["watch", "0"][..], 2, "neither a process nor a port"),
        (&["watch", "server"], 2, "neither a process nor a port"),
        (&["watch", ":99999"], 2, "neither a process nor a port"),
        (&["watch", "1", "--counter", "ftp://x"], 2, "does not begin with http://"),
        (&["watch", "1", "-d", "0s"], 2, "a watch of 0 s sees nothing"),
        (&["watch", "4194303", "-d", "1s"], 1, "there is no process 4194303"),
        (&["watch", ":1", "-d", "1s"], 1, "listens on port 1"),
        (&["watch", "1", "-d", "1s", "--counter", "http://127.0.0.1:1/"], 1, "does not answer"),
    ];
    for (args, code, words) in cases {
        let printed = whyslow(args);
        assert_eq!(printed.code, Some(code), "{args:?}: {printed:?}");
        assert!(
            printed.err.contains(words) && printed.err.trim_end().lines().count() == 1,
            "{args:?}: {printed:?}"
        );
        assert_eq!(printed.out, "", "{args:?}");
    }
}

#[test]
fn a_server_that_ends_meanwhile_is_told() {
    let mut child = Command::new("sleep").arg("0.5").spawn().unwrap();
    // Reaped as soon as it ends, so that it is gone and no zombie.
    let pid = child.id().to_string();
    let reaper = std::thread::spawn(move || child.wait());
    let printed = whyslow(&["watch", &pid, "-d", "20s"]);
    reaper.join().unwrap().unwrap();
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains(&format!("process {pid} ended after 0.")), "{printed:?}");
}

#[test]
fn a_thread_is_no_process_and_its_process_is_named() {
    let (say, hear) = std::sync::mpsc::channel();
    let (end, ended) = std::sync::mpsc::channel::<()>();
    let thread = std::thread::spawn(move || {
        say.send(rustix::thread::gettid().as_raw_nonzero().to_string()).unwrap();
        ended.recv()
    });
    let printed = whyslow(&["watch", &hear.recv().unwrap(), "-d", "1s"]);
    drop(end);
    assert!(thread.join().unwrap().is_err());
    let own = std::process::id();
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains(&format!("is a thread of process {own}: give {own}")), "{printed:?}");
}

#[test]
fn a_zombie_has_ended_already() {
    let mut child = Command::new("true").spawn().unwrap();
    let pid = child.id().to_string();
    let stat = format!("/proc/{pid}/stat");
    assert!(within(Duration::from_secs(20), || std::fs::read_to_string(&stat).unwrap().contains(") Z ")));
    let printed = whyslow(&["watch", &pid, "-d", "1s"]);
    child.wait().unwrap();
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains(&format!("process {pid} has ended already")), "{printed:?}");
}

#[test]
fn a_counter_that_runs_backwards_is_told() {
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap();
    let url = format!("http://{}/", listener.local_addr().unwrap());
    let counter = std::thread::spawn(move || {
        for count in ["12", " 7"] {
            let (mut stream, _) = listener.accept().unwrap();
            let _ = stream.read(&mut [0; 1024]).unwrap();
            let answer = format!("HTTP/1.1 200 OK\r\nContent-Length: 2\r\nConnection: close\r\n\r\n{count}");
            stream.write_all(answer.as_bytes()).unwrap();
        }
    });
    let own = std::process::id().to_string();
    let printed = whyslow(&["watch", &own, "-d", "200ms", "--counter", &url]);
    counter.join().unwrap();
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.out.contains("the counter ran backwards, from 12 to 7"), "{printed:?}");
    assert!(!printed.out.contains(SILENT), "{printed:?}");
}

#[test]
fn few_clock_ticks_do_not_divide_the_time_of_a_server_that_does_little() {
    let server = Server::start("threads");
    let found = whyslow(&["watch", &server.pid().to_string(), "-d", "200ms", "--format", "json"]).json();
    let rows = found["ledger"].as_array().unwrap();
    assert!(rows.iter().any(|row| row["name"] == "CPU"), "{found}");
    assert!(!rows.iter().any(|row| row["name"].as_str().unwrap().starts_with("CPU,")), "{found}");
    assert!(notes(&found).contains("(below 50)"), "{found}");
}

/// All notes in one text.
fn notes(found: &Value) -> String {
    found["notes"]
        .as_array()
        .unwrap()
        .iter()
        .map(|note| note.as_str().unwrap())
        .collect::<Vec<_>>()
        .join("\n")
}

/// The row of a resource of the server.
fn row<'a>(found: &'a Value, resource: &str) -> Option<&'a Value> {
    let rows = found["resources"].as_array().unwrap();
    rows.iter().find(|row| row["scope"] == "target" && row["resource"] == resource)
}

/// What is said of a server that hides its descriptors and sockets, and the notes of it.
fn hidden(printed: std::process::Output) -> String {
    let printed = Printed::from_output(printed);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let found = printed.json();
    assert_schema("watch", &found);
    assert!(!found["ledger"].as_array().unwrap().is_empty(), "{found}");
    assert!(row(&found, "connections").is_none(), "{found}");
    assert!(row(&found, "accept queue").unwrap()["utilisation"].is_null(), "{found}");
    let notes = notes(&found);
    assert!(!notes.contains(SILENT) && notes.contains("the sockets of the server are not seen"), "{notes}");
    notes
}

/// The program where every user may run it.
fn for_everybody() -> PathBuf {
    let folder = std::env::temp_dir().join(format!("whyslow-test-{}", std::process::id()));
    std::fs::create_dir_all(&folder).unwrap();
    let program = folder.join("whyslow");
    std::fs::copy(WHYSLOW, &program).unwrap();
    program
}

#[test]
fn what_another_users_server_hides_is_a_note_and_never_a_zero() {
    if !rustix::process::geteuid().is_root() {
        testkit::skipped("only root can become another user");
        return;
    }
    let (server, program) = (Server::start("threads"), for_everybody());
    let pid = server.pid().to_string();
    let args = ["watch", &pid, "-d", "200ms", "--format", "json", "--profile", "--off-cpu"];
    let output = Command::new(&program).args(args).current_dir("/").uid(NOBODY).gid(NOBODY).output();
    std::fs::remove_dir_all(program.parent().unwrap()).unwrap();
    let output = output.unwrap();
    let found = Printed::from_output(output.clone()).json();
    let notes = hidden(output);
    assert!(row(&found, "descriptors").is_none(), "{found}");
    let words = format!("The descriptors and sockets of process {pid} are hidden from us: root sees them.");
    for words in [words.as_str(), "The profile is missing: ", "Where its threads wait is missing: "] {
        assert!(notes.contains(words), "{words}: {notes}");
    }
}

#[test]
fn root_without_the_right_to_look_is_told_which_it_lacks() {
    let without = |command: &[&str]| {
        Command::new("setpriv").args(["--bounding-set", "-sys_ptrace", "--"]).args(command).output()
    };
    if !without(&["true"]).is_ok_and(|done| done.status.success()) {
        testkit::skipped("only root can give up a right");
        return;
    }
    let server = Server::start("threads");
    let pid = server.pid().to_string();
    let notes = hidden(without(&[WHYSLOW, "watch", &pid, "-d", "200ms", "--format", "json"]).unwrap());
    assert!(notes.contains("are hidden from us: root sees them with CAP_SYS_PTRACE."), "{notes}");
}

#[test]
fn limits_are_those_of_the_server_and_not_ours() {
    let Some(cgroup) = Cgroup::with_limits(3_000, 20 << 20) else {
        testkit::skipped("no cgroup can be made here");
        return;
    };
    let mut spinner = Command::new("sh").args(["-c", "while :; do :; done"]).spawn().unwrap();
    cgroup.take(spinner.id());
    let printed = whyslow(&["watch", &spinner.id().to_string(), "-d", "1s", "--format", "json"]);
    spinner.kill().unwrap();
    spinner.wait().unwrap();
    let found = printed.json();
    let limit = row(&found, "CPU limit").unwrap();
    assert!(limit["level"] == "red" && limit["saturation"].as_f64().unwrap() > 0.5, "{found}");
    // A shell in 20 MiB, and not in all memory of the host.
    assert!(row(&found, "memory").unwrap()["utilisation"].as_f64().unwrap() > 0.005, "{found}");
}

#[test]
fn the_doctor_tells_every_capability_in_every_format() {
    let found = whyslow(&["doctor", "--format", "json"]).json();
    let rows = found["capabilities"].as_array().unwrap();
    assert!(
        rows.len() >= 20 && rows.iter().any(|row| row["id"] == "cpu_time" && row["ok"] == true),
        "{found}"
    );
    for format in ["text", "md"] {
        let printed = whyslow(&["doctor", "--format", format]);
        assert_eq!((printed.code, printed.err.as_str()), (Some(0), ""));
        for row in rows {
            assert!(printed.out.contains(row["text"].as_str().unwrap()), "{row} is not in {}", printed.out);
        }
    }
}
