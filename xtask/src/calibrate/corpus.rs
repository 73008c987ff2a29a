//! The corpus: published slowdowns of real software and such by authors who had not seen the rules, recorded once, and what today's rules say of each.
//!
//! A recording and its truth are data of the workspace; the findings on them are worked out anew by every test run. So a change of
//! rules shows at once, and a run that no longer reads does too.

mod judge;
mod kept;
mod page;
mod truth;

use std::collections::BTreeSet;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::{fs, thread};

use anyhow::{Context, bail, ensure};
use model::record::{Run, RunDir};

use super::Args;
use crate::shell::root;
use judge::{Judged, judge, says_the_same};
use kept::{Kept, Origin};
use truth::{Case, Role, Truth, Truths};

/// What writes the page, for sentences about it.
const COMMAND: &str = "cargo xtask calibrate corpus";
/// The page.
const PAGE: &str = "docs/benchmarks/corpus.md";
/// Where runs are unpacked, so that `whyslow analyse` reads them, too.
const UNPACKED: &str = "target/calibrate/corpus";

/// Adds the pairs named, judges all, and writes the page.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    let added = add_all(args);
    let judged = judge_all(&root().join(UNPACKED))?;
    let text = page::page(&judged);
    print!("{text}");
    let file = root().join(PAGE);
    let lost = page::no_longer_right(&fs::read_to_string(&file).unwrap_or_default(), &judged);
    judged.iter().filter_map(Judged::fault).chain(lost).for_each(|fault| println!("warning: {fault}"));
    model::record::write_atomically(&file, text.as_bytes())?;
    super::why::tell_headline()?;
    added
}

/// What the page begins with, for others that tell it.
pub(super) fn headline() -> anyhow::Result<String> {
    let text = fs::read_to_string(root().join(PAGE)).with_context(|| format!("cannot read {PAGE}"))?;
    Ok(page::headline_of(&text)
        .with_context(|| format!("{PAGE} has no sentence at its beginning"))?
        .to_owned())
}

/// Adds every pair named; one that cannot be added is reported, and keeps none of the others out.
fn add_all(args: &Args) -> anyhow::Result<()> {
    let mut failed = Vec::new();
    for name in &args.add {
        match add(name, args) {
            Ok(bytes) => println!("{name}: {} KiB", bytes.div_ceil(1024)),
            Err(error) => {
                println!("{name}: {error:#}");
                failed.push(name.as_str());
            }
        }
    }
    ensure!(failed.is_empty(), "{} pairs were not added: {}", failed.len(), failed.join(", "));
    Ok(())
}

/// Keeps the run of the pair `name` with its truth; how many bytes that takes.
fn add(name: &str, args: &Args) -> anyhow::Result<usize> {
    let plain = |letter: char| letter.is_ascii_alphanumeric() || letter == '-';
    ensure!(!name.is_empty() && name.chars().all(plain), "a name has letters, digits and hyphens alone");
    let (runs, cases) =
        args.runs_in.as_ref().zip(args.cases.as_ref()).context("name --runs-in and --cases")?;
    let case = Case::read(&cases.join(name).join("case.json"))?;
    let dir = runs.join(name);
    let run = whole(&dir)?;
    let kept = Kept::from_dir(&dir, &Origin::here(&case, &run.manifest))?;
    let bytes = kept.bytes()?;
    ensure!(
        bytes.len() <= kept::MOST_BYTES,
        "{} KiB are more than the {} KiB of a run that is kept: record it with --quick",
        bytes.len().div_ceil(1024),
        kept::MOST_BYTES / 1024
    );
    // What was taken out must not have changed the findings.
    let unpacked = root().join(UNPACKED).join(name);
    kept.unpack(&unpacked)?;
    says_the_same(&run, &whole(&unpacked)?)?;
    let mut truths = Truths::read(&truths_file())?;
    let role = args.changed.as_ref().map(|rule| Role::Training { changed: rule.clone() });
    let truth = case.truth(name, &run, role, truths.of(name));
    judge(&truth, &run)?;
    truths.put(truth);
    model::record::write_atomically(&file_of(name), &bytes)?;
    model::record::write_atomically(&truths_file(), truths.text()?.as_bytes())?;
    Ok(bytes.len())
}

/// A run of which everything reads.
fn whole(dir: &Path) -> anyhow::Result<Run> {
    let run = RunDir::open(dir).read()?;
    ensure!(run.damaged.is_empty(), "the run does not read: {}", run.damaged.join("; "));
    Ok(run)
}

/// What today's rules say of every pair, in the order of the truths. Runs are unpacked into `folder`.
fn judge_all(folder: &Path) -> anyhow::Result<Vec<Judged>> {
    let truths = Truths::read(&truths_file())?.pair;
    let stray = strays(&truths)?;
    ensure!(stray.is_empty(), "no truth is known of {}: add it by {COMMAND} --add", stray.join(", "));
    let threads = thread::available_parallelism().map_or(1, NonZeroUsize::get);
    let share = truths.len().div_ceil(threads).max(1);
    thread::scope(|scope| {
        let parts = truths.chunks(share);
        let all: Vec<_> = parts.map(|part| scope.spawn(|| judge_part(part, folder))).collect();
        let judged =
            all.into_iter().map(|one| one.join().unwrap_or_else(|_| bail!("a pair cannot be judged")));
        Ok(judged.collect::<anyhow::Result<Vec<_>>>()?.into_iter().flatten().collect())
    })
}

fn judge_part(truths: &[Truth], folder: &Path) -> anyhow::Result<Vec<Judged>> {
    let one = |truth: &Truth| {
        let dir = folder.join(&truth.name);
        Kept::read(&file_of(&truth.name))?.unpack(&dir)?;
        judge(truth, &whole(&dir)?)
    };
    truths.iter().map(|truth| one(truth).with_context(|| format!("pair {}", truth.name))).collect()
}

/// Recorded runs of which there is no truth.
fn strays(truths: &[Truth]) -> anyhow::Result<Vec<String>> {
    let known: BTreeSet<PathBuf> = truths.iter().map(|truth| file_of(&truth.name)).collect();
    let mut stray = Vec::new();
    for entry in fs::read_dir(root().join("corpus")).context("cannot read the folder corpus")? {
        let path = entry?.path();
        if path.extension().is_some_and(|kind| kind == "gz") && !known.contains(&path) {
            stray.push(path.file_name().unwrap_or_default().to_string_lossy().into_owned());
        }
    }
    Ok(stray)
}

fn truths_file() -> PathBuf {
    root().join("corpus/truths.toml")
}

fn file_of(name: &str) -> PathBuf {
    root().join("corpus").join(format!("{name}.json.gz"))
}

#[cfg(test)]
mod tests {
    use std::sync::LazyLock;

    use super::*;

    /// All pairs, judged once for all tests.
    static JUDGED: LazyLock<Vec<Judged>> = LazyLock::new(|| {
        let folder = root().join("target/calibrate/corpus-tests").join(std::process::id().to_string());
        let judged = judge_all(&folder);
        let _ = fs::remove_dir_all(&folder);
        judged.unwrap()
    });

    fn written() -> String {
        fs::read_to_string(root().join(PAGE)).unwrap()
    }

    #[test]
    fn the_page_says_what_the_rules_say_today() {
        let text = page::page(&JUDGED);
        print!("{text}");
        assert!(
            text == written(),
            "the rules say something else of the corpus than {PAGE}: run `{COMMAND}` and commit the page"
        );
    }

    #[test]
    fn what_was_right_still_is() {
        let lost = page::no_longer_right(&written(), &JUDGED);
        assert!(lost.is_empty(), "{}", lost.join("; "));
    }

    #[test]
    fn trees_sum_to_cpu_per_request_and_verdicts_point_the_right_way() {
        assert!(!JUDGED.is_empty());
        let faults: Vec<String> = JUDGED.iter().filter_map(Judged::fault).collect();
        assert!(faults.is_empty(), "{}", faults.join("; "));
    }

    #[test]
    fn a_run_without_a_verdict_has_a_row() {
        let folder = std::env::temp_dir().join(format!("whyslow-corpus-{}", std::process::id()));
        let truth = Truths::read(&truths_file()).unwrap().pair.remove(0);
        Kept::read(&file_of(&truth.name)).unwrap().unpack(&folder).unwrap();
        let mut run = whole(&folder).unwrap();
        fs::remove_dir_all(&folder).unwrap();
        run.diagnostics.clear();
        for rounds in [1, 0] {
            run.rounds.truncate(rounds);
            let judged = judge(&truth, &run).unwrap();
            assert_eq!((judged.fault(), judged.is_right(), judged.tree), (None, false, None));
            let text = page::page(&[judged]);
            assert!(
                text.contains(&format!("| {} |", truth.name)) && text.contains("| nothing | no |"),
                "{text}"
            );
        }
    }

    #[test]
    fn no_recorded_run_is_large_or_names_a_machine() {
        for one in JUDGED.iter() {
            let file = file_of(&one.truth.name);
            let bytes = fs::metadata(&file).unwrap().len();
            assert!(bytes <= kept::MOST_BYTES as u64, "{}: {bytes} bytes", file.display());
            let named = Kept::read(&file).unwrap().paths_of_one_machine();
            assert!(named.is_empty(), "{}: {named:?}", file.display());
        }
    }
}
