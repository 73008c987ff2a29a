//! One load from several processes: by hand, by MPI, and as a Kubernetes job.

use std::net::Ipv4Addr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use serde_json::Value;
use testkit::{Behaviour, Server, ServerSpec, now_ns};

use crate::support::{
    FIXTURE, Printed, WHYSLOW, assert_schema, fresh_folder, logged, repository, whyslow_in,
};

/// Requests over all shards: prime, so that no number of shards divides them.
const PRIME: u64 = 1_009;

fn load(url: &str) -> Vec<String> {
    let prime = PRIME.to_string();
    ["load", "-t1", "-c2", "-d", "60s", "-R", "3k", "--requests", &prime, "--seed", "7", "--save", "run", url]
        .map(str::to_owned)
        .to_vec()
}

/// What `whyslow merge run` says in `folder`, checked against the number of requests that the server saw.
fn assert_merged(folder: &Path, seen: u64) {
    let files = [
        "--hgrm",
        "all.hgrm",
        "--hlog",
        "all.hlog",
        "--csv",
        "all.csv",
        "--prometheus",
        "all.prom",
        "--otlp",
        "all.json",
    ];
    let printed = whyslow_in(folder, &[&["merge", "run", "--format", "json"], &files[..]].concat());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let report = printed.json();
    assert_schema("load", &report);
    assert_eq!(report["requests"], PRIME, "{printed:?}");
    assert_eq!(report["response_ns"]["count"], PRIME);
    assert_eq!((&report["threads"], &report["connections"]["established"]), (&3.into(), &6.into()));
    assert_eq!(seen, PRIME, "the server saw another number");
    let judged = whyslow_in(folder, &["merge", "run", "--fail-if", "p50 > 1ns"]);
    assert_eq!(judged.code, Some(3), "a condition is judged on all shards together: {judged:?}");
    let hgrm = std::fs::read_to_string(folder.join("all.hgrm")).unwrap();
    assert!(hgrm.contains(&format!("Total count    = {PRIME:12}]")), "{hgrm}");
    let text = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let seconds = text("all.csv");
    let of_second = |line: &str| line.split(',').nth(1).unwrap().parse::<u64>().unwrap();
    assert_eq!(seconds.lines().skip(1).map(of_second).sum::<u64>(), PRIME, "{seconds}");
    assert!(text("all.prom").contains(&format!(" {PRIME}\n")), "{}", text("all.prom"));
    assert!(text("all.json").contains(&PRIME.to_string()), "{}", text("all.json"));
    let log = logged(&folder.join("all.hlog"));
    // Behind them what a response has before it: connections that were opened, and first bytes.
    let phases: Vec<_> =
        log[LOGGED.len()..].iter().map(|one| (one.tag.as_deref(), one.latencies.len())).collect();
    assert_eq!(phases, [(Some("connect"), 6), (Some("first_byte"), PRIME)]);
    for (interval, (tag, name)) in log.iter().zip(LOGGED) {
        let found = (interval.tag.as_deref(), interval.latencies.len(), interval.latencies.max());
        assert_eq!(found, (tag, PRIME, report[name]["max"].as_u64().unwrap()));
    }
}

/// The intervals of a merged log, and what each is of.
const LOGGED: [(Option<&str>, &str); 3] =
    [(None, "response_ns"), (Some("service"), "service_ns"), (Some("send_lag"), "send_lag_ns")];

#[test]
fn shards_run_by_hand_are_merged_without_loss() {
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let (folder, url) = (fresh_folder(), server.url());
    let shards = [&["--shard", "0/3"][..], &["--shard", "1/3"], &["--shard", "/3"]];
    let children = shards.map(|shard| {
        let mut command = Command::new(WHYSLOW);
        // A Kubernetes index job tells each of its pods its number, and not how many there are.
        command.args(load(&url)).args(shard).env("JOB_COMPLETION_INDEX", "2").current_dir(&folder);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for child in children {
        let printed = Printed::from_output(child.wait_with_output().unwrap());
        assert_eq!(printed.code, Some(0), "{printed:?}");
    }
    assert_merged(&folder, server.finish().entries.len() as u64);
}

/// Time between two arrivals of both shards together: several times what a crowded machine delays most of them by.
const GAP_NS: u64 = 20_000_000;

#[test]
fn shards_with_one_start_begin_then_and_take_turns() {
    const AHEAD_NS: u64 = 2_000_000_000;
    const ARRIVALS: usize = 50;
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let url = server.url();
    let start_ns = now_ns() + AHEAD_NS;
    let since_1970 = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
    let start = format!("@{:.6}", since_1970.as_secs_f64() + AHEAD_NS as f64 / 1e9);
    let children = ["0/2", "1/2"].map(|shard| {
        let mut command = Command::new(WHYSLOW);
        command.args([
            "load",
            "-t1",
            "-c1",
            "-d1s",
            "-R",
            "50",
            "--shard",
            shard,
            "--start-at",
            &start,
            &url,
        ]);
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap()
    });
    for child in children {
        let printed = Printed::from_output(child.wait_with_output().unwrap());
        assert_eq!(printed.code, Some(0), "{printed:?}");
    }
    let log = server.finish();
    assert_eq!((log.connections, log.entries.len()), (2, ARRIVALS));
    // A microsecond is what the text of the start leaves out.
    let first_ns = log.entries[0].received_ns;
    assert!((start_ns - 1_000..start_ns + AHEAD_NS / 4).contains(&first_ns), "{first_ns}, not {start_ns}");
    let in_turn = |index: &usize| {
        let (entry, due_ns) = (log.entries[*index], start_ns + *index as u64 * GAP_NS);
        let other =
            index.checked_sub(1).is_none_or(|before| log.entries[before].connection != entry.connection);
        other && entry.received_ns.abs_diff(due_ns) < GAP_NS / 2
    };
    let found = (0..ARRIVALS).filter(in_turn).count();
    assert!(found * 10 >= ARRIVALS * 9, "{found} of {ARRIVALS} came in turn: {:?}", log.entries);
}

#[test]
fn processes_that_mpi_started_share_the_schedule() {
    if Command::new("mpirun").arg("--version").output().is_err() {
        return testkit::skipped("there is no mpirun here (Debian: openmpi-bin)");
    }
    let server = Server::start(ServerSpec::new(Behaviour::Prompt));
    let folder = fresh_folder();
    let output = Command::new("mpirun")
        .args(["--allow-run-as-root", "--oversubscribe", "-n", "3", WHYSLOW])
        .args(load(&server.url()))
        .current_dir(&folder)
        .output()
        .unwrap();
    let printed = Printed::from_output(output);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.err.contains("shard 2/3 (OMPI_COMM_WORLD_RANK)"), "{printed:?}");
    assert_merged(&folder, server.finish().entries.len() as u64);
}

/// The address of the server on hosts of its own: no machine has it.
const OTHER_HOST: Ipv4Addr = Ipv4Addr::new(10, 231, 9, 9);

#[test]
fn generators_on_hosts_of_their_own_share_the_schedule() {
    let folder = fresh_folder();
    // An ordinary user may make namespaces, too, as root of a namespace of users. A host that never comes is not waited for.
    let inside = |script: &str| {
        let mut command = Command::new("unshare");
        command.args(["--user", "--map-root-user", "--net", "timeout", "60", "sh", "-euc", script]);
        command.current_dir(&folder);
        command
    };
    let possible = inside("ip link add name near type veth peer name far").output();
    if !possible.is_ok_and(|output| output.status.success()) {
        return testkit::skipped("no network namespaces can be made here (unshare, ip)");
    }
    let output = inside(include_str!("hosts.sh"))
        .args(["hosts", &OTHER_HOST.to_string()])
        .args(load("http://SERVER/"))
        .env("WHYSLOW", WHYSLOW)
        .env("SERVER", FIXTURE)
        .output();
    let printed = Printed::from_output(output.unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let seen = printed.out.lines().find_map(|line| line.strip_prefix("requests ")).unwrap();
    assert_merged(&folder, seen.parse().unwrap());
}

#[test]
fn a_merge_of_nothing_says_so() {
    let folder = fresh_folder();
    for args in [&["merge", "."][..], &["merge", "absent"]] {
        let printed = whyslow_in(&folder, args);
        assert_eq!((printed.code, printed.err.lines().count()), (Some(1), 1), "{printed:?}");
    }
}

#[test]
fn the_kubernetes_job_is_one_and_its_command_line_is_ours() {
    let read = |name: &str| -> Value {
        let file = repository(&format!("docs/examples/kubernetes/{name}"));
        serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap()
    };
    let (job, schema) = (read("job.json"), read("job.schema.json"));
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(&job).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
    assert!(validator.iter_errors(&serde_json::json!({"kind": "Job", "spec": {}})).count() > 0);
    let spec = &job["spec"];
    assert_eq!(spec["completions"], spec["parallelism"], "shards that wait for each other would never begin");
    let args = spec["template"]["spec"]["containers"][0]["args"].as_array().unwrap();
    let args: Vec<&str> = args.iter().map(|arg| arg.as_str().unwrap()).collect();
    let shard = format!("/{}", spec["completions"]);
    assert!(args.windows(2).any(|pair| pair == ["--shard", &shard]), "{args:?}");
    // The whole line is understood: the one thing wrong with it here is that there is no such server.
    let local: Vec<&str> = args
        .iter()
        .map(|arg| if arg.starts_with("http://") { "http://127.0.0.1:9/" } else { arg })
        .map(|arg| if arg == "@START_AT" { "@0" } else { arg })
        .collect();
    let output = Command::new(WHYSLOW)
        .args(local)
        .env("JOB_COMPLETION_INDEX", "1")
        .current_dir(fresh_folder())
        .output();
    let printed = Printed::from_output(output.unwrap());
    assert!(printed.code == Some(2) && printed.err.contains("no connection to 127.0.0.1:9"), "{printed:?}");
}
