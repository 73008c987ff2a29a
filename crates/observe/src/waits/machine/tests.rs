use std::ops::Range;

use super::*;

const SERVER: u32 = 10;
const CLIENT: u32 = 20;
const DATABASE: u32 = 30;
const KERNEL: u32 = 2;
/// A process of the server, of one thread: 41.
const OFFICE: u32 = 40;

/// What ended waits, what was behind it, by whom, and nanoseconds.
type Ended = (EndedBy, Option<EndedBy>, Option<String>, u64);

/// Stacks are one address, which is what they are in.
struct Known;

const LOCK: u64 = 1;
const FROM_SENDER: u64 = 2;
const FROM_CARD: u64 = 3;
const TIMER: u64 = 4;
const CONNECTS: u64 = 5;
const SYNC: u64 = 6;
const WRITES: u64 = 7;
const EXITS: u64 = 8;
const ELSEWHERE: u64 = 9;

impl Eyes for Known {
    fn marks(&mut self, chain: &[u64]) -> Marks {
        match chain[0] {
            LOCK => Marks::FUTEX,
            FROM_SENDER => Marks::NET_IN | Marks::NET_OUT,
            FROM_CARD => Marks::NET_IN,
            TIMER => Marks::TIMER,
            CONNECTS => Marks::NET_IN | Marks::NET_OUT | Marks::CONNECTS,
            SYNC => Marks::DISK,
            WRITES => Marks::WRITES,
            EXITS => Marks::ENDS,
            _ => Marks::default(),
        }
    }

    fn origin(&mut self, process: u32) -> Origin {
        match process {
            CLIENT => Origin::Client,
            DATABASE => Origin::Service("postgres (port 5432)".to_owned()),
            KERNEL => Origin::Kernel,
            other => Origin::Stranger(format!("stranger {other}")),
        }
    }

    fn among(&mut self, waiting: u32, process: u32) -> Origin {
        match (waiting, process) {
            (SERVER, OFFICE) => Origin::Service("office (port 8331)".to_owned()),
            (OFFICE, SERVER) => Origin::Client,
            (_, other) => Origin::Stranger(format!("stranger {other}")),
        }
    }
}

/// A script of what the kernel records; the server has threads 11, 12 and 13, at first none of them on a CPU.
struct Script {
    machine: Machine,
    now_ns: u64,
}

impl Script {
    fn new() -> Self {
        let mut machine = Machine::default();
        machine.begin(0, &[11, 12, 13].map(|id| (SERVER, id, format!("thread {id}"))));
        Self { machine, now_ns: 0 }
    }

    fn at(&mut self, now_ns: u64) -> &mut Self {
        self.now_ns = now_ns;
        self
    }

    fn take(&mut self, process: u32, thread: u32, what: WakeKind) -> &mut Self {
        self.machine.take(Wake { time_ns: self.now_ns, process, thread, what }, &mut Known);
        self
    }

    fn leaves(&mut self, id: u32, why: Leaving, place: u64) -> &mut Self {
        let name = format!("thread {id}");
        let site = Site { chain: vec![place], registers: vec![place + 1] };
        let what = WakeKind::Switched { name, why, next: 0, next_name: "idle".to_owned(), site };
        self.take(SERVER, id, what)
    }

    fn waits(&mut self, id: u32, place: u64) -> &mut Self {
        self.leaves(id, Leaving::Waits, place)
    }

    fn comes(&mut self, id: u32) -> &mut Self {
        let (name, next_name) = ("idle".to_owned(), format!("thread {id}"));
        let site = Site { chain: vec![0], ..Site::default() };
        let what = WakeKind::Switched { name, why: Leaving::Preempted, next: id, next_name, site };
        self.take(0, 0, what)
    }

    fn wakes(&mut self, by: (u32, u32), woken: u32, context: Context, place: u64) -> &mut Self {
        self.take(by.0, by.1, WakeKind::Woke { woken, context, chain: vec![place] })
    }

    /// It waits in `place`, and is woken and running by the time.
    fn wait_of(&mut self, id: u32, place: u64, time: Range<u64>, by: (u32, u32), context: Context, in_: u64) {
        self.at(time.start).waits(id, place).at(time.end).wakes(by, id, context, in_).comes(id);
    }

    /// A thread runs from the beginning on, and serves.
    fn serves(&mut self, ids: &[u32]) -> &mut Self {
        for id in ids {
            self.comes(*id).take(SERVER, *id, WakeKind::Sent);
        }
        self
    }

    /// What has this number is read of a thread.
    fn read(&mut self, id: u32, begin_ns: u64, number: u32) {
        if let Some(wait) = self.machine.waiting(id, begin_ns) {
            assert_eq!((wait.process, wait.registers), (SERVER, &[wait.chain[0] + 1][..]));
            *wait.read.entry(number).or_default() += 1;
        }
    }

    /// What ended how much time, without what took none.
    fn end(mut self, at_ns: u64) -> (Vec<Ended>, Waited) {
        self.machine.end(at_ns);
        let waited = self.machine.into_waited();
        let mut sums: Vec<_> = waited
            .waits
            .iter()
            .filter(|(_, sum)| sum.ns > 0)
            .map(|(kind, sum)| (kind.ended_by, kind.behind, kind.by.clone(), sum.ns))
            .collect();
        sums.sort();
        (sums, waited)
    }
}

#[test]
fn every_wait_is_told_by_what_ended_it() {
    use Context::{Hard, Soft, Task};
    for (place, by, context, woken_in, ended_by, name) in [
        (ELSEWHERE, (CLIENT, 21), Soft, FROM_SENDER, EndedBy::Client, None),
        (ELSEWHERE, (DATABASE, 31), Soft, FROM_SENDER, EndedBy::Service, Some("postgres (port 5432)")),
        // Nobody is seen to send what an interrupt brings, whomever it interrupts.
        (ELSEWHERE, (SERVER, 12), Soft, FROM_CARD, EndedBy::Network, None),
        (ELSEWHERE, (KERNEL, 2), Soft, FROM_SENDER, EndedBy::Network, None),
        (ELSEWHERE, (CLIENT, 21), Soft, CONNECTS, EndedBy::Connection, None),
        (ELSEWHERE, (SERVER, 12), Hard, TIMER, EndedBy::Timer, None),
        (LOCK, (SERVER, 12), Task, ELSEWHERE, EndedBy::Lock, Some("thread 12")),
        (ELSEWHERE, (SERVER, 12), Task, WRITES, EndedBy::Thread, Some("thread 12")),
        (ELSEWHERE, (SERVER, 12), Soft, FROM_SENDER, EndedBy::Thread, Some("thread 12")),
        (LOCK, (SERVER, 12), Task, EXITS, EndedBy::Child, Some("thread 12")),
        (SYNC, (KERNEL, 2), Task, ELSEWHERE, EndedBy::Disk, None),
        (ELSEWHERE, (40, 41), Task, WRITES, EndedBy::Service, Some("stranger 40")),
        (ELSEWHERE, (CLIENT, 21), Hard, ELSEWHERE, EndedBy::Unknown, None),
        // An interrupt that comes while somebody takes a packet.
        (ELSEWHERE, (CLIENT, 21), Hard, FROM_SENDER, EndedBy::Unknown, None),
    ] {
        let mut script = Script::new();
        script.serves(&[11]);
        script.wait_of(11, place, 100..400, by, context, woken_in);
        let (sums, waited) = script.end(1000);
        assert_eq!(sums, [(ended_by, None, name.map(str::to_owned), 300)]);
        assert_eq!((waited.threads, waited.others_ns), (1, 0));
    }
}

#[test]
fn intervals_share_the_time_without_a_cpu_and_overlap_nowhere() {
    let mut script = Script::new();
    script.serves(&[11, 12]);
    script.at(100).waits(11, ELSEWHERE).at(150).waits(12, LOCK);
    // Woken at 300, and on a CPU at 350; then it is put off for another one.
    script.at(300).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER).at(350).comes(11);
    script.at(500).leaves(11, Leaving::Preempted, ELSEWHERE).at(520).comes(11);
    script.at(600).wakes((SERVER, 11), 12, Context::Task, ELSEWHERE);
    // A second waking of whoever is ready already ends nothing.
    script.at(610).wakes((DATABASE, 31), 12, Context::Soft, FROM_SENDER).at(620).comes(12);
    script.at(900).waits(12, SYNC);
    let (sums, waited) = script.end(1000);
    let by = |name: &str| Some(name.to_owned());
    assert_eq!(
        sums,
        [
            (EndedBy::Client, None, None, 200),
            (EndedBy::Lock, Some(EndedBy::Client), by("thread 11"), 450),
            (EndedBy::Cpu, None, None, 50 + 20 + 20),
            (EndedBy::Unfinished, None, None, 100),
        ]
    );
    // Of 2000 ns of two threads: the first ran 100, 150 and 480 of them, the second 150 and 280.
    assert_eq!(sums.iter().map(|one| one.3).sum::<u64>(), 2000 - 100 - 150 - 480 - 150 - 280);
    assert_eq!((waited.threads, waited.lost), (2, 0));
}

#[test]
fn a_lock_that_was_handed_on_tells_what_its_holder_waited_for() {
    let mut script = Script::new();
    script.serves(&[11, 12, 13]);
    script.at(100).waits(12, LOCK).waits(13, LOCK);
    script.wait_of(11, ELSEWHERE, 110..200, (0, 0), Context::Hard, TIMER);
    script.at(210).wakes((SERVER, 11), 12, Context::Task, ELSEWHERE).comes(12);
    script.at(220).wakes((SERVER, 12), 13, Context::Task, ELSEWHERE).comes(13);
    let (sums, _) = script.end(300);
    let lock = |by: &str, ns| (EndedBy::Lock, Some(EndedBy::Timer), Some(by.to_owned()), ns);
    assert_eq!(sums, [lock("thread 11", 110), lock("thread 12", 120), (EndedBy::Timer, None, None, 90)]);
}

#[test]
fn who_is_woken_before_he_has_left_was_only_without_a_cpu() {
    let mut script = Script::new();
    script.serves(&[11]);
    script.at(200_000).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER);
    script.at(201_000).waits(11, ELSEWHERE).at(203_000).comes(11);
    // That he was woken long ago, and ran on, says nothing of a later wait.
    script.at(300_000).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER);
    script.at(900_000).waits(11, ELSEWHERE).at(905_000).comes(11);
    let (sums, _) = script.end(1_000_000);
    assert_eq!(sums, [(EndedBy::Cpu, None, None, 2_000), (EndedBy::Unknown, None, None, 5_000)]);
}

/// What was read in waits that ended so: stacks and times.
fn read_in(waited: &Waited, ended_by: EndedBy) -> Vec<(u32, u64)> {
    let sums = waited.waits.iter().filter(|(kind, _)| kind.ended_by == ended_by);
    sums.flat_map(|(_, sum)| sum.read.clone()).collect()
}

#[test]
fn what_was_read_is_of_the_wait_that_it_lies_in_and_of_no_other() {
    let mut script = Script::new();
    script.serves(&[11]);
    // While it runs; from before it waits; twice in the wait; of a thread that is not known.
    script.read(11, 50, 1);
    script.at(100).waits(11, LOCK);
    script.read(11, 90, 2);
    script.read(11, 100, 3);
    script.read(11, 200, 3);
    script.read(99, 200, 4);
    script.at(300).wakes((SERVER, 12), 11, Context::Task, ELSEWHERE);
    // It is ready, and then waits again: the reading that began in the first wait is of neither.
    script.read(11, 250, 5);
    script.at(310).comes(11).at(320).waits(11, ELSEWHERE);
    script.read(11, 250, 6);
    script.at(400).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER).at(410).comes(11);
    script.at(500).waits(11, TIMER);
    script.read(11, 600, 7);
    let (_, waited) = script.end(1000);
    assert_eq!(read_in(&waited, EndedBy::Lock), [(3, 2)]);
    assert_eq!(read_in(&waited, EndedBy::Client), []);
    assert_eq!(read_in(&waited, EndedBy::Unfinished), [(7, 1)]);
}

#[test]
fn a_wait_whose_end_was_left_out_is_time_all_the_same() {
    let mut script = Script::new();
    script.at(0).comes(11);
    // It sleeps twice, and neither the timer nor its coming back is recorded.
    script.at(1_000).waits(11, TIMER).at(4_000).waits(11, TIMER).at(7_000).comes(11);
    script.serves(&[11]);
    let (ended, _) = script.end(8_000);
    let unknown: u64 = ended.iter().filter(|one| one.0 == EndedBy::Unknown).map(|one| one.3).sum();
    assert_eq!(unknown, 6_000, "{ended:?}");
}

#[test]
fn lost_records_leave_time_unknown_and_never_told_wrongly() {
    let mut script = Script::new();
    script.serves(&[11, 12]);
    script.at(100).waits(11, ELSEWHERE).at(200).take(0, 0, WakeKind::Lost(7));
    // What is seen next of the one is that it is woken, of the other that it comes to a CPU.
    script.at(300).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER).comes(11).at(350).comes(12);
    let (sums, waited) = script.end(1000);
    assert_eq!(sums, [(EndedBy::Client, None, None, 100), (EndedBy::Unknown, None, None, 150)]);
    assert_eq!(waited.lost, 7);
}

#[test]
fn threads_begin_and_end_and_only_those_that_serve_count() {
    let mut script = Script::new();
    script.serves(&[11]);
    script.at(100).take(SERVER, 11, WakeKind::Began { process: SERVER, thread: 14 }).at(110).comes(14);
    script.at(120).take(SERVER, 14, WakeKind::Sent);
    script.wait_of(14, ELSEWHERE, 130..160, (0, 0), Context::Hard, TIMER);
    script.at(170).leaves(14, Leaving::Ends, ELSEWHERE);
    // One that serves nobody, and one of somebody else.
    script.at(180).comes(12);
    script.wait_of(12, ELSEWHERE, 200..700, (0, 0), Context::Hard, TIMER);
    script.at(800).take(CLIENT, 21, WakeKind::Began { process: CLIENT, thread: 22 });
    script.wakes((CLIENT, 21), 22, Context::Task, ELSEWHERE).comes(22);
    let (sums, waited) = script.end(1000);
    assert_eq!(sums, [(EndedBy::Timer, None, None, 30), (EndedBy::Cpu, None, None, 10)]);
    assert_eq!((waited.threads, waited.others_ns), (2, 180 + 500));
}

/// A process of the server that it asks itself, over the network.
#[test]
fn a_process_that_none_but_the_server_asks_is_a_service() {
    let asked = |by_a_client: bool| {
        let mut script = Script::new();
        script.serves(&[11]);
        script.at(10).take(SERVER, 11, WakeKind::Began { process: OFFICE, thread: 41 }).comes(41);
        script.take(OFFICE, 41, WakeKind::Sent);
        let waits = |script: &mut Script, from: Range<u64>, by, place| {
            let site = Site { chain: vec![ELSEWHERE], ..Site::default() };
            let (name, next_name) = ("office".to_owned(), "idle".to_owned());
            let what = WakeKind::Switched { name, why: Leaving::Waits, next: 0, next_name, site };
            script.at(from.start).take(OFFICE, 41, what);
            script.at(from.end).wakes(by, 41, Context::Soft, place).comes(41);
        };
        waits(&mut script, 100..200, (SERVER, 11), FROM_SENDER);
        script.wait_of(11, ELSEWHERE, 200..500, (OFFICE, 41), Context::Soft, FROM_SENDER);
        if by_a_client {
            waits(&mut script, 600..650, (CLIENT, 21), FROM_SENDER);
        }
        script.end(1000)
    };
    let (sums, waited) = asked(false);
    let office = Some("office (port 8331)".to_owned());
    assert_eq!(sums, [(EndedBy::Client, None, None, 100), (EndedBy::Service, None, office, 300)]);
    assert_eq!(waited.services, HashSet::from([OFFICE]));
    // Whom clients ask, too, serves them.
    assert_eq!(asked(true).1.services, HashSet::new());
}

#[test]
fn what_waits_between_two_slices_is_in_neither() {
    let mut script = Script::new();
    script.serves(&[11]).at(100).waits(11, ELSEWHERE);
    script.machine.end(200);
    script.machine.begin(1000, &[(SERVER, 11, "thread 11".to_owned())]);
    script.at(1050).wakes((CLIENT, 21), 11, Context::Soft, FROM_SENDER).comes(11);
    let (sums, _) = script.end(1100);
    assert_eq!(sums, [(EndedBy::Client, None, None, 50), (EndedBy::Unfinished, None, None, 100)]);
}

#[test]
fn of_too_many_kinds_the_last_have_no_places() {
    let mut script = Script::new();
    script.serves(&[11]);
    for number in 0..2 * MOST_KINDS as u64 {
        let (from, to) = (1000 * number, 1000 * number + 500);
        script.wait_of(11, 100 + number, from..to, (0, 0), Context::Hard, TIMER);
    }
    let (_, waited) = script.end(u64::MAX);
    assert!(waited.waits.len() <= MOST_KINDS + 12, "{}", waited.waits.len());
    assert_eq!(waited.waits.iter().map(|(_, sum)| sum.ns).sum::<u64>(), 2 * MOST_KINDS as u64 * 500);
}
