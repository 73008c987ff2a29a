//! Verdicts: each arm against the baseline in each metric.

use model::plan::{Blocks, GateId};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use stats::looks::{self, blocks_needed};
use stats::noise::Noise;
use stats::verdict::{Bias, Question, decide};
use stats::{Estimate, Interval, Rng, descriptive, holm, paired, serial};

use crate::facts::metric::Metric;
use crate::facts::sheet::Sheet;
use crate::gates::{BiasSource, FLOOR_LEVEL, Gate, biases};

/// Normal quantile of [`FLOOR_LEVEL`], two-sided.
const FLOOR_Z: f64 = 1.96;

/// What changes so slowly that neighbouring blocks have it in common, among the sources of a bias.
const SLOW_CHANGES: &str = "slow changes";

/// The verdict on an arm against the baseline.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    /// Better than the baseline.
    Faster,
    /// Worse than the baseline.
    Slower,
    /// Any difference is smaller than the one that matters.
    Equal,
    /// Neither was shown.
    Inconclusive,
    /// A gate voids it.
    Invalid,
}

impl From<stats::verdict::Verdict> for Verdict {
    fn from(verdict: stats::verdict::Verdict) -> Self {
        match verdict {
            stats::verdict::Verdict::Faster => Self::Faster,
            stats::verdict::Verdict::Slower => Self::Slower,
            stats::verdict::Verdict::Equal => Self::Equal,
            stats::verdict::Verdict::Inconclusive => Self::Inconclusive,
        }
    }
}

impl Verdict {
    /// The word in every output.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Faster => "faster",
            Self::Slower => "slower",
            Self::Equal => "equal",
            Self::Inconclusive => "inconclusive",
            Self::Invalid => "invalid",
        }
    }

    /// Whether the verdict answers the question.
    #[must_use]
    pub fn is_decided(self) -> bool {
        matches!(self, Self::Faster | Self::Slower | Self::Equal)
    }
}

/// Why a comparison is not decided.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum UndecidedBy {
    /// The interval would decide, but so few blocks attain no level that may.
    TooFewBlocks,
    /// Blocks spread too far: more of them narrow the interval.
    Spread,
    /// What disturbances can have moved the ratio by decides it alone: more blocks do not narrow that.
    Disturbance,
}

/// How far disturbances can have moved a ratio, as relative differences of at least 0: the true ratio may be lower by `low`,
/// or higher by `high`.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct BiasFindings {
    /// Total downwards.
    pub low: f64,
    /// Total upwards.
    pub high: f64,
    /// The parts of it.
    pub of: Vec<BiasSource>,
}

/// One arm against the baseline in one metric.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct Comparison {
    /// The baseline.
    pub baseline: String,
    /// The arm.
    pub arm: String,
    /// The metric.
    pub metric: Metric,
    /// Whether the metric was declared primary.
    pub primary: bool,
    /// The condition.
    pub condition: String,
    /// The verdict on `arm`.
    pub verdict: Verdict,
    /// Arm over baseline, Hodges–Lehmann; absent if there are no pairs.
    pub ratio: Option<f64>,
    /// Low end of the exact Wilcoxon interval of the ratio.
    pub ci_low: Option<f64>,
    /// High end.
    pub ci_high: Option<f64>,
    /// Level that the interval attains, 0 to 1.
    pub level: Option<f64>,
    /// p of the exact Wilcoxon test, not adjusted.
    pub p_wilcoxon: Option<f64>,
    /// p of the sign-flip test, as a cross-check.
    pub p_sign_flip: Option<f64>,
    /// Pairs behind it: blocks, or groups of blocks for a percentile for which one block has too few answers.
    pub blocks: u32,
    /// Standard deviation of the pairs' log-ratios.
    pub paired_sd: Option<f64>,
    /// Smallest relative difference that this run could show.
    pub noise_floor: Option<f64>,
    /// Where the floor comes from: `second_baseline` or `within_run`.
    pub noise_floor_from: Option<String>,
    /// The relative difference that matters.
    pub delta: f64,
    /// Blocks that would decide, always more than there are; absent where it is decided, and where no number of blocks would.
    pub blocks_needed: Option<u64>,
    /// Why it is not decided; absent where it is, and where there is no interval.
    #[serde(default)]
    pub undecided_by: Option<UndecidedBy>,
    /// Ratio of each block, in order.
    #[serde(default)]
    pub block_ratios: Vec<f64>,
    /// How far disturbances can have moved the ratio; the interval allows for it.
    #[serde(default)]
    pub bias: BiasFindings,
    /// Log-ratio of each pair in order of blocks; `[block, ln(arm/baseline)]`.
    pub pairs: Vec<(u32, f64)>,
    /// The gates that void it.
    pub void_by: Vec<GateId>,
}

impl Comparison {
    /// Half of the interval as a share of the ratio, where there is one.
    #[must_use]
    pub fn half_width(&self) -> Option<f64> {
        let (ratio, low, high) = (self.ratio?, self.ci_low?, self.ci_high?);
        Some((high - low) / 2.0 / ratio)
    }

    /// Blocks that would decide it; more than there can be where no number does.
    #[must_use]
    pub fn needs(&self) -> u64 {
        self.blocks_needed.unwrap_or(u64::MAX)
    }

    /// The disturbance that can have moved it most; nothing where none can.
    #[must_use]
    pub fn disturbed_most_by(&self) -> Option<&BiasSource> {
        let moved = |source: &BiasSource| source.low.max(source.high);
        let others = self.bias.of.iter().filter(|source| source.what != SLOW_CHANGES);
        others.max_by(|a, b| moved(a).total_cmp(&moved(b)))
    }
}

/// All comparisons, primary metrics first; gates have the last word.
pub(crate) fn all(sheet: &Sheet, gates: &[Gate]) -> Vec<Comparison> {
    let mut rows: Vec<Comparison> = Metric::ALL
        .into_iter()
        .filter(|metric| sheet.condition_of(*metric).is_some())
        .flat_map(|metric| sheet.others().map(move |arm| (metric, arm)))
        .map(|(metric, arm)| open_row(sheet, arm, metric))
        .collect();
    for row in &mut rows {
        row.void_by = void_by(row, gates);
    }
    judge_family(&mut rows, level(sheet));
    rows
}

/// Blocks done so far.
pub(crate) fn blocks(sheet: &Sheet) -> u32 {
    sheet.rounds().iter().map(|record| record.round.block + 1).max().unwrap_or(0)
}

/// The level of a look at the blocks done so far.
fn level(sheet: &Sheet) -> f64 {
    match sheet.plan().design.blocks {
        Blocks::Fixed { .. } | Blocks::Fitted { .. } => looks::ONLY_LEVEL,
        Blocks::Looks { .. } => looks::level(blocks(sheet) as usize),
    }
}

/// Whether another look would tell no more of a row.
pub(crate) fn is_settled(row: &Comparison) -> bool {
    let verdict = match row.verdict {
        Verdict::Invalid => return true,
        Verdict::Slower => stats::verdict::Verdict::Slower,
        Verdict::Faster => stats::verdict::Verdict::Faster,
        Verdict::Equal => stats::verdict::Verdict::Equal,
        Verdict::Inconclusive => stats::verdict::Verdict::Inconclusive,
    };
    let (Some(low), Some(high), Some(level)) = (row.ci_low, row.ci_high, row.level) else { return false };
    looks::ends(verdict, &Interval { low, high, level }, &question(row))
}

fn question(row: &Comparison) -> Question {
    Question { delta: row.delta, least: row.metric.least(), higher_is: row.metric.higher_is() }
}

/// The row before any verdict: pairs, tests and noise floor.
fn open_row(sheet: &Sheet, arm: &str, metric: Metric) -> Comparison {
    let pairs = sheet.pairs(arm, metric);
    let differences = values(&pairs);
    let floor = noise_floor(sheet, arm, metric);
    let sd = descriptive::sd(&differences);
    let condition = sheet.condition_of(metric).expect("rows are made for metrics that have a condition");
    Comparison {
        baseline: sheet.baseline().to_owned(),
        arm: arm.to_owned(),
        metric,
        primary: sheet.primary(arm).contains(&metric),
        condition: sheet.describe(condition),
        // More blocks decide nothing about an arm that does not work.
        verdict: if works(sheet, sheet.baseline()) && works(sheet, arm) {
            Verdict::Inconclusive
        } else {
            Verdict::Invalid
        },
        ratio: None,
        ci_low: None,
        ci_high: None,
        level: None,
        p_wilcoxon: paired::wilcoxon(&differences).ok().map(|test| test.p),
        p_sign_flip: sign_flip(sheet.plan().seed, &differences),
        blocks: pairs.len() as u32,
        paired_sd: sd,
        noise_floor: floor.as_ref().map(|floor| floor.value),
        noise_floor_from: floor.map(|floor| floor.from.to_owned()),
        delta: metric.delta(),
        blocks_needed: None,
        undecided_by: None,
        block_ratios: differences.iter().map(|difference| difference.exp()).collect(),
        bias: bias(sheet, arm, metric),
        pairs,
        void_by: Vec::new(),
    }
}

/// Whether an arm has gone through a round, or was in none yet.
fn works(sheet: &Sheet, arm: &str) -> bool {
    let mut rounds = sheet.run.rounds.iter().filter(|record| record.arm == arm).peekable();
    rounds.peek().is_none() || rounds.any(|record| record.failure.is_none())
}

impl BiasFindings {
    fn add(&mut self, sources: impl IntoIterator<Item = BiasSource>) {
        for source in sources {
            self.low += source.low;
            self.high += source.high;
            self.of.push(source);
        }
    }
}

fn bias(sheet: &Sheet, arm: &str, metric: Metric) -> BiasFindings {
    let mut bias = BiasFindings::default();
    bias.add(biases(sheet, arm, metric));
    bias
}

fn values(pairs: &[(u32, f64)]) -> Vec<f64> {
    pairs.iter().map(|(_, difference)| *difference).collect()
}

fn sign_flip(seed: u64, differences: &[f64]) -> Option<f64> {
    paired::sign_flip(differences, &mut Rng::seeded(seed)).ok().map(|test| test.p)
}

fn void_by(row: &Comparison, gates: &[Gate]) -> Vec<GateId> {
    let against = |gate: &&Gate| [&row.arm, &row.baseline].iter().any(|arm| gate.is_against(arm, row.metric));
    let mut ids: Vec<GateId> = gates.iter().filter(against).map(|gate| gate.id).collect();
    ids.dedup();
    ids
}

/// Judges the primary metrics as one family by Holm's steps, the others each at the look's own level.
fn judge_family(rows: &mut [Comparison], level_of_look: f64) {
    let family: Vec<usize> = rows
        .iter()
        .enumerate()
        .filter(|(_, row)| row.primary && row.void_by.is_empty())
        .map(|(index, _)| index)
        .collect();
    let p_values: Vec<f64> = family.iter().map(|index| rows[*index].p_wilcoxon.unwrap_or(1.0)).collect();
    let decisions =
        holm::decide(&p_values, level_of_look).expect("p-values and levels come from the same crate");
    for (index, row) in rows.iter_mut().enumerate() {
        let place = family.iter().position(|member| *member == index);
        let level = place.map_or(level_of_look, |place| decisions[place].level);
        judge(row, level);
    }
}

fn judge(row: &mut Comparison, level: f64) {
    let differences = values(&row.pairs);
    // So few pairs that no exact interval attains the level: the widest there is, and its own level is printed.
    let estimate = paired::estimate_or_widest(&differences, level);
    let Ok(estimate) = estimate else {
        if !row.void_by.is_empty() {
            row.verdict = Verdict::Invalid;
        }
        return;
    };
    // What disturbed the arms is part of what is not known, and so is what changed so slowly that neighbouring blocks have it in common.
    let disturbed = Bias { low: row.bias.low, high: row.bias.high };
    let slow = slow_changes(&estimate, serial::widening(&differences));
    let slowly = slow.as_ref().map_or(Bias::default(), |slow| Bias { low: slow.low, high: slow.high });
    row.bias.add(slow);
    let by_chance = estimate.widened(slowly);
    let estimate = by_chance.widened(disturbed);
    show(row, &estimate);
    let decided = decide(&estimate, &question(row)).into();
    row.verdict = match (row.void_by.is_empty(), estimate.interval.level >= SHOWABLE_LEVEL) {
        (false, _) => Verdict::Invalid,
        (true, false) => Verdict::Inconclusive,
        (true, true) => decided,
    };
    if row.verdict == Verdict::Inconclusive {
        let fewest = paired::min_pairs(level.max(SHOWABLE_LEVEL)) as u64;
        let (by, needed) = match decided.is_decided() {
            true => (UndecidedBy::TooFewBlocks, Some(fewest.max(u64::from(row.blocks) + 1))),
            false => by_more_blocks(row, &by_chance, disturbed, fewest),
        };
        (row.undecided_by, row.blocks_needed) = (Some(by), needed);
    }
}

/// Whether more blocks would decide a row whose interval leaves it open, and how many: `fewest` at least.
///
/// Of what the interval leaves open they narrow what is due to chance, and not what a disturbance can have moved.
fn by_more_blocks(
    row: &Comparison,
    by_chance: &Estimate,
    disturbed: Bias,
    fewest: u64,
) -> (UndecidedBy, Option<u64>) {
    let room = room(by_chance.value, disturbed, &question(row));
    if room <= 0.0 {
        return (UndecidedBy::Disturbance, None);
    }
    // What is seen so far may be chance: blocks enough are those that find a difference that matters, where a disturbance leaves
    // that to be found.
    let matters = question(row).delta - disturbed.low.max(disturbed.high);
    let room = if matters > 0.0 { matters } else { room };
    let (done, differences) = (f64::from(row.blocks), values(&row.pairs));
    let narrower = (done * (by_chance.interval.half_width() / room).powi(2)).ceil() as u64;
    let sd = row.paired_sd.unwrap_or(0.0) * serial::widening(&differences);
    let by_spread = blocks_needed(sd, room).unwrap_or(u64::MAX);
    (UndecidedBy::Spread, Some(by_spread.max(narrower).max(fewest).max(u64::from(row.blocks) + 1)))
}

/// How far an interval due to chance may reach from `value` on either side and still decide, beside what a disturbance can have
/// moved: that it differs, or that it does not. Nothing is left where that is 0 or less.
fn room(value: f64, disturbed: Bias, question: &Question) -> f64 {
    let [low, high] = [value - disturbed.low, value + disturbed.high];
    let named = value.exp_m1().abs() >= question.least;
    let differs = if !named { 0.0 } else { low.max(-high) };
    let same = (low - (-question.delta).ln_1p()).min(question.delta.ln_1p() - high);
    differs.max(same)
}

/// By how much an interval must be wider on either side to be so many times as wide.
fn slow_changes(estimate: &Estimate, times: f64) -> Option<BiasSource> {
    let more = times - 1.0;
    let Interval { low, high, .. } = estimate.interval;
    (more > 0.0).then(|| BiasSource {
        what: SLOW_CHANGES.to_owned(),
        low: (estimate.value - low) * more,
        high: (high - estimate.value) * more,
    })
}

/// Below this level an interval is printed but decides nothing: five pairs attain 93.75 %, six 96.9 %.
const SHOWABLE_LEVEL: f64 = 0.95;

fn show(row: &mut Comparison, estimate: &Estimate) {
    let interval = estimate.ratio_interval();
    row.ratio = Some(estimate.ratio());
    row.ci_low = Some(interval.low);
    row.ci_high = Some(interval.high);
    row.level = Some(interval.level);
}

struct Floor {
    value: f64,
    from: &'static str,
}

/// The smallest difference this run can show: from the second copy of the baseline where there is one, else from how
/// far each arm moves from one block to the next.
fn noise_floor(sheet: &Sheet, arm: &str, metric: Metric) -> Option<Floor> {
    let pairs =
        sheet.second_baseline().map(|second| values(&sheet.pairs(&second, metric))).unwrap_or_default();
    if let Ok(noise) = Noise::of_pairs(&pairs, FLOOR_LEVEL) {
        return Some(Floor { value: noise.floor, from: "second_baseline" });
    }
    within_run(sheet, arm, metric).map(|value| Floor { value, from: "within_run" })
}

/// Half-width of an interval for "no difference", from the successive differences of either arm with itself.
///
/// A pair of rounds of one arm in neighbouring blocks spreads like a pair of rounds of two equal arms, plus whatever
/// drifts between blocks; so this floor is at worst too high.
/// Source: von Neumann, "Distribution of the ratio of the mean square successive difference", 1941.
fn within_run(sheet: &Sheet, arm: &str, metric: Metric) -> Option<f64> {
    let mut successive = sheet.successive(sheet.baseline(), metric);
    successive.extend(sheet.successive(arm, metric));
    let blocks = sheet.pairs(arm, metric).len();
    if successive.len() < 4 || blocks == 0 {
        return None;
    }
    let mean_square = successive.iter().map(|d| d * d).sum::<f64>() / successive.len() as f64;
    Some((FLOOR_Z * mean_square.sqrt() / (blocks as f64).sqrt()).exp_m1())
}
