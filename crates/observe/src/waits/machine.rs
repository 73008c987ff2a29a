//! From records of the scheduler to waits: every interval in which a thread has no CPU is closed once, by what ended it.
//! Pure: what an address or a process is, is asked of [`Eyes`].

use std::collections::{BTreeMap, HashMap, HashSet};

use model::record::EndedBy;

use super::marks::Marks;
use crate::parse::{Context, Leaving, Site, Wake, WakeKind};

/// Kinds of waits that are told apart; the stacks of further ones are left out.
const MOST_KINDS: usize = 8192;
/// Whoever is about to wait may be woken before he has left the CPU, at most so long before.
const EARLY_NS: u64 = 100_000;

/// Who else sends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Origin {
    /// Somebody who asks the server.
    Client,
    /// Somebody whom the server asks: name and port.
    Service(String),
    /// Somebody of whom no connection with the server is known: his name.
    Stranger(String),
    /// The kernel's own thread, or nobody.
    Kernel,
}

/// What the machine does not know by itself.
pub(super) trait Eyes {
    /// What a stack is in.
    fn marks(&mut self, chain: &[u64]) -> Marks;
    /// Who a process that is not of the server is.
    fn origin(&mut self, process: u32) -> Origin;
    /// Who a process of the server is to another one of it.
    fn among(&mut self, waiting: u32, process: u32) -> Origin;
}

/// Waits of one kind.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(super) struct Kind {
    /// The process of the thread that waited, and where.
    pub(super) process: u32,
    pub(super) waited_in: Vec<u64>,
    pub(super) ended_by: EndedBy,
    /// What had ended the waker's own last wait.
    pub(super) behind: Option<EndedBy>,
    /// The waker's name.
    pub(super) by: Option<String>,
    /// The process of a waker of the server, and where that was.
    pub(super) woken_from: Option<(u32, Vec<u64>)>,
}

/// What was read during waits by its number, with how often that was.
pub(super) type Read = BTreeMap<u32, u64>;

/// How many waits, and how long they took.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Sum {
    pub(super) count: u64,
    pub(super) ns: u64,
    pub(super) read: Read,
}

impl Sum {
    fn one(ns: u64, read: Read) -> Self {
        Self { count: 1, ns, read }
    }

    pub(super) fn add(&mut self, other: &Self) {
        self.count += other.count;
        self.ns += other.ns;
        for (stack, times) in &other.read {
            *self.read.entry(*stack).or_default() += times;
        }
    }
}

/// What came of it.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// Waits of threads that served.
    pub(super) waits: Vec<(Kind, Sum)>,
    /// How many threads those were.
    pub(super) threads: u64,
    /// Processes of the server that none but others of it ask.
    pub(super) services: HashSet<u32>,
    /// Time of all others.
    pub(super) others_ns: u64,
    pub(super) lost: u64,
}

/// A stack with what it is in.
#[derive(Debug, Clone, Default)]
struct Stack {
    chain: Vec<u64>,
    marks: Marks,
}

#[derive(Debug, Clone)]
struct Waker {
    time_ns: u64,
    process: u32,
    thread: u32,
    context: Context,
    stack: Stack,
}

#[derive(Debug)]
enum State {
    /// Nothing was seen of it yet.
    Unseen {
        since_ns: u64,
    },
    Runs,
    Waits {
        since_ns: u64,
        stack: Stack,
        /// As [`Site`] has them.
        registers: Vec<u64>,
        /// What was read of its stack since then.
        read: Read,
    },
    Ready {
        since_ns: u64,
    },
}

/// A wait that goes on.
#[derive(Debug)]
pub(super) struct Waiting<'a> {
    pub(super) process: u32,
    pub(super) chain: &'a [u64],
    /// As [`Site`] has them.
    pub(super) registers: &'a [u64],
    /// What was read in it.
    pub(super) read: &'a mut Read,
}

#[derive(Debug)]
struct Thread {
    process: u32,
    name: String,
    state: State,
    served: bool,
    /// What ended its last wait; where that was another thread, what had ended that one's.
    last: Option<EndedBy>,
    /// Who woke it while it still ran.
    early: Option<Waker>,
    /// By the number of the kind.
    sums: HashMap<u32, Sum>,
}

impl Thread {
    fn new(process: u32, name: &str, state: State) -> Self {
        let (served, last, early, sums) = (false, None, None, HashMap::new());
        Self { process, name: name.to_owned(), state, served, last, early, sums }
    }
}

/// Threads of the server, and what they wait for.
#[derive(Debug, Default)]
pub(super) struct Machine {
    threads: HashMap<u32, Thread>,
    processes: HashSet<u32>,
    /// Those that others of them ask, and those that clients ask.
    asked_within: HashSet<u32>,
    asked_by_clients: HashSet<u32>,
    numbers: HashMap<Kind, u32>,
    kinds: Vec<Kind>,
    sums: HashMap<u32, Sum>,
    threads_served: u64,
    others_ns: u64,
    lost: u64,
}

impl Machine {
    /// Watching begins, or goes on, with these threads: process, thread, name.
    pub(super) fn begin(&mut self, time_ns: u64, threads: &[(u32, u32, String)]) {
        let gone: Vec<u32> =
            self.threads.keys().copied().filter(|id| !threads.iter().any(|one| one.1 == *id)).collect();
        gone.into_iter().for_each(|id| self.forget(id));
        for (process, id, name) in threads {
            self.processes.insert(*process);
            let state = || State::Unseen { since_ns: time_ns };
            let thread = self.threads.entry(*id).or_insert_with(|| Thread::new(*process, name, state()));
            (thread.state, thread.early, thread.last) = (state(), None, None);
        }
    }

    /// Watching ends, or pauses: what waits is cut off.
    pub(super) fn end(&mut self, time_ns: u64) {
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        for id in ids {
            let Some(thread) = self.threads.get_mut(&id) else { continue };
            match std::mem::replace(&mut thread.state, State::Unseen { since_ns: time_ns }) {
                State::Waits { since_ns, stack, read, .. } => {
                    let kind = plain(thread.process, stack.chain, EndedBy::Unfinished);
                    self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), read));
                }
                State::Ready { since_ns } => self.close_ready(id, since_ns, time_ns),
                State::Unseen { .. } | State::Runs => {}
            }
        }
    }

    pub(super) fn take(&mut self, wake: Wake, eyes: &mut dyn Eyes) {
        let Wake { time_ns, process, thread, what } = wake;
        match what {
            WakeKind::Switched { name, why, next, next_name, site } => {
                if self.processes.contains(&process) {
                    self.left((process, thread), &name, time_ns, why, site, eyes);
                }
                self.came(next, &next_name, time_ns);
            }
            WakeKind::Woke { woken, context, chain } if self.threads.contains_key(&woken) => {
                let marks = eyes.marks(&chain);
                let stack = Stack { chain, marks };
                self.woken(woken, Waker { time_ns, process, thread, context, stack }, eyes);
            }
            WakeKind::Woke { .. } => {}
            WakeKind::Sent => {
                if let Some(thread) = self.threads.get_mut(&thread) {
                    thread.served = true;
                }
            }
            WakeKind::Began { process: of, thread: id } if self.processes.contains(&process) => {
                self.processes.insert(of);
                // Each event of a CPU tells of it.
                let ready = || Thread::new(of, "", State::Ready { since_ns: time_ns });
                self.threads.entry(id).or_insert_with(ready);
            }
            WakeKind::Began { .. } => {}
            WakeKind::Lost(records) => self.lose(records, time_ns),
        }
    }

    /// The wait in which a thread was read, where it waits now and did so when reading it began: all that was recorded before its end was
    /// taken.
    pub(super) fn waiting(&mut self, thread: u32, begin_ns: u64) -> Option<Waiting<'_>> {
        let Thread { process, state, .. } = self.threads.get_mut(&thread)?;
        let State::Waits { since_ns, stack, registers, read } = state else { return None };
        let wait = Waiting { process: *process, chain: &stack.chain, registers, read };
        (*since_ns <= begin_ns).then_some(wait)
    }

    /// Everything so far.
    pub(super) fn into_waited(mut self) -> Waited {
        let ids: Vec<u32> = self.threads.keys().copied().collect();
        ids.into_iter().for_each(|id| self.forget(id));
        let services = self.asked_within.difference(&self.asked_by_clients).copied().collect();
        let Self { kinds, sums, threads_served: threads, others_ns, lost, .. } = self;
        let sum = |(number, kind)| Some((kind, sums.get(&(number as u32))?.clone()));
        let mut waits: Vec<(Kind, Sum)> = kinds.into_iter().enumerate().filter_map(sum).collect();
        waits.sort_by_key(|(_, sum)| std::cmp::Reverse(sum.ns));
        Waited { waits, threads, services, others_ns, lost }
    }

    fn left(
        &mut self,
        (process, id): (u32, u32),
        name: &str,
        time_ns: u64,
        why: Leaving,
        Site { chain, registers }: Site,
        eyes: &mut dyn Eyes,
    ) {
        let thread = self.threads.entry(id).or_insert_with(|| Thread::new(process, name, State::Runs));
        if thread.name != name {
            name.clone_into(&mut thread.name);
        }
        thread.early = thread.early.take().filter(|waker| waker.time_ns + EARLY_NS >= time_ns);
        // Who waits and leaves a CPU was woken and came to it. Linux 6.18 was seen to leave out all that a CPU does while it is idle.
        if let State::Waits { since_ns, stack, read, .. } = std::mem::replace(&mut thread.state, State::Runs)
        {
            let kind = plain(thread.process, stack.chain, EndedBy::Unknown);
            self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), read));
        }
        let Some(thread) = self.threads.get_mut(&id) else { return };
        match why {
            Leaving::Ends => self.forget(id),
            Leaving::Preempted => thread.state = State::Ready { since_ns: time_ns },
            Leaving::Waits => {
                let marks = eyes.marks(&chain);
                let stack = Stack { chain, marks };
                thread.state = State::Waits { since_ns: time_ns, stack, registers, read: Read::new() };
            }
        }
    }

    /// A thread comes to a CPU. One that nobody was seen to wake was woken early, or that was missed.
    fn came(&mut self, id: u32, name: &str, time_ns: u64) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        if thread.name != name {
            name.clone_into(&mut thread.name);
        }
        let early = thread.early.take();
        match std::mem::replace(&mut thread.state, State::Runs) {
            State::Ready { since_ns } => self.close_ready(id, since_ns, time_ns),
            State::Waits { since_ns, .. } if early.is_some() => self.close_ready(id, since_ns, time_ns),
            State::Waits { since_ns, stack, read, .. } => {
                let kind = plain(thread.process, stack.chain, EndedBy::Unknown);
                self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), read));
            }
            State::Unseen { since_ns } => {
                let kind = plain(thread.process, Vec::new(), EndedBy::Unknown);
                self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), Read::new()));
            }
            State::Runs => {}
        }
    }

    fn woken(&mut self, id: u32, waker: Waker, eyes: &mut dyn Eyes) {
        let Some(thread) = self.threads.get_mut(&id) else { return };
        let time_ns = waker.time_ns;
        let ready = State::Ready { since_ns: time_ns };
        let (since_ns, stack, read) = match std::mem::replace(&mut thread.state, ready) {
            State::Waits { since_ns, stack, read, .. } => (since_ns, stack, read),
            State::Unseen { since_ns } => (since_ns, Stack::default(), Read::new()),
            State::Runs => {
                (thread.state, thread.early) = (State::Runs, Some(waker));
                return;
            }
            ready @ State::Ready { .. } => {
                thread.state = ready;
                return;
            }
        };
        let (process, by_packet) = (thread.process, waker.stack.marks.has(Marks::NET_IN));
        let of_member = self.processes.contains(&waker.process).then_some(waker.process);
        let kind = self.kind(process, stack, waker, eyes);
        match (kind.ended_by, of_member) {
            (EndedBy::Service, Some(member)) => drop(self.asked_within.insert(member)),
            (EndedBy::Client, None) => drop(self.asked_by_clients.insert(process)),
            _ => {}
        }
        let Some(thread) = self.threads.get_mut(&id) else { return };
        thread.last = Some(root(kind.ended_by, kind.behind));
        let for_work = matches!(kind.ended_by, EndedBy::Client | EndedBy::Connection | EndedBy::Network);
        thread.served |= by_packet && for_work;
        self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), read));
    }

    /// What kind of wait ends here.
    fn kind(&self, process: u32, stack: Stack, waker: Waker, eyes: &mut dyn Eyes) -> Kind {
        let own = self.threads.get(&waker.thread).filter(|_| self.processes.contains(&waker.process));
        let (ended_by, by) = ended_by(process, stack.marks, &waker, own.is_some(), eyes);
        // Whose stack an interrupt stands on has no part in it.
        let own = own.filter(|_| matches!(ended_by, EndedBy::Thread | EndedBy::Lock | EndedBy::Child));
        Kind {
            process,
            waited_in: stack.chain,
            ended_by,
            behind: own.and_then(|own| own.last),
            by: own.map(|own| own.name.clone()).or(by),
            woken_from: own.map(|own| (own.process, waker.stack.chain)),
        }
    }

    fn close_ready(&mut self, id: u32, since_ns: u64, time_ns: u64) {
        let Some(thread) = self.threads.get(&id) else { return };
        let kind = plain(thread.process, Vec::new(), EndedBy::Cpu);
        self.close(id, kind, Sum::one(time_ns.saturating_sub(since_ns), Read::new()));
    }

    fn close(&mut self, id: u32, kind: Kind, wait: Sum) {
        let number = self.number(kind);
        if let Some(thread) = self.threads.get_mut(&id) {
            thread.sums.entry(number).or_default().add(&wait);
        }
    }

    fn number(&mut self, mut kind: Kind) -> u32 {
        if let Some(number) = self.numbers.get(&kind) {
            return *number;
        }
        if self.kinds.len() >= MOST_KINDS {
            kind = Kind { process: 0, by: None, ..plain(0, Vec::new(), kind.ended_by) };
        }
        let next = u32::try_from(self.kinds.len()).unwrap_or(u32::MAX);
        *self.numbers.entry(kind).or_insert_with_key(|kind| {
            self.kinds.push(kind.clone());
            next
        })
    }

    /// A thread is gone: its waits count where it served.
    fn forget(&mut self, id: u32) {
        let Some(thread) = self.threads.remove(&id) else { return };
        if thread.served {
            self.threads_served += 1;
            for (number, sum) in thread.sums {
                self.sums.entry(number).or_default().add(&sum);
            }
        } else {
            self.others_ns += thread.sums.values().map(|sum| sum.ns).sum::<u64>();
        }
    }

    /// Records are missing: nothing is known any more of who waits.
    fn lose(&mut self, records: u64, time_ns: u64) {
        self.lost += records;
        for thread in self.threads.values_mut() {
            thread.early = None;
            thread.state = State::Unseen { since_ns: time_ns };
        }
    }
}

fn plain(process: u32, waited_in: Vec<u64>, ended_by: EndedBy) -> Kind {
    Kind { process, waited_in, ended_by, behind: None, by: None, woken_from: None }
}

/// What in the end a thread waited for that another one let go on.
fn root(ended_by: EndedBy, behind: Option<EndedBy>) -> EndedBy {
    match ended_by {
        EndedBy::Thread | EndedBy::Lock | EndedBy::Child => behind.unwrap_or(ended_by),
        other => other,
    }
}

/// What ended a wait, by where the thread waited and what woke it; and who did, where that is nobody of the server.
fn ended_by(
    process: u32,
    waits: Marks,
    waker: &Waker,
    own: bool,
    eyes: &mut dyn Eyes,
) -> (EndedBy, Option<String>) {
    let wakes = waker.stack.marks;
    let nobody = |ended_by| (ended_by, None);
    match () {
        () if waits.has(Marks::DISK) => nobody(EndedBy::Disk),
        // What an interrupt came upon is below it in its stack, and says nothing: what its own functions say comes first.
        () if wakes.has(Marks::TIMER) && waker.context != Context::Task => nobody(EndedBy::Timer),
        () if wakes.has(Marks::DISK_DONE) => nobody(EndedBy::Disk),
        () if waker.context == Context::Hard => nobody(EndedBy::Unknown),
        () if wakes.has(Marks::NET_IN) && (wakes.has(Marks::CONNECTS) || waits.has(Marks::ACCEPT)) => {
            nobody(EndedBy::Connection)
        }
        () if wakes.has(Marks::NET_IN) && !wakes.has(Marks::NET_OUT) => nobody(EndedBy::Network),
        () if wakes.has(Marks::NET_IN) && own && waker.process == process => nobody(EndedBy::Thread),
        () if wakes.has(Marks::NET_IN) && own => match eyes.among(process, waker.process) {
            Origin::Service(name) => (EndedBy::Service, Some(name)),
            Origin::Client => nobody(EndedBy::Client),
            Origin::Stranger(_) | Origin::Kernel => nobody(EndedBy::Thread),
        },
        () if wakes.has(Marks::NET_IN) => match eyes.origin(waker.process) {
            Origin::Service(name) => (EndedBy::Service, Some(name)),
            Origin::Client | Origin::Stranger(_) => nobody(EndedBy::Client),
            Origin::Kernel => nobody(EndedBy::Network),
        },
        () if waker.context != Context::Task => nobody(EndedBy::Unknown),
        () if wakes.has(Marks::ENDS) || waits.has(Marks::CHILD) => nobody(EndedBy::Child),
        () if own && waits.has(Marks::FUTEX | Marks::KERNEL_LOCK) => nobody(EndedBy::Lock),
        () if own => nobody(EndedBy::Thread),
        () if wakes.has(Marks::WRITES) || waits.has(Marks::FUTEX) => match eyes.origin(waker.process) {
            Origin::Service(name) | Origin::Stranger(name) => (EndedBy::Service, Some(name)),
            Origin::Client => nobody(EndedBy::Client),
            Origin::Kernel => nobody(EndedBy::Unknown),
        },
        () => nobody(EndedBy::Unknown),
    }
}

#[cfg(test)]
mod tests;
