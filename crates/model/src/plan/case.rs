//! A case: a published comparison as data, so that it can be repeated and held against what was published.

mod fit;

pub use fit::{Fitted, HostLimits, Size};

use std::collections::BTreeSet;

use crate::units::Span;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::plan::{Expect, GateId, PlanError};

/// A `cases/NAME.toml`: a question, where it was asked, what was found there, and when our figures repeat it.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseFile {
    /// Its name; the file's name.
    pub name: String,
    /// What was asked.
    pub question: String,
    /// The document that published it.
    pub source: String,
    /// What its author left open.
    pub open: String,
    /// How it was measured there.
    pub published: Published,
    /// What is asked of every arm, where a comparison says nothing else.
    pub workload: CaseWorkload,
    /// The comparisons that answer it, in order.
    #[serde(rename = "comparison")]
    pub comparisons: Vec<CaseComparison>,
    /// Arms that take part although they fail a check of `verify`.
    #[serde(default, rename = "tolerate")]
    pub tolerated: Vec<Tolerated>,
    /// Published figures.
    #[serde(default, rename = "figure")]
    pub figures: Vec<Figure>,
    /// Published profiles.
    #[serde(default, rename = "profile")]
    pub profiles: Vec<PublishedProfile>,
    /// What counts as reproduced.
    #[serde(default, rename = "claim")]
    pub claims: Vec<Claim>,
}

/// How the published figures were measured.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Published {
    /// The machine.
    pub machine: String,
    /// CPUs that the server could use.
    pub server_cpus: u32,
    /// The load, as a command.
    pub command: String,
}

/// How the number of connections follows the number of the server's CPUs.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Scale {
    /// As many as were published.
    #[default]
    Keep,
    /// As many for each of the server's CPUs as were published.
    PerCpu,
}

/// What is asked of every arm of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseWorkload {
    /// Request target.
    pub path: String,
    /// Published connections.
    pub connections: u32,
    /// How they follow the server's CPUs.
    #[serde(default)]
    pub scale: Scale,
    /// Requests in flight on each connection.
    #[serde(default = "one")]
    pub pipeline: u32,
    /// The answer on `path`; that of each target where absent.
    #[serde(default)]
    pub expect: Option<Expect>,
    /// Why arms may answer differently; absent where they may not.
    #[serde(default)]
    pub allow_difference: Option<String>,
}

fn one() -> u32 {
    1
}

/// One comparison of a case.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CaseComparison {
    /// Its name: a folder of the run.
    pub id: String,
    /// What it answers.
    pub question: String,
    /// Targets (`NAME` or `NAME@VARIANT`), the baseline first.
    pub arms: Vec<String>,
    /// Whether each arm is driven at its capacity.
    #[serde(default = "yes")]
    pub capacity: bool,
    /// Equal rates in percent of the slowest arm's capacity; above 100 the slowest is overloaded on purpose.
    #[serde(default)]
    pub rates: Vec<u32>,
    /// Instead of the case's path.
    #[serde(default)]
    pub path: Option<String>,
    /// Instead of the case's connections.
    #[serde(default)]
    pub connections: Option<u32>,
    /// Instead of the case's pipeline depth.
    #[serde(default)]
    pub pipeline: Option<u32>,
    /// Why arms may answer differently, in addition to what the case says.
    #[serde(default)]
    pub allow_difference: Option<String>,
    /// Whether a quick run leaves it out.
    #[serde(default)]
    pub full_only: bool,
}

fn yes() -> bool {
    true
}

/// A check of `verify` that an arm may fail here.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Tolerated {
    /// The arm.
    pub arm: String,
    /// The check.
    pub check: String,
    /// Why it does not matter to this case.
    pub reason: String,
}

/// One published row.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Figure {
    /// Name by which claims refer to it.
    pub id: String,
    /// The system, as published.
    pub system: String,
    /// The arm that stands for it here; absent where none does.
    #[serde(default)]
    pub arm: Option<String>,
    /// The comparison that measures it; the first that has the arm where absent.
    #[serde(default)]
    pub comparison: Option<String>,
    /// Requests per second.
    #[serde(default)]
    pub rate_per_s: Option<f64>,
    /// Latencies and what else was published, in words.
    #[serde(default)]
    pub latency: Option<String>,
    /// Mean latency.
    #[serde(default)]
    #[schemars(with = "Option<String>")]
    pub mean: Option<Span>,
    /// What must be known about it.
    #[serde(default)]
    pub note: Option<String>,
}

/// A published profile: shares of self cost.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct PublishedProfile {
    /// Name by which claims refer to it.
    pub id: String,
    /// The arm that stands for it here.
    pub arm: String,
    /// Its lines.
    pub lines: Vec<ProfileLine>,
}

/// One line of a published profile.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct ProfileLine {
    /// What it is.
    pub what: String,
    /// Published share of self cost in percent.
    pub percent: f64,
    /// A function belongs to it when its name contains one of these; the first line that takes it has it.
    pub functions: Vec<String>,
}

/// Something the document says, and the rule by which our figures repeat it or not.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// What is claimed.
    pub text: String,
    /// The rule.
    pub rule: Rule,
}

/// When a claim is reproduced.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "kind", rename_all = "snake_case", deny_unknown_fields)]
pub enum Rule {
    /// The ratio of two published rates: same side of 1, and a size within a factor.
    Ratio {
        /// The comparison that measures it.
        comparison: String,
        /// The figure above the line.
        figure: String,
        /// The figure below it.
        against: String,
        /// Our log-ratio is between the published one divided by this and times this.
        within: f64,
        /// What must carry the difference.
        #[serde(default)]
        reason: Option<Reason>,
    },
    /// The published figures break a rule that a gate checks, and ours break it too.
    Gate {
        /// The comparison.
        comparison: String,
        /// The figure.
        figure: String,
        /// The gate's name.
        gate: GateId,
    },
    /// The arm is overloaded at the rate asked for.
    Overload {
        /// The comparison.
        comparison: String,
        /// The figure.
        figure: String,
    },
    /// A line of a profile has about, at least or at most the published share, within a factor.
    Share {
        /// The profile.
        profile: String,
        /// Its line.
        line: String,
        /// Our share is between the published one divided by this and times this.
        within: f64,
        /// Which of the two ends counts.
        #[serde(default)]
        bound: Bound,
    },
}

/// Which end of a range counts.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Bound {
    /// Both.
    #[default]
    About,
    /// The lower: more is the same claim.
    AtLeast,
    /// The upper: less is the same claim.
    AtMost,
}

/// The part of CPU per request that must carry a difference.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct Reason {
    /// The part.
    pub part: Part,
    /// Its least share of the gap, 0 to 1.
    pub at_least: f64,
}

/// A part of CPU per request.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Part {
    /// The server's own code.
    User,
    /// The kernel.
    System,
}

impl Part {
    /// In words.
    #[must_use]
    pub fn label(self) -> &'static str {
        match self {
            Self::User => "its own code",
            Self::System => "the kernel",
        }
    }
}

impl CaseFile {
    /// Reads the text of a case; `file` is its name in error messages.
    ///
    /// # Errors
    /// [`PlanError::CaseFile`] for a line that does not read, or a name that nothing bears.
    pub fn parse(file: &str, text: &str) -> Result<Self, PlanError> {
        let wrong = |reason: String| PlanError::CaseFile { file: file.to_owned(), reason };
        let case: Self = toml::from_str(text).map_err(|error| wrong(one_line(&error.to_string())))?;
        case.check().map_err(wrong)?;
        Ok(case)
    }

    /// The comparison called `id`.
    #[must_use]
    pub fn comparison(&self, id: &str) -> Option<&CaseComparison> {
        self.comparisons.iter().find(|comparison| comparison.id == id)
    }

    /// The figure called `id`.
    #[must_use]
    pub fn figure(&self, id: &str) -> Option<&Figure> {
        self.figures.iter().find(|figure| figure.id == id)
    }

    /// What is asked of the arms of `comparison`.
    #[must_use]
    pub fn path<'a>(&'a self, comparison: &'a CaseComparison) -> &'a str {
        comparison.path.as_deref().unwrap_or(&self.workload.path)
    }

    /// All arms, each once, in order.
    #[must_use]
    pub fn arms(&self) -> Vec<&str> {
        let mut seen = BTreeSet::new();
        let all = self.comparisons.iter().flat_map(|comparison| &comparison.arms);
        all.map(String::as_str).filter(|arm| seen.insert(*arm)).collect()
    }

    /// Names that refer to nothing, and values that mean nothing.
    fn check(&self) -> Result<(), String> {
        for comparison in &self.comparisons {
            if comparison.arms.len() < 2 {
                return Err(format!("comparison '{}' has fewer than two arms", comparison.id));
            }
            if !comparison.capacity && comparison.rates.is_empty() {
                return Err(format!("comparison '{}' has neither capacity nor rates", comparison.id));
            }
        }
        if self.comparisons.is_empty() {
            return Err("there is no [[comparison]]".to_owned());
        }
        if let Some(other) = self.tolerated.iter().find(|one| !self.arms().contains(&one.arm.as_str())) {
            return Err(format!("[[tolerate]] names the arm '{}', which no comparison has", other.arm));
        }
        self.figures.iter().try_for_each(|figure| self.check_figure(figure))?;
        self.claims.iter().try_for_each(|claim| self.check_rule(&claim.rule))
    }

    fn check_figure(&self, figure: &Figure) -> Result<(), String> {
        let Figure { id, arm, comparison, .. } = figure;
        if let Some(name) = comparison {
            self.existing(name)?;
        }
        match arm {
            Some(arm) if !self.arms().contains(&arm.as_str()) => {
                Err(format!("figure '{id}' names the arm '{arm}', which no comparison has"))
            }
            _ => Ok(()),
        }
    }

    fn check_rule(&self, rule: &Rule) -> Result<(), String> {
        match rule {
            Rule::Ratio { comparison, figure, against, within, .. } => {
                for name in [figure, against] {
                    self.measured(comparison, name)?;
                    let rate = self.figure(name).and_then(|figure| figure.rate_per_s);
                    rate.ok_or_else(|| format!("figure '{name}' has no rate_per_s, which a ratio needs"))?;
                }
                factor(*within)
            }
            Rule::Gate { comparison, figure, .. } | Rule::Overload { comparison, figure } => {
                self.measured(comparison, figure)
            }
            Rule::Share { profile, line, within, .. } => {
                let found = self.profiles.iter().find(|known| known.id == *profile);
                let found = found.ok_or_else(|| format!("a claim names the unknown profile '{profile}'"))?;
                let line_is_known = found.lines.iter().any(|known| known.what == *line);
                line_is_known
                    .then_some(())
                    .ok_or_else(|| format!("profile '{profile}' has no line '{line}'"))?;
                factor(*within)
            }
        }
    }

    fn existing(&self, comparison: &str) -> Result<&CaseComparison, String> {
        self.comparison(comparison).ok_or_else(|| format!("there is no comparison '{comparison}'"))
    }

    /// Whether `comparison` has the arm that stands for `figure`.
    fn measured(&self, comparison: &str, figure: &str) -> Result<(), String> {
        let arms = &self.existing(comparison)?.arms;
        let known =
            self.figure(figure).ok_or_else(|| format!("a claim names the unknown figure '{figure}'"))?;
        let arm =
            known.arm.as_ref().ok_or_else(|| format!("figure '{figure}' has no arm to measure it with"))?;
        let has = arms.contains(arm);
        has.then_some(())
            .ok_or_else(|| format!("comparison '{comparison}' does not have '{arm}' of figure '{figure}'"))
    }
}

fn factor(within: f64) -> Result<(), String> {
    if within >= 1.0 && within.is_finite() {
        Ok(())
    } else {
        Err(format!("'within' is {within}: it is a factor of at least 1"))
    }
}

/// A parser's message of several lines as one.
fn one_line(text: &str) -> String {
    text.split_whitespace().collect::<Vec<_>>().join(" ")
}
