//! whyslow: which HTTP server is slower, by how much, and why.
#![forbid(unsafe_code)]

mod analyse_command;
mod catalogue;
mod cli;
mod compare;
mod exit;
mod history;
mod interrupt;
mod load_command;
mod manual;
mod report_command;
mod serve;
mod targets;
mod view;

use std::io::Write;
use std::process::ExitCode;

use anyhow::Context;
use clap::Parser;

use cli::{Cli, Command};
use exit::{Exit, Outcome};

fn main() -> ExitCode {
    if let Some(code) = launch::role(std::env::args_os()) {
        return code;
    }
    match dispatch(&Cli::parse()) {
        Ok(exit) => exit.into(),
        Err(stop) => {
            say(&format!("error: {:#}", stop.error()));
            stop.exit().into()
        }
    }
}

fn dispatch(cli: &Cli) -> Outcome {
    match &cli.command {
        Command::Compare(args) => compare::run(args),
        Command::Load(args) => load_command::run(args),
        Command::Serve(args) => serve::run(args).map(|()| Exit::Done).map_err(Into::into),
        Command::Targets(args) => targets::run(args),
        Command::Analyse(args) => analyse_command::run(args),
        Command::History(args) => history::run(args),
        Command::View(args) => view::run(args),
        Command::Report(args) => report_command::run(args),
        Command::Schema(args) => manual::schema(args),
        Command::Completions(args) => manual::completions(args),
        Command::Man(args) => manual::man(args),
    }
}

/// Data, to standard output.
pub(crate) fn print(text: &str) -> anyhow::Result<()> {
    let mut out = std::io::stdout().lock();
    out.write_all(text.as_bytes()).and_then(|()| out.flush()).context("cannot write to standard output")
}

/// Talk, to standard error.
#[expect(clippy::print_stderr, reason = "this is where the program talks")]
pub(crate) fn say(line: &str) {
    eprintln!("{line}");
}
