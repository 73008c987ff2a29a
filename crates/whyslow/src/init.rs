//! `whyslow init`: a `whyslow.toml` from what a running server answers and from what the folder holds.

mod kinds;
mod recipe;
mod seen;

use std::fmt::Write;
use std::io::ErrorKind;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use anyhow::Context;
use launch::{ProbeError, Repository};
use model::plan::ConfigFile;
use model::record::{Answer, without_secrets};

use crate::cli::InitArgs;
use crate::compare::running;
use crate::config::FILE;
use crate::exit::{Exit, Outcome, Stop};
use recipe::Recipe;
use seen::Seen;

/// How long the server may take to answer.
const PATIENCE: Duration = Duration::from_secs(5);
/// How long a server that is just being built and started may take until it listens.
const LISTENS_WITHIN: Duration = Duration::from_secs(10);
/// Between two looks at whether it does.
const LOOK: Duration = Duration::from_millis(100);
/// The status that needs no mention.
const OK: u16 = 200;
/// Branches that others are compared with, where they are there.
const BRANCHES: [&str; 2] = ["main", "master"];
/// What is said where a folder tells nothing.
const UNKNOWN: &str = "nothing here says how it is built and started: start your server and run whyslow init \
                       http://127.0.0.1:PORT/, or fill in run";

pub(crate) fn run(args: &InitArgs) -> Outcome {
    let folder = std::env::current_dir().context("cannot tell the current folder").map_err(Stop::usage)?;
    let place = Place::of(folder);
    let file = place.folder.join(FILE);
    // A guess that nobody has changed gives way to what is seen.
    let is_own_guess =
        || args.url.is_some() && std::fs::read_to_string(&file).is_ok_and(|text| text == place.text(None));
    if file.exists() && !is_own_guess() {
        return Err(Stop::usage(anyhow::anyhow!(
            "{FILE} is there already: change it, or move it away first"
        )));
    }
    let probed = args.url.as_deref().map(|url| probe(url, &place)).transpose().map_err(Stop::usage)?;
    let text = place.text(probed.as_ref());
    let written = ConfigFile::parse(FILE, &text).context("what was found out makes no whyslow.toml")?;
    model::record::write_atomically(&file, text.as_bytes())?;
    crate::print(&text)?;
    crate::say(&match written.run {
        Some(_) => format!("{FILE} is written: read it, then try `{} --verify`", place.compare()),
        None => format!("{FILE} is written, but {}", place.recipe(None).map_or(UNKNOWN.to_owned(), advice)),
    });
    Ok(Exit::Done)
}

/// What is to be done where a recipe names no command.
fn advice(recipe: Recipe) -> String {
    match (recipe.build, recipe.note) {
        (None, Some(note)) => format!("{} has no command to start: {note}", recipe.file),
        _ => format!(
            "{} does not say how it is started: start your server and run whyslow init http://127.0.0.1:PORT/, or fill in run",
            recipe.file
        ),
    }
}

/// What one answer of a running server tells.
struct Probed {
    path: Option<String>,
    status: u16,
    /// How it was started, where that can be seen.
    seen: Option<Seen>,
}

fn probe(url: &str, place: &Place) -> anyhow::Result<Probed> {
    let (address, path) = running::place(url)?;
    let answer = answer(address, path.as_deref().unwrap_or("/"))
        .map_err(|error| anyhow::anyhow!("{} does not answer: {error}", without_secrets(url)))?;
    let seen = Seen::find(address, &place.folder, &place.root);
    Ok(Probed { path, status: answer.status, seen })
}

/// What a server answers, once it listens.
fn answer(address: SocketAddr, path: &str) -> Result<Answer, ProbeError> {
    let until = Instant::now() + LISTENS_WITHIN;
    let mut said = false;
    loop {
        match launch::probe(address, path, PATIENCE) {
            Err(ProbeError::Connect(error))
                if error.kind() == ErrorKind::ConnectionRefused && Instant::now() < until =>
            {
                if !std::mem::replace(&mut said, true) {
                    let limit = LISTENS_WITHIN.as_secs();
                    crate::say(&format!(
                        "nothing listens on {address} yet: waiting for it, {limit} s at most"
                    ));
                }
                std::thread::sleep(LOOK);
            }
            other => return other,
        }
    }
}

/// Where the file is written.
struct Place {
    folder: PathBuf,
    /// The root of the repository; outside of one the folder.
    root: PathBuf,
    /// What others are compared with: a branch; outside of a repository nothing.
    branch: Option<String>,
}

impl Place {
    fn of(folder: PathBuf) -> Self {
        let repository = Repository::find(&folder).ok();
        let root = repository.as_ref().and_then(|one| one.git(&["rev-parse", "--show-toplevel"]).ok());
        Self {
            branch: repository.as_ref().map(branch),
            root: root.map_or_else(|| folder.clone(), PathBuf::from),
            folder,
        }
    }

    fn recipe(&self, seen: Option<&Seen>) -> Option<Recipe> {
        Recipe::of(&self.folder, seen)
    }

    /// A comparison to begin with.
    fn compare(&self) -> String {
        match &self.branch {
            Some(branch) => format!("whyslow compare main=git:{branch} pr=git:."),
            None => "whyslow compare main='./server-of-before {port}' pr='./server {port}'".to_owned(),
        }
    }

    fn text(&self, probed: Option<&Probed>) -> String {
        let seen = probed.and_then(|probed| probed.seen.as_ref());
        let recipe = self.recipe(seen);
        let mut text = format!(
            "# How whyslow builds and starts a revision of this repository, and what it asks it:\n# `{}`\n\
             # Both commands run in this file's folder of a checkout; {{build}} is a folder for what is made.\n",
            self.compare()
        );
        if seen.is_none() && recipe.is_none() {
            let mut said = UNKNOWN.to_owned();
            said[..1].make_ascii_uppercase();
            writeln!(text, "# {said}.").expect("writing to a string cannot fail");
        }
        text.push_str(&build_line(recipe.as_ref()));
        text.push_str(&run_lines(recipe.as_ref(), seen, &self.folder));
        if let Some(probed) = probed {
            text.push_str(&asked_lines(probed));
        }
        text.push_str(&line("what makes the exit code 3", "fail_if", "[\"pr slower\"]"));
        text
    }
}

/// The branch that is there to be compared with: what the repository stands on where it has neither of the usual ones.
fn branch(repository: &Repository) -> String {
    let usual = BRANCHES.into_iter().find(|name| repository.commit(name).is_ok());
    let current = || repository.git(&["symbolic-ref", "--quiet", "--short", "HEAD"]).ok();
    usual.map(str::to_owned).or_else(current).unwrap_or_else(|| "HEAD".to_owned())
}

fn line(comment: &str, key: &str, value: &str) -> String {
    let comment = if comment.is_empty() { String::new() } else { format!("   # {comment}") };
    format!("{key} = {value}{comment}\n")
}

fn build_line(recipe: Option<&Recipe>) -> String {
    match recipe.and_then(|recipe| Some((recipe.file, recipe.build.as_deref()?))) {
        Some((file, build)) => line(&format!("a guess, because there is a {file}"), "build", &quoted(build)),
        None => line("how it is built, where it is built at all", "# build", &quoted("make")),
    }
}

/// The command that starts the server: the one that was seen, else a guess, else where one goes.
fn run_lines(recipe: Option<&Recipe>, seen: Option<&Seen>, folder: &Path) -> String {
    if let Some(seen) = seen {
        let words = recipe.map_or_else(|| seen.words.clone(), |recipe| recipe.started(seen));
        let run = seen.command(&words);
        let mut lines = line(of_seen(&run, seen, &words, folder), "run", &quoted(&run));
        if seen.port_env {
            lines.push_str(&line("", "port_env", "true"));
        }
        return lines;
    }
    let note = recipe.and_then(|recipe| recipe.note.as_deref());
    let also = note.map_or_else(String::new, |note| format!("; {note}"));
    match recipe.and_then(|recipe| Some((recipe, recipe.run.as_deref()?))) {
        Some((recipe, run)) => {
            let guess = format!("a guess: how it is started and told its port{also}");
            let mut lines = line(&guess, "run", &quoted(run));
            if recipe.port_env {
                lines.push_str(&line("a guess: it reads its port from PORT", "port_env", "true"));
            }
            lines
        }
        None => {
            let above = note.map_or_else(String::new, |note| format!("# {note}\n"));
            let how = "how it is started, with {port} where its port goes";
            format!("{above}{}", line(how, "# run", &quoted("./server --port {port}")))
        }
    }
}

/// What was asked of the running server, and what it answered.
fn asked_lines(probed: &Probed) -> String {
    let mut lines = String::new();
    if probed.status != OK {
        lines.push_str(&line("what it answered", "expect_status", &probed.status.to_string()));
    }
    if let Some(path) = &probed.path {
        lines.push_str(&line("", "path", &quoted(path)));
    }
    lines
}

/// What is said of a command that was seen.
fn of_seen(run: &str, seen: &Seen, words: &[String], folder: &Path) -> &'static str {
    if words[0] == seen.words[0] && seen.is_elsewhere(folder) {
        return "as the running server was started, from outside this folder, where every revision would be the same program: name \
                the one that the build makes, as in ./server or {build}/server";
    }
    if run.contains("{port}") || seen.port_env {
        return "as the running server was started";
    }
    "as the running server was started: put {port} where its port goes"
}

/// A string of TOML.
fn quoted(text: &str) -> String {
    // Every string of JSON is one of TOML.
    serde_json::Value::String(text.to_owned()).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn place(folder: &str) -> Place {
        Place { folder: folder.into(), root: folder.into(), branch: Some("master".to_owned()) }
    }

    fn seen(words: &[&str], port_env: bool) -> Option<Seen> {
        let words = words.iter().map(|word| (*word).to_owned()).collect();
        Some(Seen { words, dir: None, port_env })
    }

    #[test]
    fn what_is_written_reads() {
        let place = place("/nowhere/shop");
        let words = ["./server", "'it''s'", "{port}"];
        let probed = Probed { path: Some("/a?b=\"c\"".to_owned()), status: 401, seen: seen(&words, false) };
        let file = ConfigFile::parse(FILE, &place.text(Some(&probed))).unwrap();
        assert_eq!((file.path, file.expect_status), (probed.path, Some(401)));
        assert_eq!(file.run.as_deref(), Some("./server 'it''s' {port}"));
        let outside = Probed { path: None, status: 200, seen: seen(&["/opt/server", "{port}"], false) };
        assert!(place.text(Some(&outside)).contains("from outside this folder"));
        let told = Probed { path: None, status: 200, seen: seen(&["./server"], true) };
        assert!(ConfigFile::parse(FILE, &place.text(Some(&told))).unwrap().port_env);
        let text = place.text(None);
        let file = ConfigFile::parse(FILE, &text).unwrap();
        assert_eq!((file.run, file.fail_if), (None, vec!["pr slower".to_owned()]));
        assert!(text.contains("# Nothing here says") && text.contains("main=git:master pr=git:."), "{text}");
        let outside = Place { branch: None, ..place };
        assert!(outside.text(None).contains("main='./server-of-before {port}' pr='./server {port}'"));
    }
}
