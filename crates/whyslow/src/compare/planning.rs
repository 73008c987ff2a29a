//! Flags and targets into a plan.

use std::collections::hash_map::RandomState;
use std::hash::{BuildHasher, Hasher};
use std::time::Duration;

use anyhow::{Context, bail};
use model::job::{Request, Requests, Reuse, fill};
use model::plan::{
    Arm, ArmSource, Blocks, Condition, Design, Expect, Placement, Plan, ReadyBy, Same, Service, Timing,
    Turns, Workload,
};
use model::units::{CpuSet, Rate, Span};

use super::arms;
use crate::cli::{self, Arrival, CompareArgs, Size};
use crate::revision;

/// Blocks before the first look, and fewest of a quick run.
const FIRST_BLOCKS: u32 = stats::looks::LOOKS[0] as u32;
/// Blocks before the last.
const MAX_BLOCKS: u32 = stats::looks::LOOKS[stats::looks::LOOKS.len() - 1] as u32;
/// Most blocks of a quick run.
const MOST_QUICK: u32 = stats::looks::MOST_QUICK as u32;
/// Windows of an arm alone.
const WINDOW: Span = Span::from_secs(10);
const QUICK_WINDOW: Span = Span::from_secs(3);
/// Shortest and longest warm-up of an arm: its own turns, those of others not counted.
const WARMUP: [Span; 2] = [Span::from_secs(1), Span::from_secs(10)];
const QUICK_WARMUP: [Span; 2] = [Span(Duration::from_millis(150)), Span::from_secs(2)];
/// The same where an arm has a just-in-time compiler.
const WARMUP_JIT: [Span; 2] = [Span::from_secs(5), Span::from_secs(60)];
const QUICK_WARMUP_JIT: [Span; 2] = [Span::from_secs(1), Span::from_secs(6)];
/// When a request is given up where no flag says: longer than any turn with its drain.
const TIMEOUT: Span = Span::from_secs(60);
/// Connections where nobody says how many.
const USUAL_CONNECTIONS: u32 = 64;
/// What `--equal-rates` is where nobody says.
const EQUAL_RATES: &str = "25";
/// Path where neither a flag nor a target names one.
const DEFAULT_PATH: &str = "/";

/// The plan of a comparison on this machine, validated.
pub(crate) fn plan(args: &CompareArgs, allowed: &CpuSet) -> anyhow::Result<Plan> {
    if args.is_elsewhere() {
        bail!("--on and --load-on are for 'whyslow compare': leave them out");
    }
    let placement = Placement::choose(allowed, args.server_cpus.as_ref(), args.load_cpus.as_ref())?;
    placed(args, placement)
}

/// The plan of a comparison whose servers and generator have their places, validated.
pub(super) fn placed(args: &CompareArgs, placement: Placement) -> anyhow::Result<Plan> {
    check(args)?;
    let (mut arms, target_path) = arms::arms(args)?;
    let baseline = arms::baseline(args, &arms)?;
    let workload = workload(args, target_path, &placement)?;
    check_path(&workload)?;
    if !workload.job.is_plain_get() {
        arms.iter_mut().for_each(expect_any_body);
    }
    if !placement.machines.are_one() {
        arms.iter_mut().for_each(listen_for_others);
    }
    if args.rigorous {
        let again = format!("{}{}", arms[baseline].name, analyse::SECOND_BASELINE_SUFFIX);
        arms.push(Arm { name: again, ..arms[baseline].clone() });
    }
    let plan = Plan {
        case: "compare".to_owned(),
        seed: args.seed.unwrap_or_else(fresh_seed),
        baseline,
        workload,
        timing: timing(args),
        design: Design {
            blocks: blocks(args),
            turns: turns(args)?,
            second_baseline: args.rigorous,
            why: !args.no_why && placement.machines.are_one(),
            confirm: args.confirm,
            fewer_connections: args.connections.is_none(),
        },
        placement,
        intervention: None,
        services: Service::of_all(&args.services, &arms)?,
        alone: args.steps_alone.clone(),
        arms,
    };
    plan.validate()?;
    load::check_job(&plan.workload.job)?;
    revision::say_same(&plan.arms[..plan.arms.len() - usize::from(args.rigorous)]);
    Ok(plan)
}

/// Whether this is the quick design: asked for, or no target was named.
fn quick(args: &CompareArgs) -> bool {
    let none_named = args.arms.is_empty() && args.commands.is_empty();
    args.quick || (none_named && args.blocks.is_none() && !args.rigorous)
}

/// What flags ask for that does not go together.
fn check(args: &CompareArgs) -> anyhow::Result<()> {
    args.request.without_loads_own("compare")?;
    if args.path.is_some() && args.request.has_file() {
        bail!("--path cannot be used with a file of requests: both say what is asked");
    }
    if let Some(status) = args.expect_status.filter(|status| !(100..=599).contains(status)) {
        bail!("--expect-status {status} is no status of HTTP: they are 100 to 599");
    }
    if args.rate != "max" && ![EQUAL_RATES, "none"].contains(&args.equal_rates.as_str()) {
        bail!("--equal-rates is for --rate max: with --rate {} that is the only rate", args.rate);
    }
    if args.expect_status.is_some() && args.request.has_file() {
        bail!(
            "--expect-status is for a single request: with a file of requests every status below 400 is right"
        );
    }
    if args.expect_body.is_some() && args.request.has_file() {
        bail!("--expect-body is for a single request: leave it out with a file of requests");
    }
    if args.expect_status.is_some() && (args.request.ws || args.request.grpc.is_some()) {
        bail!(
            "--expect-status is for HTTP: WebSocket messages have no status and gRPC calls succeed with only one: leave it out"
        );
    }
    let socket = args.request.unix.as_ref().map(|socket| socket.to_string_lossy());
    if socket.is_some_and(|socket| !socket.contains("{port}")) {
        bail!("--unix names one socket for all arms: put {{port}} in it, which differs from arm to arm");
    }
    Ok(())
}

/// A path whose placeholders nothing fills: requests that have none of their own are sent to it.
fn check_path(workload: &Workload) -> anyhow::Result<()> {
    let Requests::Same(request) = &workload.job.requests else { return Ok(()) };
    let path = request.target.as_ref().unwrap_or(&workload.path);
    if !path.contains('{') {
        return Ok(());
    }
    let asked = Request { target: Some(path.clone()), ..Request::get() };
    fill::check(&asked, workload.job.data.as_ref()).map_err(|why| anyhow::anyhow!("--path: {why}"))
}

/// What a target answers to a GET of its own path says nothing of what it answers to another request.
fn expect_any_body(arm: &mut Arm) {
    if arm.source.is_ours() {
        arm.expect = Expect { status: arm.expect.status, ..Expect::default() };
    }
}

/// What is built in listens where it is told.
fn listen_for_others(arm: &mut Arm) {
    if matches!(arm.source, ArmSource::BuiltIn { .. }) {
        arm.run.extend(["--address".to_owned(), "{host}".to_owned()]);
    }
}

fn workload(
    args: &CompareArgs,
    target_path: Option<String>,
    placement: &Placement,
) -> anyhow::Result<Workload> {
    let connections = args.connections.unwrap_or(USUAL_CONNECTIONS);
    let threads = u32::try_from(placement.load.len()).unwrap_or(1).min(connections).max(1);
    let size = Size { connections, threads, pipeline: args.pipeline, timeout: TIMEOUT };
    let (job, notes) = args.request.job_without_timing(size)?;
    notes.iter().for_each(|note| crate::say(note));
    let job = if args.no_keep_alive { job.with_keep_alive(false) } else { job };
    Ok(Workload {
        path: args.path.clone().or(target_path).unwrap_or_else(|| DEFAULT_PATH.to_owned()),
        job,
        reach: args.request.reach(),
        ready: args.ready.as_deref().map(ReadyBy::parse).transpose()?,
        poisson: args.arrival == Arrival::Poisson,
        conditions: conditions(args)?,
        same: match args.same {
            cli::Same::Status => Same::Status,
            cli::Same::Shape => Same::Shape,
            cli::Same::Body => Same::Body,
        },
        allow_difference: args.allow_difference,
        files: args.request.files()?,
    })
}

fn conditions(args: &CompareArgs) -> anyhow::Result<Vec<Condition>> {
    if args.rate != "max" {
        let rate: Rate = args.rate.parse().context("--rate takes 'max' or a rate")?;
        return Ok(vec![Condition::EqualRate { rate }]);
    }
    let mut conditions = vec![Condition::Capacity];
    if args.equal_rates == "none" {
        return Ok(conditions);
    }
    for word in args.equal_rates.split(',') {
        match word.parse::<u32>() {
            Ok(percent @ 1..=99) => conditions.push(Condition::ShareOfSlowest { percent }),
            _ => bail!("--equal-rates '{word}' is not a percentage: write 'none' or a list such as 25,50,75"),
        }
    }
    Ok(conditions)
}

fn timing(args: &CompareArgs) -> Timing {
    let (window, [warmup, cap_native], [warmup_jit, cap_jit]) = match quick(args) {
        true => (QUICK_WINDOW, QUICK_WARMUP, QUICK_WARMUP_JIT),
        false => (WINDOW, WARMUP, WARMUP_JIT),
    };
    // Who asks for a longer warm-up than usual need not ask for a longer longest one, too.
    let cap = |usual: Span| args.warmup_cap.unwrap_or(usual.max(args.warmup.unwrap_or(usual)));
    Timing {
        window: args.window.unwrap_or(window),
        warmup: args.warmup.unwrap_or(warmup),
        warmup_jit: args.warmup.unwrap_or(warmup_jit),
        warmup_cap: cap(cap_native),
        warmup_cap_jit: Some(cap(cap_jit)),
        ready_limit: args.ready_limit,
    }
}

/// How arms are run: in turns, but where that was not wanted.
fn turns(args: &CompareArgs) -> anyhow::Result<Turns> {
    // A window is what an arm alone is loaded for.
    if args.alone || args.window.is_some() {
        return Ok(Turns::Alone);
    }
    Ok(Turns::Slices { cycles: args.cycles, slice: args.slice })
}

fn blocks(args: &CompareArgs) -> Blocks {
    match args.blocks {
        Some(blocks) => Blocks::Fixed { blocks },
        // Whoever says how long a block is takes the fewest of them.
        None if quick(args) && args.cycles.is_some() => Blocks::Fixed { blocks: FIRST_BLOCKS },
        None if quick(args) => Blocks::Fitted { fewest: FIRST_BLOCKS, most: MOST_QUICK },
        None => Blocks::Looks { first: FIRST_BLOCKS, max: MAX_BLOCKS },
    }
}

/// The standard library seeds its hash maps from the operating system: that is all the randomness a seed needs.
fn fresh_seed() -> u64 {
    RandomState::new().build_hasher().finish() >> 1
}

/// From which rates on a block, or as many blocks as may be taken together, have answers enough for a percentile: 100 / (1 − q) of
/// them. Nothing without equal rates.
fn percentiles(plan: &Plan) -> String {
    let Some(index) = plan.workload.conditions.iter().position(|c| *c != Condition::Capacity) else {
        return String::new();
    };
    let cycles = plan.cycles_under(index, plan.cycles(plan.turn()));
    let groups = stats::paired::min_pairs(stats::looks::ONLY_LEVEL) as u32;
    let together = (plan.usual_blocks() / groups).max(1);
    let seconds = f64::from(cycles * together) * plan.turn().0.as_secs_f64();
    let of = if together > 1 { format!("{together} blocks together") } else { "a block".to_owned() };
    let from = |beyond: f64| (100.0 / beyond / seconds).ceil().max(1.0);
    format!(
        "percentiles of {seconds:.2} s, {of}: p90 from {:.0} requests/s on, p99 from {:.0}, p99.9 from {:.0}\n",
        from(0.1),
        from(0.01),
        from(0.001)
    )
}

/// `1 block`, `6 blocks`.
fn counted(number: u32, what: &str) -> String {
    format!("{number} {what}{}", if number == 1 { "" } else { "s" })
}

/// Seconds as people say them.
fn time(seconds: f64) -> String {
    match seconds {
        s if s < 119.5 => format!("{s:.0} s"),
        s if s < 7200.0 => format!("{:.0} min", s / 60.0),
        s => format!("{:.1} h", s / 3600.0),
    }
}

/// The plan for people: what would be run, for how long.
pub(super) fn describe(plan: &Plan) -> String {
    let blocks = match plan.design.blocks {
        Blocks::Fixed { blocks } => counted(blocks, "block"),
        Blocks::Looks { first, max } => format!("{first} blocks, up to {max} while undecided"),
        Blocks::Fitted { fewest, most } => {
            let usual = plan.usual_blocks();
            format!("about {usual} blocks ({fewest} to {most} by what a start takes)")
        }
    };
    let turns = match plan.design.turns {
        Turns::Slices { slice, .. } => format!(
            "arms take turns, {} of {}{} each in a block",
            counted(plan.cycles(plan.turn()), "slice"),
            plan.turn(),
            if slice.is_none() { ", or as many of another length as take as long," } else { "" }
        ),
        Turns::Alone => format!("one arm at a time, windows of {}", plan.timing.window),
    };
    let seconds = super::seconds(plan);
    let conditions: Vec<String> =
        plan.workload.conditions.iter().map(|c| analyse::describe_condition(*c)).collect();
    let mut text = format!(
        "{blocks} of {} arms; {turns}; about {}; seed {}\n",
        plan.arms.len(),
        time(seconds),
        plan.seed
    );
    let job = &plan.workload.job;
    text += &format!(
        "{} over {} connections, {} in flight on each; at {}\n",
        plan.workload.describe(),
        job.connections,
        job.depth(),
        conditions.join(", then ")
    );
    text += &percentiles(plan);
    match job.reuse {
        Reuse::All => {}
        Reuse::Requests(1) => text += "a new connection for each request\n",
        Reuse::Requests(requests) => text += &format!("a new connection after {requests} requests\n"),
    }
    text += &format!("{}\n", plan.placement.describe());
    for (index, arm) in plan.arms.iter().enumerate() {
        let role = if index == plan.baseline { " (baseline)" } else { "" };
        let revision = arm.source.revision().map(|revision| format!("{}: ", revision.describe()));
        let which = revision.or(arm.source.image().map(|image| format!("image {}: ", image.short_id())));
        let which = which.or(arm.source.compose().map(|compose| format!("file {}: ", compose.short_hash())));
        text += &format!("  {}{role}: {}{}\n", arm.name, which.unwrap_or_default(), arm.what());
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{counted, time};

    #[test]
    fn a_plan_is_said_in_units_of_people() {
        assert_eq!([1, 6].map(|blocks| counted(blocks, "block")), ["1 block", "6 blocks"]);
        assert_eq!([17.0, 600.0, 1_401_514.0].map(time), ["17 s", "10 min", "389.3 h"]);
    }
}
