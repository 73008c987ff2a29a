//! What `whyslow load` asks for, where it is not one request again and again: lists and access logs.

use std::path::PathBuf;
use std::sync::Arc;

use anyhow::Context;
use clap::Args;
use load::schedule::Pace;
use load::{Config, List};

/// Lists of requests.
#[derive(Debug, Args)]
#[command(next_help_heading = "Asking for more than one thing")]
pub(crate) struct AskingArgs {
    /// Draw requests from this file, a line each
    #[arg(long, help = "Draw requests from this file, a line each: [WEIGHT] [METHOD] PATH", value_name = "FILE", conflicts_with_all = ["replay", "script"])]
    pub(crate) urls: Option<PathBuf>,
    /// Send the requests of this access log (combined format) with its own timing
    #[arg(long, value_name = "LOG", conflicts_with_all = ["rate", "changing", "script"])]
    pub(crate) replay: Option<PathBuf>,
    /// With --replay: how many times as fast as it was
    #[arg(long, value_name = "FACTOR", default_value_t = 1.0, requires = "replay")]
    pub(crate) speed: f64,
}

impl AskingArgs {
    /// Sets what the flags say of the requests; `config.request` is the pattern of each.
    pub(crate) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        let list = match (&self.urls, &self.replay) {
            (Some(file), _) => {
                List::weighted(&read(file)?, &config.request).with_context(|| named("--urls", file))?
            }
            (None, Some(file)) => List::access_log(&read(file)?, &config.request, self.speed)
                .with_context(|| named("--replay", file))?,
            (None, None) => return Ok(()),
        };
        if list.skipped > 0 {
            crate::say(&format!("{} lines of the log hold no request and are left out", list.skipped));
        }
        if let Some(pace) = list.pace() {
            config.pace = pace;
        }
        let window_s = config.window.as_secs_f64();
        if let Some(lasts_s) = list.lasts_s().filter(|lasts_s| *lasts_s >= window_s) {
            crate::say(&format!(
                "the log lasts {lasts_s:.1} s, of which the window replays the first {window_s:.1} s: give -d {:.0}s for all of \
                 it",
                lasts_s.floor() + 1.0
            ));
        }
        debug_assert!(self.replay.is_none() || config.pace != Pace::Closed);
        config.list = Some(Arc::new(list));
        Ok(())
    }
}

fn read(file: &PathBuf) -> anyhow::Result<String> {
    std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))
}

fn named(flag: &str, file: &std::path::Path) -> String {
    format!("{flag} {}", file.display())
}
