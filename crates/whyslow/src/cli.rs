//! The command line: the one definition from which help, man pages and completions are made.

mod compare;
#[cfg(test)]
mod documented;
mod load;
mod request;
mod runs;
mod servers;

use clap::{Parser, Subcommand, ValueEnum};

pub(crate) use compare::{Arrival, BisectArgs, CapacityArgs, CompareArgs, JudgedArgs, LadderArgs, Same};
pub(crate) use load::{Called, FigureArgs, IdleKind, LoadArgs, LoadFormat, MergeArgs, ScheduleKind};
pub(crate) use request::{CountOrFile, RequestArgs, Size, text};
pub(crate) use runs::{
    AnalyseArgs, CompletionsArgs, HistoryArgs, ManArgs, Output, ReportArgs, SchemaArgs, ViewArgs,
};
pub(crate) use servers::{
    CaseAction, CaseArgs, CaseRunArgs, DoctorArgs, InitArgs, Model, ServeArgs, TargetsAction, TargetsArgs,
    WatchArgs,
};

/// Which HTTP server is slower, by how much, and why.
#[derive(Debug, Parser)]
#[command(name = "whyslow", version, arg_required_else_help = true)]
pub(crate) struct Cli {
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Compare servers: which is slower, by how much, and how far to trust the result
    Compare(Box<CompareArgs>),
    /// Compare a series of changes, each with the one before it
    Ladder(Box<LadderArgs>),
    /// Write whyslow.toml from a running server's answers and the files in this folder
    Init(InitArgs),
    /// Find the commit that made a server slower
    Bisect(Box<BisectArgs>),
    /// Load one server, as wrk and wrk2 do, and report its rate and latencies
    Load(Box<LoadArgs>),
    /// Find the highest rate at which a condition holds
    Capacity(Box<CapacityArgs>),
    /// Merge what several generators saved, without loss
    Merge(MergeArgs),
    /// Run one of the built-in servers
    Serve(ServeArgs),
    /// List, build and check the servers that can be compared here
    Targets(TargetsArgs),
    /// Watch a running server: what it spends and which resource it lacks
    Watch(WatchArgs),
    /// Show what this machine can and cannot measure, and how to change that
    Doctor(DoctorArgs),
    /// Repeat a published comparison and compare its figures with the published ones
    Case(CaseArgs),
    /// Print the results of earlier runs again
    Analyse(AnalyseArgs),
    /// Write runs as one HTML file that opens offline
    Report(ReportArgs),
    /// Serve a web page with the runs kept here, on this machine only
    View(ViewArgs),
    /// Show how figures changed over the runs kept here
    History(HistoryArgs),
    /// Runs on the machines that --on and --load-on name
    #[command(hide = true)]
    Agent,
    /// Print the JSON Schema of an output or a file
    Schema(SchemaArgs),
    /// Print completions for a shell
    Completions(CompletionsArgs),
    /// Print a man page
    Man(ManArgs),
}

/// How results are printed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Format {
    /// For people
    Text,
    /// For scripts
    Json,
    /// Markdown
    Md,
}
