//! whyslow: which HTTP server is slower, by how much, and why.
#![forbid(unsafe_code)]

mod analyse_command;
mod bisect;
mod capacity;
mod case;
mod catalogue;
mod cli;
mod compare;
mod config;
mod doctor;
mod exit;
mod folder;
mod grpc;
mod history;
mod init;
mod interrupt;
mod jvm;
mod ladder;
mod load_command;
mod manual;
mod merge_command;
mod report_command;
mod revision;
mod runtimes;
mod serve;
mod sharding;
mod targets;
mod view;
mod watch;

use std::ffi::OsString;
use std::io::{ErrorKind, IsTerminal, Write};
use std::path::Path;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use cli::{Cli, Command};
use exit::{Exit, Outcome};

fn main() -> ExitCode {
    if let Some(code) = launch::role(std::env::args_os()) {
        return code;
    }
    match dispatch(&Cli::parse_from(command_line(std::env::args_os()))) {
        Ok(exit) => exit.into(),
        Err(stop) => {
            say(&format!("error: {}", exit::told(stop.error())));
            stop.exit().into()
        }
    }
}

/// What is asked of us. Called by the name of wrk or wrk2 it is a load in their words.
fn command_line(given: impl Iterator<Item = OsString>) -> Vec<OsString> {
    let mut given = given.peekable();
    let name = given.peek().and_then(|name| Path::new(name).file_name()?.to_str().map(str::to_owned));
    let Some(name) = name.filter(|name| matches!(name.as_str(), "wrk" | "wrk2")) else {
        return without_help_of_help(given.collect());
    };
    let ours = ["whyslow", "load", "--format", "wrk", "--called", &name].map(OsString::from);
    ours.into_iter().chain(given.skip(1)).collect()
}

/// `help --help` is `help`: the parser takes the flag for the name of a command.
fn without_help_of_help(mut words: Vec<OsString>) -> Vec<OsString> {
    if words.get(1).is_some_and(|word| word == "help") {
        words.retain(|word| word != "--help" && word != "-h");
    }
    words
}

fn dispatch(cli: &Cli) -> Outcome {
    match &cli.command {
        Command::Compare(args) => compare::run(args),
        Command::Init(args) => init::run(args),
        Command::Bisect(args) => bisect::run(args),
        Command::Ladder(args) => ladder::run(args),
        Command::Load(args) => load_command::run(args),
        Command::Merge(args) => merge_command::run(args),
        Command::Capacity(args) => capacity::run(args),
        Command::Serve(args) => serve::run(args).map(|()| Exit::Done).map_err(Into::into),
        Command::Targets(args) => targets::run(args),
        Command::Case(args) => case::run(args),
        Command::Analyse(args) => analyse_command::run(args),
        Command::Watch(args) => watch::run(args),
        Command::Doctor(args) => doctor::run(args),
        Command::History(args) => history::run(args),
        Command::View(args) => view::run(args),
        Command::Report(args) => report_command::run(args),
        Command::Agent => compare::remote::agent::run(),
        Command::Schema(args) => manual::schema(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    }
}

/// Data, to standard output. Whoever closed that, such as `head`, has read what it wanted.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    match out.write_all(text.as_bytes()).and_then(|()| out.flush()) {
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(()),
        written => written.context("cannot write to standard output"),
    }
}

/// Colour where a person reads standard output in a terminal and has not asked for none. Source: no-color.org.
pub(crate) fn style() -> report::Style {
    let refused = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
    if std::io::stdout().is_terminal() && !refused { report::Style::Colour } else { report::Style::Plain }
}

/// Data as JSON, to standard output.
pub(crate) fn print_json(value: &impl serde::Serialize) -> anyhow::Result<()> {
    print(&(serde_json::to_string_pretty(value).context("what is printed can be written as JSON")? + "\n"))
}

/// Talk, to standard error.
#[expect(clippy::print_stderr, reason = "this is where the program talks")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}
