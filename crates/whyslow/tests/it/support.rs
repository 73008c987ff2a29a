//! The program run to its end, folders to run it in, and schemas to hold its output against.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};
use serde_json::Value;

pub(crate) const WHYSLOW: &str = env!("CARGO_BIN_EXE_whyslow");
pub(crate) const FIXTURE: &str = env!("CARGO_BIN_EXE_whyslow-fixture");

/// The servers of other protocols: an example, of which Cargo tells tests no path. A run of some tests alone does not build it.
pub(crate) fn arms() -> &'static Path {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    BUILT.get_or_init(|| {
        let path = Path::new(WHYSLOW).with_file_name("examples").join("whyslow-arms");
        if !path.exists() {
            let built = Command::new(env!("CARGO"))
                .args(["build", "--quiet", "--package", "whyslow", "--example", "whyslow-arms"])
                .current_dir(env!("CARGO_MANIFEST_DIR"))
                .status();
            assert!(built.unwrap().success() && path.exists(), "{} cannot be built", path.display());
        }
        path
    })
}

/// The user that has no rights, by Linux's custom.
pub(crate) const NOBODY: u32 = 65534;

/// A small comparison whose warm-up has one length, so that a busy machine takes no longer.
pub(crate) const SHORT: [&str; 10] =
    ["--blocks", "1", "--cycles", "2", "--warmup", "100ms", "--warmup-cap", "300ms", "--connections", "4"];

/// A folder of its own for each call, empty.
pub(crate) fn fresh_folder() -> PathBuf {
    static NEXT: AtomicU32 = AtomicU32::new(0);
    let name = format!("whyslow-{}-{}", std::process::id(), NEXT.fetch_add(1, Ordering::Relaxed));
    let folder = Path::new(env!("CARGO_TARGET_TMPDIR")).join(name);
    std::fs::create_dir_all(&folder).unwrap();
    folder
}

/// How a command ended and what it said.
#[derive(Debug)]
pub(crate) struct Printed {
    pub(crate) code: Option<i32>,
    pub(crate) out: String,
    pub(crate) err: String,
}

impl Printed {
    pub(crate) fn from_output(output: Output) -> Self {
        let text = |bytes: Vec<u8>| String::from_utf8(bytes).unwrap();
        Self { code: output.status.code(), out: text(output.stdout), err: text(output.stderr) }
    }

    pub(crate) fn json(&self) -> Value {
        serde_json::from_str(&self.out).unwrap_or_else(|error| panic!("{error} in {self:?}"))
    }
}

/// Runs whyslow in `folder` to its end.
pub(crate) fn whyslow_in(folder: &Path, args: &[&str]) -> Printed {
    Printed::from_output(Command::new(WHYSLOW).args(args).current_dir(folder).output().unwrap())
}

/// Runs whyslow in a folder of its own to its end.
pub(crate) fn whyslow(args: &[&str]) -> Printed {
    whyslow_in(&fresh_folder(), args)
}

/// An arm whose server has a fault (see `fixture/server.rs`).
pub(crate) fn arm(name: &str, fault: &str) -> String {
    format!("{name}='{FIXTURE}' {{port}} {fault}")
}

/// A file of the repository.
pub(crate) fn repository(path: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..").join(path)
}

/// Checks `json` against the committed schema of `output`.
pub(crate) fn assert_schema(output: &str, json: &Value) {
    let file = repository(&format!("docs/schema/{output}.schema.json"));
    let schema: Value = serde_json::from_str(&std::fs::read_to_string(file).unwrap()).unwrap();
    let validator = jsonschema::validator_for(&schema).unwrap();
    let errors: Vec<String> =
        validator.iter_errors(json).map(|error| format!("{}: {error}", error.instance_path())).collect();
    assert_eq!(errors, [""; 0]);
}

/// One interval of a log.
pub(crate) struct Logged {
    /// None for the main series.
    pub(crate) tag: Option<String>,
    pub(crate) begin: Duration,
    pub(crate) length: Duration,
    pub(crate) latencies: Histogram<u64>,
}

/// The intervals of a log, as the crate reads them that defines the format.
pub(crate) fn logged(file: &Path) -> Vec<Logged> {
    let text = std::fs::read_to_string(file).unwrap();
    let intervals = IntervalLogIterator::new(text.as_bytes()).filter_map(|entry| match entry.unwrap() {
        LogEntry::Interval(interval) => Some(interval),
        _ => None,
    });
    let read = |encoded: &str| {
        Deserializer::new().deserialize(&mut STANDARD.decode(encoded).unwrap().as_slice()).unwrap()
    };
    intervals
        .map(|interval| Logged {
            tag: interval.tag().map(|tag| tag.as_str().to_owned()),
            begin: interval.start_timestamp(),
            length: interval.duration(),
            latencies: read(interval.encoded_histogram()),
        })
        .collect()
}

/// Waits until `holds`; `false` where it does not within `limit`.
pub(crate) fn within(limit: Duration, mut holds: impl FnMut() -> bool) -> bool {
    let deadline = Instant::now() + limit;
    while !holds() {
        if Instant::now() > deadline {
            return false;
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    true
}

/// Process ids of all that have `word` in their command line.
pub(crate) fn living(word: &str) -> Vec<String> {
    let all = std::fs::read_dir("/proc").unwrap().flatten();
    let pids = all.filter_map(|entry| entry.file_name().into_string().ok());
    pids.filter(|pid| {
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).unwrap_or_default();
        String::from_utf8_lossy(&line).contains(word)
    })
    .collect()
}
