//! The log of a Java virtual machine: `-Xlog:gc,safepoint` with the decorators `timenanos,tags`.

use model::record::MachineLog;

/// Bytes of the unit in which the log tells of the heap.
const MIB: u64 = 1 << 20;

/// What a log tells of some stretches of time on the monotonic clock, in order: the pauses within them, and how fast memory
/// was allocated from the first to the last.
///
/// Source: HotSpot, `src/hotspot/share/runtime/safepoint.cpp` (`SafepointTracing::end`) and
/// `src/hotspot/share/gc/shared/gcTraceTime.cpp`; `timenanos` is the monotonic clock on Linux.
#[must_use]
pub fn machine_log(text: &str, spans_ns: &[[u64; 2]]) -> MachineLog {
    let (from_ns, to_ns) = (spans_ns.first().map_or(0, |span| span[0]), spans_ns.last().map_or(0, |span| span[1]));
    let within = |at: u64| spans_ns.iter().any(|[from, to]| (*from..*to).contains(&at));
    let lines = text.lines().filter_map(stamped).filter(|(at, _)| (from_ns..to_ns).contains(at));
    let mut log = MachineLog::default();
    // When the first collection was, the heap after the last one, and what was allocated between them.
    let mut heap: Option<[u64; 3]> = None;
    for (at_ns, line) in lines {
        if let Some((operation, ns)) = pause(line) {
            if within(at_ns) {
                log.add(operation, ns);
            }
        } else if let Some([before, after]) = collection(line) {
            let [first_ns, left, mib] = heap.unwrap_or([at_ns, before, 0]);
            let mib = mib + before.saturating_sub(left);
            let per_s = (mib * MIB) as f64 * 1e9 / at_ns.saturating_sub(first_ns) as f64;
            log.allocated_bytes_per_s = Some(per_s).filter(|per_s| per_s.is_finite());
            heap = Some([first_ns, after, mib]);
        }
    }
    log
}

/// When a line was written, and what it says: `[15687328149574ns][gc       ] TEXT`.
fn stamped(line: &str) -> Option<(u64, &str)> {
    let (stamp, rest) = line.strip_prefix('[')?.split_once("ns][")?;
    Some((stamp.parse().ok()?, rest.split_once("] ")?.1))
}

/// Operation and length of a pause: `Safepoint "NAME", …, Total: 60589104 ns`.
fn pause(line: &str) -> Option<(&str, u64)> {
    let (operation, rest) = line.strip_prefix("Safepoint \"")?.split_once('"')?;
    let ns = rest.rsplit_once("Total: ")?.1.strip_suffix(" ns")?.trim();
    Some((operation, ns.parse().ok()?))
}

/// MiB of the heap before and after a collection: `GC(1) … 33M->31M(61M) …`, or `44M(69%)->42M(66%)`.
fn collection(line: &str) -> Option<[u64; 2]> {
    if !line.starts_with("GC(") {
        return None;
    }
    let (before, after) = line.split_whitespace().find_map(|word| word.split_once("->"))?;
    let mib = |text: &str| text.split_once('M')?.0.parse().ok();
    Some([mib(before)?, mib(after)?])
}
