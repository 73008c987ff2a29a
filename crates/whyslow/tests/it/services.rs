//! Services beside: started, seeded, filled into commands, their CPU time told apart, and gone afterwards.

use std::path::Path;
use std::process::Command;

use serde_json::Value;

use crate::revisions::Repository;
use crate::support::{
    FIXTURE, Printed, SHORT, WHYSLOW, assert_schema, fresh_folder, living, repository, whyslow_in,
};

/// Compares two servers that ask the service in `service` once and eight times for each request.
fn compare(folder: &Path, service: &str, out: &str) -> Printed {
    std::fs::write(folder.join("whyslow.toml"), format!("[service.db]\n{service}\n")).unwrap();
    let arm = |name: &str, times: u32| format!("{name}='{FIXTURE}' {{port}} beside-{{db.port}}-{times}");
    let (main, pr) = (arm("main", 1), arm("pr", 8));
    let head = ["compare", &main, &pr, "--config", "whyslow.toml", "--equal-rates", "none", "--no-why"];
    whyslow_in(
        folder,
        &[&head[..], &SHORT, &["--ready-limit", "2s", "--format", "json", "--out", out]].concat(),
    )
}

#[test]
fn the_cpu_time_of_a_service_is_a_column_of_its_own_and_a_gap_in_it_is_said() {
    let folder = fresh_folder();
    let seeds = folder.join("seeds");
    let service = |each: &str| {
        format!(
            "run = \"'{FIXTURE}' {{port}} heavy\"\nsetup = \"test -d {{dir}} && echo {{port}} >> {}\"\neach = '{each}'",
            seeds.display()
        )
    };
    let printed = compare(&folder, &service("run"), "run");
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    let [main, pr] = [0, 1].map(|arm| json["arms"][arm]["services"]["db"].as_f64().unwrap());
    assert!(main > 5_000.0, "a request of the service is heavy: {main}");
    assert!((6.0..10.0).contains(&(pr / main)), "eight to one: {pr} against {main}");
    let warnings = json["warnings"].to_string();
    assert!(
        warnings.contains("of the gap in CPU time between 'pr' and 'main' is in service 'db'"),
        "{warnings}"
    );
    let text = json["text"].as_str().unwrap();
    assert!(text.contains("CPU time of services beside"), "{text}");
    let seeded = std::fs::read_to_string(&seeds).unwrap();
    assert_eq!(seeded.lines().count(), 1, "once for the run");
    assert_eq!(living(&format!("{FIXTURE}\0{}\0heavy", seeded.trim())), [""; 0], "it was stopped");
    assert_eq!(std::fs::read_dir(folder.join("run/services")).unwrap().count(), 0, "its data are gone");

    std::fs::remove_file(&seeds).unwrap();
    compare(&folder, &service("block"), "blocks");
    let seeded = std::fs::read_to_string(&seeds).unwrap();
    assert_eq!(seeded.lines().count(), 3, "for each of the two pilots, and for the block: {seeded}");
}

#[test]
fn a_service_that_fails_is_one_sentence_with_the_end_of_its_log() {
    let cases = [
        (
            "run = \"sh -c 'echo no space left; exit 4' {port}\"",
            1,
            "service 'db' exited with code 4 before it was ready; its log ends: no space left",
        ),
        ("run = 'sleep 600 {port}'", 1, "service 'db' was not ready within 2.0 s"),
        ("run = 'no-such-program {port}'", 1, "service 'db': there is no program 'no-such-program'"),
        ("run = 'sleep 600'", 2, "the command of service 'db' has no {port}"),
        ("run = 'sleep 600 {port}'\nredy = 'true'", 2, "there is no key 'redy': did you mean 'ready'?"),
        (
            "run = 'sleep 600 {port}'\nready = 'true'\nsetup = 'echo no table; exit 6'",
            1,
            "service 'db': the setup command 'sh -c echo no table; exit 6' exited with code 6; its log ends: no table",
        ),
    ];
    for (service, code, want) in cases {
        let printed = compare(&fresh_folder(), service, "run");
        assert_eq!(printed.code, Some(code), "{service}: {printed:?}");
        assert!(printed.err.contains(want), "{service}: {printed:?}");
    }
}

#[test]
fn a_target_brings_its_service_with_it() {
    let folder = fresh_folder();
    let target = format!(
        "name = 'asks'\nlanguage = 'rust'\nabout = 'It asks its service.'\npath = '/'\n\
         run = [\"{FIXTURE}\", \"{{port}}\", \"beside-{{db.port}}-1\"]\n\
         [service.db]\nrun = \"'{FIXTURE}' {{port}} heavy\"\nsetup = \"echo {{port}} >> {}\"\n\
         [[variant]]\nname = 'other'\npath = '/other'\n",
        folder.join("seeds").display()
    );
    std::fs::create_dir_all(folder.join("targets/asks")).unwrap();
    std::fs::write(folder.join("targets/asks/target.toml"), target).unwrap();
    let run = ["compare", "asks", "asks@other", "--equal-rates", "none", "--no-why"];
    let printed = whyslow_in(&folder, &[&run[..], &SHORT, &["--format", "json", "--out", "run"]].concat());
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    assert!(printed.json()["arms"][1]["services"]["db"].as_f64().unwrap() > 1_000.0, "{printed:?}");

    let printed = whyslow_in(&folder, &["targets", "verify", "asks", "asks@other", "--format", "json"]);
    let json = printed.json();
    let answer = |arm: usize| json[arm]["checks"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(answer(0).starts_with("status 200") && answer(1).starts_with("status 200"), "{printed:?}");
    let seeded = std::fs::read_to_string(folder.join("seeds")).unwrap();
    assert_eq!(seeded.lines().count(), 2, "once for the comparison, and once for what both verify: {seeded}");
    for port in seeded.lines() {
        assert_eq!(living(&format!("{FIXTURE}\0{port}\0heavy")), [""; 0], "it was stopped");
    }
}

#[test]
fn what_is_verified_searched_and_climbed_has_its_services_too() {
    let repository = Repository::new();
    let mark = format!("beside-{}", std::process::id());
    let config = format!(
        "build = 'cp fault {{build}}/fault'\nrun = \"'{FIXTURE}' {{port}} beside-{{db.port}}-1\"\npath = '/'\n\
         [service.db]\nrun = \"'{FIXTURE}' {{port}} none {mark}\"\n"
    );
    repository.write("whyslow.toml", &config);
    repository.commit("with a service");

    let printed =
        repository.whyslow(&["compare", "main=git:HEAD", "pr=git:.", "--verify", "--format", "json"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert_eq!(
        (&printed.json()[0]["ok"], &printed.json()[1]["ok"]),
        (&true.into(), &true.into()),
        "{printed:?}"
    );

    let rates = ["--slo", "p50 < 1s", "-c", "2", "--from", "50", "--max-rate", "100", "--window", "200ms"];
    let args = ["capacity", "pr=git:.", "--warmup", "50ms", "--format", "json"];
    let found = repository.whyslow(&[&args[..], &rates].concat());
    // A crowded machine may leave the generator late, which voids the search.
    assert!([Some(0), Some(5)].contains(&found.code), "{found:?}");
    let points = found.json()["points"].as_array().unwrap().clone();
    assert!(
        points.iter().any(|point| point["rate_per_s"].as_f64().is_some_and(|rate| rate > 10.0)),
        "{found:?}"
    );

    let out = repository.cache.with_file_name("ladder");
    let args = ["ladder", "git:HEAD~1", "--steps", "HEAD,.", "--equal-rates", "none", "--format", "json"];
    let more = ["--no-why", "--config", "whyslow.toml", "--out", out.to_str().unwrap()];
    let ladder = repository.whyslow(&[&args[..], &SHORT, &more].concat()).json();
    assert_eq!(ladder["steps"], serde_json::json!(["HEAD-1", "HEAD", "worktree"]), "{ladder}");
    let refused = repository.whyslow(&["ladder", "git:HEAD"]);
    assert!(
        refused.code == Some(2) && refused.err.contains("write --steps B,C behind git:HEAD"),
        "{refused:?}"
    );

    assert_eq!(living(&mark), [""; 0], "the services have ended with what needed them");
}

#[test]
fn requests_and_what_shows_readiness_name_the_places_of_services() {
    let folder = fresh_folder();
    std::fs::write(
        folder.join("whyslow.toml"),
        format!("[service.db]\nrun = \"'{FIXTURE}' {{port}} none\"\n"),
    )
    .unwrap();
    let requests =
        "GET /by/{db.port}\nX-Beside: {db.port} {id}\n\n###\nPOST /orders\n\n{\"at\": {db.port}}\n";
    std::fs::write(folder.join("asked.http"), requests).unwrap();
    std::fs::write(folder.join("ids.csv"), "id\n7\n").unwrap();
    let seen = folder.join("seen");
    let ready = format!("sh -c 'echo {{db.port}} {{port}} >> {}'", seen.display());
    // A proxy that writes down what it is asked.
    let server = format!("keep='{FIXTURE}' {{port}} keep-{}", folder.join("kept").display());
    let args = ["compare", &server, &format!("other='{FIXTURE}' {{port}} none"), "--config", "whyslow.toml"];
    let more = [
        "--requests",
        "asked.http",
        "--data",
        "ids.csv",
        "--ready",
        &ready,
        "--equal-rates",
        "none",
        "--no-why",
    ];
    let printed =
        whyslow_in(&folder, &[&args[..], &more, &SHORT, &["--format", "json", "--out", "run"]].concat());
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    let (seen, kept) =
        (std::fs::read_to_string(&seen).unwrap(), std::fs::read_to_string(folder.join("kept")).unwrap());
    let port = seen.split_whitespace().next().unwrap();
    assert!(port.parse::<u16>().is_ok_and(|port| port > 0), "{seen}");
    for line in [&format!("GET /by/{port} HTTP/1.1"), &format!("{port} 7"), &format!("{{\"at\": {port}}}")] {
        assert!(kept.contains(line), "no {line} in {kept}");
    }
    assert!(!kept.contains("{db.port}"), "{kept}");
    let unknown = ["--requests", "asked.http", "--data", "ids.csv", "--list"];
    let printed = whyslow_in(&folder, &[&["compare", "threads", "futures"][..], &unknown].concat());
    assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
    assert!(printed.err.contains("{db.port} is no column of the data (it has id)"), "{printed:?}");
}

/// Where Debian's own Python is, which has the modules of Debian's packages.
const DEBIAN: &str = "/usr/bin";

/// The example of the documentation, where what it needs is here.
struct Database {
    folder: std::path::PathBuf,
    path: String,
}

impl Database {
    fn here() -> Option<Self> {
        let path = format!("{DEBIAN}:{}", std::env::var("PATH").unwrap_or_default());
        let works = |line: &str| {
            let run = Command::new("sh").args(["-c", line]).env("PATH", &path).output();
            run.is_ok_and(|output| output.status.success())
        };
        let needed = "ls /usr/lib/postgresql/*/bin/initdb || command -v initdb; } && command -v pg_isready && command -v psql";
        if !works(&format!("{{ {needed} && python3 -c 'import psycopg2'")) {
            testkit::skipped("no PostgreSQL with psycopg2 (apt-get install postgresql python3-psycopg2)");
            return None;
        }
        let folder = fresh_folder();
        for file in ["app.py", "orders.http", "postgres.sh", "seed.sql", "whyslow.toml"] {
            std::fs::copy(repository("docs/examples/database").join(file), folder.join(file)).unwrap();
        }
        Some(Self { folder, path })
    }

    fn compare(&self, arms: [(&str, &str); 2], flags: &[&str], out: &str) -> Printed {
        let arms = arms.map(|(name, more)| format!("{name}=python3 app.py {{port}} {{db.port}} {more}"));
        let mut command = Command::new(WHYSLOW);
        command.args(["compare", "--config", "whyslow.toml", &arms[0], &arms[1], "--equal-rates", "none"]);
        command.args([
            "--connections",
            "4",
            "--warmup",
            "100ms",
            "--warmup-cap",
            "300ms",
            "--format",
            "json",
        ]);
        command.args(flags).args(["--out", out]).env("PATH", &self.path).current_dir(&self.folder);
        Printed::from_output(command.output().unwrap())
    }
}

fn of_database(json: &Value) -> [f64; 2] {
    [0, 1].map(|arm| json["arms"][arm]["services"]["db"].as_f64().unwrap())
}

#[test]
fn a_table_that_is_scanned_is_found_in_the_data_base() {
    let Some(database) = Database::here() else { return };
    let arms = [("indexed", "--pool 4"), ("scan", "--pool 4 --table scanned")];
    // Other work on the machine can hide which is slower: it has three tries.
    let attempt = |number: u32| {
        let flags = ["--blocks", "6", "--cycles", "2", "--slice", "60ms"];
        let printed = database.compare(arms, &flags, &format!("run-{number}"));
        let json = printed.json();
        assert_schema("compare", &json);
        let [indexed, scan] = of_database(&json);
        assert!(scan > 3.0 * indexed, "50,000 rows are read in the place of 100: {indexed} ns and {scan} ns");
        let rows = json["comparisons"].as_array().unwrap();
        let rate = rows.iter().find(|row| row["metric"] == "rate").unwrap();
        let first = &json["causes"][0];
        let right = rate["verdict"] == "slower" && first["id"] == "service_beside";
        if !right {
            return Some((printed.code, rate.clone(), first.clone()));
        }
        let (text, screen) = (first["text"].as_str().unwrap(), json["text"].as_str().unwrap());
        assert!(text.starts_with("service 'db' uses "), "{text}");
        assert!(first["share"].as_f64().unwrap() > 0.5, "{first}");
        assert!(
            screen.contains("service 'db' uses ") && screen.contains("CPU time of services beside"),
            "{screen}"
        );
        let gap = &json["services"][0];
        assert!(gap["interval_ns"][0].as_f64().unwrap() > 0.0, "{gap}");
        // Whoever may not look into processes of another user has no functions, and the rest all the same.
        if let Some(function) = gap["functions"].as_array().unwrap().first() {
            assert_eq!(function["module"], "postgres", "{gap}");
        }
        None
    };
    let wrong: Vec<_> = (0..3).map_while(attempt).collect();
    assert!(wrong.len() < 3, "{wrong:#?}");
}

#[test]
fn a_pool_spares_the_data_base_connections() {
    let Some(database) = Database::here() else { return };
    let flags = ["--blocks", "1", "--cycles", "2", "--no-why"];
    let printed = database.compare([("pool", "--pool 4"), ("none", "")], &flags, "run");
    let [pool, none] = of_database(&printed.json());
    assert!(none > 2.0 * pool, "a process for each request: {pool} ns and {none} ns: {printed:?}");
    let left = living(database.folder.to_str().unwrap());
    assert_eq!(left, [""; 0], "the data base has ended with the run");
}
