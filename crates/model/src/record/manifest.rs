use std::fmt;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Arm, Plan, Split, Turns, WarmupClass, short_id};
use crate::units::{Span, format_ns};

/// How far a run came.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum RunStatus {
    /// Begun and not ended: what a killed run leaves.
    Running,
    /// Every planned block is there.
    Complete,
    /// Ended early by the user; the rounds that are there are whole.
    Partial,
}

/// The program that an arm ran.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Build {
    /// The arm's name.
    pub arm: String,
    /// SHA-256 of the executable, or the id of the image, hexadecimal; absent where it could not be read.
    pub sha256: Option<String>,
    /// Bytes of the executable; 0 where it could not be read, and of an image.
    pub bytes: u64,
    /// What the services of a compose file ran, the one that is asked first; empty of another arm, and of one that was not started.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub images: Vec<ServiceImage>,
}

/// The image that a service of a compose file ran in the pilot.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ServiceImage {
    /// The service.
    pub service: String,
    /// What the file asked for, such as `postgres:17`.
    pub asked: String,
    /// SHA-256 of the image's configuration, hexadecimal: the same files and command have the same.
    pub id: String,
    /// SHA-256 of its manifest, as registries name it; absent where the engine knew none.
    pub digest: Option<String>,
}

impl ServiceImage {
    /// Its id as the engines print it.
    #[must_use]
    pub fn short_id(&self) -> &str {
        short_id(&self.id)
    }
}

/// What an arm's files have that the baseline's have not, and the other way round, where both come from one repository.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct SourceChange {
    /// The arm's name.
    pub arm: String,
    /// From the baseline's files to its own, as `git diff --function-context` prints it.
    pub diff: String,
}

/// What was to be done, and how far it came. Written before the first round and again at the end.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Manifest {
    /// Schema version, first so that a reader can refuse early.
    pub schema: u32,
    /// Name of the run, unique on its machine.
    pub run_id: String,
    /// How far it came.
    pub status: RunStatus,
    /// Unix time of its begin in seconds.
    pub started_unix_s: u64,
    /// The command line that repeats it.
    pub command: Vec<String>,
    /// The plan.
    pub plan: Plan,
    /// The programs compared.
    pub builds: Vec<Build>,
    /// How their files differ, of those that come from the baseline's repository.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<SourceChange>,
    /// Requests per second of each arm in the pilot, in the order of the plan; 0 where it did not start.
    pub pilot_per_s: Vec<f64>,
    /// How the plan was fitted to what the pilot found.
    #[serde(default)]
    pub fitted: Fitted,
}

/// How a plan was fitted to its arms, once the pilot had seen them.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Fitted {
    /// Why arms are run one at a time although they were to take turns.
    pub alone: Option<AloneReason>,
    /// For how long requests are sent in one turn, in nanoseconds; 0 where no pilot has ended. `turn_of` reads it
    /// also in runs before 2026-11-28, whose arms alone had a window of another length.
    pub turn_ns: u64,
    /// The same of a warm-up, which need hold no stops; 0 where no pilot has ended.
    #[serde(default)]
    pub warm_up_turn_ns: u64,
    /// Arms that stop for everybody more than another does: turns are long enough to hold some of their stops.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub stopping: Vec<Stopping>,
    /// Connections, where there are fewer than asked for: the slowest arm would not have answered them within a turn.
    pub connections: Option<u32>,
    /// Blocks and cycles of a quick run.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub split: Option<Split>,
    /// How long each arm takes to become warm, in the order of the plan; empty where no pilot has ended.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub warming: Vec<Warming>,
}

/// An arm that stops for everybody.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Stopping {
    /// Which.
    pub arm: String,
    /// How it stops.
    #[serde(flatten)]
    pub stops: Stops,
}

impl fmt::Display for Stopping {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (share, every) = (self.stops.share() * 100.0, format_ns(self.stops.every_ns()));
        write!(f, "'{}' answers nobody {share:.0} % of the time, once every {every}", self.arm)
    }
}

/// How a server stopped for everybody more than another of the same block did, at least once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stops {
    /// How often.
    pub count: u64,
    /// Time of all stops, in nanoseconds.
    pub stopped_ns: u64,
    /// Time in which it was watched, in nanoseconds.
    pub watched_ns: u64,
}

impl Stops {
    /// From one stop to the next, in nanoseconds.
    #[must_use]
    pub fn every_ns(&self) -> f64 {
        self.watched_ns as f64 / self.count as f64
    }

    /// Share of the time, 0 to 1.
    #[must_use]
    pub fn share(&self) -> f64 {
        self.stopped_ns as f64 / self.watched_ns.max(1) as f64
    }
}

/// How long an arm takes to become warm.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Warming {
    /// Whether it compiles while it runs: its target says so, its compiler was seen, or its requests cost far less after a while.
    pub class: WarmupClass,
    /// How long it was loaded until a request cost about what it cost at the end of its pilot, in nanoseconds.
    pub settled_ns: u64,
}

impl Fitted {
    /// Slices of each arm in a block of `plan` under the condition at `index`.
    #[must_use]
    pub fn cycles_of(&self, plan: &Plan, index: usize) -> u32 {
        let slice = Span(Duration::from_nanos(self.turn_ns));
        let cycles = self.split.map_or_else(|| plan.cycles(slice), |split| split.cycles);
        plan.cycles_under(index, cycles)
    }

    /// For how long requests are sent in one turn of `plan`.
    #[must_use]
    pub fn turn_of(&self, plan: &Plan) -> Span {
        let turn = Span(Duration::from_nanos(self.turn_ns));
        if self.is_alone(plan) { turn.max(plan.timing.window) } else { turn }
    }

    /// Whether arms of `plan` run one at a time.
    #[must_use]
    pub fn is_alone(&self, plan: &Plan) -> bool {
        self.alone.is_some() || plan.design.turns == Turns::Alone
    }

    /// How long arm number `arm` of `plan` takes to become warm.
    #[must_use]
    pub fn warming_of(&self, plan: &Plan, arm: usize) -> Warming {
        let unknown = Warming { class: plan.arms[arm].warmup, settled_ns: 0 };
        self.warming.get(arm).copied().unwrap_or(unknown)
    }

    /// Seconds by which warming up takes longer in a block of `plan` than its arms' classes tell.
    #[must_use]
    pub fn late_s(&self, plan: &Plan) -> f64 {
        let seconds = |class| plan.warming_s(class, plan.usual_slice());
        let late = self.warming.iter().zip(&plan.arms).map(|(warming, arm)| {
            (warming.settled_ns as f64 / 1e9).max(seconds(warming.class)) - seconds(arm.warmup)
        });
        late.sum::<f64>().max(0.0)
    }

    /// Blocks of `plan` that are run in any case.
    #[must_use]
    pub fn blocks(&self, plan: &Plan) -> u32 {
        self.split.map_or_else(|| plan.usual_blocks(), |split| split.blocks)
    }
}

/// Why arms cannot live together.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum AloneReason {
    /// Together they need more memory than there is.
    Memory {
        /// What they held in their pilots, all together.
        needed_bytes: u64,
        /// What the machine had left.
        available_bytes: u64,
    },
    /// Their connections together need more file descriptors than one generator may have.
    Descriptors {
        /// For the connections to all arms.
        needed: u64,
        /// What one process may have.
        allowed: u64,
    },
    /// Two listen on the same port, whatever they are given.
    Port {
        /// Which.
        arms: [String; 2],
        /// The port.
        port: u16,
    },
    /// One works while nobody asks it anything.
    Background {
        /// Which.
        arm: String,
        /// CPUs that it kept busy.
        share: f64,
    },
}

impl fmt::Display for AloneReason {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Memory { needed_bytes, available_bytes } => write!(
                f,
                "together they need {} MiB of memory, {} MiB are free",
                needed_bytes >> 20,
                available_bytes >> 20
            ),
            Self::Descriptors { needed, allowed } => {
                write!(f, "their connections need {needed} file descriptors, one process may have {allowed}")
            }
            Self::Port { arms: [one, other], port } => {
                write!(f, "'{one}' and '{other}' both listen on port {port}, whatever they are given")
            }
            Self::Background { arm, share } => {
                write!(f, "'{arm}' keeps {:.0} % of a CPU busy while nobody asks it anything", share * 100.0)
            }
        }
    }
}

impl Manifest {
    /// Which one `arm` was of those that are asked for by the same words: the commit, the image, the compose file with the image of the
    /// service that was asked.
    #[must_use]
    pub fn state(&self, arm: &Arm) -> Option<String> {
        let state = arm.source.state()?;
        let build = self.builds.iter().find(|build| build.arm == arm.name);
        Some(match build.and_then(|build| build.images.first()) {
            Some(image) => format!("{state}, image {}", image.short_id()),
            None => state,
        })
    }

    /// What is wrong with it although every field can be read; nothing where it is whole.
    pub(crate) fn fault(&self) -> Option<String> {
        let (arms, baseline) = (self.plan.arms.len(), self.plan.baseline);
        if baseline >= arms {
            return Some(format!("its baseline is arm {baseline} of {arms}, counted from 0"));
        }
        self.plan.workload.conditions.is_empty().then(|| "its plan has no condition".to_owned())
    }
}
