//! What is said of a gate: what was seen, why, what to do.

use analyse::{Answered, Differing, Fault, Gate, GateSays, Stalled};
use model::units::{format_ns, percent};

use super::{answers, joined};

/// So many requests failed in this way.
fn failures((kind, count): &(&str, u64)) -> String {
    let times = if *count == 1 { "once".to_owned() } else { format!("{count} times") };
    let what = if *kind == "status" { "another status" } else { kind };
    format!("{what} {times}")
}

/// The sentences of a gate; a gate without data for them keeps those it has.
pub(super) fn text(gate: &Gate) -> String {
    gate.says.as_ref().map_or_else(|| gate.text.clone(), |says| sentence(gate, says))
}

fn sentence(gate: &Gate, says: &GateSays) -> String {
    let arm = gate.arm.as_deref().unwrap_or_default();
    let value = gate.value.unwrap_or_default();
    match says {
        GateSays::Nothing => "nothing to judge".to_owned(),
        GateSays::NoAnswer => "the baseline never answered".to_owned(),
        GateSays::Alike { arms, answer } => format!("{arms} arms answer alike: {}", answered(*answer)),
        GateSays::Unlike { baseline, found, allowed } => answers::unlike(arm, baseline, found, *allowed),
        GateSays::Errors(kinds) => format!(
            "'{arm}' failed {} of its requests ({}): look at its log",
            percent(value),
            joined(kinds, failures, ", ")
        ),
        GateSays::FewErrors => format!("at most {} of requests failed", percent(value)),
        GateSays::GeneratorLimits { server, generator } => format!(
            "at capacity '{arm}' was {} busy while the generator was {} busy: the rate is the generator's. Give it more CPUs \
             (--load-cpus) or use --pipeline; CPU per request stands",
            percent(*server),
            percent(*generator),
        ),
        GateSays::ServersLimit => "at capacity the servers were the limit, not the generator".to_owned(),
        GateSays::NotKept { at, fault } => {
            format!("at {at}, '{arm}': {}", fault.map_or_else(String::new, fault_words))
        }
        GateSays::Kept { at } => format!("the schedule was kept at {at} ({} of it)", percent(value)),
        GateSays::NotInFlight => format!(
            "'{arm}': rate x mean response differs from the requests in flight by {}: its closed-loop latencies are not \
             those of single requests",
            percent(value)
        ),
        GateSays::InFlight => {
            format!("rate x mean response is what was in flight, within {}", percent(value))
        }
        GateSays::Stalled { how, block } => stalled(arm, *how, *block),
        GateSays::Served => format!("every connection was served (Jain's index at least {value:.3})"),
        GateSays::Overcounted => {
            format!("'{arm}' is said to have used {} of its CPUs: a counter is wrong", percent(value))
        }
        GateSays::Counted => format!("at most {} of the server's CPUs were used", percent(value)),
        GateSays::LoopbackFull(bytes_per_s) => {
            let sent = format!("{:.1} GB/s for each of its CPUs", bytes_per_s / 1e9);
            full(arm, &sent, value, "loopback carries here")
        }
        GateSays::LoopbackFree => free(value, "loopback carries here"),
        GateSays::LinkFull(bytes_per_s) => full(
            arm,
            &format!("{:.1} MB/s", bytes_per_s / 1e6),
            value,
            "the link between the machines carries",
        ),
        GateSays::LinkFree => free(value, "the link between the machines carries"),
        _ => of_the_place(arm, value, says),
    }
}

fn answered(answer: Answered) -> String {
    match answer {
        Answered::One { status, body_bytes } => format!("status {status}, {body_bytes} bytes"),
        Answered::Several(requests) => format!("{requests} requests, each asked a few times"),
    }
}

fn fault_words(fault: Fault) -> String {
    match fault {
        Fault::Busy(share) => {
            format!("the generator was {} busy: lower the rate or add --load-cpus", percent(share))
        }
        Fault::Overloaded { answered, backlog_per_s } => {
            let grows = backlog_per_s.map_or_else(String::new, |per_s| {
                format!(
                    ": the backlog grows by {per_s:.0} requests a second; the latency figures are a queue's, not the server's"
                )
            });
            format!(
                "{} of the intended rate was answered: the server is overloaded{grows}; lower the rate",
                percent(answered)
            )
        }
        Fault::Late(lag) => format!(
            "requests left {} late (send lag {}): add connections or --load-cpus",
            format_ns(lag.ns),
            lag.percentile.name()
        ),
    }
}

fn stalled(arm: &str, how: Stalled, block: u32) -> String {
    let what = match how {
        Stalled::FewAnswers => "gave every connection the same few answers and then none",
        Stalled::SilentAtTheEnd => "gave no answer in the last second",
        Stalled::Starved { min, max, refused } => {
            let full = match refused {
                0 => String::new(),
                count => format!(
                    "; its listen queue was full {count} times, and each client turned away tries again after a second: raise \
                     the backlog of listen()"
                ),
            };
            return format!(
                "'{arm}' served some connections {min} times and others {max} times (block {block}): some were starved{full}"
            );
        }
        Stalled::Pressed { min, max, share } => {
            return format!(
                "'{arm}' served some connections {min} times and others {max} times (block {block}) while others took {} of its \
                 CPUs: measure again on a quieter machine",
                percent(share)
            );
        }
    };
    format!("'{arm}' {what} (block {block}): look for a lock, a lost wake-up or Nagle's delay")
}

fn full(arm: &str, sent: &str, share: f64, carries: &str) -> String {
    format!(
        "'{arm}' sent {sent}, {} of what {carries}: the rate is the link's. Ask for a smaller answer; CPU per request stands",
        percent(share)
    )
}

fn free(share: f64, carries: &str) -> String {
    format!("at most {} of what {carries} was sent", percent(share))
}

/// Where arms ran, and who else did.
fn of_the_place(arm: &str, value: f64, says: &GateSays) -> String {
    match says {
        GateSays::Disturbed { who, turns: [(baseline, below), (arm, above)] } => format!(
            "{who} took {} of the server's CPUs in the turns of '{baseline}' and {} in those of '{arm}'; what that can have \
             moved is inside the intervals",
            percent(*below),
            percent(*above)
        ),
        GateSays::Undisturbed(share) => {
            format!("others took less than {} of the server's CPUs", percent(*share))
        }
        GateSays::OtherCpus { arm_on, baseline, baseline_on, runs } => {
            let why = match runs {
                true => {
                    "a server that runs already has its own CPU set: give both the same (taskset -a -c -p, or --server-cpus)"
                }
                false => "it changed its own CPU set",
            };
            format!("'{arm}' ran on CPUs {arm_on}, '{baseline}' on {baseline_on}: {why}")
        }
        GateSays::SamePlace { differ, shared } => same_place(differ, *shared),
        GateSays::Ran { address, is_observed } => {
            let unseen = match is_observed {
                true => "",
                false => {
                    "; its CPU time cannot be seen, so that rate and median response decide: name its process with \
                     --watch-pid, its unit with --watch-unit, or run whyslow as the user that it runs as"
                }
            };
            format!("'{arm}' ran already at {address}, one process for all blocks{unseen}")
        }
        GateSays::CopiesDiffer { baseline, metric } => format!(
            "the second copy of '{baseline}' differs from the first by {} in {}: the place within a block decides; look for \
             what the first rounds leave behind",
            percent((value - 1.0).abs()),
            metric.label()
        ),
        GateSays::Cores { arm: cores, baseline: (baseline, of_baseline) } => format!(
            "'{arm}' kept {cores:.2} cores busy, '{baseline}' {of_baseline:.2} ({}): compare rates per core",
            percent(value)
        ),
        GateSays::CoresAlike(cores) => format!("all arms kept about {cores:.2} cores busy"),
        // Said above.
        GateSays::Nothing
        | GateSays::NoAnswer
        | GateSays::Alike { .. }
        | GateSays::Unlike { .. }
        | GateSays::Errors(..)
        | GateSays::FewErrors
        | GateSays::GeneratorLimits { .. }
        | GateSays::ServersLimit
        | GateSays::NotKept { .. }
        | GateSays::Kept { .. }
        | GateSays::NotInFlight
        | GateSays::InFlight
        | GateSays::Stalled { .. }
        | GateSays::Served
        | GateSays::Overcounted
        | GateSays::Counted
        | GateSays::LoopbackFull(..)
        | GateSays::LoopbackFree
        | GateSays::LinkFull(..)
        | GateSays::LinkFree => String::new(),
    }
}

fn same_place(differ: &[Differing], shared: bool) -> String {
    let differ = match differ.is_empty() {
        true => "all arms were started alike".to_owned(),
        false => format!("the arms differ in {}", joined(differ, differing, ", ")),
    };
    let shared = if shared { "; server and generator share CPUs" } else { "" };
    format!("same host and CPUs; {differ}{shared}")
}

fn differing(what: &Differing) -> String {
    match what {
        Differing::Executable => "executable",
        Differing::Command => "command",
        Differing::Environment => "environment variables",
        Differing::Warmup => "warm-up",
    }
    .to_owned()
}
