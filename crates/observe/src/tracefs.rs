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
