//! Arms from git: what is built is what was committed or lies there, once, and the repository is as it was.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use model::record::RunDir;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{FIXTURE, Printed, SHORT, WHYSLOW, assert_schema, fresh_folder, within};

/// Until a crowded machine has begun a build.
const BUILD_LIMIT: Duration = Duration::from_secs(60);

/// A repository whose files say how its server answers, and a cache beside it.
pub(crate) struct Repository {
    pub(crate) folder: PathBuf,
    pub(crate) cache: PathBuf,
}

/// Copies what the server reads, so that a server without a build does not start.
pub(crate) const BUILD: &str = "cp fault {build}/fault && wc -l < more >> {build}/fault";

impl Repository {
    /// One commit, on the branch `main`, with a server that has no fault.
    pub(crate) fn new() -> Self {
        let root = fresh_folder();
        let repository = Self { folder: root.join("repository"), cache: root.join("cache") };
        std::fs::create_dir(&repository.folder).unwrap();
        repository.git(&["init", "--quiet", "--initial-branch", "main"]);
        repository.write("fault", "none\n");
        repository.write("more", "");
        repository.write(".gitignore", "ignored\n");
        // An archive would leave this out; a checkout has it.
        repository.write(".gitattributes", "more export-ignore\n");
        repository.commit("first");
        repository
    }

    pub(crate) fn write(&self, file: &str, text: &str) {
        std::fs::write(self.folder.join(file), text).unwrap();
    }

    pub(crate) fn commit(&self, message: &str) {
        self.git(&["add", "--all"]);
        self.git(&["-c", "user.name=a", "-c", "user.email=a@b", "commit", "--quiet", "-m", message]);
    }

    pub(crate) fn git(&self, args: &[&str]) -> String {
        let printed =
            Printed::from_output(Command::new("git").args(args).current_dir(&self.folder).output().unwrap());
        assert_eq!(printed.code, Some(0), "git {args:?}: {printed:?}");
        printed.out.trim_end().to_owned()
    }

    pub(crate) fn whyslow(&self, args: &[&str]) -> Printed {
        let mut command = Command::new(WHYSLOW);
        // As a hook of the repository would have it.
        command.args(args).current_dir(&self.folder).env("WHYSLOW_CACHE", &self.cache);
        Printed::from_output(command.env("GIT_INDEX_FILE", "/nowhere/index").output().unwrap())
    }

    fn compare(&self, out: &str, args: &[&str]) -> Printed {
        let out = self.cache.with_file_name(out);
        let run = run();
        let head = ["compare", "--run", &run, "--equal-rates", "none", "--no-why", "--format", "json"];
        self.whyslow(&[&head[..], &SHORT, args, &["--out", out.to_str().unwrap()]].concat())
    }

    /// Every file of the repository with its bytes, git's own among them.
    fn everything(&self) -> BTreeMap<PathBuf, Vec<u8>> {
        let mut found = BTreeMap::new();
        let mut folders = vec![self.folder.clone()];
        while let Some(folder) = folders.pop() {
            for entry in std::fs::read_dir(folder).unwrap() {
                let path = entry.unwrap().path();
                match path.is_dir() {
                    true => folders.push(path),
                    false => drop(found.insert(path.clone(), std::fs::read(path).unwrap())),
                }
            }
        }
        found
    }
}

/// A server with the fault that was built.
pub(crate) fn run() -> String {
    format!("sh -c 'exec {FIXTURE} {{port}} $(head -1 {{build}}/fault)'")
}

#[test]
fn a_branch_and_the_work_tree_are_built_once_and_the_repository_is_not_touched() {
    let repository = Repository::new();
    repository.write("fault", "header\n");
    repository.write("untracked", "new\n");
    repository.write("ignored", "not part of it\n");
    let before = repository.everything();
    let arms = ["main=git:main", "pr=git:.", "--build", BUILD, "--allow-difference"];
    let printed = repository.compare("first", &arms);
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    assert!(printed.err.starts_with("building main\nbuilding pr\nrun kept in "), "{printed:?}");
    assert_eq!(repository.everything(), before);

    let json = printed.json();
    assert_schema("compare", &json);
    let [main, pr] = [&json["arms"][0], &json["arms"][1]].map(|arm| arm["revision"].clone());
    let head = repository.git(&["rev-parse", "HEAD"]);
    let tree = repository.git(&["rev-parse", "HEAD^{tree}"]);
    assert_eq!((&main["commit"], &main["tree"]), (&head.clone().into(), &tree.into()), "{main}");
    assert_eq!((&pr["commit"], &pr["changed"]), (&head.into(), &true.into()), "{pr}");
    assert_ne!(main["tree"], pr["tree"]);
    let parity = json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "parity").unwrap();
    assert!(parity["text"].as_str().unwrap().contains("x-padding"), "each ran its own files: {parity}");

    let run = RunDir::open(&repository.cache.with_file_name("first")).read().unwrap();
    let changes: Vec<_> = run.manifest.changes.iter().map(|change| (&*change.arm, &*change.diff)).collect();
    let [("pr", diff)] = changes[..] else { panic!("{changes:?}") };
    assert!(diff.contains("\n-none\n+header\n") && !diff.contains("ignored"), "{diff}");
    let arm = &run.manifest.plan.arms[1];
    let checkout = Path::new(&arm.source.revision().unwrap().checkout);
    assert!(checkout.join("untracked").exists() && !checkout.join("ignored").exists());
    assert!(checkout.starts_with(&repository.cache));

    let again = repository.compare("second", &arms);
    assert!(again.err.starts_with("main was built before\npr was built before\nrun kept in "), "{again:?}");
    let other =
        repository.compare("third", &["a=git:HEAD", "b=git:main", "--build", "true; cp fault {build}"]);
    let printed =
        "a and b have the same files: what differs between them is chance\nbuilding a\nb was built before\n";
    assert!(other.err.starts_with(printed), "another command builds: {other:?}");
    let runs = repository.cache.parent().unwrap().to_str().unwrap();
    let printed =
        repository.whyslow(&["history", "main", "--runs", runs, "--metric", "rate", "--format", "json"]);
    let point = &printed.json()[0]["points"][0];
    assert_eq!(point["state"], main["commit"].as_str().unwrap()[..10], "which commit it was: {printed:?}");
    let leftovers = std::fs::read_dir(&repository.cache).unwrap().flatten();
    let leftovers: Vec<_> =
        leftovers.filter(|entry| entry.file_name().to_str().unwrap().starts_with("index")).collect();
    assert!(leftovers.is_empty(), "{leftovers:?}");
}

#[test]
fn what_an_earlier_build_left_in_the_work_tree_is_not_taken_along() {
    let repository = Repository::new();
    let program = |text: &str| [b"\x7fELF", text.as_bytes()].concat();
    std::fs::write(repository.folder.join("server"), program("built from other files")).unwrap();
    std::fs::write(repository.folder.join("known"), program("committed")).unwrap();
    repository.git(&["add", "known"]);
    repository.write("untracked", "new\n");
    let before = repository.everything();
    let build = "test -e untracked && test -e known && test ! -e server && cp fault {build}";
    let verify = ["compare", "main=git:.", "pr=git:.", "--run", &run(), "--build", build, "--verify"];
    let printed = repository.whyslow(&verify);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let said =
        "pr: git does not track server: the build begins without, and what it does not make is put back";
    assert!(printed.err.contains(said), "{printed:?}");
    assert_eq!(repository.everything(), before);
    // The build makes none of that name, or one of its own.
    let copy = "cp fault {build}";
    for (build, holds) in [
        (copy.to_owned(), "built from other files"),
        (format!("test ! -e server && {copy} && echo its own >server"), "its own"),
    ] {
        let run = format!("sh -c 'grep -q \"{holds}\" server && exec {FIXTURE} {{port}} none'");
        let args = ["compare", "main=git:.", "pr=git:.", "--run", &run, "--build", &build, "--verify"];
        let printed = repository.whyslow(&args);
        assert_eq!(printed.code, Some(0), "{build}: {printed:?}");
    }
}

#[test]
fn changes_in_a_submodule_are_said_not_to_be_measured() {
    let (repository, part) = (Repository::new(), Repository::new());
    let source = part.folder.to_str().unwrap();
    repository.git(&["-c", "protocol.file.allow=always", "submodule", "--quiet", "add", source, "part"]);
    repository.commit("with a part");
    let plan = ["compare", "main=git:main", "pr=git:.", "--run", &run(), "--list"];
    let printed = repository.whyslow(&plan);
    assert!(printed.code == Some(0) && !printed.err.contains("submodules"), "{printed:?}");
    repository.write("part/fault", "header\n");
    let printed = repository.whyslow(&plan);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let sentence = "pr: submodules are not in the checkout, and part has changes that are not measured\n";
    assert!(printed.err.starts_with(sentence), "{printed:?}");
}

#[test]
fn a_build_that_fails_says_its_last_lines_and_the_others_go_on() {
    let repository = Repository::new();
    repository.git(&["branch", "good"]);
    repository.write("fault", "broken\n");
    repository.commit("second");
    let build = "echo compiling; grep -q none fault || { echo no such type; exit 3; }; cp fault {build}";
    let arms = ["main=git:good", "pr=git:HEAD", "old=git:HEAD~1", "--build", build];
    for round in ["first", "second"] {
        let printed = repository.compare(round, &arms);
        assert_eq!(printed.code, Some(1), "{printed:?}");
        assert!(printed.err.contains("building pr\n"), "what failed is not taken for built: {printed:?}");
        let json = printed.json();
        let [main, pr, old] = [0, 1, 2].map(|arm| json["arms"][arm].clone());
        let error = pr["error"].as_str().unwrap();
        assert!(error.starts_with("the build command 'sh -c echo compiling;"), "{error}");
        assert!(error.ends_with("exited with code 3"), "{error}");
        assert_eq!(pr["log"], serde_json::json!(["compiling", "no such type"]));
        assert_eq!((&main["ok"], &old["ok"]), (&true.into(), &true.into()), "{json}");
    }
    let two = repository.compare("two", &["main=git:good", "pr=git:HEAD", "--build", build]);
    assert_eq!(two.code, Some(1), "{two:?}");
    let verify = ["compare", "main=git:good", "pr=git:HEAD", "--run", &run(), "--build", build, "--verify"];
    let printed = repository.whyslow(&verify);
    assert_eq!(
        (printed.code, printed.err.as_str()),
        (Some(1), "building pr\n"),
        "main was built before: {printed:?}"
    );
    let end = "exited with code 3; its log ends:\n    compiling\n    no such type\n";
    assert!(
        printed.out.contains("FAILED pr: it does not build: ") && printed.out.ends_with(end),
        "{printed:?}"
    );
}

#[test]
fn a_build_to_be_verified_that_is_stopped_leaves_no_log() {
    let repository = Repository::new();
    let temporary = fresh_folder();
    let begun = temporary.with_extension("begun");
    let build = format!("touch {} && exec sleep 60", begun.display());
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", "main=git:main", "pr=git:.", "--run", &run(), "--build", &build, "--verify"]);
    command.current_dir(&repository.folder).env("WHYSLOW_CACHE", &repository.cache).env("TMPDIR", &temporary);
    let mut child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    assert!(within(BUILD_LIMIT, || begun.exists() || child.try_wait().unwrap().is_some()));
    kill_process(Pid::from_child(&child), Signal::TERM).unwrap();
    let printed = Printed::from_output(child.wait_with_output().unwrap());
    let said = "building main\nerror: interrupted while 'main' was checked\n";
    assert!(printed.code == Some(1) && printed.err.ends_with(said), "{printed:?}");
    assert_eq!(
        std::fs::read_dir(&temporary).unwrap().count(),
        0,
        "something is left in {}",
        temporary.display()
    );
}

#[test]
fn a_folder_of_a_repository_is_built_and_run_where_it_is() {
    let repository = Repository::new();
    std::fs::create_dir(repository.folder.join("part")).unwrap();
    repository.write("part/fault", "none\n");
    repository.commit("a part");
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", "a=git:HEAD", "b=git:.", "--verify", "--build", "cp fault {build}/"]);
    command.args(["--run", &run(), "--format", "json"]).current_dir(repository.folder.join("part"));
    let printed = Printed::from_output(command.env("WHYSLOW_CACHE", &repository.cache).output().unwrap());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert_eq!(printed.json()[1]["ok"], true);
}

#[test]
fn what_cannot_be_had_is_refused_before_anything_is_started() {
    let repository = Repository::new();
    let run = run();
    let with_run = |arm: &'static str| vec!["compare", "main=git:main", arm, "--run", &run];
    let cases = [
        (with_run("pr=git:no-such"), "there is no revision 'no-such': name a branch, a tag or a commit"),
        (with_run("pr=git:--all"), "there is no revision '--all'"),
        (with_run("pr=git:"), "there is no revision ''"),
        (
            vec!["compare", "main=git:main", "pr=git:."],
            "'main' comes from git: say how it is started with --run",
        ),
        (vec!["compare", "--build", "make"], "--build is for arms from git"),
        (vec!["compare", "a=git:main", "b=git:.", "--run", "./s"], "the command of 'a' has no {port}"),
    ];
    for (args, want) in cases {
        let printed = repository.whyslow(&args);
        assert_eq!((printed.code, printed.out.as_str()), (Some(2), ""), "{args:?}: {printed:?}");
        assert!(printed.err.contains(want) && printed.err.lines().count() == 1, "{args:?}: {printed:?}");
    }
    let mut inside = Command::new(WHYSLOW);
    inside.args(with_run("pr=git:.")).current_dir(&repository.folder).env("WHYSLOW_CACHE", "target/cache");
    let printed = Printed::from_output(inside.output().unwrap());
    assert_eq!(printed.code, Some(2), "{printed:?}");
    assert!(printed.err.contains("lies inside the repository"), "{printed:?}");
    let mut outside = Command::new(WHYSLOW);
    outside.args(with_run("pr=git:.")).current_dir("/").env("WHYSLOW_CACHE", &repository.cache);
    let printed = Printed::from_output(outside.output().unwrap());
    assert_eq!(printed.code, Some(2), "{printed:?}");
    assert!(printed.err.contains("/ is in no git repository"), "{printed:?}");
    let mut foreign = Command::new(WHYSLOW);
    foreign
        .args(with_run("pr=git:."))
        .current_dir(&repository.folder)
        .env("WHYSLOW_CACHE", &repository.cache);
    // As where the repository is another user's. Source: git's setup.c, ensure_valid_ownership.
    let printed = Printed::from_output(foreign.env("GIT_TEST_ASSUME_DIFFERENT_OWNER", "1").output().unwrap());
    let want =
        "which belongs to another user: if you trust it, run `git config --global --add safe.directory ";
    assert!(printed.code == Some(2) && printed.err.contains(want), "{printed:?}");
}

/// The repository with the example of the documentation in it.
fn example() -> Repository {
    let repository = Repository::new();
    for file in ["service.c", "whyslow.toml"] {
        let text =
            std::fs::read_to_string(crate::support::repository(&format!("docs/examples/service/{file}")));
        repository.write(file, &text.unwrap());
    }
    repository.commit("the example");
    repository
}

#[test]
fn the_example_made_slower_by_a_commit_is_said_to_be_slower() {
    let repository = example();
    let source = std::fs::read_to_string(repository.folder.join("service.c")).unwrap();
    let slower = source.replace("#define TERMS 1000\n", "#define TERMS 100000\n");
    assert_ne!(slower, source);
    repository.git(&["checkout", "--quiet", "-b", "pr"]);
    repository.write("service.c", &slower);
    repository.commit("sum more");
    let out = repository.cache.with_file_name("run");
    let short = ["--quick", "--cycles", "4", "--equal-rates", "none", "--no-why", "--format", "json"];
    let args = ["compare", "main=git:main", "pr=git:.", "--out", out.to_str().unwrap()];
    let printed = repository.whyslow(&[&args[..], &short, &["--fail-if", "pr rss > 1GiB"]].concat());
    assert_eq!(printed.code, Some(3), "fail_if of the file: {printed:?}");
    let json = printed.json();
    let judged = json["fail_if"].as_array().unwrap().iter().map(|one| &one["condition"]);
    assert_eq!(judged.collect::<Vec<_>>(), ["pr rss > 1GiB", "pr slower"], "both apply");
    assert_schema("compare", &json);
    let row = &json["comparisons"][0];
    assert_eq!((&row["metric"], &row["verdict"]), (&"cpu_per_request".into(), &"slower".into()), "{row}");
    assert_eq!(json["arms"][1]["revision"]["changed"], false, "the work tree is what was committed");
    let workload = json["workload"].as_str().unwrap();
    assert!(workload.starts_with("GET /mean "), "{workload}");
}

#[test]
fn conditions_of_the_file_are_for_the_arms_that_they_name() {
    let repository = example();
    let refused = "fail_if in whyslow.toml does not fit this comparison: --fail-if 'pr slower' names no arm";
    let elsewhere =
        "fail_if in whyslow.toml: 'pr slower' names an arm that is not compared here, and is not judged";
    let cases: [(&[&str], i32, &str); 5] = [
        (&["compare", "main=git:main", "pr=git:."], 0, ""),
        (&["compare", "base=git:main", "head=git:."], 2, refused),
        (&["compare", "base=git:main", "head=git:.", "--fail-if", "head slower"], 0, elsewhere),
        (&["ladder", "git:main~1", "--steps", "main"], 0, ""),
        (&["bisect", "main~1..main"], 0, ""),
    ];
    for (args, code, want) in cases {
        let printed = repository.whyslow(&[args, &["--list"]].concat());
        assert!(printed.code == Some(code) && printed.err.contains(want), "{args:?}: {printed:?}");
    }
    let typed = repository.whyslow(&["bisect", "main~1..main", "--fail-if", "after slower"]);
    assert!(typed.code == Some(2) && typed.err.contains("has no use for --fail-if"), "{typed:?}");
}

#[test]
fn a_file_that_is_wrong_is_one_sentence_and_flags_go_before_it() {
    let repository = example();
    let plan = |more: &[&str]| {
        let args = ["compare", "main=git:main", "pr=git:.", "--list", "--format", "json"];
        repository.whyslow(&[&args[..], more].concat())
    };
    let printed = plan(&["--path", "/other", "--run", "./x {port}"]);
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    assert_eq!((&json["workload"]["path"], &json["arms"][0]["run"][0]), (&"/other".into(), &"./x".into()));
    assert_eq!(json["arms"][0]["build"][0][2], "cc -O2 -pthread -o {build}/service service.c");
    let other = repository.whyslow(&["compare", "threads", "futures", "--list", "--format", "json"]);
    assert_eq!(other.json()["workload"]["path"], "/", "the file is for arms of its repository");
    repository.write("whyslow.toml", "biuld = 'make'\n");
    let printed = plan(&[]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
    assert!(printed.err.contains("there is no key 'biuld': did you mean 'build'?"), "{printed:?}");
    let printed = plan(&["--config", "no-such.toml"]);
    assert_eq!(printed.code, Some(2), "{printed:?}");
    assert!(printed.err.contains("cannot read ") && printed.err.contains("no-such.toml"), "{printed:?}");
}
