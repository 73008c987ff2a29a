//! Records of the scheduler's tracepoints in a perf ring buffer. Source: perf_event_open(2), "MMAP layout"; Linux,
//! include/trace/events/sched.h (the fields, in their order) and include/linux/trace_events.h (what comes before them).

use super::perf::user_registers;

const RECORD_LOST: u32 = 2;
const RECORD_FORK: u32 = 7;
const RECORD_SAMPLE: u32 = 9;
/// Bytes of type, flags and size before each record.
const HEADER_BYTES: usize = 8;
/// Bytes of a thread's name.
const NAME_BYTES: usize = 16;
/// Where the fields of `sched_switch` stand: name, id and state of who leaves, name and id of who comes.
const SWITCH: [usize; 5] = [8, 24, 32, 40, 56];
/// Where the woken thread's id stands in `sched_waking`.
const WOKEN: usize = 24;
/// Bits of the flags before the fields: in an interrupt, in what is put off after one.
const IN_HARD_INTERRUPT: u8 = 0x08;
const IN_SOFT_INTERRUPT: u8 = 0x10;
/// The states of threads that end: dead, a zombie.
const ENDS: u64 = 0x10 | 0x20;
/// All states in which a thread waits or ends; without one of them it would have gone on.
const STATES: u64 = 0xff;

/// The numbers of the tracepoints.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Tracepoints {
    pub(crate) switch: u64,
    pub(crate) waking: u64,
    pub(crate) sending: u64,
}

/// Where the kernel was at work.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Context {
    /// In the name of a thread.
    Task,
    /// In what is put off after an interrupt, which also a thread that sends does.
    Soft,
    /// In an interrupt.
    Hard,
}

/// Why a thread leaves its CPU.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Leaving {
    /// It waits.
    Waits,
    /// Another one is to run.
    Preempted,
    /// It ends.
    Ends,
}

/// One record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Wake {
    pub(crate) time_ns: u64,
    /// In whose name the kernel was at work.
    pub(crate) process: u32,
    pub(crate) thread: u32,
    pub(crate) what: WakeKind,
}

/// Where a thread leaves its CPU.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(crate) struct Site {
    pub(crate) chain: Vec<u64>,
    /// As [`super::USER_REGISTERS`] has them; none where they are not recorded.
    pub(crate) registers: Vec<u64>,
}

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum WakeKind {
    /// A CPU goes from the thread, which is `name`, to another.
    Switched { name: String, why: Leaving, next: u32, next_name: String, site: Site },
    /// Another thread is woken; the stack is of who wakes it.
    Woke { woken: u32, context: Context, chain: Vec<u64> },
    /// The thread sends a packet.
    Sent,
    /// A thread began: its process, and itself.
    Began { process: u32, thread: u32 },
    /// Records that found no room.
    Lost(u64),
}

/// The records in `bytes` that were taken with thread id, time, call chain and raw fields, switches with registers too, in the order in
/// which they stand; others are passed over, and what is cut off ends it.
pub(crate) fn wakes(mut bytes: &[u8], ids: Tracepoints) -> impl Iterator<Item = Wake> {
    std::iter::from_fn(move || {
        loop {
            let size = usize::from(u16::from_le_bytes(bytes.get(6..8)?.try_into().ok()?));
            let body = bytes.get(HEADER_BYTES..size)?;
            let kind = word32(bytes, 0)?;
            bytes = bytes.get(size..)?;
            let record = match kind {
                RECORD_SAMPLE => sample(body, ids),
                RECORD_FORK => began(body),
                RECORD_LOST => lost(body),
                _ => None,
            };
            if record.is_some() {
                return record;
            }
        }
    })
}

/// `pid`, `tid`, the time, the number of addresses, the addresses, the number of raw bytes, those, and the registers.
fn sample(body: &[u8], ids: Tracepoints) -> Option<Wake> {
    let count = usize::try_from(word64(body, 16)?).ok()?;
    let after = 24_usize.checked_add(count.checked_mul(8)?)?;
    let chain = body.get(24..after)?;
    let length = usize::try_from(word32(body, after)?).ok()?;
    let (raw, rest) = body.get(after + 4..)?.split_at_checked(length)?;
    let chain = || chain.chunks_exact(8).filter_map(|word| word64(word, 0)).collect();
    let tracepoint = u64::from(u16::from_le_bytes(raw.get(0..2)?.try_into().ok()?));
    let context = context(*raw.get(2)?);
    let what = match tracepoint {
        id if id == ids.switch => {
            let registers = user_registers(rest).map(|(registers, _)| registers).unwrap_or_default();
            switched(raw, Site { chain: chain(), registers })?
        }
        id if id == ids.waking => WakeKind::Woke { woken: word32(raw, WOKEN)?, context, chain: chain() },
        id if id == ids.sending && context == Context::Task => WakeKind::Sent,
        _ => return None,
    };
    Some(Wake { time_ns: word64(body, 8)?, process: word32(body, 0)?, thread: word32(body, 4)?, what })
}

fn context(flags: u8) -> Context {
    match () {
        () if flags & IN_HARD_INTERRUPT != 0 => Context::Hard,
        () if flags & IN_SOFT_INTERRUPT != 0 => Context::Soft,
        () => Context::Task,
    }
}

fn switched(raw: &[u8], site: Site) -> Option<WakeKind> {
    let [name_at, _, state_at, next_name_at, next_at] = SWITCH;
    let why = match word64(raw, state_at)? & STATES {
        0 => Leaving::Preempted,
        state if state & ENDS != 0 => Leaving::Ends,
        _ => Leaving::Waits,
    };
    Some(WakeKind::Switched {
        name: name(raw, name_at)?,
        why,
        next: word32(raw, next_at)?,
        next_name: name(raw, next_name_at)?,
        site,
    })
}

fn name(raw: &[u8], at: usize) -> Option<String> {
    let bytes = raw.get(at..at + NAME_BYTES)?;
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(NAME_BYTES);
    Some(String::from_utf8_lossy(&bytes[..end]).into_owned())
}

/// `pid`, the parent's, `tid`, the parent's, the time.
fn began(body: &[u8]) -> Option<Wake> {
    let what = WakeKind::Began { process: word32(body, 0)?, thread: word32(body, 8)? };
    Some(Wake { time_ns: word64(body, 16)?, process: word32(body, 4)?, thread: word32(body, 12)?, what })
}

/// An id, how many, and what every record has at its end: `pid`, `tid`, the time.
fn lost(body: &[u8]) -> Option<Wake> {
    let what = WakeKind::Lost(word64(body, 8)?);
    Some(Wake { time_ns: word64(body, 24)?, process: 0, thread: 0, what })
}

fn word32(bytes: &[u8], at: usize) -> Option<u32> {
    Some(u32::from_le_bytes(bytes.get(at..at + 4)?.try_into().ok()?))
}

fn word64(bytes: &[u8], at: usize) -> Option<u64> {
    Some(u64::from_le_bytes(bytes.get(at..at + 8)?.try_into().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::parse::USER_REGISTERS;

    const IDS: Tracepoints = Tracepoints { switch: 372, waking: 375, sending: 9 };

    fn record(kind: u32, body: &[u8]) -> Vec<u8> {
        let size = u16::try_from(HEADER_BYTES + body.len()).unwrap();
        [&kind.to_le_bytes()[..], &[0, 0], &size.to_le_bytes(), body].concat()
    }

    fn sampled(thread: u32, time_ns: u64, chain: &[u64], raw: &[u8], after: &[u64]) -> Vec<u8> {
        let mut body = [7_u32.to_le_bytes(), thread.to_le_bytes()].concat();
        body.extend(time_ns.to_le_bytes());
        body.extend((chain.len() as u64).to_le_bytes());
        chain.iter().for_each(|address| body.extend(address.to_le_bytes()));
        body.extend(u32::try_from(raw.len()).unwrap().to_le_bytes());
        body.extend(raw);
        after.iter().for_each(|word| body.extend(word.to_le_bytes()));
        record(RECORD_SAMPLE, &body)
    }

    fn fields(tracepoint: u16, flags: u8, words: &[(usize, &[u8])]) -> Vec<u8> {
        let mut raw = vec![0; 68];
        raw[..2].copy_from_slice(&tracepoint.to_le_bytes());
        raw[2] = flags;
        for (at, bytes) in words {
            raw[*at..*at + bytes.len()].copy_from_slice(bytes);
        }
        raw
    }

    #[test]
    fn who_leaves_who_comes_and_who_wakes_whom_is_read() {
        // What kind of registers they are stands before them.
        let registers: Vec<u64> = (0..=USER_REGISTERS.len() as u64).map(|number| 2 + number).collect();
        let leaves = |state: u64| {
            let words: [(usize, &[u8]); 4] =
                [(8, b"a worker"), (32, &state.to_le_bytes()), (40, b"next"), (56, &12_u32.to_le_bytes())];
            sampled(11, 100, &[1, 2], &fields(372, 0, &words), &registers)
        };
        let wakes_it = sampled(12, 200, &[3], &fields(375, 0x11, &[(WOKEN, &11_u32.to_le_bytes())]), &[]);
        let foreign = sampled(12, 200, &[3], &fields(1, 0, &[]), &[]);
        let sent = sampled(12, 300, &[], &fields(9, 0, &[]), &[]);
        let mut lost = [[0; 8], 5_u64.to_le_bytes(), [0; 8], 400_u64.to_le_bytes()].concat();
        lost.extend([0; 8]);
        let begins = [[7_u32, 7, 13, 11].map(u32::to_le_bytes).concat(), 500_u64.to_le_bytes().to_vec()];
        let bytes = [
            leaves(1),
            leaves(0),
            leaves(0x100),
            leaves(0x10),
            wakes_it,
            foreign,
            sent,
            record(RECORD_LOST, &lost),
            record(RECORD_FORK, &begins.concat()),
            vec![9, 0, 0, 0, 0, 0, 200, 0, 1],
        ];
        let found: Vec<Wake> = wakes(&bytes.concat(), IDS).collect();
        let why = |wake: &Wake| match &wake.what {
            WakeKind::Switched { why, name, next, next_name, site } => {
                assert_eq!((name.as_str(), *next, next_name.as_str()), ("a worker", 12, "next"));
                assert_eq!((&site.chain[..], &site.registers[..]), (&[1, 2][..], &registers[1..]));
                *why
            }
            other => panic!("{other:?}"),
        };
        let reasons: Vec<Leaving> = found[..4].iter().map(why).collect();
        assert_eq!(reasons, [Leaving::Waits, Leaving::Preempted, Leaving::Preempted, Leaving::Ends]);
        let rest: Vec<(u64, &WakeKind)> = found[4..].iter().map(|wake| (wake.time_ns, &wake.what)).collect();
        let woke = WakeKind::Woke { woken: 11, context: Context::Soft, chain: vec![3] };
        let began = WakeKind::Began { process: 7, thread: 13 };
        assert_eq!(rest, [(200, &woke), (300, &WakeKind::Sent), (400, &WakeKind::Lost(5)), (500, &began)]);
    }
}
