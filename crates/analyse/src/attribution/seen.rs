//! What was seen of a cause: figures, names and places. How that is said is left to who prints it.

use model::plan::CauseId;
use model::record::{EndedBy, WaitsFor};

use super::tree::Place;
use crate::facts::changes::Change;
use crate::facts::observed::Blocked;
use crate::facts::stalls::StallActivity;

/// A figure of both arms, the slower one's first.
pub type Both = [f64; 2];

/// One thing that was seen. Counts are of one request, and times are nanoseconds of one request where nothing else is said;
/// shares are 0 to 1.
#[derive(Debug, Clone, PartialEq)]
pub enum Seen {
    /// Writes, of the network alone where it is known where each went.
    Writes {
        /// How many.
        writes: Both,
        /// Whether all of them went to the network.
        network: bool,
        /// Bytes in each of the slower arm's, where that is known.
        bytes_each: Option<f64>,
    },
    /// More calls by which other services are asked.
    Asking {
        /// More writes to the network.
        writes: f64,
        /// More reads.
        reads: f64,
    },
    /// More writes that do not go to the network.
    OtherWrites(f64),
    /// System calls that nothing else accounts for.
    OtherCalls {
        /// How many.
        calls: Both,
        /// Those that grew most, and by how many.
        grown: Vec<(String, f64)>,
        /// How many more have no name, and in which call most of their time is.
        unnamed: Option<(f64, Option<String>)>,
    },
    /// More connections that do not last.
    NewConnections {
        /// More that were accepted.
        accepted: Option<f64>,
        /// More that were opened to another service.
        opened: Option<f64>,
        /// More calls for them.
        calls: f64,
    },
    /// Context switches.
    Switches {
        /// How many.
        switches: Both,
        /// Those of them that another cause has.
        elsewhere: Option<Elsewhere>,
    },
    /// More calls and switches by which threads hand over to each other.
    HandOver {
        /// More calls of futex.
        futexes: Option<f64>,
        /// More writes to pipes or local sockets.
        pipes: Option<f64>,
        /// More context switches.
        switches: Option<f64>,
    },
    /// Page faults.
    PageFaults {
        /// How many.
        faults: Both,
        /// Calls for memory that are more, and by how many.
        calls: Vec<(String, f64)>,
    },
    /// Time in which memory is collected.
    Collecting(Both),
    /// A virtual machine without threads that compile.
    NoCompiler,
    /// CPU time of what began and ended.
    Ended {
        /// What did.
        what: Ending,
        /// Its CPU time.
        ns: Both,
        /// Names of those that used most of it, largest first, where they are known.
        names: Vec<String>,
    },
    /// Leaves of the tree that are of one cause.
    Leaves {
        /// The cause.
        cause: CauseId,
        /// Slower minus faster arm.
        ns: f64,
        /// Standard error of that.
        error_ns: f64,
        /// Those that grew most.
        most: Vec<LeafSeen>,
    },
    /// A function that the other does not run, where the kinds of work below it are each too small or unsure.
    OnlyThere {
        /// The function.
        place: Place,
        /// Its crate, package or library.
        package: String,
        /// Slower minus faster arm.
        ns: f64,
        /// Standard error of that.
        error_ns: f64,
    },
    /// System calls that the slower server's code makes, and the other's hardly: name, and how many.
    MoreCalls(Vec<(String, Both)>),
    /// Parts of a side of the tree that are small or unsure by themselves, together.
    Side {
        /// The side.
        side: CauseId,
        /// The whole side, slower minus faster arm, and the standard error of that; absent where it is not sure, or goes the other
        /// way.
        whole: Option<[f64; 2]>,
        /// Likewise those parts.
        parts: [f64; 2],
        /// The largest of them, from the first node below the root.
        most: Vec<Vec<String>>,
    },
    /// Writes that wait for the disk.
    DiskWrites {
        /// Where in the program.
        functions: Vec<String>,
        /// Calls that ask for it.
        calls: DiskCalls,
    },
    /// Calls that wait, while the CPUs are idle.
    WaitsInCalls {
        /// What for; nothing where it is for what is read elsewhere.
        what: Option<Blocked>,
        /// Where in the program.
        functions: Vec<String>,
        /// The calls, where they were counted.
        calls: Option<Both>,
    },
    /// Share of the connections that wait to be accepted.
    NotAccepted(Both),
    /// Connections that were dropped because the listen queue was full.
    Refused(Both),
    /// CPU time of a service beside.
    Service {
        /// The service.
        service: String,
        /// Its CPU time.
        ns: Both,
        /// Program or library, and functions there, in which most of the difference is.
        place: Option<(String, Vec<String>)>,
    },
    /// One thread that is full while other CPUs are idle; CPUs that are busy.
    OneThread(Both),
    /// Answers that wait for a delayed acknowledgement.
    DelayedAcks {
        /// Share of the answers.
        answers: Both,
        /// Delayed acknowledgements.
        acks: Both,
        /// Share of the slower arm's answers that come in pieces, and how far these are apart.
        pieces: Option<(f64, f64)>,
    },
    /// Requests that wait for each other while the CPUs are idle.
    FewAtATime {
        /// Requests that are served at a time: by the quickest twentieth of the answers at the equal rate, which wait for no others, and by
        /// half of them, of which some may.
        served: [f64; 2],
        /// Requests under way.
        in_flight: f64,
        /// Where in the program.
        functions: Vec<String>,
        /// For what goroutines wait meanwhile, where that was seen.
        waits_for: Option<WaitsFor>,
        /// How long an answer takes at the equal rate.
        unhurried_ns: f64,
        /// How long it takes at capacity.
        response_ns: f64,
    },
    /// Answers that are all late while the CPUs are idle.
    AllLate {
        /// Whether it may also be that requests wait for each other.
        or_turn: bool,
        /// Where in the program.
        functions: Vec<String>,
        /// By what that shows.
        late: Late,
        /// Whether calls that wait were counted, and there are none.
        counted: bool,
    },
    /// Times in which nobody is answered while the CPUs are idle.
    Silences {
        /// How long one is.
        mean_ns: f64,
        /// Share of the time.
        shares: Both,
        /// What it does meanwhile.
        meanwhile: Meanwhile,
    },
    /// Waits of threads by what ended them.
    Waits(EndedWaits),
    /// Goroutines that wait longer.
    Parked(ParkedSeen),
}

/// Goroutines that wait for one thing in one function.
#[derive(Debug, Clone, PartialEq)]
pub struct ParkedSeen {
    /// For what.
    pub waits_for: WaitsFor,
    /// Where.
    pub function: String,
    /// How many wait at a time in the slower arm.
    pub at_a_time: f64,
    /// How long each of its requests waits there, by Little's law.
    pub ns: f64,
    /// Both of the faster arm, where that was seen.
    pub other: Option<[f64; 2]>,
}

/// Waits of one cause.
#[derive(Debug, Clone, PartialEq)]
pub struct EndedWaits {
    /// The cause.
    pub cause: CauseId,
    /// What ended most of them.
    pub ended_by: EndedBy,
    /// Who ended most of them.
    pub by: Option<String>,
    /// Where the thread waited.
    pub waited_in: Option<String>,
    /// Where the one that ended it was.
    pub woken_from: Option<String>,
    /// Of locks: what the one that held it had waited for.
    pub behind: Option<EndedBy>,
    /// Of timers of an event loop: what they run, and are seen to run more than those of the other.
    pub runs: Option<Place>,
    /// Time of them, of each request of the slower arm.
    pub ns: f64,
    /// The same of the faster one, where that was seen.
    pub other_ns: Option<f64>,
}

/// Switches that another cause has: what makes them, and how many, where it is not all of those that are more.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct Elsewhere {
    /// Whether it is waits; else threads that begin.
    pub waits: bool,
    /// How many of those that are more.
    pub count: Option<f64>,
}

/// What begins and ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Ending {
    /// Processes.
    Processes,
    /// Threads.
    Threads,
}

/// A leaf of the tree.
#[derive(Debug, Clone, PartialEq)]
pub enum LeafSeen {
    /// A function with all that it calls.
    Under {
        /// The function.
        function: String,
        /// Its package.
        package: String,
        /// Another's package that does most of it.
        mostly: Option<String>,
    },
    /// Leaves of one package, none of which holds half of what they do.
    Package {
        /// The kind of work.
        work: String,
        /// The package.
        package: String,
        /// The functions that grew most.
        functions: Vec<String>,
        /// Who asked for most of it, unless that is among these.
        via: Vec<String>,
    },
    /// One leaf.
    Leaf {
        /// Nodes from the first below the root.
        path: Vec<String>,
        /// How often it was done.
        count: Option<Both>,
        /// Of the kernel's time, the function in which most of it was.
        within: Option<String>,
        /// Who asked for it.
        via: Option<String>,
        /// What happened to its place between two revisions.
        changed: Option<Change>,
        /// Where that is the same code: the changed line that calls it.
        caller: Option<Place>,
    },
}

impl LeafSeen {
    /// What tells it from others.
    pub(crate) fn name(&self) -> String {
        match self {
            Self::Under { function, .. } => function.clone(),
            Self::Package { work, package, .. } => format!("{work} > {package}"),
            Self::Leaf { path, .. } => path.join(" > "),
        }
    }
}

/// Calls that ask for writes to the disk.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum DiskCalls {
    /// They were not counted.
    Unknown,
    /// There are hardly any.
    None,
    /// So many.
    Counted(Both),
}

/// Answers of which even the quickest are late.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Late {
    /// The quickest twentieth of the answers take so long.
    Quickest(Both),
    /// The median of answers at the equal rate.
    Unhurried(Both),
}

/// What a server waits for while it answers nobody.
#[derive(Debug, Clone, PartialEq)]
pub enum Meanwhile {
    /// Nobody saw it, as without privilege.
    Unseen,
    /// Its threads wait in this.
    Threads(StallActivity),
    /// What its goroutines wait for is told with it.
    Goroutines,
}
