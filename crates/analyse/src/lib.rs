//! A run into findings: gates, then verdicts, then what explains them.
//!
//! Everything is a pure function of the run directory, so that an old run can be analysed again on another machine.
//! The order is fixed: a figure that a gate voids gets no verdict, and a difference that was not shown gets no cause.
//! It is that of the modules that are stages, each of which names earlier ones alone (`cargo xtask tidy` checks it):
//! `facts`, `gates`, `verdicts`, `attribution`, `limits`, `next`. Beside them stands what is built on all.
#![forbid(unsafe_code)]

// The stages; their order is given above.
mod attribution;
mod facts;
mod gates;
mod limits;
mod next;
mod verdicts;

// What is built on them.
mod bisect;
pub mod capacity;
mod case;
mod fail_if;
mod findings;
mod ladder;
mod stacks;
pub mod warm_up;
mod warned;
mod watched;

pub use attribution::cause::{Carries, Cause, CauseSays, Grade, TestOutcome, Tested};
pub use attribution::parked::ParkedRow;
pub use attribution::profile::{self, ArmProfile, Category, ProfileDifference, ProfileRow};
pub use attribution::seen::{
    Both, DiskCalls, Elsewhere, EndedWaits, Ending, Late, LeafSeen, Meanwhile, ParkedSeen, Seen,
};
pub use attribution::split::{Split, SplitIntervals};
pub use attribution::tree::gap_function::GapFunction;
pub use attribution::tree::gap_nodes::{GapNode, TreeNode, nodes};
pub use attribution::tree::{AttributionRow, DONE_ALIKE, LeafCount, Place, SMALL_ONES};
pub use attribution::waits::WaitRow;
pub use attribution::why::{LedgerLine, RestOfGap};
pub use bisect::{
    BISECT_SCHEMA, BisectAsk, BisectNext, BisectPair, BisectPurpose, BisectStep, BisectTold, Bisected,
    Bisection, Halfway, NamedCommit, StepAnswer,
};
pub use case::{
    CASE_SCHEMA, CaseFindings, CaseRun, ClaimFindings, ClaimSays, FigureFindings, FunctionCost,
    InstructionProfile, Ours, Published, PublishedProfile, PublishedProfileRow, Reproduced, Why,
    case_findings,
};
pub use facts::arms::{ArmFindings, CpuPerRequest, Latency, NamedFindings, Overload, Segments, Switches};
pub use facts::beside::{ServiceFunction, ServiceGap};
pub use facts::changes::Change;
pub use facts::detail::{
    Detail, LatencyCurve, LatencyPoint, RoundDetail, WindowDetail, detail, host_difference,
    machine_difference, unjudged,
};
pub use facts::functions::{STANDARD_LIBRARY, below_packages};
pub use facts::metric::{Metric, per_request};
pub use facts::observed::{Blocked, Counted};
pub use facts::passes::{MAX_SLOWDOWN, PassFault, PassFindings, PassSays};
pub use facts::resources::{ArmResources, UseInput, UseLevel, UseRow, UseScope, use_table};
pub use facts::shape::{PeakRemark, ResponsePeak, ResponseShape};
pub use facts::sheet::{SECOND_BASELINE_SUFFIX, counted_rounds, is_compared, main_condition};
pub use facts::stalls::{StallActivity, Stalls, stalls};
pub use facts::words::describe_condition;
pub use fail_if::{
    Against, AskedFigure, Basis, FailIf, FailIfError, FailIfSays, Foreseen, Stored, StoredError, WhyAbsent,
    foreseen,
};
pub use findings::{
    DesignFindings, DesignKind, FINDINGS_SCHEMA, FailIfFindings, FailIfOutcome, Findings, Sent, Unfinished,
    VoidReason, VoidRound, analyse, analyse_each_baseline, analyse_from,
};
pub use gates::{
    Answered, AnswersDiffer, BiasSource, Differing, Fault, Gate, GateSays, Stalled, Unlike, difference,
    sameness,
};
pub use ladder::{Alone, Ladder, MetricLadder, Rung, ladder};
pub use limits::{Like, Limit};
pub use next::{Advice, Next, NextReason};
pub use stacks::{ArmStacks, stacks};
pub use verdicts::bound::{Bound, BoundError, Judged, Unit};
pub use verdicts::course::{CoursePoint, course};
pub use verdicts::figures::{Figure, figures};
pub use verdicts::{
    BiasFindings, Comparison, Standing, UndecidedBy, Verdict, comparisons, extend_to, extend_until, standings,
};
pub use warned::Warned;
pub use watched::{
    LedgerRow, WatchInput, WatchNote, Watched, WatchedLeaf, WatchedWindow, WhyUncounted, watched,
};
