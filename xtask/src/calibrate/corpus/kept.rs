//! A recorded run in one file: gzip of a JSON object, from the path in the run's directory to the document there.
//!
//! Logs of servers and latency logs are left out, which no rule reads; and so is what tells of the machine on which it was recorded.

use std::collections::BTreeMap;
use std::fs;
use std::io::{Read, Write};
use std::path::Path;

use anyhow::{Context, ensure};
use flate2::Compression;
use flate2::read::GzDecoder;
use flate2::write::GzEncoder;
use model::record::Manifest;
use serde_json::Value;

use super::truth::Case;
use crate::shell::root;

/// Most bytes of the file of one run: a hundred of them are still no burden for a clone.
pub(super) const MOST_BYTES: usize = 300 * 1024;
/// Most bytes of such a file when it is unpacked, so that a damaged one cannot fill the memory.
const MOST_UNPACKED: u64 = 64 * 1024 * 1024;
/// Shortest name of a machine that is looked for: shorter ones are parts of words.
const SHORTEST_NAME: usize = 4;
/// Folders that are another's on every machine, and what stands for them.
const FOLDERS: [(&str, &str); 3] = [("/var/tmp", "."), ("/tmp", "."), ("/root", "~")];
/// Folder of users' homes.
const HOMES: &str = "/home/";
/// What a runtime writes before an absolute path.
const FILE_URL: &str = "file://";

/// The documents of a run, by path.
#[derive(Debug, PartialEq)]
pub(super) struct Kept(BTreeMap<String, Value>);

impl Kept {
    /// The run in the folder `dir`, without what tells of its origin.
    pub(super) fn from_dir(dir: &Path, origin: &Origin) -> anyhow::Result<Self> {
        let mut documents = BTreeMap::new();
        collect(dir, "", &mut documents)?;
        for (path, document) in &mut documents {
            origin.clean(document);
            // Its keys are folders of one container.
            if let Some(limits) = path.ends_with("host.json").then(|| document.get_mut("cgroup")).flatten() {
                *limits = Value::Object(serde_json::Map::new());
            }
        }
        Ok(Self(documents))
    }

    /// The run in `file`.
    pub(super) fn read(file: &Path) -> anyhow::Result<Self> {
        let damaged = || format!("{} does not read", file.display());
        let mut text = Vec::new();
        let bytes = fs::File::open(file).with_context(damaged)?;
        GzDecoder::new(bytes).take(MOST_UNPACKED).read_to_end(&mut text).with_context(damaged)?;
        Ok(Self(serde_json::from_slice(&text).with_context(damaged)?))
    }

    /// The run as a file: the same bytes for the same run.
    pub(super) fn bytes(&self) -> anyhow::Result<Vec<u8>> {
        let mut out = GzEncoder::new(Vec::new(), Compression::best());
        out.write_all(&serde_json::to_vec(&self.0)?)?;
        Ok(out.finish()?)
    }

    /// Makes a run's directory of it; one that was there is replaced.
    pub(super) fn unpack(&self, dir: &Path) -> anyhow::Result<()> {
        if dir.exists() {
            fs::remove_dir_all(dir).with_context(|| format!("cannot replace {}", dir.display()))?;
        }
        for (path, document) in &self.0 {
            let is_inside =
                Path::new(path).components().all(|part| matches!(part, std::path::Component::Normal(_)));
            ensure!(is_inside, "'{path}' does not lie in a run's directory");
            let file = dir.join(path);
            let folder = file.parent().unwrap_or(dir);
            fs::create_dir_all(folder).with_context(|| format!("cannot make {}", folder.display()))?;
            fs::write(&file, serde_json::to_vec(document)?)
                .with_context(|| format!("cannot write {}", file.display()))?;
        }
        Ok(())
    }

    /// Strings in it that begin with a folder which is another's on every machine.
    #[cfg(test)]
    pub(super) fn paths_of_one_machine(&self) -> Vec<String> {
        let mut found = Vec::new();
        let cleaner = Origin { folders: Vec::new(), name: None };
        for document in self.0.values() {
            each_string(document, &mut |text| {
                if cleaner.cleaned(text) != text {
                    found.push(text.to_owned());
                }
            });
        }
        found
    }
}

/// Every JSON document below `dir`, by its path.
fn collect(dir: &Path, below: &str, documents: &mut BTreeMap<String, Value>) -> anyhow::Result<()> {
    let folder = dir.join(below);
    let unread = || format!("cannot read {}", folder.display());
    for entry in fs::read_dir(&folder).with_context(unread)? {
        let entry = entry.with_context(unread)?;
        let name = entry.file_name().into_string().ok().context("the name of a file is not text")?;
        let path = if below.is_empty() { name } else { format!("{below}/{name}") };
        if entry.file_type()?.is_dir() {
            collect(dir, &path, documents)?;
        } else if path.ends_with(".json") {
            let text = fs::read(entry.path()).with_context(unread)?;
            let document = serde_json::from_slice(&text).with_context(|| format!("{path} is damaged"))?;
            documents.insert(path, document);
        }
    }
    Ok(())
}

/// Where a run was recorded: what is taken out of it.
#[derive(Debug)]
pub(super) struct Origin {
    /// Folders, wherever they are named, and what stands for them.
    folders: Vec<(String, &'static str)>,
    /// The machine's name.
    name: Option<String>,
}

impl Origin {
    /// This machine, and the folder in which the servers of `case` were built when `manifest` was written.
    pub(super) fn here(case: &Case, manifest: &Manifest) -> Self {
        let folder = case.folder(&manifest.command);
        let workspace = root().to_string_lossy().into_owned();
        let folders = folder.into_iter().chain([workspace]).map(|folder| (folder, ".")).collect();
        let name = rustix::system::uname().nodename().to_string_lossy().into_owned();
        Self { folders, name: Some(name).filter(|name| name.len() >= SHORTEST_NAME && name != "localhost") }
    }

    /// Takes what tells of it out of every string of `document`.
    fn clean(&self, document: &mut Value) {
        match document {
            Value::String(text) => *text = self.cleaned(text),
            Value::Array(all) => all.iter_mut().for_each(|one| self.clean(one)),
            Value::Object(fields) => {
                let old = std::mem::take(fields);
                fields.extend(old.into_iter().map(|(key, mut value)| {
                    self.clean(&mut value);
                    (self.cleaned(&key), value)
                }));
            }
            Value::Null | Value::Bool(_) | Value::Number(_) => {}
        }
    }

    fn cleaned(&self, text: &str) -> String {
        let mut text = text.to_owned();
        for (folder, sign) in &self.folders {
            text = text.replace(folder, sign);
        }
        for (folder, sign) in FOLDERS {
            text = replaced(&text, folder, |_| Some((0, sign)));
        }
        text = replaced(&text, HOMES, |rest| {
            let user = rest.find(|letter| !is_of_name(letter)).unwrap_or(rest.len());
            (user > 0).then_some((user, "~"))
        });
        match &self.name {
            Some(name) => replaced_words(&text, name, "host"),
            None => text,
        }
    }
}

/// `text` with `sign` for each `folder` with which a path begins in it; `with` says how much of what follows belongs to it.
fn replaced<'a>(text: &str, folder: &str, with: impl Fn(&str) -> Option<(usize, &'a str)>) -> String {
    let mut out = String::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(folder).map(|at| from + at) {
        let (before, rest) = (&text[..at], &text[at + folder.len()..]);
        let begins = before.ends_with(FILE_URL)
            || !before.ends_with(|letter| is_of_name(letter) || letter == '/' || letter == '~');
        let is_whole = folder.ends_with('/') || !rest.starts_with(is_of_name);
        out.push_str(&text[from..at]);
        from = at + folder.len();
        match with(rest).filter(|_| begins && is_whole) {
            Some((more, sign)) => {
                out.push_str(sign);
                from += more;
            }
            None => out.push_str(folder),
        }
    }
    out + &text[from..]
}

/// `text` with `sign` for each whole word `word`.
fn replaced_words(text: &str, word: &str, sign: &str) -> String {
    let mut out = String::new();
    let mut from = 0;
    while let Some(at) = text[from..].find(word).map(|at| from + at) {
        let end = at + word.len();
        let is_whole = !text[..at].ends_with(is_of_name) && !text[end..].starts_with(is_of_name);
        out.push_str(&text[from..at]);
        out.push_str(if is_whole { sign } else { word });
        from = end;
    }
    out + &text[from..]
}

fn is_of_name(letter: char) -> bool {
    letter.is_alphanumeric() || ['.', '_', '-'].contains(&letter)
}

#[cfg(test)]
fn each_string(document: &Value, see: &mut impl FnMut(&str)) {
    match document {
        Value::String(text) => see(text),
        Value::Array(all) => all.iter().for_each(|one| each_string(one, see)),
        Value::Object(fields) => fields.iter().for_each(|(key, value)| {
            see(key);
            each_string(value, see);
        }),
        Value::Null | Value::Bool(_) | Value::Number(_) => {}
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn origin() -> Origin {
        Origin { folders: vec![("/tmp/built".to_owned(), ".")], name: Some("build-7".to_owned()) }
    }

    #[test]
    fn paths_and_the_name_of_the_machine_are_taken_out() {
        for (text, clean) in [
            ("base=/tmp/built/gin/hello -addr", "base=./gin/hello -addr"),
            ("-cp=/tmp/built:/usr/lib/x", "-cp=.:/usr/lib/x"),
            ("file:///tmp/app.js", "file://./app.js"),
            ("/root/go/pkg/mod/x and /home/me.too/y", "~/go/pkg/mod/x and ~/y"),
            (
                "/rootfs, /srv/root, https://x.org/tmp/y, /home/",
                "/rootfs, /srv/root, https://x.org/tmp/y, /home/",
            ),
            ("served by build-7, not build-77", "served by host, not build-77"),
        ] {
            assert_eq!(origin().cleaned(text), clean);
        }
        let mut document = json!({ "/tmp/a": ["/tmp/b", 1], "c": { "d": null } });
        origin().clean(&mut document);
        assert_eq!(document, json!({ "./a": ["./b", 1], "c": { "d": null } }));
    }

    #[test]
    fn a_run_comes_out_of_its_file_as_it_was() {
        let folder = std::env::temp_dir().join(format!("whyslow-kept-{}", std::process::id()));
        let kept = Kept([("rounds/b0.json".to_owned(), json!({ "a": 0.1 }))].into());
        kept.unpack(&folder).unwrap();
        fs::write(folder.join("rounds/b0.hlog"), "left out").unwrap();
        assert_eq!(Kept::from_dir(&folder, &origin()).unwrap(), kept);
        let file = folder.join("run.json.gz");
        fs::write(&file, kept.bytes().unwrap()).unwrap();
        assert_eq!(Kept::read(&file).unwrap(), kept);
        assert_eq!(kept.bytes().unwrap(), kept.bytes().unwrap());
        fs::remove_dir_all(&folder).unwrap();
        let outside = Kept([("../x.json".to_owned(), json!(1))].into());
        assert!(outside.unpack(&folder).is_err());
    }
}
