//! Thousands of simulated sessions: does the procedure keep what it promises?
//!
//! Each figure is printed with the seed and the sessions behind it; the bars leave room for three standard errors.

#![expect(clippy::print_stdout, reason = "the figures behind a pass or a failure are worth reading")]

use stats::verdict::{HigherIs, Question, Verdict, decide};
use stats::{Estimate, Rng, looks, paired, serial, signed_rank};

use crate::host::{CALM, HOSTS, Host, NOISY, ROUGH};

const SESSIONS: u64 = 2000;
const SEED: u64 = 0x5eed;
const ENOUGH: &str = "every simulated session has at least eight blocks";

/// As for CPU per request.
const QUESTION: Question = Question { delta: 0.02, least: 0.0025, higher_is: HigherIs::Worse };

/// Names whatever is seen, however small: the hardest for false alarms.
const ANY: Question = Question { least: 0.0, ..QUESTION };

/// Blocks and cycles of the quick design: where starting is cheap, as usual, and where it is dear.
const QUICK: (usize, usize) = (24, 4);
const DEAR: (usize, usize) = (8, 4);
/// Other numbers of blocks and cycles that a quick run may have.
const QUICKS: [(usize, usize); 5] = [DEAR, (12, 2), (16, 4), QUICK, (looks::MOST_QUICK, 6)];

/// Cycles in a block of the default design, and the most blocks.
const CYCLES: usize = 12;
const MOST: usize = looks::LOOKS[looks::LOOKS.len() - 1];

/// Sessions of one host.
fn sessions(host: &Host, blocks: usize, cycles: usize) -> Vec<Vec<f64>> {
    (0..SESSIONS).map(|number| host.session(&mut Rng::stream(SEED, number), blocks, cycles)).collect()
}

/// Share of the items for which `holds`, in per cent.
fn per_cent<T>(items: &[T], holds: impl Fn(&T) -> bool) -> f64 {
    items.iter().filter(|item| holds(item)).count() as f64 * 100.0 / items.len() as f64
}

/// Three standard errors of a share of so many, in per cent.
fn room(share: f64, of: u64) -> f64 {
    3.0 * (share * (100.0 - share) / of as f64).sqrt()
}

fn only_look(values: &[f64]) -> Estimate {
    paired::estimate(values, looks::ONLY_LEVEL).expect(ENOUGH)
}

fn look(values: &[f64], blocks: usize) -> Estimate {
    paired::estimate(&values[..blocks], looks::level(blocks)).expect(ENOUGH)
}

/// A run that is looked at until it decides, or until there are no more blocks.
fn looked_at(values: &[f64], question: &Question) -> (Estimate, Verdict) {
    let mut blocks = looks::LOOKS[0];
    loop {
        let seen = look(values, blocks);
        let verdict = decide(&seen, question);
        match looks::next(blocks, values.len()) {
            Some(next) if !looks::ends(verdict, &seen.ratio_interval(), question) => blocks = next,
            _ => return (seen, verdict),
        }
    }
}

fn names_a_winner(verdict: Verdict) -> bool {
    matches!(verdict, Verdict::Faster | Verdict::Slower)
}

#[test]
fn intervals_cover_the_truth_on_any_host() {
    for host in HOSTS {
        let host = host.with_effect(0.01);
        for (blocks, cycles) in [(6, CYCLES), (14, CYCLES), (24, CYCLES)].into_iter().chain(QUICKS) {
            let found: Vec<Estimate> =
                sessions(&host, blocks, cycles).iter().map(|values| only_look(values)).collect();
            let attained = found[0].interval.level * 100.0;
            let covered = per_cent(&found, |estimate| estimate.interval.contains(host.effect));
            println!(
                "{}, {blocks} × {cycles}: {covered:.1} % cover, {attained:.1} % promised ({SESSIONS} sessions)",
                host.name
            );
            // Few pairs have few levels: six keep 96.9 % and eight 96.1 %, close above the band or in its upper part.
            assert!((covered - attained).abs() <= room(attained, SESSIONS), "{}: {covered} %", host.name);
            assert!(covered >= 93.0 && (blocks <= 8 || covered <= 97.0), "{}: {covered} %", host.name);
        }
    }
}

#[test]
fn equal_arms_seldom_get_a_winner_however_often_one_looks() {
    for host in HOSTS {
        let quick = QUICKS.map(|(blocks, cycles)| {
            let sessions = sessions(&host, blocks, cycles);
            per_cent(&sessions, |values| names_a_winner(decide(&only_look(values), &ANY)))
        });
        let all =
            per_cent(&sessions(&host, MOST, CYCLES), |values| names_a_winner(looked_at(values, &ANY).1));
        println!("{}: false alarms {quick:.1?} % quick, {all:.1} % over all looks", host.name);
        let most = 5.0 + room(5.0, SESSIONS);
        assert!(quick.iter().all(|quick| *quick <= most), "{}: {quick:?} %", host.name);
        assert!(all <= most, "{}: {all} %", host.name);
    }
}

#[test]
fn the_interval_at_the_look_that_ends_a_run_covers_the_truth() {
    for effect in [0.0, 0.003, 0.005, 0.01] {
        for host in [CALM, ROUGH] {
            let host = host.with_effect(effect);
            let covered = per_cent(&sessions(&host, MOST, CYCLES), |values| {
                looked_at(values, &QUESTION).0.interval.contains(effect)
            });
            println!("{}, {effect}: {covered:.1} % cover where the run ended", host.name);
            // The intervals of all looks together miss in 5 % at most, so that the one that is reported does.
            assert!(covered >= 95.0 - room(95.0, SESSIONS), "{}, {effect}: {covered} %", host.name);
        }
    }
}

#[test]
fn half_a_per_cent_is_found_where_blocks_differ_by_as_much() {
    let host = CALM.with_effect(1.005_f64.ln()).with_block_sd(0.004);
    let runs: Vec<(Estimate, Verdict)> =
        sessions(&host, MOST, CYCLES).iter().map(|values| looked_at(values, &QUESTION)).collect();
    let found = per_cent(&runs, |run| run.1 == Verdict::Slower);
    let wrong = per_cent(&runs, |run| run.1 == Verdict::Faster);
    let after = |blocks| per_cent(&runs, |run| run.0.n == blocks);
    println!(
        "0.5 %: found in {found:.1} %, the wrong arm named in {wrong:.1} %; ended after 8, 14, 24 blocks: {:.0}, {:.0}, {:.0} %",
        after(8),
        after(14),
        after(24)
    );
    assert!(found >= 90.0 && wrong < 0.2, "{found} %, {wrong} % name the wrong arm");
}

/// What the number of starts is worth on a host whose blocks differ by 1 % and cycles by 1.2 %.
#[test]
fn many_starts_narrow_the_interval_more_than_long_blocks_do() {
    let host = CALM.with_block_sd(0.0105).with_noise_sd(0.0085);
    let half_width = |(blocks, cycles)| {
        let half = |values: &Vec<f64>| {
            let interval = only_look(values).interval;
            (interval.high - interval.low) / 2.0
        };
        let mut widths: Vec<f64> = sessions(&host, blocks, cycles).iter().map(half).collect();
        widths.sort_by(f64::total_cmp);
        widths[widths.len() / 2] * 100.0
    };
    let [few, many, most] = [(8, 18), QUICK, (looks::MOST_QUICK, 6)].map(half_width);
    println!("half width, median: {few:.2} % of 8 × 18, {many:.2} % of 24 × 4, {most:.2} % of 32 × 6");
    assert!(many < 0.7 * few && most < many, "{few} %, {many} %, {most} %");
}

#[test]
fn the_quick_design_finds_what_it_is_meant_for() {
    for (host, ratio, bar) in
        [(CALM, 1.03_f64, 99.0), (NOISY, 1.03, 95.0), (ROUGH, 1.03, 80.0), (ROUGH, 1.1, 90.0)]
    {
        let host = host.with_effect(ratio.ln());
        let verdicts: Vec<Verdict> = sessions(&host, QUICK.0, QUICK.1)
            .iter()
            .map(|values| decide(&only_look(values), &QUESTION))
            .collect();
        let found = per_cent(&verdicts, |verdict| *verdict == Verdict::Slower);
        let wrong = per_cent(&verdicts, |verdict| *verdict == Verdict::Faster);
        println!("{}, a ratio of {ratio}: found in {found:.1} % of quick sessions", host.name);
        assert!(found >= bar && wrong < 0.2, "{}: {found} %, {wrong} % name the wrong arm", host.name);
    }
}

#[test]
fn both_tests_agree_on_simulated_sessions() {
    let agree = per_cent(&sessions(&ROUGH, 12, CYCLES), |values| {
        let ranks = paired::wilcoxon(values).expect(ENOUGH).p;
        let flips = paired::sign_flip(values, &mut Rng::seeded(1)).expect(ENOUGH).p;
        (ranks <= 0.05) == (flips <= 0.05)
    });
    println!("rank test and sign flips agree in {agree:.1} % of sessions");
    assert!(agree >= 90.0, "{agree} %");
}

/// Runs behind a chance of false alarms: its standard error is 0.05 to 0.06 %.
const RUNS: u64 = 200_000;

/// The smaller of the sums of the ranks of positive and of negative values, which must not be alike in size.
fn smaller_rank_sum(values: &[f64]) -> usize {
    let mut order: Vec<f64> = values.to_vec();
    order.sort_unstable_by(|a, b| a.abs().total_cmp(&b.abs()));
    let positive: usize =
        order.iter().zip(1..).filter(|(value, _)| **value > 0.0).map(|(_, rank)| rank).sum();
    positive.min(order.len() * (order.len() + 1) / 2 - positive)
}

/// The interval at `level` excludes zero where the smaller rank sum is below this; the widest where there is none.
fn bar(blocks: usize, level: f64) -> usize {
    signed_rank::critical(blocks, level).map_or(1, |critical| critical.rank)
}

/// Signs and ranks of differences without a true one do not depend on how these are distributed, so that this is the chance
/// of a false alarm whatever is measured.
#[test]
fn all_looks_together_raise_a_false_alarm_in_five_of_a_hundred_runs() {
    let bars = looks::LOOKS.map(|blocks| bar(blocks, looks::level(blocks)));
    let mut alarms = [0_u32; looks::LOOKS.len() + 1];
    for run in 0..RUNS {
        let mut rng = Rng::stream(SEED, run);
        let values: [f64; MOST] =
            std::array::from_fn(|_| if rng.coin() { 1.0 } else { -1.0 } * (1.0 - rng.uniform()));
        let seen = looks::LOOKS.map(|blocks| smaller_rank_sum(&values[..blocks]));
        let alarm: Vec<bool> = seen.iter().zip(bars).map(|(seen, bar)| *seen < bar).collect();
        if run < 300 {
            let excluded = looks::LOOKS.map(|blocks| !look(&values, blocks).interval.contains(0.0));
            assert_eq!(alarm, excluded, "the short way to the answer is the right one");
        }
        alarms.iter_mut().zip(&alarm).for_each(|(count, alarm)| *count += u32::from(*alarm));
        alarms[looks::LOOKS.len()] += u32::from(alarm.contains(&true));
    }
    let [first, second, last, any] = alarms.map(|count| f64::from(count) * 100.0 / RUNS as f64);
    println!(
        "false alarms: {first:.2} % at 8, {second:.2} % at 14, {last:.2} % at 24 blocks; {any:.2} % at any ({RUNS} runs)"
    );
    assert!((4.7..=5.0 + room(5.0, RUNS)).contains(&any), "{any} %");
}

/// A way to judge several comparisons.
struct Family {
    what: &'static str,
    looks: &'static [usize],
    members: usize,
    /// Documented chance that any is named without cause, in per cent, for each of [`CORRELATIONS`].
    documented: [f64; 3],
}

const CORRELATIONS: [f64; 3] = [0.5, 0.9, 0.99];

const FAMILIES: [Family; 10] = [
    Family { what: "six blocks", looks: &[6], members: 2, documented: [5.9, 5.0, 3.8] },
    Family { what: "eight blocks", looks: &[8], members: 2, documented: [4.4, 3.6, 2.8] },
    Family { what: "sixteen blocks", looks: &[16], members: 2, documented: [4.7, 3.8, 2.9] },
    Family { what: "most quick", looks: &[looks::MOST_QUICK], members: 2, documented: [4.6, 3.7, 2.9] },
    Family { what: "all looks", looks: &looks::LOOKS, members: 2, documented: [4.2, 3.4, 2.7] },
    Family { what: "six blocks", looks: &[6], members: 4, documented: [11.4, 8.1, 4.9] },
    Family { what: "eight blocks", looks: &[8], members: 4, documented: [3.0, 2.3, 1.4] },
    Family { what: "sixteen blocks", looks: &[16], members: 4, documented: [4.1, 2.7, 1.7] },
    Family { what: "most quick", looks: &[looks::MOST_QUICK], members: 4, documented: [4.6, 3.1, 1.8] },
    Family { what: "all looks", looks: &looks::LOOKS, members: 4, documented: [5.4, 4.0, 2.2] },
];

impl Family {
    /// Blocks of each look with the bar of the strongest of its members. Nothing is named unless the strongest is.
    fn bars(&self) -> Vec<(usize, usize)> {
        let levels = if self.looks.len() == 1 { &[looks::ONLY_LEVEL][..] } else { &looks::LEVELS };
        let strongest = |level: f64| 1.0 - (1.0 - level) / self.members as f64;
        self.looks
            .iter()
            .zip(levels)
            .map(|(blocks, level)| (*blocks, bar(*blocks, strongest(*level))))
            .collect()
    }

    /// Whether any member of a family without differences is named at a look.
    fn alarm(&self, bars: &[(usize, usize)], correlation: f64, rng: &mut Rng) -> bool {
        let longest = bars.iter().map(|(blocks, _)| *blocks).fold(MOST, usize::max);
        let shared: Vec<f64> = (0..longest).map(|_| rng.normal()).collect();
        let own = (1.0 - correlation * correlation).sqrt();
        (0..self.members).any(|member| {
            let values = match member {
                0 => shared.clone(),
                _ => shared.iter().map(|value| correlation * value + own * rng.normal()).collect::<Vec<_>>(),
            };
            bars.iter().any(|(blocks, bar)| smaller_rank_sum(&values[..*blocks]) < *bar)
        })
    }
}

/// The figures in the documentation of `looks`.
#[test]
fn several_comparisons_together_raise_false_alarms_as_documented() {
    const SESSIONS: u64 = 60_000;
    for family in FAMILIES {
        let bars = family.bars();
        for (correlation, documented) in CORRELATIONS.into_iter().zip(family.documented) {
            let alarm = |run: &u64| family.alarm(&bars, correlation, &mut Rng::stream(SEED, *run));
            let share = (0..SESSIONS).filter(alarm).count() as f64 * 100.0 / SESSIONS as f64;
            let Family { what, members, .. } = family;
            println!(
                "{what}, {members} comparisons, correlation {correlation}: {share:.2} % ({SESSIONS} runs)"
            );
            assert!((share - documented).abs() <= room(documented, SESSIONS) + 0.05, "{what}: {share} %");
        }
    }
}

/// Values each of which keeps a share of the one before, of unit variance.
fn keeping(share: f64, number: usize, random: &mut Rng) -> Vec<f64> {
    let mut last = random.normal();
    let mut next = || {
        let value = last;
        last = share.mul_add(last, (1.0 - share * share).sqrt() * random.normal());
        value
    };
    (0..number).map(|_| next()).collect()
}

#[test]
fn blocks_that_go_together_get_a_wider_interval() {
    let (blocks, _) = QUICK;
    for (share, usual, wider) in
        [(0.0, [94.0, 96.0], 94.0), (0.4, [78.0, 85.0], 88.0), (0.6, [65.0, 73.0], 86.0)]
    {
        let all: Vec<Vec<f64>> =
            (0..SESSIONS).map(|number| keeping(share, blocks, &mut Rng::stream(SEED, number))).collect();
        let covers = |values: &Vec<f64>, times: f64| {
            let Estimate { value, interval, .. } = only_look(values);
            let low = value - (value - interval.low) * times;
            let high = value + (interval.high - value) * times;
            low <= 0.0 && 0.0 <= high
        };
        let as_is = per_cent(&all, |values| covers(values, 1.0));
        let widened = per_cent(&all, |values| covers(values, serial::widening(values)));
        let times = all.iter().map(|values| serial::widening(values)).sum::<f64>() / SESSIONS as f64;
        println!(
            "{share} kept: {as_is:.1} % cover, {widened:.1} % where {times:.2} times as wide on average"
        );
        assert!((usual[0]..=usual[1]).contains(&as_is), "{share}: {as_is} %");
        assert!(widened >= wider, "{share}: {widened} %");
        assert!(share > 0.0 || times < 1.06, "{times}");
    }
}
