//! Published profiles beside ours: instructions of each function, gathered into the published lines.

use model::plan::CaseFile;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Functions that are named beside the published lines.
const TOP: usize = 12;

/// What one request costs in one function.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct FunctionCost {
    /// The function's name, demangled.
    pub name: String,
    /// Instructions per request in itself.
    pub instructions: f64,
}

/// Instructions per request of one arm, counted by callgrind at a low rate.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct InstructionProfile {
    /// The arm.
    pub arm: String,
    /// Requests over which they were counted.
    pub requests: u64,
    /// Its functions, the dearest first.
    pub functions: Vec<FunctionCost>,
}

/// A published profile beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedProfile {
    /// The profile's name in the case.
    pub id: String,
    /// The arm.
    pub arm: String,
    /// Requests behind our counts; absent where there are none.
    pub requests: Option<u64>,
    /// Our instructions per request in user mode.
    pub instructions_per_request: Option<f64>,
    /// The published lines.
    pub rows: Vec<PublishedProfileRow>,
    /// Our dearest functions that belong to no published line.
    pub others: Vec<FunctionCost>,
}

/// One published line beside ours.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct PublishedProfileRow {
    /// What it is.
    pub what: String,
    /// Published share of self cost.
    pub published_percent: f64,
    /// Our share of instructions.
    pub percent: Option<f64>,
    /// Our instructions per request.
    pub instructions: Option<f64>,
}

pub(super) fn all(case: &CaseFile, counted: &[InstructionProfile]) -> Vec<PublishedProfile> {
    let beside = |profile: &model::plan::PublishedProfile| {
        let ours = counted.iter().find(|counted| counted.arm == profile.arm);
        let total: Option<f64> = ours.map(|ours| ours.functions.iter().map(|f| f.instructions).sum());
        let mut sums = vec![0.0; profile.lines.len()];
        let mut others = Vec::new();
        for function in ours.iter().flat_map(|ours| &ours.functions) {
            let takes = |line: &model::plan::ProfileLine| {
                line.functions.iter().any(|part| function.name.contains(part))
            };
            match profile.lines.iter().position(takes) {
                Some(line) => sums[line] += function.instructions,
                None => others.push(function.clone()),
            }
        }
        others.truncate(TOP);
        let rows = profile.lines.iter().zip(sums).map(|(line, sum)| PublishedProfileRow {
            what: line.what.clone(),
            published_percent: line.percent,
            percent: total.filter(|total| *total > 0.0).map(|total| sum / total * 100.0),
            instructions: total.map(|_| sum),
        });
        PublishedProfile {
            id: profile.id.clone(),
            arm: profile.arm.clone(),
            requests: ours.map(|ours| ours.requests),
            instructions_per_request: total,
            rows: rows.collect(),
            others,
        }
    };
    case.profiles.iter().map(beside).collect()
}
