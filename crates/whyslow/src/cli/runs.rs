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
    /// Print everything that is known, not only the first screen
    #[arg(long)]
    pub(crate) details: bool,
    #[command(flatten)]
    pub(crate) judged: JudgedArgs,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow report whyslow-runs/20260102-030405-9f3c -o report.html")]
pub(crate) struct ReportArgs {
    /// Run directories; the page shows several side by side
    #[arg(required = true, value_name = "RUN")]
    pub(crate) runs: Vec<PathBuf>,
    /// File to write
    #[arg(short, long, default_value = "report.html", value_name = "FILE")]
    pub(crate) output: PathBuf,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow view --runs whyslow-runs --listen 127.0.0.1:8710")]
pub(crate) struct ViewArgs {
    /// Serve only this run
    #[arg(value_name = "RUN")]
    pub(crate) run: Option<PathBuf>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// Address to listen on; anyone who can reach it can read the runs. Port 0 chooses a free one
    #[arg(long, default_value = "127.0.0.1:8710", value_name = "ADDRESS:PORT", value_parser = listened)]
    pub(crate) listen: std::net::SocketAddr,
}

/// An address to listen on.
fn listened(text: &str) -> Result<std::net::SocketAddr, String> {
    let port: String = text.chars().skip_while(|c| !c.is_ascii_digit()).collect();
    let port = port.parse::<u16>().unwrap_or(8710);
    text.parse().map_err(|_| format!("write an address with a port, such as 127.0.0.1:{port}"))
}

#[derive(Debug, Args)]
#[command(after_help = "Examples:\n  whyslow history main\n  whyslow history main --metric p99")]
pub(crate) struct HistoryArgs {
    /// Show only this arm or target
    #[arg(value_name = "TARGET")]
    pub(crate) target: Option<String>,
    /// Folder of runs
    #[arg(long, default_value = "whyslow-runs", value_name = "DIR")]
    pub(crate) runs: PathBuf,
    /// Show only this metric: cpu_per_request, rate, p50, p90, p99, p99_9 or rss [default: cpu_per_request; of JSON, all]
    #[arg(long)]
    pub(crate) metric: Option<String>,
    /// Show every metric
    #[arg(long, conflicts_with = "metric")]
    pub(crate) details: bool,
    /// How the result is printed
    #[arg(long, value_enum, default_value_t = Format::Text)]
    pub(crate) format: Format,
}

#[derive(Debug, Args)]
#[command(after_help = "Example:\n  whyslow schema compare > findings.schema.json")]
pub(crate) struct SchemaArgs {
    /// The output to describe
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
    /// The command, in one word or two [default: the program itself]
    #[arg(num_args = 0..=2)]
    pub(crate) command: Vec<String>,
}
