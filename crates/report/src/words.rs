//! Every sentence that is said of findings, one file for each kind.
//!
//! `analyse` hands over figures, names and kinds; here they become English. Whoever edits or translates what is said needs this
//! folder alone, and meets no statistics in it.

mod answers;
mod capacity;
mod causes;
mod claims;
mod conditions;
mod gates;
mod limits;
pub(crate) mod names;
mod next;
mod passes;
mod run;
mod seen;
mod shapes;
mod stalls;
mod warnings;
mod watched;

use std::ops::Deref;

use analyse::capacity::Capacity;
use analyse::{
    AnswersDiffer, ArmFindings, CaseFindings, Cause, Findings, Foreseen, Grade, Seen, Unfinished, Watched,
};
pub(crate) use seen::waits_for_words;
use serde::Serialize;

/// Findings with their sentences. Nothing else is printed.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(transparent)]
pub struct Worded<T>(T);

impl<T> Deref for Worded<T> {
    type Target = T;

    fn deref(&self) -> &T {
        &self.0
    }
}

impl<T> Worded<T> {
    /// The findings themselves, for further use.
    #[must_use]
    pub fn into_inner(self) -> T {
        self.0
    }
}

/// Findings whose sentences can be written.
pub trait Wording {
    /// Writes each sentence from the data beside it; a sentence without such data stays as it is.
    fn write_sentences(&mut self);
}

/// Returns `found` with its sentences, ready to be printed.
#[must_use]
pub fn worded<T: Wording>(mut found: T) -> Worded<T> {
    found.write_sentences();
    Worded(found)
}

/// Whether a cause is the function that one arm alone runs.
fn names_function(cause: &Cause) -> bool {
    let is_function = |seen: &Seen| matches!(seen, Seen::OnlyThere { .. });
    cause.says.as_ref().is_some_and(|says| says.seen.iter().any(is_function))
}

impl Wording for Findings {
    fn write_sentences(&mut self) {
        if let Some(sent) = &self.sent {
            self.workload = run::workload(sent);
        }
        if let Some(unfinished) = &self.unfinished {
            self.partial = Some(run::unfinished(unfinished));
        }
        for cause in &mut self.causes {
            if let Some(says) = &cause.says {
                cause.text = causes::sentence(says);
            }
        }
        for function in &self.gap_functions {
            // What carries most of the gap is what the function is there for.
            let mut open = self.causes.iter_mut().filter(|cause| cause.grade != Grade::RuledOut);
            let first = open.find(|cause| cause.arm == function.arm && cause.says.is_some());
            if let Some(first) = first.filter(|first| !names_function(first)) {
                first.text += &format!("; {}", causes::under(function));
            }
        }
        for gate in &mut self.gates {
            gate.text = gates::text(gate);
        }
        if let Some(next) = &self.proposed {
            self.next = Some(next::sentence(next));
        }
        for pass in &mut self.passes {
            if let Some(says) = &pass.says {
                pass.text = passes::sentence(pass, says);
            }
        }
        for condition in &mut self.fail_if {
            if let Some(says) = &condition.says {
                condition.text = conditions::sentence(&condition.arm, says);
            }
        }
        if !self.warned.is_empty() {
            self.warnings = self.warned.iter().map(warnings::sentence).collect();
        }
        for arm in &mut self.arms {
            if let Some(limit) = self.limits.get(&arm.name) {
                arm.limiter = Some(limits::sentence(limit));
            }
            write_of_arm(arm);
        }
    }
}

/// What is said of one arm by itself.
fn write_of_arm(arm: &mut ArmFindings) {
    for shape in arm.response_shapes.iter_mut().filter(|shape| shape.text.is_empty()) {
        shape.text = shapes::sentence(shape);
    }
    if let Some(stalls) = arm.stalls.as_mut().filter(|stalls| stalls.text.is_empty()) {
        stalls.text = stalls::sentence(stalls);
    }
}

impl Wording for Capacity {
    fn write_sentences(&mut self) {
        if let Some(says) = &self.says {
            self.text = capacity::sentences(self, says);
        }
    }
}

impl Wording for Watched {
    fn write_sentences(&mut self) {
        if !self.noted.is_empty() {
            self.notes = self.noted.iter().map(watched::sentence).collect();
        }
    }
}

impl Wording for CaseFindings {
    fn write_sentences(&mut self) {
        self.runs.iter_mut().for_each(|run| run.findings.write_sentences());
        for claim in &mut self.claims {
            if let Some(says) = &claim.says {
                claim.published = claims::published(&says.published);
                claim.ours = claims::ours(&says.ours);
                claim.why = claims::why(&says.why);
            }
        }
        // What was measured of a published row is a copy of an arm of a run.
        for figure in &mut self.figures {
            let run = self.runs.iter().find(|run| figure.comparison.as_ref() == Some(&run.id));
            let named = |name: &str| run?.findings.arms.iter().find(|arm| arm.name == name).cloned();
            figure.ours = figure.ours.take().map(|ours| named(&ours.name).unwrap_or(ours));
        }
    }
}

/// How far a run got that is not complete.
pub(crate) fn unfinished(run: &Unfinished) -> String {
    run::unfinished(run)
}

/// Says what differs between the answers of two arms.
#[must_use]
pub fn difference(found: &AnswersDiffer) -> String {
    answers::sentence(found)
}

/// Says that a condition of `--fail-if` will not be judged, and what to ask for in its place.
#[must_use]
pub fn too_few_answers(found: &Foreseen) -> String {
    conditions::too_few(found)
}

/// What was seen, one after the other.
fn joined<'a, T: 'a>(all: impl IntoIterator<Item = &'a T>, words: fn(&T) -> String, between: &str) -> String {
    all.into_iter().map(words).collect::<Vec<_>>().join(between)
}
