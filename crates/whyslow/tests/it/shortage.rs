//! Too few descriptors or local ports for a load: raised where that is allowed, else said before anything is sent.

use std::process::Command;

use testkit::{Behaviour, Server, ServerSpec};

use crate::support::{Printed, WHYSLOW};

/// Runs `whyslow load` from a shell, after `first` and in `program` where that is not the shell itself.
fn load_after(first: &str, program: &[&str], args: &[&str]) -> Printed {
    let script = format!("{first}; exec \"$0\" load -t1 --format json \"$@\"");
    let words = [program, &["sh", "-euc", &script, WHYSLOW], args].concat();
    Printed::from_output(Command::new(words[0]).args(&words[1..]).output().unwrap())
}

#[test]
fn a_soft_limit_of_open_files_is_raised_and_a_hard_one_is_said() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    // 2 for its thread and 64 for the rest are needed beside the connections.
    let (soft, hard) = ("ulimit -Sn 40", "ulimit -Sn 40; ulimit -Hn 166");
    for (limits, connections) in [(soft, "101"), (hard, "100")] {
        let printed = load_after(limits, &[], &["-c", connections, "--requests", "211", "-d60s", &url]);
        assert_eq!(printed.code, Some(0), "{limits}: {printed:?}");
        let report = printed.json();
        assert_eq!(report["connections"]["established"].to_string(), connections, "{limits}");
        assert_eq!(report["requests"], 211, "{limits}");
    }
    let printed = load_after(hard, &[], &["-c", "101", "--requests", "211", &url]);
    assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "{printed:?}");
    let want = "error: 167 open files are needed and the hard limit is 166: ask for fewer connections or raise it (ulimit -Hn)\n";
    assert_eq!(printed.err, want);
    assert_eq!(server.finish().connections, 201, "no connection of the refused run was opened");
}

#[test]
fn too_few_local_ports_are_said_before_a_connection_is_opened() {
    // Ports are counted in a network of our own, where they may be made few.
    let own = ["unshare", "--user", "--map-root-user", "--net"];
    let few = "echo 40000 40006 > /proc/sys/net/ipv4/ip_local_port_range";
    let possible = Command::new(own[0]).args(&own[1..]).args(["sh", "-euc", few]).output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return testkit::skipped("no network namespaces can be made here (unshare)");
    }
    let load = |connections| load_after(few, &own, &["-c", connections, "-d1s", "http://127.0.0.1:9/"]);
    let printed = load("8");
    assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "{printed:?}");
    let want = "error: 8 connections are asked for and there are 7 local ports to one address: ask for fewer, add source addresses, or widen net.ipv4.ip_local_port_range\n";
    assert_eq!(printed.err, want);
    let printed = load("7");
    assert!(printed.err.contains("no connection to 127.0.0.1:9"), "seven are enough for seven: {printed:?}");
}
