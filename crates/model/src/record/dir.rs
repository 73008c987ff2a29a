use std::fs::{self, File};
use std::io::{self, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::{Path, PathBuf};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::record::{
    AnswersRecord, ArmAnswers, DiagnosticRecord, Host, Manifest, RoundRecord, SCHEMA_VERSION, ShardRecord,
    without_values,
};

/// Why a run cannot be written or read; each display is one sentence.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordError {
    /// A file could not be written.
    #[error("cannot write {}: {source}", path.display())]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file could not be read.
    #[error("cannot read {}: {source}", path.display())]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        source: io::Error,
    },
    /// A file is not what its name says.
    #[error("{} is damaged: {reason}", path.display())]
    Damaged {
        /// The file.
        path: PathBuf,
        /// What is wrong, with its place.
        reason: String,
    },
    /// The run is of a newer version.
    #[error("{} has schema {found}, this whyslow reads up to {SCHEMA_VERSION}: use a newer whyslow", path.display())]
    Newer {
        /// The file.
        path: PathBuf,
        /// Its schema.
        found: u64,
    },
}

/// Writes `bytes` so that `path` is whole or absent, also when the machine stops in between. A symbolic link stays one: what it
/// names is replaced. What is no regular file, such as a device or a pipe, is written into.
///
/// # Errors
/// [`RecordError::Write`]; the temporary file is removed then.
pub fn write_atomically(path: &Path, bytes: &[u8]) -> Result<(), RecordError> {
    let written = Place::of(path).and_then(|place| place.write(bytes));
    written.map_err(|source| RecordError::Write { path: path.to_owned(), source })
}

/// Whether [`write_atomically`] could write `path` now: tried with its temporary file, which is removed. A pipe is not tried, for
/// its reader would take that for the end.
///
/// # Errors
/// [`RecordError::Write`] with the reason.
pub fn can_write(path: &Path) -> Result<(), RecordError> {
    let tried = Place::of(path).and_then(|place| place.check());
    tried.map_err(|source| RecordError::Write { path: path.to_owned(), source })
}

/// How a path is written.
#[derive(Debug)]
enum Place {
    /// Replaced by a file that is whole.
    Replaced(PathBuf),
    /// Opened and written into: what is no regular file, or a link to what is not there.
    Into(PathBuf),
    /// A pipe.
    Pipe(PathBuf),
    /// Standard output, of which another may hold the place at which it goes on.
    Output,
    /// Standard error.
    Talk,
}

impl Place {
    fn of(path: &Path) -> io::Result<Self> {
        match path.to_str() {
            Some("/dev/stdout" | "/dev/fd/1" | "/proc/self/fd/1") => return Ok(Self::Output),
            Some("/dev/stderr" | "/dev/fd/2" | "/proc/self/fd/2") => return Ok(Self::Talk),
            _ => {}
        }
        let kind = match fs::metadata(path) {
            Ok(there) => there.file_type(),
            Err(error) if error.kind() != io::ErrorKind::NotFound => return Err(error),
            Err(_) if path.is_symlink() => return Ok(Self::Into(path.to_owned())),
            Err(_) => return Ok(Self::Replaced(path.to_owned())),
        };
        if kind.is_dir() {
            return Err(io::ErrorKind::IsADirectory.into());
        }
        if kind.is_fifo() {
            return Ok(Self::Pipe(path.to_owned()));
        }
        match kind.is_file() {
            true if path.is_symlink() => fs::canonicalize(path).map(Self::Replaced),
            true => Ok(Self::Replaced(path.to_owned())),
            false => Ok(Self::Into(path.to_owned())),
        }
    }

    fn write(&self, bytes: &[u8]) -> io::Result<()> {
        match self {
            Self::Replaced(path) => replace(path, bytes),
            Self::Into(path) | Self::Pipe(path) => into(path)?.write_all(bytes),
            Self::Output => io::stdout().write_all(bytes).and_then(|()| io::stdout().flush()),
            Self::Talk => io::stderr().write_all(bytes),
        }
    }

    fn check(&self) -> io::Result<()> {
        match self {
            Self::Replaced(path) => {
                let temporary = temporary(path);
                File::create(&temporary).and_then(|_| fs::remove_file(&temporary))
            }
            Self::Into(path) => into(path).map(drop),
            Self::Pipe(_) | Self::Output | Self::Talk => Ok(()),
        }
    }
}

/// Opens what is there to be written into; a link to what is not there makes it.
fn into(path: &Path) -> io::Result<File> {
    File::options().write(true).create(path.is_symlink() && !path.exists()).truncate(false).open(path)
}

fn replace(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let temporary = temporary(path);
    let written = write_and_rename(path, &temporary, bytes);
    if written.is_err() {
        // Best effort: the error that matters is the first one.
        let _ = fs::remove_file(&temporary);
    }
    written
}

/// What lies in a folder and is no beginning of a run: a file of none, or what a run has only after its manifest.
fn other_than_a_run(folder: &Path) -> Option<String> {
    let foreign = names_in(folder).into_iter().find(|name| !BEGINNING.contains(&name.as_str()));
    let late = || {
        AFTER_MANIFEST
            .iter()
            .find_map(|part| names_in(&folder.join(part)).first().map(|name| format!("{part}/{name}")))
    };
    foreign.or_else(late)
}

/// What a folder holds, in order; nothing where there is none.
fn names_in(folder: &Path) -> Vec<String> {
    let entries = fs::read_dir(folder).into_iter().flatten().flatten();
    let mut names: Vec<String> =
        entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
    names.sort();
    names
}

/// What a file is called until it is whole.
fn temporary(path: &Path) -> PathBuf {
    let mut name = path.as_os_str().to_owned();
    name.push(".part");
    PathBuf::from(name)
}

fn write_and_rename(path: &Path, temporary: &Path, bytes: &[u8]) -> io::Result<()> {
    let mut file = File::create(temporary)?;
    file.write_all(bytes)?;
    file.sync_all()?;
    fs::rename(temporary, path)?;
    // The rename itself lives in the folder.
    match path.parent() {
        Some(parent) if !parent.as_os_str().is_empty() => File::open(parent)?.sync_all(),
        _ => Ok(()),
    }
}

/// What the arms answered; runs of before they were asked have none.
const ANSWERS: &str = "answers.json";
/// Folder of the scored rounds.
const ROUNDS: &str = "rounds";
/// Folder of the diagnostic rounds; runs of before they were made have none.
const DIAGNOSTICS: &str = "diagnostics";

/// Folder of the runs that put causes to the test, each a run's directory.
const INTERVENTIONS: &str = "interventions";

/// A run as read from its directory.
#[derive(Debug, Clone, PartialEq)]
pub struct Run {
    /// What was to be done.
    pub manifest: Manifest,
    /// Where; [`Host::unknown`] where that does not read.
    pub host: Host,
    /// What each arm answered when it was asked a few times; empty in runs of before that was done.
    pub answers: Vec<ArmAnswers>,
    /// Its rounds, in order of block and position.
    pub rounds: Vec<RoundRecord>,
    /// Its diagnostic rounds, in order of block and arm.
    pub diagnostics: Vec<DiagnosticRecord>,
    /// Runs that put its causes to the test, by the name of the intervention.
    pub interventions: Vec<Self>,
    /// Files that could not be read, one sentence each.
    pub damaged: Vec<String>,
}

/// What can be read of a run whose manifest does not read.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Remains {
    /// Where it was made.
    pub host: Option<Host>,
    /// Its rounds, in order of block and position.
    pub rounds: Vec<RoundRecord>,
}

/// What there can be of a run before its manifest.
const BEGINNING: [&str; 5] = [ROUNDS, DIAGNOSTICS, "logs", "host.json", ANSWERS];
/// Those of its folders that are empty before its manifest.
const AFTER_MANIFEST: [&str; 2] = [ROUNDS, DIAGNOSTICS];

/// A run's directory.
#[derive(Debug, Clone)]
pub struct RunDir(PathBuf);

impl RunDir {
    /// Makes the directory of a new run.
    ///
    /// # Errors
    /// [`RecordError::Write`], also where the directory exists and holds a run, or what is of none.
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        let wrong = |source| RecordError::Write { path: path.to_owned(), source };
        if path.join("manifest.json").exists() {
            return Err(wrong(io::Error::new(io::ErrorKind::AlreadyExists, "it holds a run already")));
        }
        if let Some(other) = other_than_a_run(path) {
            let reason = format!("it holds {other} and no run: name a folder that is empty or not there");
            return Err(wrong(io::Error::new(io::ErrorKind::AlreadyExists, reason)));
        }
        for folder in [ROUNDS, DIAGNOSTICS, "logs"] {
            fs::create_dir_all(path.join(folder)).map_err(wrong)?;
        }
        Ok(Self(path.to_owned()))
    }

    /// The directory of a run that exists.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// The path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.0
    }

    /// The log file of a round.
    #[must_use]
    pub fn log_path(&self, round: &crate::plan::Round, arm: &str) -> PathBuf {
        self.0.join("logs").join(format!("{}-{arm}.log", stem(round)))
    }

    /// The latency log of a round.
    #[must_use]
    pub fn hlog_path(&self, round: &crate::plan::Round) -> PathBuf {
        self.0.join("rounds").join(format!("{}.hlog", stem(round)))
    }

    /// The directory of the run that tries the intervention `id`.
    #[must_use]
    pub fn intervention_path(&self, id: &str) -> PathBuf {
        self.0.join(INTERVENTIONS).join(id)
    }

    /// Writes the manifest, without what may be secret.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_manifest(&self, manifest: &Manifest) -> Result<(), RecordError> {
        let kept = Manifest {
            command: without_values(&manifest.command),
            plan: manifest.plan.masked(),
            ..manifest.clone()
        };
        self.write_json("manifest.json", &kept)
    }

    /// Writes the host's facts.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_host(&self, host: &Host) -> Result<(), RecordError> {
        self.write_json("host.json", host)
    }

    /// Writes what the arms answered.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_answers(&self, arms: Vec<ArmAnswers>) -> Result<(), RecordError> {
        self.write_json(ANSWERS, &AnswersRecord { schema: SCHEMA_VERSION, arms })
    }

    /// Writes one round.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_round(&self, record: &RoundRecord) -> Result<(), RecordError> {
        self.write_json(&format!("rounds/{}.json", stem(&record.round)), record)
    }

    /// Writes one diagnostic round.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_diagnostic(&self, record: &DiagnosticRecord) -> Result<(), RecordError> {
        self.write_json(&format!("{DIAGNOSTICS}/d{:03}-{}.json", record.block, record.arm), record)
    }

    /// Writes a round's latency log.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write_hlog(&self, round: &crate::plan::Round, text: &str) -> Result<(), RecordError> {
        write_atomically(&self.hlog_path(round), text.as_bytes())
    }

    fn write_json<T: Serialize>(&self, name: &str, value: &T) -> Result<(), RecordError> {
        write_json_to(&self.0.join(name), value)
    }

    /// Reads the whole run. What is damaged is left out and named; without its manifest it is no run.
    ///
    /// # Errors
    /// [`RecordError`] for the manifest.
    pub fn read(&self) -> Result<Run, RecordError> {
        let manifest = self.read_manifest()?;
        let mut damaged = Vec::new();
        let host = or_damaged(self.read_host(), &mut damaged).unwrap_or_else(Host::unknown);
        let answers = match self.0.join(ANSWERS).exists() {
            true => or_damaged(read_json::<AnswersRecord>(&self.0.join(ANSWERS)), &mut damaged)
                .unwrap_or_default(),
            false => AnswersRecord::default(),
        };
        let rounds = self.read_rounds(&mut damaged);
        let diagnostics = match self.0.join(DIAGNOSTICS).exists() {
            true => self.read_all(DIAGNOSTICS, &mut damaged),
            false => Vec::new(),
        };
        let interventions = self.read_interventions(&mut damaged);
        Ok(Run { manifest, host, answers: answers.arms, rounds, diagnostics, interventions, damaged })
    }

    /// Reads what was to be done and how far it came, and nothing else.
    ///
    /// # Errors
    /// [`RecordError`]
    pub fn read_manifest(&self) -> Result<Manifest, RecordError> {
        let path = self.0.join("manifest.json");
        let manifest: Manifest = read_json(&path)?;
        match manifest.fault() {
            Some(reason) => Err(RecordError::Damaged { path, reason }),
            None => Ok(manifest),
        }
    }

    /// What can be read of a run without its manifest.
    #[must_use]
    pub fn remains(&self) -> Remains {
        let mut left_out = Vec::new();
        Remains { host: self.read_host().ok(), rounds: self.read_rounds(&mut left_out) }
    }

    fn read_host(&self) -> Result<Host, RecordError> {
        read_json(&self.0.join("host.json"))
    }

    fn read_rounds(&self, damaged: &mut Vec<String>) -> Vec<RoundRecord> {
        let mut rounds: Vec<RoundRecord> = self.read_all(ROUNDS, damaged);
        rounds.sort_by_key(|record| (record.round.block, record.round.position, record.round.attempt));
        rounds
    }

    /// The runs that put causes to the test, in order of their names.
    fn read_interventions(&self, damaged: &mut Vec<String>) -> Vec<Run> {
        if !self.0.join(INTERVENTIONS).exists() {
            return Vec::new();
        }
        let folders = or_damaged(self.entries(INTERVENTIONS), damaged).unwrap_or_default();
        let runs = folders.into_iter().filter(|path| path.join("manifest.json").exists());
        runs.filter_map(|path| or_damaged(Self::open(&path).read(), damaged)).collect()
    }

    /// Every record in `folder`, in order of file names.
    fn read_all<T: DeserializeOwned>(&self, folder: &str, damaged: &mut Vec<String>) -> Vec<T> {
        let files = or_damaged(self.entries(folder), damaged).unwrap_or_default();
        let records = files.into_iter().filter(|path| path.extension().is_some_and(|kind| kind == "json"));
        records.filter_map(|path| or_damaged(read_json(&path), damaged)).collect()
    }

    /// Fields of the manifest that are plain words or numbers, whatever its schema; nothing where it is no JSON object.
    #[must_use]
    pub fn facts(&self) -> Vec<(String, String)> {
        let text = fs::read(self.0.join("manifest.json")).unwrap_or_default();
        let value: serde_json::Value = serde_json::from_slice(&text).unwrap_or_default();
        let plain = |value: &serde_json::Value| match value {
            serde_json::Value::String(words) => Some(words.clone()),
            serde_json::Value::Number(number) => Some(number.to_string()),
            serde_json::Value::Array(words) => words
                .iter()
                .map(serde_json::Value::as_str)
                .collect::<Option<Vec<_>>>()
                .map(|words| words.join(" ")),
            _ => None,
        };
        let fields = value.as_object().into_iter().flatten();
        fields.filter_map(|(name, value)| Some((name.clone(), plain(value)?))).collect()
    }

    /// What is in `folder`, in order of names.
    fn entries(&self, folder: &str) -> Result<Vec<PathBuf>, RecordError> {
        let folder = self.0.join(folder);
        let wrong = |source| RecordError::Read { path: folder.clone(), source };
        let entries: Result<Vec<_>, _> = fs::read_dir(&folder).map_err(wrong)?.collect();
        let mut paths: Vec<PathBuf> = entries.map_err(wrong)?.into_iter().map(|entry| entry.path()).collect();
        paths.sort();
        Ok(paths)
    }
}

/// What was read, or nothing and a sentence among what is damaged.
fn or_damaged<T>(read: Result<T, RecordError>, damaged: &mut Vec<String>) -> Option<T> {
    read.map_err(|error| damaged.push(error.to_string())).ok()
}

fn stem(round: &crate::plan::Round) -> String {
    let repeat = if round.attempt == 0 { String::new() } else { format!("-r{}", round.attempt) };
    format!("b{:03}-p{}{repeat}", round.block, round.position)
}

fn write_json_to<T: Serialize>(path: &Path, value: &T) -> Result<(), RecordError> {
    let mut bytes =
        serde_json::to_vec_pretty(value).expect("records hold only string keys and finite shapes");
    bytes.push(b'\n');
    write_atomically(path, &bytes)
}

fn read_json<T: DeserializeOwned>(path: &Path) -> Result<T, RecordError> {
    let bytes = fs::read(path).map_err(|source| RecordError::Read { path: path.to_owned(), source })?;
    let damaged =
        |error: serde_json::Error| RecordError::Damaged { path: path.to_owned(), reason: error.to_string() };
    let value: serde_json::Value = serde_json::from_slice(&bytes).map_err(damaged)?;
    match value.get("schema").and_then(serde_json::Value::as_u64) {
        Some(found) if found > u64::from(SCHEMA_VERSION) => {
            Err(RecordError::Newer { path: path.to_owned(), found })
        }
        _ => serde_json::from_value(value).map_err(damaged),
    }
}

/// A directory of shards: `shard-I-of-N.json`, and `shard-I-of-N.hlog` with the histograms.
#[derive(Debug, Clone)]
pub struct ShardDir(PathBuf);

impl ShardDir {
    /// Makes the directory unless it exists: several generators may save into one.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn create(path: &Path) -> Result<Self, RecordError> {
        fs::create_dir_all(path).map_err(|source| RecordError::Write { path: path.to_owned(), source })?;
        Ok(Self(path.to_owned()))
    }

    /// A directory that exists.
    #[must_use]
    pub fn open(path: &Path) -> Self {
        Self(path.to_owned())
    }

    /// Writes one record and its log. The record comes last: where it is, its log is whole.
    ///
    /// # Errors
    /// [`RecordError::Write`]
    pub fn write(&self, record: &ShardRecord, hlog: &str) -> Result<(), RecordError> {
        let stem = shard_stem(record);
        write_atomically(&self.0.join(format!("{stem}.hlog")), hlog.as_bytes())?;
        write_json_to(&self.0.join(format!("{stem}.json")), record)
    }

    /// Reads every record of the directory with its log, in the order of their names.
    ///
    /// # Errors
    /// [`RecordError`], also where there is none.
    pub fn read(&self) -> Result<Vec<(ShardRecord, String)>, RecordError> {
        let read = |path: &Path| {
            let path = path.to_owned();
            move |source| RecordError::Read { path, source }
        };
        let mut files = Vec::new();
        for entry in fs::read_dir(&self.0).map_err(read(&self.0))? {
            let path = entry.map_err(read(&self.0))?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if name.starts_with("shard-") && name.ends_with(".json") {
                files.push(path);
            }
        }
        if files.is_empty() {
            let source = io::Error::new(io::ErrorKind::NotFound, "it holds no shard");
            return Err(read(&self.0)(source));
        }
        files.sort();
        let one = |file: &PathBuf| {
            let log = file.with_extension("hlog");
            let text = fs::read_to_string(&log).map_err(read(&log))?;
            Ok((read_json(file)?, text))
        };
        files.iter().map(one).collect()
    }
}

/// `shard-1-of-3`, or `shard-0.2-of-3` for two that were merged.
fn shard_stem(record: &ShardRecord) -> String {
    let which: Vec<String> = record.shards.iter().map(u32::to_string).collect();
    format!("shard-{}-of-{}", which.join("."), record.of)
}
