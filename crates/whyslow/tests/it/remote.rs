//! Servers and generators on another machine, which is this one behind an sshd of the test's own; and an ssh that is none, for
//! what goes wrong on the way.

use std::os::unix::fs::PermissionsExt;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, SystemTime};

use serde_json::Value;

use crate::support::{Printed, SHORT, WHYSLOW, arm, fresh_folder, within};
use crate::there::{LIMIT, There, prepared};

/// Blocks that decide, each as short as can be.
const DECIDING: [&str; 12] = [
    "--blocks",
    "8",
    "--cycles",
    "2",
    "--warmup",
    "100ms",
    "--warmup-cap",
    "200ms",
    "--connections",
    "4",
    "--equal-rates",
    "none",
];

fn run(mut command: Command) -> Printed {
    Printed::from_output(command.output().unwrap())
}

/// The verdict on CPU time per request.
fn on_cpu(json: &Value) -> &Value {
    let rows = json["comparisons"].as_array().unwrap();
    rows.iter().find(|row| row["metric"] == "cpu_per_request").unwrap()
}

#[test]
fn servers_on_another_machine_and_a_generator_there_find_who_is_slower() {
    let Some(there) = There::start() else { return };
    let arms = [("fast", "none"), ("slow", "busy")];
    let url = there.url();
    // The two share a machine here, which those of the user do not.
    let apart = ["--server-cpus", "0", "--load-cpus", "1"];
    let flags = |flag| [&[flag, url.as_str(), "--format", "json"][..], &apart, &DECIDING].concat();
    let printed = run(there.compare(&arms, &flags("--on")));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.err.contains("copying whyslow to ssh://127.0.0.1"), "{printed:?}");
    let json = printed.json();
    assert_eq!(on_cpu(&json)["verdict"], "slower", "{json}");
    let text = json["text"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    assert!(text.contains(&format!(" of {url}, generator on CPU ")), "{text}");
    assert!(there.busy().is_empty(), "left behind: {:?}", there.busy());

    std::fs::remove_dir_all(there.folder.join("run")).unwrap();
    let printed = run(there.compare(&arms, &flags("--load-on")));
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(!printed.err.contains("copying"), "it is there by now: {printed:?}");
    assert_eq!(on_cpu(&printed.json())["verdict"], "slower", "{printed:?}");
    let cache = std::fs::read_dir(there.folder.join("cache/whyslow/agents")).unwrap();
    assert_eq!(cache.count(), 1, "the program, and no folder of a run");
}

/// A comparison with its servers there, in its second block.
fn in_second_block(there: &There) -> Child {
    let url = there.url();
    let apart = ["--server-cpus", "0", "--load-cpus", "1", "--connections", "4"];
    let flags = [
        &["--on", &url, "--blocks", "8", "--cycles", "6", "--warmup", "200ms", "--warmup-cap", "400ms"][..],
        &apart,
    ]
    .concat();
    let mut command = there.compare(&[("a", "none"), ("b", "none")], &flags);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let log = there.folder.join("run/logs/b001-p0-generator.log");
    let begun = within(LIMIT, || log.exists() || child.try_wait().unwrap().is_some());
    assert!(begun && log.exists(), "the second block was not reached");
    // An agent, and two supervisors with a server each.
    let busy = within(LIMIT, || there.busy().len() >= 5);
    assert!(busy, "{:?}", there.busy());
    child
}

#[test]
fn killed_it_leaves_nothing_running_on_the_other_machine() {
    let Some(there) = There::with_program() else { return };
    let mut child = in_second_block(&there);
    child.kill().unwrap();
    child.wait().unwrap();
    assert!(within(LIMIT, || there.busy().is_empty()), "left behind: {:?}", there.busy());
}

#[test]
fn a_cut_connection_is_said_and_leaves_nothing_running_on_either_machine() {
    let Some(there) = There::with_program() else { return };
    let child = in_second_block(&there);
    // The sshd, with all its connections: as where the other machine goes off.
    let marked = there.folder.join("ssh_config").display().to_string();
    let ssh = |pid: &str| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        line.starts_with(b"ssh\0") && String::from_utf8_lossy(&line).contains(&marked)
    };
    let pids = std::fs::read_dir("/proc")
        .unwrap()
        .flatten()
        .filter_map(|entry| entry.file_name().into_string().ok());
    let found: Vec<String> = pids.filter(|pid| ssh(pid)).collect();
    assert_eq!(found.len(), 1, "once for the machine");
    assert!(Command::new("kill").args(["-KILL", &found[0]]).status().unwrap().success());
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.err.contains(&format!("the connection to {} ended", there.url())), "{printed:?}");
    assert!(printed.err.contains("run kept in run as far as it came: whyslow analyse run\n"), "{printed:?}");
    assert!(within(LIMIT, || there.busy().is_empty()), "left behind: {:?}", there.busy());
}

/// `whyslow` in a network namespace of its own with an sshd behind a `link`, as in `remote.sh`; nothing where `needed`, which such a link is made
/// with, cannot be run there.
fn behind(link: &str, needed: &str, arguments: impl Fn(&str) -> Vec<String>) -> Option<Printed> {
    let (folder, port) = prepared("10.232.0.2")?;
    let possible = Command::new("unshare").args(["--net", "sh", "-euc", needed]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        testkit::skipped(&format!("no such link can be made here (unshare --net, {needed})"));
        return None;
    }
    let output = Command::new("unshare")
        .args(["--net", "sh", "-euc", include_str!("remote.sh"), "sh"])
        .args(arguments(&format!("ssh://10.232.0.2:{port}")))
        .env("WHYSLOW", WHYSLOW)
        .env("PORT", port.to_string())
        .env("LINK", link)
        .env("LINK_PY", concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/link.py"))
        .env("WHYSLOW_SSH", format!("ssh -F '{}'", folder.join("ssh_config").display()))
        .current_dir(&folder)
        .output();
    Some(Printed::from_output(output.unwrap()))
}

fn words(words: &[&str]) -> Vec<String> {
    words.iter().map(|word| (*word).to_owned()).collect()
}

#[test]
fn a_link_that_is_the_limit_is_named_and_voids_the_rate_alone() {
    let limited = "ip link set dev lo up; tc qdisc add dev lo root tbf rate 2mbit burst 16kb latency 50ms";
    let arguments = |on: &str| {
        let flags =
            ["compare", "threads", "coroutines", "--on", on, "--equal-rates", "none", "--format", "json"];
        words(&[&flags[..], &["--server-cpus", "0", "--load-cpus", "1"], &SHORT].concat())
    };
    let Some(printed) = behind("limited", limited, arguments) else { return };
    assert!(printed.err.contains("the link between the machines: "), "{printed:?}");
    let json = printed.json();
    let link = &json["host"]["link"];
    // 2 Mbit/s are 250 kB/s.
    assert!((150e3..260e3).contains(&link["bytes_per_s"].as_f64().unwrap()), "{link}");
    let gates = json["gates"].to_string();
    assert!(
        gates.contains("of what the link between the machines carries: the rate is the link's"),
        "{gates}"
    );
}

#[test]
fn a_link_with_delay_and_loss_leaves_the_verdict_right() {
    let needed = "ip tuntap add dev far mode tun && command -v python3";
    let arguments = |on: &str| {
        let flags = ["--on", on, "--format", "json", "--server-cpus", "0", "--load-cpus", "1", "--no-why"];
        let arms = [arm("fast", "on {host} none"), arm("slow", "on {host} busy")];
        words(&[&["compare", &arms[0], &arms[1]][..], &flags, &DECIDING].concat())
    };
    let Some(printed) = behind("lossy", needed, arguments) else { return };
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    assert_eq!(on_cpu(&json)["verdict"], "slower", "{json}");
    let round_trip_ns = json["host"]["link"]["round_trip_ns"].as_f64().unwrap();
    assert!((8e6..30e6).contains(&round_trip_ns), "4 ms each way: {}", json["host"]["link"]);
}

#[test]
fn a_changed_key_and_a_full_disk_are_one_sentence_each() {
    let Some(there) = There::start() else { return };
    let known = there.folder.join("known");
    let place = std::fs::read_to_string(&known).unwrap().split_whitespace().next().unwrap().to_owned();
    let other = std::fs::read_to_string(there.folder.join("key.pub")).unwrap();
    std::fs::write(&known, format!("{place} {other}")).unwrap();
    let Some(full) = There::without_space() else { return };
    let cases = [
        (&there, "has another key than ssh knows: find out why"),
        (&full, "has no space for whyslow's own file: make room in ~/.cache/whyslow there"),
    ];
    for (machine, message) in cases {
        let url = machine.url();
        let printed = run(machine.compare(&[("a", "none"), ("b", "none")], &["--on", &url]));
        assert_eq!(printed.code, Some(1), "{printed:?}");
        assert!(printed.err.contains(&format!("error: {url} {message}")), "{printed:?}");
        assert_eq!(printed.err.matches("error: ").count(), 1, "{printed:?}");
        assert!(within(LIMIT, || machine.connections().is_empty()), "ssh is still there");
    }
}

/// What is said where ssh is a script of the test's own.
fn with_ssh(script: &str, flags: &[&str]) -> Printed {
    let folder = fresh_folder();
    let ssh = folder.join("ssh");
    std::fs::write(&ssh, format!("#!/bin/sh\n{script}\n")).unwrap();
    std::fs::set_permissions(&ssh, std::fs::Permissions::from_mode(0o755)).unwrap();
    let mut command = Command::new(WHYSLOW);
    command.arg("compare").args(flags).args(SHORT).current_dir(&folder);
    command.env("WHYSLOW_SSH", ssh);
    run(command)
}

#[test]
fn what_goes_wrong_on_the_way_is_one_sentence() {
    let arch = std::env::consts::ARCH;
    let other = if arch == "aarch64" { "x86_64" } else { "aarch64" };
    let has = format!("echo 'whyslow-host Linux {arch} has'");
    let needs = format!("echo 'whyslow-host Linux {arch} needs'; read go");
    let not_ours = format!("ssh://me@big is Linux on {other}, this whyslow is for Linux on {arch}");
    let refused = "me@big: Permission denied (publickey,password).";
    let old = r#"{"hello":{"version":"0.0.1","machine":{"tool_version":"","cpu_model":"","cpus":1,"allowed_cpus":"0","memory_bytes":1,"kernel":"","governor":null,"hypervisor":null,"mitigations":{},"cgroup":{},"sysctls":{},"descriptors":1},"cpus":"0","available_bytes":1,"ends":null}}"#;
    for (script, message) in [
        (format!("echo '{refused}' >&2; exit 255"), "asks for a password or refuses the key"),
        (
            "echo '@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @' >&2; exit 255".to_owned(),
            "has another key than ssh knows",
        ),
        (
            "echo 'ssh: connect to host big port 22: Connection refused' >&2; exit 255".to_owned(),
            "ssh://me@big cannot be reached: ssh: connect to host big port 22: Connection refused",
        ),
        (format!("echo 'whyslow-host Linux {other} needs'"), not_ours.as_str()),
        (
            format!("{needs}; echo 'head: write error: No space left on device' >&2; exit 1"),
            "has no space for whyslow's own file",
        ),
        (format!("echo Welcome; {has}; echo '{old}'; cat"), "whyslow on ssh://me@big is 0.0.1"),
        (format!("{has}; echo nonsense"), "the agent on ssh://me@big printed 'nonsense'"),
        ("exit 3".to_owned(), "the connection to ssh://me@big ended"),
    ] {
        let printed = with_ssh(&script, &["threads", "futures", "--on", "ssh://me@big"]);
        assert_eq!(printed.code, Some(1), "{script}: {printed:?}");
        assert!(printed.err.contains(message), "{script}: {printed:?}");
        assert_eq!(printed.err.matches("error: ").count(), 1, "{script}: {printed:?}");
    }
}

#[test]
fn a_program_that_is_not_there_as_it_is_here_is_copied_again() {
    let folder = fresh_folder().canonicalize().unwrap();
    let agents = folder.join("whyslow/agents");
    std::fs::create_dir_all(&agents).unwrap();
    let (sha256, bytes) = launch::sha256_file(Path::new(WHYSLOW)).unwrap();
    let program = agents.join(&sha256);
    // As long as it is here, and yet another.
    std::fs::write(&program, vec![b'x'; usize::try_from(bytes).unwrap()]).unwrap();
    std::fs::set_permissions(&program, std::fs::Permissions::from_mode(0o700)).unwrap();
    // The other machine is this one.
    let here = format!(
        "for script; do :; done; unset SSH_CONNECTION; export XDG_CACHE_HOME='{}'; exec sh -c \"$script\"",
        folder.display()
    );
    for (time, is_copied) in [("first", true), ("second", false)] {
        let printed = with_ssh(&here, &["threads", "futures", "--on", "ssh://me@big"]);
        assert!(printed.err.contains("give it with --server-address"), "{time}: {printed:?}");
        assert_eq!(printed.err.contains("copying whyslow to ssh://me@big"), is_copied, "{time}: {printed:?}");
        assert_eq!(launch::sha256_file(&program).unwrap().0, sha256, "{time}");
    }
}

#[test]
fn an_ssh_that_is_not_there_leaves_no_log() {
    let folder = fresh_folder();
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", "threads", "futures", "--on", "ssh://me@big"]);
    command.env("WHYSLOW_SSH", "no-such-ssh").env("TMPDIR", &folder).current_dir(&folder);
    let printed = run(command);
    assert!(
        printed.code == Some(1) && printed.err.contains("there is no program 'no-such-ssh'"),
        "{printed:?}"
    );
    assert_eq!(std::fs::read_dir(&folder).unwrap().count(), 0, "something is left in {}", folder.display());
}

/// Two servers on another machine, with more flags.
fn with<'a>(flags: &[&'a str]) -> Vec<&'a str> {
    [&["threads", "futures", "--on", "ssh://me@big"][..], flags].concat()
}

#[test]
fn what_does_not_go_with_another_machine_is_refused_before_it_is_reached() {
    let config = fresh_folder().join("whyslow.toml");
    std::fs::write(&config, "[service.db]\nrun = \"./db {port}\"\n").unwrap();
    let config = std::fs::canonicalize(config).unwrap().display().to_string();
    for (flags, message) in [
        (vec!["--on", "ssh://me@big", "--load-on", "ssh://me@big"], "name the same machine"),
        (vec!["--on", "big"], "'big' names no machine"),
        (with(&["pr=git:HEAD"]), "have what 'pr=git:HEAD' names ready there, and give the command"),
        (with(&["db=docker:image"]), "have what 'db=docker:image' names ready there, and give the command"),
        (with(&["web=compose:compose.yml#web"]), "have what 'web=compose:compose.yml#web' names ready there"),
        (with(&["old=http://127.0.0.1:9/"]), "give the command that starts 'old'"),
        (with(&["--config", &config]), "service 'db' would not run beside its server"),
        (with(&["--confirm"]), "--confirm changes servers that run here"),
        (with(&["--unix", "/tmp/s{port}"]), "--unix names a socket of one machine"),
        (with(&["--verify"]), "--verify is for servers that run here"),
    ] {
        let printed = with_ssh("echo 'it was reached' >&2; exit 3", &flags);
        assert_eq!(printed.code, Some(2), "{flags:?}: {printed:?}");
        assert!(printed.err.contains(message) && !printed.err.contains("reached"), "{flags:?}: {printed:?}");
        assert_eq!(printed.err.matches("error: ").count(), 1, "{flags:?}: {printed:?}");
    }
}

#[test]
fn an_agent_removes_what_a_killed_one_has_left_and_nothing_else() {
    let folder = fresh_folder();
    let agent = folder.join("agent");
    std::fs::hard_link(WHYSLOW, &agent).unwrap();
    for name in ["run-1", "run-2", "other"] {
        std::fs::create_dir_all(folder.join(name).join("logs")).unwrap();
    }
    let sum = "0123456789abcdef".repeat(4);
    let copies = [format!("{sum}.1"), format!("{sum}.2"), format!("{sum}.sh")].map(|name| folder.join(name));
    let old = SystemTime::now() - Duration::from_secs(3600);
    for (copy, written) in copies.iter().zip([old, SystemTime::now(), old]) {
        std::fs::File::create(copy).unwrap().set_modified(written).unwrap();
    }
    // As an agent that is at work.
    let held = std::fs::File::open(folder.join("run-2")).unwrap();
    held.lock().unwrap();
    let mut command = Command::new(&agent);
    command.arg("agent").stdin(Stdio::null());
    let printed = run(command);
    assert!(printed.out.contains("hello"), "{printed:?}");
    let there = ["run-1", "run-2", "other"].map(|name| folder.join(name).exists());
    assert_eq!(there, [false, true, true]);
    assert_eq!(copies.map(|copy| copy.exists()), [false, true, true], "one is being written");
}
