//! What a shard counts, and how it is shown.

use std::fmt::Write;
use std::sync::atomic::{AtomicU64, Ordering};

/// A number that one thread changes and any may read.
#[derive(Debug, Default)]
pub(crate) struct Counter(AtomicU64);

impl Counter {
    /// Adds without a locked instruction, since only the owner writes.
    #[inline]
    pub(crate) fn add(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_add(count), Ordering::Relaxed);
    }

    pub(crate) fn subtract(&self, count: u64) {
        self.0.store(self.0.load(Ordering::Relaxed).wrapping_sub(count), Ordering::Relaxed);
    }

    pub(crate) fn set(&self, value: u64) {
        self.0.store(value, Ordering::Relaxed);
    }

    pub(crate) fn value(&self) -> u64 {
        self.0.load(Ordering::Relaxed)
    }
}

macro_rules! counters {
    ($($(#[doc = $help:literal])* $name:ident: $kind:literal = $metric:literal,)*) => {
        /// The counters of one shard.
        #[derive(Debug, Default)]
        pub(crate) struct Counters {
            $($(#[doc = $help])* pub(crate) $name: Counter,)*
            /// Answers by the hundreds of their status: 1xx first.
            pub(crate) statuses: [Counter; 5],
        }

        impl Counters {
            /// Adds all of `other`.
            pub(crate) fn absorb(&self, other: &Self) {
                $(self.$name.add(other.$name.value());)*
                for (mine, theirs) in self.statuses.iter().zip(&other.statuses) {
                    mine.add(theirs.value());
                }
            }
        }

        const TABLE: &[(&str, &str, &str, fn(&Counters) -> u64)] =
            &[$(($metric, $kind, concat!($($help),*), |counters| counters.$name.value()),)*];
    };
}

counters! {
    /// Requests that reached the handler.
    requests: "counter" = "requests_total",
    /// Requests refused before they reached the handler.
    refused: "counter" = "refused_total",
    /// Connections accepted.
    accepted: "counter" = "accepted_total",
    /// Connections open now.
    open: "gauge" = "open_connections",
    /// Phases of connections that took too long.
    timeouts: "counter" = "timeouts_total",
    /// Handlers that returned an error.
    handler_errors: "counter" = "handler_errors_total",
    /// Handlers that panicked.
    handler_panics: "counter" = "handler_panics_total",
    /// Bytes received.
    received_bytes: "counter" = "received_bytes_total",
    /// Bytes sent.
    sent_bytes: "counter" = "sent_bytes_total",
    /// Times that accepting was paused for want of descriptors or room.
    accept_pauses: "counter" = "accept_pauses_total",
    /// Connections handed over to a shard that was less busy.
    handed_over: "counter" = "handed_over_total",
    /// Share of its time in which the shard is at work, of late, in thousandths.
    busy_thousandths: "gauge" = "busy_thousandths",
    /// Coroutines suspended now.
    coroutines: "gauge" = "coroutines",
    /// Times that a coroutine was suspended.
    suspensions: "counter" = "suspensions_total",
    /// Most stacks in use at a time.
    stacks_peak: "gauge" = "stacks_peak",
    /// Memory of the deepest stack, in bytes.
    stack_high_water_bytes: "gauge" = "stack_high_water_bytes",
    /// Times that a coroutine held the shard for too long.
    holds: "counter" = "shard_holds_total",
    /// The longest time that a coroutine was seen to hold the shard, in nanoseconds.
    longest_hold_ns: "gauge" = "shard_longest_hold_ns",
}

impl Counters {
    #[inline]
    pub(crate) fn count_status(&self, status: u16) {
        if let Some(class) = self.statuses.get(usize::from(status / 100).wrapping_sub(1)) {
            class.add(1);
        }
    }
}

/// All counters of all shards, in the text format of Prometheus.
///
/// Source: <https://prometheus.io/docs/instrumenting/exposition_formats/>, text format 0.0.4.
pub(crate) fn prometheus<'a>(shards: impl Iterator<Item = &'a Counters> + Clone) -> String {
    let mut text = String::new();
    // Writing to a string cannot fail.
    for (metric, kind, help, value) in TABLE {
        let help = help.trim();
        writeln!(text, "# HELP straightline_{metric} {help}\n# TYPE straightline_{metric} {kind}").ok();
        for (shard, counters) in shards.clone().enumerate() {
            writeln!(text, "straightline_{metric}{{shard=\"{shard}\"}} {}", value(counters)).ok();
        }
    }
    text.push_str("# HELP straightline_responses_total Answers by status.\n");
    text.push_str("# TYPE straightline_responses_total counter\n");
    for (shard, counters) in shards.enumerate() {
        for (class, count) in counters.statuses.iter().enumerate() {
            let class = class + 1;
            let line = format_args!("{{shard=\"{shard}\",class=\"{class}xx\"}} {}", count.value());
            writeln!(text, "straightline_responses_total{line}").ok();
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Counters, prometheus};

    #[test]
    fn each_counter_has_a_line_for_each_shard() {
        let shards = [Counters::default(), Counters::default()];
        shards[1].requests.add(7);
        shards[1].count_status(404);
        shards[1].count_status(999);
        let text = prometheus(shards.iter());
        assert!(text.contains("# TYPE straightline_requests_total counter\n"));
        assert!(text.contains("straightline_requests_total{shard=\"0\"} 0\n"));
        assert!(text.contains("straightline_requests_total{shard=\"1\"} 7\n"));
        assert!(text.contains("straightline_responses_total{shard=\"1\",class=\"4xx\"} 1\n"));
        assert!(!text.contains("6xx"));
    }
}
