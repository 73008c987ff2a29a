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
fn the_action_says_in_its_summary_why_nothing_was_compared() {
    let script = "printf '[%s]' \"$@\" >&2; echo >&2; echo 'error: wrong word' >&2; exit 2";
    let (folder, path) = with_program("action", "whyslow", script);
    let git = |words: &str| {
        let words = words.split(' ').filter(|word| !word.is_empty());
        assert!(Command::new("git").current_dir(&folder).args(words).output().unwrap().status.success());
    };
    let commit = "-c user.name=a -c user.email=a@b commit --quiet --allow-empty -m x";
    git("init --quiet --initial-branch main");
    git(commit);
    git("update-ref refs/remotes/origin/main HEAD");
    let action = |base: &str, flags: &str, program: &str| {
        let (output, summary) = (folder.join("output"), folder.join("summary"));
        let _ = (fs::remove_file(&output), fs::remove_file(&summary));
        let mut action = Command::new(root().join("docs/ci/github.sh"));
        action.current_dir(&folder).env("PATH", &path).env("GITHUB_OUTPUT", &output);
        action.env("GITHUB_STEP_SUMMARY", &summary).env("TOLERATE", "4 5").env("WHYSLOW_OUT", "kept");
        action.envs([
            ("GITHUB_SERVER_URL", "https://github.com"),
            ("GITHUB_REPOSITORY", "o/r"),
            ("GITHUB_RUN_ID", "7"),
        ]);
        action.envs([("BASE", base), ("HEAD", "HEAD"), ("BUILD", "true"), ("RUN", "x"), ("FLAGS", flags)]);
        let seen = action.env("WHYSLOW", folder.join(program)).output().unwrap();
        let said = fs::read_to_string(summary).unwrap() + &String::from_utf8_lossy(&seen.stderr);
        (seen.status.code(), said, fs::read_to_string(output).unwrap())
    };
    let none = "0000000000000000000000000000000000000000";
    let same = "nothing to compare: this is the commit of the default branch (origin/main)\n";
    assert_eq!(action(none, "", "bin/whyslow"), (Some(0), same.to_owned(), "exit-code=0\n".to_owned()));
    git(commit);
    for (base, flags, program, want) in [
        ("", "-H 'A: b  c' --quick", "bin/whyslow", "whyslow ended with 2: error: wrong word\n"),
        ("", "-H 'A: b  c' --quick", "bin/whyslow", "[base=git:origin/main]"),
        ("HEAD~1", "-H 'A: b  c' --quick", "bin/whyslow", "[-H][A: b  c][--quick]\n"),
        ("HEAD~1", "", "bin/whyslow", "[--comment-link][https://github.com/o/r/actions/runs/7#artifacts]"),
        ("HEAD~1", "-H 'A: b", "bin/whyslow", "the input flags has a quote without its end: -H 'A: b\n"),
        ("HEAD~1", "", "nosuch", "the input whyslow names "),
    ] {
        let (code, said, output) = action(base, flags, program);
        assert!(code == Some(2) && said.contains(want), "{base} {flags}: {said}");
        assert_eq!(output, "exit-code=2\n");
    }
    fs::remove_dir_all(&folder).unwrap();
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
