//! A run written and read back; damaged, newer and unfinished runs.

use std::path::Path;

use model::record::{Host, RecordError, RunDir, RunStatus, SCHEMA_VERSION};

use crate::record::support::{diagnostic, failed_round, fresh_folder, host, manifest, names, round};

/// A run of two blocks, with a repeated round and a failed one.
fn written(status: RunStatus) -> RunDir {
    let dir = RunDir::create(&fresh_folder().join("run")).unwrap();
    dir.write_manifest(&manifest(status)).unwrap();
    dir.write_host(&host()).unwrap();
    // Not in the order in which they are to be read.
    for record in [failed_round(1, 1), round(1, 0, 0), round(0, 1, 1), round(0, 1, 0), round(0, 0, 0)] {
        dir.write_round(&record).unwrap();
    }
    for record in [diagnostic("pr", 1), diagnostic("pr", 0), diagnostic("main", 1)] {
        dir.write_diagnostic(&record).unwrap();
    }
    dir
}

#[test]
fn what_was_written_is_read_in_order() {
    let run = written(RunStatus::Complete).read().unwrap();
    assert_eq!(run.manifest, manifest(RunStatus::Complete));
    assert_eq!(run.host, host());
    let want = [round(0, 0, 0), round(0, 1, 0), round(0, 1, 1), round(1, 0, 0), failed_round(1, 1)];
    assert_eq!(run.rounds, want);
    assert_eq!(run.diagnostics, [diagnostic("pr", 0), diagnostic("main", 1), diagnostic("pr", 1)]);
    assert!(run.damaged.is_empty());
}

#[test]
fn a_run_of_before_there_were_diagnostic_rounds_is_read() {
    let dir = written(RunStatus::Complete);
    std::fs::remove_dir_all(dir.path().join("diagnostics")).unwrap();
    let run = dir.read().unwrap();
    assert_eq!((run.rounds.len(), run.diagnostics.len()), (5, 0));
}

#[test]
fn each_round_has_files_named_after_it() {
    let dir = written(RunStatus::Complete);
    dir.write_hlog(&round(0, 1, 1).round, "#[a log]\n").unwrap();
    let want = [
        "b000-p0.json",
        "b000-p1-r1.hlog",
        "b000-p1-r1.json",
        "b000-p1.json",
        "b001-p0.json",
        "b001-p1.json",
    ];
    assert_eq!(names(&dir.path().join("rounds")), want);
    let log = dir.log_path(&round(0, 1, 1).round, "pr");
    assert_eq!(log, dir.path().join("logs/b000-p1-r1-pr.log"));
}

#[test]
fn a_run_is_never_written_over() {
    let dir = written(RunStatus::Complete);
    let refused = RunDir::create(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("it holds a run already"), "{refused}");
    assert_eq!(dir.read().unwrap().rounds.len(), 5);
    std::fs::remove_file(dir.path().join("manifest.json")).unwrap();
    let refused = RunDir::create(dir.path()).unwrap_err().to_string();
    assert!(refused.contains("it holds rounds/b000-p0") && refused.contains(" and no run"), "{refused}");
}

#[test]
fn a_folder_in_which_a_run_was_only_begun_takes_one() {
    let dir = RunDir::create(&fresh_folder().join("begun")).unwrap();
    std::fs::write(dir.path().join("logs/pilot-main.log"), "no database").unwrap();
    RunDir::create(dir.path()).unwrap();
}

#[test]
fn a_damaged_round_is_left_out_and_named() {
    let whole = std::fs::read(written(RunStatus::Complete).path().join("rounds/b001-p0.json")).unwrap();
    let damages: [(&str, Vec<u8>); 4] = [
        ("cut off", whole[..whole.len() / 2].to_vec()),
        ("empty", Vec::new()),
        ("not text", vec![0xff; 64]),
        ("another shape", b"{\"schema\": 1, \"arm\": 3}".to_vec()),
    ];
    for (damage, bytes) in damages {
        let dir = written(RunStatus::Complete);
        std::fs::write(dir.path().join("rounds/b001-p0.json"), bytes).unwrap();
        let run = dir.read().unwrap();
        assert_eq!(run.rounds.len(), 4, "{damage}");
        assert!(!run.rounds.contains(&round(1, 0, 0)), "{damage}");
        assert_eq!(run.damaged.len(), 1, "{damage}");
        assert!(run.damaged[0].contains("b001-p0.json is damaged: "), "{damage}: {}", run.damaged[0]);
    }
}

#[test]
fn a_half_written_round_is_not_seen() {
    let dir = written(RunStatus::Running);
    std::fs::write(dir.path().join("rounds/b002-p0.json.part"), "{\"schema\"").unwrap();
    let run = dir.read().unwrap();
    assert_eq!((run.rounds.len(), run.damaged.len()), (5, 0));
}

#[test]
fn a_killed_run_reads_as_running() {
    // The manifest is written first and with this status; whoever is killed never writes another.
    assert_eq!(written(RunStatus::Running).read().unwrap().manifest.status, RunStatus::Running);
    assert_eq!(serde_json::to_string(&RunStatus::Running).unwrap(), "\"running\"");
}

#[test]
fn without_its_manifest_it_is_no_run_and_its_remains_can_be_read() {
    let dir = written(RunStatus::Complete);
    let file = dir.path().join("manifest.json");
    std::fs::write(&file, "{").unwrap();
    assert!(matches!(dir.read(), Err(RecordError::Damaged { path, .. }) if path == file));
    std::fs::remove_file(&file).unwrap();
    let refused = dir.read().unwrap_err();
    assert!(refused.to_string().starts_with(&format!("cannot read {}: ", file.display())), "{refused}");
    let remains = dir.remains();
    assert_eq!((remains.host, remains.rounds.len()), (Some(host()), 5));
    std::fs::remove_file(dir.path().join("host.json")).unwrap();
    std::fs::remove_dir_all(dir.path().join("rounds")).unwrap();
    assert_eq!(dir.remains(), model::record::Remains::default());
}

#[test]
fn a_manifest_that_contradicts_itself_is_damaged() {
    let mut odd = manifest(RunStatus::Complete);
    odd.plan.baseline = 2;
    let mut empty = manifest(RunStatus::Complete);
    empty.plan.workload.conditions.clear();
    for (manifest, want) in [(odd, "baseline is arm 2 of 2"), (empty, "no condition")] {
        let dir = written(RunStatus::Complete);
        dir.write_manifest(&manifest).unwrap();
        let refused = dir.read().unwrap_err().to_string();
        assert!(refused.contains("manifest.json is damaged") && refused.contains(want), "{refused}");
    }
}

#[test]
fn a_lost_host_is_unknown_and_named() {
    for (damage, words) in
        [(Some("{"), "host.json is damaged"), (Some("{}"), "missing field"), (None, "host.json: ")]
    {
        let dir = written(RunStatus::Complete);
        let file = dir.path().join("host.json");
        match damage {
            Some(bytes) => std::fs::write(&file, bytes).unwrap(),
            None => std::fs::remove_file(&file).unwrap(),
        }
        let run = dir.read().unwrap();
        assert!(run.host == Host::unknown() && !run.host.is_known() && host().is_known());
        assert_eq!(run.rounds.len(), 5);
        assert!(run.damaged.len() == 1 && run.damaged[0].contains(words), "{:?}", run.damaged);
    }
}

#[test]
fn a_folder_that_cannot_be_read_is_named_and_the_rest_is_there() {
    for (folder, left) in [("rounds", (0, 3)), ("diagnostics", (5, 0))] {
        let dir = written(RunStatus::Complete);
        std::fs::remove_dir_all(dir.path().join(folder)).unwrap();
        std::fs::write(dir.path().join(folder), "no folder").unwrap();
        let run = dir.read().unwrap();
        assert_eq!((run.rounds.len(), run.diagnostics.len()), left, "{folder}");
        assert!(run.damaged.len() == 1 && run.damaged[0].contains(folder), "{:?}", run.damaged);
    }
}

fn set_schema(file: &Path, schema: u32) {
    let text = std::fs::read_to_string(file).unwrap();
    let old = format!("\"schema\": {SCHEMA_VERSION},");
    assert!(text.contains(&old));
    std::fs::write(file, text.replacen(&old, &format!("\"schema\": {schema},"), 1)).unwrap();
}

#[test]
fn a_newer_schema_is_refused_by_name() {
    let dir = written(RunStatus::Complete);
    let file = dir.path().join("manifest.json");
    set_schema(&file, SCHEMA_VERSION + 1);
    let refused = dir.read().unwrap_err().to_string();
    let newer = SCHEMA_VERSION + 1;
    let want = format!(
        "{} has schema {newer}, this whyslow reads up to {SCHEMA_VERSION}: use a newer whyslow",
        file.display()
    );
    assert_eq!(refused, want);
}

#[test]
fn a_newer_round_is_left_out_and_named() {
    let dir = written(RunStatus::Complete);
    set_schema(&dir.path().join("rounds/b000-p0.json"), SCHEMA_VERSION + 1);
    let run = dir.read().unwrap();
    assert_eq!(run.rounds.len(), 4);
    assert!(run.damaged[0].contains("use a newer whyslow"), "{}", run.damaged[0]);
}
