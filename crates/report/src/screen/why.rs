//! Why an arm costs more or less: a gap, what it is made of, and what is left, in figures that sum.

mod part;

use analyse::{Cause, Findings, GapFunction, GapNode, Grade, Metric, STANDARD_LIBRARY};
use model::plan::CauseId;

use super::layout::{SCREEN_COLUMNS, and, cut, from_to, part_of, short, short_function};
use super::verdict::deciding;
use crate::compare::others;
use crate::direction::Direction;
use crate::waits::at;
use crate::words::names::{PARTS, cause_words, counted_by, node_name};
use part::{Part, of_tree};

/// Rows of causes: of one arm, and of each of several.
const ROWS: [usize; 2] = [3, 2];
/// Below this share of the gap a rest is not said, nor that something else goes the other way.
const SMALL: f64 = 0.005;
/// From this share of the gap on, it is said that parts are more than all of it.
const OVERLAP: f64 = 0.05;
/// From this share of the gap on, a part that goes the other way is said.
const OPPOSED: f64 = 0.05;
/// So many times the gap may go its way for shares of it to be told.
const MOST_OF_GAP: f64 = 2.0;
/// Share of a gap that must be under a function to say so where CPU time is but a part of it.
const LEAST_UNDER: f64 = 0.25;
/// Share of what is under a function from which on a row that names the function has said so.
const MOST_SAID: f64 = 0.5;
/// How far the gap that causes explain may be from that in CPU time and still be the same.
const SAME_GAP: f64 = 0.05;
/// What is left of a gap: what was measured in small parts, and what is not known.
const SMALLER: &str = "smaller differences (--details)";
const SMALLER_ONES: &str = "smaller differences";
const UNKNOWN: &str = "not explained";
/// Columns of words in a row, before the grade, and in one without a grade.
const WORDS: usize = 72;
const WIDE: usize = SCREEN_COLUMNS - 20;
/// Share of what is left from which on its names stand for all of it.
const ENOUGH: f64 = 0.9;

/// The section of every arm that differs.
pub(crate) fn lines(findings: &Findings) -> Vec<String> {
    let differing: Vec<&str> = others(findings)
        .map(|arm| arm.name.as_str())
        .filter(|arm| deciding(findings, arm).is_some_and(|row| Direction::from_comparison(row).differs()))
        .collect();
    let rows = ROWS[usize::from(others(findings).count() > 1)];
    let mut lines: Vec<String> = differing
        .iter()
        .filter_map(|arm| Gap::for_arm(findings, arm))
        .flat_map(|gap| gap.lines(rows))
        .collect();
    if !lines.is_empty() {
        lines.extend(not_it(findings, &differing, &lines));
    }
    lines
}

/// What was ruled out for every arm that differs, unless one of the `rows` has the same words: what is told of a part would be denied of
/// the whole.
fn not_it(findings: &Findings, arms: &[&str], rows: &[String]) -> Option<String> {
    let ruled_out = |arm: &str, id: CauseId| {
        let mut causes = findings.causes.iter();
        causes.any(|cause| cause.arm == arm && cause.id == id && cause.grade == Grade::RuledOut)
    };
    let mut ids: Vec<CauseId> = Vec::new();
    for cause in &findings.causes {
        let is_told = rows.iter().any(|row| row.contains(cause_words(cause.id)));
        if !ids.contains(&cause.id) && !is_told && arms.iter().all(|arm| ruled_out(arm, cause.id)) {
            ids.push(cause.id);
        }
    }
    // What people would suspect first is what can be counted.
    ids.sort_by_key(|id| counted_by(*id).is_empty());
    // As many as have room; the details have all.
    let all: Vec<&str> = ids.iter().map(|id| cause_words(*id)).collect();
    let line = |most: usize| {
        let left_out = if most < all.len() { ", …" } else { "" };
        format!("   not it: {}{left_out}", all[..most].join(", "))
    };
    (1..=all.len()).rev().map(line).find(|line| line.chars().count() <= SCREEN_COLUMNS)
}

/// The difference of one arm in what a request takes.
struct Gap<'a> {
    findings: &'a Findings,
    arm: &'a str,
    /// Arm minus baseline, in nanoseconds per request.
    ns: f64,
    /// Whether time in which CPUs were idle is part of it.
    idle: bool,
    /// Whether its parts are nodes of the tree, of which only the largest are said.
    from_tree: bool,
    /// Causes whose nodes have one row together.
    together: Vec<CauseId>,
    /// Those that go the way of the gap, and those that go the other way; most important first.
    parts: [Vec<Part>; 2],
}

impl<'a> Gap<'a> {
    fn for_arm(findings: &'a Findings, arm: &'a str) -> Option<Self> {
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
            (Some(cpu), None) if cpu_differs(findings, arm) => (cpu, false),
            (_, None) => return None,
        };
        let (nodes, mut together) = if idle { Default::default() } else { of_tree(findings, arm) };
        let from_tree = !nodes.is_empty();
        if !from_tree {
            together = causes.iter().map(|cause| cause.id).collect();
        }
        let of_cause = |cause: &&Cause| Part::of_cause(findings, cause);
        let mut parts: Vec<Part> = if from_tree { nodes } else { causes.iter().map(of_cause).collect() };
        if parts.is_empty() || ns == 0.0 {
            return None;
        }
        parts.sort_by(|a, b| b.ns.abs().total_cmp(&a.ns.abs()));
        let (with, against) = parts.into_iter().partition(|part| part.ns * ns >= 0.0);
        Some(Self { findings, arm, ns, idle, from_tree, together, parts: [with, against] })
    }

    /// What goes the other way, in nanoseconds of at least 0.
    fn opposed_ns(&self) -> f64 {
        self.parts[1].iter().map(|part| part.ns.abs()).sum()
    }

    /// A share of the gap, as all findings have it: what goes the other way is below 0, and what goes with the gap then more than 1. Where as
    /// much goes the other way as the gap is, shares tell nothing that times do not.
    fn share(&self, ns: f64) -> String {
        match self.whole_ns() > MOST_OF_GAP * self.ns.abs() {
            true => String::new(),
            false => format!("{:.0} %", ns / self.ns.abs() * 100.0).replace('-', "−"),
        }
    }

    /// What rows are parts of: all that goes the way of the gap. That is the gap and as much again as goes the other way; nodes of the
    /// tree may hold more, where smaller ones take some of it back.
    fn whole_ns(&self) -> f64 {
        let whole = self.ns.abs() + self.opposed_ns();
        let held = self.parts[0].iter().map(|part| part.ns.abs()).sum::<f64>();
        if self.from_tree { whole.max(held) } else { whole }
    }

    fn lines(&self, most: usize) -> Vec<String> {
        let mut lines = vec![cut(&self.title(), SCREEN_COLUMNS)];
        let [with, against] = &self.parts;
        lines.extend(self.under_function(with.first().or(against.first())));
        let shown = if with.len() + against.len() > most { most - 1 } else { most };
        let (with_row, with_together) = with.split_at(shown.min(with.len()));
        let (against_row, against_together) = against.split_at((shown - with_row.len()).min(against.len()));
        lines.extend(with_row.iter().chain(against_row).map(|part| self.row(part)));
        // Sums of both directions would be one row too many: the second of them goes with what is left.
        let (sum, beside) = match with_together {
            [] => (against_together, &[][..]),
            _ => (with_together, against_together),
        };
        lines.extend(self.together(sum));
        let carried: f64 = with.iter().map(|part| self.carried(part)).sum();
        let rest = self.ns.abs() + self.opposed_ns() - carried;
        lines.extend(self.left(rest, beside));
        lines
    }

    /// What is left of the gap, and parts that have no row.
    fn left(&self, rest: f64, beside: &[Part]) -> Vec<String> {
        let least = SMALL * self.whole_ns();
        let unknown = self.unknown_ns(rest);
        let left = if self.from_tree || rest - unknown >= unknown { SMALLER } else { UNKNOWN };
        if !beside.is_empty() {
            let mut words = names(beside);
            words.extend((rest.abs() >= least).then_some(left));
            let ns = rest + beside.iter().map(|part| self.figure(part)).sum::<f64>();
            vec![self.columns(ns, &and(&words), "")]
        } else if unknown.min(rest - unknown) >= OPPOSED * self.whole_ns() {
            let known = rest - unknown;
            let words = self.smaller(known).unwrap_or_else(|| SMALLER.to_owned());
            vec![self.row_of(known, &words), self.row_of(unknown, UNKNOWN)]
        } else if rest >= least || (rest <= -least && self.from_tree) {
            let words = self.smaller(rest).filter(|_| left == SMALLER);
            vec![self.row_of(rest, &words.unwrap_or_else(|| left.to_owned()))]
        } else if rest <= -OVERLAP * self.whole_ns() {
            vec!["   these overlap: together they are more than the difference".to_owned()]
        } else {
            Vec::new()
        }
    }

    /// The names of what is left, with their shares, as many as have room.
    fn smaller(&self, rest_ns: f64) -> Option<String> {
        let has_row = |node: &GapNode| node.cause.is_some_and(|id| self.together.contains(&id));
        let of_arm =
            |node: &&GapNode| node.arm == self.arm && node.delta_ns * self.ns > 0.0 && !has_row(node);
        let mut names: Vec<(&str, f64)> = Vec::new();
        // Where causes have the rows, their nodes are not among them.
        let said = self.findings.said.iter().filter(|_| !self.from_tree);
        for node in said.chain(&self.findings.smaller).filter(of_arm).filter(|_| rest_ns > 0.0) {
            let name = node_name(&node.path);
            match names.iter_mut().find(|(known, _)| *known == name) {
                Some((_, ns)) => *ns += node.delta_ns.abs(),
                None => names.push((name, node.delta_ns.abs())),
            }
        }
        // A name that several nodes share may hold more than those before it.
        names.sort_by(|a, b| b.1.total_cmp(&a.1));
        // Others go the other way, where names hold more than what is left.
        let mut held = 0.0;
        let fits = names.iter().take_while(|(_, ns)| {
            held += ns;
            held <= (1.0 + OVERLAP) * rest_ns
        });
        let most = fits.count();
        names.truncate(most);
        let words = |most: usize| {
            let said: Vec<String> = names[..most]
                .iter()
                .map(|(name, ns)| {
                    format!("{} {}", short_function(name), self.share(*ns)).trim_end().to_owned()
                })
                .collect();
            let held: f64 = names[..most].iter().map(|(_, ns)| ns).sum();
            let more = if held < ENOUGH * rest_ns { ", …" } else { "" };
            format!("smaller: {}{more}", said.join(", "))
        };
        (1..=names.len()).rev().map(words).find(|words| words.chars().count() <= WIDE)
    }

    /// How much of what is left was not measured; all else is in parts that are too small or unsure to be told. Nodes of the tree sum to all.
    fn unknown_ns(&self, rest_ns: f64) -> f64 {
        if self.from_tree {
            return 0.0;
        }
        let mut rests = self.findings.rests.iter();
        let found = rests.find(|rest| rest.arm == self.arm);
        let unknown_ns = found.map_or(rest_ns, |found| found.unattributed_share * self.ns.abs());
        unknown_ns.clamp(0.0, rest_ns.max(0.0))
    }

    /// What a part carries: of causes the whole at most, for counts times unit costs are upper bounds.
    fn carried(&self, part: &Part) -> f64 {
        if self.from_tree { part.ns.abs() } else { part.ns.abs().min(self.whole_ns()) }
    }

    fn title(&self) -> String {
        let (arm, ns) = (short(self.arm), part_of(self.ns.abs(), self.ns));
        let what = match (self.ns < 0.0, self.idle) {
            (true, false) => format!("Why {arm} saves {ns} a request"),
            (false, false) => format!("Why {arm} costs {ns} more a request"),
            (true, true) => {
                format!("Why {arm} takes {ns} less of a CPU for a request, idle time included")
            }
            (false, true) => format!("Why {arm} takes {ns} more of a CPU for a request, idle time included"),
        };
        what + &self.both_ways().unwrap_or_default()
    }

    /// Under which function most of it is that was seen in one arm alone, unless the first row says so.
    fn under_function(&self, first: Option<&Part>) -> Option<String> {
        let mut functions = self.findings.gap_functions.iter();
        let found = functions.find(|function| function.arm == self.arm)?;
        // It is a part of the CPU time alone.
        if self.idle && found.delta_ns.abs() < LEAST_UNDER * self.ns.abs() {
            return None;
        }
        // A row may name the function for a small part of it.
        let is_said = first.is_some_and(|part| {
            part.words.contains(&short_function(&found.function))
                && part.ns.abs() >= MOST_SAID * found.delta_ns.abs()
        });
        let share = found.delta_ns.abs() / self.ns.abs();
        (!is_said).then(|| cut(&gap_function_words(found, share), SCREEN_COLUMNS))
    }

    /// That something is saved and something paid.
    fn both_ways(&self) -> Option<String> {
        // Rows say of what the larger part is made; a part of it may not be explained.
        let [whole, opposed] = [self.whole_ns(), self.opposed_ns()];
        let paid = whole - self.ns.abs();
        let mut places = names(&self.parts[1]);
        if paid - opposed >= SMALL * whole {
            places.push(SMALLER_ONES);
        }
        let (with, against) = match places.is_empty() {
            true => self.sides()?,
            false => ((whole, String::new()), (paid, and(&places))),
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

    /// Own code and kernel, where one is saved and the other paid: as the tree has them, if the rows are of it.
    fn sides(&self) -> Option<((f64, String), (f64, String))> {
        let split = self.findings.splits.iter().find(|split| split.arm == self.arm).filter(|_| !self.idle)?;
        let [user, kernel] = if self.from_tree {
            ["user", "kernel"].map(|side| self.below(side))
        } else {
            [split.user_ns, split.system_ns]
        };
        let parts = [(user, "its own code"), (kernel, "the kernel")];
        let with = parts.iter().find(|(ns, _)| ns * self.ns > 0.0)?;
        let against = parts.iter().find(|(ns, _)| ns * self.ns < 0.0)?;
        Some(((with.0.abs(), with.1.to_owned()), (against.0.abs(), against.1.to_owned())))
    }

    /// The change of all leaves of one side, in nanoseconds.
    fn below(&self, side: &str) -> f64 {
        let of_arm = self.findings.attribution.iter().filter(|row| row.arm == self.arm);
        of_arm.filter(|row| row.path.first().is_some_and(|name| name == side)).map(|row| row.delta_ns).sum()
    }

    fn row(&self, part: &Part) -> String {
        self.columns(self.figure(part), &part.words, part.grade)
    }

    /// A part as its row has it: below 0 where it goes the other way.
    fn figure(&self, part: &Part) -> f64 {
        if part.ns * self.ns < 0.0 { -part.ns.abs() } else { self.carried(part) }
    }

    /// Parts that have no row of their own, all of one direction, as one sum.
    fn together(&self, parts: &[Part]) -> Option<String> {
        match parts {
            [] => None,
            [part] => Some(self.row(part)),
            parts => {
                let ns = parts.iter().map(|part| self.figure(part)).sum();
                Some(self.columns(ns, &and(&names(parts)), ""))
            }
        }
    }

    /// A row.
    fn columns(&self, ns: f64, words: &str, grade: &str) -> String {
        let row = self.row_of(ns, &format!("{:WORDS$}", cut(words, WORDS)));
        format!("{row}  {grade}").trim_end().to_owned()
    }

    fn row_of(&self, ns: f64, words: &str) -> String {
        let share = self.share(ns);
        format!("   {:>8}  {share:>5}  {words}", part_of(ns, self.ns))
    }
}

/// Share of the gap from which on a function holds more than it, and not all of it by a rounding.
const MORE: f64 = 1.05;

/// How much of a gap is under a function that was seen in one arm alone. Go's names begin with their packages.
fn gap_function_words(found: &GapFunction, share: f64) -> String {
    let part = match share > MORE {
        true => part_of(found.delta_ns.abs(), found.delta_ns),
        false => format!("{:.0} % of it", share * 100.0),
    };
    let (name, package) = (&found.function, &found.package);
    let function = match package.rfind('/').filter(|_| name.starts_with(package)) {
        Some(slash) => short_function(&name[slash + 1..]),
        None => format!("{} ({})", short_function(name), package_or_file(found)),
    };
    let seen = match found.grown_ns {
        None => format!("seen only in {}", short(&found.slower)),
        Some([from, to]) => from_to(from, to),
    };
    let line = format!("   {part} is under {function}, {seen}");
    let caller = found.called_from.as_ref();
    let from = caller.map_or_else(String::new, |caller| {
        let function = short_function(&caller.function);
        format!(", called by {}", at(&analyse::Place { function, ..caller.clone() }))
    });
    if (line.chars().count() + from.chars().count()) <= SCREEN_COLUMNS { line + &from } else { line }
}

/// The package of a function; of a standard library its file, which says more.
fn package_or_file(found: &GapFunction) -> String {
    match found.file.as_deref().filter(|_| found.package == STANDARD_LIBRARY) {
        Some(file) if file.starts_with("node:") => file.to_owned(),
        Some(file) => file.rsplit('/').next().unwrap_or(file).to_owned(),
        None => short_function(&found.package),
    }
}

/// Their names, each once: leaves of two calls may be called alike.
fn names<'a>(parts: impl IntoIterator<Item = &'a Part>) -> Vec<&'static str> {
    let mut names = Vec::new();
    for part in parts {
        if !names.contains(&part.name) {
            names.push(part.name);
        }
    }
    names
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
    cpu(arm).zip(cpu(&row.baseline)).map(|(arm, baseline)| arm - baseline)
}

/// Whether a difference in CPU per request was shown.
fn cpu_differs(findings: &Findings, arm: &str) -> bool {
    let mut of_cpu = findings.comparisons.iter().filter(|row| row.metric == Metric::CpuPerRequest);
    of_cpu.any(|row| row.arm == arm && Direction::from_comparison(row).differs())
}
