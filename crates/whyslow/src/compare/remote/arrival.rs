//! The way to another machine: the words of `ssh`, the script that puts this program there, and what went wrong.

use std::fs::{DirEntry, File};
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::{Context, bail};
use model::plan::Machine;

/// Variable with the words that are used in the place of `ssh`.
const SSH: &str = "WHYSLOW_SSH";
/// What is always asked of ssh: to ask nobody anything, and to notice within some 20 seconds that the other side is gone.
const OPTIONS: [&str; 9] = [
    "-T",
    "-o",
    "BatchMode=yes",
    "-o",
    "ConnectTimeout=10",
    "-o",
    "ServerAliveInterval=5",
    "-o",
    "ServerAliveCountMax=3",
];
/// What begins the line by which the script tells where it runs; what a login shell says before it is passed over.
const MARK: &str = "whyslow-host ";

/// The command that runs `script` on `machine`.
pub(super) fn ssh(machine: &Machine, script: &str) -> anyhow::Result<Vec<String>> {
    let given = std::env::var(SSH).unwrap_or_else(|_| "ssh".to_owned());
    let mut words = model::plan::split_command(SSH, &given)
        .ok()
        .with_context(|| format!("{SSH} '{given}' cannot be split into words: check its quotes"))?;
    words.extend(OPTIONS.map(str::to_owned));
    if let Some(port) = machine.port() {
        words.extend(["-p".to_owned(), port.to_string()]);
    }
    // The login shell there may be any: all of them know a word in single quotes.
    words.extend(["--".to_owned(), machine.destination(), format!("exec sh -c '{script}'")]);
    Ok(words)
}

/// What runs there first, and complains in English: tells which machine it is, takes this program where it is not there yet, and becomes
/// its agent. The file is named by its content, and is sent again where that is another, or cannot be told.
pub(super) fn script(sha256: &str, bytes: u64) -> String {
    format!(
        r#"umask 077; d="${{XDG_CACHE_HOME:-$HOME/.cache}}/whyslow/agents"; f="$d/{sha256}"
s="$(sha256sum 2>/dev/null < "$f")"
if [ -x "$f" ] && [ "${{s%% *}}" = {sha256} ]; then echo "{MARK}$(uname -s) $(uname -m) has"
else
echo "{MARK}$(uname -s) $(uname -m) needs"; read -r go || exit 0
(LC_ALL=C; export LC_ALL; mkdir -p "$d" && head -c {bytes} > "$f.$$" && [ "$(wc -c < "$f.$$")" -eq {bytes} ] && chmod 700 "$f.$$" && mv "$f.$$" "$f") || {{ rm -f "$f.$$"; exit 1; }}
fi
exec "$f" agent"#
    )
}

/// Reads the script's greeting: whether the machine has this program already; nothing where the line is another's.
pub(super) fn parse_greeting(machine: &Machine, line: &str) -> anyhow::Result<Option<bool>> {
    let Some(greeting) = line.strip_prefix(MARK) else { return Ok(None) };
    let words: Vec<&str> = greeting.split_whitespace().collect();
    let [system, cpu, state] = words[..] else {
        bail!("{machine} answered 'uname' with '{greeting}': is there a POSIX sh?")
    };
    let ours = std::env::consts::ARCH;
    if system != "Linux" || cpu != ours {
        bail!(
            "{machine} is {system} on {cpu}, this whyslow is for Linux on {ours}: start it on such a machine"
        );
    }
    Ok(Some(state == "has"))
}

/// What ssh complains of, and what it means: the first that its output has.
const COMPLAINTS: [(&str, &str); 8] = [
    (
        "REMOTE HOST IDENTIFICATION HAS CHANGED",
        "has another key than ssh knows: find out why, then remove the old key with ssh-keygen -R",
    ),
    (
        "Host key verification failed",
        "has a key that ssh does not know: connect once by hand with ssh, and check the key it shows",
    ),
    (
        "Permission denied (",
        "asks for a password or refuses the key, and nobody can type here: set up a key with ssh-copy-id, or start ssh-agent",
    ),
    ("No space left on device", "has no space for whyslow's own file: make room in ~/.cache/whyslow there"),
    ("Disk quota exceeded", "has no space for whyslow's own file: make room in ~/.cache/whyslow there"),
    (
        "GLIBC_",
        "has an older C library than whyslow was built for: build whyslow there, or for the musl target of Rust",
    ),
    ("Exec format error", "cannot run whyslow's own file: is it another architecture?"),
    (
        "ead-only file system",
        "cannot take whyslow's own file: let XDG_CACHE_HOME name a folder there that can be written",
    ),
];

/// Words by which ssh tells that it did not get there.
const UNREACHED: [&str; 7] = [
    "Could not resolve",
    "Connection refused",
    "timed out",
    "No route to host",
    "Network is unreachable",
    "Connection closed",
    "Connection reset",
];

/// Why the connection ended, from the last lines that ssh wrote.
pub(super) fn complaint(machine: &Machine, reached: bool, lines: &[String]) -> String {
    let has = |words: &str| lines.iter().any(|line| line.contains(words));
    if let Some((_, meaning)) = COMPLAINTS.iter().find(|(words, _)| has(words)) {
        return format!("{machine} {meaning}");
    }
    let unreached =
        lines.iter().filter(|_| !reached).find(|line| UNREACHED.iter().any(|words| line.contains(words)));
    match (unreached, lines.last()) {
        (Some(line), _) => format!("{machine} cannot be reached: {}", line.trim_end_matches('.')),
        (None, Some(line)) => format!("the connection to {machine} ended: {line}"),
        (None, None) if reached => format!(
            "the connection to {machine} ended without a word: what ran there may have been killed; look for the reason in its \
             system's log (dmesg), and try again"
        ),
        (None, None) => format!("the connection to {machine} ended: ssh says no reason"),
    }
}

/// That the machine has said nothing for so many seconds.
pub(super) fn silence(machine: &Machine, seconds: u64) -> String {
    let by_hand = match machine.port() {
        Some(port) => format!("ssh -p {port} {} true", machine.destination()),
        None => format!("ssh {} true", machine.destination()),
    };
    format!("{machine} says nothing for {seconds} s: try '{by_hand}', which has to end at once")
}

/// A place for what ssh says before there is a run directory.
pub(super) fn log_file(number: u32) -> PathBuf {
    std::env::temp_dir().join(format!("whyslow-{}-ssh-{number}.log", std::process::id()))
}

/// The two ends of the connection that the agent was started by, from what sshd says of it.
pub(super) fn ends(connection: &str) -> Option<[std::net::IpAddr; 2]> {
    let words: Vec<&str> = connection.split_whitespace().collect();
    let [ours, _, theirs, _] = words[..] else { return None };
    // An address of one interface has that behind a percent sign.
    let address = |word: &str| word.split('%').next()?.parse().ok();
    Some([address(ours)?, address(theirs)?])
}

/// What the folder of an agent's own files is called, before the number of its process.
const OWN: &str = "run-";

/// Digits of a SHA-256.
const SUM_DIGITS: usize = 64;
/// How long nothing is written to a copy that nobody makes any more: ssh itself gives up after some 20 seconds of silence.
const COPIED: Duration = Duration::from_secs(600);

/// Where agents have their program and their folders.
pub(super) struct Place(PathBuf);

/// The place of an agent, beside its program.
pub(super) fn beside(program: &Path) -> Place {
    Place(program.parent().unwrap_or(Path::new("/tmp")).to_owned())
}

impl Place {
    /// The folder of this agent's own files.
    pub(super) fn own(&self) -> PathBuf {
        self.0.join(format!("{OWN}{}", std::process::id()))
    }

    /// Keeps other agents from making or removing folders until it is dropped.
    pub(super) fn turn(&self) -> anyhow::Result<File> {
        let turn = File::open(&self.0).and_then(|place| place.lock().map(|()| place));
        turn.with_context(|| format!("cannot lock {}", self.0.display()))
    }

    /// Removes the folders of agents that were killed, which no process holds locked, and copies of a program that ended half way. What
    /// cannot be removed stays.
    pub(super) fn remove_leftovers(&self) {
        let Ok(_turn) = self.turn() else { return };
        for entry in std::fs::read_dir(&self.0).into_iter().flatten().flatten() {
            let is_own = entry.file_name().to_string_lossy().starts_with(OWN);
            let is_folder = entry.file_type().is_ok_and(|kind| kind.is_dir());
            if is_own && is_folder && File::open(entry.path()).is_ok_and(|folder| folder.try_lock().is_ok()) {
                let _ = std::fs::remove_dir_all(entry.path());
            }
            if is_half(&entry) {
                let _ = std::fs::remove_file(entry.path());
            }
        }
    }
}

/// Whether this is a copy of a program that nobody writes to any more: the name of its content, and the number of the script's
/// process.
fn is_half(entry: &DirEntry) -> bool {
    let name = entry.file_name();
    let parts = name.to_str().and_then(|name| name.split_once('.'));
    let is_named = parts.is_some_and(|(sum, pid)| {
        let is_number = !pid.is_empty() && pid.bytes().all(|byte| byte.is_ascii_digit());
        is_number && sum.len() == SUM_DIGITS && sum.bytes().all(|byte| byte.is_ascii_hexdigit())
    });
    let written = entry.metadata().and_then(|facts| facts.modified());
    is_named && written.is_ok_and(|when| when.elapsed().is_ok_and(|age| age > COPIED))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn big() -> Machine {
        "ssh://me@big:2222".parse().unwrap()
    }

    #[test]
    fn the_script_is_one_word_for_any_login_shell() {
        let script = script("abc", 7);
        assert!(!script.contains(['\'', '!']), "{script}");
        let words = ssh(&big(), &script).unwrap();
        assert_eq!(words[words.len() - 2], "me@big");
        assert!(words.windows(2).any(|pair| pair == ["-p", "2222"]), "{words:?}");
    }

    #[test]
    fn what_a_machine_tells_of_itself_is_found_among_what_its_shell_says() {
        let ours = std::env::consts::ARCH;
        assert_eq!(parse_greeting(&big(), "Welcome!").unwrap(), None);
        assert_eq!(parse_greeting(&big(), &format!("whyslow-host Linux {ours} has")).unwrap(), Some(true));
        assert_eq!(parse_greeting(&big(), &format!("whyslow-host Linux {ours} needs")).unwrap(), Some(false));
        for other in ["Linux riscv64 needs", "Darwin arm64 needs"] {
            let error = parse_greeting(&big(), &format!("whyslow-host {other}")).unwrap_err().to_string();
            assert!(error.contains("start it on such a machine"), "{error}");
        }
    }

    #[test]
    fn what_ssh_says_is_told_with_what_to_do() {
        let lines = |text: &str| text.lines().map(str::to_owned).collect::<Vec<_>>();
        for (stderr, advice) in [
            ("me@big: Permission denied (publickey,password).", "ssh-copy-id"),
            (
                "@ WARNING: REMOTE HOST IDENTIFICATION HAS CHANGED! @\nHost key verification failed.",
                "ssh-keygen -R",
            ),
            ("Host key verification failed.", "connect once by hand"),
            ("head: write error: No space left on device", "make room"),
            ("ssh: connect to host big port 22: Connection refused", "cannot be reached: ssh: connect"),
            ("kex: something", "the connection to ssh://me@big:2222 ended: kex: something"),
            ("", "says no reason"),
        ] {
            let text = complaint(&big(), false, &lines(stderr));
            assert!(text.contains(advice), "{stderr}: {text}");
        }
        let reset = "client_loop: send disconnect: Connection reset by peer";
        assert!(complaint(&big(), true, &lines(reset)).contains(" ended: client_loop"), "it was reached");
        assert!(complaint(&big(), true, &[]).contains("may have been killed"));
    }

    #[test]
    fn the_ends_of_the_connection_are_as_sshd_tells_them() {
        let ends = |text| super::ends(text).map(|ends| ends.map(|address| address.to_string()));
        assert_eq!(ends("10.0.0.1 5000 10.0.0.2 22"), Some(["10.0.0.1".to_owned(), "10.0.0.2".to_owned()]));
        assert_eq!(ends("fe80::1%eth0 1 fe80::2%eth0 22").unwrap()[1], "fe80::2");
        assert_eq!(ends(""), None);
    }
}
