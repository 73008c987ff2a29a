//! Goroutines that waited: for what, by the functions of the runtime that they are in, which are the same in all its versions.

use model::record::{Frame, Goroutines, ParkedLeaf, WaitsFor};

use super::readings::Chain;
use crate::parse::chain_of;
use crate::profile::ParkedIn;

/// What goroutines begin in, and those functions of the runtime in which a program's own do; all others in which they begin are its helpers:
/// of the collector, the scavenger, finalizers. Source: Go, runtime/traceback.go, `isSystemGoroutine`.
const BEGIN: [&str; 2] = ["runtime.goexit", "runtime.goexit.abi0"];
const BEGINS_OWN: [&str; 3] = ["runtime.main", "runtime.corostart", "runtime.handleAsyncEvent"];
/// Beginnings of the names of functions that waiting is made of.
const MEANS: [&str; 5] = ["runtime.", "sync.", "internal/sync.", "internal/poll.", "time.Sleep"];
/// The runtime's wait for the network, by its own name for the functions that poll.
const FOR_NETWORK: &str = "runtime.netpollblock";
/// Parts of the names of these by what they wait for; of a stack the innermost function that has one counts. Source: Go, runtime/chan.go,
/// select.go, sema.go, time.go; sync.
const FUNCTIONS: [(WaitsFor, &[&str]); 6] = [
    (WaitsFor::Channel, &["runtime.chanrecv", "runtime.chansend"]),
    (WaitsFor::Select, &["runtime.selectgo"]),
    (WaitsFor::Sleep, &["time.Sleep", "runtime.timeSleep"]),
    (WaitsFor::Condition, &["notifyListWait"]),
    (WaitsFor::Group, &["SemacquireWaitGroup", "(*WaitGroup).Wait"]),
    (WaitsFor::Lock, &["SemacquireMutex", "SemacquireRWMutex", "(*Mutex).", "(*RWMutex).", "(*fdMutex)."]),
];

/// The stacks of all goroutines, in their order.
pub(super) fn chains(parked: &[ParkedIn]) -> impl Iterator<Item = Chain> + '_ {
    let of_process = |one: &ParkedIn| {
        let chain = |(stack, _): &(Vec<u64>, u64)| (one.pid, chain_of(&[], stack));
        one.stacks.iter().map(chain).collect::<Vec<Chain>>()
    };
    parked.iter().flat_map(of_process)
}

/// What is recorded of them, by the names of their stacks in the same order.
pub(super) fn leaves(parked: &[ParkedIn], frames: &[Frame], stacks: Vec<Vec<u32>>) -> Vec<Goroutines> {
    let mut stacks = stacks.into_iter();
    let of_process = |one: &ParkedIn| {
        let mut leaves: Vec<ParkedLeaf> = Vec::new();
        for ((_, count), waited_in) in one.stacks.iter().zip(stacks.by_ref()) {
            let names: Vec<&str> = waited_in
                .iter()
                .filter_map(|place| frames.get(*place as usize))
                .map(|frame| frame.name.as_str())
                .collect();
            let Some(waits_for) = waits_for(&names) else { continue };
            match leaves.iter_mut().find(|leaf| leaf.waited_in == waited_in) {
                Some(same) => same.count += count,
                None => leaves.push(ParkedLeaf { waits_for, waited_in, count: *count }),
            }
        }
        leaves.sort_by_key(|leaf| std::cmp::Reverse(leaf.count));
        Goroutines { readings: one.readings, leaves }
    };
    parked.iter().map(of_process).collect()
}

/// For what a goroutine with this stack waits, outermost function first; nothing where it is the runtime's own.
fn waits_for(stack: &[&str]) -> Option<WaitsFor> {
    let begins_in = stack.iter().find(|name| !BEGIN.contains(name))?;
    if begins_in.starts_with("runtime.") && !BEGINS_OWN.contains(begins_in) {
        return None;
    }
    let is_means = |name: &&&str| MEANS.iter().any(|begin| name.starts_with(begin));
    let mut means = stack.iter().rev().take_while(is_means);
    if means.clone().any(|name| *name == FOR_NETWORK) {
        return Some(WaitsFor::Network);
    }
    let of = |name: &&str| {
        let has = |parts: &&[&str]| parts.iter().any(|part| name.contains(part));
        FUNCTIONS.iter().find(|(_, parts)| has(parts)).map(|(waits_for, _)| *waits_for)
    };
    Some(means.find_map(of).unwrap_or(WaitsFor::Other))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn for_what_a_goroutine_waits_is_told_by_the_functions_of_the_runtime() {
        for (stack, expected) in [
            (
                "runtime.goexit main.serve main.pay sync.(*Mutex).Lock internal/sync.(*Mutex).lockSlow internal/sync.runtime_SemacquireMutex runtime.semacquire1 runtime.goparkunlock runtime.gopark",
                Some(WaitsFor::Lock),
            ),
            (
                "runtime.goexit main.serve sync.(*RWMutex).RLock sync.runtime_SemacquireRWMutexR runtime.semacquire1 runtime.gopark",
                Some(WaitsFor::Lock),
            ),
            (
                "runtime.goexit main.serve sync.(*WaitGroup).Wait sync.runtime_Semacquire runtime.semacquire1 runtime.gopark",
                Some(WaitsFor::Group),
            ),
            (
                "runtime.goexit main.serve sync.(*Cond).Wait sync.runtime_notifyListWait runtime.goparkunlock runtime.gopark",
                Some(WaitsFor::Condition),
            ),
            (
                "runtime.goexit main.serve runtime.chanrecv1 runtime.chanrecv runtime.gopark",
                Some(WaitsFor::Channel),
            ),
            ("runtime.goexit main.serve runtime.selectgo runtime.gopark", Some(WaitsFor::Select)),
            ("runtime.goexit runtime.main main.main time.Sleep runtime.gopark", Some(WaitsFor::Sleep)),
            ("runtime.goexit runtime.main main.main runtime.block runtime.gopark", Some(WaitsFor::Other)),
            // What calls back is held by no lock.
            (
                "runtime.goexit main.serve sync.(*Mutex).With main.rest time.Sleep runtime.gopark",
                Some(WaitsFor::Sleep),
            ),
            (
                "runtime.goexit net/http.(*conn).serve net.(*conn).Read internal/poll.(*FD).Read internal/poll.(*pollDesc).waitRead internal/poll.runtime_pollWait runtime.netpollblock runtime.gopark",
                Some(WaitsFor::Network),
            ),
            ("runtime.goexit runtime.bgsweep runtime.goparkunlock runtime.gopark", None),
            ("runtime.goexit.abi0 runtime.gcBgMarkWorker runtime.gopark", None),
            ("runtime.goexit", None),
            ("", None),
        ] {
            let names: Vec<&str> = stack.split_whitespace().collect();
            assert_eq!(waits_for(&names), expected, "{stack}");
        }
    }

    #[test]
    fn goroutines_are_counted_by_place_and_process() {
        let frame = |name: &&str| Frame { name: (*name).to_owned(), ..Frame::default() };
        let frames: Vec<Frame> = ["main.serve", "time.Sleep", "runtime.bgsweep"].iter().map(frame).collect();
        let parked = |pid, stacks: &[(u64, u64)]| ParkedIn {
            pid,
            readings: 10,
            stacks: stacks.iter().map(|(address, count)| (vec![*address], *count)).collect(),
        };
        // The same place at two addresses, and the runtime's own.
        let parked = [parked(7, &[(1, 5), (2, 20), (3, 4)]), parked(8, &[(1, 3)])];
        let chains: Vec<Chain> = chains(&parked).collect();
        assert_eq!(chains[3], (8, chain_of(&[], &[1])));
        let told = leaves(&parked, &frames, vec![vec![0, 1], vec![2], vec![0, 1], vec![0, 1]]);
        let leaf = |count| ParkedLeaf { waits_for: WaitsFor::Sleep, waited_in: vec![0, 1], count };
        let goroutines = |count| Goroutines { readings: 10, leaves: vec![leaf(count)] };
        assert_eq!(told, [goroutines(9), goroutines(3)]);
    }
}
