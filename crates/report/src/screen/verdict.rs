//! The verdict on each arm in one line, and one line for rate and latency.

use analyse::{ArmFindings, Comparison, Findings, Metric, UndecidedBy};
use model::units::format_ns;

use super::layout::{SCREEN_COLUMNS, and, blocks, from_to, rate, short, within, wrapped};
use crate::compare::says_something_else;
use crate::direction::{Direction, Times, decimals_apart, words_of_sides};
use crate::style::Style;
use crate::words::names::remedy;

/// Percentiles that the first screen speaks of; the others are among the details.
const PERCENTILES: [Metric; 2] = [Metric::P50, Metric::P99];

/// How many times as far apart as in CPU time the arms must be in rate for the rate to be said first: requests then wait for something
/// that costs no CPU time.
const FARTHER: f64 = 2.0;

/// The row that decides about an arm: a difference in CPU or rate, else that there is none, else what is open. Of two differences it
/// is that in CPU time, unless the other is much larger.
pub(crate) fn deciding<'a>(findings: &'a Findings, arm: &str) -> Option<&'a Comparison> {
    let rows = || findings.comparisons.iter().filter(|row| row.primary && row.arm == arm);
    let far = |row: &Comparison| row.ratio.map_or(0.0, |ratio| ratio.ln().abs());
    let farther = |first, next| if far(next) > FARTHER * far(first) { next } else { first };
    let differs = rows().filter(|row| Direction::from_comparison(row).differs()).reduce(farther);
    let same = rows().find(|row| Direction::from_comparison(row) == Direction::Same);
    let is_open = |row: &&Comparison| Direction::from_comparison(row) == Direction::Open;
    let open = rows().filter(is_open).reduce(|one, next| if next.needs() < one.needs() { next } else { one });
    differs.or(same).or(open).or_else(|| rows().next())
}

/// Most lines of an arm that has no figures.
const LINES_OF_ARM: usize = 3;

/// What is said of each arm, and of the baseline where it failed.
pub(crate) fn lines(findings: &Findings, style: Style) -> Vec<String> {
    let arms: Vec<&ArmFindings> = judged_arms(findings).collect();
    let width = arms.iter().map(|arm| short(&arm.name).chars().count()).max().unwrap_or(0) + 2;
    let verdicts: Vec<Verdict> = arms.iter().map(|arm| Verdict::for_arm(findings, arm)).collect();
    let widest = |of: fn(&Verdict) -> usize| verdicts.iter().map(of).max().unwrap_or(0);
    let columns = [widest(Verdict::whom_width), widest(Verdict::interval_width)];
    let line = |(arm, verdict): (&&ArmFindings, &Verdict)| {
        let name = format!("{:width$}", short(&arm.name));
        verdict.lines(&name, columns, style)
    };
    arms.iter().zip(&verdicts).flat_map(line).collect()
}

fn judged_arms(findings: &Findings) -> impl Iterator<Item = &ArmFindings> {
    let compared = |name: &str| findings.comparisons.iter().any(|row| row.arm == name);
    findings
        .arms
        .iter()
        .filter(move |arm| arm.error.is_some() || (arm.name != findings.baseline && compared(&arm.name)))
}

/// What is said of an arm.
struct Verdict {
    direction: Direction,
    /// The words that are coloured: times and word, such as `1.52x cheaper`.
    phrase: String,
    rest: Rest,
}

/// What follows the coloured words.
enum Rest {
    /// Columns: against whom, the interval, and the figures in many words and in few.
    Columns { whom: String, interval: String, figures: [String; 2] },
    /// One sentence, in many words and in fewer.
    Sentence(Vec<String>),
}

impl Verdict {
    fn for_arm(findings: &Findings, arm: &ArmFindings) -> Self {
        if let Some(error) = &arm.error {
            return Self::sentence(Direction::Void, failed(arm, error));
        }
        let Some(row) = deciding(findings, &arm.name) else {
            return Self::sentence(Direction::Void, vec![": nothing was compared".to_owned()]);
        };
        let direction = Direction::from_comparison(row);
        match (direction, Times::from_comparison(row)) {
            (Direction::Void, _) => Self::sentence(direction, vec![format!(": {}", void(row))]),
            (Direction::Open, _) => Self::sentence(direction, open(row)),
            (Direction::Same, _) => {
                let rest = Rest::columns(findings, row, "from", in_percent(row));
                Self { direction, phrase: direction.word().to_owned(), rest }
            }
            (_, None) => Self::sentence(direction, vec![format!(" than {}", short(&row.baseline))]),
            (_, Some(times)) => {
                let decimals = decimals(times);
                let interval = format!("[{:.decimals$}, {:.decimals$}]", times.low, times.high);
                let phrase = format!("{:.decimals$}x {}", times.ratio, direction.word());
                Self { direction, phrase, rest: Rest::columns(findings, row, "than", interval) }
            }
        }
    }

    fn sentence(direction: Direction, rest: Vec<String>) -> Self {
        Self { direction, phrase: direction.word().to_owned(), rest: Rest::Sentence(rest) }
    }

    fn whom_width(&self) -> usize {
        match &self.rest {
            Rest::Columns { whom, .. } => self.phrase.chars().count() + whom.chars().count(),
            Rest::Sentence(_) => 0,
        }
    }

    fn interval_width(&self) -> usize {
        match &self.rest {
            Rest::Columns { interval, .. } => interval.chars().count(),
            Rest::Sentence(_) => 0,
        }
    }

    fn lines(&self, name: &str, [whom_width, interval_width]: [usize; 2], style: Style) -> Vec<String> {
        let plain = format!("{name}{}", self.phrase);
        let room = SCREEN_COLUMNS - plain.chars().count();
        let mut lines = match &self.rest {
            Rest::Columns { whom, interval, figures } => {
                let width = whom_width - self.phrase.chars().count();
                let columns = format!("{whom:width$}  {interval:interval_width$}   ");
                let left = room.saturating_sub(columns.chars().count());
                let fits = figures.iter().find(|words| words.chars().count() <= left);
                let rest = fits.map_or("", String::as_str);
                vec![format!("{plain}{columns}{rest}").trim_end().to_owned()]
            }
            Rest::Sentence(rest) => {
                let fits = rest.iter().find(|words| words.chars().count() <= room).or(rest.last());
                let words = fits.map_or("", String::as_str);
                let gap = if words.starts_with(' ') { " " } else { "" };
                let lines = wrapped(&format!("{plain}{gap}"), words, name.chars().count());
                lines.into_iter().take(LINES_OF_ARM).collect()
            }
        };
        if let Some(rest) = lines[0].strip_prefix(&plain) {
            lines[0] = format!("{name}{}{rest}", style.paint(self.direction, &self.phrase));
        }
        lines
    }
}

impl Rest {
    fn columns(findings: &Findings, row: &Comparison, word: &str, interval: String) -> Self {
        let whom = format!(" {word} {}", short(&row.baseline));
        Self::Columns { whom, interval, figures: figures(findings, row) }
    }
}

/// Digits behind the point: as many as tell small differences from none, also at the end of the interval that is next to it.
fn decimals(times: Times) -> usize {
    let usual = match times.ratio {
        ratio if ratio >= 9.995 => 1,
        ratio if ratio >= 1.095 => 2,
        _ => 3,
    };
    decimals_apart(usual, [times.low, times.high])
}

/// The figures behind a ratio, in many words and in few.
fn figures(findings: &Findings, row: &Comparison) -> [String; 2] {
    let of = |name: &str| findings.arms.iter().find(|arm| arm.name == name);
    let cpu = |name: &str| Some(of(name)?.cpu_ns_per_request?.total);
    match row.metric {
        Metric::CpuPerRequest => match cpu(&row.baseline).zip(cpu(&row.arm)) {
            Some((from, to)) => {
                let figures = from_to(from, to);
                [format!("CPU per request {figures}"), format!("CPU {figures}")]
            }
            None => Default::default(),
        },
        // The figures themselves are in the line of rates.
        Metric::Rate => [format!("rate at {}", row.condition), "rate".to_owned()],
        other => [other.label().to_owned(), other.label().to_owned()],
    }
}

fn in_percent(row: &Comparison) -> String {
    let percent = |ratio: f64| format!("{:+.1} %", (ratio - 1.0) * 100.0).replace('-', "−");
    match (row.ci_low, row.ci_high) {
        (Some(low), Some(high)) => format!("[{}, {}]", percent(low), percent(high)),
        _ => String::new(),
    }
}

/// Why an arm failed, with the end of its log.
fn failed(arm: &ArmFindings, error: &str) -> Vec<String> {
    let log = arm.log.last().map_or_else(String::new, |line| format!("; its log ends: {}", line.trim()));
    vec![format!(": {error}{log}")]
}

/// How far apart the arms can be, and what would decide; in many words and in fewer.
fn open(row: &Comparison) -> Vec<String> {
    let baseline = short(&row.baseline);
    let needed = needed(row);
    let (Some(low), Some(high)) = (row.ci_low, row.ci_high) else {
        return vec![format!(" against {baseline}: too few blocks to say anything{needed}")];
    };
    let [above, below] = words_of_sides(row.metric);
    let side = |ratio: f64| if ratio >= 1.0 { above } else { below };
    let percent = |ratio: f64| format!("{:.1} %", (ratio - 1.0).abs() * 100.0);
    let metric = if row.metric == Metric::Rate { " in rate" } else { "" };
    let range = if side(low) == side(high) {
        let (near, far) = if low >= 1.0 { (low, high) } else { (high, low) };
        format!("{} to {} {}{metric}, but not surely", percent(near), percent(far), side(low))
    } else {
        format!("{} {} to {} {}{metric}", percent(low), side(low), percent(high), side(high))
    };
    vec![format!(" against {baseline}: {range}{needed}"), format!(": {range}{needed}")]
}

/// How many blocks would decide it, or that none would.
fn needed(row: &Comparison) -> String {
    match row.blocks_needed {
        None if row.undecided_by == Some(UndecidedBy::Disturbance) => {
            let who = row.disturbed_most_by().map_or("disturbances", |source| &source.what);
            format!("; limited by {who}, not by blocks")
        }
        None => String::new(),
        Some(number) if number > u64::from(model::plan::MOST_BLOCKS) => {
            "; more blocks would not decide".to_owned()
        }
        Some(number) => format!("; {} would decide", blocks(number)),
    }
}

/// The gate that voids a row and what to do about it.
fn void(row: &Comparison) -> String {
    match row.void_by.first() {
        Some(gate) => format!("gate {gate} failed; {}", remedy(*gate)),
        None => "there are no figures".to_owned(),
    }
}

/// Rate and latency of all arms in one line; in two where it does not fit.
pub(crate) fn rate_and_latency(findings: &Findings) -> Vec<String> {
    if findings.comparisons.iter().all(|row| Direction::from_comparison(row) == Direction::Void) {
        return Vec::new();
    }
    let parts: Vec<String> = [rates(findings), latencies(findings)].into_iter().flatten().collect();
    let joined = parts.join("; ");
    if joined.chars().count() <= SCREEN_COLUMNS {
        return if joined.is_empty() { Vec::new() } else { vec![joined] };
    }
    let most = [1, if crate::compare::others(findings).count() > 1 { 2 } else { 1 }];
    parts.iter().zip(most).flat_map(|(words, most)| within(most, words)).collect()
}

/// CPUs that an arm keeps busy while nobody asks it anything, from which on it is said.
const BACKGROUND: f64 = 0.005;

/// What arms do while nobody asks them anything: how much of the CPU time of a request that is, and of what they differ by.
pub(crate) fn background(findings: &Findings) -> Vec<String> {
    let busy = |arm: &&ArmFindings| arm.background_cpu_share.is_some_and(|share| share >= BACKGROUND);
    let sentences = findings.arms.iter().filter(busy).filter_map(|arm| of_background(findings, arm));
    sentences.flat_map(|sentence| within(2, &sentence)).collect()
}

fn of_background(findings: &Findings, arm: &ArmFindings) -> Option<String> {
    let share = arm.background_cpu_share?;
    let all_ns = arm.cpu_ns_per_request?.total;
    let own_ns = (all_ns * share / arm.busy_cores.filter(|cores| *cores > 0.0)?).min(all_ns);
    let gap = others_cpu(findings, arm).map(|other_ns| own_ns / (all_ns - other_ns));
    let most = gap.filter(|part| *part >= MOST).map_or("", |_| ", most of the gap");
    let [own, all] = [own_ns, all_ns].map(format_ns);
    Some(format!(
        "{} uses {:.1} % of a CPU while nobody asks it anything: {own} of its {all} a request{most}",
        short(&arm.name),
        share * 100.0
    ))
}

/// Share of a difference from which on it is most of it.
const MOST: f64 = 0.5;

/// CPU time of a request of the arm that `arm` is held against: the baseline, and of two arms the other one.
fn others_cpu(findings: &Findings, arm: &ArmFindings) -> Option<f64> {
    let other = match arm.name == findings.baseline {
        true => {
            findings.arms.iter().find(|other| other.name != arm.name).filter(|_| findings.arms.len() == 2)
        }
        false => findings.arms.iter().find(|other| other.name == findings.baseline),
    };
    Some(other?.cpu_ns_per_request?.total)
}

fn compared(findings: &Findings, metric: Metric) -> Vec<&Comparison> {
    findings.comparisons.iter().filter(|row| row.metric == metric).collect()
}

fn rates(findings: &Findings) -> Option<String> {
    let rows = compared(findings, Metric::Rate);
    let condition = &rows.first()?.condition;
    let open: Vec<&&Comparison> =
        rows.iter().filter(|row| Direction::from_comparison(row) != Direction::Void).collect();
    if open.is_empty() {
        let gate = rows[0].void_by.first().map_or_else(String::new, |gate| format!(" (gate {gate} failed)"));
        return Some(format!("rate at {condition}: no verdict{gate}"));
    }
    let of = |name: &str| findings.arms.iter().find(|arm| arm.name == name)?.rate_per_s.map(rate);
    let to: Vec<String> = open.iter().filter_map(|row| of(&row.arm)).collect();
    let figures = of(&findings.baseline)
        .filter(|_| !to.is_empty())
        .map(|from| format!(" {from} → {}/s", to.join(", ")))
        .unwrap_or_default();
    let mut words: Vec<String> = open.iter().filter_map(|row| rate_words(findings, row)).collect();
    let undecided: Vec<String> = open
        .iter()
        .filter(|row| Direction::from_comparison(row) == Direction::Open)
        .map(|row| short(&row.arm))
        .collect();
    match undecided.len() {
        0 => {}
        all if all == open.len() => words.push("not decided".to_owned()),
        _ => words.push(format!("{} not decided", and(&undecided))),
    }
    let words = if words.is_empty() { String::new() } else { format!(" ({})", words.join(", ")) };
    if figures.is_empty() && words.is_empty() {
        return None;
    }
    let void = rows.len() - open.len();
    let void = if void > 0 { format!(", {void} without a verdict") } else { String::new() };
    Some(format!("rate at {condition}{figures}{words}{void}"))
}

/// What the rate says that the verdict line does not; where that is of the rate, what CPU time says.
fn rate_words(findings: &Findings, row: &Comparison) -> Option<String> {
    let first = deciding(findings, &row.arm)?;
    let (other, what) = match first.metric {
        Metric::Rate => {
            let mut of_cpu = compared(findings, Metric::CpuPerRequest).into_iter();
            (of_cpu.find(|cpu| cpu.primary && cpu.arm == row.arm)?, " in CPU per request")
        }
        _ => (row, ""),
    };
    let direction = Direction::from_comparison(other);
    if !direction.differs() || !says_something_else(first, other) {
        return None;
    }
    Some(differs(findings, other, direction) + what)
}

fn differs(findings: &Findings, row: &Comparison, direction: Direction) -> String {
    let several = crate::compare::others(findings).count() > 1;
    let whose = if several { format!("{} ", short(&row.arm)) } else { String::new() };
    let times = Times::from_comparison(row).map(|times| {
        let decimals = decimals(times);
        format!("{:.decimals$}x ", times.ratio)
    });
    format!("{whose}{}{}", times.unwrap_or_default(), direction.word())
}

fn latencies(findings: &Findings) -> Option<String> {
    let condition = findings.latency_condition.as_ref()?;
    let (mut parts, mut alike, mut void) = (Vec::new(), Vec::new(), Vec::new());
    for metric in PERCENTILES {
        for row in compared(findings, metric).into_iter().filter(|row| row.ratio.is_some()) {
            let direction = Direction::from_comparison(row);
            match direction {
                Direction::Void => void.push((metric, row)),
                _ if direction.differs() => {
                    parts.push(format!("{} {}", label(metric), differs(findings, row, direction)));
                }
                _ => alike.push(metric),
            }
        }
    }
    alike.dedup();
    let alike: Vec<&str> = alike.into_iter().map(label).collect();
    if !alike.is_empty() {
        let other = if parts.is_empty() { "" } else { "otherwise " };
        parts.push(format!("{other}no difference shown ({})", alike.join(", ")));
    }
    if parts.is_empty() {
        let Some((_, row)) = void.first() else {
            let few = PERCENTILES.iter().any(|metric| !compared(findings, *metric).is_empty());
            return few.then(|| format!("latency at {condition}: too few answers for a percentile"));
        };
        let gate = row.void_by.first().map_or_else(String::new, |gate| format!(" (gate {gate} failed)"));
        parts.push(format!("no verdict{gate}"));
    }
    Some(format!("latency at {condition}: {}", parts.join(", ")))
}

fn label(metric: Metric) -> &'static str {
    match metric {
        Metric::P50 => "p50",
        Metric::P99 => "p99",
        other => other.label(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_interval_that_leaves_no_difference_out_does_not_look_as_if_it_held_it() {
        for ([ratio, low], digits) in [
            ([1.010, 1.0004], 4),
            ([1.010, 1.0006], 3),
            ([1.2, 1.15], 2),
            ([1.2, 1.001], 3),
            ([12.0, 11.0], 1),
            ([1.2, 1.000_000_1], 5),
        ] {
            let times = Times { ratio, low, high: 2.0 * ratio };
            assert_eq!(decimals(times), digits, "{ratio} {low}");
        }
    }
}
