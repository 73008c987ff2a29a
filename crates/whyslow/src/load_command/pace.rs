//! `--rate`, `--ramp`, `--steps`, `--rates` → when requests are due.

use std::path::Path;
use std::str::FromStr;
use std::time::Duration;

use anyhow::{Context, bail};
use load::schedule::{Arrival, Dispatch, Intensity, Pace, Step};
use model::units::{Rate, Span};

use crate::cli::{self, LoadArgs, ScheduleKind};

/// Two rates: `FROM..TO`.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) struct Ramp {
    from: f64,
    to: f64,
}

impl FromStr for Ramp {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || format!("'{text}' is not a ramp: write FROM..TO, such as 1k..50k");
        let (from, to) = text.split_once("..").ok_or_else(wrong)?;
        // A rate is above zero; a ramp may begin or end at it.
        let rate = |text: &str| match text.trim() {
            "0" => Ok(0.0),
            text => text.parse::<Rate>().map(Rate::get).map_err(|_| wrong()),
        };
        let ramp = Self { from: rate(from)?, to: rate(to)? };
        if ramp.from + ramp.to > 0.0 { Ok(ramp) } else { Err(wrong()) }
    }
}

/// When requests are due: a closed loop where no rate is given in any way.
pub(super) fn pace(args: &LoadArgs) -> anyhow::Result<Pace> {
    let Some(intensity) = intensity(args)? else { return Ok(Pace::Closed) };
    Ok(Pace::Open {
        intensity,
        arrival: match args.arrival {
            cli::Arrival::Constant => Arrival::Constant,
            cli::Arrival::Poisson => Arrival::Poisson,
        },
        dispatch: match args.schedule {
            ScheduleKind::Shared => Dispatch::Shared,
            ScheduleKind::Connection => Dispatch::Connection,
        },
    })
}

fn intensity(args: &LoadArgs) -> anyhow::Result<Option<Intensity>> {
    let window_s = args.duration.0.as_secs_f64();
    if let Some(Ramp { from, to }) = args.rates.ramp {
        return Ok(Some(Intensity::Ramp { from_per_s: from, to_per_s: to, over_s: window_s }));
    }
    if !args.rates.steps.is_empty() {
        let for_s = window_s / args.rates.steps.len() as f64;
        let steps = args.rates.steps.iter().map(|rate| Step { per_s: rate.get(), for_s });
        return Ok(Some(Intensity::Steps(steps.collect())));
    }
    if let Some(file) = &args.rates.rates {
        return Ok(Some(Intensity::Steps(read(file, args.duration.0)?)));
    }
    Ok(args.rate.map(|rate| Intensity::Flat { per_s: rate.get() }))
}

fn read(file: &Path, window: Duration) -> anyhow::Result<Vec<Step>> {
    let text =
        std::fs::read_to_string(file).with_context(|| format!("cannot read --rates {}", file.display()))?;
    let steps = steps(&text).with_context(|| format!("--rates {}", file.display()))?;
    let total: f64 = steps.iter().map(|step| step.for_s).sum();
    if total > window.as_secs_f64() {
        bail!(
            "--rates {} lasts {total} s, the window {} s: give -d {total}s",
            file.display(),
            window.as_secs_f64()
        );
    }
    Ok(steps)
}

/// One step a line: a rate and how long, such as `20k 5s`; `#` begins a comment. A rate of 0 is a pause.
fn steps(text: &str) -> anyhow::Result<Vec<Step>> {
    let mut steps = Vec::new();
    for (index, line) in text.lines().enumerate() {
        let line = line.split('#').next().unwrap_or_default().trim();
        if line.is_empty() {
            continue;
        }
        let step = step(line);
        steps.push(step.with_context(|| {
            format!("line {}: '{line}' is not a step: write RATE DURATION, such as 20k 5s", index + 1)
        })?);
    }
    if steps.iter().all(|step| step.per_s == 0.0) {
        bail!("no request would ever be due: write at least one line such as 20k 5s");
    }
    Ok(steps)
}

fn step(line: &str) -> Option<Step> {
    let (rate, length) = line.split_once(char::is_whitespace)?;
    let per_s = if rate == "0" { 0.0 } else { rate.parse::<Rate>().ok()?.get() };
    let for_s = length.trim().parse::<Span>().ok()?.0.as_secs_f64();
    (for_s > 0.0).then_some(Step { per_s, for_s })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steps_are_read_and_what_is_none_is_named_with_its_line() {
        let read = steps("20k 5s # warm\n\n0 500ms\n1 1m\n").expect("it is right");
        let want = [(20_000.0, 5.0), (0.0, 0.5), (1.0, 60.0)].map(|(per_s, for_s)| Step { per_s, for_s });
        assert_eq!(read, want);
        for (text, line) in
            [("20k", "line 1"), ("1k 1s\nfast 2s", "line 2"), ("1k 0s", "line 1"), ("-1 1s", "line 1")]
        {
            let error = format!("{:#}", steps(text).expect_err(text));
            assert!(error.contains(line), "{text}: {error}");
        }
        assert!(steps("# nothing\n").is_err() && steps("0 5s").is_err());
    }

    #[test]
    fn a_ramp_may_begin_or_end_at_nothing_but_not_both() {
        assert_eq!("0..50k".parse(), Ok(Ramp { from: 0.0, to: 50_000.0 }));
        assert_eq!("2k..1k".parse(), Ok(Ramp { from: 2_000.0, to: 1_000.0 }));
        for wrong in ["", "5k", "0..0", "a..b", "1k..2k..3k", "-1..5"] {
            assert!(wrong.parse::<Ramp>().is_err(), "{wrong}");
        }
    }
}
