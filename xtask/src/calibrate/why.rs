//! Explanation accuracy: servers into which a cause is planted, each against itself without it; which cause is named?

use std::collections::BTreeMap;
use std::collections::btree_map::Entry;
use std::fs;
use std::path::Path;

use anyhow::{Context, bail, ensure};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use stats::descriptive::quantile;

use super::matrix::{Kind, matrix};
use super::{Args, append, corpus, read};
use crate::shell::{command, root};

/// How a planted cause shows.
struct Plant {
    /// The variant with the cause.
    arm: &'static str,
    /// The same server without it.
    baseline: &'static str,
    /// Causes that are right: more than one where one thing has two names.
    right: &'static [&'static str],
    /// What the cause is made of: to name it first is wrong, to confirm it is not, for without it the cause is gone.
    made_of: &'static [&'static str],
    /// Load under which it shows, as flags.
    load: &'static [&'static str],
}

const fn plant(arm: &'static str, baseline: &'static str, right: &'static [&'static str]) -> Plant {
    Plant { arm, baseline, right, made_of: &[], load: &[] }
}

/// Every planted cause. The first row is a server against itself, for which no cause is right.
const PLANTS: [Plant; 33] = [
    plant("planted", "planted@none", &[]),
    plant("planted@syscall", "planted@none", &["extra_syscalls"]),
    plant("planted@bytewrites", "planted@none", &["small_writes"]),
    plant("planted@nagle", "planted@splitwrites", &["delayed_ack"]),
    plant("planted@mutex", "planted@wait", &["lock_contention"]),
    plant("planted@spinlock", "planted@wait", &["profile_locks"]),
    plant("planted@handoff", "planted@none", &["thread_handoff"]),
    plant("planted@fsync", "planted@none", &["sync_writes"]),
    plant("planted@accesslog", "planted@none", &["file_writes"]),
    plant("planted@bodycopy", "planted@none", &["copying"]),
    plant("planted@alloc", "planted@none", &["allocation"]),
    plant("planted@linearheaders", "planted@none", &["comparing"]),
    // Its acceptor takes its time by sleeping.
    Plant {
        load: &["--no-keep-alive"],
        made_of: &["sleep"],
        ..plant("planted@oneaccept", "planted@none", &["accept_queue"])
    },
    plant("planted@sleep", "planted@none", &["sleep"]),
    Plant { load: &["--no-keep-alive"], ..plant("planted@backlog", "planted@none", &["listen_backlog"]) },
    plant("planted@backend", "planted@none", &["backend_wait"]),
    plant("planted@timer", "planted@none", &["timer_wait"]),
    plant("planted@spin", "planted@none", &["own_code"]),
    plant("planted@pause", "planted@none", &["stalls"]),
    plant("planted@openfile", "planted@none", &["extra_syscalls"]),
    plant("planted@readtable", "planted@readrecord", &["costlier_calls"]),
    plant("planted@questions", "planted@question", &["backend_calls"]),
    // Its last answer on a connection says so, and is longer.
    Plant {
        load: &["--allow-difference"],
        ..plant("planted@shortlived", "planted@none", &["new_connections"])
    },
    plant("planted@mapping", "planted@none", &["kernel_memory"]),
    plant("planted@scan", "planted@none", &["readiness"]),
    plant("planted@spawn", "planted@none", &["child_processes"]),
    plant("planted@threads", "planted@none", &["short_threads"]),
    plant("planted@dates", "planted@none", &["profile_clocks_and_dates"]),
    plant("planted-go@alloc", "planted-go@none", &["allocation", "gc"]),
    plant("planted-go@gc", "planted-go@heap", &["gc"]),
    plant("planted-jvm@gc", "planted-jvm@none", &["gc"]),
    plant("planted-jvm@lock", "planted-jvm@wait", &["lock_contention"]),
    plant("planted-jvm@nojit", "planted-jvm@none", &["interpreter"]),
];

/// What the matrix is of.
const MATRIX: &str = "\nPlanted (rows) against named first (columns), in sessions, by kinds of causes. These plants are the training set: the rules \
    were written with them in sight. Of the sets of servers below that were written by others no runs are kept, so they have no matrix; \
    published slowdowns of real software have one [of their own](corpus.md).\n\n";
/// What follows it on the page was written by hand, and stays.
const BY_HAND: &str = "<!-- by hand -->";
/// What the part about planted causes begins with.
const PLANTED: &str =
    "Planted causes, each against the same server without it: the right cause is named first";
/// The page.
const PAGE: &str = "docs/benchmarks/why.md";
/// Where sessions are kept between calls.
const SESSIONS: &str = "why.ndjson";
/// Repetitions of every planted cause where `--runs` names no number.
const RUNS: u32 = 5;
/// Arms that share the rounds of a baseline in one session.
const ARMS_TOGETHER: usize = 6;
/// Blocks of a session: the fewest whose exact interval attains 95 %.
const BLOCKS: u32 = 6;
/// Blocks of the second session of arms whose first reached no verdict: on a noisy host it takes more of them.
const MORE_BLOCKS: u32 = 20;

/// What one session named.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Named {
    arm: String,
    run: u32,
    /// Ratio of CPU per request and of rate, arm over baseline.
    cpu_ratio: Option<f64>,
    rate_ratio: Option<f64>,
    /// Causes that were not ruled out, most important first, with what they carry of the gap.
    causes: Vec<(String, f64)>,
    /// Causes said to be confirmed.
    confirmed: Vec<String>,
    /// What the split into busy cores and CPU per request leaves of ln(rate ratio), as a share of it; absent of sessions
    /// in which it was not kept, or where there is nothing to split.
    #[serde(default)]
    residual: Option<f64>,
    /// Blocks of its session.
    #[serde(default = "fewest")]
    blocks: u32,
    /// Name of the run's directory.
    #[serde(default)]
    folder: String,
}

fn fewest() -> u32 {
    BLOCKS
}

impl Named {
    /// Place of the right cause, from 1; a server against itself is right when nothing is named.
    fn place(&self, plant: &Plant) -> Option<usize> {
        if plant.right.is_empty() {
            return self.causes.is_empty().then_some(1);
        }
        Some(self.causes.iter().position(|(id, _)| plant.right.contains(&id.as_str()))? + 1)
    }
}

/// Runs the sessions that are missing, and writes the confusion table.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    let folder = root().join("target/calibrate");
    fs::create_dir_all(&folder).context("cannot make target/calibrate")?;
    let file = folder.join(SESSIONS);
    if args.fresh && file.exists() {
        fs::remove_file(&file).context("cannot forget earlier sessions")?;
    }
    let program = args.program()?;
    let mut found: Vec<Named> = read(&file)?;
    if args.again {
        ensure!(
            !found.is_empty(),
            "no sessions are kept in {}: there is nothing to judge again",
            folder.display()
        );
        judge_again(&program, &mut found, &folder)?;
        let lines: Vec<String> = found.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
        model::record::write_atomically(&file, (lines.join("\n") + "\n").as_bytes())?;
    } else {
        measure(args, &program, &mut found, &folder)?;
    }
    let text = page(&found, &corpus::headline()?);
    print!("{text}");
    let before = fs::read_to_string(root().join(PAGE)).unwrap_or_default();
    let by_hand = before.split_once(BY_HAND).map_or("\n", |(_, rest)| rest);
    fs::create_dir_all(root().join("docs/benchmarks")).context("cannot make docs/benchmarks")?;
    write_page(&format!("{text}\n{BY_HAND}{by_hand}"))
}

fn write_page(text: &str) -> anyhow::Result<()> {
    model::record::write_atomically(&root().join(PAGE), text.as_bytes())
        .with_context(|| format!("cannot write {PAGE}"))
}

/// Begins the page with what the recorded slowdowns show today.
pub(super) fn tell_headline() -> anyhow::Result<()> {
    let text = fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    let (_, rest) = text.split_once(PLANTED).with_context(|| format!("{PAGE} has no planted causes"))?;
    write_page(&format!("{}{PLANTED}{rest}", beginning(&corpus::headline()?)))
}

/// The page up to the planted causes.
fn beginning(headline: &str) -> String {
    format!("# Explanation accuracy\n\n{headline} [They are listed](corpus.md).\n\n")
}

/// Runs the sessions that are missing.
fn measure(args: &Args, program: &str, found: &mut Vec<Named>, folder: &Path) -> anyhow::Result<()> {
    let mut left = args.sessions.unwrap_or(u32::MAX);
    for number in 0..args.runs.unwrap_or(RUNS) {
        let missing = PLANTS.iter().filter(|plant| {
            args.only.as_ref().is_none_or(|part| plant.arm.contains(part))
                && !found.iter().any(|one| one.arm == plant.arm && one.run == number)
        });
        for plants in together(missing) {
            if left == 0 {
                return Ok(());
            }
            left -= 1;
            let session = Session { program, number, confirm: args.confirm, folder };
            for one in session.decided(&plants)? {
                println!("{} {}: {:?}", number + 1, one.arm, one.causes);
                append(&folder.join(SESSIONS), &one)?;
                found.push(one);
            }
        }
    }
    Ok(())
}

/// What the program as it is now says of runs that were measured before.
fn judge_again(program: &str, found: &mut [Named], folder: &Path) -> anyhow::Result<()> {
    let mut judged: BTreeMap<String, Value> = BTreeMap::new();
    for one in found {
        let dir = folder.join(&one.folder);
        let plant = PLANTS.iter().find(|plant| plant.arm == one.arm);
        let Some(plant) = plant.filter(|_| !one.folder.is_empty() && dir.exists()) else { continue };
        let findings = match judged.entry(one.folder.clone()) {
            Entry::Occupied(known) => known.into_mut(),
            Entry::Vacant(new) => new.insert(findings_of(program, &dir)?),
        };
        *one = Named { blocks: one.blocks, folder: one.folder.clone(), ..named(plant, one.run, findings)? };
    }
    Ok(())
}

fn findings_of(program: &str, dir: &Path) -> anyhow::Result<Value> {
    let output = command(&[program, "analyse", "--format", "json"]).arg(dir).output();
    serde_json::from_slice(&output.context("cannot run whyslow")?.stdout)
        .with_context(|| format!("whyslow analyse {} printed no JSON", dir.display()))
}

/// Plants in sessions: those with the same baseline and load share one, up to a number of arms.
fn together<'a>(plants: impl Iterator<Item = &'a Plant>) -> Vec<Vec<&'a Plant>> {
    let mut alike: BTreeMap<(&str, &[&str]), Vec<&Plant>> = BTreeMap::new();
    for plant in plants {
        alike.entry((plant.baseline, plant.load)).or_default().push(plant);
    }
    alike.values().flat_map(|group| group.chunks(ARMS_TOGETHER)).map(<[_]>::to_vec).collect()
}

/// How sessions are run.
struct Session<'a> {
    program: &'a str,
    number: u32,
    confirm: bool,
    folder: &'a Path,
}

impl Session<'_> {
    /// A session of `plants`, and one of more blocks for those of which it reached no verdict, as the program then advises.
    fn decided(&self, plants: &[&Plant]) -> anyhow::Result<Vec<Named>> {
        let findings = self.compare(plants, BLOCKS)?;
        let (decided, open): (Vec<&Plant>, Vec<&Plant>) =
            plants.iter().partition(|plant| plant.right.is_empty() || is_decided(&findings, plant.arm));
        let mut all = self.named(plants, &decided, BLOCKS, &findings)?;
        if !open.is_empty() {
            let findings = self.compare(&open, MORE_BLOCKS)?;
            all.extend(self.named(&open, &open, MORE_BLOCKS, &findings)?);
        }
        Ok(all)
    }

    fn named(
        &self,
        session: &[&Plant],
        of: &[&Plant],
        blocks: u32,
        findings: &Value,
    ) -> anyhow::Result<Vec<Named>> {
        let folder = self.name(session, blocks)?;
        let one = |plant: &&Plant| {
            Ok(Named { blocks, folder: folder.clone(), ..named(plant, self.number, findings)? })
        };
        of.iter().map(one).collect()
    }

    fn name(&self, plants: &[&Plant], blocks: u32) -> anyhow::Result<String> {
        let first = plants.first().context("a session has an arm")?;
        Ok(format!("why-{}-{}-{blocks}", first.arm, self.number))
    }

    /// One comparison of planted causes with their baseline.
    fn compare(&self, plants: &[&Plant], blocks: u32) -> anyhow::Result<Value> {
        let first = plants.first().context("a session has an arm")?;
        let dir = self.folder.join(self.name(plants, blocks)?);
        if dir.exists() {
            fs::remove_dir_all(&dir).context("cannot remove an earlier run")?;
        }
        let seed = (2000 + self.number).to_string();
        let warmup = if first.arm.contains("jvm") { "3s" } else { "500ms" };
        let blocks = blocks.to_string();
        let mut argv = vec![self.program, "compare", first.baseline];
        argv.extend(plants.iter().map(|plant| plant.arm));
        argv.extend(["--equal-rates", "none", "--blocks", &blocks, "--seed", &seed]);
        argv.extend(["--warmup", warmup, "--warmup-cap", warmup, "--format", "json"]);
        argv.extend(["--out", dir.to_str().context("the workspace's name is not text")?]);
        argv.extend(first.load);
        if self.confirm {
            argv.push("--confirm");
        }
        let output = command(&argv).output().context("cannot run whyslow")?;
        if !matches!(output.status.code(), Some(0 | 4 | 5)) {
            bail!("whyslow compare failed: {}", String::from_utf8_lossy(&output.stderr));
        }
        serde_json::from_slice(&output.stdout).context("whyslow compare printed no JSON")
    }
}

/// Whether `arm` was told from its baseline, or shown to be equal to it, by one of the metrics that decide.
fn is_decided(findings: &Value, arm: &str) -> bool {
    let rows = findings["comparisons"].as_array();
    rows.into_iter().flatten().any(|row| {
        row["arm"] == arm
            && ["cpu_per_request", "rate"].iter().any(|metric| row["metric"] == **metric)
            && ["slower", "faster", "equal"].iter().any(|verdict| row["verdict"] == **verdict)
    })
}

/// What `findings` name for `plant`.
fn named(plant: &Plant, number: u32, findings: &Value) -> anyhow::Result<Named> {
    let causes: Vec<&Value> = findings["causes"]
        .as_array()
        .context("findings have causes")?
        .iter()
        .filter(|cause| cause["arm"] == plant.arm)
        .collect();
    let of_grade = |grades: &'static [&'static str]| {
        causes
            .iter()
            .filter(move |cause| cause["grade"].as_str().is_some_and(|grade| grades.contains(&grade)))
    };
    let id = |cause: &&Value| cause["id"].as_str().unwrap_or_default().to_owned();
    let ratio = |metric: &str| {
        let rows = findings["comparisons"].as_array()?;
        rows.iter().find(|row| row["metric"] == metric && row["arm"] == plant.arm)?["ratio"].as_f64()
    };
    let share = |cause: &&Value| cause["share"].as_f64().unwrap_or(0.0);
    let split = findings["splits"].as_array().and_then(|all| all.iter().find(|one| one["arm"] == plant.arm));
    let residual = split.and_then(|split| {
        Some(split["residual_ln"].as_f64()?.abs() / split["rate_ratio"].as_f64()?.ln().abs())
    });
    Ok(Named {
        arm: plant.arm.to_owned(),
        run: number,
        cpu_ratio: ratio("cpu_per_request"),
        rate_ratio: ratio("rate"),
        causes: of_grade(&["bounded_by", "consistent_with", "confirmed_by"])
            .map(|cause| (id(cause), share(cause)))
            .collect(),
        confirmed: of_grade(&["confirmed_by"]).map(id).collect(),
        residual: residual.filter(|_| !plant.right.is_empty()),
        blocks: BLOCKS,
        folder: String::new(),
    })
}

/// The confusion table as Markdown.
fn page(found: &[Named], headline: &str) -> String {
    let of = |arm: &'static str| found.iter().filter(move |one| one.arm == arm);
    let placed = |limit: usize| {
        PLANTS
            .iter()
            .filter(|plant| !plant.right.is_empty())
            .flat_map(|plant| of(plant.arm).map(move |one| one.place(plant)))
            .filter(|place| place.is_some_and(|place| place <= limit))
            .count()
    };
    let all: usize =
        PLANTS.iter().filter(|plant| !plant.right.is_empty()).map(|plant| of(plant.arm).count()).sum();
    let itself: Vec<bool> = of(PLANTS[0].arm).map(|one| one.place(&PLANTS[0]).is_some()).collect();
    let wrong: usize = PLANTS
        .iter()
        .flat_map(|plant| {
            let is_true = |id: &&String| [plant.right, plant.made_of].concat().contains(&id.as_str());
            of(plant.arm).map(move |one| one.confirmed.iter().filter(|id| !is_true(id)).count())
        })
        .sum();
    let confirmed: usize = found.iter().map(|one| one.confirmed.len()).sum();
    let percent = |count: usize| 100.0 * count as f64 / all.max(1) as f64;
    let mut text = format!(
        "{}{PLANTED} in {} of {all} \
         sessions ({:.0} %), among the first three in {} ({:.0} %); {confirmed} causes \
         confirmed by taking them away (`--confirm`), {wrong} of them wrongly; a server against itself names no cause \
         in {} of {} sessions.\n\nEach session: `whyslow compare BASELINE ARM…`, up to {ARMS_TOGETHER} arms with the same baseline, {BLOCKS} blocks at \
         capacity over 64 connections, and the diagnosis of each arm. Repeat with `cargo xtask calibrate why`.\n\n",
        beginning(headline),
        placed(1),
        percent(placed(1)),
        placed(3),
        percent(placed(3)),
        itself.iter().filter(|right| **right).count(),
        itself.len(),
    );
    let residuals: Vec<f64> = found.iter().filter_map(|one| one.residual).collect();
    if let Some((median, most)) = quantile(&residuals, 0.5).zip(quantile(&residuals, 1.0)) {
        text.push_str(&format!(
            "The split into busy cores and CPU per request leaves {:.2} % of a gap in the median, {:.2} % at most (n = {} sessions \
             that kept it; bar 3 %).\n\n",
            100.0 * median,
            100.0 * most,
            residuals.len()
        ));
    }
    let again = found.iter().filter(|one| one.blocks > BLOCKS).count();
    if again > 0 {
        text.push_str(&format!(
            "In {again} of them {BLOCKS} blocks had reached no verdict; these are sessions of {MORE_BLOCKS} blocks.\n\n"
        ));
    }
    text + &table(found) + MATRIX + &matrix("planted", &kinds(found))
}

/// The kind that was planted, and the kind that was named first, of each session.
fn kinds(found: &[Named]) -> Vec<(Kind, Kind, u32)> {
    let of = |one: &Named| {
        let plant = PLANTS.iter().find(|plant| plant.arm == one.arm)?;
        let first = one.causes.first().map_or("", |(id, _)| id);
        Some((Kind::of(plant.right.first().unwrap_or(&"")), Kind::of(first), 1))
    };
    found.iter().filter_map(of).collect()
}

/// A row for each plant.
fn table(found: &[Named]) -> String {
    let mut text =
        "| planted | right | sessions | first | first three | named first |\n|---|---|--:|--:|--:|---|\n"
            .to_owned();
    for plant in &PLANTS {
        let of = || found.iter().filter(|one| one.arm == plant.arm);
        let places: Vec<Option<usize>> = of().map(|one| one.place(plant)).collect();
        let within = |limit| places.iter().filter(|place| place.is_some_and(|place| place <= limit)).count();
        let mut firsts: BTreeMap<String, u32> = BTreeMap::new();
        for one in of() {
            let first = one.causes.first().map_or_else(|| "nothing".to_owned(), |(id, _)| id.clone());
            *firsts.entry(first).or_default() += 1;
        }
        let firsts: Vec<String> = firsts.iter().map(|(id, count)| format!("{id} {count}")).collect();
        let right = if plant.right.is_empty() { "nothing".to_owned() } else { plant.right.join(" or ") };
        text.push_str(&format!(
            "| {} | {right} | {} | {} | {} | {} |\n",
            plant.arm,
            places.len(),
            within(1),
            within(3),
            firsts.join(", ")
        ));
    }
    text
}
