//! `target.toml`: those of the repository, and what is said of bad ones.

use std::path::{Path, PathBuf};

use model::plan::{ArmSource, PlanError, Service, TargetFile};

const GOOD: &str = r#"
name = "x"
language = "c"
about = "A server."
path = "/plaintext"
run = ["{build}/x", "{port}"]
build = [["make"]]
env = { A = "1" }

[expect]
body = "Hello, World!"

[[variant]]
name = "args"
args = ["--fast"]

[[variant]]
name = "built"
build = [["make", "lto"]]
run = ["{build}/lto", "{port}"]
env = { B = "2" }
warmup = "jit"
"#;

/// Every target file of the repository.
fn files() -> Vec<PathBuf> {
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../targets");
    let entries = std::fs::read_dir(folder).unwrap().map(|entry| entry.unwrap().path());
    entries.map(|dir| dir.join("target.toml")).filter(|file| file.exists()).collect()
}

fn read(file: &Path) -> TargetFile {
    TargetFile::parse(&file.display().to_string(), &std::fs::read_to_string(file).unwrap()).unwrap()
}

#[test]
fn every_target_of_the_repository_is_whole() {
    let files = files();
    assert!(files.len() >= 20, "only {} target files were found", files.len());
    for file in files {
        let target = read(&file);
        let folder = file.parent().unwrap().file_name().unwrap().to_str().unwrap();
        assert_eq!(target.name, folder, "a target has the name of its folder");
        assert!(target.path.starts_with('/'), "{folder}: {}", target.path);
        assert!(target.expect.body.is_some(), "{folder} says no body: its answers could be anything");
        let variants = target.variants.iter().map(|variant| Some(variant.name.as_str()));
        for variant in std::iter::once(None).chain(variants) {
            let arm = target.arm(variant, "/t/x", "/t/.build").unwrap();
            assert_eq!(arm.validate(), Ok(()), "{}", arm.name);
            let words: String = arm.run.join(" ") + &arm.env.values().cloned().collect::<String>();
            assert!(words.contains("{port}"), "{}: the port must reach the server", arm.name);
        }
    }
}

#[test]
fn the_plain_arm_is_what_the_file_says() {
    let arm = TargetFile::parse("x", GOOD).unwrap().arm(None, "/t/x", "/t/.build").unwrap();
    assert_eq!(arm.name, "x");
    assert_eq!(arm.source, ArmSource::Target { name: "x".to_owned(), variant: None });
    assert_eq!(arm.run, ["{build}/x", "{port}"]);
    assert_eq!((arm.dir.as_deref(), arm.build_dir.as_deref()), (Some("/t/x"), Some("/t/.build/x/plain")));
    assert_eq!((arm.expect.status, arm.expect.body.as_deref()), (200, Some("Hello, World!")));
}

#[test]
fn a_variant_adds_arguments_and_shares_the_plain_build() {
    let arm = TargetFile::parse("x", GOOD).unwrap().arm(Some("args"), "/t/x", "/t/.build").unwrap();
    assert_eq!(arm.name, "x@args");
    assert_eq!(arm.run, ["{build}/x", "{port}", "--fast"]);
    assert_eq!(arm.build, [["make"]]);
    assert_eq!(arm.build_dir.as_deref(), Some("/t/.build/x/plain"));
}

#[test]
fn a_variant_with_a_build_of_its_own_has_a_folder_of_its_own() {
    let arm = TargetFile::parse("x", GOOD).unwrap().arm(Some("built"), "/t/x", "/t/.build").unwrap();
    assert_eq!(arm.build, [["make", "lto"]]);
    assert_eq!(arm.build_dir.as_deref(), Some("/t/.build/x/built"));
    assert_eq!(arm.run, ["{build}/lto", "{port}"]);
    assert_eq!(
        arm.env.into_iter().collect::<Vec<_>>(),
        [("A", "1"), ("B", "2")].map(|(k, v)| (k.to_owned(), v.to_owned()))
    );
    assert_eq!(arm.warmup, model::plan::WarmupClass::Jit);
}

#[test]
fn a_variant_may_have_a_path_and_an_answer_of_its_own() {
    let text = format!("{GOOD}\n[[variant]]\nname = \"db\"\npath = \"/db\"\nexpect = {{ status = 201 }}");
    let target = TargetFile::parse("x", &text).unwrap();
    let expect = |variant| target.arm(variant, "/t/x", "/t/.build").unwrap().expect;
    assert_eq!((target.path(None), target.path(Some("args"))), (Ok("/plaintext"), Ok("/plaintext")));
    assert_eq!(target.path(Some("db")), Ok("/db"));
    assert_eq!((expect(Some("db")).status, expect(Some("db")).body), (201, None));
    assert_eq!(expect(Some("args")).body.as_deref(), Some("Hello, World!"));
    assert!(target.path(Some("lto")).is_err());
}

#[test]
fn services_of_target_files_are_those_of_the_plan_each_once() {
    let with = |name: &str, service: &str| {
        let text =
            format!("{GOOD}\n[service.db]\n{service}").replace("name = \"x\"", &format!("name = \"{name}\""));
        TargetFile::parse(name, &text).unwrap().arm(None, &format!("/t/{name}"), "/t/.build").unwrap()
    };
    let shared = "folder = \"../common\"\nrun = \"db {port}\"";
    let same = [with("x", shared), with("y", shared)];
    let all = Service::of_all(&[], &same).unwrap();
    assert_eq!(all.len(), 1);
    assert_eq!((all[0].name.as_str(), all[0].folder.as_str()), ("db", "/t/common"));
    // Without a folder of its own it is started in that of its target, which differs.
    let other = [with("x", "run = \"db {port}\""), with("y", "run = \"db {port}\"")];
    let refused = Service::of_all(&[], &other).unwrap_err().to_string();
    assert_eq!(
        refused,
        "two arms need different services called 'db': compare arms whose target files say the same of it"
    );
    assert!(Service::of_all(&all, &other[..1]).is_err(), "one of whyslow.toml may not be another one either");
}

#[test]
fn an_unknown_variant_is_told_those_there_are() {
    let target = TargetFile::parse("x", GOOD).unwrap();
    let refused = target.arm(Some("lto"), "", "").unwrap_err();
    assert_eq!(refused.to_string(), "target 'x' has no variant 'lto': it has args, built");
    let plain = TargetFile { variants: Vec::new(), ..target };
    let refused = plain.arm(Some("lto"), "", "").unwrap_err();
    assert_eq!(refused.to_string(), "target 'x' has no variant 'lto': it has none");
}

#[test]
fn a_bad_file_is_named_with_what_is_wrong() {
    let cases = [
        (GOOD.replace("language", "lang"), "lang"),
        (GOOD.replace("name = \"x\"\n", ""), "name"),
        (GOOD.replace("run = [\"{build}/x\", \"{port}\"]", "run = []"), "'run' is empty"),
        (format!("ladder = [\"up\"]\n{GOOD}"), "'ladder' names 'up', which is no variant"),
        (
            format!("{GOOD}\n[[variant]]\nname = \"b\"\nalone = \"up\""),
            "'alone' names 'up', which is no variant",
        ),
        (
            format!("{GOOD}\n[[variant]]\nname = \"b\"\nremoves = [\"allocations\"]"),
            "no cause is called 'allocations': did you mean 'allocation'?",
        ),
        (GOOD.replace("path = \"/plaintext\"", "path = 3"), "line 5"),
        (GOOD.replace("body", "status = 99999\nbody"), "99999"),
        (format!("{GOOD}\n[service.db]\nrun = \"db\""), "the command of service 'db' has no {port}"),
        ("name = ".to_owned(), "line 1"),
    ];
    for (text, want) in cases {
        let refused = TargetFile::parse("targets/x/target.toml", &text).unwrap_err();
        assert!(matches!(refused, PlanError::TargetFile { .. }), "{refused}");
        let refused = refused.to_string();
        assert!(refused.starts_with("targets/x/target.toml: "), "{refused}");
        assert!(refused.contains(want), "'{want}' is not in: {refused}");
    }
}
