use std::collections::BTreeMap;

use model::record::{Host, VoidReason};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::{ArmResources, LedgerLine, Metric, PassFindings, ProfileDifference};

/// Version of the findings' JSON.
pub const FINDINGS_SCHEMA: u32 = 1;

/// Everything that follows from a run. A pure function of its directory.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Findings {
    /// Schema version.
    pub schema: u32,
    /// The run.
    pub run_id: String,
    /// The case, or `compare`.
    pub case: String,
    /// Seed of all randomness.
    pub seed: u64,
    /// Where it was made.
    pub host: Host,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// What was asked, in words: connections, depth, path, placement.
    pub workload: String,
    /// How far the run came, when it is not complete.
    pub partial: Option<String>,
    /// Condition under which CPU per request, rate and memory are compared.
    pub condition: String,
    /// Condition under which latency is compared; absent where there was none.
    pub latency_condition: Option<String>,
    /// Length of a window in nanoseconds.
    pub window_ns: u64,
    /// The baseline's name.
    pub baseline: String,
    /// One row for each arm, the baseline among them.
    pub arms: Vec<ArmFindings>,
    /// One row for each arm but the baseline and each metric, primary metrics first.
    pub comparisons: Vec<Comparison>,
    /// What makes figures believable or void.
    pub gates: Vec<Gate>,
    /// What explains the difference, most important first.
    pub causes: Vec<Cause>,
    /// Utilisation, saturation and errors of every resource, one table for each arm.
    pub resources: Vec<ArmResources>,
    /// Where in the code the difference is, one for each arm but the baseline that was sampled.
    pub profiles: Vec<ProfileDifference>,
    /// What one request costs, line by line, of every arm that differs from the baseline.
    pub ledger: Vec<LedgerLine>,
    /// How much watching closely slowed each arm, and whether what was seen is used.
    pub passes: Vec<PassFindings>,
    /// Exact split of the rate ratio, one for each arm but the baseline.
    pub splits: Vec<Split>,
    /// Share of a gap that no cause accounts for, 0 to 1, the largest of all arms'; absent where there is no gap to explain.
    pub unattributed_share: Option<f64>,
    /// The arm whose gap that is a part of.
    #[serde(default)]
    pub unattributed_arm: Option<String>,
    /// What the reader must know.
    pub warnings: Vec<String>,
    /// How the arms were loaded.
    #[serde(default)]
    pub design: DesignFindings,
    /// From the start of the first server to the end of the last block, in nanoseconds; 0 where it is not known.
    #[serde(default)]
    pub took_ns: u64,
    /// Rounds that count for nothing. There are none any more: what disturbs a round is inside the intervals.
    pub void_rounds: Vec<VoidRound>,
    /// What to run next.
    pub next: Option<String>,
}

/// A round that counts for nothing.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct VoidRound {
    /// Block, from 0.
    pub block: u32,
    /// Arm.
    pub arm: String,
    /// 0, or how often it was repeated before.
    #[serde(default)]
    pub attempt: u32,
    /// Why.
    pub reason: VoidReason,
}

/// CPU per request by where it was spent, in nanoseconds.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CpuPerRequest {
    /// All of it.
    pub total: f64,
    /// In user mode.
    pub user: f64,
    /// In the kernel.
    pub system: f64,
    /// Soft interrupts on the server's CPUs; part of `system` where the kernel charges them to the task.
    pub softirq: f64,
}

/// Context switches per request.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Switches {
    /// The thread waited for something.
    pub voluntary: f64,
    /// The thread was interrupted.
    pub involuntary: f64,
}

/// TCP segments with data per request: 1 and 1 where requests and answers are small and not pipelined.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Segments {
    /// That the server received.
    pub received: f64,
    /// That the server sent.
    pub sent: f64,
}

/// Response times in nanoseconds: medians over the rounds of each round's percentile.
#[derive(Debug, Clone, Copy, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Latency {
    /// Median.
    pub p50: Option<f64>,
    /// 90 %.
    pub p90: Option<f64>,
    /// 99 %.
    pub p99: Option<f64>,
    /// 99.9 %.
    pub p99_9: Option<f64>,
    /// Largest of all rounds.
    pub max: Option<f64>,
    /// Mean.
    pub mean: Option<f64>,
}

/// An open loop that asks for more than the server can answer: a queue that grows for as long as it is asked.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Overload {
    /// Requests per second asked for.
    pub asked_per_s: f64,
    /// Requests per second answered.
    pub answered_per_s: f64,
    /// Requests per second by which the backlog grows.
    pub backlog_per_s: f64,
}

impl Overload {
    /// In words.
    #[must_use]
    pub fn text(&self) -> String {
        format!(
            "overloaded at {:.0} requests/s: the backlog grows by {:.0} requests a second; the latency figures are a \
             queue's, not the server's",
            self.asked_per_s, self.backlog_per_s
        )
    }
}

/// One arm, at the condition of the findings: counts are pooled over its valid rounds, rate and cores are their mean,
/// percentiles and memory their median.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ArmFindings {
    /// Name.
    pub name: String,
    /// Target, where it is one of `targets/` or built in.
    pub target: Option<String>,
    /// Variant of the target.
    pub variant: Option<String>,
    /// Command that started it.
    pub command: String,
    /// SHA-256 of its executable.
    pub build_id: Option<String>,
    /// Whether it gave figures.
    pub ok: bool,
    /// Why not.
    pub error: Option<String>,
    /// Last lines of its log, when it failed.
    pub log: Vec<String>,
    /// Valid rounds.
    pub rounds: u32,
    /// Requests completed in all valid windows.
    pub requests: u64,
    /// Requests per second.
    pub rate_per_s: Option<f64>,
    /// Connections established.
    pub connections: u64,
    /// Server CPU per request.
    pub cpu_ns_per_request: Option<CpuPerRequest>,
    /// Lowest and highest round in server CPU per request.
    #[serde(default)]
    pub cpu_ns_per_request_range: Option<[f64; 2]>,
    /// Generator CPU per request, for comparison.
    pub generator_cpu_ns_per_request: Option<f64>,
    /// Busy cores of the server.
    pub busy_cores: Option<f64>,
    /// Share of the server's CPU set that was busy, 0 to 1.
    pub server_set_busy: Option<f64>,
    /// Lowest and highest round in it.
    #[serde(default)]
    pub server_set_busy_range: Option<[f64; 2]>,
    /// Context switches.
    pub context_switches_per_request: Option<Switches>,
    /// TCP segments with data, where the kernel told of the server's connections.
    pub segments_per_request: Option<Segments>,
    /// System calls by name, where they were counted.
    pub syscalls_per_request: BTreeMap<String, f64>,
    /// Time ready threads waited for a CPU, in nanoseconds per request.
    pub run_wait_ns_per_request: Option<f64>,
    /// Response times at the latency condition; at the main condition where there is no other.
    pub latency_ns: Latency,
    /// Largest resident set.
    pub rss_peak_bytes: Option<f64>,
    /// What limits it.
    pub limiter: Option<String>,
    /// How its responses are spread over time, one for each condition at which that was kept.
    #[serde(default)]
    pub response_shapes: Vec<ResponseShape>,
    /// Times in which it answered nobody, where they are a fiftieth of the watched time at least.
    #[serde(default)]
    pub stalls: Option<Stalls>,
    /// How far a rate asked for is above what it can serve; absent where it kept up.
    #[serde(default)]
    pub overload: Option<Overload>,
    /// Rounds that began without a steady warm-up.
    pub unsteady_rounds: u32,
    /// CPUs that it kept busy in the turns of others, when nobody asked it anything; absent where it ran alone.
    #[serde(default)]
    pub background_cpu_share: Option<f64>,
}

/// How the responses of an arm at one condition are spread over time, all valid windows together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponseShape {
    /// The condition.
    pub condition: String,
    /// Windows behind it.
    pub windows: u32,
    /// Responses in them.
    pub responses: u64,
    /// Where responses gather, quickest first: one, or several that valleys lie between.
    pub peaks: Vec<ResponsePeak>,
    /// One sentence.
    pub text: String,
}

/// A time around which responses gather.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ResponsePeak {
    /// Where they are densest, in nanoseconds.
    pub at_ns: f64,
    /// The valleys on both sides, in nanoseconds: from the first on, and below the second.
    pub range_ns: [u64; 2],
    /// Share of the responses, 0 to 1; the shares of all peaks sum to 1.
    pub share: f64,
    /// Windows in which it holds at least 0.5 % of the responses.
    pub windows: u32,
    /// What was seen to take as long, by the id of the cause that it would be: `delayed_ack`, `sleep` or `sync_writes`.
    pub coincides_with: Option<String>,
}

/// Times in which an arm answered nobody though requests waited, seen in passes that watch what it does.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stalls {
    /// How many.
    pub count: u64,
    /// How long one is on average, in nanoseconds.
    pub mean_ns: f64,
    /// Share of the watched time, 0 to 1.
    pub share: f64,
    /// Time that was watched, in nanoseconds.
    pub watched_ns: u64,
    /// What it does meanwhile far more than at other times; nothing where that was not seen.
    pub activities: Vec<StallActivity>,
    /// One sentence.
    pub text: String,
}

/// What a server does during stalls.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct StallActivity {
    /// `runs`, by samples of CPU time, or `waits`, by the time that its threads are without a CPU.
    pub does: String,
    /// The functions in which it does, each called by the one before.
    pub functions: Vec<String>,
    /// Threads that are at a time in the first of them, on average.
    pub threads: f64,
    /// The same at other times.
    pub threads_otherwise: f64,
}

/// What is said of an arm against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline.
    Faster,
    /// Worse than the baseline.
    Slower,
    /// Any difference is smaller than the one that matters.
    Equal,
    /// Neither was shown.
    Inconclusive,
    /// A gate voids it.
    Invalid,
}

impl From<stats::verdict::Verdict> for Verdict {
    fn from(verdict: stats::verdict::Verdict) -> Self {
        match verdict {
            stats::verdict::Verdict::Faster => Self::Faster,
            stats::verdict::Verdict::Slower => Self::Slower,
            stats::verdict::Verdict::Equal => Self::Equal,
            stats::verdict::Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl Verdict {
    /// The word in every output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equal => "equal",
            Self::Inconclusive => "inconclusive",
            Self::Invalid => "invalid",
        }
    }

    /// Whether a question was answered.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Faster | Self::Slower | Self::Equal)
    }
}

/// One arm against the baseline in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Whether the metric was declared primary.
    pub primary: bool,
    /// The condition.
    pub condition: String,
    /// The verdict on `arm`.
    pub verdict: Verdict,
    /// Arm over baseline, Hodges–Lehmann; absent where there are no pairs.
    pub ratio: Option<f64>,
    /// Low end of the exact Wilcoxon interval of the ratio.
    pub ci_low: Option<f64>,
    /// High end.
    pub ci_high: Option<f64>,
    /// Level that the interval attains, 0 to 1.
    pub level: Option<f64>,
    /// p of the exact Wilcoxon test, not adjusted.
    pub p_wilcoxon: Option<f64>,
    /// p of the sign-flip test, as a cross-check.
    pub p_sign_flip: Option<f64>,
    /// Pairs behind it.
    pub blocks: u32,
    /// Standard deviation of the pairs' log-ratios.
    pub paired_sd: Option<f64>,
    /// Smallest relative difference that this run could show.
    pub noise_floor: Option<f64>,
    /// Where the floor comes from: `second_baseline` or `within_run`.
    pub noise_floor_from: Option<String>,
    /// The relative difference that matters.
    pub delta: f64,
    /// Blocks that would decide.
    pub blocks_needed: Option<u64>,
    /// Ratio of each block, in order.
    #[serde(default)]
    pub block_ratios: Vec<f64>,
    /// How far what disturbed the arms can have moved the ratio; it is inside the interval.
    #[serde(default)]
    pub bias: BiasFindings,
    /// Log-ratio of each pair in order of blocks; `[block, ln(arm/baseline)]`.
    pub pairs: Vec<(u32, f64)>,
    /// The gates that void it.
    pub void_by: Vec<String>,
}

/// How far something can have moved a ratio, as relative differences of at least 0: the true ratio may be lower by `low`, or
/// higher by `high`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BiasFindings {
    /// All of it, downwards.
    pub low: f64,
    /// All of it, upwards.
    pub high: f64,
    /// What it is made of.
    pub of: Vec<BiasSource>,
}

/// One thing that can have moved a ratio.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BiasSource {
    /// Who or what, such as "other processes".
    pub what: String,
    /// Downwards.
    pub low: f64,
    /// Upwards.
    pub high: f64,
}

/// How an arm stands against the baseline while a run goes on.
#[derive(Debug, Clone, PartialEq)]
pub struct Standing {
    /// The arm.
    pub arm: String,
    /// CPU per request, arm over baseline.
    pub ratio: f64,
    /// Low end of its interval.
    pub low: f64,
    /// High end.
    pub high: f64,
}

/// How the arms of a run were loaded.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum DesignKind {
    /// In turns, alive together.
    Slices,
    /// One at a time.
    #[default]
    Alone,
}

/// The design of a run as it was carried out.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct DesignFindings {
    /// How arms were loaded.
    pub kind: DesignKind,
    /// For how long requests were sent in one turn.
    pub slice_ns: u64,
    /// Turns of each arm in a block, under each condition.
    pub cycles: u32,
    /// Blocks done.
    pub blocks: u32,
    /// Why arms ran one at a time although they were to take turns.
    pub why_alone: Option<String>,
}

/// One gate: a condition under which figures may be believed.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Gate {
    /// Stable name.
    pub id: String,
    /// Whether it holds.
    pub ok: bool,
    /// The arm it speaks of; absent where it speaks of all.
    pub arm: Option<String>,
    /// What was seen.
    pub value: Option<f64>,
    /// The limit.
    pub limit: Option<f64>,
    /// One or two sentences: what, why, what to do.
    pub text: String,
    /// Metrics that it voids when it does not hold.
    pub voids: Vec<Metric>,
}

/// How well a cause is supported.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Grade {
    /// An identity on measured counters.
    AccountsFor,
    /// A count times a calibrated cost.
    BoundedBy,
    /// An association in a profile or trace.
    ConsistentWith,
    /// An intervention removed it.
    ConfirmedBy,
    /// It cannot carry enough to matter.
    RuledOut,
}

/// Something that explains a part of the difference, or was ruled out.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Cause {
    /// Stable name.
    pub id: String,
    /// How well it is supported.
    pub grade: Grade,
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// What it carries, in nanoseconds per request; positive where the arm costs more.
    pub ns_per_request: f64,
    /// Its share of the gap, −1 to 1 and beyond where causes cancel.
    pub share: Option<f64>,
    /// One sentence.
    pub text: String,
}

/// ln(rate ratio) = ln(busy cores ratio) − ln(CPU per request ratio), on figures pooled over rounds.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Split {
    /// The arm.
    pub arm: String,
    /// Arm over baseline.
    pub rate_ratio: f64,
    /// Arm over baseline.
    pub busy_cores_ratio: f64,
    /// Arm over baseline.
    pub cpu_per_request_ratio: f64,
    /// Part of ln(rate ratio) that the other two leave unexplained.
    pub residual_ln: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub user_ns: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub system_ns: f64,
    /// Arm minus baseline, nanoseconds per request.
    pub total_ns: f64,
    /// How sure the three are; absent where there are too few pairs.
    #[serde(default)]
    pub intervals: Option<SplitIntervals>,
}

/// Exact Wilcoxon intervals of the changes in a split, low and high, in nanoseconds per request.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct SplitIntervals {
    /// Of the change in user time.
    pub user_ns: [f64; 2],
    /// Of the change in system time.
    pub system_ns: [f64; 2],
    /// Of the change in all of it.
    pub total_ns: [f64; 2],
    /// Level that they attain, 0 to 1.
    pub level: f64,
    /// Pairs behind them.
    pub blocks: u32,
}
