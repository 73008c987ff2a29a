//! Services beside: started, seeded, filled into commands, their CPU time told apart, and gone afterwards.

use std::path::Path;

use crate::support::{FIXTURE, SHORT, Said, assert_schema, fresh_folder, whyslow_in};

/// Compares two servers that ask the service in `service` once and eight times for each request.
fn compare(folder: &Path, service: &str, out: &str) -> Said {
    std::fs::write(folder.join("whyslow.toml"), format!("[service.db]\n{service}\n")).unwrap();
    let arm = |name: &str, times: u32| format!("{name}='{FIXTURE}' {{port}} beside-{{db.port}}-{times}");
    let (main, pr) = (arm("main", 1), arm("pr", 8));
    let head = ["compare", &main, &pr, "--config", "whyslow.toml", "--equal-rates", "none", "--no-why"];
    whyslow_in(
        folder,
        &[&head[..], &SHORT, &["--ready-limit", "2s", "--format", "json", "--out", out]].concat(),
    )
}

/// Process ids of all that have `word` in their command line.
fn living(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
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
    let said = compare(&folder, &service("run"), "run");
    assert!([Some(4), Some(5)].contains(&said.code), "one block decides nothing: {said:?}");
    let json = said.json();
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
        let said = compare(&fresh_folder(), service, "run");
        assert_eq!(said.code, Some(code), "{service}: {said:?}");
        assert!(said.err.contains(want), "{service}: {said:?}");
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
    let said = whyslow_in(&folder, &[&run[..], &SHORT, &["--format", "json", "--out", "run"]].concat());
    assert!([Some(4), Some(5)].contains(&said.code), "one block decides nothing: {said:?}");
    assert!(said.json()["arms"][1]["services"]["db"].as_f64().unwrap() > 1_000.0, "{said:?}");

    let said = whyslow_in(&folder, &["targets", "verify", "asks", "asks@other", "--format", "json"]);
    let json = said.json();
    let answer = |arm: usize| json[arm]["checks"][0]["text"].as_str().unwrap_or_default().to_owned();
    assert!(answer(0).starts_with("status 200") && answer(1).starts_with("status 200"), "{said:?}");
    let seeded = std::fs::read_to_string(folder.join("seeds")).unwrap();
    assert_eq!(seeded.lines().count(), 2, "once for the comparison, and once for what both verify: {seeded}");
    for port in seeded.lines() {
        assert_eq!(living(&format!("{FIXTURE}\0{port}\0heavy")), [""; 0], "it was stopped");
    }
}
