//! Runs made up from the turns of a recorded one: the noise is that of a real machine, the truth is known.
//!
//! A recording is a run of one server against itself. A made-up run takes successive blocks of it from a random place, and a
//! coin says for each which of the two arms is the baseline. So nothing is different between the arms but what is planted. A
//! further arm has the turns of one of these, at a CPU time that is made up from other blocks, so that any two arms differ by as much noise.

use std::f64::consts::SQRT_2;
use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use analyse::Metric;
use anyhow::{Context, bail, ensure};
use model::plan::{Arm, Blocks, Plan};
use model::record::{Host, Manifest, RoundRecord, Run, RunDir, Slice, Window};
use serde::{Deserialize, Serialize};
use stats::{Rng, descriptive, looks};

use crate::shell::root;

/// How a page says what repeats it elsewhere.
pub(super) const OF_YOUR_OWN: &str = "with a recording of your own (`whyslow compare a=… b=…` of one server, `--blocks 60 --equal-rates none`) \
     by `--from RUN`";
/// Most bytes of a recording that is kept.
const MOST_BYTES: usize = 200 * 1024;
/// Nanoseconds in the unit in which a recording has times that need no more.
const US: u64 = 1000;

/// What all blocks of a recording share: the first line of its file.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Head {
    /// Seconds from the begin of one block to that of the next.
    block_s: f64,
    manifest: Manifest,
    host: Host,
    /// A round in which nothing stands that differs from one to the next.
    round: RoundRecord,
}

/// One arm in one block.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Side {
    /// Nanoseconds of the window: CPU time of the target and of the generator, as user and system time of each; user, system
    /// and idle time of the server's CPUs; the time for which these were watched.
    window: [u64; 8],
    /// Turns: requests, those in time, CPU time in nanoseconds; then in microseconds the time of the turn and what the other arm,
    /// other processes, the hypervisor and a quota took.
    turns: Vec<[u64; 8]>,
}

/// The two arms of one block: a line of the file.
type Block = [Side; 2];

/// The recordings in the workspace: what `--from` takes the place of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Kept {
    /// Of a machine that other programs load: a shared runner.
    Crowded,
    /// Of one that is otherwise idle.
    Quiet,
}

impl Kept {
    fn file(self) -> PathBuf {
        root().join("xtask/fixture").join(match self {
            Self::Crowded => "crowded.ndjson",
            Self::Quiet => "quiet.ndjson",
        })
    }
}

/// A recorded run of one server against itself.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    head: Head,
    blocks: Vec<Block>,
}

/// What is different in a made-up run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planted<'a> {
    /// How many times the CPU time per request of each further arm is that of the first, one at least.
    pub(super) ratios: &'a [f64],
    /// How many times the recorded noise there is.
    pub(super) noise: f64,
}

/// Blocks drawn from a recording: successive ones, each either way round.
#[derive(Debug, Clone)]
struct Draw {
    start: usize,
    coins: Vec<bool>,
}

impl Draw {
    /// Blocks enough for the last look, from a random place.
    fn random(random: &mut Rng, recording: &Recording) -> Self {
        let start = random.below(recording.len() as u64) as usize;
        Self { start, coins: (0..looks::LOOKS[2]).map(|_| random.coin()).collect() }
    }

    /// The block of a made-up run at `index`.
    fn block(&self, recording: &Recording, index: usize) -> Block {
        let mut block = recording.blocks[(self.start + index) % recording.len()].clone();
        if self.coins[index] {
            block.reverse();
        }
        block
    }
}

impl Recording {
    /// The run in the folder `from`, or a recording of the workspace.
    pub(super) fn open(from: Option<&Path>, kept: Kept) -> anyhow::Result<Self> {
        let Some(from) = from else { return Self::read(&kept.file()) };
        let run = RunDir::open(from).read()?;
        Self::from_run(&run).with_context(|| format!("{} cannot be replayed", from.display()))
    }

    fn read(file: &PathBuf) -> anyhow::Result<Self> {
        let text =
            std::fs::read_to_string(file).with_context(|| format!("cannot read {}", file.display()))?;
        let mut lines = text.lines();
        let head =
            serde_json::from_str(lines.next().unwrap_or_default()).context("the recording has no head")?;
        let blocks = lines.map(serde_json::from_str).collect::<Result<Vec<Block>, _>>();
        Ok(Self { head, blocks: blocks.context("a block of the recording is damaged")? })
    }

    /// Keeps it as a recording of the workspace, without what tells where it was made.
    pub(super) fn keep(&self, kept: Kept) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(&self.head)?;
        for block in &self.blocks {
            write!(text, "\n{}", serde_json::to_string(block)?)?;
        }
        text.push('\n');
        ensure!(text.len() <= MOST_BYTES, "{} bytes are too many: record fewer blocks", text.len());
        let file = kept.file();
        std::fs::write(&file, text).with_context(|| format!("cannot write {}", file.display()))
    }

    /// The turns of `run`, which has to be of two arms that took turns at capacity.
    fn from_run(run: &Run) -> anyhow::Result<Self> {
        let counted = analyse::counted_rounds(run);
        let [first, second] = &run.manifest.plan.arms[..] else {
            bail!("it does not compare two arms");
        };
        let of = |name: &str, block: u32| {
            counted.iter().find(|record| record.arm == name && record.round.block == block).copied()
        };
        let last = counted.iter().map(|record| record.round.block).max().unwrap_or(0);
        let blocks: Vec<Block> = (0..=last)
            .filter_map(|block| Some([side(of(&first.name, block)?)?, side(of(&second.name, block)?)?]))
            .collect();
        ensure!(blocks.len() >= looks::LOOKS[0], "it has fewer than {} blocks", looks::LOOKS[0]);
        let begins = counted.iter().map(|record| record.started_unix_ms);
        let took_ms = begins.clone().max().unwrap_or(0) - begins.min().unwrap_or(0);
        let round = (*counted.first().context("it has no round")?).clone();
        let head = Head {
            block_s: took_ms as f64 / 1e3 / f64::from(last.max(1)),
            manifest: anonymous(run.manifest.clone()),
            host: Host { loopback_bytes_per_s: run.host.loopback_bytes_per_s, ..Host::unknown() },
            round: bare(round),
        };
        Ok(Self { head, blocks })
    }

    /// Blocks in it.
    pub(super) fn len(&self) -> usize {
        self.blocks.len()
    }

    /// Seconds that one block took.
    pub(super) fn block_s(&self) -> f64 {
        self.head.block_s
    }

    /// CPUs that other processes had meanwhile.
    pub(super) fn others(&self) -> f64 {
        let turns = || self.blocks.iter().flatten().flat_map(|side| &side.turns);
        turns().map(|turn| turn[5]).sum::<u64>() as f64
            / turns().map(|turn| turn[3]).sum::<u64>().max(1) as f64
    }

    /// Standard deviation of the log-ratio of CPU per request from block to block.
    pub(super) fn spread(&self) -> f64 {
        let whole = Draw { start: 0, coins: vec![false; self.len()] };
        let run = self.made_up(self.len() as u32, &[whole], Planted { ratios: &[1.0], noise: 1.0 });
        let rows = analyse::comparisons(&run);
        let row = rows.iter().find(|row| row.metric == Metric::CpuPerRequest);
        let ratios = row.map(|row| row.pairs.iter().map(|(_, ln)| *ln).collect::<Vec<f64>>());
        ratios.and_then(|ratios| descriptive::sd(&ratios)).unwrap_or(f64::NAN)
    }

    /// A comparison that goes on from look to look while `extend` asks for more blocks.
    pub(super) fn compare(
        &self,
        random: &mut Rng,
        planted: Planted,
        extend: impl Fn(&Run) -> Option<u32>,
    ) -> Run {
        // The first two arms have the first, all others share the second, and each of them has its own.
        let draws = match planted.ratios.len() {
            1 => 1,
            others => 1 + others,
        };
        let draws: Vec<Draw> = (0..draws).map(|_| Draw::random(random, self)).collect();
        let mut blocks = looks::LOOKS[0] as u32;
        loop {
            let run = self.made_up(blocks, &draws, planted);
            match extend(&run) {
                Some(more) => blocks = more,
                None => return run,
            }
        }
    }

    fn made_up(&self, blocks: u32, draws: &[Draw], planted: Planted) -> Run {
        let mut manifest = self.head.manifest.clone();
        let [first, .., max] = looks::LOOKS.map(|look| look as u32);
        let plan = &mut manifest.plan;
        plan.design.blocks = Blocks::Looks { first, max };
        for number in plan.arms.len()..=planted.ratios.len() {
            plan.arms.push(Arm { name: format!("arm{number}"), ..plan.arms[1].clone() });
        }
        let mut rounds = Vec::new();
        for block in 0..blocks {
            let sides = self.sides(block as usize, draws, planted.noise);
            let ratios = std::iter::once(&1.0).chain(planted.ratios);
            for (arm, (side, ratio)) in sides.iter().zip(ratios).enumerate() {
                rounds.push(self.round(&manifest.plan, block, arm, side, *ratio));
            }
        }
        Run {
            manifest,
            host: self.head.host.clone(),
            answers: Vec::new(),
            rounds,
            diagnostics: Vec::new(),
            interventions: Vec::new(),
            damaged: Vec::new(),
        }
    }

    /// What all arms do in the block at `index`.
    fn sides(&self, index: usize, draws: &[Draw], noise: f64) -> Vec<Side> {
        let pair = draws[0].block(self, index);
        let mut sides = Vec::from(quieter(&pair, noise));
        if let [_, shared, own @ ..] = draws {
            let turns_of = &pair[usize::from(shared.coins[index])];
            let shared = shared.block(self, index);
            let further = |own: &Draw| beside(turns_of, &pair, &shared, &own.block(self, index), noise);
            sides.extend(own.iter().map(further));
        }
        sides
    }

    /// A round of an arm whose requests cost `ratio` times what they did: at capacity it answers so many fewer.
    fn round(&self, plan: &Plan, block: u32, arm: usize, side: &Side, ratio: f64) -> RoundRecord {
        let mut record = self.head.round.clone();
        (record.round.block, record.round.arm, record.round.position) = (block, arm, arm as u32);
        record.arm.clone_from(&plan.arms[arm].name);
        let length_ns = self.head.manifest.fitted.turn_ns;
        let fewer = |count: u64| (count as f64 / ratio).round() as u64;
        let slice = |(cycle, turn): (usize, &[u64; 8])| Slice {
            cycle: cycle as u32,
            turn: (plan.arms.len() * cycle + arm) as u32,
            start_ns: 0,
            length_ns,
            requests: fewer(turn[0]),
            in_time: fewer(turn[1]),
            cpu_ns: turn[2],
            wall_ns: turn[3] * US,
            idle_arms_ns: turn[4] * US,
            others_ns: turn[5] * US,
            steal_ns: turn[6] * US,
            throttled_ns: turn[7] * US,
        };
        let window = &mut record.windows[0];
        window.slices = side.turns.iter().enumerate().map(slice).collect();
        fill(window, &side.window);
        record
    }
}

/// The sums of a window, from its slices and from what was kept beside them.
fn fill(window: &mut Window, kept: &[u64; 8]) {
    let sum = |of: fn(&Slice) -> u64| window.slices.iter().map(of).sum::<u64>();
    let (requests, in_time, wall_ns) =
        (sum(|slice| slice.requests), sum(|slice| slice.in_time), sum(|slice| slice.wall_ns));
    let length_ns = sum(|slice| slice.length_ns).max(1);
    let each = window.load.bytes_read as f64 / window.load.requests.max(1) as f64;
    window.load.bytes_read = (each * requests as f64).round() as u64;
    window.load.requests = requests;
    window.load.window_ns = length_ns;
    window.load.rate_per_s = in_time as f64 * 1e9 / length_ns as f64;
    window.target.cpu.total_ns = sum(|slice| slice.cpu_ns);
    (window.target.cpu.user_ns, window.target.cpu.system_ns) = (kept[0], kept[1]);
    (window.generator.cpu.user_ns, window.generator.cpu.system_ns) = (kept[2], kept[3]);
    window.generator.cpu.total_ns = kept[2] + kept[3];
    (window.target.wall_ns, window.generator.wall_ns) = (wall_ns, wall_ns);
    window.server_cpus.others_ns = sum(|slice| slice.others_ns);
    window.server_cpus.steal_ns = sum(|slice| slice.steal_ns);
    (window.server_cpus.user_ns, window.server_cpus.system_ns, window.server_cpus.idle_ns) =
        (kept[4], kept[5], kept[6]);
    window.server_cpus.wall_ns = kept[7];
}

/// One arm of one block as it is kept; nothing where it took no turns.
fn side(record: &RoundRecord) -> Option<Side> {
    let window = record.windows.first().filter(|window| !window.slices.is_empty())?;
    let (target, generator, host) = (&window.target.cpu, &window.generator.cpu, &window.server_cpus);
    let turn = |slice: &Slice| {
        let taken =
            [slice.idle_arms_ns, slice.others_ns, slice.steal_ns, slice.throttled_ns].map(|ns| ns / US);
        [
            slice.requests,
            slice.in_time,
            slice.cpu_ns,
            slice.wall_ns / US,
            taken[0],
            taken[1],
            taken[2],
            taken[3],
        ]
    };
    Some(Side {
        window: [
            target.user_ns,
            target.system_ns,
            generator.user_ns,
            generator.system_ns,
            host.user_ns,
            host.system_ns,
            host.idle_ns,
            host.wall_ns,
        ],
        turns: window.slices.iter().map(turn).collect(),
    })
}

/// The same block on a machine with so many times its noise: what is apart between the two arms of a cycle is as much
/// less, and so is what others took.
fn quieter(block: &Block, noise: f64) -> Block {
    let mut block = block.clone();
    let [first, second] = &mut block;
    for (a, b) in first.turns.iter_mut().zip(&mut second.turns) {
        if a[0] == 0 || b[0] == 0 {
            continue;
        }
        let middle = (cost_ln(a) + cost_ln(b)) / 2.0;
        for turn in [a, b] {
            turn[2] = ((middle + noise * (cost_ln(turn) - middle)).exp() * turn[0] as f64).round() as u64;
            for taken in &mut turn[4..] {
                *taken = (*taken as f64 * noise).round() as u64;
            }
        }
    }
    block
}

/// ln of the CPU time of a request in a turn, in nanoseconds.
fn cost_ln(turn: &[u64; 8]) -> f64 {
    (turn[2] as f64 / turn[0] as f64).ln()
}

/// An arm beside the two of `pair`, on a machine with so many times its noise: it has the turns of one of them, at a CPU time of its own.
///
/// The arms of a pair are `middle + d` and `middle - d`, where the variance of `d` is half of that of one arm's noise. This arm is
/// `middle + d' + √2 · d''`, where `d'` is that of the block that further arms share and `d''` that of its own block. So the difference
/// of any two arms has the same variance, and differences with one arm in common are correlated by one half, as those of independent
/// arms are.
fn beside(turns_of: &Side, pair: &Block, shared: &Block, own: &Block, noise: f64) -> Side {
    let mut side = turns_of.clone();
    for (cycle, turn) in side.turns.iter_mut().enumerate() {
        for taken in &mut turn[4..] {
            *taken = (*taken as f64 * noise).round() as u64;
        }
        let costs = |block: &Block| {
            let turns = [block[0].turns.get(cycle)?, block[1].turns.get(cycle)?];
            turns.iter().all(|turn| turn[0] > 0).then(|| turns.map(cost_ln))
        };
        let (Some(pair), Some(shared), Some(own)) = (costs(pair), costs(shared), costs(own)) else {
            continue;
        };
        let half = |[a, b]: [f64; 2]| (a - b) / 2.0;
        let apart = half(shared) + SQRT_2 * half(own);
        let cost = (f64::midpoint(pair[0], pair[1]) + noise * apart).exp();
        turn[2] = (cost * turn[0] as f64).round() as u64;
    }
    side
}

/// What all rounds share: no turns, no figures of single turns.
fn bare(mut record: RoundRecord) -> RoundRecord {
    record.windows.truncate(1);
    for window in &mut record.windows {
        window.slices.clear();
        window.response_buckets.clear();
        window.resources = None;
        window.load.url = String::new();
    }
    (record.started_unix_ms, record.port) = (0, 0);
    record
}

/// The same without paths and names of the machine on which it was made.
fn anonymous(mut manifest: Manifest) -> Manifest {
    manifest.command = vec!["whyslow".to_owned(), "compare".to_owned()];
    manifest.builds.clear();
    (manifest.run_id, manifest.started_unix_s) = ("recorded".to_owned(), 0);
    for arm in &mut manifest.plan.arms {
        (arm.run, arm.dir, arm.build_dir) = (vec!["server".to_owned()], None, None);
        arm.build.clear();
        arm.env.clear();
    }
    manifest
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn any_two_of_three_arms_differ_by_what_is_planted_and_by_noise_as_in_the_recording() {
        let recording = Recording::open(None, Kept::Crowded).unwrap();
        let mut spreads = [const { Vec::new() }; 3];
        for seed in 0..200 {
            let mut random = Rng::stream(seed, 3);
            let planted = Planted { ratios: &[1.0, 1.1], noise: 0.2 };
            let run = recording.compare(&mut random, planted, |_| None);
            for (place, [before, after], ratio) in [(0, [0, 1], 1.0), (1, [0, 2], 1.1), (2, [1, 2], 1.1)] {
                let found = analyse::analyse_from(&run, before);
                let is_asked = |row: &&analyse::Comparison| {
                    row.metric == Metric::CpuPerRequest && row.arm == run.manifest.plan.arms[after].name
                };
                let row = found.comparisons.iter().find(is_asked).unwrap();
                assert!(row.ratio.is_some_and(|found| (found / ratio - 1.0).abs() < 0.02), "{seed}: {row:?}");
                spreads[place].extend(row.pairs.iter().map(|(_, ln)| ln - f64::ln(ratio)));
            }
        }
        let spreads = spreads.map(|all: Vec<f64>| descriptive::sd(&all).unwrap());
        let want = 0.2 * recording.spread();
        assert!(spreads.iter().all(|spread| (spread / want - 1.0).abs() < 0.2), "{spreads:?}, {want}");
    }
}
