//! Memory and descriptors of the server while a load lasts: `--soak`.

use std::time::Duration;

use anyhow::{Context, bail};
use load::{Address, Config, Event};
use model::record::{Growth, ServerGrowth};
use observe::{Group, Point, Series, listening_process};
use stats::trend::growth;

use crate::cli::LoadArgs;

/// Looks at the server in one window: many more than the growth is computed from.
const LOOKS: u32 = 240;
/// Shortest and longest time between two looks: one takes less than a millisecond, and an hour has sixty minutes.
const PERIODS: [Duration; 2] = [Duration::from_millis(20), Duration::from_secs(60)];
/// Shortest window of which a growth can be told: it takes two dozen looks.
const SHORTEST: Duration = Duration::from_millis(500);
/// Level of the intervals.
const LEVEL: f64 = 0.95;
/// Seconds of an hour.
const HOUR_S: f64 = 3600.0;
/// How the names of figures begin that need it.
const FIGURES: [&str; 2] = ["rss_slope", "descriptors_slope"];

/// The server of a load, watched.
pub(super) struct Soak {
    pid: u32,
    period: Duration,
    series: Option<Series>,
    points: Vec<Point>,
}

impl Soak {
    /// Finds the server, where `--soak` or a condition asks for it.
    pub(super) fn open(args: &LoadArgs, config: &Config) -> anyhow::Result<Option<Self>> {
        let names_growth = |text: &String| FIGURES.iter().any(|figure| text.trim_start().starts_with(figure));
        if !args.keep.soak && !args.keep.fail_if.iter().any(names_growth) {
            return Ok(None);
        }
        if args.repeat > 1 {
            bail!("--soak is one long window: leave --repeat out and lengthen -d");
        }
        if config.window < SHORTEST {
            bail!("--soak, and a condition on growth, need a window of {SHORTEST:?} or more: lengthen -d");
        }
        let local = config.target.addresses.iter().find_map(|address| match address {
            Address::Tcp(address) if address.ip().is_loopback() => Some(address.port()),
            _ => None,
        });
        let Some(port) = local else {
            bail!(
                "--soak watches a server on this machine: reach it by a loopback address such as 127.0.0.1, not by {}",
                config.target.url
            );
        };
        let pid = listening_process(port).context("--soak")?;
        Group::from_pid(pid).context("--soak")?;
        let period = (config.window / LOOKS).clamp(PERIODS[0], PERIODS[1]);
        Ok(Some(Self { pid, period, series: None, points: Vec::new() }))
    }

    /// Takes in what happened.
    pub(super) fn follow(&mut self, event: &Event) {
        match event {
            Event::WindowStart { .. } => {
                // The load reports a server that has ended meanwhile.
                self.series = Group::from_pid(self.pid).ok().map(|group| Series::start(group, self.period));
            }
            Event::WindowEnd { .. } | Event::Failed => {
                self.points = self.series.take().map(|series| series.stop().0).unwrap_or_default();
            }
            _ => {}
        }
    }

    /// What the server did in the window; nothing where it was too short, or the server ended.
    pub(super) fn figures(&self) -> Option<ServerGrowth> {
        let last = self.points.last()?;
        let slope = |value: fn(&Point) -> u64, step: f64| {
            let series: Vec<(f64, f64)> =
                self.points.iter().map(|point| (point.at_ns as f64 / 1e9, value(point) as f64)).collect();
            let estimate = growth(&series, LEVEL, step).ok()?;
            let per_h = |per_s: f64| per_s * HOUR_S;
            let interval = estimate.interval;
            Some(Growth {
                per_h: per_h(estimate.value),
                low: per_h(interval.low),
                high: per_h(interval.high),
            })
        };
        Some(ServerGrowth {
            pid: self.pid,
            looks: self.points.len() as u64,
            rss_bytes: last.rss_bytes,
            descriptors: last.descriptors,
            rss_slope_bytes: slope(|point| point.rss_bytes, rustix::param::page_size() as f64)?,
            descriptors_slope: slope(|point| point.descriptors, 1.0)?,
        })
    }
}
