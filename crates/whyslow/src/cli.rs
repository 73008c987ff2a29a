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
    /// Compare servers: which is slower, by how much, and whether to believe it
    Compare(Box<CompareArgs>),
    /// One change after another, each against the one before it
    Ladder(Box<LadderArgs>),
    /// Write whyslow.toml from what a running server answers and what the folder holds
    Init(InitArgs),
    /// Find the commit that made a server slower
    Bisect(Box<BisectArgs>),
    /// Load one server along a schedule and report honestly
    Load(Box<LoadArgs>),
    /// Find the highest rate at which a condition holds; the curve and the knee
    Capacity(Box<CapacityArgs>),
    /// Put the shards of one run together, without loss
    Merge(MergeArgs),
    /// Run one of the built-in servers
    Serve(ServeArgs),
    /// List, build and verify the servers that can be compared here
    Targets(TargetsArgs),
    /// Watch a running server under someone else's load: what it costs and what it lacks
    Watch(WatchArgs),
    /// What this machine can and cannot measure, and what would allow it
    Doctor(DoctorArgs),
    /// Repeat a published comparison and hold it against what was published
    Case(CaseArgs),
    /// Gates, ledger and verdict again from a run directory
    Analyse(AnalyseArgs),
    /// Write runs as one HTML page that opens offline
    Report(ReportArgs),
    /// Serve the pages of the runs kept here, on loopback
    View(ViewArgs),
    /// Show how figures moved over the runs kept here
    History(HistoryArgs),
    /// The other end of --on and --load-on, on the machine that they name
    #[command(hide = true)]
    Agent,
    /// Print the JSON Schema of an output
    Schema(SchemaArgs),
    /// Print a shell completion
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
