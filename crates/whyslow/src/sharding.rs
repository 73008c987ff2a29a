//! One schedule on several generators: which part is ours, when all begin, and what is kept for `whyslow merge`.

use std::path::PathBuf;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use clap::Args;
use load::{Config, Outcome, Shard, second_line, shard_log};
use model::record::ShardDir;

/// Several generators.
#[derive(Debug, Args)]
#[command(next_help_heading = "Several generators")]
pub(crate) struct ShardingArgs {
    /// Which of N generators this is, from 0: arrival k goes to shard k mod N. '/N' takes I from the environment. Under MPI and Slurm you
    /// can leave the flag out
    #[arg(long, value_name = "I/N")]
    pub(crate) shard: Option<WantedShard>,
    /// When to begin measuring: 2026-01-02T03:04:05Z, or @SECONDS since 1970; a time in the past means now
    #[arg(long, value_name = "TIME")]
    pub(crate) start_at: Option<Instant>,
    /// Save what was measured in this folder, for whyslow merge
    #[arg(long, value_name = "RUN")]
    pub(crate) save: Option<PathBuf>,
}

/// A shard as the command line names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct WantedShard {
    index: Option<u32>,
    of: u32,
}

impl FromStr for WantedShard {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write I/N with I from 0 to N-1, or /N";
        let (index, of) = text.split_once('/').ok_or(WRONG)?;
        let of: u32 = of.parse().map_err(|_| WRONG)?;
        let index = if index.is_empty() { None } else { Some(index.parse().map_err(|_| WRONG)?) };
        if of == 0 || index.is_some_and(|index| index >= of) { Err(WRONG) } else { Ok(Self { index, of }) }
    }
}

/// Variables that say which of how many processes this one is.
const RANKS: [(&str, Option<&str>); 4] = [
    // Source: Open MPI, mpirun(1), "MPI environment variables".
    ("OMPI_COMM_WORLD_RANK", Some("OMPI_COMM_WORLD_SIZE")),
    // Source: MPICH, Hydra process manager, PMI.
    ("PMI_RANK", Some("PMI_SIZE")),
    // Source: Slurm, srun(1), "output environment variables".
    ("SLURM_PROCID", Some("SLURM_NTASKS")),
    // Source: Kubernetes, "Indexed Job"; how many there are is not told.
    ("JOB_COMPLETION_INDEX", None),
];

/// The shard that the command line or the environment names, and which variable did.
pub(crate) fn shard(
    wanted: Option<WantedShard>,
    environment: impl Fn(&str) -> Option<String>,
) -> anyhow::Result<(Shard, Option<&'static str>)> {
    if let Some(WantedShard { index: Some(index), of }) = wanted {
        return Ok((Shard { index, of }, None));
    }
    let number = |name: &str| environment(name).and_then(|text| text.trim().parse::<u32>().ok());
    for (rank, size) in RANKS {
        let (Some(index), of) = (number(rank), size.and_then(number)) else { continue };
        let Some(of) = wanted.map(|wanted| wanted.of).or(of) else { continue };
        if index >= of {
            anyhow::bail!(
                "{rank} says that this is process {index}, counted from 0, and there are {of} shards"
            );
        }
        return Ok((Shard { index, of }, (of > 1).then_some(rank)));
    }
    match wanted {
        None => Ok((Shard::WHOLE, None)),
        Some(WantedShard { of, .. }) => anyhow::bail!(
            "--shard /{of} takes its number from the environment, and none of OMPI_COMM_WORLD_RANK, PMI_RANK, SLURM_PROCID and JOB_COMPLETION_INDEX is set: write --shard I/{of}"
        ),
    }
}

/// An instant of a command line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Instant(pub(crate) SystemTime);

impl FromStr for Instant {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        const WRONG: &str = "write a time such as 2026-01-02T03:04:05Z, or @1767323045";
        let seconds = match text.strip_prefix('@') {
            Some(seconds) => seconds.parse().ok().filter(|seconds: &f64| *seconds >= 0.0),
            None => utc_seconds(text),
        };
        let since = seconds.and_then(|seconds| Duration::try_from_secs_f64(seconds).ok()).ok_or(WRONG)?;
        UNIX_EPOCH.checked_add(since).map(Self).ok_or(WRONG)
    }
}

/// Seconds since 1970 of a time in UTC. Source: RFC 3339, section 5.6.
fn utc_seconds(text: &str) -> Option<f64> {
    let (date, time) = text.strip_suffix('Z')?.split_once('T')?;
    let numbers = |text: &str, between: char| -> Option<[f64; 3]> {
        let parts: Vec<f64> = text.split(between).map(|part| part.parse().ok()).collect::<Option<_>>()?;
        parts.try_into().ok()
    };
    let [year, month, day] = numbers(date, '-')?;
    let [hour, minute, second] = numbers(time, ':')?;
    let fits = (1970.0..=9999.0).contains(&year)
        && (1.0..=12.0).contains(&month)
        && (1.0..=31.0).contains(&day)
        && (0.0..24.0).contains(&hour)
        && (0.0..60.0).contains(&minute)
        && (0.0..61.0).contains(&second);
    let days = days(year as i64, month as i64, day as i64) as f64;
    fits.then_some(days * 86_400.0 + hour * 3600.0 + minute * 60.0 + second)
}

/// Days since 1970. Source: H. Hinnant, "chrono-compatible low-level date algorithms", days_from_civil.
fn days(year: i64, month: i64, day: i64) -> i64 {
    let year = if month <= 2 { year - 1 } else { year };
    let of_era = year.rem_euclid(400);
    let of_year = (153 * ((month + 9) % 12) + 2) / 5 + day - 1;
    year.div_euclid(400) * 146_097 + of_era * 365 + of_era / 4 - of_era / 100 + of_year - 719_468
}

impl ShardingArgs {
    /// Sets what the flags and the environment say.
    pub(crate) fn apply(&self, config: &mut Config) -> anyhow::Result<()> {
        let (shard, variable) = shard(self.shard, |name| std::env::var(name).ok())?;
        if let Some(variable) = variable {
            crate::say(&format!("shard {}/{} ({variable})", shard.index, shard.of));
        }
        config.shard = shard;
        if let Some(instant) = self.start_at {
            config.start_at = Arc::new(OnceLock::from(instant.0));
        }
        Ok(())
    }

    /// What is kept of the seconds while a run goes on.
    pub(crate) fn keeper(&self) -> Keeper {
        Keeper { to: self.save.clone(), seconds: Vec::new() }
    }
}

/// Keeps a shard for `whyslow merge`.
#[derive(Debug)]
pub(crate) struct Keeper {
    to: Option<PathBuf>,
    /// Encoded as they come: an hour of histograms would take a gigabyte.
    seconds: Vec<String>,
}

impl Keeper {
    /// Takes in what happens.
    pub(crate) fn note(&mut self, event: load::Event<'_>) {
        if let (Some(_), load::Event::Second { index, response, .. }) = (&self.to, event) {
            self.seconds.push(second_line(index, response));
        }
    }

    /// Writes the shard, if it is to be kept.
    pub(crate) fn save(&self, outcome: &Outcome) -> anyhow::Result<()> {
        let Some(folder) = &self.to else { return Ok(()) };
        Ok(ShardDir::create(folder)?.write(&outcome.shard, &shard_log(outcome, &self.seconds))?)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The flag, the environment, and the shard.
    type Case = (Option<&'static str>, &'static [(&'static str, &'static str)], Option<(u32, u32)>);

    #[test]
    fn the_shard_is_found_where_schedulers_say_it() {
        let cases: &[Case] = &[
            (None, &[], Some((0, 1))),
            (Some("1/3"), &[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "3")], Some((1, 3))),
            (None, &[("SLURM_PROCID", "2"), ("SLURM_NTASKS", "3")], Some((2, 3))),
            (None, &[("OMPI_COMM_WORLD_RANK", "1"), ("OMPI_COMM_WORLD_SIZE", "4")], Some((1, 4))),
            (Some("/5"), &[("JOB_COMPLETION_INDEX", "4")], Some((4, 5))),
            (None, &[("JOB_COMPLETION_INDEX", "4")], Some((0, 1))),
            (Some("/5"), &[], None),
            (Some("/2"), &[("JOB_COMPLETION_INDEX", "2")], None),
        ];
        for (flag, variables, wanted) in cases {
            let flag = flag.map(|text| text.parse::<WantedShard>().unwrap());
            let environment = |name: &str| {
                variables.iter().find(|(key, _)| *key == name).map(|(_, value)| (*value).to_owned())
            };
            let found = shard(flag, environment).ok().map(|(shard, _)| (shard.index, shard.of));
            assert_eq!(found, *wanted, "{flag:?} {variables:?}");
        }
        for text in ["3/3", "0/0", "x/2", "1", "1/", "-1/2"] {
            assert!(text.parse::<WantedShard>().is_err(), "{text}");
        }
    }

    #[test]
    fn instants_are_read_in_utc() {
        for (text, seconds) in [
            ("1970-01-01T00:00:00Z", Some(0.0)),
            ("2026-01-02T03:04:05Z", Some(1_767_323_045.0)),
            ("2024-02-29T23:59:59.5Z", Some(1_709_251_199.5)),
            ("@1767323045.25", Some(1_767_323_045.25)),
            ("2026-01-02 03:04:05", None),
            ("2026-13-02T03:04:05Z", None),
            ("@-1", None),
            ("soon", None),
        ] {
            let found = text.parse::<Instant>().ok();
            assert_eq!(
                found.map(|at| at.0.duration_since(UNIX_EPOCH).unwrap().as_secs_f64()),
                seconds,
                "{text}"
            );
        }
    }
}
