use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

/// Module of what ran in a process that was gone before its functions could be named. The name is that of the process where it is known.
pub const ENDED: &str = "[ended]";
/// Name of what stands, innermost, for the wait of a thread that was ready to run.
pub const RUN_QUEUE: &str = "[waiting for a CPU]";
/// Module of functions of Python, read from the interpreter.
pub const PYTHON: &str = "[python]";
/// Module of functions of Ruby, read from the interpreter.
pub const RUBY: &str = "[ruby]";
/// Module of functions of PHP, read from the interpreter.
pub const PHP: &str = "[php]";
/// Module of functions of Java that were compiled, read from the virtual machine.
pub const JAVA: &str = "[java]";
/// Interpreters whose functions are sampled by themselves: the module of those, and the interpreter's own functions in which it
/// works on them.
const EVALUATES: [(&str, &[&str]); 3] = [
    (PYTHON, &["_PyEval_EvalFrameDefault", "_PyEval_EvalFrame"]),
    (RUBY, &["rb_vm_exec", "vm_exec_core"]),
    (PHP, &["execute_ex"]),
];
/// Name of an innermost frame: the function around it waits in a loop, as a spin lock does, and keeps its CPU.
pub const SPINNING: &str = "[spinning]";

/// One function in a stack.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
pub struct Frame {
    /// Demangled name, or [`SPINNING`]; of what has no symbol, the offset in its module, hexadecimal.
    pub name: String,
    /// File name of the executable or library; `[kernel]`, `[vdso]`, `[jit]`, [`PYTHON`], [`RUBY`], [`PHP`],
    /// [`JAVA`], or [`ENDED`].
    pub module: String,
    /// Whether it ran in the kernel.
    pub kernel: bool,
    /// Whether `name` is a name.
    pub resolved: bool,
    /// Source file, where debug information or a runtime tells it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub file: Option<String>,
    /// Line there, from 1: the one that ran or called; of code that Node made, the one that the function begins in.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub line: Option<u32>,
}

impl Frame {
    /// The function alone: stacks that differ by lines only are one.
    #[must_use]
    pub fn without_place(&self) -> Self {
        Self { file: None, line: None, ..self.clone() }
    }
}

/// The module of the functions on which an interpreter works in its own function of this name; nothing where it is no such function.
#[must_use]
pub fn evaluated_in(name: &str) -> Option<&'static str> {
    // Parts that compilers split off have a point behind the name.
    let name = name.split('.').next().unwrap_or(name);
    EVALUATES.iter().find(|(_, functions)| functions.contains(&name)).map(|(module, _)| *module)
}

/// Whether functions of this module are read from an interpreter.
#[must_use]
pub fn is_interpreted(module: &str) -> bool {
    EVALUATES.iter().any(|(of, _)| *of == module)
}

/// A stack and how often it was met.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Stack {
    /// Indices into the frames, outermost first: the last one is where the CPU was.
    pub frames: Vec<u32>,
    /// Samples.
    pub samples: u64,
}

/// Stacks of functions that an interpreter ran, of threads that had a CPU or were ready for one.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Interpreted {
    /// Time that one sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Every stack met, most frequent first, by the frames of the profile.
    pub stacks: Vec<Stack>,
}

/// What the samples of a profile are.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum ProfileKind {
    /// Even steps of CPU time.
    #[default]
    Cpu,
    /// Microseconds without a CPU, from where a thread left it until it came back.
    OffCpu,
}

/// Stacks of one process group with the time that was spent in them: raw, as folded stacks.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Profile {
    /// Schema version.
    pub schema: u32,
    /// What the samples are.
    #[serde(default)]
    pub kind: ProfileKind,
    /// Time that one sample stands for, in nanoseconds.
    pub period_ns: u64,
    /// Time that was sampled.
    pub wall_ns: u64,
    /// Samples taken.
    pub samples: u64,
    /// Samples that the kernel dropped because nobody read them in time.
    pub lost: u64,
    /// Whether time in the kernel was sampled; without permission it is missing from the profile.
    pub kernel: bool,
    /// Whether the kernel's functions have names.
    pub kernel_symbols: bool,
    /// Whether callers are known: false where the program keeps no frame pointers, and only the innermost function of
    /// each stack can be believed.
    pub callers: bool,
    /// CPU time that taking it cost the observer, in nanoseconds.
    pub observer_cpu_ns: u64,
    /// What the reader must know, one sentence each.
    pub notes: Vec<String>,
    /// Every function met.
    pub frames: Vec<Frame>,
    /// Every stack met, most frequent first.
    pub stacks: Vec<Stack>,
    /// Functions that an interpreter ran meanwhile (Python, Ruby), sampled by a clock of its own: the samples above show the
    /// interpreter at work, and these what it worked on.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub interpreted: Option<Interpreted>,
    /// Lengths in nanoseconds of the times in which no answer came to the load, far longer than between two answers.
    #[serde(default)]
    pub stalls_ns: Vec<u64>,
    /// What of `stacks` falls into those times, most first.
    #[serde(default)]
    pub stalled: Vec<Stack>,
}

impl Profile {
    /// Time that the samples stand for, in nanoseconds.
    #[must_use]
    pub fn time_ns(&self) -> u64 {
        self.samples.saturating_mul(self.period_ns)
    }

    /// The functions of a stack, outermost first; an index without a frame is left out.
    pub fn frames_of<'a>(&'a self, stack: &'a Stack) -> impl DoubleEndedIterator<Item = &'a Frame> {
        stack.frames.iter().filter_map(|index| self.frames.get(usize::try_from(*index).ok()?))
    }

    /// Lines `outermost;…;innermost samples`, as flame graph tools read them.
    #[must_use]
    pub fn folded(&self) -> String {
        let mut text = String::new();
        for stack in &self.stacks {
            let names: Vec<String> =
                self.frames_of(stack).map(|frame| frame.name.replace([';', '\n'], ":")).collect();
            text.push_str(&format!("{} {}\n", names.join(";"), stack.samples));
        }
        text
    }
}
