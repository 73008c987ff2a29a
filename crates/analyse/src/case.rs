//! A case's findings: what was published beside what was measured here, and what that repeats, by the case's own rules.

mod judge;
mod profile;
mod says;

use model::plan::{CaseFile, Figure};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::facts::arms::ArmFindings;
use crate::facts::metric::Metric;
use crate::findings::Findings;
use crate::gates;

pub use profile::{FunctionCost, InstructionProfile, PublishedProfile, PublishedProfileRow};
pub use says::{ClaimSays, Ours, Published, Why};

/// Version of the JSON of a case's findings.
pub const CASE_SCHEMA: u32 = 1;

/// Everything that follows from the runs of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseFindings {
    /// Schema version.
    pub schema: u32,
    /// The case.
    pub case: CaseFile,
    /// How it was run: `full`, `quick` or `smoke`.
    pub size: String,
    /// The command that repeats it.
    pub command: Vec<String>,
    /// Its comparisons in order.
    pub runs: Vec<CaseRun>,
    /// Published figures beside ours.
    pub figures: Vec<FigureFindings>,
    /// The claims, and whether each was reproduced.
    pub claims: Vec<ClaimFindings>,
    /// Published profiles beside ours.
    pub profiles: Vec<PublishedProfile>,
    /// Arms and comparisons that were left out, each with its reason.
    pub left_out: Vec<String>,
}

/// One comparison of a case as it was run.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct CaseRun {
    /// The comparison's name in the case.
    pub id: String,
    /// What it answers.
    pub question: String,
    /// What differs from the published setting.
    pub changes: Vec<String>,
    /// Why arms may answer differently.
    pub allow_difference: Option<String>,
    /// What was found.
    pub findings: Findings,
}

/// One published row beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FigureFindings {
    /// The published row.
    pub figure: Figure,
    /// The comparison that measured ours.
    pub comparison: Option<String>,
    /// Our row; absent where the arm was not measured.
    pub ours: Option<ArmFindings>,
    /// Whether our rate is the server's own and not the generator's.
    pub rate_valid: bool,
}

/// Whether a claim holds here too.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Reproduced {
    /// Ratio and reason.
    Yes,
    /// The same side, but another size or another reason.
    Partly,
    /// The opposite, or no effect of that size.
    No,
    /// Not decided.
    Unknown,
}

impl Reproduced {
    /// The word in every output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Yes => "yes",
            Self::Partly => "partly",
            Self::No => "no",
            Self::Unknown => "unknown",
        }
    }
}

/// One claim beside what was found.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct ClaimFindings {
    /// The claim.
    pub text: String,
    /// What was published, in figures.
    pub published: String,
    /// What was measured here.
    pub ours: String,
    /// Whether it was reproduced.
    pub reproduced: Reproduced,
    /// The reason for that answer.
    pub why: String,
    /// What these are made from.
    #[serde(skip)]
    pub says: Option<ClaimSays>,
}

/// Draws the conclusions from all runs of a case.
#[must_use]
pub fn case_findings(
    case: &CaseFile,
    size: &str,
    command: &[String],
    runs: Vec<CaseRun>,
    profiles: &[InstructionProfile],
    left_out: Vec<String>,
) -> CaseFindings {
    let profiles = profile::all(case, profiles);
    let claims = case.claims.iter().map(|claim| judge::claim(claim, case, &runs, &profiles)).collect();
    CaseFindings {
        schema: CASE_SCHEMA,
        size: size.to_owned(),
        command: command.to_vec(),
        figures: case.figures.iter().map(|figure| figure_findings(figure, &runs)).collect(),
        claims,
        profiles,
        runs,
        left_out,
        case: case.clone(),
    }
}

fn figure_findings(figure: &Figure, runs: &[CaseRun]) -> FigureFindings {
    let named = |run: &&CaseRun| figure.comparison.as_ref().is_none_or(|id| *id == run.id);
    let row = |run: &CaseRun| {
        let arms = &run.findings.arms;
        arms.iter().find(|arm| figure.arm.as_ref() == Some(&arm.name) && arm.rounds > 0).cloned()
    };
    let found = runs.iter().filter(named).find_map(|run| Some((run, row(run)?)));
    let (run, ours) = found.unzip();
    FigureFindings {
        comparison: run.map(|run| run.id.clone()),
        rate_valid: run
            .zip(ours.as_ref())
            .is_some_and(|(run, ours)| !gates::is_void(&run.findings.gates, &ours.name, Metric::Rate)),
        ours,
        figure: figure.clone(),
    }
}
