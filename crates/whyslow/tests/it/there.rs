//! "Another machine": this one behind an sshd of the test's own, with processes and, where that is asked for, a clock of its own.

use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::support::{FIXTURE, WHYSLOW, fresh_folder, within};

const SSHD: &str = "/usr/sbin/sshd";
/// For what a crowded machine does within seconds.
pub(crate) const LIMIT: Duration = Duration::from_secs(60);

/// "Another machine".
pub(crate) struct There {
    sshd: Child,
    pub(crate) folder: PathBuf,
    port: u16,
}

/// A folder with keys and settings for an sshd on a port of `address`; nothing where there is no sshd, which is said.
pub(crate) fn prepared(address: &str) -> Option<(PathBuf, u16)> {
    let folder = fresh_folder().canonicalize().unwrap();
    let keys = ["host", "key"].iter().all(|name| {
        let made = Command::new("ssh-keygen")
            .args(["-q", "-t", "ed25519", "-N", "", "-f"])
            .arg(folder.join(name))
            .status();
        made.is_ok_and(|status| status.success())
    });
    if !Path::new(SSHD).exists() || !keys {
        testkit::skipped("no sshd is installed (openssh-server)");
        return None;
    }
    // What its service makes at the start of a system; only root needs it, and may.
    let _ = std::fs::create_dir_all("/run/sshd");
    let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).unwrap().local_addr().unwrap().port();
    write_settings(&folder, address, port);
    Some((folder, port))
}

impl There {
    /// An sshd with keys of its own on a port of loopback, where processes can be had that see no others; nothing where there is
    /// no sshd, which is said.
    pub(crate) fn start() -> Option<Self> {
        Self::start_as(apart())
    }

    /// The same with words before sshd that give it something of its own.
    fn start_as(own: &[&str]) -> Option<Self> {
        let (folder, port) = prepared("127.0.0.1")?;
        let log = std::fs::File::create(folder.join("sshd.log")).unwrap();
        let config = folder.join("sshd_config").display().to_string();
        let words = [own, &[SSHD, "-D", "-e", "-f", &config]].concat();
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).stdin(Stdio::null()).stderr(log);
        let mut there = Self { sshd: command.spawn().unwrap(), folder, port };
        let listens = within(LIMIT, || {
            TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok()
                || there.sshd.try_wait().unwrap().is_some()
        });
        if !listens || there.sshd.try_wait().unwrap().is_some() {
            let log = std::fs::read_to_string(there.folder.join("sshd.log")).unwrap();
            testkit::skipped(&format!("no sshd can be started here: {log}"));
            return None;
        }
        Some(there)
    }

    /// The same where this program is already, which the first test has copied.
    pub(crate) fn with_program() -> Option<Self> {
        Some(Self::start()?.having_program())
    }

    /// The same, where the clock that nobody sets shows a day more than here, if that can be had.
    pub(crate) fn with_program_and_clock() -> Option<Self> {
        let own = [apart(), &["--time", "--monotonic", "86400"]].concat();
        let possible = !apart().is_empty() && is_possible(&own);
        Some(Self::start_as(if possible { &own } else { apart() })?.having_program())
    }

    /// The same with room for nothing; nothing where that cannot be had, which is said.
    pub(crate) fn without_space() -> Option<Self> {
        // The words behind it start sshd, whose settings lie in the folder.
        let full =
            "mkdir \"${5%/*}/cache\" && mount -t tmpfs -o size=1m none \"${5%/*}/cache\" && exec \"$@\"";
        if apart().is_empty() {
            testkit::skipped("no file system without space can be had here (unshare)");
            return None;
        }
        Self::start_as(&[apart(), &["sh", "-c", full, "sh"]].concat())
    }

    fn having_program(self) -> Self {
        let agents = self.folder.join("cache/whyslow/agents");
        let sum = Command::new("sha256sum").arg(WHYSLOW).output().unwrap();
        std::fs::create_dir_all(&agents).unwrap();
        let sum = String::from_utf8(sum.stdout).unwrap();
        std::fs::hard_link(WHYSLOW, agents.join(sum.split_whitespace().next().unwrap())).unwrap();
        self
    }

    pub(crate) fn url(&self) -> String {
        format!("ssh://127.0.0.1:{}", self.port)
    }

    /// `whyslow compare` of two servers whose program is one of this machine alone.
    pub(crate) fn compare(&self, arms: &[(&str, &str)], flags: &[&str]) -> Command {
        let server = self.folder.join("server-there");
        if !server.exists() {
            std::fs::hard_link(FIXTURE, &server).unwrap();
        }
        let mut command = Command::new(WHYSLOW);
        command.arg("compare");
        for (name, fault) in arms {
            command.arg(format!("{name}='{}' {{port}} {fault}", server.display()));
        }
        command.args(flags).args(["--out", "run"]).current_dir(&self.folder);
        command.env("WHYSLOW_SSH", self.ssh());
        command
    }

    /// The words that start an ssh which reaches this machine.
    pub(crate) fn ssh(&self) -> String {
        format!("ssh -F '{}'", self.folder.join("ssh_config").display())
    }

    /// The words that start an ssh which reaches this machine and `other`.
    pub(crate) fn ssh_to_both(&self, other: &Self) -> String {
        let both = self.folder.join("ssh_config_of_both");
        let of = |there: &Self| {
            let settings = std::fs::read_to_string(there.folder.join("ssh_config")).unwrap();
            format!("Match exec \"test %p = {}\"\n{settings}", there.port)
        };
        std::fs::write(&both, of(self) + &of(other)).unwrap();
        format!("ssh -F '{}'", both.display())
    }

    /// Process ids of the connections that its sshd serves.
    pub(crate) fn connections(&self) -> Vec<String> {
        let own = self.sshd.id().to_string();
        let listener = if apart().is_empty() { vec![own] } else { children(&own) };
        listener.iter().flat_map(|pid| children(pid)).collect()
    }

    /// Process ids of the agents there.
    pub(crate) fn agents(&self) -> Vec<String> {
        let pids = self.busy().into_iter().map(|path| path.trim_start_matches("/proc/").to_owned());
        let is_agent = |pid: &String| {
            let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
            line.split(|byte| *byte == 0).nth(1) == Some(b"agent")
        };
        pids.filter(is_agent).collect()
    }

    /// Processes of the other machine that are no part of its sshd: agents and servers.
    pub(crate) fn busy(&self) -> Vec<String> {
        let entries = std::fs::read_dir("/proc").unwrap().flatten();
        let there = |path: &PathBuf| {
            std::fs::read_link(path.join("exe")).is_ok_and(|exe| exe.starts_with(&self.folder))
        };
        entries.map(|entry| entry.path()).filter(there).map(|path| path.display().to_string()).collect()
    }
}

impl Drop for There {
    fn drop(&mut self) {
        let _ = self.sshd.kill();
        let _ = self.sshd.wait();
    }
}

/// Process ids of the children of a process.
fn children(pid: &str) -> Vec<String> {
    let text = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    text.split_whitespace().map(str::to_owned).collect()
}

/// Words that start a program among processes of its own, where that is allowed.
fn apart() -> &'static [&'static str] {
    let own: &[&str] = &["unshare", "--pid", "--fork", "--kill-child", "--mount-proc"];
    if is_possible(own) { own } else { &[] }
}

fn is_possible(own: &[&str]) -> bool {
    let tried = Command::new(own[0]).args(&own[1..]).arg("true").output();
    tried.is_ok_and(|output| output.status.success())
}

fn write_settings(folder: &Path, address: &str, port: u16) {
    let place = folder.display();
    let read = |name: &str| std::fs::read_to_string(folder.join(name)).unwrap();
    let write = |name: &str, text: String| std::fs::write(folder.join(name), text).unwrap();
    write("authorized", read("key.pub"));
    write("known", format!("[{address}]:{port} {}", read("host.pub")));
    write(
        "sshd_config",
        format!(
            "Port {port}\nListenAddress {address}\nHostKey {place}/host\nAuthorizedKeysFile {place}/authorized\nStrictModes no\n\
             UsePAM no\nPidFile none\nPermitRootLogin yes\nPasswordAuthentication no\nKbdInteractiveAuthentication no\n\
             SetEnv XDG_CACHE_HOME={place}/cache\n"
        ),
    );
    write(
        "ssh_config",
        format!(
            "IdentityFile {place}/key\nIdentitiesOnly yes\nIdentityAgent none\nUserKnownHostsFile {place}/known\n\
             GlobalKnownHostsFile /dev/null\nStrictHostKeyChecking yes\nLogLevel ERROR\n"
        ),
    );
}
