//! `whyslow load --load-on`: generators on other machines, and their figures as those of one.

use anyhow::bail;

use super::{bounds, config, judge, keep, show, windows};
use crate::cli::LoadArgs;
use crate::compare::remote::check_generators;
use crate::compare::remote::fleet::Fleet;
use crate::exit::{Outcome, Stop};

/// What a flag has that does not go with other machines.
enum Reason {
    /// One request follows from another, or from a clock: they cannot be divided.
    Whole,
    /// It names something of this machine.
    Here,
    /// It tells of a load while it goes on.
    Meanwhile,
    /// It is for generators that somebody starts by hand.
    ByHand,
}

impl Reason {
    fn words(&self) -> &'static str {
        match self {
            Self::Whole => {
                "needs one generator, and --load-on divides requests that do not depend on each other: use --requests FILE"
            }
            Self::Here => {
                "names what is on this machine, and with --load-on the generators are on others: leave it out"
            }
            Self::Meanwhile => {
                "shows a load while it goes on, and with --load-on its figures come at the end: leave it out"
            }
            Self::ByHand => {
                "is for generators that are started one by one, and --load-on divides and merges by itself: leave it out"
            }
        }
    }
}

pub(super) fn run(args: &LoadArgs) -> Outcome {
    refuse(args).map_err(Stop::usage)?;
    let bounds = bounds(&args.keep.fail_if).map_err(Stop::usage)?;
    let job = config::window(args).map_err(Stop::usage)?;
    let fleet = Fleet::connect(&args.load_on)?;
    let measured = windows(args, || Ok(fleet.window(&job, args.cpus.as_ref())?.outcome))?;
    drop(fleet);
    if let Some(file) = &args.hlog {
        model::record::write_atomically(file, load::shard_log(&measured, &[]).as_bytes())?;
    }
    keep::keep_figures(&args.figures, &measured)?;
    show(args, &measured)?;
    judge(&bounds, &measured.report)
}

/// Refuses what cannot be combined.
fn refuse(args: &LoadArgs) -> anyhow::Result<()> {
    let (request, keep, sharding) = (&args.request, &args.keep, &args.sharding);
    let flags = [
        (request.script.is_some(), "--script", Reason::Whole),
        (request.scenario.is_some(), "--scenario", Reason::Whole),
        (request.replay.is_some(), "--replay", Reason::Whole),
        (request.unix.is_some(), "--unix", Reason::Here),
        (request.cacert.is_some(), "--cacert", Reason::Here),
        (request.cert.is_some(), "--cert", Reason::Here),
        (!args.sources.is_empty(), "--source", Reason::Here),
        (keep.soak, "--soak", Reason::Here),
        (keep.live, "--live", Reason::Meanwhile),
        (keep.metrics_port.is_some(), "--metrics-port", Reason::Meanwhile),
        (keep.remote_write.is_some(), "--remote-write", Reason::Meanwhile),
        (args.figures.sends_otlp(), "--otlp URL", Reason::Meanwhile),
        (sharding.shard.is_some(), "--shard", Reason::ByHand),
        (sharding.start_at.is_some(), "--start-at", Reason::ByHand),
        (sharding.save.is_some(), "--save", Reason::ByHand),
    ];
    match flags.into_iter().find(|(given, _, _)| *given) {
        Some((_, flag, reason)) => bail!("{flag} {}", reason.words()),
        None => check_generators(&args.load_on, args.connections),
    }
}
