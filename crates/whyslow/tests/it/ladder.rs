//! `whyslow ladder` on a target made for it: the built-in servers as its variants.

use std::process::Command;

use crate::support::{Printed, WHYSLOW, fresh_folder};

/// Runs a ladder of a target with two variants, of which only the second is a rung.
fn ladder(args: &[&str]) -> Printed {
    let folder = fresh_folder();
    let target = folder.join("targets/steps");
    std::fs::create_dir_all(&target).unwrap();
    let serve =
        |model: &str| format!("[{WHYSLOW:?}, \"serve\", \"--model\", \"{model}\", \"--port\", \"{{port}}\"]");
    let text = format!(
        "name = \"steps\"\nlanguage = \"rust\"\nabout = \"For a test.\"\npath = \"/plaintext\"\nladder = [\"two\"]\n\
         run = {}\n[[variant]]\nname = \"one\"\nabout = \"Not a rung.\"\nrun = {}\n[[variant]]\nname = \"two\"\n\
         about = \"The rung.\"\nrun = {}\n",
        serve("threads"),
        serve("futures"),
        serve("coroutines")
    );
    std::fs::write(target.join("target.toml"), text).unwrap();
    let mut command = Command::new(WHYSLOW);
    command.arg("ladder").args(args).current_dir(&folder).env("WHYSLOW_TARGETS", folder.join("targets"));
    Printed::from_output(command.output().unwrap())
}

#[test]
fn the_declared_rungs_are_climbed() {
    let short = ["--no-why", "--cycles", "2", "--warmup", "200ms", "--warmup-cap", "500ms", "--blocks", "2"];
    let json = ladder(&[&["steps", "--format", "json", "--connections", "4"], &short[..]].concat()).json();
    assert_eq!(json["steps"], serde_json::json!(["steps", "steps@two"]), "{json}");
    let rung = &json["metrics"][0]["rungs"][0];
    assert_eq!((&rung["from"], &rung["to"]), (&"steps".into(), &"steps@two".into()));
    // Two blocks decide nothing.
    assert!(["inconclusive", "invalid"].map(Into::into).contains(&rung["verdict"]), "{rung}");
    assert_eq!(json["metrics"].as_array().unwrap().len(), 2, "{json}");
    assert!(json["text"].as_str().unwrap().contains("steps@two"), "{json}");
}

#[test]
fn what_is_no_rung_is_refused() {
    for (args, want) in [
        (&["steps", "--steps", "three"][..], "has no variant 'three': it has one, two"),
        (&["threads"], "'threads' has no variants: a ladder needs"),
        (&["nope"], "there is no target 'nope': 'whyslow targets list'"),
    ] {
        let printed = ladder(args);
        assert_eq!(printed.code, Some(2), "{printed:?}");
        assert!(printed.err.contains(want), "{printed:?}");
    }
}
