//! `whyslow init`: a `whyslow.toml` from what a running server answers and from what the folder holds.

use std::fmt::Write;
use std::net::SocketAddr;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use model::plan::ConfigFile;
use model::record::without_secrets;

use crate::cli::InitArgs;
use crate::compare::running;
use crate::config::FILE;
use crate::exit::{Exit, Outcome, Stop};

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// The status that needs no mention.
const OK: u16 = 200;

/// How repositories of one kind are built and started, by the file that tells their kind: the first that is there.
struct Recipe {
    file: &'static str,
    /// With PROGRAM for the file that the running server was started from.
    build: &'static str,
    /// With NAME for the folder's name.
    run: &'static str,
}

const RECIPES: [Recipe; 8] = [
    Recipe { file: "Cargo.toml", build: "cargo build --release", run: "./target/release/NAME --port {port}" },
    Recipe { file: "go.mod", build: "go build -o PROGRAM .", run: "./server -port {port}" },
    // `npm ci` is for folders with a lock file and fails in all others.
    Recipe { file: "package-lock.json", build: "npm ci", run: NODE },
    Recipe { file: "npm-shrinkwrap.json", build: "npm ci", run: NODE },
    Recipe { file: "package.json", build: "npm install", run: NODE },
    Recipe {
        file: "requirements.txt",
        build: "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
        run: PYTHON,
    },
    Recipe { file: "pyproject.toml", build: "python3 -m venv .venv && .venv/bin/pip install .", run: PYTHON },
    Recipe { file: "Makefile", build: "make", run: "./server {port}" },
];
const NODE: &str = "node . --port {port}";
const PYTHON: &str = ".venv/bin/python server.py {port}";
/// Where the recipes of Python put programs: a checkout has none of the environments that lie in a work tree.
const PROGRAMS_OF_PYTHON: &str = ".venv/bin/";
/// The program of a recipe, where none was seen.
const PROGRAM: &str = "server";

impl Recipe {
    /// The build, which makes what `seen` starts.
    fn build(&self, seen: Option<&str>) -> String {
        let program = seen.and_then(|run| run.split(' ').next()?.strip_prefix("./"));
        self.build.replace("PROGRAM", program.unwrap_or(PROGRAM))
    }

    /// The command that was seen, with what the build makes in the place of what was made by hand.
    fn started(&self, seen: &str) -> String {
        let mut words = seen.split(' ').map(|word| word.trim_start_matches("./"));
        let first = words.next().unwrap_or_default();
        let (folder, program) = first.rsplit_once('/').unwrap_or(("", first));
        if self.run != PYTHON || !program.starts_with("python") {
            return seen.to_owned();
        }
        // What was installed beside the interpreter, such as uvicorn, is installed beside that of the build.
        let beside = |word: &str| {
            let name = word.strip_prefix(folder).filter(|_| !folder.is_empty())?.strip_prefix('/')?;
            Some(format!("{PROGRAMS_OF_PYTHON}{name}"))
        };
        let rest = words.map(|word| beside(word).unwrap_or_else(|| word.to_owned()));
        std::iter::once(format!("{PROGRAMS_OF_PYTHON}python")).chain(rest).collect::<Vec<_>>().join(" ")
    }
}

pub(crate) fn run(args: &InitArgs) -> Outcome {
    let folder = std::env::current_dir().context("cannot tell the current folder").map_err(Stop::usage)?;
    let file = folder.join(FILE);
    if file.exists() {
        return Err(Stop::usage(anyhow::anyhow!(
            "{FILE} is there already: change it, or move it away first"
        )));
    }
    let probed = args.url.as_deref().map(|url| probe(url, &folder)).transpose().map_err(Stop::usage)?;
    let text = text(probed.as_ref(), &folder);
    ConfigFile::parse(FILE, &text).context("what was found out makes no whyslow.toml")?;
    model::record::write_atomically(&file, text.as_bytes())?;
    crate::print(&text)?;
    crate::say(&format!(
        "{FILE} is written: read it, then try `whyslow compare main=git:main pr=git:. --verify`"
    ));
    Ok(Exit::Done)
}

/// What one answer of a running server tells.
struct Probed {
    path: Option<String>,
    status: u16,
    /// Its command line with `{port}`, where that can be seen.
    run: Option<String>,
    port_env: bool,
}

fn probe(url: &str, folder: &Path) -> anyhow::Result<Probed> {
    let (address, path) = running::place(url)?;
    let answer = launch::probe(address, path.as_deref().unwrap_or("/"), PATIENCE)
        .map_err(|error| anyhow::anyhow!("{} does not answer: {error}", without_secrets(url)))?;
    let seen = started(address, folder);
    Ok(Probed {
        path,
        status: answer.status,
        port_env: seen.as_ref().is_some_and(|(_, port_env)| *port_env),
        run: seen.map(|(run, _)| run),
    })
}

/// How the process that listens on `address` was started, and whether it has its port from `PORT`.
fn started(address: SocketAddr, folder: &Path) -> Option<(String, bool)> {
    let pid = observe::listening_process(address.port()).ok()?;
    let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).ok();
    let variable = format!("PORT={}", address.port()).into_bytes();
    let port_env = read("environ").is_some_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable));
    let line = read("cmdline")?;
    let words: Vec<String> = line
        .split(|byte| *byte == 0)
        .filter(|word| !word.is_empty())
        .map(|word| String::from_utf8_lossy(word).into_owned())
        .collect();
    let run = command(&words, address.port(), folder)?;
    Some((run.clone(), port_env && !run.contains("{port}")))
}

/// The words as one command, with `{port}` for the port and paths below `folder` from there; nothing without words.
fn command(words: &[String], port: u16, folder: &Path) -> Option<String> {
    let word = |word: &String| {
        let below = Path::new(word).strip_prefix(folder).ok().and_then(Path::to_str);
        let word = below.map_or_else(|| word.clone(), |below| format!("./{below}"));
        let word = with_port(&word, port);
        let plain = word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=/.,:@%+{}".contains(c));
        if plain { word } else { format!("'{}'", word.replace('\'', r"'\''")) }
    };
    (!words.is_empty()).then(|| words.iter().map(word).collect::<Vec<_>>().join(" "))
}

/// The word with `{port}` where the number stands by itself.
fn with_port(word: &str, port: u16) -> String {
    let number = port.to_string();
    let Some(at) = word.find(&number) else { return word.to_owned() };
    let (before, after) = (&word[..at], &word[at + number.len()..]);
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if digit(before.chars().next_back()) || digit(after.chars().next()) {
        return word.to_owned();
    }
    format!("{before}{{port}}{after}")
}

fn text(probed: Option<&Probed>, folder: &Path) -> String {
    let recipe = RECIPES.iter().find(|recipe| folder.join(recipe.file).exists());
    let mut text = "\
# How whyslow builds and starts a revision of this repository, and what it asks it:
# `whyslow compare main=git:main pr=git:.`
# Both commands run in this file's folder of a checkout; {build} is a folder for what is made.
"
    .to_owned();
    let mut line = |comment: &str, key: &str, value: String| {
        let comment = if comment.is_empty() { String::new() } else { format!("   # {comment}") };
        writeln!(text, "{key} = {value}{comment}").expect("writing to a string cannot fail");
    };
    let port_env = probed.is_some_and(|probed| probed.port_env);
    let seen = probed.and_then(|probed| probed.run.as_deref());
    match recipe {
        Some(recipe) => {
            let guess = format!("a guess, because there is a {}", recipe.file);
            line(&guess, "build", quoted(&recipe.build(seen)));
        }
        None => line("how it is built, where it is built at all", "# build", quoted("make")),
    }
    let run = run_of(recipe, seen, folder);
    let comment = match seen {
        Some(_) => of_seen(&run, folder, port_env),
        None => "a guess: how it is started and told its port",
    };
    line(comment, "run", quoted(&run));
    if let Some(probed) = probed {
        if probed.port_env {
            line("", "port_env", "true".to_owned());
        }
        if probed.status != OK {
            line("what it answered", "expect_status", probed.status.to_string());
        }
        if let Some(path) = &probed.path {
            line("", "path", quoted(path));
        }
    }
    line("what makes the exit code 3", "fail_if", "[\"pr slower\"]".to_owned());
    text
}

/// The command that starts the server: the one that was seen, else a guess.
fn run_of(recipe: Option<&Recipe>, seen: Option<&str>, folder: &Path) -> String {
    let name = folder.file_name().and_then(|name| name.to_str()).unwrap_or(PROGRAM);
    match (recipe, seen) {
        (Some(recipe), Some(seen)) => recipe.started(seen),
        (Some(recipe), None) => recipe.run.replace("NAME", name),
        (None, Some(seen)) => seen.to_owned(),
        (None, None) => "./server {port}".to_owned(),
    }
}

/// What is said of a command that was seen.
fn of_seen(run: &str, folder: &Path, port_env: bool) -> &'static str {
    if is_elsewhere(run, folder) {
        return "as the running server was started, from outside this folder, where every revision would be the same program: name \
                the one that the build makes, as in ./server or {build}/server";
    }
    if run.contains("{port}") || port_env {
        return "as the running server was started";
    }
    "as the running server was started: put {port} where its port goes"
}

/// Whether a command runs a program from outside `folder` that is given nothing from inside, as an interpreter is.
fn is_elsewhere(run: &str, folder: &Path) -> bool {
    let inside = |word: &str| !word.starts_with('/') && folder.join(word.trim_matches('\'')).is_file();
    run.starts_with('/') && !run.split_whitespace().any(inside)
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    // Every string of JSON is one of TOML.
    serde_json::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_where_it_stands_by_itself() {
        for (word, want) in [
            ("8080", "{port}"),
            ("--port=8080", "--port={port}"),
            ("127.0.0.1:8080", "127.0.0.1:{port}"),
            ("18080", "18080"),
            ("80801", "80801"),
            ("./a", "./a"),
        ] {
            assert_eq!(with_port(word, 8080), want);
        }
        let words = ["/r/s/bin/server".to_owned(), "-p".to_owned(), "8080".to_owned(), "a b".to_owned()];
        assert_eq!(command(&words, 8080, Path::new("/r/s")).as_deref(), Some("./bin/server -p {port} 'a b'"));
        assert_eq!(command(&[], 8080, Path::new("/r")), None);
    }

    #[test]
    fn what_was_seen_is_what_the_build_makes() {
        let go = ["go.mod"];
        let requirements = ["requirements.txt", "Makefile"];
        // Files of the folder, the command that was seen, and what is written.
        let cases: [(&[&str], Option<&str>, &str, &str); 9] = [
            (&go, Some("./shop {port}"), "go build -o shop .", "./shop {port}"),
            (
                &go,
                Some("/tmp/go-build1/b001/exe/shop"),
                "go build -o server .",
                "/tmp/go-build1/b001/exe/shop",
            ),
            (&go, None, "go build -o server .", "./server -port {port}"),
            (&["package.json"], Some("node app.js {port}"), "npm install", "node app.js {port}"),
            (&["package.json", "package-lock.json"], None, "npm ci", "node . --port {port}"),
            (
                &requirements,
                Some(".venv/bin/python app.py {port}"),
                "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
                ".venv/bin/python app.py {port}",
            ),
            (
                &requirements,
                Some("./env/bin/python3.11 env/bin/uvicorn app:app --port {port}"),
                "python3 -m venv .venv && .venv/bin/pip install -r requirements.txt",
                ".venv/bin/python .venv/bin/uvicorn app:app --port {port}",
            ),
            (
                &["pyproject.toml"],
                Some("python3 app.py {port}"),
                "python3 -m venv .venv && .venv/bin/pip install .",
                ".venv/bin/python app.py {port}",
            ),
            (&["Makefile"], Some("./s {port}"), "make", "./s {port}"),
        ];
        for (files, seen, build, run) in cases {
            let recipe = RECIPES.iter().find(|recipe| files.contains(&recipe.file)).unwrap();
            assert_eq!(recipe.build(seen), build, "{files:?}, {seen:?}");
            assert_eq!(run_of(Some(recipe), seen, Path::new("/r/shop")), run, "{files:?}, {seen:?}");
        }
    }

    #[test]
    fn what_is_written_reads() {
        let probed = Probed {
            path: Some("/a?b=\"c\"".to_owned()),
            status: 401,
            run: Some("./server 'it''s' {port}".to_owned()),
            port_env: false,
        };
        let folder = Path::new("/nowhere/shop");
        let outside =
            Probed { run: Some("/opt/server {port}".to_owned()), path: None, status: 200, port_env: false };
        assert!(text(Some(&outside), folder).contains("from outside this folder"));
        let file = ConfigFile::parse(FILE, &text(Some(&probed), folder)).unwrap();
        assert_eq!((file.path, file.expect_status), (probed.path, Some(401)));
        assert_eq!(file.run, probed.run);
        let file = ConfigFile::parse(FILE, &text(None, folder)).unwrap();
        assert_eq!(
            (file.run.as_deref(), file.fail_if),
            (Some("./server {port}"), vec!["pr slower".to_owned()])
        );
    }
}
