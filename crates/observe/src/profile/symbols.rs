//! Addresses into names.

use std::collections::{BTreeMap, BTreeSet, HashMap};
use std::ffi::OsStr;
use std::path::Path;

use blazesym::symbolize::source::{Kernel, Process, Source};
use blazesym::symbolize::{Input, Sym, Symbolized, Symbolizer};
use blazesym::{MaybeDefault, Pid};
use model::record::{ENDED, Frame, Profile, RUN_QUEUE, SPINNING, Stack};
use rustix::thread::CapabilitySet;

use super::golang::GoNames;
use super::hotspot::JavaNames;
use super::spins::Code;
use super::{Chains, StackWeight};
use crate::file::optional;
use crate::parse::{JitSymbol, Mapping, jit_symbol, mappings, perf_map, split_chain};

/// What a profile without time in the kernel says.
pub(super) const NO_KERNEL: &str =
    "Time in the kernel is not sampled: set kernel.perf_event_paranoid to 1 or below, or give CAP_PERFMON.";
const NO_KERNEL_SYMBOLS: &str = "The kernel hides the names of its functions: set kernel.kptr_restrict to 0, or give \
                                 CAP_SYSLOG.";
const NO_CALLERS: &str = "Callers are unknown and the profile is flat: the program keeps no frame pointers, and has no unwind \
                          tables (.eh_frame) that are read here. Build it with -fno-omit-frame-pointer (C, C++) or -C \
                          force-frame-pointers=yes (Rust), or run it with -XX:+PreserveFramePointer (JVM).";
const JIT_MODULE: &str = "[jit]";
const KERNEL_MODULE: &str = "[kernel]";
/// User stacks at most this deep end in the function that was running or in the one before: nobody kept a frame pointer.
const FLAT_DEPTH: usize = 2;
/// Modules of the C library, which Debian and others build without frame pointers.
const LIBC: [&str; 3] = ["libc.so", "libpthread", "ld-"];
/// Functions that stacks begin with: one that reaches them is whole, however short it is.
const OUTERMOST: [&str; 6] =
    ["main", "_start", "__libc_start_main", "__libc_start_call_main", "start_thread", "runtime.goexit"];
/// Share of samples with such a stack from which callers are not believed.
const FLAT_SHARE: f64 = 0.5;
/// Stands for a place in a module that is not known.
const NO_PLACE: &str = "0x0";
/// Places shown of a module without symbols.
const PLACES_SHOWN: usize = 5;
/// Share of samples in one module without symbols from which on it is reported.
const UNNAMED_SHARE: f64 = 0.05;

/// A profile with everything that follows from the stacks, what was seen during `stalls` kept apart. Of processes that ended,
/// `called` has what they called themselves.
pub(super) fn resolve(chains: &Chains, called: &BTreeMap<u32, String>, stalls: &[[u64; 2]]) -> Profile {
    let names = Names::new(chains, called);
    // Samples in all and during stalls.
    let mut stacks: BTreeMap<Vec<u32>, [u64; 2]> = BTreeMap::new();
    // Samples whose callers are unknown, by the module that they were in.
    let mut flat: BTreeMap<String, u64> = BTreeMap::new();
    let mut user_samples = 0;
    for ((pid, chain, preempted), stack) in chains {
        let samples = stack.weight;
        let (kernel, user) = split_chain(chain);
        let mut frames = names.user(*pid, &user);
        if !user.is_empty() {
            user_samples += samples;
            if names.is_cut_short(&frames) {
                *flat.entry(names.innermost_module(&frames)).or_default() += samples;
            }
        }
        frames.extend(names.kernel(&kernel));
        frames.extend(names.spinning(*pid, chain));
        frames.extend(preempted.then_some(names.run_queue).flatten());
        let sums = stacks.entry(frames).or_default();
        sums[0] += samples;
        sums[1] += stack.within(stalls);
    }
    let stalled =
        stacks.iter().map(|(frames, [_, samples])| Stack { frames: frames.clone(), samples: *samples });
    let stalled = ordered(stalled.filter(|stack| stack.samples > 0).collect());
    let stacks = stacks.into_iter().map(|(frames, [samples, _])| Stack { frames, samples }).collect();
    let stacks = ordered(stacks);
    let flat_samples: u64 = flat.values().sum();
    let callers = user_samples == 0 || (flat_samples as f64) < FLAT_SHARE * user_samples as f64;
    let flat_in = flat.into_iter().max_by_key(|(_, samples)| *samples).map(|(module, _)| module);
    let mut profile = Profile {
        samples: stacks.iter().map(|stack| stack.samples).sum(),
        kernel_symbols: names.kernel_symbols,
        callers,
        stacks,
        stalled,
        ..Profile::default()
    };
    profile.frames = names.frames;
    profile.notes = notes(&profile, flat_in.as_deref());
    profile
}

/// Names in the place of addresses: every function met, and each stack by their places, outermost first. A stack is a
/// process and its chain.
pub(crate) fn named(stacks: &[(u32, Vec<u64>)]) -> (Vec<Frame>, Vec<Vec<u32>>) {
    let keys = stacks.iter().map(|(pid, chain)| ((*pid, chain.clone(), false), StackWeight::default()));
    let names = Names::new(&keys.collect(), &BTreeMap::new());
    let stack = |(pid, chain): &(u32, Vec<u64>)| {
        let (kernel, user) = split_chain(chain);
        [names.user(*pid, &user), names.kernel(&kernel)].concat()
    };
    let stacks = stacks.iter().map(stack).collect();
    (names.frames, stacks)
}

/// Most frequent first.
fn ordered(mut stacks: Vec<Stack>) -> Vec<Stack> {
    stacks.sort_by(|a, b| b.samples.cmp(&a.samples).then_with(|| a.frames.cmp(&b.frames)));
    stacks
}

fn notes(profile: &Profile, flat_in: Option<&str>) -> Vec<String> {
    let mut notes = Vec::new();
    if !profile.kernel_symbols {
        notes.push(NO_KERNEL_SYMBOLS.to_owned());
    }
    if !profile.callers {
        notes.push(no_callers(flat_in));
    }
    let percent = |samples: u64| 100.0 * samples as f64 / profile.samples.max(1) as f64;
    for (module, places) in unnamed(profile) {
        let share = percent(places.values().sum());
        if share >= 100.0 * UNNAMED_SHARE {
            let places = most_frequent(&places, percent);
            notes.push(format!("{share:.0} % of the samples are in {module}{places}, {}", hint(module)));
        }
    }
    notes
}

/// Samples of code without a name, by module and place in its file.
fn unnamed(profile: &Profile) -> BTreeMap<&str, BTreeMap<&str, u64>> {
    let mut unnamed: BTreeMap<&str, BTreeMap<&str, u64>> = BTreeMap::new();
    for stack in &profile.stacks {
        let innermost = profile.frames_of(stack).next_back();
        if let Some(frame) = innermost.filter(|frame| !frame.resolved && !frame.kernel) {
            *unnamed.entry(&frame.module).or_default().entry(&frame.name).or_default() += stack.samples;
        }
    }
    unnamed
}

/// The places seen most often, for a disassembler to be pointed at; nothing where places are not known.
fn most_frequent(places: &BTreeMap<&str, u64>, percent: impl Fn(u64) -> f64) -> String {
    let mut ordered: Vec<(&str, u64)> = places.iter().map(|(place, samples)| (*place, *samples)).collect();
    ordered.retain(|(place, _)| *place != NO_PLACE);
    ordered.sort_by_key(|(_, samples)| std::cmp::Reverse(*samples));
    let shown: Vec<String> = ordered
        .into_iter()
        .take(PLACES_SHOWN)
        .map(|(place, samples)| format!("{place} {:.1} %", percent(samples)))
        .collect();
    if shown.is_empty() { String::new() } else { format!(" (at {})", shown.join(", ")) }
}

/// What is said where most stacks end after a frame or two, most of them in module `flat_in`.
fn no_callers(flat_in: Option<&str>) -> String {
    match flat_in.filter(|module| LIBC.iter().any(|part| module.starts_with(part))) {
        Some(libc) => format!(
            "Most stacks end in {libc}, which keeps no frame pointers here: who called it is unknown, and the profile is \
             flat there, whatever the program was built with."
        ),
        None => NO_CALLERS.to_owned(),
    }
}

fn hint(module: &str) -> &'static str {
    match module {
        "[jit]" => {
            "machine code that its runtime made and wrote no /tmp/perf-PID.map of (JVM 17 and later: jcmd PID \
             Compiler.perfmap; Node: --perf-basic-prof)."
        }
        ENDED => "processes that had ended before their functions could be named.",
        _ => "which has no symbols: build it unstripped, or install its debug symbols.",
    }
}

/// Names found so far.
struct Names {
    symbolizer: Symbolizer,
    kernel_symbols: bool,
    /// The frame of threads that wait for a CPU, where there are any.
    run_queue: Option<u32>,
    /// The frames of threads that wait on a CPU, by process and address.
    spinning: HashMap<(u32, u64), u32>,
    frames: Vec<Frame>,
    index: HashMap<Frame, u32>,
    /// Frames of an address, outermost first, several where functions were inlined; of the kernel under process 0.
    known: HashMap<(u32, u64), Vec<u32>>,
    maps: HashMap<u32, Option<Vec<Mapping>>>,
    /// What just-in-time compilers wrote down.
    jit: HashMap<u32, Vec<JitSymbol>>,
    /// Names of programs of Go that were stripped, as far as they were asked for.
    go: HashMap<u32, Option<GoNames>>,
    /// Names of what Java virtual machines compiled, likewise.
    java: HashMap<u32, Option<JavaNames>>,
    /// What processes called themselves that had ended.
    called: BTreeMap<u32, String>,
}

/// Bytes before an address at which its line is looked for, where it has none of its own: of one, two and more instructions.
const BEFORE: [u64; 3] = [4, 8, 16];

/// Gives addresses without a line the one of the same function so many bytes before: an instruction that a compiler made for no line
/// belongs to what comes before it.
fn lines_before(
    addresses: &[u64],
    found: &mut [Vec<Frame>],
    back: u64,
    frames: &impl Fn(&[u64]) -> Option<Vec<Vec<Frame>>>,
) {
    let lacks_line =
        |frames: &Vec<Frame>| frames.last().is_some_and(|frame| frame.file.is_some() && frame.line.is_none());
    let open: Vec<usize> = (0..found.len()).filter(|index| lacks_line(&found[*index])).collect();
    let places: Vec<u64> = open.iter().map(|index| addresses[*index].saturating_sub(back)).collect();
    if places.is_empty() {
        return;
    }
    for (index, before) in open.into_iter().zip(frames(&places).unwrap_or_default()) {
        let same = before.last().zip(found[index].last()).is_some_and(|(before, frame)| {
            before.name == frame.name && before.module == frame.module && before.line.is_some()
        });
        if same {
            found[index] = before;
        }
    }
}

impl Names {
    /// Looks up every address of `chains`, process by process.
    fn new(chains: &Chains, called: &BTreeMap<u32, String>) -> Self {
        let mut names = Self {
            symbolizer: Symbolizer::new(),
            kernel_symbols: kernel_symbols(),
            run_queue: None,
            spinning: HashMap::new(),
            frames: Vec::new(),
            index: HashMap::new(),
            known: HashMap::new(),
            maps: HashMap::new(),
            jit: HashMap::new(),
            go: HashMap::new(),
            java: HashMap::new(),
            called: called.clone(),
        };
        let mut wanted: BTreeMap<u32, Vec<u64>> = BTreeMap::new();
        for (pid, chain, _) in chains.keys() {
            let (kernel, user) = split_chain(chain);
            wanted.entry(0).or_default().extend(call_sites(&kernel));
            wanted.entry(*pid).or_default().extend(call_sites(&user));
        }
        for (pid, mut addresses) in wanted {
            addresses.sort_unstable();
            addresses.dedup();
            names.look_up(pid, &addresses);
        }
        names.find_spinning(chains);
        if chains.keys().any(|(_, _, preempted)| *preempted) {
            let (name, module) = (RUN_QUEUE.to_owned(), KERNEL_MODULE.to_owned());
            let frame = Frame { name, module, kernel: true, resolved: true, ..Frame::default() };
            names.run_queue = Some(names.intern(frame));
        }
        names
    }

    fn look_up(&mut self, pid: u32, addresses: &[u64]) {
        if pid != 0 {
            self.maps.insert(pid, optional(format!("/proc/{pid}/maps")).map(|text| mappings(&text)));
            self.jit.insert(pid, jit_symbols(pid));
        }
        let found = self.symbols(pid, addresses).unwrap_or_else(|| self.symbols_by_file(pid, addresses));
        for (address, mut frames) in addresses.iter().zip(found) {
            if frames.is_empty() && pid != 0 {
                let go = self.go.entry(pid).or_insert_with(|| GoNames::of(pid));
                frames.extend(go.iter().flat_map(|names| names.frames(*address)));
            }
            if frames.is_empty() && pid != 0 {
                let java = self.java.entry(pid).or_insert_with(|| JavaNames::of(pid));
                frames.extend(java.iter_mut().flat_map(|names| names.frames(*address)));
            }
            if frames.is_empty() {
                frames.extend(self.unnamed(pid, *address));
            }
            let frames = frames.into_iter().map(|frame| self.intern(frame)).collect();
            self.known.insert((pid, *address), frames);
        }
    }

    /// Debug information names inlined functions too; one file of it that does not read must not cost the others theirs.
    fn symbols(&self, pid: u32, addresses: &[u64]) -> Option<Vec<Vec<Frame>>> {
        [true, false].into_iter().find_map(|debug| {
            let source = source(pid, self.kernel_symbols, debug)?;
            let frames = |addresses: &[u64]| -> Option<Vec<Vec<Frame>>> {
                let found = self.symbolizer.symbolize(&source, Input::AbsAddr(addresses)).ok()?;
                Some(found.iter().map(|symbol| functions_at(symbol, pid == 0)).collect())
            };
            let mut found = frames(addresses)?;
            BEFORE.iter().for_each(|back| lines_before(addresses, &mut found, *back, &frames));
            Some(found)
        })
    }

    /// The same for the addresses of each file by itself: one that cannot be read, such as the memory in which a virtual machine keeps the
    /// code that it makes, costs no other its names.
    fn symbols_by_file(&self, pid: u32, addresses: &[u64]) -> Vec<Vec<Frame>> {
        let maps = self.maps.get(&pid).and_then(Option::as_ref);
        let file_of = |address: &u64| {
            let mapping = maps?.iter().find(|map| (map.begin..map.end).contains(address))?;
            Some(mapping.path.as_str())
        };
        let named = |file: &[u64]| self.symbols(pid, file).unwrap_or_else(|| vec![Vec::new(); file.len()]);
        // Addresses rise, as mappings do, so that those of one file are mostly neighbours.
        addresses.chunk_by(|one, next| file_of(one) == file_of(next)).flat_map(named).collect()
    }

    /// What has no name is told by its place; nothing where no code can be.
    fn unnamed(&self, pid: u32, address: u64) -> Option<Frame> {
        let place = |module: &str, offset: u64| Frame {
            name: format!("{offset:#x}"),
            module: module.to_owned(),
            kernel: pid == 0,
            ..Frame::default()
        };
        if pid == 0 {
            return Some(place(KERNEL_MODULE, address));
        }
        if let Some(symbol) = self.jit.get(&pid).and_then(|symbols| jit_symbol(symbols, address)) {
            let (name, module) = (symbol.name.clone(), JIT_MODULE.to_owned());
            let (file, line) = (symbol.file.clone(), symbol.line);
            return Some(Frame { name, module, kernel: false, resolved: true, file, line });
        }
        let Some(Some(maps)) = self.maps.get(&pid) else {
            let ended = place(ENDED, 0);
            return Some(Frame { name: self.called.get(&pid).cloned().unwrap_or(ended.name), ..ended });
        };
        let mapping = maps.iter().find(|map| (map.begin..map.end).contains(&address))?;
        let offset = address - mapping.begin + mapping.offset;
        match mapping.path.as_str() {
            _ if !mapping.executable => None,
            "" => Some(place(JIT_MODULE, 0)),
            path => Some(place(&file_name(OsStr::new(path)), offset)),
        }
    }

    /// Of the places where threads were met, those in loops that wait.
    fn find_spinning(&mut self, chains: &Chains) {
        let mut places: BTreeMap<u32, BTreeSet<u64>> = BTreeMap::new();
        for (pid, chain, _) in chains.keys() {
            places.entry(*pid).or_default().extend(user_address(chain));
        }
        for (pid, places) in places {
            let Some(Some(maps)) = self.maps.remove(&pid) else { continue };
            let mut code = Code::new(pid, &maps);
            for address in places.into_iter().filter(|address| code.spins(*address)) {
                let innermost = self.known.get(&(pid, address)).and_then(|frames| frames.last());
                let Some(innermost) = innermost.map(|index| self.frames[*index as usize].clone()) else {
                    continue;
                };
                let index = self.intern(Frame { name: SPINNING.to_owned(), resolved: true, ..innermost });
                self.spinning.insert((pid, address), index);
            }
        }
    }

    fn spinning(&self, pid: u32, chain: &[u64]) -> Option<u32> {
        self.spinning.get(&(pid, user_address(chain)?)).copied()
    }

    fn intern(&mut self, frame: Frame) -> u32 {
        let next = u32::try_from(self.frames.len()).unwrap_or(u32::MAX);
        *self.index.entry(frame).or_insert_with_key(|frame| {
            self.frames.push(frame.clone());
            next
        })
    }

    /// Frames of addresses in user mode, outermost first. Where an address cannot be code, what is above it was no stack.
    fn user(&self, pid: u32, addresses: &[u64]) -> Vec<u32> {
        let real = call_sites(addresses)
            .map(|address| self.known.get(&(pid, address)).map_or(&[][..], Vec::as_slice))
            .take_while(|frames| !frames.is_empty());
        let mut frames: Vec<&[u32]> = real.collect();
        frames.reverse();
        frames.concat()
    }

    /// Whether nobody could tell who called the innermost function.
    fn is_cut_short(&self, frames: &[u32]) -> bool {
        let is_outermost = |index: &u32| OUTERMOST.contains(&self.frames[*index as usize].name.as_str());
        frames.len() <= FLAT_DEPTH && !frames.iter().any(is_outermost)
    }

    /// The module of the function that was running.
    fn innermost_module(&self, frames: &[u32]) -> String {
        frames.last().map_or_else(String::new, |index| self.frames[*index as usize].module.clone())
    }

    fn kernel(&self, addresses: &[u64]) -> Vec<u32> {
        let frames = call_sites(addresses).filter_map(|address| self.known.get(&(0, address)));
        let mut frames: Vec<&[u32]> = frames.map(Vec::as_slice).collect();
        frames.reverse();
        frames.concat()
    }
}

/// Where a thread was seen that was not in the kernel.
fn user_address(chain: &[u64]) -> Option<u64> {
    let (kernel, user) = split_chain(chain);
    user.first().copied().filter(|_| kernel.is_empty())
}

/// The first address is where the CPU was; the others are where it would return to, one past the call.
fn call_sites(addresses: &[u64]) -> impl Iterator<Item = u64> {
    addresses.iter().enumerate().map(|(depth, address)| address.saturating_sub(u64::from(depth > 0)))
}

fn source(pid: u32, kernel_symbols: bool, debug: bool) -> Option<Source<'static>> {
    if pid == 0 {
        // kallsyms has addresses as they are; a vmlinux that lies about may be of another build.
        let kernel = Kernel { vmlinux: MaybeDefault::None, debug_syms: false, ..Kernel::default() };
        return kernel_symbols.then_some(Source::Kernel(kernel));
    }
    let mut process = Process::new(Pid::from(pid));
    process.debug_syms = debug;
    // Perf maps are read by ourselves: the JVM writes one that is refused there.
    process.perf_map = false;
    // The links in map_files see through mount namespaces and deleted files, for those who may follow them.
    process.map_files = may_follow_map_files();
    Some(Source::Process(process))
}

/// Source: Linux, `proc_map_files_get_link` in fs/proc/base.c. Root in a container may have neither right.
fn may_follow_map_files() -> bool {
    let rights = rustix::thread::capabilities(None).map(|sets| sets.effective);
    let enough = CapabilitySet::SYS_ADMIN | CapabilitySet::CHECKPOINT_RESTORE;
    rights.is_ok_and(|rights| rights.intersects(enough))
}

/// The perf map of a process, in its own `/tmp`, under the name by which it knows itself, or in ours.
fn jit_symbols(pid: u32) -> Vec<JitSymbol> {
    let inside = own_pid(pid);
    let places = [
        format!("/proc/{pid}/root/tmp/perf-{inside}.map"),
        format!("/proc/{pid}/root/tmp/perf-{pid}.map"),
        format!("/tmp/perf-{pid}.map"),
    ];
    places.iter().find_map(optional).map(|text| perf_map(&text)).unwrap_or_default()
}

/// What a process or thread has for its id, which in a container is another one.
pub(super) fn own_pid(pid: u32) -> u32 {
    let status = optional(format!("/proc/{pid}/status")).unwrap_or_default();
    let innermost = |line: &str| line.strip_prefix("NSpid:")?.split_whitespace().next_back()?.parse().ok();
    status.lines().find_map(innermost).unwrap_or(pid)
}

/// Whether `/proc/kallsyms` tells addresses, which are all 0 where they are hidden.
pub(crate) fn kernel_symbols() -> bool {
    use std::io::{BufRead, BufReader};
    let Ok(file) = std::fs::File::open("/proc/kallsyms") else { return false };
    let first = BufReader::new(file).lines().next().and_then(Result::ok).unwrap_or_default();
    first
        .split(' ')
        .next()
        .and_then(|word| u64::from_str_radix(word, 16).ok())
        .is_some_and(|address| address != 0)
}

/// The function at an address and those inlined there, outermost first; nothing where it is unknown.
fn functions_at(symbol: &Symbolized, kernel: bool) -> Vec<Frame> {
    let Some(symbol) = symbol.as_sym() else { return Vec::new() };
    let module = module(symbol, kernel);
    let inlined = symbol.inlined.iter().map(|inlined| (&inlined.name, inlined.code_info.as_ref()));
    std::iter::once((&symbol.name, symbol.code_info.as_deref()))
        .chain(inlined)
        .map(|(name, code)| Frame {
            name: name.to_string(),
            module: module.clone(),
            kernel,
            resolved: true,
            file: code.map(|code| code.to_path().to_string_lossy().into_owned()),
            line: code.and_then(|code| code.line),
        })
        .collect()
}

fn module(symbol: &Sym, kernel: bool) -> String {
    match &symbol.module {
        _ if kernel => KERNEL_MODULE.to_owned(),
        Some(path) => file_name(path),
        None => String::new(),
    }
}

fn file_name(path: &OsStr) -> String {
    Path::new(path).file_name().unwrap_or(path).to_string_lossy().into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn callers_are_named_by_their_calls() {
        assert_eq!(call_sites(&[10, 20, 30, 0]).collect::<Vec<_>>(), [10, 19, 29, 0]);
    }

    #[test]
    fn modules_are_told_by_file_name() {
        for (path, name) in [("/usr/lib/libc.so.6", "libc.so.6"), ("[vdso]", "[vdso]")] {
            assert_eq!(file_name(OsStr::new(path)), name);
        }
    }
}
