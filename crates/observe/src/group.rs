use std::collections::BTreeSet;
use std::io;
use std::path::{Path, PathBuf};
use std::time::Instant;

use model::record::Fairness;

use crate::file::{self, Reader, cannot_read, numbered};
use crate::host::Cgroups;
use crate::parse::{self, Hierarchy, Stat, Status};
use crate::snapshot::{ProcessSample, Snapshot, ThreadSample, children};
use crate::{ObserveError, sys};

/// A process with everything that belongs to it.
#[derive(Debug, Clone)]
pub struct Group {
    root: u32,
    /// When the root began: another process with its number is not it.
    start: u64,
    kind: Kind,
    /// Whether it was started by us, and may be stopped.
    ours: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Kind {
    /// The root, its process group, and all descendants.
    With,
    /// The descendants of the root only.
    Below,
    /// All processes of a cgroup and of those below it; a container's has a root, a unit's has none.
    Cgroup(PathBuf),
    /// Nobody: a server that cannot be seen.
    Unseen,
}

/// Where cgroups are mounted.
const CGROUPS: &str = "/sys/fs/cgroup";
/// How deep below that a unit is looked for: slices hold slices hold services.
const DEEPEST: u32 = 10;

impl Group {
    /// The process `pid`, the process group that it leads if it leads one, and all descendants of these.
    ///
    /// # Errors
    /// [`ObserveError::NoProcess`]
    pub fn from_pid(pid: u32) -> Result<Self, ObserveError> {
        Self::new(pid, Kind::With)
    }

    /// All descendants of a supervisor, without itself. As it is their subreaper, none of them can leave, and what
    /// those used that ended is known from what it waited for.
    ///
    /// # Errors
    /// [`ObserveError::NoProcess`]
    pub fn below(supervisor: u32) -> Result<Self, ObserveError> {
        Self::new(supervisor, Kind::Below)
    }

    /// All processes of the cgroup that is called `unit` or `unit.service`, in either version of cgroups, and below it.
    ///
    /// # Errors
    /// [`ObserveError::NoUnit`]
    pub fn of_unit(unit: &str) -> Result<Self, ObserveError> {
        let none = || ObserveError::NoUnit(unit.to_owned());
        let is_name = !unit.is_empty() && !unit.contains('/') && !unit.starts_with('.');
        let names = [unit.to_owned(), format!("{unit}.service")];
        let folder = is_name.then(|| unit_below(Path::new(CGROUPS), &names, DEEPEST)).flatten();
        Ok(Self::in_cgroup(folder.ok_or_else(none)?))
    }

    fn in_cgroup(folder: PathBuf) -> Self {
        Self { root: 0, start: 0, kind: Kind::Cgroup(folder), ours: false }
    }

    /// All processes of the container `id`, which was started by us, and whose first process is `pid`: those of its cgroup,
    /// in either version of cgroups; where it has none of its own, the first process with all descendants.
    ///
    /// # Errors
    /// [`ObserveError::NoProcess`]
    pub fn of_container(pid: u32, id: &str) -> Result<Self, ObserveError> {
        let first = Self { ours: true, ..Self::from_pid(pid)? };
        Ok(match container_folder(&Cgroups::for_process(pid).hierarchies, id) {
            Some(folder) => Self { kind: Kind::Cgroup(folder), ..first },
            None => first,
        })
    }

    /// Nobody, who uses nothing: for a server whose processes cannot be seen.
    #[must_use]
    pub fn unseen() -> Self {
        Self { root: 0, start: 0, kind: Kind::Unseen, ours: false }
    }

    fn new(root: u32, kind: Kind) -> Result<Self, ObserveError> {
        let start = read_stat(&mut Reader::new(), root).ok_or(ObserveError::NoProcess(root))?.start;
        let ours = kind == Kind::Below;
        Ok(Self { root, start, kind, ours })
    }

    /// Reads all counters of all members. The CPU clocks come first, right after the time.
    ///
    /// # Errors
    /// [`ObserveError::Ended`] where the root is gone, [`ObserveError::File`] where `/proc` is.
    pub fn snapshot(&self) -> Result<Snapshot, ObserveError> {
        let mut reader = Reader::new();
        let table = Table::read(&mut reader)?;
        self.snapshot_of(&table, &mut reader)
    }

    pub(crate) fn snapshot_of(&self, table: &Table, reader: &mut Reader) -> Result<Snapshot, ObserveError> {
        self.snapshot_by(sys::process_cpu_ns, table, reader)
    }

    /// The members without their threads: what they used, and nothing of switches and waits.
    pub(crate) fn processes_of(&self, table: &Table, reader: &mut Reader) -> Result<Snapshot, ObserveError> {
        let members = self.members(table)?;
        let mut snapshot = Snapshot::empty(Instant::now());
        for member in &members {
            if self.kind == Kind::Below && member.pid == self.root {
                snapshot.supervised =
                    read_stat(reader, member.pid).as_ref().map(children).unwrap_or_default();
                continue;
            }
            // One that ended since the table was read counts as ended before.
            if let Ok(cpu_ns) = sys::process_cpu_ns(member.pid) {
                let sample = ProcessSample::new(member, cpu_ns, &Status::default());
                snapshot.processes.insert(member.pid, sample);
            }
        }
        Ok(snapshot)
    }

    /// `clock` tells the CPU time of a process in nanoseconds.
    fn snapshot_by(
        &self,
        clock: fn(u32) -> io::Result<u64>,
        table: &Table,
        reader: &mut Reader,
    ) -> Result<Snapshot, ObserveError> {
        let members = self.members(table)?;
        let at = Instant::now();
        let clocks: Vec<io::Result<u64>> = members.iter().map(|stat| clock(stat.pid)).collect();
        let mut snapshot = Snapshot::empty(at);
        for (member, cpu_ns) in members.iter().zip(clocks) {
            // A member may end at any time: what is gone by now counts as ended before.
            let Some(stat) = read_stat(reader, member.pid).filter(|stat| stat.start == member.start) else {
                continue;
            };
            if self.kind == Kind::Below && stat.pid == self.root {
                snapshot.supervised = children(&stat);
            } else {
                // It is there, and so is its clock: where that is refused, 0 would be a wrong number.
                let cpu_ns =
                    cpu_ns.map_err(cannot_read(&format!("the CPU clock of process {}", stat.pid)))?;
                add_process(&mut snapshot, reader, &stat, cpu_ns);
            }
        }
        Ok(snapshot)
    }

    /// Threads now, and the CPUs that they may use, all of them together.
    ///
    /// # Errors
    /// As [`Group::snapshot`].
    pub fn fairness(&self) -> Result<Fairness, ObserveError> {
        let mut reader = Reader::new();
        let (mut threads, mut cpus) = (0, BTreeSet::new());
        let table = Table::read(&mut reader)?;
        for member in self.watched(&table)? {
            for tid in numbered(&format!("/proc/{}/task", member.pid)).unwrap_or_default() {
                let Ok(text) = reader.read(&format!("/proc/{}/task/{tid}/status", member.pid)) else {
                    continue;
                };
                threads += 1;
                if let Ok(allowed) = parse::status(text).allowed_cpus.parse::<model::units::CpuSet>() {
                    cpus.extend(allowed.iter());
                }
            }
        }
        Ok(Fairness { threads, allowed_cpus: cpus.into_iter().collect::<model::units::CpuSet>().to_string() })
    }

    /// The process of which `id` is a thread; nothing where it is a process itself. `/proc` opens for either number, but
    /// lists processes only.
    #[must_use]
    pub fn process_of_thread(id: u32) -> Option<u32> {
        let status = file::optional(format!("/proc/{id}/status"))?;
        let process = status.lines().find_map(|line| line.strip_prefix("Tgid:"))?.trim().parse().ok()?;
        (process != id).then_some(process)
    }

    /// Whether a member gets its share of a CPU apart from this process: in a session (`sched_autogroup_enabled`) or a
    /// cgroup of its own. Between such groups no thread's class or nice counts, so that what we run at the lowest class
    /// takes half of a CPU from it.
    ///
    /// Source: sched(7), "The autogroup feature".
    ///
    /// # Errors
    /// As [`Group::snapshot`].
    pub fn is_scheduled_apart(&self) -> Result<bool, ObserveError> {
        let place = |pid: &str| {
            let of = |name: &str| file::optional(format!("/proc/{pid}/{name}"));
            (of("autogroup"), of("cgroup").map(|text| parse::cpu_cgroup(&text)))
        };
        let ours = place("self");
        Ok(self.pids()?.iter().map(|pid| place(&pid.to_string())).any(|theirs| {
            // What cannot be read of one that has just ended is no difference.
            let differ = |a: &Option<String>, b: &Option<String>| a.is_some() && b.is_some() && a != b;
            differ(&ours.0, &theirs.0) || differ(&ours.1, &theirs.1)
        }))
    }

    /// Whether its processes were started here, below a supervisor of ours or in a container.
    #[must_use]
    pub fn is_supervised(&self) -> bool {
        self.ours
    }

    /// The process that the group was made of.
    pub(crate) fn root(&self) -> u32 {
        self.root
    }

    /// Ids of the processes that are there now.
    ///
    /// # Errors
    /// As [`Group::snapshot`].
    pub fn pids(&self) -> Result<Vec<u32>, ObserveError> {
        let table = Table::read(&mut Reader::new())?;
        Ok(self.watched(&table)?.iter().map(|stat| stat.pid).collect())
    }

    /// Whether the process that the group was made of is still there.
    #[must_use]
    pub fn is_alive(&self) -> bool {
        match &self.kind {
            Kind::Unseen => return true,
            Kind::Cgroup(folder) => return !cgroup_pids(folder).is_empty(),
            Kind::With | Kind::Below => {}
        }
        let stat = read_stat(&mut Reader::new(), self.root);
        // A zombie has ended, and only waits to be asked how.
        stat.is_some_and(|stat| stat.start == self.start && stat.state != 'Z')
    }

    /// Ids of the processes that run a Java virtual machine.
    ///
    /// # Errors
    /// As [`Group::snapshot`].
    pub fn java_pids(&self) -> Result<Vec<u32>, ObserveError> {
        self.pids_with("libjvm.so")
    }

    /// Ids of the processes that have a library loaded whose path contains `part`.
    ///
    /// # Errors
    /// As [`Group::snapshot`].
    pub fn pids_with(&self, part: &str) -> Result<Vec<u32>, ObserveError> {
        let has =
            |pid: &u32| file::optional(format!("/proc/{pid}/maps")).is_some_and(|maps| maps.contains(part));
        Ok(self.pids()?.into_iter().filter(has).collect())
    }

    /// Ids of all their threads.
    pub(crate) fn threads(&self) -> Result<Vec<u32>, ObserveError> {
        let tids = |pid| numbered(&format!("/proc/{pid}/task")).unwrap_or_default();
        Ok(self.pids()?.into_iter().flat_map(tids).collect())
    }

    /// Resident memory in bytes and threads: what a cheap look once a second needs.
    pub(crate) fn size(&self, reader: &mut Reader) -> Result<(u64, u32), ObserveError> {
        let (mut rss_bytes, mut threads) = (0, 0);
        let table = Table::read(reader)?;
        for member in self.watched(&table)? {
            threads += member.threads;
            if let Ok(text) = reader.read(&format!("/proc/{}/status", member.pid)) {
                rss_bytes += parse::status(text).rss_bytes;
            }
        }
        Ok((rss_bytes, threads))
    }

    /// Descriptors that they have open, as far as this user may count them.
    pub(crate) fn open_descriptors(&self) -> u64 {
        let count =
            |pid| std::fs::read_dir(format!("/proc/{pid}/fd")).map_or(0, |entries| entries.count() as u64);
        self.pids().unwrap_or_default().into_iter().map(count).sum()
    }

    /// The processes that are watched.
    pub(crate) fn watched(&self, table: &Table) -> Result<Vec<Stat>, ObserveError> {
        let mut members = self.members(table)?;
        members.retain(|member| member.pid != self.root || self.kind != Kind::Below);
        Ok(members)
    }

    /// The members, the root among them in either kind.
    fn members(&self, table: &Table) -> Result<Vec<Stat>, ObserveError> {
        match &self.kind {
            Kind::Unseen => return Ok(Vec::new()),
            Kind::Cgroup(folder) => {
                let pids = cgroup_pids(folder);
                return Ok(table.0.iter().filter(|stat| pids.contains(&stat.pid)).copied().collect());
            }
            Kind::With | Kind::Below => {}
        }
        if !table.0.iter().any(|stat| stat.pid == self.root && stat.start == self.start) {
            return Err(ObserveError::Ended(self.root));
        }
        Ok(table.closure(self.root, self.kind == Kind::With))
    }
}

/// The folder of the container `id` among those of its first process: engines name it after the container. What a manager in
/// the container divides it into lies below.
fn container_folder(hierarchies: &[Hierarchy], id: &str) -> Option<PathBuf> {
    let named = |folder: &String| folder.rsplit('/').next().is_some_and(|name| name.contains(id));
    // From the innermost out: the outermost is the whole container.
    hierarchies.iter().find_map(|hierarchy| hierarchy.folders().into_iter().rfind(named)).map(PathBuf::from)
}

/// The folder with one of `names` at `top` or below it that holds processes; another one where none does.
fn unit_below(top: &Path, names: &[String], depth: u32) -> Option<PathBuf> {
    let folders = std::fs::read_dir(top)
        .ok()?
        .flatten()
        .filter(|entry| entry.file_type().is_ok_and(|kind| kind.is_dir()));
    let mut empty = None;
    for folder in folders.map(|entry| entry.path()) {
        let is_it = folder
            .file_name()
            .and_then(|name| name.to_str())
            .is_some_and(|name| names.iter().any(|it| it == name));
        let found = match is_it {
            true => Some(folder),
            false if depth > 0 => unit_below(&folder, names, depth - 1),
            false => None,
        };
        match found {
            Some(found) if !cgroup_pids(&found).is_empty() => return Some(found),
            found => empty = empty.or(found),
        }
    }
    empty
}

/// The processes of a cgroup and of those below it. Source: cgroups(7), the file `cgroup.procs` of either version.
fn cgroup_pids(folder: &Path) -> BTreeSet<u32> {
    let own = file::optional(folder.join("cgroup.procs")).unwrap_or_default();
    let mut pids: BTreeSet<u32> = own.lines().filter_map(|line| line.trim().parse().ok()).collect();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        if entry.file_type().is_ok_and(|kind| kind.is_dir()) {
            pids.extend(cgroup_pids(&entry.path()));
        }
    }
    pids
}

/// Every process of the host at one moment.
#[derive(Debug)]
pub(crate) struct Table(Vec<Stat>);

impl Table {
    pub(crate) fn read(reader: &mut Reader) -> Result<Self, ObserveError> {
        let pids = numbered("/proc").map_err(cannot_read("/proc"))?;
        Ok(Self(pids.into_iter().filter_map(|pid| read_stat(reader, pid)).collect()))
    }

    pub(crate) fn pids(&self) -> impl Iterator<Item = u32> {
        self.0.iter().map(|stat| stat.pid)
    }

    pub(crate) fn parent(&self, pid: u32) -> Option<u32> {
        self.0.iter().find(|stat| stat.pid == pid).map(|stat| stat.parent)
    }

    /// The processes that are `root`, in the group it leads (where `with_group`), or below one of these.
    fn closure(&self, root: u32, with_group: bool) -> Vec<Stat> {
        let first = |stat: &Stat| stat.pid == root || (with_group && stat.group == root);
        let (mut found, mut rest): (Vec<Stat>, Vec<Stat>) = self.0.iter().copied().partition(first);
        let mut family: BTreeSet<u32> = found.iter().map(|stat| stat.pid).chain([root]).collect();
        loop {
            let (children, others): (Vec<Stat>, Vec<Stat>) =
                rest.into_iter().partition(|stat| family.contains(&stat.parent));
            if children.is_empty() {
                return found;
            }
            family.extend(children.iter().map(|stat| stat.pid));
            found.extend(children);
            rest = others;
        }
    }

    /// CPU time of the processes that are neither in `known`, nor this process or below it, nor the kernel's threads,
    /// which work for whoever asked. Threads are not read.
    pub(crate) fn others(&self, known: &[&Snapshot]) -> Snapshot {
        let own: BTreeSet<u32> =
            self.closure(std::process::id(), false).iter().map(|stat| stat.pid).collect();
        let is_known =
            |pid| own.contains(&pid) || known.iter().any(|snapshot| snapshot.processes.contains_key(&pid));
        let mut snapshot = Snapshot::empty(Instant::now());
        for stat in self.0.iter().filter(|stat| !is_known(stat.pid) && !stat.is_kernel_thread()) {
            if let Ok(cpu_ns) = sys::process_cpu_ns(stat.pid) {
                snapshot.processes.insert(stat.pid, ProcessSample::new(stat, cpu_ns, &Status::default()));
            }
        }
        snapshot
    }
}

fn add_process(snapshot: &mut Snapshot, reader: &mut Reader, stat: &Stat, cpu_ns: u64) {
    let Ok(text) = reader.read(&format!("/proc/{}/status", stat.pid)) else { return };
    let status = parse::status(text);
    let main = ThreadSample {
        voluntary_switches: status.voluntary_switches,
        involuntary_switches: status.involuntary_switches,
        ..ThreadSample::default()
    };
    snapshot.processes.insert(stat.pid, ProcessSample::new(stat, cpu_ns, &status));
    snapshot.names.insert(stat.pid, status.name);
    read_threads(reader, stat.pid, main, snapshot);
}

fn read_stat(reader: &mut Reader, pid: u32) -> Option<Stat> {
    parse::stat(reader.read(&format!("/proc/{pid}/stat")).ok()?)
}

/// Reads every thread of a process. `main` is what the process's own files said of its first thread.
fn read_threads(reader: &mut Reader, pid: u32, main: ThreadSample, snapshot: &mut Snapshot) {
    let path = format!("/proc/{pid}/task");
    let (Ok(folder), Ok(tids)) = (file::folder(&path), numbered(&path)) else { return };
    for tid in tids {
        let mut sample = main;
        if tid != pid {
            let Ok(text) = reader.read_at(&folder, &format!("{tid}/status")) else { continue };
            let status = parse::status(text);
            sample.voluntary_switches = status.voluntary_switches;
            sample.involuntary_switches = status.involuntary_switches;
            snapshot.names.insert(tid, status.name);
        }
        // Absent where the kernel was built without CONFIG_SCHED_INFO, which `capabilities` says.
        let text = reader.read_at(&folder, &format!("{tid}/schedstat"));
        sample.sched = text.ok().and_then(parse::schedstat).unwrap_or_default();
        snapshot.threads.insert(tid, sample);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn stat(pid: u32, parent: u32, group: u32) -> Stat {
        Stat { pid, parent, group, ..Stat::default() }
    }

    #[test]
    fn a_clock_that_tells_nothing_is_an_error_and_never_no_time() {
        let group = Group::from_pid(std::process::id()).unwrap();
        let mut reader = Reader::new();
        let table = Table::read(&mut reader).unwrap();
        let refused = |_| Err(io::Error::from_raw_os_error(libc::EINVAL));
        let error = group.snapshot_by(refused, &table, &mut reader).unwrap_err().to_string();
        assert!(error.starts_with("cannot read the CPU clock of process "), "{error}");
        assert!(group.snapshot_of(&table, &mut reader).unwrap().processes.contains_key(&std::process::id()));
    }

    #[test]
    fn a_cgroup_has_its_processes_and_those_below_it() {
        let top = std::env::temp_dir().join(format!("whyslow-cgroup-{}", std::process::id()));
        let inner = top.join("system.slice/web.service/workers");
        std::fs::create_dir_all(&inner).unwrap();
        std::fs::create_dir_all(top.join("other/web.service")).unwrap();
        std::fs::write(inner.join("cgroup.procs"), format!("{}\n", std::process::id())).unwrap();
        let folder = unit_below(&top, &["web".to_owned(), "web.service".to_owned()], DEEPEST).unwrap();
        assert_eq!(folder, top.join("system.slice/web.service"), "the one that has processes");
        let group = Group::in_cgroup(folder);
        assert_eq!((group.pids().unwrap(), group.is_alive()), (vec![std::process::id()], true));
        assert!(group.snapshot().unwrap().processes.contains_key(&std::process::id()));
        std::fs::remove_dir_all(&top).unwrap();
        assert!(!group.is_alive());
    }

    #[test]
    fn the_folder_of_a_container_is_the_outermost_that_is_named_after_it_in_either_version() {
        let of = |controllers: &[&str], mount: &str, path: &str| Hierarchy {
            controllers: controllers.iter().map(|name| (*name).to_owned()).collect(),
            mount: mount.to_owned(),
            path: path.to_owned(),
        };
        let first = of(&["cpu"], "/sys/fs/cgroup/cpu", "/libpod_parent/libpod-c0ffee");
        let second = of(&[], "/sys/fs/cgroup", "/machine.slice/libpod-c0ffee.scope/container/init.scope");
        let folder = |hierarchies: &[Hierarchy]| container_folder(hierarchies, "c0ffee");
        assert_eq!(folder(&[first]), Some("/sys/fs/cgroup/cpu/libpod_parent/libpod-c0ffee".into()));
        assert_eq!(
            folder(std::slice::from_ref(&second)),
            Some("/sys/fs/cgroup/machine.slice/libpod-c0ffee.scope".into())
        );
        assert_eq!(container_folder(&[second], "decaf"), None);
        let own = Group::of_container(std::process::id(), "no-such-container").unwrap();
        assert!(own.is_supervised() && own.pids().unwrap().contains(&std::process::id()));
    }

    #[test]
    fn nobody_uses_nothing_and_a_unit_that_is_not_there_is_said() {
        let group = Group::unseen();
        let before = group.snapshot().unwrap();
        assert_eq!(group.snapshot().unwrap().since(&before).cpu.total_ns, 0);
        for name in ["no-such-unit-here", "", "..", "a/b"] {
            let error = Group::of_unit(name).unwrap_err().to_string();
            assert!(error.starts_with(&format!("there is no cgroup '{name}'")), "{error}");
        }
    }

    #[test]
    fn a_thread_is_told_from_a_process() {
        let own = std::process::id();
        // A test may run on the first thread, whose number is that of the process.
        let process = std::thread::spawn(|| {
            let id = rustix::thread::gettid().as_raw_nonzero().get().unsigned_abs();
            Group::process_of_thread(id)
        });
        assert_eq!((process.join().unwrap(), Group::process_of_thread(own)), (Some(own), None));
        assert_eq!(Group::process_of_thread(u32::MAX), None);
    }

    #[test]
    fn a_group_is_root_group_and_descendants() {
        let table = Table(vec![
            stat(50, 40, 50),
            stat(40, 10, 10),
            stat(10, 1, 10),
            stat(30, 1, 10),
            stat(31, 30, 99),
            stat(2, 1, 2),
        ]);
        let pids = |with| table.closure(10, with).iter().map(|stat| stat.pid).collect::<BTreeSet<u32>>();
        assert_eq!(pids(true), BTreeSet::from([10, 30, 31, 40, 50]));
        assert_eq!(pids(false), BTreeSet::from([10, 40, 50]));
    }
}
