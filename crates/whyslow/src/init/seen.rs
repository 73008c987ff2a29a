//! How a running server was started: its words, the folder it runs in, and where its port comes from.

use std::net::SocketAddr;
use std::path::{Component, Path, PathBuf};

/// The command of a running server.
pub(super) struct Seen {
    /// Its words as a shell reads them, with `{port}`; paths within the repository are relative.
    pub(super) words: Vec<String>,
    /// The folder it runs in, from that of `whyslow.toml`, where it is another one of the repository.
    pub(super) dir: Option<String>,
    pub(super) port_env: bool,
}

impl Seen {
    /// How the process that listens on `address` was started, seen from `folder` of the repository at `root`.
    pub(super) fn find(address: SocketAddr, folder: &Path, root: &Path) -> Option<Self> {
        let pid = observe::listening_process(address.port()).ok()?;
        let read = |name: &str| std::fs::read(format!("/proc/{pid}/{name}")).ok();
        let variable = format!("PORT={}", address.port()).into_bytes();
        let port_env =
            read("environ").is_some_and(|all| all.split(|byte| *byte == 0).any(|one| one == variable));
        let line = read("cmdline")?;
        let words: Vec<String> = line
            .split(|byte| *byte == 0)
            .filter(|word| !word.is_empty())
            .map(|word| String::from_utf8_lossy(word).into_owned())
            .collect();
        let runs_in = std::fs::read_link(format!("/proc/{pid}/cwd")).ok();
        let seen = Self::from_words(&words, address.port(), (folder, root), runs_in.as_deref())?;
        let port_env = port_env && !seen.words.iter().any(|word| word.contains("{port}"));
        Some(Self { port_env, ..seen })
    }

    /// The words of a process that runs in `runs_in`; nothing without words.
    pub(super) fn from_words(
        words: &[String],
        port: u16,
        (folder, root): (&Path, &Path),
        runs_in: Option<&Path>,
    ) -> Option<Self> {
        let base = runs_in.filter(|place| place.starts_with(root)).unwrap_or(folder);
        let word = |word: &String| {
            let path = Path::new(word);
            let word = if path.starts_with(root) { relative(base, path) } else { word.clone() };
            quoted(&with_port(&word, port))
        };
        let dir = (base != folder).then(|| relative(folder, base).trim_start_matches("./").to_owned());
        let words: Vec<String> = words.iter().map(word).collect();
        (!words.is_empty()).then_some(Self { words, dir, port_env: false })
    }

    /// The program, where it lies in the repository: its path from the folder that it runs in.
    pub(super) fn program(&self) -> Option<&str> {
        self.words.first()?.strip_prefix("./")
    }

    /// Words as a command of the folder of `whyslow.toml`.
    pub(super) fn command(&self, words: &[String]) -> String {
        let line = words.join(" ");
        match &self.dir {
            None => line,
            Some(dir) => format!("sh -c {}", quoted(&format!("cd {} && exec {line}", quoted(dir)))),
        }
    }

    /// Whether it is a program from outside `folder` that is given nothing from inside, as an interpreter is.
    pub(super) fn is_elsewhere(&self, folder: &Path) -> bool {
        let base = folder.join(self.dir.as_deref().unwrap_or(""));
        let inside = |word: &String| !word.starts_with('/') && base.join(word.trim_matches('\'')).is_file();
        self.words.first().is_some_and(|word| word.starts_with('/')) && !self.words.iter().any(inside)
    }
}

/// The way from one folder to a path; what lies below begins with `./`.
fn relative(from: &Path, to: &Path) -> String {
    let shared = from.components().zip(to.components()).take_while(|(a, b)| a == b).count();
    let up = from.components().skip(shared).map(|_| Component::ParentDir);
    let way: PathBuf = up.chain(to.components().skip(shared)).collect();
    let way = way.to_string_lossy();
    if way.starts_with("..") { way.into_owned() } else { format!("./{way}") }
}

/// A word of a shell.
pub(super) fn quoted(word: &str) -> String {
    let plain =
        !word.is_empty() && word.chars().all(|c| c.is_ascii_alphanumeric() || "-_=/.,:@%+{}".contains(c));
    if plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

/// The word with `{port}` where the number stands by itself.
fn with_port(word: &str, port: u16) -> String {
    let number = port.to_string();
    let Some(at) = word.find(&number) else { return word.to_owned() };
    let (before, after) = (&word[..at], &word[at + number.len()..]);
    let digit = |c: Option<char>| c.is_some_and(|c| c.is_ascii_digit());
    if digit(before.chars().next_back()) || digit(after.chars().next()) {
        return word.to_owned();
    }
    format!("{before}{{port}}{after}")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_port_is_found_where_it_stands_by_itself() {
        for (word, want) in [
            ("8080", "{port}"),
            ("--port=8080", "--port={port}"),
            ("127.0.0.1:8080", "127.0.0.1:{port}"),
            ("18080", "18080"),
            ("80801", "80801"),
            ("./a", "./a"),
        ] {
            assert_eq!(with_port(word, 8080), want);
        }
    }

    #[test]
    fn a_command_runs_where_the_server_ran() {
        let folder = Path::new("/r/s");
        // Where it runs, its words, and the command in /r/s of the repository /r.
        let cases = [
            ("/r/s", vec!["/r/s/bin/server", "-p", "8080", "a b"], "./bin/server -p {port} 'a b'"),
            ("/r/s/api", vec!["node", "server.js", "8080"], "sh -c 'cd api && exec node server.js {port}'"),
            ("/r", vec!["s/server", "/r/s/x", "8080"], "sh -c 'cd .. && exec s/server ./s/x {port}'"),
            (
                "/r/t",
                vec!["/r/s/server", "it's"],
                r"sh -c 'cd ../t && exec ../s/server '\''it'\''\'\'''\''s'\'''",
            ),
            ("/elsewhere", vec!["/opt/server", "8080"], "/opt/server {port}"),
        ];
        for (runs_in, words, want) in cases {
            let words: Vec<String> = words.into_iter().map(str::to_owned).collect();
            let place = (folder, Path::new("/r"));
            let seen = Seen::from_words(&words, 8080, place, Some(Path::new(runs_in))).unwrap();
            let command = seen.command(&seen.words);
            assert_eq!(command, want);
            let split = model::plan::split_command("pr", &command).unwrap();
            assert!(split.len() == 3 || runs_in == "/r/s" || runs_in == "/elsewhere", "{split:?}");
        }
        assert!(Seen::from_words(&[], 8080, (folder, folder), None).is_none());
    }
}
