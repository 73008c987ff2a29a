//! Stacks of functions that an interpreter runs, read out of its memory while it runs: nobody is stopped. What a thread does
//! between two reads can tear a stack, which is then dropped where it shows.

mod php;
mod python;
mod ruby;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Debug;
use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;
use std::sync::mpsc::{Receiver, RecvTimeoutError, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use blazesym::inspect::Inspector;
use blazesym::inspect::source::{Elf, Source};
use model::record::{Frame, Interpreted, PHP, PYTHON, Profile, RUBY, Stack, evaluated_in};

use super::readers::{Reading, Turn};
use super::symbols::own_pid;
use crate::Group;
use crate::file::{numbered, optional};
use crate::parse::stat;
use crate::sampler::own_cpu_ns;

/// Time between two looks: 499 in a second, not in step with timers of round periods. A look takes some 30 µs for each
/// thread that runs.
const PERIOD: Duration = Duration::from_nanos(1_000_000_000 / 499);
/// Processes that are looked at in one look: of more, each in its turn.
const MOST_LOOKED: usize = 16;
/// Times that a stack is read until it is whole.
const READS: u32 = 4;
/// Threads of a process that are looked at, at most: more means that a chain was torn.
const MOST_THREADS: usize = 1000;
/// Longest name, and longest table of lines, in bytes that are believed.
const MOST_BYTES: u64 = 1 << 18;

/// An interpreter that can be read.
struct Language {
    /// Module of its functions.
    module: &'static str,
    /// What the files are called in part that a process maps which runs it.
    files: &'static [&'static str],
    find_in: fn(u32) -> Option<Box<dyn Interpreter>>,
    /// What a profile says that has the interpreter in it and not what that worked on.
    not_read: &'static str,
}

const LANGUAGES: [Language; 3] = [
    Language {
        module: PYTHON,
        files: &["python3."],
        find_in: python::find_in,
        not_read: "Functions of Python have no names here: they are read of CPython 3.9 to 3.13 that this user may trace.",
    },
    Language {
        module: RUBY,
        files: &["/libruby", "/bin/ruby"],
        find_in: ruby::find_in,
        not_read: "Functions of Ruby have no names here: they are read of CRuby 2.7 to 3.4 on x86-64 that this user may trace.",
    },
    Language {
        module: PHP,
        files: &["/php", "/libphp"],
        find_in: php::find_in,
        not_read: "Functions of PHP have no names here: they are read of PHP 8, not of thread-safe builds, that this user may trace.",
    },
];

/// The interpreter of one process.
pub(super) trait Interpreter: Debug + Send {
    /// Takes the stacks of the threads that run functions now.
    fn look(&mut self, stacks: &mut Stacks);

    /// Reads the stacks of threads, whether they run or not, at most so many that it is quick; the next time it goes on with those that
    /// come after them. Of an interpreter that does not tell the kernel's numbers of its threads, none.
    fn read(&mut self, _readings: &mut Vec<Reading>) {}
}

/// Stacks with how often each was seen, outermost first.
type Stacks = BTreeMap<Vec<Frame>, u64>;

/// An interpreter, with the module of its functions.
type Known = (&'static str, Box<dyn Interpreter>);
/// What ends the sampling, and the thread that does it.
type Sampler = (Sender<()>, JoinHandle<(Found, Taken)>);

/// Samples what the interpreters of a group run, in a thread of its own.
#[derive(Debug)]
pub(super) struct Interpreters {
    group: Group,
    found: Found,
    /// While it samples.
    sampler: Option<Sampler>,
    /// What was seen before.
    taken: Option<Taken>,
}

/// What was seen, and of which languages.
#[derive(Debug, Default)]
pub(super) struct Taken {
    stacks: Stacks,
    modules: BTreeSet<&'static str>,
    cost_ns: u64,
}

impl Interpreters {
    pub(super) fn of(group: &Group) -> Self {
        let mut found = Found::default();
        found.find(group);
        Self { group: group.clone(), found, sampler: None, taken: None }
    }

    /// Begins to sample, or goes on with it after a pause, where a process of the group runs an interpreter that may be read.
    pub(super) fn begin(&mut self) {
        self.found.find(&self.group);
        if self.found.is_empty() {
            return;
        }
        let mut found = std::mem::take(&mut self.found);
        let (stop, stopped) = channel();
        let thread = std::thread::spawn(move || {
            let mut taken = Taken { modules: found.modules(), ..Taken::default() };
            let mut turn = Turn::default();
            every(PERIOD, &stopped, || {
                found.each(&mut turn, |interpreter| interpreter.look(&mut taken.stacks));
            });
            taken.cost_ns = own_cpu_ns();
            (found, taken)
        });
        self.sampler = Some((stop, thread));
    }

    /// Pauses.
    pub(super) fn pause(&mut self) {
        if let Some((stop, thread)) = self.sampler.take() {
            drop(stop);
            let (found, taken) = thread.join().expect("sampling interpreters does not panic");
            self.found = found;
            self.taken.get_or_insert_default().add(taken);
        }
    }

    /// Ends it; nothing where there was nobody to sample.
    pub(super) fn stop(mut self) -> Option<Taken> {
        self.pause();
        self.taken
    }
}

/// The interpreters of a group that may be read. To look for them takes some hundred microseconds a process, in which the process cannot
/// map memory: it is done once for each.
#[derive(Debug, Default)]
pub(super) struct Found {
    /// By process.
    processes: BTreeMap<u32, Vec<Known>>,
}

impl Found {
    /// Looks at processes that were not there before.
    pub(super) fn find(&mut self, group: &Group) {
        let pids: BTreeSet<u32> = group.pids().unwrap_or_default().into_iter().collect();
        self.processes.retain(|pid, _| pids.contains(pid));
        for pid in pids {
            self.processes.entry(pid).or_insert_with(|| {
                let maps = optional(format!("/proc/{pid}/maps")).unwrap_or_default();
                let is_mapped = |language: &&Language| language.files.iter().any(|file| maps.contains(file));
                let found = |language: &Language| Some((language.module, (language.find_in)(pid)?));
                LANGUAGES.iter().filter(is_mapped).filter_map(found).collect()
            });
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.processes.values().all(Vec::is_empty)
    }

    /// Whether a process has an interpreter that may be read.
    pub(super) fn has(&self, pid: u32) -> bool {
        self.processes.get(&pid).is_some_and(|found| !found.is_empty())
    }

    /// Does something with each interpreter whose turn it is.
    pub(super) fn each(&mut self, turn: &mut Turn, work: impl FnMut(&mut Box<dyn Interpreter>)) {
        let mut all: Vec<_> = self.processes.values_mut().flatten().map(|(_, found)| found).collect();
        let due = turn.places(all.len(), MOST_LOOKED);
        all.drain(due).for_each(work);
    }

    /// The modules of their functions.
    fn modules(&self) -> BTreeSet<&'static str> {
        self.processes.values().flatten().map(|(module, _)| *module).collect()
    }
}

/// Does something once in a period until it is stopped.
pub(super) fn every(period: Duration, stopped: &Receiver<()>, mut work: impl FnMut()) {
    let mut next = Instant::now() + period;
    while stopped.recv_timeout(next.saturating_duration_since(Instant::now()))
        == Err(RecvTimeoutError::Timeout)
    {
        // After a time without a CPU the looks that are due are not made up for.
        next = next.max(Instant::now()) + period;
        work();
    }
}

/// A stack of machine code with what its interpreter runs in the interpreter's place: from where it first works on functions to
/// where it last does. Where no frame pointers tell that, what it runs comes before all that is known of the program's side.
pub(crate) fn with_interpreted(native: &[Frame], interpreted: &[Frame]) -> Vec<Frame> {
    let works = |frame: &Frame| evaluated_in(&frame.name).is_some();
    let first = native.iter().position(works).unwrap_or(0);
    let after = native.iter().rposition(works).map_or(0, |last| last + 1);
    [&native[..first], interpreted, &native[after..]].concat()
}

impl Taken {
    /// Adds what was seen at another time.
    pub(super) fn add(&mut self, more: Self) {
        for (stack, samples) in more.stacks {
            *self.stacks.entry(stack).or_default() += samples;
        }
        self.modules.extend(more.modules);
        self.cost_ns += more.cost_ns;
    }

    /// Puts the stacks into a profile.
    fn add_to(self, profile: &mut Profile) {
        let mut places: BTreeMap<Frame, u32> = BTreeMap::new();
        let frames = &mut profile.frames;
        let mut place = |frame: Frame| {
            *places.entry(frame).or_insert_with_key(|frame| {
                frames.push(frame.clone());
                u32::try_from(frames.len() - 1).unwrap_or(u32::MAX)
            })
        };
        let mut stacks: Vec<Stack> = self
            .stacks
            .into_iter()
            .map(|(stack, samples)| Stack { frames: stack.into_iter().map(&mut place).collect(), samples })
            .collect();
        stacks.sort_by_key(|stack| std::cmp::Reverse(stack.samples));
        profile.observer_cpu_ns += self.cost_ns;
        profile.interpreted = Some(Interpreted {
            period_ns: u64::try_from(PERIOD.as_nanos()).unwrap_or(u64::MAX),
            samples: stacks.iter().map(|stack| stack.samples).sum(),
            stacks,
        });
    }
}

/// Puts what was taken into a profile, and says which interpreters in it were not read.
pub(super) fn add_to(profile: &mut Profile, taken: Option<Taken>) {
    let read = taken.as_ref().map(|taken| taken.modules.clone()).unwrap_or_default();
    let works: BTreeSet<&str> = profile.frames.iter().filter_map(|frame| evaluated_in(&frame.name)).collect();
    let is_in = |language: &&Language| works.contains(language.module);
    let not_read = LANGUAGES.iter().filter(|language| !read.contains(language.module)).filter(is_in);
    let notes: Vec<String> = not_read.map(|language| language.not_read.to_owned()).collect();
    profile.notes.extend(notes);
    if let Some(taken) = taken {
        taken.add_to(profile);
    }
}

/// The kernel's numbers of the threads of a process, by those that they have inside: in a container these differ.
#[derive(Debug)]
struct ThreadIds {
    pid: u32,
    /// Nothing where they are the same.
    by_inside: Option<BTreeMap<u64, u32>>,
}

impl ThreadIds {
    fn of(pid: u32) -> Self {
        Self { pid, by_inside: (own_pid(pid) != pid).then(BTreeMap::new) }
    }

    fn find(&mut self, inside: u64) -> Option<u32> {
        let Some(by_inside) = &mut self.by_inside else { return u32::try_from(inside).ok() };
        if !by_inside.contains_key(&inside) {
            let ids = numbered(&format!("/proc/{}/task", self.pid)).unwrap_or_default();
            *by_inside = ids.into_iter().map(|id| (own_pid(id).into(), id)).collect();
        }
        by_inside.get(&inside).copied()
    }
}

/// Whether a thread has a CPU or is ready for one.
fn is_running(pid: u32, tid: u32) -> Option<()> {
    let text = optional(format!("/proc/{pid}/task/{tid}/stat"))?;
    (stat(&text)?.state == 'R').then_some(())
}

fn word(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

/// The addresses of variables in a program or library, before it is loaded; nothing where one of them is missing.
pub(super) fn symbols<const COUNT: usize>(file: &Path, names: [&str; COUNT]) -> Option<[u64; COUNT]> {
    let mut elf = Elf::new(file);
    elf.debug_syms = false;
    let inspector = Inspector::new();
    let found = inspector.lookup(&Source::Elf(elf), &names).ok()?;
    let mut addresses = [0; COUNT];
    for (address, of_name) in addresses.iter_mut().zip(found) {
        *address = of_name.first()?.addr;
    }
    Some(addresses)
}

/// The memory of another process. An address that was torn may be any number.
#[derive(Debug)]
pub(super) struct Memory(File);

impl Memory {
    pub(super) fn of(pid: u32) -> Option<Self> {
        File::open(format!("/proc/{pid}/mem")).ok().map(Self)
    }

    pub(super) fn bytes<const LENGTH: usize>(&self, at: u64) -> Option<[u8; LENGTH]> {
        let mut bytes = [0; LENGTH];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// So many bytes `offset` behind an address.
    pub(super) fn many(&self, at: u64, offset: u64, length: u64) -> Option<Vec<u8>> {
        let at = at.checked_add(offset)?;
        let mut bytes = vec![0; usize::try_from(length).ok().filter(|_| length <= MOST_BYTES)?];
        self.0.read_exact_at(&mut bytes, at).ok()?;
        Some(bytes)
    }

    /// What there is from an address on, at most so many bytes.
    pub(super) fn up_to(&self, at: u64, length: usize) -> Option<Vec<u8>> {
        let mut bytes = vec![0; length];
        let read = self.0.read_at(&mut bytes, at).ok()?;
        bytes.truncate(read);
        Some(bytes)
    }

    /// The word `offset` behind an address.
    pub(super) fn word(&self, at: u64, offset: u64) -> Option<u64> {
        self.bytes(at.checked_add(offset)?).map(u64::from_le_bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn frames(names: &str) -> Vec<Frame> {
        names.split_whitespace().map(|name| Frame { name: name.to_owned(), ..Frame::default() }).collect()
    }

    #[test]
    fn what_an_interpreter_runs_stands_where_it_does() {
        for (native, expected) in [
            (
                "main run_mod _PyEval_EvalFrameDefault call _PyEval_EvalFrameDefault.cold acquire sem_wait",
                "main run_mod f g acquire sem_wait",
            ),
            ("_PyEval_EvalFrameDefault", "f g"),
            // No callers are known.
            ("sem_wait futex_wait", "f g sem_wait futex_wait"),
            ("", "f g"),
        ] {
            assert_eq!(with_interpreted(&frames(native), &frames("f g")), frames(expected), "{native}");
        }
    }
}
