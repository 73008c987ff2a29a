//! Who sends to a server: whoever is connected to a port that it listens on asks it; whom it is connected to, it asks.

use std::collections::{BTreeSet, HashMap};

use super::machine::Origin;
use crate::file::optional;
use crate::resources::descriptors;
use crate::{Group, sockets};

/// Looks at a process of which no connection with the server is found: one may be closed at that moment.
const MOST_LOOKS: u32 = 8;

/// The processes that sent to a group so far.
#[derive(Debug)]
pub(super) struct Peers {
    group: Group,
    /// By whose peer it is (one process of the group, or the whole group) and who sent.
    known: HashMap<(Option<u32>, u32), Origin>,
    looks: HashMap<(Option<u32>, u32), u32>,
}

impl Peers {
    pub(super) fn new(group: &Group) -> Self {
        Self { group: group.clone(), known: HashMap::new(), looks: HashMap::new() }
    }

    /// Who a process is that is not of the group.
    pub(super) fn origin(&mut self, process: u32) -> Origin {
        self.find((None, process))
    }

    /// Who a process of the group is to another one of it, which waits.
    pub(super) fn among(&mut self, waiting: u32, process: u32) -> Origin {
        self.find((Some(waiting), process))
    }

    fn find(&mut self, pair: (Option<u32>, u32)) -> Origin {
        if let Some(known) = self.known.get(&pair) {
            return known.clone();
        }
        let looks = self.looks.entry(pair).or_default();
        *looks += 1;
        let last = *looks >= MOST_LOOKS;
        let (of, process) = pair;
        let of = of.map_or_else(|| self.group.pids().unwrap_or_default(), |waiting| vec![waiting]);
        let found = look(&of, process);
        if last || !matches!(found, Origin::Stranger(_)) {
            self.known.insert(pair, found.clone());
        }
        found
    }
}

/// Who a process is to those of a server.
fn look(of: &[u32], process: u32) -> Origin {
    // The kernel's own threads have no memory.
    if optional(format!("/proc/{process}/maps")).is_some_and(|maps| maps.is_empty()) {
        return Origin::Kernel;
    }
    let name = optional(format!("/proc/{process}/comm")).unwrap_or_default();
    let Ok(all) = sockets::all() else { return Origin::Stranger(name) };
    let (own, theirs) = (descriptors(of).sockets, descriptors(&[process]).sockets);
    let served: BTreeSet<u16> = all
        .iter()
        .filter(|socket| socket.listening && own.contains(&socket.inode))
        .map(|socket| socket.local_port)
        .collect();
    let asking: BTreeSet<u16> = all
        .iter()
        .filter(|socket| {
            !socket.listening && own.contains(&socket.inode) && !served.contains(&socket.local_port)
        })
        .map(|socket| socket.local_port)
        .collect();
    let mut connections = all.iter().filter(|socket| !socket.listening && theirs.contains(&socket.inode));
    if connections.clone().any(|socket| served.contains(&socket.remote_port)) {
        return Origin::Client;
    }
    match connections.find(|socket| asking.contains(&socket.remote_port)) {
        Some(socket) => Origin::Service(format!("{name} (port {})", socket.local_port)),
        None => Origin::Stranger(name),
    }
}
