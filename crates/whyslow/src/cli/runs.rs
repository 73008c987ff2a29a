//! Flags of the commands that read what is there: runs, schemas, the command line itself.

use std::path::PathBuf;

use clap::{Args, ValueEnum};

use super::{Format, JudgedArgs};

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow analyse whyslow-runs/20260102-030405-9f3c --format json")]
pub(crate) struct AnalyseArgs {
    /// Run directories
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
    /// Everything that is known, behind the first screen
    #[arg(long)]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) judged: JudgedArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow report whyslow-runs/20260102-030405-9f3c -o report.html")]
pub(crate) struct ReportArgs {
    /// Run directories; several stand beside each other on the page
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// The file
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow view --runs whyslow-runs")]
pub(crate) struct ViewArgs {
    /// One run directory, which alone is then served
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// Where to listen; whoever reaches it can read the runs. Port 0 takes a free one
    #[arg(long, default_value = "127.0.0.1:8710", value_name = "ADDRESS:PORT")]
    pub(crate) listen: std::net::SocketAddr,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow history main --metric cpu_per_request")]
pub(crate) struct HistoryArgs {
    /// An arm or a target; all where none is named
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// One metric: cpu_per_request, rate, p50, p90, p99, p99_9 or rss
    #[arg(long)]
    pub(crate) metric: Option<String>,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow schema compare > findings.schema.json")]
pub(crate) struct SchemaArgs {
    /// The output that is described
    #[arg(value_enum)]
    pub(crate) output: Output,
}

/// An output that has a schema.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
pub(crate) enum Output {
    /// whyslow compare and whyslow analyse
    Compare,
    /// The data in a page of whyslow report
    Report,
    /// whyslow load
    Load,
    /// whyslow capacity
    Capacity,
    /// whyslow watch
    Watch,
    /// whyslow case run
    Case,
    /// whyslow bisect
    Bisect,
    /// The file whyslow.toml
    Whyslow,
}

#[derive(Debug, Args)]
#[command(
    after_help = "Example:\n  whyslow completions bash > ~/.local/share/bash-completion/completions/whyslow"
)]
pub(crate) struct CompletionsArgs {
    /// The shell
    #[arg(value_enum)]
    pub(crate) shell: clap_complete::Shell,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow man compare | man -l -")]
pub(crate) struct ManArgs {
    /// The command; the program itself where none is given
    pub(crate) command: Option<String>,
}
