use std::collections::BTreeMap;
use std::time::Duration;

use crate::units::{Rate, Span};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::job::summary::masked_query;
use crate::plan::split::turn_s;
use crate::plan::{Arm, Intervention, Placement, PlanError, Service, WarmupClass, Workload};

/// Most blocks of one run: the interval narrows with the square root, so that more than this buys little.
pub const MOST_BLOCKS: u32 = 500;
/// Most connections of one run; what the machine has descriptors and ports for is checked before the first round.
const MAX_CONNECTIONS: u32 = 1_000_000;
/// Most requests in flight on a connection; servers cap a batch far below it.
const MAX_PIPELINE: u32 = 1024;
/// Shortest window of an arm alone from which a rate can be read on a noisy machine.
const MIN_WINDOW: Span = Span::from_secs(1);
/// Shortest slice: below it the change from one arm to the next is most of it.
pub const SHORTEST_SLICE: Span = Span(Duration::from_millis(20));
/// Longest slice: what is longer is a window of an arm alone.
pub const LONGEST_SLICE: Span = Span::from_secs(5);
/// A slice where nothing asks for another length: what disturbs for some milliseconds is then in one of many, and a median does
/// not see it. Source: `docs/benchmarks/experiment.md`, length of a slice.
const USUAL_SLICE: Span = Span(Duration::from_millis(50));
/// The same where an arm compiles as it runs, and so has a collector that comes by only now and then.
const SLICE_OF_JIT: Span = Span(Duration::from_millis(200));
/// Slices of each arm in a block, under each condition, of the usual length. Of others there are as many as take as long.
const CYCLES: f64 = 24.0;
/// Fewest, however long they are: an even number, so that each arm comes first as often as last.
const FEWEST_CYCLES: u32 = 6;
/// Most slices of an arm in a block.
const MAX_CYCLES: u32 = 10_000;
/// Longest window: an hour is a soak test, not a round.
const MAX_WINDOW: Span = Span::from_secs(3600);

/// How many blocks are run and when they are looked at.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Blocks {
    /// One look after `blocks` blocks, at 95 %.
    Fixed {
        /// Blocks to run.
        blocks: u32,
    },
    /// Looks after `first` blocks and at the later looks of the statistics, up to `max`; the first that decides ends the run.
    #[serde(alias = "two_looks")]
    Looks {
        /// Blocks before the first look.
        first: u32,
        /// Blocks before the last.
        max: u32,
    },
    /// One look, at 95 %, after as many blocks as the pilot finds to be worth their time.
    Fitted {
        /// At least.
        fewest: u32,
        /// At most.
        most: u32,
    },
}

/// How the arms of a block are run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Turns {
    /// All arms are alive together and loaded in turn, a slice each.
    Slices {
        /// Slices of each arm in a block, under each condition; chosen by their length where it is not given.
        cycles: Option<u32>,
        /// Length of a slice; chosen from the arms' rates where it is not given.
        #[schemars(with = "Option<String>")]
        slice: Option<Span>,
    },
    /// One arm is alive at a time, and loaded for one window under each condition.
    Alone,
}

impl Turns {
    /// What runs of before arms could live together did.
    fn alone() -> Self {
        Self::Alone
    }

    /// Whether turns and blocks may last longer than planned, because of what a first block shows.
    #[must_use]
    pub fn are_free(self) -> bool {
        matches!(self, Self::Slices { cycles: None, slice: None } | Self::Alone)
    }
}

impl Blocks {
    /// Blocks that run in any case.
    #[must_use]
    pub fn first(self) -> u32 {
        match self {
            Self::Fixed { blocks } => blocks,
            Self::Looks { first, .. } => first,
            Self::Fitted { fewest, .. } => fewest,
        }
    }
}

/// One way in which the arms are loaded.
#[derive(Debug, Clone, Copy, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case")]
pub enum Condition {
    /// Closed loop: each connection asks again as soon as it is answered.
    Capacity,
    /// Open loop at one absolute rate for all arms.
    EqualRate {
        /// Requests per second.
        #[schemars(with = "String")]
        rate: Rate,
    },
    /// Open loop at a share of the slowest arm's capacity, as found by the pilot.
    ShareOfSlowest {
        /// Percent, above 0; above 100 the slowest is overloaded on purpose, which only cases ask for.
        percent: u32,
    },
}

impl Condition {
    /// The condition with its rate resolved: `slowest_per_s` is the capacity of the slowest arm in requests per second.
    #[must_use]
    pub fn resolve(self, slowest_per_s: f64) -> Self {
        match self {
            Self::ShareOfSlowest { percent } if slowest_per_s > 0.0 => {
                let share = slowest_per_s * f64::from(percent) / 100.0;
                let whole = if share < 1.0 { share } else { share.floor() };
                Rate::per_s(whole).map_or(self, |rate| Self::EqualRate { rate })
            }
            other => other,
        }
    }
}

/// How long things last.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Timing {
    /// One window.
    #[schemars(with = "String")]
    pub window: Span,
    /// Shortest warm-up of a native target.
    #[schemars(with = "String")]
    pub warmup: Span,
    /// Shortest warm-up of a target with a just-in-time compiler.
    #[schemars(with = "String")]
    pub warmup_jit: Span,
    /// Longest warm-up; a target still moving then is recorded as without steady state.
    #[schemars(with = "String")]
    pub warmup_cap: Span,
    /// The same of a target with a just-in-time compiler, where it is another.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    #[schemars(with = "Option<String>")]
    pub warmup_cap_jit: Option<Span>,
    /// Longest wait for a target's first right answer.
    #[schemars(with = "String")]
    pub ready_limit: Span,
}

/// The statistical design of a run.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Design {
    /// Blocks and looks.
    pub blocks: Blocks,
    /// Whether arms take turns or run alone.
    #[serde(default = "Turns::alone")]
    pub turns: Turns,
    /// Whether a second copy of the baseline is an arm of every block (A′).
    pub second_baseline: bool,
    /// Whether a difference is explained; without, the findings end with the verdict.
    pub why: bool,
    /// Whether causes are put to the test by taking them away.
    #[serde(default)]
    pub confirm: bool,
    /// Whether there may be fewer connections than the usual number: nobody asked for it.
    #[serde(default)]
    pub fewer_connections: bool,
}

/// Everything that will be done, validated. Recorded with the run before its first round.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Plan {
    /// The case's name, or `compare`.
    pub case: String,
    /// Where all randomness of the run begins.
    pub seed: u64,
    /// Index of the baseline in `arms`.
    pub baseline: usize,
    /// The arms, in the order given.
    pub arms: Vec<Arm>,
    /// What is asked of them.
    #[schemars(with = "serde_json::Value")]
    pub workload: Workload,
    /// How long things last.
    pub timing: Timing,
    /// Blocks and looks.
    pub design: Design,
    /// Who runs where.
    pub placement: Placement,
    /// What runs beside the arms.
    #[serde(default)]
    pub services: Vec<Service>,
    /// What this run tries, where it puts causes of another run to the test.
    #[serde(default)]
    pub intervention: Option<Intervention>,
    /// Of a ladder: the arms that have the change of one step alone, by the step's arm. They are no steps.
    #[serde(default)]
    pub alone: BTreeMap<String, String>,
}

impl Plan {
    /// The same as it is kept and shown: hashes in the place of what may be secret, the values of fields, queries, bodies and data.
    #[must_use]
    pub fn masked(&self) -> Self {
        let job = self.workload.job.masked();
        let path = masked_query(&self.workload.path);
        Self { workload: Workload { job, path, ..self.workload.clone() }, ..self.clone() }
    }

    /// Checks what no single field can say.
    ///
    /// # Errors
    /// The first thing that is wrong, as a sentence.
    pub fn validate(&self) -> Result<(), PlanError> {
        if self.arms.len() < 2 {
            return Err(PlanError::TooFewArms);
        }
        for (index, arm) in self.arms.iter().enumerate() {
            arm.validate()?;
            if self.arms[..index].iter().any(|earlier| earlier.name == arm.name) {
                return Err(PlanError::DuplicateArm(arm.name.clone()));
            }
        }
        self.validate_figures()
    }

    fn validate_figures(&self) -> Result<(), PlanError> {
        let Workload { path, job, .. } = &self.workload;
        let (connections, depth) = (&job.connections, job.depth());
        let Timing { window, warmup, warmup_cap, ready_limit, .. } = self.timing;
        let blocks = self.design.blocks.first();
        range(
            "--path",
            path,
            path.starts_with('/') && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'#'),
            "a path that begins with / and has only visible ASCII characters, without a fragment (#)",
        )?;
        range(
            "--connections",
            connections,
            (1..=MAX_CONNECTIONS).contains(connections),
            "between 1 and 1000000",
        )?;
        let flag = if job.has_streams() { "--streams" } else { "--pipeline" };
        range(flag, &depth, (1..=MAX_PIPELINE).contains(&depth), "between 1 and 1024")?;
        range("--window", &window, (MIN_WINDOW..=MAX_WINDOW).contains(&window), "between 1s and 1h")?;
        range("--warmup", &warmup, warmup <= warmup_cap, "at most --warmup-cap")?;
        range("--ready-limit", &ready_limit, ready_limit > Span::from_secs(0), "above 0s")?;
        if let Turns::Slices { cycles, slice } = self.design.turns {
            if let Some(cycles) = cycles {
                range("--cycles", &cycles, (1..=MAX_CYCLES).contains(&cycles), "between 1 and 10000")?;
            }
            if let Some(slice) = slice {
                let fits = (SHORTEST_SLICE..=LONGEST_SLICE).contains(&slice);
                range("--slice", &slice, fits, "between 20ms and 5s; longer ones are windows of --alone")?;
            }
        }
        range("--blocks", &blocks, (1..=MOST_BLOCKS).contains(&blocks), "between 1 and 500")
    }

    /// How long requests are sent in one turn, where the arms' rates ask for no longer one.
    #[must_use]
    pub fn turn(&self) -> Span {
        match self.design.turns {
            Turns::Slices { slice, .. } => slice.unwrap_or_else(|| self.usual_slice()),
            Turns::Alone => self.timing.window,
        }
    }

    /// A slice of arms that are fast enough for it.
    #[must_use]
    pub fn usual_slice(&self) -> Span {
        self.arms.iter().map(|arm| arm.warmup.usual_slice()).max().unwrap_or(USUAL_SLICE)
    }

    /// Whether this is a quick run: its blocks are fitted to the time there is for them.
    #[must_use]
    pub fn is_quick(&self) -> bool {
        matches!(self.design.blocks, Blocks::Fitted { .. })
    }

    /// Slices of each arm in a block under the first condition, where one is as long as `slice` and no pilot has told what a start
    /// costs; one window of an arm alone is one.
    #[must_use]
    pub fn cycles(&self, slice: Span) -> u32 {
        let Turns::Slices { cycles, .. } = self.design.turns else { return 1 };
        if let Some(split) = self.split(self.begin_s(), slice, Some(self.usual_slice())) {
            return split.cycles;
        }
        let pairs = CYCLES * turn_s(USUAL_SLICE) / turn_s(slice) / 2.0;
        cycles.unwrap_or((pairs as u32 * 2).max(FEWEST_CYCLES))
    }

    /// The same under the condition at `index`, where there are `cycles` under the first: in a quick run two thirds after it, whose
    /// percentiles decide nothing.
    #[must_use]
    pub fn cycles_under(&self, index: usize, cycles: u32) -> u32 {
        if self.is_quick() && index > 0 { (cycles * 2).div_ceil(3) } else { cycles }
    }

    /// Blocks that are run in any case, as far as is known before the pilot.
    #[must_use]
    pub fn usual_blocks(&self) -> u32 {
        let usual = matches!(self.design.turns, Turns::Slices { .. }).then(|| self.usual_slice());
        self.split(self.begin_s(), self.turn(), usual)
            .map_or(self.design.blocks.first(), |split| split.blocks)
    }

    /// Seconds that one block takes if every arm is steady at once.
    #[must_use]
    pub fn block_seconds(&self) -> f64 {
        self.seconds_of(self.begin_s(), self.cycles(self.turn()), self.turn())
    }
}

impl WarmupClass {
    /// A slice of an arm of this class that is fast enough for it.
    #[must_use]
    pub fn usual_slice(self) -> Span {
        match self {
            Self::Native => USUAL_SLICE,
            Self::Jit => SLICE_OF_JIT,
        }
    }
}

impl Timing {
    /// The shortest and the longest warm-up for a class of target.
    #[must_use]
    pub fn warmup_of(&self, class: WarmupClass) -> [Span; 2] {
        let [least, most] = match class {
            WarmupClass::Native => [self.warmup, self.warmup_cap],
            WarmupClass::Jit => [self.warmup_jit, self.warmup_cap_jit.unwrap_or(self.warmup_cap)],
        };
        [least, most.max(least)]
    }
}

fn range(what: &'static str, value: &impl ToString, ok: bool, want: &'static str) -> Result<(), PlanError> {
    if ok { Ok(()) } else { Err(PlanError::Range { what, value: value.to_string(), want }) }
}
