use std::collections::BTreeMap;

use model::plan::{Condition, Plan};
use model::record::{RoundRecord, Run, Slice, Stops, Window};
use stats::cycles::BlockValue;
use stats::looks;
use stats::paired::min_pairs;
use stats::quantile::min_observations;

use super::metric::{Metric, in_window};
use super::shape::Shape;
use super::words::describe_condition;

/// What is added to the baseline's name to name its second copy.
pub const SECOND_BASELINE_SUFFIX: &str = "_again";

/// The run as the analysis sees it: which rounds count, and which condition answers which question.
pub(crate) struct Sheet<'a> {
    pub(crate) run: &'a Run,
    /// Index of the condition for CPU per request, rate and memory.
    pub(crate) main: usize,
    /// Index of the condition for latency, where arms meet the same rate.
    pub(crate) latency: Option<usize>,
    /// Rounds that count: one for each block and arm at most.
    rounds: Vec<&'a RoundRecord>,
}

/// Index of the condition under which CPU per request and rate are compared: capacity where it is among them.
#[must_use]
pub fn main_condition(plan: &Plan) -> usize {
    plan.workload.conditions.iter().position(|condition| *condition == Condition::Capacity).unwrap_or(0)
}

/// Index of the condition under which latency is compared: where arms meet the same rate.
pub(crate) fn latency_condition(conditions: &[Condition]) -> Option<usize> {
    conditions.iter().position(|condition| *condition != Condition::Capacity)
}

/// Index of the condition that answers `metric`; absent where no condition of `plan` does.
fn condition_of(plan: &Plan, metric: Metric) -> Option<usize> {
    if metric.is_latency() {
        return latency_condition(&plan.workload.conditions);
    }
    // At an equal rate the rate is what was asked for: there is nothing to compare.
    let main = main_condition(plan);
    let closed = plan.workload.conditions[main] == Condition::Capacity;
    (closed || metric != Metric::Rate).then_some(main)
}

/// Whether runs of `plan` compare arms in `metric`.
#[must_use]
pub fn is_compared(plan: &Plan, metric: Metric) -> bool {
    condition_of(plan, metric).is_some()
}

/// The rounds of `run` that count: those that did not fail and that no gate voids.
#[must_use]
pub fn counted_rounds(run: &Run) -> Vec<&RoundRecord> {
    Sheet::new(run).rounds
}

/// The name of the second copy that `plan` has of `baseline`.
pub(crate) fn second_baseline(plan: &Plan, baseline: &str) -> Option<String> {
    let name = format!("{baseline}{SECOND_BASELINE_SUFFIX}");
    (plan.design.second_baseline && plan.arms.iter().any(|arm| arm.name == name)).then_some(name)
}

impl<'a> Sheet<'a> {
    pub(crate) fn new(run: &'a Run) -> Self {
        let conditions = &run.manifest.plan.workload.conditions;
        let main = main_condition(&run.manifest.plan);
        let latency = latency_condition(conditions);
        let mut sheet = Self { run, main, latency, rounds: Vec::new() };
        run.rounds.iter().filter(|record| record.failure.is_none()).for_each(|record| sheet.add(record));
        sheet
    }

    /// A round that was repeated, in a run of when that was done, counts once, the last time.
    fn add(&mut self, record: &'a RoundRecord) {
        let same =
            |earlier: &&RoundRecord| earlier.arm == record.arm && earlier.round.block == record.round.block;
        self.rounds.retain(|earlier| !same(earlier));
        self.rounds.push(record);
    }

    pub(crate) fn plan(&self) -> &'a Plan {
        &self.run.manifest.plan
    }

    pub(crate) fn baseline(&self) -> &'a str {
        &self.plan().arms[self.plan().baseline].name
    }

    /// Names of the arms that are compared with the baseline. A second copy of the baseline is not among them: it shows how
    /// far equal arms differ.
    pub(crate) fn others(&self) -> impl Iterator<Item = &'a str> {
        let (plan, baseline) = (self.plan(), self.plan().baseline);
        let second = self.second_baseline();
        plan.arms
            .iter()
            .enumerate()
            .filter(move |(index, _)| *index != baseline)
            .map(|(_, arm)| arm.name.as_str())
            .filter(move |name| second.as_deref() != Some(*name))
    }

    /// Whether the CPU time of `arm` is known. It always is for a server that was started here; for one that was already
    /// running, only if its processes could be seen.
    pub(crate) fn is_observed(&self, arm: &str) -> bool {
        let runs = self.plan().arms.iter().any(|known| known.name == arm && known.source.running().is_some());
        !runs
            || self
                .rounds_of(arm)
                .flat_map(|record| &record.windows)
                .any(|window| window.target.cpu.total_ns > 0)
    }

    /// The metrics that decide between `arm` and the baseline.
    pub(crate) fn primary(&self, arm: &str) -> [Metric; 2] {
        let seen = self.is_observed(arm) && self.is_observed(self.baseline());
        if seen { Metric::PRIMARY } else { Metric::PRIMARY_UNSEEN }
    }

    pub(crate) fn second_baseline(&self) -> Option<String> {
        second_baseline(self.plan(), self.baseline())
    }

    /// Valid rounds of an arm in order of blocks.
    pub(crate) fn rounds_of(&self, arm: &str) -> impl Iterator<Item = &'a RoundRecord> + use<'a, '_> {
        let arm = arm.to_owned();
        self.rounds.iter().copied().filter(move |record| record.arm == arm)
    }

    /// All valid rounds.
    pub(crate) fn rounds(&self) -> &[&'a RoundRecord] {
        &self.rounds
    }

    /// Windows of an arm under the condition at `index`.
    pub(crate) fn windows(&self, arm: &str, index: usize) -> Vec<&'a Window> {
        self.rounds_of(arm).filter_map(|record| record.windows.get(index)).collect()
    }

    /// The condition's index that answers `metric`; absent where no condition does.
    pub(crate) fn condition_of(&self, metric: Metric) -> Option<usize> {
        condition_of(self.plan(), metric)
    }

    /// The condition in words, with the rate that the pilot resolved it to.
    pub(crate) fn describe(&self, index: usize) -> String {
        let resolved =
            self.rounds.iter().find_map(|record| record.windows.get(index)).map(|window| window.condition);
        describe_condition(resolved.unwrap_or(self.plan().workload.conditions[index]))
    }

    /// One value for each valid round of `arm`: `(block, value)`. Where a block has too few answers for a percentile, one for each
    /// group of as many blocks as have enough together: `(first block of the group, value)`. None where there are too few groups: of a
    /// longer first block alone it would be a choice.
    pub(crate) fn values(&self, arm: &str, metric: Metric) -> Vec<(u32, f64)> {
        let Some(index) = self.condition_of(metric) else { return Vec::new() };
        let grouped = metric.quantile().and_then(|quantile| Some((quantile, self.grouped(index, quantile)?)));
        match grouped {
            Some((quantile, each)) => self.of_groups(arm, index, quantile, each),
            None => {
                let figures = self.figures(arm, index, |window| metric.value_in(window));
                let of_all = figures.len() == self.rounds_of(arm).count();
                if of_all || metric.quantile().is_none() { figures } else { Vec::new() }
            }
        }
    }

    /// How many blocks together have answers enough for a percentile under the condition at `index`, where one has not; nothing where
    /// that leaves too few groups for an interval.
    fn grouped(&self, index: usize, quantile: f64) -> Option<u32> {
        let windows = || self.rounds.iter().filter_map(|record| record.windows.get(index));
        let fewest = windows().map(|window| window.load.response_ns.count).min()?.max(1);
        let each =
            u32::try_from(min_observations(quantile).div_ceil(fewest)).ok().filter(|each| *each > 1)?;
        let blocks = self.rounds.iter().map(|record| record.round.block + 1).max()?;
        let has_shapes = windows().all(|window| !window.response_buckets.is_empty());
        (has_shapes && (blocks / each) as usize >= min_pairs(looks::ONLY_LEVEL)).then_some(each)
    }

    /// A percentile of each whole group of `each` blocks of `arm`, all their answers together.
    fn of_groups(&self, arm: &str, index: usize, quantile: f64, each: u32) -> Vec<(u32, f64)> {
        let mut groups: BTreeMap<u32, Vec<&Window>> = BTreeMap::new();
        for record in self.rounds_of(arm) {
            groups.entry(record.round.block / each).or_default().extend(record.windows.get(index));
        }
        let whole = groups.into_iter().filter(|(_, windows)| windows.len() == each as usize);
        whole
            .filter_map(|(group, windows)| {
                Some((group * each, Shape::from_windows(&windows).percentile_ns(quantile)?))
            })
            .collect()
    }

    /// A figure of the window under the condition at `index`, for each valid round of `arm`: `(block, figure)`.
    pub(crate) fn figures(
        &self,
        arm: &str,
        index: usize,
        figure: impl Fn(&Window) -> Option<f64>,
    ) -> Vec<(u32, f64)> {
        self.rounds_of(arm)
            .filter_map(|record| Some((record.round.block, figure(record.windows.get(index)?)?)))
            .collect()
    }

    /// ln(arm / baseline) for each block in which both have a value: of what slices can tell the Hodges–Lehmann median over
    /// the block's cycles, else the ratio of their windows.
    pub(crate) fn pairs(&self, arm: &str, metric: Metric) -> Vec<(u32, f64)> {
        let Some(index) = self.condition_of(metric) else { return Vec::new() };
        let values = |arm: &str| self.values(arm, metric);
        let whole = by_block(&values(self.baseline()), &values(arm));
        let pair = |(block, [below, value]): (u32, [f64; 2])| {
            let cycles: Vec<f64> = self.cycles(block, arm, index, metric);
            let of_cycles = BlockValue::from_cycles(&cycles).ok().map(|found| found.value);
            (block, of_cycles.unwrap_or_else(|| (value / below).ln()))
        };
        whole.into_iter().map(pair).collect()
    }

    /// ln(arm / baseline) for each cycle of one block, in order.
    pub(crate) fn cycles(&self, block: u32, arm: &str, index: usize, metric: Metric) -> Vec<f64> {
        self.neighbours(block, arm, index)
            .filter_map(|[below, above]| Some((metric.of_slice(above)? / metric.of_slice(below)?).ln()))
            .collect()
    }

    /// ln(arm / baseline) of all slices of one block together; absent where slices cannot tell the metric.
    pub(crate) fn all_slices(&self, block: u32, arm: &str, index: usize, metric: Metric) -> Option<f64> {
        let mut sums = [Slice::default(), Slice::default()];
        for pair in self.neighbours(block, arm, index) {
            for (sum, slice) in sums.iter_mut().zip(pair) {
                // Each by its own rule: many turns of few answers are no turn of many.
                let (answers, ns) = slice.counted();
                sum.requests += slice.requests;
                sum.in_time += answers;
                sum.cpu_ns += slice.cpu_ns;
                sum.length_ns += ns;
                sum.wall_ns += slice.wall_ns;
            }
        }
        Some((metric.of_slice(&sums[1])? / metric.of_slice(&sums[0])?).ln())
    }

    /// The slices of the baseline and of `arm` in each cycle of one block under the condition at `index`.
    pub(crate) fn neighbours(
        &self,
        block: u32,
        arm: &str,
        index: usize,
    ) -> impl Iterator<Item = [&'a Slice; 2]> {
        let slices = |arm: &str| {
            let record = self.rounds_of(arm).find(|record| record.round.block == block);
            record.and_then(|record| record.windows.get(index)).map_or(&[][..], |window| &window.slices)
        };
        let (below, above) = (slices(self.baseline()), slices(arm));
        below.iter().filter_map(|below| Some([below, above.iter().find(|above| above.cycle == below.cycle)?]))
    }

    /// ln(later / earlier) for each two successive rounds of `arm`.
    pub(crate) fn successive(&self, arm: &str, metric: Metric) -> Vec<f64> {
        let values = self.values(arm, metric);
        values.windows(2).map(|pair| (pair[1].1 / pair[0].1).ln()).collect()
    }

    /// A count of the target per request, pooled over the valid rounds of `arm`: all counts over all requests, so that
    /// parts of a whole still sum to it.
    pub(crate) fn pooled(&self, arm: &str, index: usize, count: impl Fn(&Window) -> u64) -> Option<f64> {
        let windows = self.windows(arm, index);
        let requests: u64 = windows.iter().map(|window| window.load.requests).sum();
        let counted: f64 = windows.iter().map(|window| in_window(window, count(window))).sum();
        (requests > 0).then(|| counted / requests as f64)
    }

    /// How `arm` stopped for everybody in its pilot, if it did so more than another.
    pub(crate) fn stops(&self, arm: &str) -> Option<Stops> {
        let mut stopping = self.run.manifest.fitted.stopping.iter();
        stopping.find(|one| one.arm == arm).map(|one| one.stops)
    }

    /// Share of the time in which `arm` answers, 0 to 1: there is nothing to be busy with while it stops.
    pub(crate) fn answering(&self, arm: &str) -> f64 {
        (1.0 - self.stops(arm).map_or(0.0, |stops| stops.share())).max(f64::EPSILON)
    }

    /// Median over the valid rounds of `arm` of a figure of its window under the condition at `index`.
    pub(crate) fn median(
        &self,
        arm: &str,
        index: usize,
        figure: impl Fn(&Window) -> Option<f64>,
    ) -> Option<f64> {
        let values: Vec<f64> = self.windows(arm, index).into_iter().filter_map(figure).collect();
        stats::descriptive::median(&values)
    }

    /// The lowest and the highest of what [`Self::median`] is the median of.
    pub(crate) fn range(
        &self,
        arm: &str,
        index: usize,
        figure: impl Fn(&Window) -> Option<f64>,
    ) -> Option<[f64; 2]> {
        let values: Vec<f64> = self.windows(arm, index).into_iter().filter_map(figure).collect();
        Some([values.iter().copied().reduce(f64::min)?, values.iter().copied().reduce(f64::max)?])
    }
}

/// The values of each block in which both have one, first and second.
pub(crate) fn by_block(first: &[(u32, f64)], second: &[(u32, f64)]) -> Vec<(u32, [f64; 2])> {
    let of_first = |block: u32| first.iter().find(|(other, _)| *other == block).map(|(_, value)| *value);
    second.iter().filter_map(|(block, value)| Some((*block, [of_first(*block)?, *value]))).collect()
}
