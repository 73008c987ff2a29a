//! Images as arms: the same server in a container and outside it, what is said of an image, and no container left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::time::Duration;

use serde_json::Value;

use crate::support::{Printed, SHORT, WHYSLOW, assert_schema, fresh_folder, within};

/// CPU time of a request in nanoseconds, large enough that what a request costs beside it does not matter.
pub(crate) const WORK_NS: u64 = 200_000;
/// The same with 20 % more.
pub(crate) const MORE_NS: u64 = 240_000;
/// How far the cost of a request in a container may be from that outside it: on a busy machine caches differ.
pub(crate) const ALIKE: std::ops::Range<f64> = 0.9..1.1;
pub(crate) const PLANTED: std::ops::Range<f64> = 1.1..1.35;
/// Longest wait for a container to come or to be gone.
pub(crate) const LONGEST: Duration = Duration::from_secs(60);

/// Flags that podman may need before its command and behind `run`: none, or, where the host has runc and no systemd and this
/// user may not raise limits, those.
const FLAGS: [[&str; 2]; 2] = [
    ["", ""],
    ["--runtime runc --cgroup-manager=cgroupfs", "--ulimit nofile=1000:1000 --ulimit nproc=1000:1000"],
];
pub(crate) const IMAGE: &str = "localhost/whyslow-test-contained";

/// A static server, the image that holds it alone, and the flags with which podman runs it here.
pub(crate) struct Shop {
    pub(crate) server: PathBuf,
    pub(crate) flags: [&'static str; 2],
}

/// Built once for all tests; nothing where containers cannot be run here.
pub(crate) static SHOP: LazyLock<Option<Shop>> = LazyLock::new(|| {
    let made = shop();
    if let Err(why) = &made {
        testkit::skipped(why);
    }
    made.ok()
});

fn shop() -> Result<Shop, String> {
    let folder = fresh_folder();
    let server = server(&folder)?;
    std::fs::write(
        folder.join("Containerfile"),
        "FROM scratch\nCOPY server /server\nENTRYPOINT [\"/server\"]\n",
    )
    .unwrap();
    let podman = |flags: &str, words: &[&str]| {
        let done =
            Command::new("podman").args(flags.split_whitespace()).args(words).current_dir(&folder).output();
        let done = done.map_err(|_| "podman is not installed".to_owned())?;
        let stderr = String::from_utf8_lossy(&done.stderr).trim().to_owned();
        // The server says so by its status.
        if done.status.success() || stderr.ends_with("the table of prices is missing") {
            Ok(())
        } else {
            Err(stderr)
        }
    };
    let mut why = String::new();
    for flags in FLAGS {
        let [before, behind] = flags;
        let run: Vec<&str> = ["run", "--rm", "--network", "host", "--cpuset-cpus", "0"]
            .into_iter()
            .chain(behind.split_whitespace())
            .collect();
        let built = podman(before, &["build", "--quiet", "--tag", IMAGE, "."]);
        match built.and_then(|()| podman(before, &[&run[..], &[IMAGE, "end"]].concat())) {
            Ok(()) => return Ok(Shop { server, flags }),
            Err(reason) => why = format!("podman runs no containers here: {reason}"),
        }
    }
    Err(why)
}

pub(crate) fn server(folder: &Path) -> Result<PathBuf, String> {
    let server = folder.join("server");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fixture/contained.c");
    let built =
        Command::new("cc").args(["-O1", "-static", "-pthread", "-o"]).args([&server, &source]).status();
    match built {
        Ok(status) if status.success() => Ok(server),
        _ => Err("no C compiler (cc) that links statically".to_owned()),
    }
}

impl Shop {
    pub(crate) fn whyslow(&self, folder: &Path) -> Command {
        let mut command = Command::new(WHYSLOW);
        let [before, behind] = self.flags;
        command
            .env("WHYSLOW_PODMAN_FLAGS", before)
            .env("WHYSLOW_PODMAN_RUN_FLAGS", behind)
            .current_dir(folder);
        command
    }

    fn compare(&self, arms: &[&str]) -> Printed {
        let head = ["compare", "--equal-rates", "none", "--no-why", "--format", "json", "--out", "run"];
        let mut command = self.whyslow(&fresh_folder());
        Printed::from_output(command.args(head).args(SHORT).args(arms).output().unwrap())
    }

    /// Containers of the run with this process, in whatever state.
    pub(crate) fn containers_of(&self, process: u32) -> Vec<String> {
        let mut command = Command::new("podman");
        command.args(self.flags[0].split_whitespace()).args(["ps", "--all", "--format", "{{.Names}}"]);
        let names = String::from_utf8(command.output().unwrap().stdout).unwrap();
        let own = |name: &&str| name.starts_with("whyslow-") && name.contains(&format!("-{process}-"));
        names.lines().filter(own).map(str::to_owned).collect()
    }
}

pub(crate) fn cpu_ns(json: &Value, arm: usize) -> f64 {
    let arm = &json["arms"][arm];
    assert_eq!((&arm["ok"], &arm["error"]), (&true.into(), &Value::Null), "{arm}");
    arm["cpu_ns_per_request"]["total"].as_f64().unwrap()
}

#[test]
fn a_server_costs_in_a_container_what_it_costs_outside_and_what_was_planted_in_an_image_shows() {
    let Some(shop) = &*SHOP else { return };
    let printed = shop.compare(&[
        &format!("outside={} {{port}} {WORK_NS}", shop.server.display()),
        &format!("inside=podman:{IMAGE} {{port}} {WORK_NS}"),
        &format!("planted=podman:{IMAGE} {{port}} {MORE_NS}"),
    ]);
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    let [outside, inside, planted] = [0, 1, 2].map(|arm| cpu_ns(&json, arm));
    assert!(ALIKE.contains(&(inside / outside)), "{inside} inside, {outside} outside");
    assert!(PLANTED.contains(&(planted / outside)), "{planted} planted, {outside} outside");
    assert!(PLANTED.contains(&(planted / inside)), "{planted} planted, {inside} inside");
    let image = &json["arms"][1]["image"];
    assert_eq!(image["asked"], format!("podman:{IMAGE}"));
    assert_eq!(image["id"].as_str().unwrap().len(), 64, "{image}");
    assert_eq!(image, &json["arms"][2]["image"]);
    assert_eq!((&json["arms"][0]["image"], &json["arms"][1]["build_id"]), (&Value::Null, &image["id"]));
}

#[test]
fn no_container_outlives_a_run_that_is_killed() {
    let Some(shop) = &*SHOP else { return };
    let arm = |name: &str| format!("{name}=podman:{IMAGE} {{port}} 0");
    for head_start in [Duration::ZERO, Duration::from_secs(1)] {
        let mut run = shop.whyslow(&fresh_folder());
        run.args(["compare", &arm("a"), &arm("b")]).stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        let started = within(LONGEST, || !shop.containers_of(run.id()).is_empty());
        std::thread::sleep(head_start);
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(started, "a container came");
        assert!(
            within(LONGEST, || shop.containers_of(run.id()).is_empty()),
            "{:?}",
            shop.containers_of(run.id())
        );
    }
}

#[test]
fn a_container_that_ends_listens_nowhere_or_cannot_be_started_is_a_failed_row() {
    let Some(shop) = &*SHOP else { return };
    let printed = shop.compare(&[
        &format!("own=podman:{IMAGE}"),
        &format!("ends=podman:{IMAGE} end {{port}}"),
        &format!("mute=podman:{IMAGE} mute {{port}}"),
        "--port-env",
        "--ready-limit",
        "5s",
    ]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let json = printed.json();
    let row = |arm: usize| json["arms"][arm]["error"].as_str().unwrap_or("none").to_owned();
    assert_eq!(row(0), "none", "an image's own command is told the port in PORT");
    assert_eq!(row(1), "it exited with code 3 before it was ready");
    assert_eq!(json["arms"][1]["log"][0], "the table of prices is missing");
    assert!(row(2).contains("it listens on no TCP port, 127.0.0.1:"), "{}", row(2));
}

/// A program `docker` that has an image, runs its command as a child, and writes down what it was told.
const DOCKER: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$*" >> "$dir/told"
case "$1 $2" in
"image inspect") case "$*" in *RepoDigests*) echo shop@sha256:d16e57;; *) echo sha256:c0ffee;; esac ;;
"container inspect") [ -e "$dir/pid" ] && echo "c0de $(cat "$dir/pid")" ;;
"rm --force") [ -e "$dir/pid" ] && kill -9 "$(cat "$dir/pid")"; rm -f "$dir/pid" ;;
run*)
  until [ "$1" = c0ffee ]; do shift; done
  shift
  "$@" & echo $! > "$dir/pid.new"; mv "$dir/pid.new" "$dir/pid"; wait ;;
esac
"#;

#[test]
fn docker_is_told_the_same_in_its_own_words() {
    let folder = fresh_folder();
    let server = match server(&folder) {
        Ok(server) => server,
        Err(why) => return testkit::skipped(&why),
    };
    let docker = folder.join("docker");
    std::fs::write(&docker, DOCKER).unwrap();
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).unwrap();
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    let mut command = Command::new(WHYSLOW);
    command
        .args(["compare", "a=docker:shop:2.1", "--run"])
        .arg(format!("{} {{port}} {WORK_NS}", server.display()));
    command.arg(format!("b={} {{port}} {WORK_NS}", server.display()));
    command.args(["--equal-rates", "none", "--no-why", "--format", "json", "--out", "run"]).args(SHORT);
    command.env("PATH", path).env("WHYSLOW_DOCKER_RUN_FLAGS", "--memory '1 g'").current_dir(&folder);
    let printed = Printed::from_output(command.output().unwrap());
    let json = printed.json();
    assert!(ALIKE.contains(&(cpu_ns(&json, 0) / cpu_ns(&json, 1))), "{printed:?}");
    let image = &json["arms"][0]["image"];
    assert_eq!((&image["id"], &image["digest"]), (&"c0ffee".into(), &"sha256:d16e57".into()));
    let calls = std::fs::read_to_string(folder.join("told")).unwrap();
    let run = calls.lines().find(|line| line.starts_with("run ")).unwrap();
    assert!(run.starts_with("run --name whyslow-"), "{run}");
    assert!(run.contains(" --network host --cpuset-cpus ") && run.contains(" --memory 1 g c0ffee "), "{run}");
    let name = run.split(' ').nth(2).unwrap();
    assert!(calls.contains(&format!("rm --force --volumes {name}\n")), "{calls}");
}

#[test]
fn images_are_searched_for_their_capacity_and_climbed() {
    let Some(shop) = &*SHOP else { return };
    let folder = fresh_folder();
    let mut command = shop.whyslow(&folder);
    command.args([
        "capacity",
        &format!("podman:{IMAGE}"),
        "--run",
        "{port} 0",
        "--slo",
        "p50 < 1s",
        "-c",
        "2",
    ]);
    command.args([
        "--from",
        "50",
        "--max-rate",
        "100",
        "--window",
        "200ms",
        "--warmup",
        "50ms",
        "--format",
        "json",
    ]);
    let child = command.stdout(Stdio::piped()).stderr(Stdio::piped()).spawn().unwrap();
    let process = child.id();
    let found = Printed::from_output(child.wait_with_output().unwrap());
    // A crowded machine may leave the generator late, which voids the search.
    assert!([Some(0), Some(5)].contains(&found.code), "{found:?}");
    let points = found.json()["points"].as_array().unwrap().clone();
    let answered = |point: &Value| point["rate_per_s"].as_f64().is_some_and(|rate| rate > 10.0);
    assert!(points.iter().any(answered), "{found:?}");
    assert_eq!(shop.containers_of(process), [""; 0]);

    let mut command = shop.whyslow(&folder);
    command.args([
        "ladder",
        &format!("podman:{IMAGE}"),
        "--steps",
        &format!("{IMAGE}:latest"),
        "--run",
        "{port} 0",
    ]);
    command.args(["--equal-rates", "none", "--format", "json", "--out", "ladder"]).args(SHORT);
    let printed = Printed::from_output(command.output().unwrap());
    let name = IMAGE.replace('/', "-");
    assert_eq!(printed.json()["steps"], serde_json::json!([name, format!("{name}-latest")]), "{printed:?}");
}

#[test]
fn an_image_that_cannot_be_had_is_said_in_one_sentence() {
    let Some(shop) = &*SHOP else { return };
    let printed = shop.compare(&["a=podman:localhost:1/no-such-image-here", "threads"]);
    let line = printed.err.lines().last().unwrap_or_default();
    let start = "error: 'a': podman cannot have the image 'localhost:1/no-such-image-here': ";
    assert!(printed.code == Some(2) && line.starts_with(start), "{printed:?}");
}
