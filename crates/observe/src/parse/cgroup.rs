/// One cgroup hierarchy as seen from a process: where it is mounted and where in it the process is.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Hierarchy {
    /// Controllers of a version 1 hierarchy; empty for version 2.
    pub(crate) controllers: Vec<String>,
    /// Mount point.
    pub(crate) mount: String,
    /// Path of the process below the mount point, beginning with `/`.
    pub(crate) path: String,
}

impl Hierarchy {
    /// The folder of the process and those above it up to the mount point, from the innermost out.
    pub(crate) fn folders(&self) -> Vec<String> {
        let path = self.path.trim_end_matches('/');
        let ends = path.match_indices('/').map(|(at, _)| at).chain([path.len()]);
        let mut folders: Vec<String> = ends.map(|end| format!("{}{}", self.mount, &path[..end])).collect();
        folders.dedup();
        folders.reverse();
        folders
    }

    /// Whether limits of `controller` are found here.
    pub(crate) fn has(&self, controller: &str) -> bool {
        self.controllers.is_empty() || self.controllers.iter().any(|own| own == controller)
    }
}

/// The hierarchies in `/proc/self/cgroup` that `/proc/self/mountinfo` shows.
///
/// Source: cgroups(7), proc_pid_mountinfo(5).
pub(crate) fn hierarchies(cgroup: &str, mountinfo: &str) -> Vec<Hierarchy> {
    cgroup
        .lines()
        .filter_map(|line| {
            let mut parts = line.splitn(3, ':');
            let (_, controllers, path) = (parts.next()?, parts.next()?, parts.next()?);
            let controllers: Vec<String> =
                controllers.split(',').filter(|name| !name.is_empty()).map(str::to_owned).collect();
            let (root, mount) = mountinfo.lines().find_map(|line| mount_of(line, &controllers))?;
            Some(Hierarchy { controllers, mount, path: below(path, &root) })
        })
        .collect()
}

/// Root and mount point of a line that mounts the hierarchy with these controllers.
fn mount_of(line: &str, controllers: &[String]) -> Option<(String, String)> {
    let (left, right) = line.split_once(" - ")?;
    let left: Vec<&str> = left.split(' ').collect();
    let mut right = right.split(' ');
    let (kind, _, options) = (right.next()?, right.next()?, right.next()?);
    let fits = match controllers.first() {
        None => kind == "cgroup2",
        Some(first) => kind == "cgroup" && options.split(',').any(|option| option == first),
    };
    fits.then_some(())?;
    Some((left.get(3)?.to_string(), left.get(4)?.replace("\\040", " ")))
}

/// `path` seen from a mount whose root is `root`: in a container both begin alike.
fn below(path: &str, root: &str) -> String {
    let rest = path.strip_prefix(root.trim_end_matches('/')).unwrap_or("");
    if rest.starts_with('/') { rest.to_owned() } else { "/".to_owned() }
}

/// The cgroups of `/proc/PID/cgroup` that CPU time is shared out by: that of the controller `cpu`, and that of version 2.
///
/// Source: cgroups(7).
pub(crate) fn cpu_cgroup(cgroup: &str) -> String {
    let shares_cpu = |line: &&str| {
        let Some(controllers) = line.split(':').nth(1) else { return false };
        controllers.is_empty() || controllers.split(',').any(|one| one == "cpu")
    };
    cgroup.lines().filter(shares_cpu).collect::<Vec<_>>().join("\n")
}

/// The number after `key` in a file of lines `key number`. Source: Linux, Documentation/admin-guide/cgroup-v2.rst.
pub(crate) fn keyed(text: &str, key: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(' ')?.trim().parse().ok())
}
