//! Tests of the scripts in docs/ci: programs in the place of whyslow and gh end with each exit code and keep what they are
//! told.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::path::PathBuf;
use std::process::Command;

use crate::shell::root;

/// A folder with a program `name` that is this shell script, and the path on which it is found first.
fn with_program(test: &str, name: &str, script: &str) -> (PathBuf, String) {
    let folder = std::env::temp_dir().join(format!("whyslow-{test}-{}", std::process::id()));
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    fs::write(bin.join(name), format!("#!/bin/sh\n{script}\n")).unwrap();
    fs::set_permissions(bin.join(name), fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    (folder, path)
}

#[test]
fn bisect_hears_what_whyslow_says() {
    for (code, want) in [(0, 0), (3, 1), (1, 125), (4, 125), (5, 125), (2, 255)] {
        let (folder, path) = with_program("bisect", "whyslow", &format!("exit {code}"));
        let mut bisect = Command::new(root().join("docs/ci/bisect-run.sh"));
        let bisect = bisect.args(["HEAD", "make", "./x {port}"]).current_dir(&folder).env("PATH", &path);
        let seen = bisect.output().unwrap();
        assert_eq!(seen.status.code(), Some(want), "whyslow {code}: {seen:?}");
        fs::remove_dir_all(&folder).unwrap();
    }
}

#[test]
fn a_comment_is_posted_once_and_then_updated() {
    // What gh lists of the comments that have the marker, and what it is then asked for.
    for (listed, want) in [
        ("", "api --method POST repos/o/r/issues/7/comments --field body=@"),
        ("echo 41; echo 42", "api --method PATCH repos/o/r/issues/comments/41 --field body=@"),
    ] {
        let script = format!(
            "echo \"$*\" >>\"$ASKED\"\ncase $* in *--paginate*) {} ;; esac",
            if listed.is_empty() { ":" } else { listed }
        );
        let (folder, path) = with_program("comment", "gh", &script);
        let (calls, comment) = (folder.join("asked"), folder.join("comment.md"));
        fs::write(&comment, "<!-- whyslow -->\n### whyslow: head slower against base\n").unwrap();
        let mut post = Command::new(root().join("docs/ci/github-comment.sh"));
        let post = post.args(["o/r", "7", comment.to_str().unwrap()]).env("PATH", &path).env("ASKED", &calls);
        let seen = post.output().unwrap();
        assert!(seen.status.success(), "{seen:?}");
        let calls = fs::read_to_string(calls).unwrap();
        let lines: Vec<&str> = calls.lines().collect();
        assert!(lines.len() == 2 && lines[0].contains("startswith(\"<!-- whyslow -->\")"), "{calls}");
        assert!(lines[1].starts_with(want), "{calls}");
        fs::remove_dir_all(&folder).unwrap();
    }
}
