//! `cases/*.toml`: those of the repository, what is said of bad ones, and how they are fitted to a machine.

use std::path::{Path, PathBuf};

use model::plan::{CaseFile, Condition, HostLimits, Size, TargetFile};

/// Servers that need no target file.
const BUILT_IN: [&str; 3] = ["threads", "futures", "coroutines"];

const GOOD: &str = r#"
name = "x"
question = "Which?"
source = "a document"
open = "why"

[published]
machine = "a machine"
server_cpus = 4
command = "wrk -c 1000"

[workload]
path = "/"
connections = 1000

[[comparison]]
id = "c"
question = "which?"
arms = ["a", "b"]
rates = [25]

[[figure]]
id = "fa"
system = "A"
arm = "a"
rate_per_s = 2.0

[[figure]]
id = "fb"
system = "B"
arm = "b"
rate_per_s = 1.0

[[figure]]
id = "bare"
system = "C"

[[profile]]
id = "p"
arm = "a"
lines = [{ what = "copying", percent = 5.0, functions = ["memcpy"] }]

[[claim]]
text = "a is faster"
rule = { kind = "ratio", comparison = "c", figure = "fa", against = "fb", within = 2.0 }
"#;

fn good() -> CaseFile {
    CaseFile::parse("x.toml", GOOD).unwrap()
}

fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

#[test]
fn every_case_of_the_repository_is_whole() {
    let entries = std::fs::read_dir(repository("cases")).unwrap();
    let files: Vec<PathBuf> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path| path.extension().is_some_and(|extension| extension == "toml"))
        .collect();
    assert!(files.len() >= 5, "only {} cases were found", files.len());
    for file in files {
        let case =
            CaseFile::parse(&file.display().to_string(), &std::fs::read_to_string(&file).unwrap()).unwrap();
        assert_eq!(Some(case.name.as_str()), file.file_stem().unwrap().to_str());
        assert_eq!(
            case.claims.is_empty(),
            case.figures.is_empty(),
            "{}: figures are there to be claimed",
            case.name
        );
        for arm in case.arms() {
            let (name, variant) =
                arm.split_once('@').map_or((arm, None), |(name, variant)| (name, Some(variant)));
            if BUILT_IN.contains(&arm) {
                continue;
            }
            let target = repository("targets").join(name).join("target.toml");
            let text =
                std::fs::read_to_string(&target).unwrap_or_else(|_| panic!("{}: no target {arm}", case.name));
            let target = TargetFile::parse(arm, &text).unwrap();
            target.arm(variant, "/t", "/b").unwrap();
            let path = |comparison| case.path(comparison) == target.path(variant).unwrap();
            let own = |variant: &str| target.path(Some(variant)).unwrap() != target.path;
            if variant.is_some_and(own) {
                let mut paths =
                    case.comparisons.iter().filter(|one| one.arms.iter().any(|other| other == arm));
                assert!(paths.all(path), "{}: {arm} is asked for another path than its own", case.name);
            }
        }
    }
}

#[test]
fn what_is_wrong_with_a_case_is_said_in_one_line() {
    assert_eq!(good().arms(), ["a", "b"]);
    let spoilt = [
        (
            "[[figure]]\nid = \"fa\"",
            "[[tolerate]]\narm = \"z\"\ncheck = \"close\"\nreason = \"so\"\n[[figure]]\nid = \"fa\"",
            "[[tolerate]] names the arm 'z'",
        ),
        ("connections = 1000\n", "connections = \"many\"\n", "invalid type"),
        ("question = \"which?\"", "questions = \"which?\"", "unknown field `questions`"),
        ("arms = [\"a\", \"b\"]", "arms = [\"a\"]", "comparison 'c' has fewer than two arms"),
        ("rates = [25]", "capacity = false", "comparison 'c' has neither capacity nor rates"),
        ("arm = \"b\"\nrate", "arm = \"z\"\nrate", "figure 'fb' names the arm 'z', which no comparison has"),
        ("figure = \"fa\"", "figure = \"fz\"", "a claim names the unknown figure 'fz'"),
        ("figure = \"fa\"", "figure = \"bare\"", "figure 'bare' has no arm to measure it with"),
        ("comparison = \"c\"", "comparison = \"d\"", "there is no comparison 'd'"),
        ("rate_per_s = 2.0\n", "", "figure 'fa' has no rate_per_s, which a ratio needs"),
        ("within = 2.0", "within = 0.5", "'within' is 0.5: it is a factor of at least 1"),
        ("kind = \"ratio\"", "kind = \"guess\"", "unknown variant `guess`"),
    ];
    for (from, to, want) in spoilt {
        assert!(GOOD.contains(from), "{from}");
        let error = CaseFile::parse("x.toml", &GOOD.replacen(from, to, 1)).unwrap_err().to_string();
        assert!(error.starts_with("x.toml: ") && error.contains(want), "{to}: {error}");
        assert_eq!(error.lines().count(), 1, "{error}");
    }
    let share = "rule = { kind = \"share\", profile = \"p\", line = \"copying\", within = 2.0 }";
    let claimed = format!("{GOOD}\n[[claim]]\ntext = \"copies\"\n{share}\n");
    assert!(CaseFile::parse("x.toml", &claimed).is_ok());
    for (from, to, want) in [
        ("profile = \"p\"", "profile = \"q\"", "unknown profile 'q'"),
        ("line = \"copying\"", "line = \"z\"", "profile 'p' has no line 'z'"),
    ] {
        let error = CaseFile::parse("x.toml", &claimed.replace(from, to)).unwrap_err().to_string();
        assert!(error.contains(want), "{error}");
    }
}

/// A machine with room for everything.
const ROOMY: HostLimits = HostLimits { server_cpus: 4, load_cpus: 4, descriptors: 1 << 20, ports: 60_000 };

#[test]
fn connections_are_fitted_to_the_machine_and_it_is_said() {
    // Published connections, rule, machine, size; connections here, and whether that is a change to tell.
    let table: [(u32, &str, HostLimits, Size, u32, bool); 9] = [
        (1000, "keep", ROOMY, Size::Full, 1000, false),
        (1000, "per_cpu", ROOMY, Size::Full, 1000, false),
        (1000, "per_cpu", HostLimits { server_cpus: 1, ..ROOMY }, Size::Full, 250, true),
        (1000, "keep", HostLimits { server_cpus: 1, ..ROOMY }, Size::Quick, 1000, false),
        (100, "per_cpu", HostLimits { server_cpus: 1, ..ROOMY }, Size::Full, 64, true),
        (20, "per_cpu", HostLimits { server_cpus: 1, ..ROOMY }, Size::Full, 20, false),
        (
            10_000,
            "keep",
            HostLimits { descriptors: 20_000, ports: 28_232, ..ROOMY },
            Size::Full,
            10_000,
            false,
        ),
        (10_000, "keep", HostLimits { descriptors: 1024, ..ROOMY }, Size::Full, 960, true),
        (10_000, "keep", HostLimits { ports: 1256, ..ROOMY }, Size::Smoke, 64, true),
    ];
    for (published, rule, host, size, want, changes) in table {
        let text =
            GOOD.replace("connections = 1000", &format!("connections = {published}\nscale = \"{rule}\""));
        let case = CaseFile::parse("x.toml", &text).unwrap();
        let fitted = case.fit(&case.comparisons[0], &host, size);
        assert_eq!(fitted.connections, want, "{published} {rule} {host:?}");
        let says = fitted.changes.iter().any(|change| change.contains(&format!("instead of {published}")));
        assert_eq!(says, changes, "{published} {rule} {host:?}: {:?}", fitted.changes);
        let cores = fitted.changes.iter().any(|change| change.contains("rates are compared per core"));
        assert_eq!(cores, host.server_cpus != 4, "{:?}", fitted.changes);
    }
}

#[test]
fn conditions_and_design_follow_the_comparison_and_the_size() {
    let case = good();
    let fitted = case.fit(&case.comparisons[0], &ROOMY, Size::Full);
    assert_eq!(fitted.conditions, [Condition::Capacity, Condition::ShareOfSlowest { percent: 25 }]);
    assert_eq!((fitted.pipeline, fitted.design, fitted.allow_difference), (1, vec![], None));
    let open = GOOD
        .replace("rates = [25]", "capacity = false\nrates = [150]\npipeline = 16\nallow_difference = \"so\"");
    let case = CaseFile::parse("x.toml", &open).unwrap();
    let fitted = case.fit(&case.comparisons[0], &ROOMY, Size::Quick);
    assert_eq!(fitted.conditions, [Condition::ShareOfSlowest { percent: 150 }]);
    assert_eq!((fitted.pipeline, fitted.design), (16, vec!["--quick"]));
    assert_eq!(fitted.allow_difference.as_deref(), Some("so"));
}
