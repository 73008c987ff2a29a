//! Calibrations: the instrument against known truths, with real servers on this machine.
//!
//! Each session is one `whyslow compare` of the C server under `targets/planted`. What a session found is one line of
//! a file, so that a long calibration can be stopped and goes on where it was.

mod bisect;
mod bursts;
mod clock;
mod corpus;
mod matrix;
mod observer;
mod pull;
mod replay;
mod session;
mod stops;
mod watched;
mod why;

use std::fmt::Write as _;
use std::fs::{self, OpenOptions};
use std::io::Write;
use std::path::PathBuf;

use anyhow::Context;
use clap::{Parser, ValueEnum};
use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::shell::{root, run};
use replay::{Kept, Recording};
use session::{Found, Session};

/// What is calibrated.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Question {
    /// The same program as both arms: how often is a difference seen that is not there?
    Aa,
    /// A planted difference of CPU per request: how often is it found, and does the interval cover it?
    Planted,
    /// What reading all counters once a second costs the server
    Tier0,
    /// What counting perf events cost it
    Tier1,
    /// What counting perf events without tracepoints costs it
    Tier1Software,
    /// What sampling stacks costs it
    Tier2,
    /// What taking a stack at every switch costs it
    Tier3,
    /// What `strace -c -f` costs it, for comparison
    Strace,
    /// How far user and system time are from the task clock
    Clock,
    /// Planted causes: how often is the right one named?
    Why,
    /// Servers that stop for everybody every few seconds: by either design, how much slower are they found?
    Stops,
    /// Comparisons made up from recorded turns: what can a shared runner show of a pull request?
    Ci,
    /// Recorded slowdowns of real software: what do today's rules say of them? Nothing is measured
    Corpus,
    /// Histories made up from recorded turns: how often is the right commit found?
    Bisect,
}

/// Arguments of `calibrate`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What is calibrated
    #[arg(value_enum)]
    question: Question,
    /// Sessions, those of an earlier call included; of every planted cause for `why`; comparisons or histories for `ci` and
    /// `bisect` [default: 20; 5 for why; 200 for ci and bisect]
    #[arg(long)]
    runs: Option<u32>,
    /// Planted difference in percent of the baseline's CPU per request
    #[arg(long, default_value_t = 10.0)]
    percent: f64,
    /// Blocks of a session; the quick design (8 to 32 short blocks) where none is given
    #[arg(long)]
    blocks: Option<u32>,
    /// The usual design in place of the quick one: looks after 8, 14 and 24 blocks
    #[arg(long, conflicts_with = "blocks")]
    looks: bool,
    /// For aa and planted: other load on every CPU for this percentage of the time, in bursts of random length
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u8).range(1..=90))]
    bursts: Option<u8>,
    /// For planted: requests per second, the same for both arms, or `max`
    #[arg(long, default_value = "max")]
    rate: String,
    /// For aa, planted and stops: work of both servers in each request, in nanoseconds, so that the generator does not limit them
    /// [default: 5000 for planted and stops, else 0]
    #[arg(long)]
    work: Option<u32>,
    /// Forget the sessions of earlier calls
    #[arg(long)]
    fresh: bool,
    /// For why: only the arms whose names contain this
    #[arg(long)]
    only: Option<String>,
    /// End after so many sessions; the next call goes on (not where an observer's cost is measured)
    #[arg(long)]
    sessions: Option<u32>,
    /// For why: put the causes named to the test, too
    #[arg(long)]
    confirm: bool,
    /// For why: measure nothing, let the program judge anew the runs that are kept
    #[arg(long)]
    again: bool,
    /// For ci and bisect: a run of one server against itself, in place of the recording in the workspace, which is of a crowded machine for ci and of a quiet one for bisect
    #[arg(long, value_name = "RUN")]
    from: Option<PathBuf>,
    /// For ci and bisect, with --from: keep that run as the recording in the workspace
    #[arg(long, requires = "from")]
    keep: bool,
    /// For corpus: pairs whose runs are added before all are judged; one that is there is replaced
    #[arg(long, value_name = "NAME", num_args = 1.., requires = "runs_in", requires = "cases")]
    add: Vec<String>,
    /// For corpus, with --add: the folder in which each pair's run lies in a folder of its name
    #[arg(long, value_name = "DIR", requires = "add")]
    runs_in: Option<PathBuf>,
    /// For corpus, with --add: the folder in which each pair has a folder with its case.json
    #[arg(long, value_name = "DIR", requires = "add")]
    cases: Option<PathBuf>,
    /// For corpus, with --add: the rule that these pairs have changed, which makes them training pairs
    #[arg(long, value_name = "RULE", requires = "add")]
    changed: Option<String>,
    /// The program [default: a release build of this workspace]
    #[arg(long)]
    program: Option<String>,
}

/// Sessions where `--runs` names no number.
const RUNS: u32 = 20;
/// As much again as the server needs to read a request and to answer it.
const PLANTED_WORK_NS: u32 = 5000;

impl Args {
    /// The program under calibration, built where none was given.
    fn program(&self) -> anyhow::Result<String> {
        if let Some(program) = &self.program {
            return Ok(program.clone());
        }
        run(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
        Ok("target/release/whyslow".to_owned())
    }

    fn rate(&self) -> &str {
        if self.question == Question::Planted { &self.rate } else { "max" }
    }

    /// A server that costs no more than the generator is now and then waited for and now and then waits, and what is planted in
    /// it changes how often: a planted 3 % came to between 0.2 and 3.6 %.
    fn work_ns(&self) -> u32 {
        self.work.unwrap_or(if matches!(self.question, Question::Planted | Question::Stops) {
            PLANTED_WORK_NS
        } else {
            0
        })
    }

    fn runs(&self) -> u32 {
        self.runs.unwrap_or(RUNS)
    }

    /// The name under which sessions of one kind are kept together.
    fn name(&self) -> String {
        let mut design = match self.blocks {
            Some(blocks) => format!("{blocks}-blocks"),
            None if self.looks => "looks".to_owned(),
            None => "quick".to_owned(),
        };
        if let Some(percent) = self.bursts {
            write!(design, "-bursts-{percent}").expect("writing to a string cannot fail");
        }
        if let Some(work_ns) = self.work {
            write!(design, "-work-{work_ns}").expect("writing to a string cannot fail");
        }
        match self.question {
            Question::Aa => format!("aa-{design}"),
            Question::Planted => format!("planted-{}-{design}", self.percent),
            other => format!("{other:?}").to_lowercase(),
        }
    }

    fn design(&self) -> String {
        let blocks = match self.blocks {
            None if self.looks => "the usual design (looks after 8, 14 and 24 blocks)".to_owned(),
            None => "the quick design".to_owned(),
            Some(blocks) => format!("{blocks} blocks"),
        };
        let bursts = self.bursts.map_or_else(String::new, |percent| {
            format!(", other load on every CPU for {percent} % of the time in bursts of random length")
        });
        format!("{blocks}, {} ns of work in each request of either server{bursts}", self.work_ns())
    }
}

/// Runs the sessions that are missing and prints what all of them found.
pub(crate) fn calibrate(args: &Args) -> anyhow::Result<()> {
    if matches!(
        args.question,
        Question::Tier0
            | Question::Tier1
            | Question::Tier1Software
            | Question::Tier2
            | Question::Tier3
            | Question::Strace
    ) {
        return observer::calibrate(args);
    }
    if args.question == Question::Clock {
        return clock::calibrate(args);
    }
    if args.question == Question::Why {
        return why::calibrate(args);
    }
    if args.question == Question::Stops {
        return stops::calibrate(args);
    }
    if args.question == Question::Corpus {
        return corpus::calibrate(args);
    }
    if matches!(args.question, Question::Ci | Question::Bisect) {
        return replayed(args);
    }
    let program = args.program()?;
    run(&[&program, "targets", "build", "planted"])?;
    let folder = root().join("target/calibrate");
    fs::create_dir_all(&folder).context("cannot make target/calibrate")?;
    let file = folder.join(format!("{}.ndjson", args.name()));
    if args.fresh && file.exists() {
        fs::remove_file(&file).context("cannot forget earlier sessions")?;
    }
    let mut found: Vec<Found> = read(&file)?;
    let missing = found.len() as u32..args.runs();
    for number in missing.take(args.sessions.map_or(usize::MAX, |sessions| sessions as usize)) {
        let session = Session {
            program: &program,
            work_ns: args.work_ns(),
            percent: (args.question == Question::Planted).then_some(args.percent),
            blocks: args.blocks,
            looks: args.looks,
            bursts: args.bursts,
            rate: args.rate(),
            number,
        };
        let one = session.run(&folder)?;
        println!("{}/{}: {}", number + 1, args.runs(), one.line());
        append(&file, &one)?;
        found.push(one);
    }
    let text = summary(args, &found);
    print!("{text}");
    let page = root().join("docs/benchmarks").join(format!("calibrate-{}.md", args.name()));
    fs::create_dir_all(root().join("docs/benchmarks")).context("cannot make docs/benchmarks")?;
    fs::write(&page, text).with_context(|| format!("cannot write {}", page.display()))
}

/// What is made up from recorded turns, without a server; its page is `ci.md` or `bisect.md`.
fn replayed(args: &Args) -> anyhow::Result<()> {
    let kept = match args.question {
        Question::Bisect => Kept::Quiet,
        _ => Kept::Crowded,
    };
    let recording = Recording::open(args.from.as_deref(), kept)?;
    if args.keep {
        recording.keep(kept)?;
    }
    let text = match kept {
        Kept::Quiet => bisect::page(&recording, args.runs),
        Kept::Crowded => pull::page(&recording, args.runs),
    };
    print!("{text}");
    // A page in the workspace is of the recording in the workspace.
    if args.from.is_some() && !args.keep {
        return Ok(());
    }
    let page = root().join("docs/benchmarks").join(format!("{}.md", args.name()));
    fs::write(&page, text).with_context(|| format!("cannot write {}", page.display()))
}

fn read<T: DeserializeOwned>(file: &PathBuf) -> anyhow::Result<Vec<T>> {
    let Ok(text) = fs::read_to_string(file) else { return Ok(Vec::new()) };
    text.lines()
        .map(|line| serde_json::from_str(line).context("an earlier session does not read: use --fresh"))
        .collect()
}

fn append(file: &PathBuf, found: &impl Serialize) -> anyhow::Result<()> {
    let mut out =
        OpenOptions::new().create(true).append(true).open(file).context("cannot keep the session")?;
    writeln!(out, "{}", serde_json::to_string(found)?).context("cannot keep the session")
}

/// What all sessions found, as Markdown.
fn summary(args: &Args, found: &[Found]) -> String {
    let count = |word: &str| found.iter().filter(|one| one.verdict == word).count();
    let covered = found.iter().filter(|one| one.covers()).count();
    let right = match args.question {
        Question::Aa => count("equal") + count("inconclusive"),
        _ => found.iter().filter(|one| one.verdict == "slower" && one.covers()).count(),
    };
    let what = match args.question {
        Question::Aa => "sessions without a false alarm".to_owned(),
        _ => format!("sessions that found the planted {} % and cover it", args.percent),
    };
    let mut text = format!(
        "# {}: {right} of {} {what}\n\nEach session: CPU per request at {}, {}, 64 connections. Repeat with `cargo \
         xtask calibrate {} …`.\n\nslower {}, faster {}, equal {}, inconclusive {}, invalid {}; interval covers \
         the truth in {covered}. Medians: half width of the interval {:.2} %, standard deviation of a pair {:.2} %, {:.0} s a \
         session (longest {:.0} s)\n\n",
        args.name(),
        found.len(),
        if args.rate() == "max" { "capacity".to_owned() } else { format!("{} requests/s", args.rate()) },
        args.design(),
        if args.question == Question::Aa { "aa" } else { "planted" },
        count("slower"),
        count("faster"),
        count("equal"),
        count("inconclusive"),
        count("invalid"),
        median(found.iter().filter_map(Found::half_width).collect()) * 100.0,
        median(found.iter().map(|one| one.paired_sd).collect()) * 100.0,
        median(found.iter().map(|one| one.took_s).collect()),
        found.iter().map(|one| one.took_s).fold(0.0, f64::max),
    );
    if args.question == Question::Aa {
        let named = found.iter().filter(|one| !one.named.is_empty()).count();
        write!(text, "Sessions in which a cause was named: {named}\n\n")
            .expect("writing to a string cannot fail");
    }
    text.push_str(
        "| session | verdict | ratio | interval | truth | by the servers' account | sd of a pair | blocks | took |\n\
         |--:|---|--:|--:|--:|--:|--:|--:|--:|\n",
    );
    for (index, one) in found.iter().enumerate() {
        text.push_str(&one.row(index + 1));
    }
    text
}

fn median(mut values: Vec<f64>) -> f64 {
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}
