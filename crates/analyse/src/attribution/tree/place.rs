//! Which leaf a stack belongs to: one table for each question, asked in a fixed order, so that each stack has one answer.

use model::record::{ENDED, Frame, Profile, SPINNING, Stack, call_name};

use super::table::{
    CALLS_ON, DOES, Does, ENTRIES, FAULTS, INSTEAD, INTERRUPTS, Interpreter, ON, On, evaluating, interpreter,
    rows_fit,
};
use crate::attribution::profile::{Category, is_own, work_of};
use crate::facts::functions::{brief, is_primitive, package};

/// A kind of CPU time that is told apart from all others. Every sample is in exactly one.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Leaf {
    /// The program itself.
    Program {
        /// What kind of work.
        work: Category,
        /// Crate, package or library.
        package: String,
        /// Function.
        function: String,
        /// File and line, where they are known.
        line: Option<(String, u32)>,
    },
    /// The kernel, in a system call.
    Call {
        /// Name of the call.
        call: String,
        /// What the call is on; nothing where the stack does not tell.
        on: Option<On>,
        /// What is done.
        does: Does,
    },
    /// The kernel, giving the program a page that it touched.
    Fault {
        /// What kind of work touched it.
        work: Category,
        /// The function that touched it.
        function: String,
    },
    /// The kernel, on its way from the program to a call or back.
    Entry {
        /// What is done.
        does: Does,
    },
    /// The kernel, interrupting the program.
    Interrupt {
        /// What is done.
        does: Does,
    },
    /// The kernel, in nothing of these.
    Kernel {
        /// Function.
        function: String,
    },
    /// The program, in what one function asks for, where that is of many kinds.
    Under {
        /// Its crate, package or library.
        package: String,
        /// The function.
        function: String,
        /// Another's crate, package or library that does most of it.
        mostly: Option<String>,
    },
    /// Small leaves of the program together that do one kind of work.
    Small {
        /// What kind of work.
        work: Category,
    },
    /// CPU time of which no sample was taken.
    NotSampled {
        /// Whether it is the program's own.
        user: bool,
    },
}

impl Leaf {
    /// Whether it is the program's own time, and not the kernel's for it.
    pub(crate) fn is_user(&self) -> bool {
        match self {
            Self::Program { .. } | Self::Under { .. } | Self::Small { .. } => true,
            Self::NotSampled { user } => *user,
            _ => false,
        }
    }

    /// Whether a thread is exchanged for another.
    pub(crate) fn is_switch(&self) -> bool {
        matches!(self, Self::Call { does: Does::Switch, .. } | Self::Entry { does: Does::Switch })
    }

    /// The names of the nodes from the root to the leaf.
    pub(crate) fn path(&self) -> Vec<String> {
        let side = if self.is_user() { "user" } else { "kernel" };
        let below = match self {
            Self::Program { work, package, function, line } => {
                let line = line
                    .iter()
                    .map(|(file, line)| format!("{}:{line}", file.rsplit('/').next().unwrap_or(file)));
                let names = [work.word(), package, function].map(str::to_owned);
                names.into_iter().filter(|name| !name.is_empty()).chain(line).collect()
            }
            Self::Under { package, function, mostly } => {
                let mostly = mostly.iter().map(|package| format!("{MOSTLY} {package}"));
                [format!("{package} {AND_BELOW}"), function.clone()].into_iter().chain(mostly).collect()
            }
            Self::Call { call, on, does } => {
                let on = on.map_or("other", On::word);
                vec![call.clone(), on.to_owned(), does.word().to_owned()]
            }
            Self::Fault { work, function } => {
                vec![PAGE_FAULTS.to_owned(), work.word().to_owned(), function.clone()]
            }
            Self::Entry { does } => vec!["entry and exit".to_owned(), does.word().to_owned()],
            Self::Interrupt { does } => vec!["interrupts".to_owned(), does.word().to_owned()],
            Self::Kernel { function } => vec!["other".to_owned(), function.clone()],
            Self::Small { work } => vec![work.word().to_owned(), SMALL_ONES.to_owned()],
            Self::NotSampled { .. } => vec!["not sampled".to_owned()],
        };
        std::iter::once(side.to_owned()).chain(below).collect()
    }

    /// The leaf that stands for it where it is small: that of its package's small ones, and of these that of all small ones.
    pub(crate) fn small(&self) -> Self {
        match self {
            Self::Program { work, package, function, .. }
                if function != SMALL_ONES && !package.is_empty() =>
            {
                Self::Program {
                    work: *work,
                    package: package.clone(),
                    function: SMALL_ONES.to_owned(),
                    line: None,
                }
            }
            Self::Program { work, .. } => Self::Small { work: *work },
            Self::Kernel { .. } => Self::Kernel { function: SMALL_ONES.to_owned() },
            Self::Fault { work, .. } => Self::Fault { work: *work, function: SMALL_ONES.to_owned() },
            same => same.clone(),
        }
    }
}

/// What is said of functions with all that they ask for.
pub(super) const AND_BELOW: &str = "and what it calls";
/// Whose code does most of that.
const MOSTLY: &str = "mostly";
/// The leaf of those that are small.
pub const SMALL_ONES: &str = "small ones";
/// The node of pages that were touched and not there.
pub(crate) const PAGE_FAULTS: &str = "page faults";

/// The leaf of a stack, by the first of these that holds: it is in a system call, in a fault, in an interrupt, on the way into
/// the kernel, in the kernel, in the program. Packets that the kernel takes when it is about something else are an interrupt's: they
/// come whenever it has time, and which call that is says nothing of the call.
pub(crate) fn leaf(profile: &Profile, stack: &Stack) -> Leaf {
    let (kernel, program): (Vec<&Frame>, Vec<&Frame>) =
        profile.frames_of(stack).partition(|frame| frame.kernel);
    let Some(outermost) = kernel.first() else {
        return unread(profile, &program).unwrap_or_else(|| of_program(&program));
    };
    let is = |table, frame: &&Frame| rows_fit(table, &frame.name).is_some();
    let does = done(&kernel);
    let by_entry = kernel.iter().find_map(|frame| entered(&frame.name));
    if let Some(call) = by_entry.or_else(|| kernel.iter().find_map(|frame| rows_fit(INSTEAD, &frame.name))) {
        let own = kernel.iter().position(|frame| is(INTERRUPTS, frame)).unwrap_or(kernel.len());
        let on = |frames: &[&Frame]| frames.iter().find_map(|frame| rows_fit(ON, &frame.name));
        let call = call.to_owned();
        return match on(&kernel[..own]) {
            Some(socket @ (On::Tcp | On::UnixSocket)) => Leaf::Call { call, on: Some(socket), does },
            _ if own < kernel.len() && does.is_of_packets() => Leaf::Interrupt { does },
            _ => Leaf::Call { call, on: on(&kernel), does },
        };
    }
    match () {
        () if kernel.iter().any(|frame| is(FAULTS, frame)) => Leaf::Fault {
            work: work_of(program.iter().rev().copied()),
            function: program.last().map_or_else(|| "[unknown]".to_owned(), |frame| named(frame)),
        },
        () if is(INTERRUPTS, outermost) => Leaf::Interrupt { does },
        () if work_of(std::iter::once(*outermost)) == Category::SyscallEntry => {
            let interrupted = kernel.iter().any(|frame| is(INTERRUPTS, frame));
            if interrupted && does.is_of_packets() { Leaf::Interrupt { does } } else { Leaf::Entry { does } }
        }
        () if !outermost.resolved => Leaf::Kernel { function: HIDDEN.to_owned() },
        () => Leaf::Kernel { function: brief(&outermost.name) },
    }
}

/// The function by which the program's own code asked for what a stack does: its innermost that is nobody else's. Closures that were
/// inlined into it (`{closure#0}` in Rust's debug information) name nothing, nor does the loop of an interpreter.
pub(crate) fn via<'a>(profile: &'a Profile, stack: &'a Stack) -> Option<&'a Frame> {
    let tells =
        |frame: &&Frame| is_own(frame) && !frame.name.starts_with('{') && evaluating(&frame.name).is_none();
    profile.frames_of(stack).rev().find(tells)
}

/// The interpreter that a stack is of, at work on the program's functions, where those were sampled by themselves.
pub(crate) fn at_work(profile: &Profile, stack: &Stack) -> Option<&'static Interpreter> {
    let of = interpreter(profile.frames_of(stack).next_back()?)?;
    let at_work = work_of(profile.frames_of(stack).rev()) == Category::Handler;
    (at_work && interpreted(profile, of.module).next().is_some()).then_some(of)
}

/// The stacks of what an interpreter ran.
pub(super) fn interpreted<'a>(profile: &'a Profile, module: &'a str) -> impl Iterator<Item = &'a Stack> {
    let met = profile.interpreted.iter().flat_map(|interpreted| &interpreted.stacks);
    let is_of =
        move |stack: &Stack| profile.frames_of(stack).next_back().is_some_and(|frame| frame.module == module);
    met.filter(move |stack| stack.samples > 0 && is_of(stack))
}

/// What stands for all functions of a kernel that does not tell their names: of addresses nobody knows what they do.
const HIDDEN: &str = "names hidden by kernel.kptr_restrict";

/// The leaf of an interpreter at work on functions of which nothing was read.
fn unread(profile: &Profile, frames: &[&Frame]) -> Option<Leaf> {
    let innermost = frames.last()?;
    let of = evaluating(&innermost.name)?;
    let work = work_of(frames.iter().rev().copied());
    let (package, function) = (innermost.module.clone(), of.not_read.to_owned());
    let is_read = interpreted(profile, of.module).next().is_some();
    (!is_read).then_some(Leaf::Program { work, package, function, line: None })
}

fn of_program(frames: &[&Frame]) -> Leaf {
    let innermost = || frames.iter().rev().copied();
    let says_nothing = |frame: &&Frame| frame.name == SPINNING || is_primitive(&frame.name);
    let named_ones = || innermost().skip_while(says_nothing);
    let work = work_of(innermost());
    let Some(frame) = named_ones().next() else {
        return Leaf::Program { work, package: String::new(), function: "[unknown]".to_owned(), line: None };
    };
    let package = if frame.resolved { package(named_ones()) } else { frame.module.clone() };
    Leaf::Program { work, package, function: named(frame), line: frame.file.clone().zip(frame.line) }
}

/// A function's name; of what has none, as some code that the JVM makes, that of its module: one address is not a function. Of a
/// process that ended, what it called itself.
pub(super) fn named(frame: &Frame) -> String {
    if frame.module == ENDED && !frame.name.starts_with("0x") {
        return frame.name.clone();
    }
    match frame.resolved && !frame.name.is_empty() {
        true => brief(&frame.name),
        false => format!("[{}]", frame.module.trim_matches(['[', ']'])),
    }
}

/// The system call whose entry a function of the kernel is.
pub(super) fn entered(function: &str) -> Option<&str> {
    let name = ENTRIES.iter().find_map(|entry| function.strip_prefix(entry))?;
    // Link-time optimisation leaves suffixes such as `.isra.0`.
    Some(call_name(name.split('.').next().unwrap_or(name)))
}

/// What is done, by the innermost function that the table knows.
fn done(kernel: &[&Frame]) -> Does {
    kernel.iter().rev().find_map(|frame| rows_fit(DOES, &frame.name)).unwrap_or(Does::Other)
}

/// What a call is on by its name alone.
pub(crate) fn on_by_name(call: &str) -> Option<On> {
    CALLS_ON.iter().find(|(_, calls)| calls.contains(&call)).map(|(on, _)| *on)
}
