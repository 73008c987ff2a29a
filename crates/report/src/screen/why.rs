//! Why an arm costs more or less: a gap, what it is made of, and what is left, in figures that sum.

use analyse::{Cause, Findings, Grade, Metric};
use model::plan::CauseId;

use super::layout::{SCREEN_COLUMNS, and, count, cut, part_of, short};
use super::verdict::deciding;
use crate::compare::others;
use crate::direction::Direction;
use crate::wording::{PARTS, cause_words, counted_by, grade_word};

/// Rows of causes: of one arm, and of each of several.
const ROWS: [usize; 2] = [3, 2];
/// Below this share of the gap a rest is not said, nor that something else goes the other way.
const SMALL: f64 = 0.005;
/// From this share of the gap on, a part that goes the other way is said.
const OPPOSED: f64 = 0.05;
/// How far the gap that causes explain may be from that in CPU time and still be the same.
const SAME_GAP: f64 = 0.05;
/// Columns of words in a row, before the grade.
const WORDS: usize = 72;

/// The section of every arm that differs.
pub(crate) fn lines(findings: &Findings) -> Vec<String> {
    let differing: Vec<&str> = others(findings)
        .map(|arm| arm.name.as_str())
        .filter(|arm| deciding(findings, arm).is_some_and(|row| Direction::of(row).differs()))
        .collect();
    let rows = ROWS[usize::from(others(findings).count() > 1)];
    let mut lines: Vec<String> =
        differing.iter().filter_map(|arm| Gap::of(findings, arm)).flat_map(|gap| gap.lines(rows)).collect();
    if !lines.is_empty() {
        lines.extend(not_it(findings, &differing));
    }
    lines
}

/// What was ruled out for every arm that differs.
fn not_it(findings: &Findings, arms: &[&str]) -> Option<String> {
    let ruled_out = |arm: &str, id: CauseId| {
        let mut causes = findings.causes.iter();
        causes.any(|cause| cause.arm == arm && cause.id == id && cause.grade == Grade::RuledOut)
    };
    let mut ids: Vec<CauseId> = Vec::new();
    for cause in &findings.causes {
        if !ids.contains(&cause.id) && arms.iter().all(|arm| ruled_out(arm, cause.id)) {
            ids.push(cause.id);
        }
    }
    let words: Vec<&str> = ids.iter().map(|id| cause_words(*id)).collect();
    (!words.is_empty()).then(|| cut(&format!("   not it: {}", words.join(", ")), SCREEN_COLUMNS))
}

/// The difference of one arm in what a request takes.
struct Gap<'a> {
    findings: &'a Findings,
    arm: &'a str,
    /// Arm minus baseline, in nanoseconds per request.
    ns: f64,
    /// Whether time in which CPUs were idle is part of it.
    idle: bool,
    /// Those that go the way of the gap, and those that go the other way; most important first.
    causes: [Vec<&'a Cause>; 2],
}

impl<'a> Gap<'a> {
    fn of(findings: &'a Findings, arm: &'a str) -> Option<Self> {
        let of_arm =
            || findings.causes.iter().filter(|cause| cause.arm == arm && cause.grade != Grade::RuledOut);
        let mut causes: Vec<&Cause> = of_arm().filter(|cause| !is_part(cause)).collect();
        let cpu_ns = cpu_gap(findings, arm);
        let explained_ns = causes.iter().find_map(|cause| explained(cause));
        if causes.is_empty() {
            causes = of_arm().collect();
        }
        let (ns, idle) = match (cpu_ns, explained_ns) {
            (Some(cpu), Some(gap)) if (gap - cpu).abs() <= SAME_GAP * cpu.abs() => (cpu, false),
            (_, Some(gap)) => (gap, true),
            (Some(cpu), None) => (cpu, false),
            (None, None) => return None,
        };
        if causes.is_empty() || ns == 0.0 {
            return None;
        }
        causes.sort_by(|a, b| b.ns_per_request.abs().total_cmp(&a.ns_per_request.abs()));
        let (with, against) = causes.into_iter().partition(|cause| cause.ns_per_request * ns >= 0.0);
        Some(Self { findings, arm, ns, idle, causes: [with, against] })
    }

    /// What goes the other way, in nanoseconds of at least 0.
    fn opposed_ns(&self) -> f64 {
        self.causes[1].iter().map(|cause| cause.ns_per_request.abs()).sum()
    }

    /// What rows are shares of: the gap, and as much again as goes the other way.
    fn whole_ns(&self) -> f64 {
        self.ns.abs() + self.opposed_ns()
    }

    fn lines(&self, most: usize) -> Vec<String> {
        let mut lines = vec![cut(&self.title(), SCREEN_COLUMNS)];
        let whole = self.whole_ns();
        let causes: Vec<&Cause> = self.causes.concat();
        let shown = if causes.len() > most { most - 1 } else { most };
        lines.extend(causes.iter().take(shown).map(|cause| self.row(cause)));
        if let Some(more) = causes.get(shown..).filter(|more| !more.is_empty()) {
            lines.push(self.others(more));
        }
        let carried: f64 = self.causes[0].iter().map(|cause| self.carried(cause)).sum();
        let rest = whole - carried;
        if rest >= SMALL * whole {
            lines.push(self.columns(rest, Some(rest / whole), "not explained", ""));
        } else if rest <= -SMALL * whole {
            lines.push("   these overlap: together they are more than the difference".to_owned());
        }
        lines
    }

    /// What a cause carries, which is the whole at most: counts times unit costs are upper bounds.
    fn carried(&self, cause: &Cause) -> f64 {
        cause.ns_per_request.abs().min(self.whole_ns())
    }

    fn title(&self) -> String {
        let (arm, ns) = (short(self.arm), part_of(self.ns.abs(), self.ns));
        let what = match (self.ns < 0.0, self.idle) {
            (true, false) => format!("Why {arm} saves {ns} a request"),
            (false, false) => format!("Why {arm} costs {ns} more a request"),
            (true, true) => {
                format!("Why {arm} is done {ns} of a CPU earlier with a request, idle time included")
            }
            (false, true) => format!("Why {arm} takes {ns} of a CPU more for a request, idle time included"),
        };
        what + &self.both_ways().unwrap_or_default()
    }

    /// That something is saved and something paid.
    fn both_ways(&self) -> Option<String> {
        let (with, against) = if self.causes[1].is_empty() {
            self.parts()?
        } else {
            // Rows say of what the larger part is made; a part of it may not be explained.
            let ids: Vec<&str> = self.causes[1].iter().map(|cause| cause_words(cause.id)).collect();
            ((self.whole_ns(), String::new()), (self.opposed_ns(), and(&ids)))
        };
        if against.0 < OPPOSED * self.ns.abs() {
            return None;
        }
        let (verb, other) = if self.ns < 0.0 { ("saves", "pays") } else { ("pays", "saves") };
        let part = |verb: &str, (ns, words): (f64, String)| {
            let place = if words.is_empty() { words } else { format!(" in {words}") };
            format!("{verb} {}{place}", part_of(ns, self.ns))
        };
        Some(format!(": {}, {}", part(verb, with), part(other, against)))
    }

    /// Own code and kernel, where one is saved and the other paid.
    fn parts(&self) -> Option<((f64, String), (f64, String))> {
        let split = self.findings.splits.iter().find(|split| split.arm == self.arm).filter(|_| !self.idle)?;
        let parts = [(split.user_ns, "its own code"), (split.system_ns, "the kernel")];
        let with = parts.iter().find(|(ns, _)| ns * self.ns > 0.0)?;
        let against = parts.iter().find(|(ns, _)| ns * self.ns < 0.0)?;
        Some(((with.0.abs(), with.1.to_owned()), (against.0.abs(), against.1.to_owned())))
    }

    fn row(&self, cause: &Cause) -> String {
        let against = cause.ns_per_request * self.ns < 0.0;
        let words = format!("{}{}", cause_words(cause.id), self.counts(cause));
        let grade = grade_word(cause.grade);
        if against {
            return self.columns(-cause.ns_per_request.abs(), None, &words, grade);
        }
        let ns = self.carried(cause);
        self.columns(ns, Some(ns / self.whole_ns()), &words, grade)
    }

    fn others(&self, causes: &[&Cause]) -> String {
        let with: Vec<&&Cause> =
            causes.iter().filter(|cause| cause.ns_per_request * self.ns >= 0.0).collect();
        let ns: f64 = with.iter().map(|cause| self.carried(cause)).sum();
        let against: f64 = causes.iter().map(|cause| cause.ns_per_request.abs()).sum::<f64>()
            - with.iter().map(|cause| cause.ns_per_request.abs()).sum::<f64>();
        let names: Vec<&str> = causes.iter().map(|cause| cause_words(cause.id)).collect();
        let ns = ns - against;
        self.columns(ns, (against <= 0.0).then_some(ns / self.whole_ns()), &and(&names), "")
    }

    fn columns(&self, ns: f64, share: Option<f64>, words: &str, grade: &str) -> String {
        let ns = part_of(ns, self.ns);
        let share = share.map_or_else(String::new, |share| format!("{:.0} %", share * 100.0));
        let words = cut(words, WORDS);
        format!("   {ns:>8}  {share:>5}  {words:WORDS$}  {grade}").trim_end().to_owned()
    }

    /// How often it happens for a request, in the baseline and in the arm.
    fn counts(&self, cause: &Cause) -> String {
        let begins = counted_by(cause.id);
        let lines = || {
            let mut lines =
                self.findings.ledger.iter().filter(|line| line.arm == self.arm).collect::<Vec<_>>();
            lines.retain(|line| begins.iter().any(|begin| line.id.starts_with(begin)));
            lines
        };
        let lines = lines();
        let sum = |of: fn(&analyse::LedgerLine) -> f64| lines.iter().map(|line| of(line)).sum::<f64>();
        let (from, to) = (sum(|line| line.baseline), sum(|line| line.value));
        match lines.first() {
            None => String::new(),
            Some(line) if line.unit == "count" => {
                format!(", {} → {} a request{}", count(from), count(to), self.switches_are(cause))
            }
            Some(_) => format!(", {}", super::layout::from_to(from, to)),
        }
    }

    /// What kind of context switches they are.
    fn switches_are(&self, cause: &Cause) -> &'static str {
        let change = |id: &str| {
            let mut lines = self.findings.ledger.iter();
            lines.find(|line| line.arm == self.arm && line.id == id).map_or(0.0, |line| line.change.abs())
        };
        let (waits, interrupted) = (change("voluntary_switches"), change("involuntary_switches"));
        match cause.id {
            CauseId::ContextSwitches if waits > interrupted => " (threads sleep and are woken)",
            CauseId::ContextSwitches => " (threads are interrupted)",
            _ => "",
        }
    }
}

/// Whether it is one of the two parts of CPU time, which say where but not why.
fn is_part(cause: &Cause) -> bool {
    PARTS.contains(&cause.id)
}

/// The gap of which a cause says that it carries a share.
fn explained(cause: &Cause) -> Option<f64> {
    let share = cause.share.filter(|share| share.abs() > f64::EPSILON)?;
    let gap = cause.ns_per_request / share;
    gap.is_finite().then_some(gap)
}

/// Arm minus baseline in CPU per request, from the figures of the verdict line.
fn cpu_gap(findings: &Findings, arm: &str) -> Option<f64> {
    let row = deciding(findings, arm)?;
    let cpu = |name: &str| {
        let found = findings.arms.iter().find(|row| row.name == name)?;
        found.cpu_ns_per_request.map(|cpu| cpu.total)
    };
    let decided = findings.comparisons.iter().any(|other| {
        other.arm == arm && other.metric == Metric::CpuPerRequest && Direction::of(other).differs()
    });
    cpu(arm).zip(cpu(&row.baseline)).filter(|_| decided).map(|(arm, baseline)| arm - baseline)
}
