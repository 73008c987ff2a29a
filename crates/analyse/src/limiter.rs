//! What limits an arm: why it does not serve twice as much.

use plan::Condition;
use record::{TcpCounters, Window};

use crate::gates::{backlog_per_s, server_busy, set_busy};
use crate::sheet::Sheet;
use crate::{arms, percent};

/// CPUs or a thread this busy have nothing left.
const FULL: f64 = 0.95;
/// Ready threads that wait this much of the time they run are short of CPU.
const MANY_WAITING: f64 = 0.20;
/// A generator above this share may be the limit.
const GENERATOR_FULL: f64 = 0.80;
/// Refused connections per request that show: each keeps its client away for a second.
pub(crate) const REFUSED: f64 = 0.0005;

/// The first limit that holds for `arm`, in words; "unknown" where none does.
pub(crate) fn name(sheet: &Sheet, arm: &str) -> String {
    let capacity = sheet.plan().workload.conditions[sheet.main] == Condition::Capacity;
    // Above the knee the server is at its limit in an open loop too.
    let overloaded = sheet.median(arm, sheet.main, backlog_per_s).is_some();
    if !capacity && !overloaded {
        return "the rate asked for".to_owned();
    }
    let median = |figure: fn(&Window) -> f64| {
        sheet.median(arm, sheet.main, |window| Some(figure(window))).unwrap_or(0.0)
    };
    let set = median(|window| set_busy(&window.server_cpus));
    let thread = median(busiest_thread);
    let waiting =
        median(|window| window.target.run_wait_ns as f64 / window.target.cpu.total_ns.max(1) as f64);
    let cpus = median(|window| f64::from(window.server_cpus.cpus));
    let generator = median(|window| window.load.busiest_thread);
    let busy = median(arms::busy_cores);
    let refused =
        median(|window| refused(&window.server_cpus.tcp) as f64 / window.load.requests.max(1) as f64);
    let own = busy / cpus.max(1.0);
    match () {
        () if own.max(set) >= FULL && median(server_busy) >= FULL => {
            format!("its CPU ({} of {cpus} busy)", percent(set.max(own)))
        }
        () if thread >= FULL => {
            format!("one thread ({} busy, {busy:.2} of {cpus} CPUs used)", percent(thread))
        }
        () if waiting > MANY_WAITING && own > 0.5 => {
            format!("waiting for a CPU ({} of its run time)", percent(waiting))
        }
        () if refused >= REFUSED => "its accept queue (connections were refused)".to_owned(),
        () if generator >= GENERATOR_FULL => {
            format!("the generator ({} busy; the server {})", percent(generator), percent(own))
        }
        () => format!("not its CPU ({} busy): a wait of its own, unknown", percent(own)),
    }
}

/// Share of the window in which the busiest thread ran.
pub(crate) fn busiest_thread(window: &Window) -> f64 {
    window.target.busiest_thread_ns as f64 / window.target.wall_ns.max(1) as f64
}

/// Connections refused or dropped because too many waited to be accepted.
pub(crate) fn refused(tcp: &TcpCounters) -> u64 {
    tcp.listen_overflows.max(tcp.listen_drops)
}
