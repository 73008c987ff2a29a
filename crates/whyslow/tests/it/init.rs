//! `whyslow init`: what it writes compares.

use std::path::Path;
use std::process::{Command, Stdio};

use crate::revisions::Repository;
use crate::support::{FIXTURE, fresh_folder, whyslow_in};

#[test]
fn what_a_running_server_tells_is_written_and_is_never_overwritten() {
    let folder = fresh_folder();
    std::fs::write(folder.join("Makefile"), "all:\n").unwrap();
    let port = launch::free_port(u64::from(std::process::id()) + 77).unwrap().number().to_string();
    let mut server = Command::new(FIXTURE);
    server.args([&port, "missing"]).stdout(Stdio::null()).current_dir(&folder);
    let mut server = server.spawn().unwrap();
    let url = format!("http://127.0.0.1:{port}/users");
    // A server that was just started is waited for.
    let printed = whyslow_in(&folder, &["init", &url]);
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
        let lines = if want == "does not answer" { 2 } else { 1 };
        assert_eq!((printed.code, printed.err.lines().count()), (Some(2), lines), "{printed:?}");
        assert!(printed.err.contains(want) && !folder.join("whyslow.toml").exists(), "{printed:?}");
    }
}

#[test]
fn a_server_that_runs_in_a_folder_of_the_repository_is_started_there() {
    let repository = Repository::new();
    write(&repository.folder, &[("api/package.json", "{}"), ("api/name", "here\n")]);
    std::os::unix::fs::symlink(FIXTURE, repository.folder.join("api/server")).unwrap();
    repository.commit("an api");
    let port = launch::free_port(u64::from(std::process::id()) + 79).unwrap().number().to_string();
    // It listens only after a while.
    let late = format!("sleep 0.5; cd api && exec ./server {port} none");
    let mut server = Command::new("sh").args(["-c", &late]).current_dir(&repository.folder).spawn().unwrap();
    let printed = repository.whyslow(&["init", &format!("http://127.0.0.1:{port}/")]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert_eq!(printed.code, Some(0), "{printed:?}");
    assert!(printed.err.starts_with("nothing listens on 127.0.0.1:"), "{printed:?}");
    assert!(printed.out.contains("run = \"sh -c 'cd api && exec ./server {port} none'\""), "{printed:?}");
    assert!(printed.out.contains("build = \"cd api && npm install\""), "{printed:?}");
    let built = printed.out.replace("npm install", "test -e name");
    std::fs::write(repository.folder.join("whyslow.toml"), built).unwrap();
    let verified = repository.whyslow(&["compare", "main=git:main", "pr=git:.", "--verify"]);
    assert_eq!(verified.code, Some(0), "what it writes starts: {verified:?}");
}

/// Files of a folder, and lines that are written for it.
type Guess = (&'static [(&'static str, &'static str)], &'static [&'static str]);

const GUESSES: [Guess; 20] = [
    (&[], &["# Nothing here says how it is built and started", "# run = "]),
    (
        &[("Cargo.toml", "[package]\nname = \"shop\"\n"), ("src/main.rs", "")],
        &["build = \"cargo build --release\"", "run = \"./target/release/shop --port {port}\""],
    ),
    (
        &[
            ("Cargo.toml", "[workspace]\nmembers = [\"crates/*\"]\n"),
            ("crates/lib/Cargo.toml", "[package]\nname = \"part\"\n"),
            ("crates/web/Cargo.toml", "[package]\nname = \"web\"\n"),
            ("crates/web/src/main.rs", ""),
        ],
        &["build = \"cargo build --release --bin web\"", "run = \"./target/release/web --port {port}\""],
    ),
    (
        &[("go.mod", "module shop\n"), ("main.go", "package main\n")],
        &["build = \"go build -o server .\"", "run = \"./server -port {port}\""],
    ),
    (
        &[("go.mod", "module shop\n"), ("cmd/web/main.go", "package main\n"), ("shop.go", "package shop\n")],
        &["build = \"go build -o web ./cmd/web\"", "run = \"./web -port {port}\""],
    ),
    (
        &[(
            "pom.xml",
            "<project><parent><artifactId>spring-boot-starter-parent</artifactId><version>3.1</version></parent>\
             <artifactId>shop</artifactId><version>1.0</version><dependencies/></project>",
        )],
        &["build = \"mvn -q package\"", "run = \"java -jar target/shop-1.0.jar --server.port={port}\""],
    ),
    (
        &[("pom.xml", "<project><packaging>pom</packaging></project>")],
        &["build = \"mvn -q package\"", "# run = "],
    ),
    (
        &[
            ("build.gradle", "plugins {\n    id 'application'\n}\n"),
            ("settings.gradle", "rootProject.name = 'shop'\n"),
        ],
        &["build = \"gradle -q installDist\"", "run = \"./build/install/shop/bin/shop {port}\""],
    ),
    (
        &[("config.ru", "run App\n"), ("Gemfile", "")],
        &["bundle install\"", "run = \"bundle exec puma -p {port}\""],
    ),
    (
        &[("composer.json", "{}"), ("public/index.php", "")],
        &["build = \"composer install", "run = \"php -S 127.0.0.1:{port} -t public\""],
    ),
    (
        &[
            ("package.json", r#"{"scripts": {"start": "node srv.js"}}"#),
            ("srv.js", "listen(process.env.PORT)"),
        ],
        &["build = \"npm install\"", "run = \"node srv.js\"", "port_env = true"],
    ),
    (
        &[("package.json", "{}"), ("package-lock.json", "{}"), ("server.js", "process.argv[2]")],
        &["build = \"npm ci\"", "run = \"node server.js {port}\""],
    ),
    (
        &[("requirements.txt", "uvicorn\n"), ("main.py", "app = FastAPI()\n")],
        &["run = \".venv/bin/python -m uvicorn main:app --port {port}\""],
    ),
    (
        &[("pyproject.toml", ""), ("uv.lock", ""), ("src/shop/__main__.py", "")],
        &["build = \"uv sync --frozen\"", "run = \"uv run --frozen python -m shop {port}\""],
    ),
    (&[("server.py", "if __name__ == '__main__': x")], &["# build", "run = \"python3 server.py {port}\""]),
    (
        &[("Makefile", "all: service\n\nservice: s.c\n\tcc\n")],
        &["build = \"make\"", "run = \"./service {port}\""],
    ),
    (&[("Makefile", "CC = gcc\nbuild:\n\ttrue\n")], &["build = \"make\"", "# run = "]),
    (&[("Dockerfile", "FROM scratch\n")], &["# run = ", "main=docker:shop:main pr=docker:shop:pr"]),
    (&[("compose.yaml", "services:\n  web:\n    image: a\n")], &["# run = ", "pr=compose:compose.yaml#web"]),
    (&[("README", "nothing")], &["# run = ", "fail_if = [\"pr slower\"]"]),
];

#[test]
fn kinds_of_repositories_are_recognised_and_nothing_is_invented() {
    for (files, lines) in GUESSES {
        let folder = fresh_folder();
        write(&folder, files);
        let printed = whyslow_in(&folder, &["init"]);
        assert_eq!(printed.code, Some(0), "{files:?}: {printed:?}");
        for line in lines {
            assert!(printed.out.contains(line), "{files:?} gives no {line}\n{printed:?}");
        }
        let is_open = printed.out.contains("# run = ");
        assert_eq!(printed.err.contains("is written: read it"), !is_open, "{printed:?}");
    }
}

fn write(folder: &Path, files: &[(&str, &str)]) {
    for (name, text) in files {
        let file = folder.join(name);
        std::fs::create_dir_all(file.parent().unwrap()).unwrap();
        std::fs::write(file, text).unwrap();
    }
}

#[test]
fn the_branch_that_is_there_is_named_and_a_guess_gives_way_to_what_runs() {
    let repository = Repository::new();
    repository.git(&["branch", "-m", "main", "master"]);
    let printed = repository.whyslow(&["init"]);
    assert!(printed.out.contains("`whyslow compare main=git:master pr=git:.`"), "{printed:?}");
    assert!(printed.err.contains("start your server and run whyslow init"), "{printed:?}");
    let port = launch::free_port(u64::from(std::process::id()) + 81).unwrap().number().to_string();
    let mut server = Command::new(FIXTURE).args([&port, "none"]).stdout(Stdio::null()).spawn().unwrap();
    let printed = repository.whyslow(&["init", &format!("http://127.0.0.1:{port}/")]);
    server.kill().unwrap();
    server.wait().unwrap();
    assert!(printed.code == Some(0) && printed.out.contains("\nrun = "), "{printed:?}");
}
