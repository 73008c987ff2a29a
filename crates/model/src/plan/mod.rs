//! What will be done, decided before anything is started: targets and flags become a [`Plan`], a value that is
//! valid, complete and recorded with the run.
//!
//! Everything here is pure: files come in as text, the machine's CPUs as a set, randomness as a seed.

mod arm;
mod case;
mod cause;
mod compose;
mod config;
mod design;
mod gate;
mod history;
mod image;
mod intervention;
mod machine;
mod nearest;
mod order;
mod placement;
mod random;
mod search;
mod service;
mod split;
mod target;
mod workload;

pub use arm::{Arm, ArmSource, Placeholders, Revision, Running, Watched, fill, fill_services, split_command};
pub use case::{
    Bound, CaseComparison, CaseFile, CaseWorkload, Claim, Figure, Fitted, HostLimits, Part, ProfileLine,
    Published, PublishedProfile, Reason, Rule, Scale, Size, Tolerated,
};
pub use cause::{CauseId, UnknownCause};
pub use compose::Compose;
pub use config::ConfigFile;
pub use design::{
    Blocks, Condition, Design, LONGEST_SLICE, MOST_BLOCKS, Plan, SHORTEST_SLICE, Timing, Turns,
};
pub use gate::GateId;
pub use history::{Answer as HistoryAnswer, HistorySearch, NextStep};
pub(crate) use image::short_id;
pub use image::{Engine, Image};
pub use intervention::{Circumstances, Intervention};
pub use machine::{Machine, Machines};
pub use nearest::nearest;
pub use order::{MAX_ENV_PADDING_BYTES, Round};
pub use placement::Placement;
pub use random::SplitMix64;
pub use search::{Search, Try};
pub use service::{Each, Service, ServiceFile, ServicePlace, service_placeholders};
pub use split::{START_S, Split, TURN_OVERHEAD_S};
pub use target::{Expect, Need, TargetFile, Variant, WarmupClass};
pub use workload::{Reach, ReadyBy, Same, SentFile, Workload};

/// Why a plan cannot be made; each display is one sentence that says how to mend it.
#[derive(Debug, thiserror::Error, PartialEq)]
#[non_exhaustive]
pub enum PlanError {
    /// A command does not say where the port goes.
    #[error(
        "the command of '{arm}' has no {{port}}: put {{port}} where the port goes, or pass --port-env if it reads PORT or its port cannot be changed"
    )]
    NoPort {
        /// The arm's name.
        arm: String,
    },
    /// Two services of one name differ.
    #[error(
        "two arms need different services called '{0}': compare arms whose target files say the same of it"
    )]
    TwoServices(String),
    /// A command is empty or its quotes do not match.
    #[error("the command of '{arm}' cannot be split into words: check its quotes")]
    Words {
        /// The arm's name.
        arm: String,
    },
    /// Two arms share a name.
    #[error("two arms are called '{0}': give one another name")]
    DuplicateArm(String),
    /// An arm name that would not survive as part of a file name.
    #[error("'{0}' cannot name an arm: use letters, digits, '.', '_', '@', '+' or '-', at most 64")]
    ArmName(String),
    /// An arm name that a log of the run itself has.
    #[error("'{0}' cannot name an arm: a log of the run itself is called so; take another")]
    ReservedName(String),
    /// The baseline is not among the arms.
    #[error("the baseline '{0}' is not an arm: choose one of {1}")]
    UnknownBaseline(String, String),
    /// Fewer than two arms.
    #[error("a comparison needs two arms: name one more target, or pass none for the built-in servers")]
    TooFewArms,
    /// A figure outside its range.
    #[error("{what} is {value}: it must be {want}")]
    Range {
        /// The flag or field.
        what: &'static str,
        /// What was given.
        value: String,
        /// The allowed range, in words.
        want: &'static str,
    },
    /// A CPU set names CPUs that this process may not use.
    #[error("{flag} names CPU {missing}, which this process may not use: it has {allowed}")]
    Cpus {
        /// The flag.
        flag: &'static str,
        /// CPUs that are not allowed.
        missing: String,
        /// CPUs that are.
        allowed: String,
    },
    /// Words that name no machine.
    #[error("'{0}' names no machine: write ssh://HOST, ssh://USER@HOST or ssh://USER@HOST:PORT")]
    Machine(String),
    /// A target file does not read.
    #[error("{file}: {reason}")]
    TargetFile {
        /// The file as the user knows it.
        file: String,
        /// What is wrong, with its line.
        reason: String,
    },
    /// A case file does not read, or names something unknown.
    #[error("{file}: {reason}")]
    CaseFile {
        /// The file as the user knows it.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A `whyslow.toml` does not read.
    #[error("{file}: {reason}")]
    ConfigFile {
        /// The file as the user knows it.
        file: String,
        /// What is wrong.
        reason: String,
    },
    /// A variant that the target does not have.
    #[error("target '{target}' has no variant '{variant}': it has {known}")]
    UnknownVariant {
        /// The target.
        target: String,
        /// The variant asked for.
        variant: String,
        /// The variants it has.
        known: String,
    },
}
