//! Tests of docs/ci/bisect-run.sh: a program in the place of whyslow ends with each of its exit codes.

use std::fs;
use std::os::unix::fs::PermissionsExt;
use std::process::Command;

use crate::shell::root;

#[test]
fn bisect_hears_what_whyslow_says() {
    let folder = std::env::temp_dir().join(format!("whyslow-bisect-{}", std::process::id()));
    let bin = folder.join("bin");
    fs::create_dir_all(&bin).unwrap();
    let git = "git init -q . && git -c user.name=t -c user.email=t commit -q --allow-empty -m one";
    assert!(Command::new("bash").args(["-c", git]).current_dir(&folder).status().unwrap().success());
    let path = format!("{}:{}", bin.display(), std::env::var("PATH").unwrap());
    let cases = [
        (0, "true", 0),
        (3, "true", 1),
        (1, "true", 125),
        (4, "true", 125),
        (5, "true", 125),
        (2, "true", 255),
        (0, "false", 125),
    ];
    for (code, build, want) in cases {
        fs::write(bin.join("whyslow"), format!("#!/bin/sh\nexit {code}\n")).unwrap();
        fs::set_permissions(bin.join("whyslow"), fs::Permissions::from_mode(0o755)).unwrap();
        let mut bisect = Command::new(root().join("docs/ci/bisect-run.sh"));
        let seen = bisect
            .args(["HEAD", build, "./x {port}"])
            .current_dir(&folder)
            .env("PATH", &path)
            .output()
            .unwrap();
        assert_eq!(seen.status.code(), Some(want), "whyslow {code}, build {build}: {seen:?}");
    }
    fs::remove_dir_all(&folder).unwrap();
}
