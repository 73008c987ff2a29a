//! Fits a case to the machine at hand, and says what that changed.

use crate::plan::{CaseComparison, CaseFile, Condition, Scale};

/// How large a run of a case is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Size {
    /// For an answer: the usual design of `compare`.
    Full,
    /// For a first look: the quick design of `compare`.
    Quick,
    /// To see that everything works: one block of two slices of each arm. It decides nothing.
    Smoke,
}

impl Size {
    /// The flag that asks for it, as it is typed; empty for a full run.
    #[must_use]
    pub fn flag(self) -> &'static str {
        match self {
            Self::Full => "",
            Self::Quick => "--quick",
            Self::Smoke => "--smoke",
        }
    }
}

/// Most connections of a smoke run: opening more is not what it tries.
const SMOKE_CONNECTIONS: u32 = 64;
/// Fewest connections to which a case is scaled down: with fewer the server would wait for the generator.
const MIN_CONNECTIONS: u32 = 64;
/// Descriptors that server and generator each need beside one for each connection: logs, epoll, listeners, libraries.
const SPARE_DESCRIPTORS: u64 = 64;
/// Local ports that others may be using.
const SPARE_PORTS: u64 = 256;

/// What of a machine limits a case.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct HostLimits {
    /// CPUs of the server.
    pub server_cpus: u32,
    /// CPUs of the generator.
    pub load_cpus: u32,
    /// File descriptors that one process may have (hard limit); generator and server are processes of their own.
    pub descriptors: u64,
    /// Local ports of one address.
    pub ports: u64,
}

/// A comparison of a case as it is run on this machine.
#[derive(Debug, Clone, PartialEq)]
pub struct Fitted {
    /// Connections.
    pub connections: u32,
    /// Requests in flight on each.
    pub pipeline: u32,
    /// The conditions of each round.
    pub conditions: Vec<Condition>,
    /// Flags of `whyslow compare` for blocks, windows and warm-up.
    pub design: Vec<&'static str>,
    /// Why arms may answer differently.
    pub allow_difference: Option<String>,
    /// What differs from the published setting, one sentence each.
    pub changes: Vec<String>,
}

impl CaseFile {
    /// `comparison` as it is run at `size` on a machine with `host`'s limits.
    #[must_use]
    pub fn fit(&self, comparison: &CaseComparison, host: &HostLimits, size: Size) -> Fitted {
        let mut changes = self.placement_changes(host);
        let connections = self.connections(comparison, host, size, &mut changes);
        changes.push(format!("{}, in place of '{}'", design_text(size), self.published.command));
        let reasons: Vec<&str> = [&self.workload.allow_difference, &comparison.allow_difference]
            .into_iter()
            .filter_map(|reason| reason.as_deref())
            .collect();
        Fitted {
            connections,
            pipeline: comparison.pipeline.unwrap_or(self.workload.pipeline),
            conditions: conditions(comparison),
            design: design(size),
            allow_difference: (!reasons.is_empty()).then(|| reasons.join(" ")),
            changes,
        }
    }

    fn placement_changes(&self, host: &HostLimits) -> Vec<String> {
        let published = self.published.server_cpus;
        if host.server_cpus == published {
            return Vec::new();
        }
        vec![format!(
            "the server has {} of this machine's CPUs and the generator {}, where the published server had {published}: \
             rates are compared per core",
            host.server_cpus, host.load_cpus
        )]
    }

    /// The published connections, scaled by the case's rule, and no more than this machine can open.
    fn connections(
        &self,
        comparison: &CaseComparison,
        host: &HostLimits,
        size: Size,
        changes: &mut Vec<String>,
    ) -> u32 {
        let published = comparison.connections.unwrap_or(self.workload.connections);
        let scaled = match self.workload.scale {
            Scale::Keep => published,
            Scale::PerCpu => per_cpu(published, host.server_cpus, self.published.server_cpus),
        };
        if scaled != published {
            changes.push(format!(
                "{scaled} connections instead of {published}: as many for each CPU of the server, and at least \
                 {MIN_CONNECTIONS}"
            ));
        }
        let possible =
            host.descriptors.saturating_sub(SPARE_DESCRIPTORS).min(host.ports.saturating_sub(SPARE_PORTS));
        let possible = u32::try_from(possible).unwrap_or(u32::MAX).max(1);
        if scaled > possible {
            changes.push(format!(
                "{possible} connections instead of {scaled}: a process may have {} descriptors here, and an address {} \
                 ports",
                host.descriptors, host.ports
            ));
        }
        let fitting = scaled.min(possible);
        if size == Size::Smoke { fitting.min(SMOKE_CONNECTIONS) } else { fitting }
    }
}

/// Never more than was published, and never fewer than [`MIN_CONNECTIONS`] unless fewer were published.
fn per_cpu(published: u32, here: u32, there: u32) -> u32 {
    let share = u64::from(published) * u64::from(here) / u64::from(there.max(1));
    let share = u32::try_from(share).unwrap_or(u32::MAX);
    share.max(MIN_CONNECTIONS).min(published)
}

fn conditions(comparison: &CaseComparison) -> Vec<Condition> {
    let capacity = comparison.capacity.then_some(Condition::Capacity);
    let rates = comparison.rates.iter().map(|percent| Condition::ShareOfSlowest { percent: *percent });
    capacity.into_iter().chain(rates).collect()
}

fn design(size: Size) -> Vec<&'static str> {
    match size {
        Size::Full => Vec::new(),
        Size::Quick => vec!["--quick"],
        Size::Smoke => {
            vec!["--blocks", "1", "--cycles", "2", "--warmup", "200ms", "--warmup-cap", "1s", "--no-why"]
        }
    }
}

fn design_text(size: Size) -> &'static str {
    match size {
        Size::Full => "8, 14 or 24 blocks, as many as decide",
        Size::Quick => "8 to 32 short blocks",
        Size::Smoke => "one block of two slices of each arm, which decides nothing",
    }
}
