//! Which kind of cause was there against which was named first: what is mistaken for what.

use std::collections::BTreeMap;

use model::plan::CauseId;

/// Kinds of causes: those that one would look for in the same place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Kind {
    OwnWork,
    Bytes,
    Memory,
    Calls,
    Network,
    Connections,
    Files,
    Threads,
    Waits,
    Services,
    Nothing,
}

impl Kind {
    const ALL: [Self; 11] = [
        Self::OwnWork,
        Self::Bytes,
        Self::Memory,
        Self::Calls,
        Self::Network,
        Self::Connections,
        Self::Files,
        Self::Threads,
        Self::Waits,
        Self::Services,
        Self::Nothing,
    ];

    const fn word(self) -> &'static str {
        match self {
            Self::OwnWork => "own work",
            Self::Bytes => "bytes",
            Self::Memory => "memory",
            Self::Calls => "calls",
            Self::Network => "network",
            Self::Connections => "connections",
            Self::Files => "files",
            Self::Threads => "threads",
            Self::Waits => "waits",
            Self::Services => "services",
            Self::Nothing => "nothing",
        }
    }

    /// The kind of a cause by its name; of none.
    pub(super) fn of(name: &str) -> Self {
        name.parse().map_or(Self::Nothing, Self::of_cause)
    }

    const fn of_cause(id: CauseId) -> Self {
        match id {
            CauseId::UserTime
            | CauseId::Compiling
            | CauseId::Interpreter
            | CauseId::BusyWait
            | CauseId::OwnCode
            | CauseId::HeadParsing
            | CauseId::HeaderWriting
            | CauseId::Dates
            | CauseId::Tls
            | CauseId::Serialisation
            | CauseId::Runtime
            | CauseId::ProgramWhole => Self::OwnWork,
            CauseId::Copying | CauseId::Comparing => Self::Bytes,
            CauseId::KernelMemory | CauseId::Gc | CauseId::Allocation | CauseId::KernelPages => Self::Memory,
            CauseId::SystemTime
            | CauseId::ExtraSyscalls
            | CauseId::CostlierCalls
            | CauseId::Readiness
            | CauseId::KernelPolling
            | CauseId::KernelEntry
            | CauseId::KernelOther
            | CauseId::KernelWhole => Self::Calls,
            CauseId::SmallWrites
            | CauseId::DelayedAck
            | CauseId::KernelSending
            | CauseId::KernelReceiving
            | CauseId::KernelNetwork => Self::Network,
            CauseId::NewConnections | CauseId::AcceptQueue | CauseId::ListenBacklog => Self::Connections,
            CauseId::FileWrites | CauseId::SyncWrites | CauseId::KernelFiles => Self::Files,
            CauseId::ContextSwitches
            | CauseId::ThreadHandoff
            | CauseId::LockContention
            | CauseId::OneThread
            | CauseId::ChildProcesses
            | CauseId::ShortThreads
            | CauseId::Locks => Self::Threads,
            CauseId::Sleep | CauseId::Stalls | CauseId::FewAtATime | CauseId::TimerWait => Self::Waits,
            CauseId::BackendCalls | CauseId::ServiceBeside | CauseId::BackendWait => Self::Services,
        }
    }
}

/// A table of so many sessions in which this kind was there, and this one was named first; `rows` says what the rows are.
pub(super) fn matrix(rows: &str, sessions: &[(Kind, Kind, u32)]) -> String {
    let mut counts: BTreeMap<(Kind, Kind), u32> = BTreeMap::new();
    for (there, named, count) in sessions {
        *counts.entry((*there, *named)).or_default() += count;
    }
    let head: Vec<&str> = Kind::ALL.iter().map(|kind| kind.word()).collect();
    let mut text = format!("| {rows} | {} |\n|---|{}\n", head.join(" | "), "--:|".repeat(head.len()));
    for there in Kind::ALL {
        let row: Vec<String> = Kind::ALL
            .iter()
            .map(|named| counts.get(&(there, *named)).map_or_else(String::new, u32::to_string))
            .collect();
        text.push_str(&format!("| {} | {} |\n", there.word(), row.join(" | ")));
    }
    text
}

#[cfg(test)]
mod tests {
    use super::{Kind, matrix};

    /// The rows of a page's table, one for each plant.
    fn of_plants(page: &str) -> Vec<Vec<&str>> {
        let rows = page.lines().filter(|line| line.starts_with("| planted"));
        let rows = rows.map(|line| line.split('|').map(str::trim).collect::<Vec<_>>());
        rows.filter(|row| row.len() == 8 && row[1] != "planted" || row.get(2) == Some(&"nothing")).collect()
    }

    /// The sessions that they tell of: planted, right, and how often each cause was named first.
    fn sessions(page: &str) -> Vec<(Kind, Kind, u32)> {
        of_plants(page)
            .iter()
            .flat_map(|row| {
                let planted = Kind::of(row[2].split(" or ").next().unwrap());
                let firsts = row[6].split(", ").filter_map(|first| first.rsplit_once(' '));
                let firsts = firsts.map(|(name, count)| (planted, Kind::of(name), count.parse().unwrap()));
                firsts.collect::<Vec<_>>()
            })
            .collect()
    }

    #[test]
    fn the_matrix_on_the_page_is_that_of_the_sessions_on_it() {
        let page = include_str!("../../../docs/benchmarks/why.md");
        let sessions = sessions(page);
        let rows = of_plants(page);
        let all: u32 = rows.iter().map(|row| row[3].parse::<u32>().unwrap()).sum();
        assert!(rows.len() > 30, "{} plants", rows.len());
        assert_eq!(sessions.iter().map(|(_, _, count)| count).sum::<u32>(), all);
        let expected = matrix("planted", &sessions);
        assert!(page.contains(&expected), "docs/benchmarks/why.md should hold:\n{expected}");
    }

    #[test]
    fn the_page_begins_with_what_the_recorded_slowdowns_show() {
        let page = include_str!("../../../docs/benchmarks/why.md");
        let headline = crate::calibrate::corpus::headline().unwrap();
        assert!(page.lines().nth(2).unwrap().starts_with(&headline), "run `cargo xtask calibrate corpus`");
    }

    #[test]
    fn what_is_mistaken_for_another_kind_is_off_the_diagonal() {
        let text = matrix("planted", &[(Kind::Threads, Kind::Waits, 2), (Kind::Threads, Kind::Threads, 3)]);
        assert!(text.contains("| threads |  |  |  |  |  |  |  | 3 | 2 |  |  |"), "{text}");
    }
}
