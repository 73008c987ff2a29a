//! What the programs do, in the kernel's instructions. Each runs on the CPU where a tracepoint is reached, adds to words
//! of that CPU only, and the kernel moves it to no other meanwhile, so that nothing has to be locked.

use std::mem::size_of;
use std::os::fd::{AsRawFd, BorrowedFd};

use model::units::CpuSet;

use super::{BUSY_NS, CALLS, CPUS, Moment, OWED_NS, SLOTS, SWITCHES, Slot, TOLD_UNTIL, WOKEN};

/// One instruction. Source: Linux, Documentation/bpf/standardization/instruction-set.rst.
#[repr(C)]
#[derive(Debug, Clone, Copy)]
pub(super) struct Instruction {
    code: u8,
    registers: u8,
    offset: i16,
    immediate: i32,
}

// Operations, as the manual names them.
const LDXDW: u8 = 0x79;
const LDXW: u8 = 0x61;
const STXDW: u8 = 0x7b;
const STXW: u8 = 0x63;
const STW: u8 = 0x62;
const LDDW: u8 = 0x18;
const MOV: u8 = 0xb7;
const MOV_REGISTER: u8 = 0xbf;
const ADD: u8 = 0x07;
const ADD_REGISTER: u8 = 0x0f;
const SUB_REGISTER: u8 = 0x1f;
const AND: u8 = 0x57;
const MUL: u8 = 0x27;
const MUL_REGISTER: u8 = 0x2f;
const LSH: u8 = 0x67;
const RSH: u8 = 0x77;
const RSH_REGISTER: u8 = 0x7f;
const JEQ: u8 = 0x15;
const JGT: u8 = 0x25;
const JLE: u8 = 0xb5;
const CALL: u8 = 0x85;
const EXIT: u8 = 0x95;

// Functions of the kernel, and kinds of addresses. Source: Linux, include/uapi/linux/bpf.h.
const MAP_LOOKUP: i32 = 1;
const MAP_UPDATE: i32 = 2;
const TIME_NS: i32 = 5;
const CURRENT_CPU: i32 = 8;
const CURRENT_PROCESS: i32 = 14;
const MAP: u8 = 1;
const MAP_VALUE: u8 = 2;

/// The register that points behind the program's own memory.
const FRAME: u8 = 10;
const WORD: i16 = size_of::<u64>() as i16;

fn one(code: u8, [to, from]: [u8; 2], offset: i16, immediate: i32) -> Instruction {
    Instruction { code, registers: from << 4 | to, offset, immediate }
}

/// Where a table keeps a slot of one CPU, from that CPU's first.
fn place(slot: usize) -> i16 {
    slot as i16 * WORD
}

/// Puts the address of this CPU's first slot into register 9, or goes to the end, `rest` instructions further on, where
/// the CPU is none of these.
fn slots_of_this_cpu(cpus: &CpuSet, map: BorrowedFd<'_>, rest: i16) -> [Instruction; 10] {
    let mask = cpus.iter().fold(0u64, |mask, cpu| mask | 1 << cpu);
    let bytes = SLOTS * size_of::<u64>();
    // Distances of jumps are counted from the next instruction.
    [
        one(CALL, [0, 0], 0, CURRENT_CPU),
        one(JGT, [0, 0], 8 + rest, CPUS as i32 - 1),
        one(LDDW, [1, 0], 0, mask as u32 as i32),
        one(0, [0, 0], 0, (mask >> 32) as u32 as i32),
        one(RSH_REGISTER, [1, 0], 0, 0),
        one(AND, [1, 0], 0, 1),
        one(JEQ, [1, 0], 3 + rest, 0),
        one(LSH, [0, 0], 0, bytes.trailing_zeros() as i32),
        one(LDDW, [9, MAP_VALUE], 0, map.as_raw_fd()),
        one(0, [0, 0], 0, 0),
    ]
}

const END: [Instruction; 2] = [
    Instruction { code: MOV, registers: 0, offset: 0, immediate: 0 },
    Instruction { code: EXIT, registers: 0, offset: 0, immediate: 0 },
];

/// Goes to the end, `rest` instructions further on, where the process whose id is in register `process` is none of `members`.
fn one_of(members: BorrowedFd<'_>, process: u8, rest: i16) -> [Instruction; 7] {
    [
        one(STXW, [FRAME, process], -4, 0),
        one(LDDW, [1, MAP], 0, members.as_raw_fd()),
        one(0, [0, 0], 0, 0),
        one(MOV_REGISTER, [2, FRAME], 0, 0),
        one(ADD, [2, 0], 0, -4),
        one(CALL, [0, 0], 0, MAP_LOOKUP),
        one(JEQ, [0, 0], rest, 0),
    ]
}

/// Puts the id of the process that runs into register 0: it is above the thread's.
const RUNNING: [Instruction; 2] = [
    Instruction { code: CALL, registers: 0, offset: 0, immediate: CURRENT_PROCESS },
    Instruction { code: RSH, registers: 0, offset: 0, immediate: 32 },
];

/// Where a process begins another: makes that one of `members` if it is one itself. The record of the tracepoint has the new one's id
/// at `child`. The id of a thread that begins goes there too, and does no harm: no other process has it.
pub(super) fn follow(members: BorrowedFd<'_>, child: i16) -> Vec<Instruction> {
    let add = [
        one(LDXW, [1, 6], child, 0),
        one(STXW, [FRAME, 1], -4, 0),
        one(STW, [FRAME, 0], -8, 1),
        one(LDDW, [1, MAP], 0, members.as_raw_fd()),
        one(0, [0, 0], 0, 0),
        one(MOV_REGISTER, [2, FRAME], 0, 0),
        one(ADD, [2, 0], 0, -4),
        one(MOV_REGISTER, [3, FRAME], 0, 0),
        one(ADD, [3, 0], 0, -8),
        one(MOV, [4, 0], 0, 0),
        one(CALL, [0, 0], 0, MAP_UPDATE),
    ];
    let begin = [one(MOV_REGISTER, [6, 1], 0, 0)];
    [&begin[..], &RUNNING, &one_of(members, 0, add.len() as i16), &add, &END].concat()
}

/// Adds one to a slot, where the process that runs is one of `members`, if there are any to tell.
pub(super) fn counter(
    slot: Slot,
    cpus: &CpuSet,
    map: BorrowedFd<'_>,
    members: Option<BorrowedFd<'_>>,
) -> Vec<Instruction> {
    let last_call = CALLS as i32 - 1;
    let (first, second) = match slot {
        Slot::OfCall => (one(LDXDW, [7, 1], WORD, 0), one(JLE, [7, 0], 1, last_call)),
        Slot::Fixed(slot) => (one(MOV, [7, 0], 0, slot as i32), one(JLE, [7, 0], 1, SLOTS as i32 - 1)),
    };
    let add = [
        one(ADD_REGISTER, [9, 0], 0, 0),
        one(LSH, [7, 0], 0, size_of::<u64>().trailing_zeros() as i32),
        one(ADD_REGISTER, [9, 7], 0, 0),
        one(LDXDW, [2, 9], 0, 0),
        one(ADD, [2, 0], 0, 1),
        one(STXDW, [9, 2], 0, 0),
    ];
    let which = [first, second, one(MOV, [7, 0], 0, last_call)];
    let slots = slots_of_this_cpu(cpus, map, add.len() as i16);
    let whose = members.map_or_else(Vec::new, |members| {
        [&RUNNING[..], &one_of(members, 0, (slots.len() + add.len()) as i16)].concat()
    });
    [&which[..], &whose, &slots, &add, &END].concat()
}

/// Adds the time since this CPU's last event to [`BUSY_NS`], if the process that runs is one of `members`; and one to
/// [`SWITCHES`], if the event is a switch.
///
/// If the process that runs is none of those and is switched from because of a waking just before, the time since then is kept
/// as owed, to be added with that of the process that runs next.
pub(super) fn stopwatch(
    moment: Moment,
    cpus: &CpuSet,
    map: BorrowedFd<'_>,
    members: BorrowedFd<'_>,
) -> Vec<Instruction> {
    let (switch, waking) = (i32::from(moment == Moment::Switch), i32::from(moment == Moment::Waking));
    let add = [
        one(LDXDW, [1, 9], place(BUSY_NS), 0),
        one(ADD_REGISTER, [1, 8], 0, 0),
        one(ADD_REGISTER, [1, 6], 0, 0),
        one(STXDW, [9, 1], place(BUSY_NS), 0),
        one(LDXDW, [1, 9], place(SWITCHES), 0),
        one(ADD, [1, 0], 0, switch),
        one(STXDW, [9, 1], place(SWITCHES), 0),
        one(MOV, [1, 0], 0, 0),
        one(STXDW, [9, 1], place(OWED_NS), 0),
    ];
    let rest = add.len() as i16;
    // The time goes to register 8, what was owed before to 6.
    let weigh = [
        one(ADD_REGISTER, [9, 0], 0, 0),
        one(LDXDW, [6, 9], place(TOLD_UNTIL), 0),
        one(STXDW, [9, 8], place(TOLD_UNTIL), 0),
        // The first event of a CPU only begins.
        one(JEQ, [6, 0], 16 + rest, 0),
        one(SUB_REGISTER, [8, 6], 0, 0),
        one(LDXDW, [6, 9], place(OWED_NS), 0),
        // What will be owed, unless the process that runs is timed itself.
        one(LDXDW, [1, 9], place(WOKEN), 0),
        one(MUL_REGISTER, [1, 8], 0, 0),
        one(MUL, [1, 0], 0, switch),
        one(STXDW, [9, 1], place(OWED_NS), 0),
        one(MOV, [1, 0], 0, waking),
        one(STXDW, [9, 1], place(WOKEN), 0),
        one(JEQ, [7, 0], 7 + rest, 0),
    ];
    let whose = one_of(members, 7, rest);
    let begin = [
        RUNNING[0],
        RUNNING[1],
        one(MOV_REGISTER, [7, 0], 0, 0),
        one(CALL, [0, 0], 0, TIME_NS),
        one(MOV_REGISTER, [8, 0], 0, 0),
    ];
    let slots = slots_of_this_cpu(cpus, map, (weigh.len() + whose.len()) as i16 + rest);
    [&begin[..], &slots, &weigh, &whose, &add, &END].concat()
}
