//! `whyslow init`: what it writes compares.

use std::process::{Command, Stdio};

use crate::support::{FIXTURE, fresh_folder, whyslow_in};

#[test]
fn what_a_running_server_tells_is_written_and_is_never_overwritten() {
    let folder = fresh_folder();
    std::fs::write(folder.join("Makefile"), "all:\n").unwrap();
    let port = launch::free_port(u64::from(std::process::id()) + 77).unwrap().to_string();
    let mut server = Command::new(FIXTURE).args([&port, "missing"]).stdout(Stdio::null()).spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}/users");
    let mut printed = whyslow_in(&folder, &["init", &url]);
    for _ in 0..100 {
        if !printed.err.contains("does not answer") {
            break;
        }
        std::thread::sleep(std::time::Duration::from_millis(50));
        printed = whyslow_in(&folder, &["init", &url]);
    }
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let written = std::fs::read_to_string(folder.join("whyslow.toml")).unwrap();
    assert_eq!(written, printed.out);
    for line in ["build = \"make\"", "{port} missing\"", "expect_status = 404", "path = \"/users\""] {
        assert!(written.contains(line), "{line} is not in\n{written}");
    }
    let again = whyslow_in(&folder, &["init", &url]);
    assert_eq!(again.code, Some(2), "{again:?}");
    assert!(again.err.contains("whyslow.toml is there already"), "{again:?}");
    assert_eq!(std::fs::read_to_string(folder.join("whyslow.toml")).unwrap(), written);
}

#[test]
fn who_does_not_answer_or_is_elsewhere_is_said_in_one_sentence() {
    let folder = fresh_folder();
    for (url, want) in [
        ("http://127.0.0.1:9/", "does not answer"),
        ("http://192.0.2.1:8080/", "is not on this machine"),
        ("ftp://127.0.0.1/", "is not the address of a running server"),
    ] {
        let printed = whyslow_in(&folder, &["init", url]);
        assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
        assert!(printed.err.contains(want) && !folder.join("whyslow.toml").exists(), "{printed:?}");
    }
}
