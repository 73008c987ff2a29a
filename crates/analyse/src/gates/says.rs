//! What a gate saw, where that is more than its arm, value and limit.

use model::record::SendLagTail;

use super::sameness::Difference;
use crate::facts::metric::Metric;

/// What is said of a gate, together with its arm, its value and its limit.
#[derive(Debug, Clone, PartialEq)]
pub enum GateSays {
    /// There is nothing to judge.
    Nothing,
    /// The baseline never answered.
    NoAnswer,
    /// Arms answer alike.
    Alike {
        /// How many.
        arms: usize,
        /// What they answer.
        answer: Answered,
    },
    /// The arm does not answer as the baseline does.
    Unlike {
        /// The baseline.
        baseline: String,
        /// What differs.
        found: Unlike,
        /// Whether that is allowed.
        allowed: bool,
    },
    /// Requests that failed, as a share: how many of each kind.
    Errors(Vec<(&'static str, u64)>),
    /// At most so many requests failed.
    FewErrors,
    /// At capacity the generator was the limit: busy shares of the server and of the generator.
    GeneratorLimits {
        /// Of the server.
        server: f64,
        /// Of the generator.
        generator: f64,
    },
    /// At capacity the servers were the limit.
    ServersLimit,
    /// The schedule was not kept.
    NotKept {
        /// The condition.
        at: String,
        /// Why.
        fault: Option<Fault>,
    },
    /// The schedule was kept.
    Kept {
        /// The condition.
        at: String,
    },
    /// Rate times mean response is not what was in flight.
    NotInFlight,
    /// It is.
    InFlight,
    /// Connections that were not served.
    Stalled {
        /// How.
        how: Stalled,
        /// The block, from 1.
        block: u32,
    },
    /// Every connection was served.
    Served,
    /// More CPU time was counted than there was.
    Overcounted,
    /// At most so much of it was used.
    Counted,
    /// Loopback was full: bytes per second for each of the server's CPUs.
    LoopbackFull(f64),
    /// Loopback had room.
    LoopbackFree,
    /// The link between machines was full: bytes per second.
    LinkFull(f64),
    /// The link between machines had room.
    LinkFree,
    /// Somebody else took CPUs of the server.
    Disturbed {
        /// Who.
        who: &'static str,
        /// The baseline and the arm, with the share that was taken in the turns of each.
        turns: [(String, f64); 2],
    },
    /// Nobody else took this share of them.
    Undisturbed(f64),
    /// Arms had other CPUs.
    OtherCpus {
        /// Those of the arm.
        arm_on: String,
        /// The baseline.
        baseline: String,
        /// Those of the baseline.
        baseline_on: String,
        /// Whether one of both ran already.
        runs: bool,
    },
    /// Same host and CPUs.
    SamePlace {
        /// In what arms differ.
        differ: Vec<Differing>,
        /// Whether server and generator share CPUs.
        shared: bool,
    },
    /// A server that ran already.
    Ran {
        /// Its address.
        address: String,
        /// Whether its CPU time is known.
        is_observed: bool,
    },
    /// The two copies of the baseline differ.
    CopiesDiffer {
        /// The baseline.
        baseline: String,
        /// In what.
        metric: Metric,
    },
    /// Arms kept another number of cores busy.
    Cores {
        /// Of the arm.
        arm: f64,
        /// The baseline, and how many it kept busy.
        baseline: (String, f64),
    },
    /// All arms kept about so many cores busy.
    CoresAlike(f64),
}

/// What arms that answer alike answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Answered {
    /// One request.
    One {
        /// Its status.
        status: u16,
        /// Bytes of the body.
        body_bytes: u64,
    },
    /// So many requests.
    Several(usize),
}

/// In what answers differ.
#[derive(Debug, Clone, PartialEq)]
pub enum Unlike {
    /// In the answers to the probes before the load.
    Probed(AnswersDiffer),
    /// In bytes of those under load: of the arm, and of the baseline.
    Loaded([f64; 2]),
}

/// What differs between the answers of two arms.
#[derive(Debug, Clone, PartialEq)]
pub struct AnswersDiffer {
    /// The baseline.
    pub baseline: String,
    /// The other arm.
    pub other: String,
    /// Each request whose answers differ, by its name where there are several.
    pub requests: Vec<(Option<String>, Vec<Difference>)>,
}

/// Why a schedule was not kept.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Fault {
    /// The generator was so busy.
    Busy(f64),
    /// The server is overloaded.
    Overloaded {
        /// Share of the intended rate that was answered.
        answered: f64,
        /// By how many requests a second the backlog grows.
        backlog_per_s: Option<f64>,
    },
    /// Requests left so late.
    Late(SendLagTail),
}

/// How connections are not served.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Stalled {
    /// Each got the same few answers and then none.
    FewAnswers,
    /// There was no answer in the last second.
    SilentAtTheEnd,
    /// Some were served less often than others.
    Starved {
        /// Answers of the one that got fewest.
        min: u64,
        /// Answers of the one that got most.
        max: u64,
        /// How often its listen queue was full.
        refused: u64,
    },
    /// Some were served less often than others while others had the server's CPUs.
    Pressed {
        /// Answers of the one that got fewest.
        min: u64,
        /// Answers of the one that got most.
        max: u64,
        /// Share of the CPUs that others had.
        share: f64,
    },
}

/// In what arms may differ.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Differing {
    /// The executable.
    Executable,
    /// The command.
    Command,
    /// Environment variables.
    Environment,
    /// The warm-up.
    Warmup,
}
