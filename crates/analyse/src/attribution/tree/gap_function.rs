//! The function under which most of a gap is, with all that it calls, in the program and in the kernel for it: one that is seen in one arm
//! only, or else one that grew far more than the arm did. Leaves say what kind of work a gap is; who asks for work of many kinds is in none
//! of them.
//!
//! What such a function calls that the other arm runs elsewhere came under it and is not new: a handler behind a wrapper, or a caller
//! that a compiler has made one with its callee in the other arm.

use std::collections::BTreeMap;

use model::record::{Frame, Profile, SPINNING, Stack};
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use super::place::{entered, leaf};
use super::{Place, Samples};
use crate::attribution::profile::{asks_for_work, is_built_in, is_of_go, is_script};
use crate::facts::calls::{ALL_READS, WRITES};
use crate::facts::functions::{around_address, brief, package_of};
use crate::facts::observed::SURE;

/// Share of the gap that must be under a function.
const LEAST: f64 = 0.25;
/// Share of what the other arm runs of a function that has moved where no more is run elsewhere.
const MOST: f64 = 0.5;
/// How many times its time in the other arm what has moved must take for the function to be what asks for it so often.
const MUCH_MORE: f64 = 3.0;
/// Share of its time in one arm, and of all time of the other one, up to which it is not seen in the other one: stacks are cut, and names
/// are shared.
const HARDLY: f64 = 0.02;
/// Share of what the best function holds from which on another is as good, so that the outermost of them is told.
const AS_GOOD: f64 = 0.95;
/// Share of the gap, and of all time of its arm, from which on a function is another program rather than what a change brought.
const PROGRAM: [f64; 2] = [1.5, 0.5];
/// Share of the gap that must be under a function that both arms run.
const GROWN: f64 = 0.5;
/// How much faster than the whole such a function must have grown, as shares of their times: where all is slower, every function is.
const FASTER_GROWN: f64 = 1.5;
/// The module of code that was compiled as it ran, such as Node's.
const JIT: &str = "[jit]";

/// Where programs and threads begin (C, Go, Python, OCaml): all of them is under that.
const BEGINNINGS: [&str; 13] = [
    "_start",
    "__libc_start_main",
    "__libc_start_call_main",
    "main",
    "start_thread",
    "runtime.main",
    "main.main",
    "<module>",
    "caml_main",
    "caml_startup",
    "caml_startup_common",
    "caml_start_program",
    "caml_program",
];

/// Whether a program or a thread begins there. A module of OCaml, too: `camlServer__entry`.
fn begins(name: &str) -> bool {
    BEGINNINGS.contains(&name) || (name.starts_with("caml") && name.ends_with("__entry"))
}

/// A function under which most of a gap in CPU time is: seen in one arm only, or grown.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize, JsonSchema)]
pub struct GapFunction {
    /// The arm, against the baseline.
    pub arm: String,
    /// The arm that costs more; the other one runs it too if `grown_ns` is there.
    pub slower: String,
    /// The function.
    pub function: String,
    /// Its crate, package or library.
    pub package: String,
    /// Its source file, where that is known.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// The function of another package that calls it most, and the line; none of a standard library.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub called_from: Option<Place>,
    /// Under it in the baseline and in the arm, in nanoseconds per request, where both run it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grown_ns: Option<[f64; 2]>,
    /// Under it, without what the other arm runs elsewhere, nanoseconds per request: arm minus baseline.
    pub delta_ns: f64,
    /// Standard error of that.
    pub delta_se_ns: f64,
    /// Its share of the gap in CPU per request; above 1 where other parts make the gap smaller.
    pub share: f64,
}

/// What stands for the library of a system call.
const KERNEL: &str = "[kernel]";

/// A function by its name, without what differs from start to start, and the name of its file or library.
type Name<'a> = ([&'a str; 2], &'a str);

/// What is under one function.
#[derive(Default)]
struct Under<'a> {
    /// In both arms, nanoseconds per request.
    ns: [f64; 2],
    variance: f64,
    /// How many functions are above it at least.
    depth: usize,
    frame: Option<&'a Frame>,
    /// What it calls itself, and the system call that is made below that, of both arms.
    calls: BTreeMap<[Option<Name<'a>>; 2], [f64; 2]>,
}

/// What is under every function.
type Functions<'a> = BTreeMap<Name<'a>, Under<'a>>;

impl Under<'_> {
    /// Whether its function has a name that says something, and is one of these.
    fn is(&self, these: impl Fn(&Frame) -> bool) -> bool {
        // Closures that were inlined (`{closure#0}` in Rust's debug information) name nothing.
        let says_nothing = |name: &str| name.starts_with('{') || begins(name);
        self.frame.is_some_and(|frame| these(frame) && !says_nothing(&frame.name))
    }
}

/// The function of one arm; `names` are those of the baseline and the arm.
pub(super) fn gap_function(names: [&str; 2], arms: [&Samples<'_>; 2]) -> Option<GapFunction> {
    let mut under = BTreeMap::new();
    for (arm, samples) in arms.into_iter().enumerate() {
        add(&mut under, arm, samples)?;
    }
    let gap = Gap::new(arms.map(|arm| arm.cpu_ns.iter().sum::<f64>()));
    let new = gap.new_function(&under);
    let (told, held) = new.or_else(|| gap.grown_function(&under))?;
    let frame = told.frame?;
    Some(GapFunction {
        arm: names[1].to_owned(),
        slower: names[gap.slow].to_owned(),
        function: brief(&frame.name),
        package: package_of(frame),
        file: frame.file.clone(),
        called_from: called_from(frame, arms[gap.slow]),
        grown_ns: new.is_none().then_some(told.ns),
        delta_ns: held.copysign(gap.ns),
        delta_se_ns: told.variance.sqrt(),
        share: held / gap.ns.abs(),
    })
}

/// The gap between two arms in CPU time, in nanoseconds per request.
struct Gap {
    /// Of the baseline and of the arm.
    whole: [f64; 2],
    /// Arm minus baseline.
    ns: f64,
    /// Which of them is the faster, and which the slower one.
    fast: usize,
    slow: usize,
}

impl Gap {
    fn new(whole: [f64; 2]) -> Self {
        let ns = whole[1] - whole[0];
        let (fast, slow) = if ns < 0.0 { (1, 0) } else { (0, 1) };
        Self { whole, ns, fast, slow }
    }

    /// The function that the slower arm alone runs, and what is under it.
    fn new_function<'u, 'a>(&self, under: &'u Functions<'a>) -> Option<(&'u Under<'a>, f64)> {
        let held =
            |one: &Under| one.ns[self.slow] - one.ns[self.fast] - moved(under, one, [self.fast, self.slow]);
        let tells = |(one, held): &(&Under, f64)| {
            self.is_sure(one, *held, LEAST)
                && one.ns[self.fast] <= HARDLY * one.ns[self.slow].min(self.whole[self.fast])
        };
        let all = under.values().filter(|one| one.is(may_tell)).map(|one| (one, held(one))).filter(tells);
        // What a language has for all programs is called by somebody. It tells only if no such caller is new.
        let is_of_language = |frame: &Frame| is_built_in(frame) || !asks_for_work(frame);
        let (of_language, own): (Vec<_>, Vec<_>) = all.partition(|(one, _)| one.is(is_of_language));
        outermost(if own.is_empty() { of_language } else { own }, |(_, held)| *held)
    }

    /// The function that both run, that grew by at least half of the gap, and that grew most for its time.
    fn grown_function<'u, 'a>(&self, under: &'u Functions<'a>) -> Option<(&'u Under<'a>, f64)> {
        let of_all = self.ns.abs() / self.whole[self.slow];
        let grown = |one: &Under| one.ns[self.slow] - one.ns[self.fast];
        let of_own = |(one, grown): &(&Under, f64)| grown / one.ns[self.slow];
        // What the faster arm does not run is new or was moved, and has not grown.
        let both_run = |one: &Under| one.ns[self.fast] > HARDLY * one.ns[self.slow];
        let tells = |one: &(&Under, f64)| {
            let faster_grown = of_own(one) >= (FASTER_GROWN * of_all).min(1.0 - HARDLY);
            faster_grown && both_run(one.0) && self.is_sure(one.0, one.1, GROWN)
        };
        let all = under.values().filter(|one| one.is(may_tell)).map(|one| (one, grown(one)));
        outermost(all.filter(tells).collect(), of_own)
    }

    /// Whether what is under a function is at least a `share` of the gap, by more than chance, and not another program.
    fn is_sure(&self, one: &Under, held: f64, share: f64) -> bool {
        // Code that is compiled as it runs is inlined differently from start to start.
        let is_compiled = one.is(|frame| frame.module == JIT);
        let is_program =
            held > PROGRAM[0] * self.ns.abs() && (is_compiled || held > PROGRAM[1] * self.whole[self.slow]);
        !is_program && held >= share * self.ns.abs() && held > SURE * one.variance.sqrt()
    }
}

/// Whether a function says why work is done: one that asks for it, or of a standard library that is written in the program's language.
fn may_tell(frame: &Frame) -> bool {
    asks_for_work(frame) || is_script(frame)
}

/// Of those of which a figure is nearly the highest, the outermost.
fn outermost<'u, 'a>(
    found: Vec<(&'u Under<'a>, f64)>,
    figure: impl Fn(&(&'u Under<'a>, f64)) -> f64,
) -> Option<(&'u Under<'a>, f64)> {
    let best = found.iter().map(&figure).max_by(f64::total_cmp)?;
    let as_good = found.into_iter().filter(|one| figure(one) >= AS_GOOD * best);
    as_good.min_by(|a, b| a.0.depth.cmp(&b.0.depth).then_with(|| b.1.total_cmp(&a.1)))
}

/// Time of what a function calls and the fast arm runs too, where the slow one runs most of that no more but under the function; of what
/// it runs many times over, the fast arm's. Likewise of system calls, which others make in the fast arm.
fn moved(under: &Functions, one: &Under, [fast, slow]: [usize; 2]) -> f64 {
    let sums = |which: usize| {
        let mut sums: BTreeMap<Name, f64> = BTreeMap::new();
        let named = one.calls.iter().filter_map(|(names, ns)| Some((names[which]?, ns[slow])));
        named.for_each(|(name, ns)| *sums.entry(name).or_default() += ns);
        sums
    };
    // Share of what is below a function, or in a call, that has not moved.
    let kept = |sums: &BTreeMap<Name, f64>, name: Option<Name>| {
        let Some((all, own)) = name.and_then(|name| Some((under.get(&name)?, *sums.get(&name)?))) else {
            return 1.0;
        };
        let (before, elsewhere) = (all.ns[fast], all.ns[slow] - own);
        match before > HARDLY * own && elsewhere < MOST * before {
            true if own > MUCH_MORE * before => 1.0 - before / own,
            true => 0.0,
            false => 1.0,
        }
    };
    let [called, made] = [0, 1].map(sums);
    let moved = |(names, ns): (&[Option<Name>; 2], &[f64; 2])| {
        ns[slow] * (1.0 - kept(&called, names[0]).min(kept(&made, names[1])))
    };
    one.calls.iter().map(moved).sum()
}

/// Adds what is under each function of an arm; nothing where callers are not known, or nothing was sampled.
fn add<'a>(under: &mut Functions<'a>, arm: usize, samples: &Samples<'a>) -> Option<()> {
    let known = samples.profiles.iter().all(|profile| profile.callers || profile.interpreted.is_some());
    let stacks = || {
        samples.profiles.iter().flat_map(|profile| profile.stacks.iter().map(move |stack| (*profile, stack)))
    };
    let mut of_side = [0_u64; 2];
    let side = |profile: &Profile, stack: &Stack| usize::from(!leaf(profile, stack).is_user());
    for (profile, stack) in stacks() {
        of_side[side(profile, stack)] += stack.samples;
    }
    if !known || of_side == [0; 2] {
        return None;
    }
    let each = |ns: f64, samples: u64| if samples == 0 { 0.0 } else { ns / samples as f64 };
    let divided = samples.cpu_ns.map(|ns| ns * samples.divides);
    for (profile, stack) in native(samples) {
        let side = side(profile, stack);
        put(under, arm, profile, stack, each(divided[side], of_side[side]));
    }
    let all: u64 = interpreted(samples).map(|(_, stack)| stack.samples).sum();
    for (profile, stack) in interpreted(samples) {
        put(under, arm, profile, stack, each(divided.iter().sum(), all));
    }
    Some(())
}

/// Native stacks. What an interpreter calls of its own says less than the functions that it is in, where those were read.
fn native<'a>(samples: &Samples<'a>) -> impl Iterator<Item = (&'a Profile, &'a Stack)> {
    let tells = |profile: &&&'a Profile| profile.callers && profile.interpreted.is_none();
    let profiles = samples.profiles.iter().filter(tells).copied();
    profiles.flat_map(|profile| profile.stacks.iter().map(move |stack| (profile, stack)))
}

/// Stacks that were read of interpreters: whatever the program does, they are in some function of it.
fn interpreted<'a>(samples: &Samples<'a>) -> impl Iterator<Item = (&'a Profile, &'a Stack)> {
    samples.profiles.iter().copied().flat_map(|profile| {
        let stacks = profile.interpreted.iter().flat_map(|read| &read.stacks);
        stacks.map(move |stack| (profile, stack))
    })
}

/// What tells functions apart. Two versions of a program lie in two folders.
fn name(frame: &Frame) -> Name<'_> {
    let path = frame.file.as_deref().unwrap_or(&frame.module);
    (around_address(&frame.name), path.rsplit('/').next().unwrap_or(path))
}

/// Who calls a function most in an arm: the innermost function above it that asks for work and is of no standard library, if it is of
/// another package.
fn called_from(function: &Frame, samples: &Samples) -> Option<Place> {
    let mut callers: BTreeMap<&Frame, u64> = BTreeMap::new();
    let function_name = name(function);
    for (profile, stack) in native(samples).chain(interpreted(samples)) {
        let frames: Vec<&Frame> = profile.frames_of(stack).collect();
        let Some(depth) = frames.iter().position(|frame| name(frame) == function_name) else { continue };
        let asks = |frame: &&&Frame| asks_for_work(frame) && !is_of_go(&frame.name);
        if let Some(caller) = frames[..depth].iter().rev().find(asks) {
            *callers.entry(*caller).or_default() += stack.samples;
        }
    }
    let (caller, _) = callers.into_iter().max_by_key(|(_, samples)| *samples)?;
    (package_of(caller) != package_of(function)).then(|| Place::of(caller, brief(&caller.name)))
}

/// One name for all system calls that send, and one for all that read: which of them a program makes is up to its library.
fn alike(call: &str) -> &str {
    let kinds: [&[&'static str]; 2] = [&WRITES, &ALL_READS];
    kinds.into_iter().find(|kind| kind.contains(&call)).map_or(call, |kind| kind[0])
}

/// Adds a stack to each function on it, once, with what one of its samples stands for.
fn put<'a>(under: &mut Functions<'a>, arm: usize, profile: &'a Profile, stack: &'a Stack, each_ns: f64) {
    let call = |frame: &'a Frame| Some(([alike(entered(&frame.name).filter(|_| frame.kernel)?), ""], KERNEL));
    let named =
        |frame: &&Frame| frame.resolved && !frame.kernel && frame.name != SPINNING && !frame.name.is_empty();
    let call = profile.frames_of(stack).find_map(call);
    let frames: Vec<&Frame> = profile.frames_of(stack).filter(named).collect();
    let names: Vec<Name> = frames.iter().map(|frame| name(frame)).collect();
    let ns = stack.samples as f64 * each_ns;
    for (depth, (frame, own)) in frames.iter().zip(&names).enumerate() {
        if names[..depth].contains(own) {
            continue;
        }
        let one = under.entry(*own).or_insert_with(|| Under { depth, ..Under::default() });
        one.depth = one.depth.min(depth);
        one.frame = one.frame.or(Some(frame));
        one.ns[arm] += ns;
        one.variance += ns * each_ns;
        let called = names[depth..].iter().find(|called| *called != own).copied();
        one.calls.entry([called, call]).or_default()[arm] += ns;
    }
    if let Some(call) = call {
        under.entry(call).or_default().ns[arm] += ns;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::attribution::tree::tests::profile;

    /// What the arm alone runs, of servers with these stacks, of 1 µs of user and 1 µs of system time in the baseline, and `slower_ns` more
    /// user time in the arm.
    fn found(
        baseline: &[(&str, u64)],
        arm: &[(&str, u64)],
        slower_ns: f64,
        callers: bool,
    ) -> Option<(String, String, f64)> {
        let found = any(baseline, arm, slower_ns, callers).filter(|one| one.grown_ns.is_none());
        found.map(|one| (one.function, one.slower, one.share))
    }

    /// The same, whoever runs it.
    fn any(
        baseline: &[(&str, u64)],
        arm: &[(&str, u64)],
        slower_ns: f64,
        callers: bool,
    ) -> Option<GapFunction> {
        let [mut from, mut to] = [profile(baseline), profile(arm)];
        (from.callers, to.callers) = (callers, callers);
        let samples = |profile, more_ns| Samples {
            profiles: vec![profile],
            cpu_ns: [1000.0 + more_ns, 1000.0],
            cpu_se_ns: [0.0; 2],
            divides: 1.0,
        };
        let (from, to) = (samples(&from, 0.0), samples(&to, slower_ns));
        let forth = gap_function(["base", "arm"], [&from, &to]);
        let back = gap_function(["arm", "base"], [&to, &from]);
        let told = |one: &Option<GapFunction>| one.as_ref().map(|one| (one.function.clone(), one.share));
        assert_eq!(told(&forth), told(&back), "which one is the baseline does not matter");
        forth
    }

    const PLAIN: [(&str, u64); 2] = [("main;serve;render", 100), ("main;serve|__x64_sys_write", 100)];

    #[test]
    fn the_outermost_function_that_one_arm_alone_runs_is_told_with_the_kernel_below_it() {
        // Half of the arm's user time and of its kernel time is the logger's.
        let logs = [
            ("main;serve;render", 100),
            ("main;serve;log;format", 50),
            ("main;serve;log;clock", 50),
            ("main;serve|__x64_sys_write", 50),
            ("main;serve;log|__x64_sys_write", 50),
        ];
        let (function, slower, share) = found(&PLAIN, &logs, 1000.0, true).unwrap();
        assert_eq!((function.as_str(), slower.as_str()), ("log", "arm"));
        assert!((share - 1.5).abs() < 0.01, "{share}");
    }

    #[test]
    fn where_a_program_begins_is_no_function_of_it() {
        // Of another language, whose runtime begins in its own way.
        for beginnings in [
            "_start;__libc_start_call_main",
            "caml_main;caml_start_program;camlServer__entry",
            "start_thread",
        ] {
            let arm: Vec<String> =
                ["serve;render", "log;format"].map(|rest| format!("{beginnings};{rest}")).to_vec();
            let arm = [(&*arm[0], 100), (&*arm[1], 100), ("main;serve|__x64_sys_write", 100)];
            let (function, ..) = found(&PLAIN, &arm, 1000.0, true).unwrap();
            assert_eq!(function, "log", "{beginnings}");
        }
    }

    #[test]
    fn what_both_run_or_holds_too_little_or_is_called_by_nobody_known_is_not_told() {
        let more = [("main;serve;render", 200), ("main;serve|__x64_sys_write", 100)];
        assert_eq!(found(&PLAIN, &more, 1000.0, true), None);
        let little =
            [("main;serve;render", 176), ("main;serve;log", 24), ("main;serve|__x64_sys_write", 100)];
        assert_eq!(found(&PLAIN, &little, 1000.0, true), None);
        let logs = [("main;serve;render", 100), ("main;serve;log", 100), ("main;serve|__x64_sys_write", 100)];
        assert!(found(&PLAIN, &logs, 1000.0, true).is_some());
        assert_eq!(found(&PLAIN, &logs, 1000.0, false), None);
    }

    #[test]
    fn what_most_of_another_program_is_under_is_not_told() {
        let other = [("main;loop;render", 10), ("main;loop;parse", 90), ("main;loop|__x64_sys_write", 100)];
        let found = found(&PLAIN, &other, 500.0, true);
        assert!(found.is_none_or(|(function, ..)| function != "loop"), "all of a request is under it");
    }

    #[test]
    fn what_v8_has_for_all_programs_is_told_where_nobody_is_seen_to_call_it() {
        let date = |caller: &str| {
            let under = "v8::internal::Builtin_DatePrototypeToLocaleDateString(int);icu_78::Calendar::add";
            let stack = format!("main;serve;{caller}{under}");
            let stacks =
                [("main;serve;render", 100), (stack.as_str(), 100), ("main;serve|__x64_sys_write", 100)];
            found(&PLAIN, &stacks, 1000.0, true).unwrap().0
        };
        assert_eq!(date(""), "Date.prototype.toLocaleDateString");
        assert_eq!(date("written;"), "written");
    }

    #[test]
    fn what_came_under_it_is_not_new() {
        // What the other arm runs as well: all that is new is a wrapper around it.
        let wrapped = [("main;serve;wrap;render", 200), ("main;serve|__x64_sys_write", 100)];
        assert_eq!(found(&PLAIN, &wrapped, 1000.0, true), None);
        // Three quarters of what is under it are its own.
        let does = [
            ("main;serve;wrap;render", 100),
            ("main;serve;wrap;check", 300),
            ("main;serve|__x64_sys_write", 100),
        ];
        let (function, _, share) = found(&PLAIN, &does, 3000.0, true).unwrap();
        assert_eq!(function, "wrap");
        assert!((share - 1.0).abs() < 0.01, "{share}");
        // A function that takes most of a request which costs a fiftieth is seen there, too.
        let tiny = [("main;serve;render", 90), ("main;serve|__x64_sys_write", 10)];
        let huge = [
            ("main;serve;render;parse", 99_000),
            ("main;serve;render", 900),
            ("main;serve|__x64_sys_write", 10),
        ];
        let (function, ..) = found(&tiny, &huge, 99_000.0, true).unwrap();
        assert_eq!(function, "parse");
        // The other arm runs it, too, but a tenth of that.
        let batched =
            [("main;serve;render", 90), ("main;batch;export", 10), ("main;serve|__x64_sys_write", 100)];
        let each =
            [("main;serve;render", 90), ("main;serve;end;export", 100), ("main;serve|__x64_sys_write", 100)];
        let (function, _, share) = found(&batched, &each, 900.0, true).unwrap();
        assert_eq!(function, "end");
        assert!((share - 1.0).abs() < 0.1, "{share}");
    }

    #[test]
    fn a_call_that_other_functions_make_in_the_other_arm_came_under_it() {
        let polls = [("main;poll;poll_write", 100), ("main;poll;poll_write|__x64_sys_sendto", 100)];
        for sends in
            ["main;serve;flush;write_all|__x64_sys_sendto", "main;serve;flush;write_all|__x64_sys_writev"]
        {
            let flushes = [("main;serve;flush;write_all", 60), ("main;serve;price", 140), (sends, 100)];
            let (function, _, share) = found(&polls, &flushes, 1000.0, true).unwrap();
            assert_eq!(function, "price", "both send");
            assert!((share - 1.4).abs() < 0.01, "{share}");
        }
    }

    #[test]
    fn of_what_both_run_that_is_told_which_grew_most_for_its_time() {
        let base =
            [("main;serve;trace;map", 20), ("main;serve;answer", 80), ("main;serve|__x64_sys_write", 100)];
        let arm =
            [("main;serve;trace;map", 120), ("main;serve;answer", 80), ("main;serve|__x64_sys_write", 100)];
        let told = any(&base, &arm, 1000.0, true).unwrap();
        assert_eq!((told.function.as_str(), told.slower.as_str()), ("trace", "arm"), "the outermost of two");
        let [from, to] = told.grown_ns.unwrap();
        assert!((from - 200.0).abs() < 1.0 && (to - 1200.0).abs() < 1.0, "{from} {to}");
        assert!((told.share - 1.0).abs() < 0.01, "{}", told.share);
        // All is slower alike.
        let spread = [
            ("main;serve;trace", 50),
            ("main;serve;answer", 50),
            ("main;serve;log", 50),
            ("main;serve|__x64_sys_write", 100),
        ];
        assert_eq!(any(&spread, &spread, 1000.0, true), None);
    }

    #[test]
    fn who_calls_it_from_another_package_is_told() {
        let logs = |caller: &str| {
            let stack = format!("main;{caller};fmt.Sprintf;fmt.pad");
            let stacks = [
                ("main;main.serve;main.render", 100),
                (stack.as_str(), 100),
                ("main;main.serve|__x64_sys_write", 100),
            ];
            let plain = [("main;main.serve;main.render", 100), ("main;main.serve|__x64_sys_write", 100)];
            let told = any(&plain, &stacks, 1000.0, true).unwrap();
            (told.function, told.called_from.map(|place| place.function))
        };
        let told = |function: &str, from: &str| (function.to_owned(), Some(from.to_owned()));
        assert_eq!(logs("main.serve"), told("fmt.Sprintf", "main.serve"));
        assert_eq!(logs("main.serve;sort.Slice"), ("sort.Slice".to_owned(), Some("main.serve".to_owned())));
        assert_eq!(logs("main.serve;main.log"), ("main.log".to_owned(), None), "of one package");
    }

    #[test]
    fn what_was_moved_has_not_grown_either() {
        let parse = ("main;serve;parse", 1000);
        let polls = [parse, ("main;serve;poll_write|__x64_sys_sendto", 1000)];
        let flushes = [parse, ("main;serve;flush;write_all|__x64_sys_sendto", 1000)];
        assert_eq!(any(&polls, &flushes, 500.0, true).unwrap().function, "parse", "both send");
    }

    #[test]
    fn a_class_that_is_made_at_run_time_is_the_same_in_the_next_start() {
        let others = [("main;serve;render", 2000), ("main;serve;parse", 1000)];
        let started = |address: &str, samples| {
            let stack = format!("main;serve;Report$$Lambda$1/{address}.handleRequest");
            [others.map(|(stack, samples)| (stack.to_owned(), samples)).to_vec(), vec![(stack, samples)]]
                .concat()
        };
        let new_in = |address: &str| {
            let [base, arm] = [started("0x01", 500), started(address, 1500)];
            let [base, arm] = [&base, &arm].map(|stacks| -> Vec<(&str, u64)> {
                stacks.iter().map(|(stack, samples)| (stack.as_str(), *samples)).collect()
            });
            found(&base, &arm, 300.0, true)
        };
        assert_eq!((new_in("0x01"), new_in("0x02")), (None, None));
    }

    #[test]
    fn a_handful_of_samples_is_chance() {
        let few = [("main;serve;render", 3), ("main;serve|__x64_sys_write", 3)];
        let logs = [("main;serve;render", 3), ("main;serve;log", 3), ("main;serve|__x64_sys_write", 3)];
        assert_eq!(found(&few, &logs, 1000.0, true), None);
    }
}
