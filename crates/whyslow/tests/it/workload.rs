//! What `compare` sends, as the servers saw it: named requests with bodies and tokens, over TLS and HTTP/2, and whether
//! answers are alike.

use std::collections::BTreeMap;
use std::path::Path;
use std::process::Command;

use model::record::{RoundRecord, RunDir};
use serde_json::Value;

use crate::kinds::Elsewhere;
use crate::serving::certificates::Authority;

use crate::support::{
    FIXTURE, Printed, SHORT, WHYSLOW, arms, assert_schema, fresh_folder, whyslow, whyslow_in,
};

/// Five requests, one of them four times as often as the rarest.
const SHOP: &str = r#"
### list
# @weight 4
GET /items HTTP/1.1

### item
# @weight 3
GET /items/7 HTTP/1.1

### order
# @weight 2
POST /orders HTTP/1.1
Content-Type: application/json

{"item": 7, "key": "{{$guid}}"}

### pay
POST /pay HTTP/1.1
Content-Type: application/json

{"sum": 12}

### remove
DELETE /items/7 HTTP/1.1
"#;

/// How the server's log names each of them.
const LINES: [(&str, &str); 5] = [
    ("list", "get /items"),
    ("item", "get /items/7"),
    ("order", "post /orders"),
    ("pay", "post /pay"),
    ("remove", "delete /items/7"),
];

const TOKEN: &str = "Authorization: Bearer t0ken";

/// Undecided after one block, or void: these tests look at what was asked and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];

/// An arm that is a shop.
fn shop(name: &str, variant: &str) -> String {
    format!("{name}='{FIXTURE}' {{port}} shop . {variant}")
}

fn compare(folder: &Path, arms: &[String], flags: &[&str]) -> Printed {
    let mut args = vec!["compare"];
    args.extend(arms.iter().map(String::as_str));
    args.extend(["--equal-rates", "none", "--no-why", "--out", "run", "--format", "json"]);
    whyslow_in(folder, &[&args[..], flags, &SHORT].concat())
}

fn rounds(folder: &Path) -> Vec<RoundRecord> {
    RunDir::open(&folder.join("run")).read().unwrap().rounds
}

/// Requests of each kind that the server on `port` had within the slices of a round.
fn logged(folder: &Path, record: &RoundRecord) -> BTreeMap<String, u64> {
    let log = std::fs::read_to_string(folder.join(format!("{}.log", record.port))).unwrap();
    let slices = &record.windows[0].slices;
    let mut counts = BTreeMap::new();
    for line in log.lines() {
        let (at, what) = line.split_once(' ').unwrap();
        let at: u64 = at.parse().unwrap();
        if slices.iter().any(|slice| (slice.start_ns..=slice.start_ns + slice.wall_ns).contains(&at)) {
            *counts.entry(what.to_owned()).or_insert(0) += 1;
        }
    }
    counts
}

fn parity(json: &Value) -> &Value {
    json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "parity").unwrap()
}

#[test]
fn named_requests_are_counted_as_the_servers_own_logs_count_them() {
    let folder = fresh_folder();
    std::fs::write(folder.join("shop.http"), SHOP).unwrap();
    let arms = [shop("main", ""), shop("pr", "")];
    let printed = compare(&folder, &arms, &["--requests", "shop.http", "-H", TOKEN, "--ready", "/health"]);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    assert!(parity(&json)["ok"] == true, "answers differ by their ids alone: {}", parity(&json));
    let rounds = rounds(&folder);
    assert_eq!(rounds.len(), 2);
    for record in &rounds {
        let (logged, load) = (logged(&folder, record), &record.windows[0].load);
        assert_eq!(load.errors.total(), 0, "{load:?}");
        let named: BTreeMap<String, u64> = LINES
            .iter()
            .map(|(name, line)| ((*line).to_owned(), load.requests_by_name[*name].requests))
            .collect();
        assert_eq!(named, logged, "{}", record.arm);
        assert_eq!(named.values().sum::<u64>(), load.requests);
        let [list, pay] = ["list", "pay"].map(|name| load.requests_by_name[name].requests);
        assert!(list > 2 * pay, "a weight of 4 beside one of 1: {list} and {pay}");
        let arm = json["arms"].as_array().unwrap().iter().find(|arm| arm["name"] == *record.arm).unwrap();
        for (name, _) in LINES {
            let row = &arm["requests_by_name"][name];
            assert_eq!(row["requests"], load.requests_by_name[name].requests, "{name}: {row}");
            assert_eq!(row["errors"], 0);
        }
        assert!(arm["requests_by_name"]["list"]["latency_ns"]["p50"].as_f64().unwrap() > 0.0);
    }
    // What was sent is in the run, and no page shows it.
    let details = whyslow_in(&folder, &["analyse", "run", "--details"]).out;
    assert!(details.contains("Requests by name") && details.contains("5 requests by weight"), "{details}");
    assert!(!details.contains("t0ken") && !printed.out.contains("t0ken"), "{details}");
    let page = whyslow_in(&folder, &["report", "run", "-o", "page.html"]);
    assert_eq!(page.code, Some(0), "{page:?}");
    let page = std::fs::read_to_string(folder.join("page.html")).unwrap();
    assert!(page.contains("Requests by name") && !page.contains("t0ken"));
    std::fs::remove_file(folder.join("shop.http")).unwrap();
    let manifest = RunDir::open(&folder.join("run")).read_manifest().unwrap();
    let kept = manifest.plan.workload.job.requests.named("/");
    assert_eq!(kept.len(), 5);
    assert!(
        kept.iter().all(|named| named.request.fields.iter().any(|(_, value)| value.starts_with("sha256:")))
    );
}

#[test]
fn a_request_has_the_status_that_it_says_of_itself() {
    let folder = fresh_folder();
    let named = |status: u16| SHOP.replace("### pay\n", &format!("### pay\n# @status {status}\n"));
    std::fs::write(folder.join("right.http"), named(201)).unwrap();
    std::fs::write(folder.join("wrong.http"), named(200)).unwrap();
    let server = Elsewhere::start("shop", folder.to_str().unwrap());
    let url = format!("http://127.0.0.1:{}", server.port);
    for (file, share) in [("right.http", 0), ("wrong.http", 1)] {
        let args =
            ["load", &url, "-c", "2", "-d", "300ms", "--requests", file, "-H", TOKEN, "--format", "json"];
        let rows = whyslow_in(&folder, &args).json();
        let pay = &rows["requests_by_name"]["pay"];
        let [requests, errors] = ["requests", "errors"].map(|name| pay[name].as_u64().unwrap());
        assert!(requests > 0 && errors == share * requests, "{file}: {pay}");
        assert_eq!(rows["requests_by_name"]["order"]["errors"], 0, "{file}: others are as they were");
    }
    let arms = [shop("main", ""), shop("pr", "")];
    let printed = compare(&folder, &arms, &["--requests", "wrong.http", "-H", TOKEN, "--ready", "/health"]);
    let error = printed.json()["arms"][0]["error"].clone();
    assert_eq!(error, "status 201 in the place of 200 to 'pay'", "{printed:?}");
}

#[test]
fn answers_are_alike_by_their_shape_and_not_by_their_ids() {
    let post =
        ["-X", "POST", "--body", "{\"item\": 7}", "-H", TOKEN, "--path", "/orders", "--expect-status", "201"];
    let cases = [
        ("", vec![], None),
        ("keys", vec![], Some("at $.title 'pr' has a string and 'main' has nothing")),
        ("closes", vec![], None),
        ("keys", vec!["--same", "status"], None),
    ];
    for (variant, flags, wanted) in cases {
        let folder = fresh_folder();
        let printed =
            compare(&folder, &[shop("main", ""), shop("pr", variant)], &[&post[..], &flags].concat());
        let json = printed.json();
        let text = parity(&json)["text"].as_str().unwrap();
        assert_eq!(parity(&json)["ok"], wanted.is_none(), "{variant}: {text}");
        match wanted {
            Some(wanted) => assert!(printed.code == Some(5) && text.contains(wanted), "{variant}: {text}"),
            None => {
                assert!(NO_VERDICT.contains(&printed.code), "{variant}: {printed:?}");
                let rounds = rounds(&folder);
                assert!(rounds.iter().all(|record| record.windows[0].load.errors.total() == 0));
                assert_eq!(logged(&folder, &rounds[0]).keys().collect::<Vec<_>>(), ["post /orders"]);
            }
        }
    }
}

#[test]
fn who_ignores_that_a_connection_is_to_be_closed_is_named() {
    let asked = ["-H", TOKEN, "--path", "/items"];
    for (pr, flags, wanted) in [
        (
            "",
            vec!["--no-keep-alive"],
            Some("'pr' ignores Connection: close and leaves it to the client to close"),
        ),
        ("obeys", vec!["-H", "Connection: close"], None),
        ("", vec![], None),
    ] {
        let folder = fresh_folder();
        let printed =
            compare(&folder, &[shop("main", "obeys"), shop("pr", pr)], &[&asked[..], &flags].concat());
        let json = printed.json();
        let text = parity(&json)["text"].as_str().unwrap();
        assert_eq!(parity(&json)["ok"], wanted.is_none(), "{flags:?}: {text}");
        assert!(wanted.is_none_or(|wanted| text.contains(wanted)), "{flags:?}: {text}");
        // Whoever ends a connection, it costs no request.
        let windows = rounds(&folder).into_iter().flat_map(|record| record.windows);
        assert!(windows.clone().count() > 0 || wanted.is_some(), "{flags:?}: nothing was measured");
        assert!(windows.into_iter().all(|window| window.load.errors.total() == 0), "{flags:?}");
    }
}

#[test]
fn a_request_that_is_answered_otherwise_than_expected_ends_its_arm() {
    let folder = fresh_folder();
    let printed = compare(&folder, &[shop("main", ""), shop("pr", "")], &["-X", "POST", "--body", "{}"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    for arm in printed.json()["arms"].as_array().unwrap() {
        let error = arm["error"].as_str().unwrap();
        assert!(error.contains("it answered wrongly: status 401 instead of 200"), "{arm}");
    }
}

#[test]
fn what_shows_that_an_arm_is_ready_is_apart_from_what_is_asked() {
    let cases = [
        ("/health", None),
        ("test -s {port}.log", Some("--ready: 'test -s")),
        ("sh -c 'test -f {port}.log'", None),
        ("no-such-program {port}", Some("there is no program 'no-such-program'")),
    ];
    for (ready, wanted) in cases {
        let folder = fresh_folder();
        let flags = ["--ready", ready, "--ready-limit", "2s", "-H", TOKEN, "--verify"];
        let mut args = vec!["compare".to_owned(), shop("main", ""), shop("pr", "")];
        args.extend(flags.map(str::to_owned));
        let args: Vec<&str> = args.iter().map(String::as_str).collect();
        let printed = whyslow_in(&folder, &args);
        match wanted {
            None => assert_eq!(printed.code, Some(0), "{ready}: {printed:?}"),
            Some(wanted) => {
                assert_eq!(printed.code, Some(1), "{ready}: {printed:?}");
                assert!(printed.out.contains(wanted), "{ready}: {printed:?}");
            }
        }
    }
}

#[test]
fn connections_are_closed_by_us_after_so_many_requests() {
    let folder = fresh_folder();
    let flags = ["--requests-per-connection", "3", "-H", TOKEN, "--ready", "/health"];
    let printed = compare(&folder, &[shop("main", ""), shop("pr", "")], &flags);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    for record in rounds(&folder) {
        assert_eq!(logged(&folder, &record).values().sum::<u64>(), record.windows[0].load.requests);
    }
    let details = whyslow_in(&folder, &["analyse", "run", "--details"]).out;
    assert!(details.contains("a new one after 3"), "{details}");
}

#[test]
fn what_cannot_be_sent_is_one_sentence_and_nothing_is_started() {
    let folder = fresh_folder();
    std::fs::write(folder.join("empty.http"), "").unwrap();
    std::fs::write(folder.join("shop.http"), SHOP).unwrap();
    std::fs::write(folder.join("short.csv"), "id,name\n1\n").unwrap();
    let cases: [(&[&str], &str); 16] = [
        (&["--requests", "none.http"], "cannot read none.http"),
        (&["--requests", "empty.http"], "it has no request"),
        (&["--requests", "500"], "is a count, which is for load"),
        (&["--requests", "shop.http", "--path", "/x"], "both say what is asked"),
        (&["--requests", "shop.http", "--expect-status", "201"], "every status below 400 is right"),
        (&["--data", "short.csv"], "short.csv:2: it has 1 cells, and the header has 2"),
        (&["--body", "@none"], "cannot read --body @none"),
        (&["-H", "no colon"], "a header of -H has no colon"),
        (&["--cacert", "none.pem"], "none.pem cannot be used"),
        (&["--script", "x.lua"], "--script is for load"),
        (&["--replay", "x.txt"], "cannot read x.txt"),
        (&["--replay", "shop.http"], "not of an access log"),
        (&["--replay", "x.txt", "--speed", "2"], "which only load keeps"),
        (&["--unix", "one.sock"], "put {port} in it"),
        (&["--http2", "--pipeline", "2"], "use --streams"),
        (&["--ready", "it's"], "--ready"),
    ];
    for (flags, wanted) in cases {
        let (main, pr) = (shop("main", ""), shop("pr", ""));
        let printed = whyslow_in(&folder, &[&["compare", &main, &pr], flags].concat());
        assert_eq!(printed.code, Some(2), "{flags:?}: {printed:?}");
        assert!(printed.err.contains(wanted), "{flags:?}: {printed:?}");
        assert!(printed.err.trim_end().lines().count() == 1, "one sentence: {printed:?}");
    }
    let logs = std::fs::read_dir(&folder).unwrap().filter(|entry| {
        entry.as_ref().unwrap().path().extension().is_some_and(|extension| extension == "log")
    });
    assert_eq!(logs.count(), 0, "no server was started");
    let printed = whyslow(&["capacity", "futures", "--requests", "none.http"]);
    assert!(printed.code == Some(2) && printed.err.contains("cannot read none.http"), "{printed:?}");
}

#[test]
fn a_log_is_drawn_from_and_numbers_never_come_twice() {
    let folder = fresh_folder();
    let line = |what: &str| format!("1.2.3.4 - - [10/Oct/2000:13:55:36 -0700] \"{what} HTTP/1.1\" 200 9\n");
    let log = [line("GET /items").repeat(3), line("DELETE /items/7"), line("GET /items")].concat();
    std::fs::write(folder.join("access.txt"), log).unwrap();
    let arms = [shop("main", ""), shop("pr", "")];
    let printed = compare(&folder, &arms, &["--replay", "access.txt", "-H", TOKEN, "--ready", "/health"]);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    for record in rounds(&folder) {
        let logged = logged(&folder, &record);
        let [get, delete] = ["get /items", "delete /items/7"].map(|line| logged[line]);
        assert!(get > 2 * delete && delete > 0, "4 to 1: {logged:?}");
        let rows = &record.windows[0].load.requests_by_name;
        assert_eq!((rows["GET /items"].requests, rows["DELETE /items/7"].requests), (get, delete));
    }
    let folder = fresh_folder();
    let printed = compare(&folder, &arms, &["--path", "/items/{n}", "-H", TOKEN, "--ready", "/health"]);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    for record in rounds(&folder) {
        let log = std::fs::read_to_string(folder.join(format!("{}.log", record.port))).unwrap();
        let numbered: Vec<&str> =
            log.lines().filter_map(|line| line.split_once("get /items/")).map(|(_, n)| n).collect();
        let different: std::collections::BTreeSet<&&str> = numbered.iter().collect();
        assert!(numbered.len() > 10 && different.len() == numbered.len(), "{log}");
    }
}

#[test]
fn arms_are_asked_over_sockets_of_their_own() {
    let folder = fresh_folder();
    let arm = |name| format!("{name}='{FIXTURE}' {{port}} unix ./{{port}}.sock");
    let printed = compare(&folder, &[arm("main"), arm("pr")], &["--unix", "./{port}.sock"]);
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    for record in rounds(&folder) {
        let load = &record.windows[0].load;
        assert!(load.requests > 0 && load.errors.total() == 0, "{load:?}");
        assert!(record.windows[0].target.cpu.total_ns > 0);
        assert!(folder.join(format!("{}.sock", record.port)).exists(), "where the server listens");
    }
}

#[test]
fn a_search_for_capacity_sends_what_a_comparison_sends() {
    let folder = fresh_folder();
    std::fs::write(folder.join("shop.http"), SHOP).unwrap();
    let target = shop("main", "");
    let flags = ["--requests", "shop.http", "-H", TOKEN, "--ready", "/health", "-c", "4", "--format", "json"];
    let search =
        ["--window", "200ms", "--warmup", "50ms", "--slo", "p50 < 1s", "--from", "200", "--max-rate", "400"];
    let printed = whyslow_in(&folder, &[&["capacity", &target], &flags[..], &search].concat());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let logs = std::fs::read_dir(&folder).unwrap().filter_map(|entry| {
        let path = entry.unwrap().path();
        (path.extension()? == "log").then(|| std::fs::read_to_string(path).unwrap())
    });
    let log: String = logs.collect();
    for (_, line) in LINES {
        assert!(log.lines().any(|logged| logged.ends_with(line)), "{line}");
    }
    assert!(WHYSLOW.ends_with("whyslow"));
}

/// The words that start a server of TLS: `https1`, `https2` or `https3`.
pub(crate) fn tls_arm(name: &str, protocol: &str, [certificate, key]: [&Path; 2]) -> String {
    format!("{name}='{}' {protocol} '{}' '{}'", arms().display(), certificate.display(), key.display())
}

#[test]
fn five_requests_with_a_token_over_tls_and_http2_are_counted_as_the_servers_count_them() {
    let authority = Authority::new("named");
    let (certificate, key) = authority.files(&authority.certify("localhost", 4000));
    let folder = fresh_folder();
    std::fs::write(folder.join("shop.http"), SHOP).unwrap();
    let arm = |name| tls_arm(name, "https2", [&certificate, &key]);
    let arms = [arm("main"), arm("pr")];
    let mut args = vec!["compare", &arms[0], &arms[1], "--port-env", "--requests", "shop.http", "-H", TOKEN];
    let root = authority.file();
    args.extend(["--cacert", root.to_str().unwrap(), "--http2", "--streams", "3"]);
    args.extend(["--equal-rates", "none", "--no-why", "--out", "run", "--format", "json"]);
    let output = Command::new(WHYSLOW).args([&args[..], &SHORT].concat()).current_dir(&folder).output();
    let printed = Printed::from_output(output.unwrap());
    assert!(NO_VERDICT.contains(&printed.code), "{printed:?}");
    let rounds = rounds(&folder);
    assert_eq!(rounds.len(), 2);
    for record in &rounds {
        let load = &record.windows[0].load;
        assert_eq!(load.errors.total(), 0, "{load:?}");
        let named = |(name, line): &(&str, &str)| ((*line).to_owned(), load.requests_by_name[*name].requests);
        let named: BTreeMap<String, u64> = LINES.iter().map(named).collect();
        assert_eq!(named, logged(&folder, record), "{}", record.arm);
        assert!(named["get /items"] > 2 * named["post /pay"], "a weight of 4 beside one of 1: {named:?}");
    }
}

#[test]
fn arms_are_asked_over_tls_and_http2_and_http3() {
    let authority = Authority::new("arms");
    let (certificate, key) = authority.files(&authority.certify("localhost", 4000));
    let root = authority.file();
    let cases: [(&str, &[&str], &str); 4] = [
        ("https1", &["--cacert", root.to_str().unwrap()], "GET /list over TLS"),
        ("https1", &["--insecure", "-X", "POST", "--body", "{}"], "POST /list with 2 bytes #"),
        ("https2", &["--insecure", "--http2", "--streams", "3"], "GET /list over HTTP/2 and TLS"),
        ("https3", &["--insecure", "--http3", "--streams", "3"], "GET /list over HTTP/3 over 4 connections"),
    ];
    for (server, flags, described) in cases {
        let folder = fresh_folder();
        let arm = |name| tls_arm(name, server, [&certificate, &key]);
        let arms = [arm("main"), arm("pr")];
        let mut args = vec!["compare", &arms[0], &arms[1], "--port-env", "--path", "/list"];
        args.extend(["--equal-rates", "none", "--no-why", "--out", "run", "--format", "json"]);
        let output =
            Command::new(WHYSLOW).args([&args[..], flags, &SHORT].concat()).current_dir(&folder).output();
        let printed = Printed::from_output(output.unwrap());
        // A connection answers one request at a time; its server may leave CPUs idle.
        assert!(NO_VERDICT.contains(&printed.code), "{server}: {printed:?}");
        let json = printed.json();
        let said = json["workload"].as_str().unwrap();
        assert!(said.contains(described), "{server}: {said}");
        assert_eq!(parity(&json)["text"], "2 arms answer alike: status 200, 13 bytes");
        let run = RunDir::open(&folder.join("run")).read().unwrap();
        let arms: Vec<&str> = run.answers.iter().map(|answers| answers.arm.as_str()).collect();
        assert_eq!(arms, ["main", "pr"]);
        for answers in &run.answers {
            assert_eq!(answers.requests[0].replies.len(), 3, "{answers:?}");
            assert!(answers.requests[0].replies.iter().all(|reply| reply.body_bytes == 13), "{answers:?}");
        }
        for record in &run.rounds {
            let load = &record.windows[0].load;
            assert!(load.requests > 0 && load.errors.total() == 0, "{load:?}");
            assert!(load.url.starts_with("https://localhost:"), "{}", load.url);
        }
    }
    // Whose certificate nobody vouches for is not spoken to.
    let arm = |name| tls_arm(name, "https1", [&certificate, &key]);
    let other = Authority::new("others").file();
    let arms = [arm("main"), arm("pr")];
    let args = ["compare", &arms[0], &arms[1], "--port-env", "--ready-limit", "2s", "--verify", "--cacert"];
    let output = Command::new(WHYSLOW).args(args).arg(&other).current_dir(fresh_folder()).output();
    let printed = Printed::from_output(output.unwrap());
    assert!(printed.code == Some(1) && printed.out.contains("no TLS connection to"), "{printed:?}");
}
