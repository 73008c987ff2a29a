//! Services of compose files as arms: what one costs, what runs beside it, and nothing left behind.

use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use crate::containers::{ALIKE, IMAGE, LONGEST, MORE_NS, PLANTED, SHOP, Shop, WORK_NS, cpu_ns, server};
use crate::support::{Printed, SHORT, WHYSLOW, assert_schema, fresh_folder, within};

/// A shop and its database, and a shop that does more.
fn file() -> String {
    let service = |name: &str, port: &str, work: u64| {
        format!(
            "  {name}:\n    image: {IMAGE}\n    network_mode: host\n    restart: always\n    container_name: {name}-of-the-shop\n    \
             command: [\"${{{port}}}\", \"{work}\"]\n"
        )
    };
    let services = [
        service("web", "PORT", WORK_NS),
        "    depends_on: [db]\n".to_owned(),
        service("db", "DB_PORT", 0),
        format!("  job:\n    image: {IMAGE}\n    network_mode: host\n    command: [\"end\"]\n"),
    ];
    format!("services:\n{}", services.concat())
}

/// The shop, a folder with its compose file and another that does more, and nothing where such files cannot be brought up here.
pub(crate) fn shop() -> Option<(&'static Shop, PathBuf)> {
    let shop = SHOP.as_ref()?;
    if Command::new("podman-compose").arg("--version").output().is_err() {
        testkit::skipped("podman-compose is not installed");
        return None;
    }
    let folder = fresh_folder();
    std::fs::write(folder.join("shop.yaml"), file()).unwrap();
    std::fs::write(folder.join("more.yaml"), file().replace(&WORK_NS.to_string(), &MORE_NS.to_string()))
        .unwrap();
    Some((shop, folder))
}

#[test]
fn a_service_of_a_file_costs_what_it_costs_outside_and_its_other_services_are_told_apart() {
    let Some((shop, folder)) = shop() else { return };
    let mut command = shop.whyslow(&folder);
    command
        .args(["compare", "--equal-rates", "none", "--no-why", "--format", "json", "--out", "run"])
        .args(SHORT);
    command.arg(format!("outside={} {{port}} {WORK_NS}", shop.server.display()));
    command.args(["web=compose:shop.yaml#web", "more=compose:more.yaml#web"]);
    let printed = Printed::from_output(command.env("WHYSLOW_COMPOSE", "podman").output().unwrap());
    assert!([Some(4), Some(5)].contains(&printed.code), "one block decides nothing: {printed:?}");
    let json = printed.json();
    assert_schema("compare", &json);
    let [outside, web, more] = [0, 1, 2].map(|arm| cpu_ns(&json, arm));
    assert!(ALIKE.contains(&(web / outside)), "{web} inside, {outside} outside");
    assert!(PLANTED.contains(&(more / web)), "{more} planted, {web} without");
    let arm = &json["arms"][1];
    assert_eq!(arm["compose"]["asked"], "compose:shop.yaml#web");
    assert_eq!(arm["compose"]["sha256"], launch::sha256(file().as_bytes()));
    let ran: Vec<&str> = arm["compose"]["images"]
        .as_array()
        .unwrap()
        .iter()
        .map(|image| {
            assert!(image["asked"].as_str().unwrap().starts_with(IMAGE), "{image}");
            assert_eq!(image["id"].as_str().unwrap().len(), 64, "{image}");
            assert!(image["digest"].as_str().unwrap().starts_with("sha256:"), "{image}");
            image["service"].as_str().unwrap()
        })
        .collect();
    assert_eq!(ran, ["web", "db", "job"], "also what has ended");
    let services: Vec<&String> = arm["services"].as_object().unwrap().keys().collect();
    assert_eq!(services, ["db"], "the job has ended");
}

#[test]
fn nothing_of_a_file_outlives_a_run_that_is_killed() {
    let Some((shop, folder)) = shop() else { return };
    for head_start in [Duration::ZERO, Duration::from_secs(2)] {
        let mut run = shop.whyslow(&folder);
        run.args(["compare", "a=compose:shop.yaml#web", "b=compose:more.yaml#web"]);
        run.env("WHYSLOW_COMPOSE", "podman").stdout(Stdio::null()).stderr(Stdio::null());
        let mut run = run.spawn().unwrap();
        let started = within(LONGEST, || !shop.containers_of(run.id()).is_empty());
        std::thread::sleep(head_start);
        run.kill().unwrap();
        run.wait().unwrap();
        assert!(started, "a container came");
        // The supervisors' last look comes after the last container: what they removed must stay away.
        let supervised = format!("-{}-c", run.id());
        assert!(within(LONGEST, || crate::support::living(&supervised).is_empty()), "{supervised}");
        assert_eq!(shop.containers_of(run.id()), [""; 0]);
    }
}

/// A program `docker` that brings one service up as its own child, and writes down what it was told.
const DOCKER: &str = r#"#!/bin/sh
dir=$(dirname "$0")
echo "$* WEB_PORT=$WEB_PORT" >> "$dir/told"
case "$*" in
*"config --services") echo web ;;
*"container inspect --format {{.Image}} "*) echo sha256:c0ffee shop:2.1 ;;
*"image inspect"*) echo shop@sha256:d16e57 ;;
*"container inspect"*) [ -e "$dir/pid" ] && echo "c0de $(cat "$dir/pid") host running" ;;
*" up") for word; do [ "$word" = up ] || overlay=$word; done
  [ -e "$dir/overlay" ] || cp "$overlay" "$dir/overlay"
  "$dir/server" 0 200000 & echo $! > "$dir/pid.new"; mv "$dir/pid.new" "$dir/pid"; wait ;;
*" down "*) [ -e "$dir/pid" ] && kill -9 "$(cat "$dir/pid")"; rm -f "$dir/pid" ;;
esac
"#;

/// What the details of a run say.
fn analysed(folder: &Path) -> String {
    let mut command = Command::new(WHYSLOW);
    command.args(["analyse", "run", "--details"]).current_dir(folder);
    let details = Printed::from_output(command.output().unwrap()).out;
    // Long lines are wrapped.
    details.split_whitespace().collect::<Vec<_>>().join(" ")
}

#[test]
fn docker_is_told_the_same_of_a_file_in_its_own_words() {
    let folder = fresh_folder();
    if let Err(why) = server(&folder) {
        return testkit::skipped(&why);
    }
    let docker = folder.join("docker");
    std::fs::write(&docker, DOCKER).unwrap();
    std::fs::set_permissions(&docker, std::fs::Permissions::from_mode(0o755)).unwrap();
    std::fs::write(folder.join("shop.yaml"), "services: {}\n").unwrap();
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", "a=compose:shop.yaml#web"]);
    command.arg(format!("b={} {{port}} {WORK_NS}", folder.join("server").display()));
    command.args(["--equal-rates", "none", "--no-why", "--format", "json", "--out", "run"]).args(SHORT);
    let path = format!("{}:{}", folder.display(), std::env::var("PATH").unwrap());
    command.env("PATH", path).env("WHYSLOW_COMPOSE", "docker").env("WHYSLOW_DOCKER_FLAGS", "--context here");
    let printed = Printed::from_output(command.current_dir(&folder).output().unwrap());
    let json = printed.json();
    assert!(ALIKE.contains(&(cpu_ns(&json, 0) / cpu_ns(&json, 1))), "{printed:?}");
    let ran = serde_json::json!({ "service": "web", "asked": "shop:2.1", "id": "c0ffee", "digest": "sha256:d16e57" });
    assert_eq!(json["arms"][0]["compose"]["images"], serde_json::json!([ran]));
    let page = analysed(&folder);
    assert!(page.contains("; web ran shop:2.1, image c0ffee, sha256:d16e57"), "{page}");
    let calls = std::fs::read_to_string(folder.join("told")).unwrap();
    let up = calls.lines().find(|line| line.contains(" up ")).unwrap();
    let (before, port) = up.split_once(" up WEB_PORT=").unwrap();
    assert!(up.starts_with("--context here compose -p whyslow-") && port.parse::<u16>().is_ok(), "{up}");
    assert!(calls.contains(&format!("{before} down --volumes --timeout 0 WEB_PORT={port}\n")), "{calls}");
    let overlay = std::fs::read_to_string(folder.join("overlay")).unwrap();
    let web = serde_json::from_str::<serde_json::Value>(&overlay).unwrap()["services"]["web"].clone();
    assert_eq!((&web["restart"], &web["environment"]["PORT"]), (&"no".into(), &port.into()), "{overlay}");
}

#[test]
fn what_is_wrong_with_a_file_is_one_sentence() {
    let Some((shop, folder)) = shop() else { return };
    std::fs::write(folder.join("broken.yaml"), "services: [\n").unwrap();
    let whyslow = |arm: &str| {
        let mut command = shop.whyslow(&folder);
        command.args(["compare", arm, "threads", "--list"]).env("WHYSLOW_COMPOSE", "podman");
        let printed = Printed::from_output(command.output().unwrap());
        assert_eq!((printed.code, printed.err.lines().count()), (Some(2), 1), "{printed:?}");
        printed.err
    };
    let printed = whyslow("a=compose:shop.yaml#shop");
    assert!(printed.contains("'shop.yaml': it has no service 'shop': name one of web, db, job"), "{printed}");
    let printed = whyslow("a=compose:broken.yaml#web");
    assert!(printed.contains("'broken.yaml': podman-compose cannot read it: "), "{printed}");
}
