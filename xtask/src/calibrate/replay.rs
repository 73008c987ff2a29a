//! Runs made up from the turns of a recorded one: the noise is that of a real machine, the truth is known.
//!
//! A recording is a run of one server against itself. A made-up run takes successive blocks of it from a random place, and a
//! coin says for each which of the two arms is the baseline. So nothing is different between the arms but what is planted.

use std::fmt::Write as _;
use std::path::{Path, PathBuf};

use analyse::Metric;
use anyhow::{Context, bail, ensure};
use model::plan::Blocks;
use model::record::{Host, Manifest, RoundRecord, Run, RunDir, Slice, Window};
use serde::{Deserialize, Serialize};
use stats::{Rng, descriptive, looks};

use crate::shell::root;

/// The recording where `--from` names no run.
const FIXTURE: &str = "xtask/fixture/slices.ndjson";
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

/// A recorded run of one server against itself.
#[derive(Debug, Clone)]
pub(super) struct Recording {
    head: Head,
    blocks: Vec<Block>,
}

/// What is different in a made-up run.
#[derive(Debug, Clone, Copy)]
pub(super) struct Planted {
    /// How many times the second arm's CPU time per request is that of the first.
    pub(super) ratio: f64,
    /// How many times the recorded noise there is.
    pub(super) noise: f64,
}

impl Recording {
    /// The recording in the file of the workspace, or the run in the folder `from`.
    pub(super) fn open(from: Option<&Path>) -> anyhow::Result<Self> {
        let Some(from) = from else { return Self::read(&root().join(FIXTURE)) };
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

    /// Keeps it as the recording of the workspace, without what tells where it was made.
    pub(super) fn keep(&self) -> anyhow::Result<()> {
        let mut text = serde_json::to_string(&self.head)?;
        for block in &self.blocks {
            write!(text, "\n{}", serde_json::to_string(block)?)?;
        }
        text.push('\n');
        ensure!(text.len() <= MOST_BYTES, "{} bytes are too many: record fewer blocks", text.len());
        let file = root().join(FIXTURE);
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
        let run = self.made_up(0, self.len() as u32, |_| false, Planted { ratio: 1.0, noise: 1.0 });
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
        let start = random.below(self.len() as u64) as usize;
        let coins: Vec<bool> = (0..looks::LOOKS[2]).map(|_| random.coin()).collect();
        let mut blocks = looks::LOOKS[0] as u32;
        loop {
            let run = self.made_up(start, blocks, |block| coins[block], planted);
            match extend(&run) {
                Some(more) => blocks = more,
                None => return run,
            }
        }
    }

    fn made_up(&self, start: usize, blocks: u32, is_turned: impl Fn(usize) -> bool, planted: Planted) -> Run {
        let mut manifest = self.head.manifest.clone();
        let [first, .., max] = looks::LOOKS.map(|look| look as u32);
        manifest.plan.design.blocks = Blocks::Looks { first, max };
        let mut rounds = Vec::new();
        for block in 0..blocks {
            let index = block as usize;
            let mut sides = quieter(&self.blocks[(start + index) % self.len()], planted.noise);
            if is_turned(index) {
                sides.reverse();
            }
            for (arm, side) in sides.iter().enumerate() {
                let ratio = if arm == 1 { planted.ratio } else { 1.0 };
                rounds.push(self.round(block, arm, side, ratio));
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

    /// A round of an arm whose requests cost `ratio` times what they did: at capacity it answers so many fewer.
    fn round(&self, block: u32, arm: usize, side: &Side, ratio: f64) -> RoundRecord {
        let mut record = self.head.round.clone();
        (record.round.block, record.round.arm, record.round.position) = (block, arm, arm as u32);
        record.arm.clone_from(&self.head.manifest.plan.arms[arm].name);
        let length_ns = self.head.manifest.fitted.turn_ns;
        let fewer = |count: u64| (count as f64 / ratio).round() as u64;
        let slice = |(cycle, turn): (usize, &[u64; 8])| Slice {
            cycle: cycle as u32,
            turn: (2 * cycle + arm) as u32,
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
        let each = |turn: &[u64; 8]| (turn[2] as f64 / turn[0] as f64).ln();
        let middle = (each(a) + each(b)) / 2.0;
        for turn in [a, b] {
            turn[2] = ((middle + noise * (each(turn) - middle)).exp() * turn[0] as f64).round() as u64;
            for taken in &mut turn[4..] {
                *taken = (*taken as f64 * noise).round() as u64;
            }
        }
    }
    block
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
