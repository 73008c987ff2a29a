//! A search through a small history: interrupted, gone on with, and what it names.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Duration;

use rustix::process::{Pid, Signal, kill_process};

use crate::revisions::{BUILD, Repository, run};
use crate::support::{Printed, WHYSLOW, assert_schema, whyslow, within};

/// Until a crowded machine has compared the ends.
const ENDS_LIMIT: Duration = Duration::from_secs(120);
/// Six blocks attain 95 %; the difference is several times what a request costs, so that they can be short.
const SMALL: &str =
    "--blocks 6 --cycles 3 --warmup 100ms --warmup-cap 200ms --connections 2 --equal-rates none --no-why";

/// Nine commits behind the branch `good`: the fourth does not build, the sixth, a merge of two, makes each request dearer.
fn history() -> Repository {
    let repository = Repository::new();
    repository.git(&["branch", "good"]);
    for number in 1..=9 {
        match number {
            4 => std::fs::remove_file(repository.folder.join("fault")).unwrap(),
            5 => repository.write("fault", "none\n"),
            6 => {
                merge(&repository);
                continue;
            }
            _ => {}
        }
        repository.write("number", &format!("{number}\n"));
        repository.commit(&format!("number {number}"));
    }
    repository
}

/// Merges a branch of two commits, as the sixth.
fn merge(repository: &Repository) {
    repository.git(&["checkout", "--quiet", "-b", "side"]);
    repository.write("fault", "busy\n");
    repository.commit("dearer");
    repository.write("number", "6\n");
    repository.commit("number on the side");
    repository.git(&["checkout", "--quiet", "main"]);
    let name = ["-c", "user.name=a", "-c", "user.email=a@b"];
    repository.git(&[&name[..], &["merge", "--quiet", "--no-ff", "-m", "number 6", "side"]].concat());
}

fn command(repository: &Repository, range: &str) -> Command {
    command_in("json", repository, range)
}

fn command_in(format: &str, repository: &Repository, range: &str) -> Command {
    let mut command = Command::new(WHYSLOW);
    let (run, out) = (run(), repository.cache.with_file_name("search"));
    command.args(["bisect", range, "--build", BUILD, "--run", &run, "--out", out.to_str().unwrap()]);
    command
        .args(SMALL.split(' '))
        .args(["--format", format])
        .current_dir(&repository.folder)
        .env("WHYSLOW_CACHE", &repository.cache);
    command
}

#[test]
fn the_commit_is_named_and_an_interrupted_search_goes_on() {
    let repository = history();
    let state = repository.cache.with_file_name("search").join("bisect.json");
    let known = || {
        let text = std::fs::read_to_string(&state).unwrap_or_default();
        serde_json::from_str::<serde_json::Value>(&text).unwrap_or_default()
    };
    let mut begun =
        command(&repository, "good..main").stdout(Stdio::null()).stderr(Stdio::piped()).spawn().unwrap();
    let compared =
        within(ENDS_LIMIT, || known()["ends"][0].is_object() || begun.try_wait().unwrap().is_some());
    assert!(compared && known()["ends"][0]["answer"] == "bad", "{}", known());
    kill_process(Pid::from_child(&begun), Signal::INT).unwrap();
    let interrupted = Printed::from_output(begun.wait_with_output().unwrap());
    assert_eq!(interrupted.code, Some(1), "{interrupted:?}");
    assert!(
        interrupted.err.ends_with("error: interrupted: the same command goes on from here\n"),
        "{interrupted:?}"
    );
    // The fourth is the middle: the first comparison asks about it, too, and goes on without it.
    let ends = known()["ends"].clone();
    let broken = repository.git(&["rev-parse", "main~5"]);
    assert_eq!([&ends[1]["commit"], &ends[1]["answer"]], [broken.as_str(), "broken"], "{ends}");
    let failed = format!("'{}' failed: the build command 'sh -c cp fault ", &broken[..10]);
    let log = interrupted.err.split_once(&failed).expect(&interrupted.err).1;
    assert!(log.contains("; its log ends:\n    cp: "), "{log}");

    let printed = Printed::from_output(command(&repository, "good..main").output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(!printed.err.contains("ends: "), "the ends are not compared again: {}", printed.err);
    assert!(!printed.err.contains("this search ended before"), "{}", printed.err);
    let json = printed.json();
    assert_schema("bisect", &json);
    let hash: String = repository.git(&["rev-parse", "main~3"]);
    let commit = &json["commit"];
    assert_eq!((&commit["hash"], &commit["subject"]), (&hash.clone().into(), &"number 6".into()), "{json}");
    assert_eq!(commit["files"], serde_json::json!(["fault", "number"]));
    assert_eq!((&json["commits"], &json["most_steps"]), (&9.into(), &4.into()));
    let steps = json["steps"].as_array().unwrap();
    assert_eq!(&steps[..2], &ends.as_array().unwrap()[..]);
    let passed: Vec<_> = steps.iter().filter(|step| step["answer"] == "broken").collect();
    assert!(passed.len() == 1 && passed[0]["commit"] == broken.as_str(), "{json}");
    // The last comparison holds both commits that it can be, each against the one before it that was built.
    let numbers: Vec<u64> = steps.iter().filter_map(|step| step["comparison"].as_u64()).collect();
    assert_eq!((&numbers[..], &json["comparisons"]), (&[1, 1, 2, 3, 4, 4][..], &4.into()), "{json}");
    let last = steps.last().unwrap();
    assert!(last["against"] == commit["parent"] && last["ci_low"].as_f64().unwrap() > 1.5, "{last}");
    let text = json["text"].as_str().unwrap();
    assert!(
        text.contains("  number 6\n") && text.contains("x dearer [") && text.contains("   fault\n"),
        "{text}"
    );
    assert_kept(&repository, &state, &printed, &hash);
}

/// What is known is not measured again; a search for something else does not take it for its own.
fn assert_kept(repository: &Repository, state: &Path, printed: &Printed, hash: &str) {
    let again = Printed::from_output(command(repository, "good..main").output().unwrap());
    assert_eq!((again.code, &again.out), (Some(0), &printed.out), "{again:?}");
    assert!(again.err.contains("this search ended before: its result is read from "), "{again:?}");
    let page = Printed::from_output(command_in("md", repository, "good..main").output().unwrap());
    let row = format!("| {} | ", &hash[..10]);
    assert!(page.code == Some(0) && page.out.contains(&row) && page.out.contains("- fault\n"), "{page:?}");
    let other =
        Printed::from_output(command(repository, "good..main").args(["--metric", "rss"]).output().unwrap());
    assert_eq!(other.code, Some(2), "{other:?}");
    assert!(
        other.err.contains("holds a search with other flags: choose another folder with --out"),
        "{other:?}"
    );
    // Nor is one that an earlier version kept, where every comparison was of two commits.
    let text = std::fs::read_to_string(state).unwrap();
    std::fs::write(state, text.replace("\"schema\": 2", "\"schema\": 1")).unwrap();
    let old = Printed::from_output(command(repository, "good..main").output().unwrap());
    let message = "holds a search of another version of whyslow: choose another folder with --out";
    assert!(old.code == Some(2) && old.err.contains(message), "{old:?}");
}

#[test]
fn ends_that_do_not_differ_are_told_and_nothing_is_searched() {
    let repository = history();
    let printed = Printed::from_output(command(&repository, "good..main~4").output().unwrap());
    assert_eq!(printed.code, Some(4), "{printed:?}");
    let json = printed.json();
    assert!(json["cannot_tell"].as_str().unwrap().contains("was not shown to be slower than"), "{json}");
    assert_eq!((&json["comparisons"], &json["commit"]), (&1.into(), &serde_json::Value::Null));
}

#[test]
fn an_end_that_does_not_build_is_told_before_anything_is_measured() {
    let repository = history();
    let broken = repository.git(&["rev-parse", "--short=10", "main~5"]);
    let printed = Printed::from_output(command(&repository, "good..main~5").output().unwrap());
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let said =
        format!("error: '{broken}' failed, and nothing can be compared without it: the build command ");
    assert!(printed.err.contains(&said) && printed.err.contains("; its log ends:\n    cp: "), "{printed:?}");
    // The commit halfway, which is compared with the ends, would be built for nothing.
    let built = printed.err.lines().filter(|line| line.starts_with("building ")).count();
    assert_eq!(built, 2, "{printed:?}");
    let rounds = repository.cache.with_file_name("search").join("ends/rounds");
    assert_eq!(std::fs::read_dir(rounds).map_or(0, Iterator::count), 0);
}

#[test]
fn a_broken_commit_beside_the_slow_one_leaves_a_range_that_is_compared() {
    let repository = Repository::new();
    repository.git(&["branch", "good"]);
    for (number, fault) in [(1, Some("none\n")), (2, None), (3, Some("busy\n"))] {
        match fault {
            Some(fault) => repository.write("fault", fault),
            None => std::fs::remove_file(repository.folder.join("fault")).unwrap(),
        }
        repository.write("number", &format!("{number}\n"));
        repository.commit(&format!("number {number}"));
    }
    let printed = Printed::from_output(command(&repository, "good..main").output().unwrap());
    assert_eq!(printed.code, Some(4), "{printed:?}");
    let json = printed.json();
    assert_schema("bisect", &json);
    let [good, bad] = ["main~2", "main"].map(|name| repository.git(&["rev-parse", name]));
    assert_eq!(json["between"], serde_json::json!([good, bad]), "{json}");
    let last = json["steps"].as_array().unwrap().last().unwrap();
    assert_eq!(
        (&last["against"], &last["commit"], &last["answer"]),
        (&good.clone().into(), &bad.clone().into(), &"bad".into())
    );
    let text = json["text"].as_str().unwrap();
    let head = format!("between {} and {} (2 commits): ", &good[..10], &bad[..10]);
    assert!(
        text.starts_with(&head) && text.contains("  number 2: could not be built or started\n"),
        "{text}"
    );
}

#[test]
fn what_is_no_search_is_refused() {
    let repository = history();
    let outside =
        Command::new(WHYSLOW).args(["bisect", "a..b", "--run", "./s {port}"]).current_dir("/").output();
    let outside = Printed::from_output(outside.unwrap());
    assert_eq!(outside.err, "error: / is in no git repository: go to a folder that is\n");
    let unnamed = repository.whyslow(&["bisect", "good..main"]);
    let good = &repository.git(&["rev-parse", "good"])[..10];
    assert!(unnamed.err.contains(&format!("'{good}' comes from git: say how it is started")), "{unnamed:?}");
    let flags = ["--run", "./s {port}"];
    for (args, message) in [
        (&["main"][..], "'main' is not a range: write GOOD..BAD"),
        (&["good...main"], "is not a range: write GOOD..BAD"),
        (&["good..nowhere"], "there is no revision 'nowhere'"),
        (&["main..good"], "has no commit that main ("),
        (&["main..main"], "are the same commit: name two, the earlier one first"),
        (&["good..main", "--metric", "p42"], "--metric 'p42': write cpu_per_request"),
        (&["good..main", "--metric", "p99", "--equal-rates", "none"], "this run does not compare it"),
        (&["good..main", "--fail-if", "after slower"], "has no use for --fail-if"),
        (&["good..main", "a=./s {port}"], "has no use for more arms"),
    ] {
        let printed = repository.whyslow(&[&["bisect"], args, &flags].concat());
        assert!(printed.code == Some(2) && printed.err.contains(message), "{args:?}: {printed:?}");
    }
    let listed = repository.whyslow(&[&["bisect", "good..main", "--list"][..], &flags].concat());
    assert!(
        listed.code == Some(0) && listed.out.starts_with("9 commits, at most 4 comparisons"),
        "{listed:?}"
    );
    assert!(!repository.folder.join("whyslow-runs").exists(), "nothing was begun");
    assert!(whyslow(&["bisect", "--help"]).out.contains("GOOD..BAD"));
}

#[test]
fn a_shallow_clone_is_told_to_fetch_its_history() {
    let repository = history();
    let origin = format!("file://{}", repository.folder.display());
    let clone =
        Repository { folder: repository.cache.with_file_name("clone"), cache: repository.cache.clone() };
    let folder = clone.folder.to_str().unwrap().to_owned();
    repository.git(&["clone", "--quiet", "--depth", "2", &origin, &folder]);
    let listed = |range: &str| clone.whyslow(&["bisect", range, "--run", "./s {port}", "--list"]);
    let message = "this clone is shallow";
    // The earlier end is not there; then it is, as CI fetches it, and what lies between is not.
    let printed = listed("origin/good..main");
    assert!(printed.code == Some(2) && printed.err.contains(message), "{printed:?}");
    clone.git(&["fetch", "--quiet", "--depth", "1", "origin", "good:good"]);
    let printed = listed("good..main");
    assert!(printed.code == Some(2) && printed.err.contains(message), "{printed:?}");
    // The same of an arm of a comparison.
    for name in ["HEAD~5", "origin/side"] {
        let arm = format!("base=git:{name}");
        let printed = clone.whyslow(&["compare", &arm, "head=git:HEAD", "--run", "./s {port}", "--list"]);
        let want = format!("{message} and has no revision '{name}': run `git fetch --unshallow --tags`");
        assert!(printed.code == Some(2) && printed.err.contains(&want), "{printed:?}");
    }
    // Two ends of which all is there need no more.
    let printed = listed("main~1..main");
    assert!(printed.code == Some(0) && printed.out.starts_with("1 commit,"), "{printed:?}");
    clone.git(&["fetch", "--quiet", "--unshallow", "origin"]);
    let printed = listed("good..main");
    assert!(printed.code == Some(0) && printed.out.starts_with("9 commits"), "{printed:?}");
}
