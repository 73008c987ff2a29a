//! One load by generators on several machines.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use serde_json::Value;
use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{Printed, SHORT, WHYSLOW, arm, assert_schema, whyslow, within};
use crate::there::{LIMIT, There};

/// Requests of all generators: prime, so that no number of them divides it.
const PRIME: u64 = 1_009;

/// Two machines, the clock of one of which shows another time; nothing where there is no sshd, which is said.
fn two() -> Option<[There; 2]> {
    Some([There::with_program()?, There::with_program_and_clock()?])
}

/// `whyslow` with flags and a URL, on both machines.
fn on_both(there: &[There; 2], command: &str, flags: &[&str], url: &str) -> Command {
    let [first, second] = there;
    let mut whyslow = Command::new(WHYSLOW);
    whyslow.args([command, "--load-on", &first.url(), "--load-on", &second.url()]).args(flags).arg(url);
    whyslow.env("WHYSLOW_SSH", first.ssh_to_both(second)).current_dir(&first.folder);
    whyslow
}

fn ids(report: &Value) -> Vec<&str> {
    report["warnings"].as_array().unwrap().iter().map(|warning| warning["id"].as_str().unwrap()).collect()
}

#[test]
fn generators_on_two_machines_load_as_one() {
    let Some(there) = two() else { return };
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let prime = PRIME.to_string();
    let flags =
        ["-t1", "-c5", "-d60s", "-R1500", "--requests", &prime, "--hgrm", "all.hgrm", "--format", "json"];
    let printed = Printed::from_output(on_both(&there, "load", &flags, &server.url()).output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let report = printed.json();
    assert_schema("load", &report);
    assert_eq!((&report["requests"], &report["response_ns"]["count"]), (&PRIME.into(), &PRIME.into()));
    assert_eq!(report["connections"], serde_json::json!({"requested": 5, "established": 5}), "{printed:?}");
    assert_eq!((&report["threads"], &report["schedule"]["rate_per_s"]), (&2.into(), &1500.0.into()));
    assert!(!ids(&report).iter().any(|id| id.starts_with("shards_")), "{printed:?}");
    // A clock that is a day ahead is no machine that is a day late.
    let late = report["warnings"].to_string();
    assert!(!late.contains("generator_late") || late.contains("ms late"), "{late}");
    let hgrm = std::fs::read_to_string(there[0].folder.join("all.hgrm")).unwrap();
    assert!(hgrm.contains(&format!("Total count    = {PRIME:12}]")), "{hgrm}");
    let log = server.finish();
    assert_eq!((log.entries.len() as u64, log.connections), (PRIME, 5));
    // Both loaded at the same time: neither had sent all before the other began.
    let first = log.entries[0].connection;
    let others = log.entries.iter().position(|entry| entry.connection != first).unwrap();
    assert!(others < log.entries.len() / 2, "the second machine began at request {others}");
    let left: Vec<String> = there.iter().flat_map(There::busy).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

/// A load of a minute by both machines that has begun.
fn begun(there: &[There; 2], server: &Server) -> Child {
    let flags = ["-t1", "-c4", "-d60s", "-R200", "--format", "json"];
    let mut command = on_both(there, "load", &flags, &server.url());
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let loaded = within(LIMIT, || server.is_asked() || child.try_wait().unwrap().is_some());
    assert!(loaded && server.is_asked(), "it has not begun");
    child
}

#[test]
fn servers_are_compared_by_the_generators_of_two_machines() {
    let Some(there) = two() else { return };
    let mut command = Command::new(WHYSLOW);
    let arms = ["fast", "slow"].map(|name| arm(name, if name == "slow" { "busy" } else { "none" }));
    command.arg("compare").args(arms).args(SHORT);
    command.args(["--load-on", &there[0].url(), "--load-on", &there[1].url(), "--server-cpus", "0"]);
    command.args(["--load-cpus", "1", "--slice", "200ms", "--equal-rates", "25", "--format", "json"]);
    command.env("WHYSLOW_SSH", there[0].ssh_to_both(&there[1])).current_dir(&there[0].folder);
    let printed = Printed::from_output(command.output().unwrap());
    // One block decides nothing.
    assert_eq!(printed.code, Some(4), "{printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    let arms = json["arms"].as_array().unwrap();
    let cpu = |arm: &Value| arm["cpu_ns_per_request"]["total"].as_f64().unwrap();
    assert!(cpu(&arms[1]) > 1.2 * cpu(&arms[0]), "{json}");
    assert!(arms.iter().all(|arm| arm["connections"] == 4 && arm["requests"].as_u64() > Some(0)), "{json}");
    let text = json["text"].as_str().unwrap().split_whitespace().collect::<Vec<_>>().join(" ");
    let places = format!("generator on CPU 1 of {} and on {}", there[0].url(), there[1].url());
    assert!(text.contains(&places), "{text}");
    let left: Vec<String> = there.iter().flat_map(There::busy).collect();
    assert!(left.is_empty(), "left behind: {left:?}");
}

#[test]
fn a_machine_that_is_lost_is_named_and_the_others_end() {
    let Some(there) = two() else { return };
    for lost in [There::agents, There::connections] {
        let server = Server::start(ServerSpec::new(Behaviour::Prompt));
        let child = begun(&there, &server);
        let lost = lost(&there[1]);
        assert_eq!(lost.len(), 1, "{lost:?}");
        assert!(Command::new("kill").args(["-KILL", &lost[0]]).status().unwrap().success());
        let printed = Printed::from_output(child.wait_with_output().unwrap());
        assert_eq!(printed.code, Some(1), "{printed:?}");
        let named = format!("error: the connection to {} ended", there[1].url());
        assert!(printed.err.contains(&named) && printed.err.matches("error: ").count() == 1, "{printed:?}");
        let gone = within(LIMIT, || there.iter().all(|one| one.busy().is_empty()));
        assert!(gone, "left behind: {:?}", there.each_ref().map(There::busy));
    }
}

#[test]
fn stopped_it_reports_what_all_machines_have() {
    let Some(there) = two() else { return };
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let child = begun(&there, &server);
    std::thread::sleep(Duration::from_millis(300));
    assert!(Command::new("kill").args(["-INT", &child.id().to_string()]).status().unwrap().success());
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let report = printed.json();
    assert!(report["partial"] == true && ids(&report).contains(&"partial"), "{printed:?}");
    assert_eq!(report["connections"]["established"], 4, "{printed:?}");
    let gone = within(LIMIT, || there.iter().all(|one| one.busy().is_empty()));
    assert!(gone, "left behind: {:?}", there.each_ref().map(There::busy));
}

#[test]
fn a_search_for_capacity_is_driven_by_all_machines() {
    let Some(there) = two() else { return };
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let flags = [
        "-c2",
        "--slo",
        "p50 < 1s",
        "--window",
        "1s",
        "--warmup",
        "50ms",
        "--from",
        "100",
        "--max-rate",
        "200",
        "--format",
        "json",
    ];
    let printed = Printed::from_output(on_both(&there, "capacity", &flags, &server.url()).output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    assert_eq!(json["verdict"], "at_least", "{json}");
    let log = server.finish();
    let mut connections: Vec<_> = log.entries.iter().map(|entry| entry.connection).collect();
    connections.sort_unstable();
    connections.dedup();
    assert!(connections.len() >= 4, "two of the closed loop and two of a rate at least: {connections:?}");
}

#[test]
fn what_cannot_be_divided_is_refused_before_a_machine_is_reached() {
    for (flags, message) in [
        (&["-s", "x.lua"][..], "--script needs one generator, and --load-on divides"),
        (&["--replay", "access.log"], "--replay needs one generator"),
        (&["--cacert", "x.pem"], "--cacert names what is on this machine"),
        (&["--unix", "/tmp/s"], "--unix names what is on this machine"),
        (&["--live"], "--live shows a load while it goes on"),
        (&["--shard", "0/2"], "--shard is for generators that are started one by one"),
        (&["-c1", "--load-on", "ssh://other"], "--connections 1 are fewer than the 2 machines of --load-on"),
        (&["--load-on", "ssh://big"], "--load-on names ssh://big twice"),
    ] {
        let printed = whyslow(&[&["load", "--load-on", "ssh://big", "http://127.0.0.1:9/"], flags].concat());
        assert_eq!(printed.code, Some(2), "{flags:?}: {printed:?}");
        assert!(
            printed.err.contains(message) && printed.err.matches("error: ").count() == 1,
            "{flags:?}: {printed:?}"
        );
    }
    let printed = whyslow(&["capacity", "threads", "--load-on", "ssh://big"]);
    assert_eq!(printed.code, Some(2), "{printed:?}");
    assert!(
        printed.err.contains("the server is one that runs already: start 'threads' where"),
        "{printed:?}"
    );
}
