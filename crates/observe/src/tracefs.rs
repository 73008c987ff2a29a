//! Where the kernel lists its tracepoints.

use std::os::fd::OwnedFd;

use rustix::fs::{Mode, OFlags, openat};
use rustix::mount::{FsMountFlags, FsOpenFlags, MountAttrFlags, fsconfig_create, fsmount, fsopen};

use crate::file::{Reader, folder};

/// Where it is mounted when it is. Source: Linux, Documentation/trace/ftrace.rst.
const PLACES: [&str; 2] = ["/sys/kernel/tracing/events", "/sys/kernel/debug/tracing/events"];

/// The open folder of all tracepoints.
#[derive(Debug)]
pub(crate) struct Tracefs {
    events: OwnedFd,
}

impl Tracefs {
    /// Opens it where it is mounted; else mounts it for this process alone, in no place that anybody sees, which needs
    /// CAP_SYS_ADMIN. `None` where neither is allowed.
    pub(crate) fn open() -> Option<Self> {
        let mounted = PLACES.iter().find_map(|place| folder(place).ok());
        mounted.or_else(detached).map(|events| Self { events })
    }

    /// The number by which perf events name a tracepoint.
    pub(crate) fn id(&self, system: &str, name: &str) -> Option<u64> {
        Reader::new().read_at(&self.events, &format!("{system}/{name}/id")).ok()?.trim().parse().ok()
    }

    /// Where the records of a tracepoint have a field of four bytes.
    pub(crate) fn field(&self, system: &str, name: &str, field: &str) -> Option<i16> {
        let mut reader = Reader::new();
        let format = reader.read_at(&self.events, &format!("{system}/{name}/format")).ok()?;
        offset(format, field)
    }
}

/// Where a field of four bytes stands. Source: Linux, Documentation/trace/events.rst.
fn offset(format: &str, field: &str) -> Option<i16> {
    let line = format.lines().find(|line| {
        let declared = line.trim_start().strip_prefix("field:").and_then(|rest| rest.split_once(';'));
        declared.is_some_and(|(declared, _)| declared.split_ascii_whitespace().last() == Some(field))
    })?;
    let value = |name: &str| line.split(';').find_map(|part| part.trim().strip_prefix(name));
    (value("size:")? == "4").then_some(())?;
    value("offset:")?.parse().ok()
}

fn detached() -> Option<OwnedFd> {
    let context = fsopen("tracefs", FsOpenFlags::FSOPEN_CLOEXEC).ok()?;
    fsconfig_create(&context).ok()?;
    let safe = MountAttrFlags::MOUNT_ATTR_NOSUID
        | MountAttrFlags::MOUNT_ATTR_NODEV
        | MountAttrFlags::MOUNT_ATTR_NOEXEC;
    let mount = fsmount(&context, FsMountFlags::FSMOUNT_CLOEXEC, safe).ok()?;
    openat(&mount, "events", OFlags::RDONLY | OFlags::DIRECTORY | OFlags::CLOEXEC, Mode::empty()).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_field_is_found_by_its_name() {
        let format = "name: sched_process_fork\nID: 319\nformat:\n\
            \tfield:unsigned short common_type;\toffset:0;\tsize:2;\tsigned:0;\n\n\
            \tfield:__data_loc char[] child_comm;\toffset:16;\tsize:4;\tsigned:0;\n\
            \tfield:pid_t child_pid;\toffset:20;\tsize:4;\tsigned:1;\n";
        assert_eq!(offset(format, "child_pid"), Some(20));
        for absent in ["common_type", "pid", "child"] {
            assert_eq!(offset(format, absent), None, "{absent}");
        }
    }
}
