use schemars::JsonSchema;
use serde::{Deserialize, Serialize};

use crate::record::Frame;

/// What ended a wait.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum EndedBy {
    /// Bytes of a client: there was no work.
    Client,
    /// A new connection.
    Connection,
    /// Bytes from the network, it is not known whose.
    Network,
    /// Bytes of a process that is neither the server nor its client.
    Service,
    /// Bytes or an event of another thread of the server: a pipe, an eventfd, a socket.
    Thread,
    /// A lock, or what is built on one, that another thread of the server let go.
    Lock,
    /// A time that passed.
    Timer,
    /// A disk that was done.
    Disk,
    /// A process or thread that ended.
    Child,
    /// A CPU that became free: the thread was ready.
    Cpu,
    /// Nothing yet, when watching ended.
    Unfinished,
    /// Something that was not seen.
    Unknown,
}

/// Waits of one kind: ended alike, in one place, by one waker.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct WaitLeaf {
    /// What ended them.
    pub ended_by: EndedBy,
    /// Where another thread ended them: what had ended that thread's own last wait.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub behind: Option<EndedBy>,
    /// Who ended them: a thread's name, or a process and its port.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub by: Option<String>,
    /// Whether a process of the server waited that none but other processes of it ask: what it waits for is a part of what they wait for.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub of_service: bool,
    /// Where the thread waited: indices into the frames, outermost first.
    pub waited_in: Vec<u32>,
    /// Where the other thread was, likewise.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub woken_from: Vec<u32>,
    /// How many there were.
    pub count: u64,
    /// How long they took together, in nanoseconds.
    pub ns: u64,
}

/// The waits of the threads that served: of each thread every interval without a CPU is in exactly one leaf.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Waits {
    /// Time that was watched, in nanoseconds.
    pub wall_ns: u64,
    /// Threads that sent, or waited for the network, meanwhile.
    pub threads: u64,
    /// What their leaves sum to, in nanoseconds.
    pub idle_ns: u64,
    /// Time of all other threads without a CPU, as far as it was seen.
    pub others_ns: u64,
    /// Records that the kernel dropped because nobody read them in time.
    pub lost: u64,
    /// CPU time that watching cost the observer, in nanoseconds.
    pub observer_cpu_ns: u64,
    /// Every function met.
    pub frames: Vec<Frame>,
    /// The leaves, longest first.
    pub leaves: Vec<WaitLeaf>,
    /// Goroutines that waited meanwhile, of each process of Go that could be read. Their waits are no waits of threads.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub goroutines: Vec<Goroutines>,
    /// What could not be watched, one sentence each.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing: Vec<String>,
}

/// For what a goroutine waits.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum WaitsFor {
    /// A mutex, or one for reading and writing.
    Lock,
    /// A channel.
    Channel,
    /// One of several channels.
    Select,
    /// A time that passes.
    Sleep,
    /// A condition (`sync.Cond`).
    Condition,
    /// Other goroutines that end (`sync.WaitGroup`).
    Group,
    /// Bytes from the network: the next request, or what the goroutine has asked somebody for.
    Network,
    /// Something else.
    Other,
}

/// Goroutines that wait for one thing in one place.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ParkedLeaf {
    /// For what.
    pub waits_for: WaitsFor,
    /// Where: indices into the frames of the waits, outermost first.
    pub waited_in: Vec<u32>,
    /// How many there were in all readings together.
    pub count: u64,
}

/// Goroutines of one process that waited for something other than the network, and were not the runtime's own: a wait that keeps no
/// thread. Each reading counts every goroutine once, so that counts over readings are how many wait at a time.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Goroutines {
    /// How often all goroutines were read.
    pub readings: u64,
    /// The leaves, most goroutines first.
    pub leaves: Vec<ParkedLeaf>,
}

impl Waits {
    /// The functions of a stack, outermost first; an index without a frame is left out.
    pub fn frames_of<'a>(&'a self, stack: &'a [u32]) -> impl DoubleEndedIterator<Item = &'a Frame> {
        stack.iter().filter_map(|index| self.frames.get(usize::try_from(*index).ok()?))
    }
}
