//! Running servers are watched, and what is no server is refused in one sentence.

use std::process::{Command, Stdio};

use serde_json::Value;

use crate::serve::Server;
use crate::support::{Said, WHYSLOW, assert_schema, whyslow};

/// What `watch` says in JSON of a server while requests come at a rate, per second.
fn watched_under_load(server: &Server, rate: &str, more: &[&str]) -> Value {
    let url = format!("http://127.0.0.1:{}/plaintext", server.port);
    let load = Command::new(WHYSLOW)
        .args(["load", "-t1", "-c4", "-d4s", "-R", rate, "--warmup", "1s", &url])
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    // The connections are open and busy from here on.
    std::thread::sleep(std::time::Duration::from_millis(700));
    let port = format!(":{}", server.port);
    let args = [&["watch", &port, "-d", "2s", "--format", "json"][..], more].concat();
    let said = whyslow(&args);
    let load = Said::of(load.wait_with_output().unwrap());
    assert_eq!((said.code, load.code), (Some(0), Some(0)), "{said:?} {load:?}");
    said.json()
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
        let said = whyslow(&["watch", &format!(":{}", server.port), "-d", "1s", "--profile"]);
        assert_eq!(said.code, Some(1), "{said:?}");
        assert!(said.err.contains("perf_event_paranoid"), "{said:?}");
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
    let cpu = found["ledger"][0]["per_request"].as_f64().unwrap();
    assert!((sum("categories") - cpu).abs() < 0.01 * cpu, "{found}");
    assert!((sum("packages") - cpu).abs() < 0.01 * cpu, "{found}");
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
        (&["watch", "4194303", "-d", "1s"], 1, "there is no process 4194303"),
        (&["watch", ":1", "-d", "1s"], 1, "listens on port 1"),
        (&["watch", "1", "-d", "1s", "--counter", "http://127.0.0.1:1/"], 1, "does not answer"),
    ];
    for (args, code, words) in cases {
        let said = whyslow(args);
        assert_eq!(said.code, Some(code), "{args:?}: {said:?}");
        assert!(said.err.contains(words) && said.err.trim_end().lines().count() == 1, "{args:?}: {said:?}");
        assert_eq!(said.out, "", "{args:?}");
    }
}

#[test]
fn a_server_that_ends_meanwhile_is_told() {
    let mut child = Command::new("sleep").arg("0.5").spawn().unwrap();
    // Reaped as soon as it ends, so that it is gone and no zombie.
    let pid = child.id().to_string();
    let reaper = std::thread::spawn(move || child.wait());
    let said = whyslow(&["watch", &pid, "-d", "20s"]);
    reaper.join().unwrap().unwrap();
    assert_eq!(said.code, Some(1), "{said:?}");
    assert!(said.err.contains(&format!("process {pid} ended after 0.")), "{said:?}");
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
        let said = whyslow(&["doctor", "--format", format]);
        assert_eq!((said.code, said.err.as_str()), (Some(0), ""));
        for row in rows {
            assert!(said.out.contains(row["text"].as_str().unwrap()), "{row} is not in {}", said.out);
        }
    }
}
