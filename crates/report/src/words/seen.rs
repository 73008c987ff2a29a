//! What is said of what was seen of a cause, the slower server first.

use analyse::{
    Blocked, Both, DiskCalls, Elsewhere, EndedWaits, Ending, Late, LeafSeen, Meanwhile, ParkedSeen, Seen,
};
use model::plan::CauseId;
use model::record::{EndedBy, WaitsFor};
use model::units::{format_ns, percent};

use super::{joined, stalls};
use crate::words::names::change_words;

/// Two figures are one within this factor.
const ALIKE: f64 = 1.5;

/// One thing that was seen, as a clause.
pub(super) fn words(seen: &Seen) -> String {
    match seen {
        Seen::Writes { writes, network, bytes_each } => written(*writes, *network, *bytes_each),
        Seen::Asking { writes, reads } => format!(
            "asking other services more often: {writes:.2} more writes to the network a request, and {reads:.2} more reads"
        ),
        Seen::OtherWrites(more) => other_writes(*more),
        Seen::OtherCalls { calls, grown, unnamed } => other_calls(*calls, grown, unnamed.as_ref()),
        Seen::NewConnections { accepted, opened, calls } => {
            let more = more_each([(accepted, "accepted"), (opened, "opened to another service")]);
            format!("new connections: {more} a request, and {calls:.2} more calls for them")
        }
        Seen::Switches { switches, elsewhere } => switches_words(*switches, *elsewhere),
        Seen::HandOver { futexes, pipes, switches } => hand_over([futexes, pipes, switches]),
        Seen::PageFaults { faults: [slow, fast], calls } => {
            let calls = in_brackets(&calls.iter().map(more_of).collect::<Vec<_>>());
            format!("page faults: {slow:.3} a request against {fast:.3}{calls}")
        }
        Seen::Collecting(ns) => format!("garbage collection: {}", against(*ns)),
        Seen::NoCompiler => "the virtual machine has no compiler threads: its code is interpreted".to_owned(),
        Seen::Ended { what, ns, names } => ended(*what, *ns, names),
        Seen::Leaves { cause, ns, error_ns, most } => leaves(*cause, &difference(*ns, *error_ns), most),
        Seen::OnlyThere { place, package, ns, error_ns } => {
            only_there(&place.function, package, &difference(*ns, *error_ns))
        }
        Seen::MoreCalls(calls) => more_calls(calls),
        Seen::Side { side, whole, parts, most } => part_of_side(*side, *whole, *parts, most),
        Seen::DiskWrites { functions, calls } => disk_writes(&place(functions), *calls),
        Seen::WaitsInCalls { what, functions, calls } => waits_in_calls(*what, &place(functions), *calls),
        Seen::NotAccepted([slow, fast]) => format!(
            "{} of the connections wait to be accepted, against {}: one acceptor is too slow",
            percent(*slow),
            percent(*fast)
        ),
        Seen::Refused([slow, fast]) => format!(
            "connections dropped because the listen queue was full: {slow:.4} a request against {fast:.4}; each client tries \
             again after a second"
        ),
        Seen::Service { service, ns, place } => service_words(service, *ns, place.as_ref()),
        Seen::OneThread([slow, fast]) => {
            format!("one thread is full while other CPUs are idle: {slow:.2} CPUs busy, against {fast:.2}")
        }
        Seen::DelayedAcks { answers, acks, pieces } => delayed(*answers, *acks, *pieces),
        Seen::FewAtATime { served, in_flight, functions, waits_for, unhurried_ns, response_ns } => {
            let [unhurried, response] = [unhurried_ns, response_ns].map(|ns| format_ns(*ns));
            let (place, [fewest, most]) = (place(functions), *served);
            let served = match most <= ALIKE * fewest {
                true => format!("about {most:.1}"),
                false => format!("between {fewest:.1} and {most:.1}"),
            };
            let what = waits_for.map_or("a lock, a pool, few threads or another limit", waits_for_words);
            format!(
                "serving {served} of the {in_flight:.0} requests under way at a time{place}: at the equal rate it answers in \
                 {unhurried}, at capacity in {response}, while its CPUs are idle ({what})"
            )
        }
        Seen::AllLate { or_turn, functions, late, counted } => {
            let turn = if *or_turn { ", or for a turn (an equal rate would tell)" } else { "" };
            let calls = if *counted { "no call that waits is counted" } else { "its calls were not counted" };
            let (place, late) = (place(functions), all_late(*late));
            format!("waiting for a time to pass{turn}{place}: {late}, while its CPUs are idle and {calls}")
        }
        Seen::Silences { mean_ns, shares, meanwhile } => silences(*mean_ns, *shares, meanwhile),
        Seen::Waits(waits) => ended_waits(waits),
        Seen::Parked(parked) => parked_words(parked),
    }
}

/// Time of a request in both servers.
fn against([slow, fast]: Both) -> String {
    format!("{} a request against {}", format_ns(slow), format_ns(fast))
}

fn other_calls(
    [slow, fast]: Both,
    grown: &[(String, f64)],
    unnamed: Option<&(f64, Option<String>)>,
) -> String {
    let mut names: Vec<String> = grown.iter().map(more_of).collect();
    names.extend(unnamed.map(|(more, call)| {
        let most = call.as_ref().map_or_else(String::new, |name| format!(", most of their time in {name}"));
        format!("others +{more:.2}{most}")
    }));
    let names = in_brackets(&names);
    format!("system calls other than writes and waits: {slow:.2} a request against {fast:.2}{names}")
}

fn more_of((name, more): &(String, f64)) -> String {
    format!("{name} +{more:.2}")
}

fn in_brackets(words: &[String]) -> String {
    if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) }
}

fn more_each<const N: usize>(counts: [(&Option<f64>, &str); N]) -> String {
    let known = counts.iter().filter_map(|(more, what)| Some(format!("{:.2} more {what}", (**more)?)));
    known.collect::<Vec<_>>().join(", ")
}

fn more_calls(calls: &[(String, Both)]) -> String {
    let each =
        |(name, [slow, fast]): &(String, Both)| format!("{name} {slow:.2} times a request against {fast:.2}");
    format!("it makes {}", joined(calls, each, " and "))
}

fn switches_words([slow, fast]: Both, elsewhere: Option<Elsewhere>) -> String {
    let elsewhere = elsewhere.map_or_else(String::new, |Elsewhere { waits, count }| {
        let what = if waits { "waits" } else { "threads that begin" };
        match count {
            None => format!(", those more of {what} that are reckoned by themselves"),
            Some(count) => format!(", {count:.3} of them of {what} that are reckoned by themselves"),
        }
    });
    format!("context switches: {slow:.3} a request against {fast:.3}{elsewhere}")
}

fn hand_over([futexes, pipes, switches]: [&Option<f64>; 3]) -> String {
    let more = more_each([
        (futexes, "futex calls"),
        (pipes, "writes to pipes or local sockets"),
        (switches, "context switches"),
    ]);
    format!("hand-over between threads: {more} a request")
}

fn ended(what: Ending, [slow, fast]: Both, names: &[String]) -> String {
    let what = match what {
        Ending::Processes => "processes",
        Ending::Threads => "threads",
    };
    let [slow, fast] = [slow, fast].map(format_ns);
    let names = if names.is_empty() { String::new() } else { format!(" ({})", names.join(", ")) };
    format!("{what} that began and ended{names}: {slow} of CPU a request in them against {fast}")
}

fn leaves(cause: CauseId, difference: &str, most: &[LeafSeen]) -> String {
    let examples = joined(most, leaf, " and in ");
    let examples = if most.is_empty() { examples } else { format!(", most of it in {examples}") };
    format!("{}: {difference}{examples}", cause.name().trim_start_matches("profile_").replace('_', " "))
}

fn other_writes(more: f64) -> String {
    format!("writes to a file or a pipe, as of a log: {more:.2} more a request")
}

fn only_there(function: &str, package: &str, difference: &str) -> String {
    format!("own code under {function} ({package}), which only it runs: {difference}")
}

fn part_of_side(
    side: CauseId,
    whole: Option<[f64; 2]>,
    [parts_ns, error_ns]: [f64; 2],
    most: &[Vec<String>],
) -> String {
    let side = match side {
        CauseId::KernelNetwork => "the kernel's network",
        CauseId::KernelWhole => "the kernel",
        _ => "the program's own time",
    };
    let most = joined(most, |path| path.join(" > "), " and in ");
    match whole {
        Some([ns, error_ns]) => format!(
            "{side} as a whole: {}; {} of it in parts that are small or not sure by themselves, most in {most}",
            difference(ns, error_ns),
            format_ns(parts_ns.abs())
        ),
        None => format!(
            "{side}, in parts that are small or not sure by themselves: {}, most in {most}",
            difference(parts_ns, error_ns)
        ),
    }
}

fn difference(ns: f64, error_ns: f64) -> String {
    let direction = if ns < 0.0 { "less" } else { "more" };
    format!("{} {direction} a request, standard error {}", format_ns(ns.abs()), format_ns(error_ns))
}

fn leaf(leaf: &LeafSeen) -> String {
    match leaf {
        LeafSeen::Under { function, package, mostly } => {
            let mostly = mostly.as_ref().map_or_else(String::new, |package| format!(", mostly {package}"));
            format!("{function} ({package}) and what it calls{mostly}")
        }
        LeafSeen::Package { work, package, functions, via } => {
            let most =
                if functions.is_empty() { String::new() } else { format!(" ({})", functions.join(", ")) };
            let via = if via.is_empty() { String::new() } else { format!(", under {}", via.join(" and ")) };
            format!("{work} > {package}{most}{via}")
        }
        LeafSeen::Leaf { path, count, within, via, changed, caller } => {
            let count = count
                .map_or_else(String::new, |[slow, fast]| format!(" ({slow:.2} a request against {fast:.2})"));
            let within = within.as_ref().map_or_else(String::new, |name| format!(", mostly {name}"));
            let via = via.as_ref().map_or_else(String::new, |via| format!(", under {via}"));
            let changed = changed
                .map_or_else(String::new, |change| format!(" ({})", change_words(change, caller.as_ref())));
            format!("{}{count}{within}{via}{changed}", path.join(" > "))
        }
    }
}

/// Functions in which it waits.
fn place(functions: &[String]) -> String {
    if functions.is_empty() { String::new() } else { format!(" (in {})", functions.join(", ")) }
}

fn disk_writes(place: &str, calls: DiskCalls) -> String {
    match calls {
        DiskCalls::Unknown => format!("writes that wait for the disk{place}"),
        DiskCalls::None => {
            format!("writes that wait for the disk{place}, though none asks for it: is a file opened so?")
        }
        DiskCalls::Counted([slow, fast]) => {
            format!("writes forced to the disk{place}: {slow:.2} a request against {fast:.2}")
        }
    }
}

fn written([slow, fast]: Both, network: bool, bytes_each: Option<f64>) -> String {
    let to = if network { "to the network" } else { "to the network, files or pipes" };
    let each = bytes_each.map_or_else(String::new, |bytes| format!(" ({bytes:.0} bytes each)"));
    format!("writes {to}: {slow:.2} a request{each} against {fast:.2}")
}

fn waits_in_calls(what: Option<Blocked>, place: &str, calls: Option<Both>) -> String {
    let (what, name) = match what {
        Some(Blocked::Sleep) => ("sleeps", ""),
        Some(Blocked::Lock) => ("threads waiting for each other", " futex calls"),
        Some(Blocked::FileLock) => ("waiting for file locks", " flock or fcntl calls"),
        Some(Blocked::Disk) | None => ("waiting for what it reads elsewhere", " reads"),
    };
    let calls = calls
        .map_or_else(String::new, |[slow, fast]| format!(": {slow:.2}{name} a request against {fast:.2}"));
    format!("{what}{place}{calls}, while its CPUs are idle")
}

fn delayed([slow, fast]: Both, [acks, fast_acks]: Both, pieces: Option<(f64, f64)>) -> String {
    let pieces = pieces.map_or_else(String::new, |(share, ns)| {
        format!("; {} of its answers come in pieces, {} apart", percent(share), format_ns(ns))
    });
    format!(
        "{} of the answers take 40 ms, against {}: the server's TCP waits for an acknowledgement that the client's delays \
         (set TCP_NODELAY, or write the answer at once); {acks:.2} delayed acknowledgements a request against \
         {fast_acks:.2}{pieces}",
        percent(slow),
        percent(fast)
    )
}

fn all_late(late: Late) -> String {
    let (what, [slow, fast]) = match late {
        Late::Quickest(both) => ("even the quickest twentieth of the answers", both),
        Late::Unhurried(both) => ("at the equal rate, where nothing hurries, half of the answers", both),
    };
    format!("{what} take {}, against {}", format_ns(slow), format_ns(fast))
}

fn service_words(service: &str, [slow, fast]: Both, place: Option<&(String, Vec<String>)>) -> String {
    let place = place.map_or_else(String::new, |(module, functions)| {
        format!(" (mostly in {module}: {})", functions.join(" and "))
    });
    let [slow, fast] = [slow, fast].map(format_ns);
    format!("service '{service}' uses {slow} of CPU time a request against {fast}{place}")
}

fn silences(mean_ns: f64, [slow, fast]: Both, meanwhile: &Meanwhile) -> String {
    let (slow, fast) = (percent(slow), percent(fast));
    let does = match meanwhile {
        Meanwhile::Unseen => ", while it waits for something unseen".to_owned(),
        Meanwhile::Threads(activity) => format!(", while it {}", stalls::activity(activity)),
        Meanwhile::Goroutines => String::new(),
    };
    format!("answers nobody for {} at a time ({slow} of the time against {fast}){does}", format_ns(mean_ns))
}

fn ended_waits(waits: &EndedWaits) -> String {
    let by = waits.by.as_deref().unwrap_or("another thread");
    let what = match waits.cause {
        CauseId::SyncWrites => "writes that wait for the disk".to_owned(),
        CauseId::Sleep => "sleeps".to_owned(),
        CauseId::TimerWait => "waiting for a time to pass".to_owned(),
        CauseId::LockContention => format!("threads waiting for each other, let go by '{by}'"),
        CauseId::ChildProcesses => "waiting for processes or threads to end".to_owned(),
        _ => format!("waiting for an answer of {by}"),
    };
    let at = |function: &Option<String>, word: &str| {
        function.as_ref().map_or_else(String::new, |function| format!(" {word} {function}"))
    };
    let places = [at(&waits.waited_in, "in"), at(&waits.woken_from, "from")].concat();
    let runs =
        waits.runs.as_ref().map_or_else(String::new, |place| format!(", to run {}", crate::waits::at(place)));
    let against = waits.other_ns.map_or_else(String::new, |ns| format!(" against {}", format_ns(ns)));
    format!("{what}{places}{runs}{}: {} a request{against}", had_waited(waits.behind), format_ns(waits.ns))
}

fn parked_words(parked: &ParkedSeen) -> String {
    let ParkedSeen { waits_for, function, at_a_time, ns, other } = parked;
    let against = other.map_or_else(String::new, |[at_a_time, ns]| {
        format!(", against {at_a_time:.1} and {}", format_ns(ns))
    });
    let what = match waits_for {
        WaitsFor::Sleep => "sleep".to_owned(),
        other => format!("wait for {}", waits_for_words(*other)),
    };
    let request = format_ns(*ns);
    format!("goroutines {what} in {function}: {at_a_time:.1} at a time, {request} a request{against}")
}

/// For what goroutines wait.
pub(crate) fn waits_for_words(waits_for: WaitsFor) -> &'static str {
    match waits_for {
        WaitsFor::Lock => "a lock",
        WaitsFor::Channel => "a channel",
        WaitsFor::Select => "one of several channels",
        WaitsFor::Sleep => "a sleep",
        WaitsFor::Condition => "a condition",
        WaitsFor::Group => "other goroutines to end",
        WaitsFor::Network => "an answer from the network",
        WaitsFor::Other => "something else",
    }
}

fn had_waited(behind: Option<EndedBy>) -> &'static str {
    match behind {
        Some(EndedBy::Timer) => ", which had waited for a time to pass",
        Some(EndedBy::Disk) => ", which had waited for the disk",
        Some(EndedBy::Service) => ", which had waited for another service",
        _ => "",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn how_many_are_served_has_two_ends_where_requests_wait_for_each_other_at_the_equal_rate_too() {
        let said = |served| {
            words(&Seen::FewAtATime {
                served,
                in_flight: 47.0,
                functions: Vec::new(),
                waits_for: None,
                unhurried_ns: 26.6e6,
                response_ns: 68.3e6,
            })
        };
        for (served, expected) in [
            ([5.0, 5.6], "serving about 5.6 of the 47 requests"),
            ([1.0, 20.2], "serving between 1.0 and 20.2 of the 47 requests"),
        ] {
            let said = said(served);
            assert!(said.starts_with(expected), "{said}");
        }
    }
}
