//! The static binary where there is nothing else: an empty root, without libraries, settings or `/proc`.

use std::fs;
use std::io::{BufRead, BufReader};
use std::path::Path;
use std::process::{Child, Command, Output, Stdio};

use anyhow::{Context, bail, ensure};

use super::{FOLDER, VERSION, emptied, text};
use crate::shell::{command, root};

/// A name that only the trial's own `/etc/hosts` knows.
const HOST: &str = "server.trial";
/// Domain that never has an address. Source: RFC 6761, section 6.4.
const NO_HOST: &str = "whyslow.invalid";
/// Exit code of a load whose server is not there.
const NOT_THERE: i32 = 2;
/// In the name of a function that was inlined, which only debug sections know: those of the symbol table begin with it, if any.
const INLINED: &str = "<straightline::";

/// Tries the binary in a root that has nothing but it and an `/etc`.
pub(super) fn in_empty_root(binary: &Path) -> anyhow::Result<()> {
    let folder = emptied(root().join(FOLDER).join("empty-root"))?;
    fs::copy(binary, folder.join("whyslow")).context("cannot copy the binary")?;
    let version = good(&inside(&folder, &["/whyslow", "--version"])?)?;
    ensure!(version.trim() == format!("whyslow {VERSION}"), "it calls itself {version}");
    let doctor = inside(&folder, &["/whyslow", "doctor"])?;
    let doctor = good(&doctor)?;
    ensure!(doctor.contains("can be measured here"), "doctor says {doctor}");
    println!("   in an empty root, doctor: {}", doctor.lines().last().unwrap_or_default());

    let server = Server::start(inside_command(&folder, &["/whyslow"]))?;
    measured(&folder, &server, "127.0.0.1")?;
    no_such_host(&folder)?;
    // A machine whose names come from libraries that are not there.
    fs::create_dir(folder.join("etc"))?;
    fs::write(folder.join("etc/nsswitch.conf"), "hosts: mymachines resolve\n")?;
    fs::write(folder.join("etc/hosts"), format!("127.0.0.1 {HOST}\n"))?;
    measured(&folder, &server, HOST)?;
    no_such_host(&folder)
}

/// A short load of the server under one of its names is answered without errors.
fn measured(folder: &Path, server: &Server, host: &str) -> anyhow::Result<()> {
    let url = format!("http://{host}:{}/plaintext", server.port);
    let load = ["/whyslow", "load", "-c4", "-d1s", "--format", "json", "--fail-if", "errors > 0", &url];
    let output = good(&inside(folder, &load)?)?;
    let report: serde_json::Value = serde_json::from_str(&output).context("load prints JSON")?;
    ensure!(report.to_string().contains("rate_per_s"), "no rate: {report}");
    println!("   in an empty root, load of {url}: answered");
    Ok(())
}

/// A host without an address is reported in one sentence, whatever is missing to look it up.
fn no_such_host(folder: &Path) -> anyhow::Result<()> {
    let url = format!("http://{NO_HOST}/");
    let output = inside(folder, &["/whyslow", "load", "-c1", "-d1s", &url])?;
    let stderr = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    ensure!(
        output.status.code() == Some(NOT_THERE) && stderr.lines().count() == 1 && stderr.contains(NO_HOST),
        "{}: {stderr}",
        output.status
    );
    println!("   in an empty root, load of {url}: {stderr}");
    Ok(())
}

/// A profile of its own server has the names of its own functions, inlined ones too.
pub(super) fn names_own_functions(binary: &Path) -> anyhow::Result<()> {
    let server = Server::start(Command::new(binary))?;
    let folded = root().join(FOLDER).join("own.folded");
    let url = format!("http://127.0.0.1:{}/plaintext", server.port);
    let mut load =
        Command::new(binary).args(["load", "-c16", "-d10s", &url]).stdout(Stdio::null()).spawn()?;
    let port = format!(":{}", server.port);
    let watch = ["watch", &port, "-d", "2s", "--profile", "--folded", &text(&folded)?];
    let watched = Command::new(binary).args(watch).output().context("cannot watch")?;
    load.kill().and_then(|()| load.wait()).context("cannot end the load")?;
    good(&watched)?;
    let stacks = fs::read_to_string(&folded).context("cannot read the profile; doctor says what it lacks")?;
    let inlined = |frame: &&str| frame.find(INLINED).is_some_and(|at| at > 0);
    let own: Vec<&str> = stacks.split([';', '\n']).filter(inlined).collect();
    ensure!(!own.is_empty(), "no inlined function of straightline has its name in {}", folded.display());
    println!("   profile of its own server: {} inlined functions, such as {}", own.len(), own[0]);
    Ok(())
}

/// `words` as run within a root, by root or by whoever may make a user namespace.
fn inside_command(folder: &Path, words: &[&str]) -> Command {
    let mut command = command(&["unshare"]);
    if !rustix::process::geteuid().is_root() {
        command.arg("--map-root-user");
    }
    command.arg(format!("--root={}", folder.display())).arg("--").args(words);
    command
}

pub(super) fn inside(folder: &Path, words: &[&str]) -> anyhow::Result<Output> {
    inside_command(folder, words).output().context("cannot run unshare")
}

/// What a command that must succeed printed.
pub(super) fn good(output: &Output) -> anyhow::Result<String> {
    if !output.status.success() {
        bail!("{}: {}", output.status, String::from_utf8_lossy(&output.stderr));
    }
    Ok(String::from_utf8_lossy(&output.stdout).into_owned())
}

/// A built-in server that ends with this.
struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it by a command that is the program.
    fn start(mut program: Command) -> anyhow::Result<Self> {
        program.args(["serve", "--model", "coroutines"]).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = program.spawn().context("cannot start the server")?;
        let mut line = String::new();
        BufReader::new(child.stdout.take().expect("it is piped")).read_line(&mut line)?;
        let port = line.trim().rsplit(':').next().and_then(|port| port.trim_end_matches('/').parse().ok());
        let port = port.with_context(|| format!("the server said '{}' and no port", line.trim()))?;
        Ok(Self { child, port })
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        // It may have ended by itself; then there is nothing to do.
        let _ = self.child.kill().and_then(|()| self.child.wait());
    }
}
