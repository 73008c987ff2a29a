//! gRPC against Go's own server, which counts its calls.

use std::io::{BufRead, BufReader, Read};
use std::path::PathBuf;
use std::process::{Child, Command, Stdio};
use std::sync::OnceLock;

use model::record::RunDir;
use serde_json::Value;

use crate::support::{SHORT, assert_schema, fresh_folder, repository, whyslow, whyslow_in};

/// Folder of the server and of the description of what it serves.
const SOURCES: &str = "crates/whyslow/tests/fixture/grpc";
/// A call that takes one message and is answered by one.
const UNARY: &str = "grpc.testing.TestService/UnaryCall";
/// A call that takes one message and is answered by several.
const STREAM: &str = "grpc.testing.TestService/StreamingOutputCall";
/// What it is asked for: three messages.
const THREE: &str = r#"{"responseParameters": [{"size": 9}, {}, {"size": 70000}]}"#;
/// Undecided after one block, or void: the test looks at what was asked and not at the verdict.
const NO_VERDICT: [Option<i32>; 2] = [Some(4), Some(5)];

/// The server, built; nothing, and the reason said, where it cannot be.
fn server() -> Option<PathBuf> {
    static BUILT: OnceLock<Option<PathBuf>> = OnceLock::new();
    BUILT
        .get_or_init(|| {
            let program = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join("whyslow-grpc");
            let build = Command::new("go")
                .args(["build", "-o"])
                .arg(&program)
                .arg(".")
                .current_dir(repository(SOURCES))
                .output();
            match build {
                Ok(output) if output.status.success() => Some(program),
                Ok(output) => {
                    testkit::skipped(&format!(
                        "go cannot build it: {}",
                        String::from_utf8_lossy(&output.stderr)
                    ));
                    None
                }
                Err(_) => {
                    testkit::skipped("go is not installed");
                    None
                }
            }
        })
        .clone()
}

/// A server that tells what it counted when it is asked to end.
struct Counting {
    child: Child,
    url: String,
}

impl Counting {
    fn start(program: &PathBuf) -> Self {
        let mut command = Command::new(program);
        let mut child = command.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
        let mut line = String::new();
        // A byte at a time, so that nothing of the next line is read.
        BufReader::with_capacity(1, child.stdout.as_mut().unwrap()).read_line(&mut line).unwrap();
        let address = line.trim().rsplit_once(' ').unwrap().1;
        Self { url: format!("http://{address}/"), child }
    }

    fn counts(mut self) -> String {
        drop(self.child.stdin.take());
        let mut output = String::new();
        self.child.stdout.take().unwrap().read_to_string(&mut output).unwrap();
        self.child.wait().unwrap();
        output.trim().to_owned()
    }
}

fn load(url: &str, flags: &[&str]) -> Value {
    let head = ["load", "-t1", "-c3", "-d30s", "--format", "json", url];
    let printed = whyslow(&[&head[..], flags].concat());
    assert_eq!(printed.code, Some(0), "{printed:?}");
    let json = printed.json();
    assert_schema("load", &json);
    json
}

#[test]
fn calls_are_counted_as_the_server_counts_them() {
    let Some(program) = server() else { return };
    let server = Counting::start(&program);
    let proto = repository(SOURCES).join("test.proto");
    let described = ["--proto", proto.to_str().unwrap()];
    let bytes = fresh_folder().join("message.bin");
    // response_size = 1000.
    std::fs::write(&bytes, [0x10, 0xe8, 0x07]).unwrap();
    let bytes = format!("@{}", bytes.display());
    let cases: [(&[&str], &str, u64); 5] = [
        (&["--grpc", UNARY, "--message", r#"{"responseSize": 1000}"#, "--streams", "4"], "", 997),
        (&["--grpc", UNARY, "--message", &bytes, "-R", "500"], "", 101),
        (&["--grpc", UNARY, "--message", r#"{"responseStatus": {"code": 8}}"#], "RESOURCE_EXHAUSTED", 101),
        (&["--grpc", STREAM, "--message", THREE], "", 101),
        (&["--grpc", STREAM, "--message", THREE, "-R", "200"], "", 101),
    ];
    for (flags, error, calls) in cases {
        let count = calls.to_string();
        let json = load(&server.url, &[flags, &described, &["--requests", &count]].concat());
        assert_eq!(json["requests"], calls, "{flags:?}: {json}");
        let errors = json["errors"].as_object().unwrap().values().map(|count| count.as_u64().unwrap());
        let wrong = if error.is_empty() { 0 } else { calls };
        assert_eq!(errors.sum::<u64>(), wrong, "{flags:?}: {json}");
        assert_eq!(json["errors_by_status"].get(error).is_some(), wrong > 0, "{flags:?}: {json}");
        let read = json["bytes_read"].as_u64().unwrap() / calls;
        let least = if flags.contains(&STREAM) { 70_009 } else { 1000 };
        assert!(wrong > 0 || (least..least + 500).contains(&read), "{flags:?}: {read}");
    }
    let nowhere = load(&server.url, &["--grpc", "grpc.testing.TestService/Nothing", "--requests", "7"]);
    assert_eq!(nowhere["errors_by_status"]["UNIMPLEMENTED"], 7, "{nowhere}");
    assert_eq!(server.counts(), "unary 1199 streams 202 messages 606 failed 101");
}

#[test]
fn the_capacity_of_a_server_is_that_of_its_calls() {
    let Some(program) = server() else { return };
    let server = Counting::start(&program);
    let started = format!("go='{}' {{port}}", program.display());
    let proto = repository(SOURCES).join("test.proto");
    let three = ["--message", THREE, "--proto", proto.to_str().unwrap()];
    let cases: [(&str, &str, &[&str]); 3] =
        [(&server.url, UNARY, &[]), (&server.url, STREAM, &three), (&started, STREAM, &three)];
    for (target, call, message) in cases {
        let head = ["capacity", target, "--grpc", call, "--streams", "2", "-c", "2", "--slo", "p50 < 1s"];
        let tail = ["--from", "100", "--max-rate", "200", "--window", "400ms", "--warmup", "100ms"];
        let last = ["--precision", "0.2", "--format", "json"];
        let search = || whyslow(&[&head[..], &tail, message, &last].concat());
        // A crowded machine may leave the generator late, which voids the search: it has three tries.
        let mut found = search();
        for _ in 0..2 {
            if found.code != Some(0) {
                found = search();
            }
        }
        assert_eq!(found.code, Some(0), "{target}, {call}: {found:?}");
        let found = found.json();
        assert_schema("capacity", &found);
        let verdict = (&found["verdict"], found["rate_per_s"].as_f64());
        assert_eq!(verdict, (&"at_least".into(), Some(200.0)), "{target}, {call}");
    }
    // Calls that all fail meet no condition, at any rate.
    let nothing =
        ["--grpc", "grpc.testing.TestService/Nothing", "-c", "2", "--slo", "p50 < 1s", "--from", "100"];
    let tail = ["--max-rate", "200", "--window", "400ms", "--warmup", "100ms", "--format", "json"];
    let found = whyslow(&[&["capacity", server.url.as_str()][..], &nothing, &tail].concat());
    assert!(found.json()["rate_per_s"].is_null(), "{found:?}");
}

#[test]
fn servers_are_compared_by_their_calls() {
    let Some(program) = server() else { return };
    let arm = |name: &str| format!("{name}='{}' {{port}}", program.display());
    let arms = [arm("main"), arm("pr")];
    let proto = repository(SOURCES).join("test.proto");
    let three = ["--message", THREE, "--proto", proto.to_str().unwrap()];
    for (call, message) in [(UNARY, &[][..]), (STREAM, &three)] {
        let folder = fresh_folder();
        let head = ["compare", &arms[0], &arms[1], "--grpc", call, "--streams", "2", "--no-why"];
        let tail = ["--out", "run", "--equal-rates", "25", "--format", "json"];
        let printed = whyslow_in(&folder, &[&head[..], message, &tail, &SHORT].concat());
        assert!(NO_VERDICT.contains(&printed.code), "{call}: {printed:?}");
        let json = printed.json();
        assert_schema("compare", &json);
        assert!(json["workload"].as_str().unwrap().contains(" over gRPC"), "{}", json["workload"]);
        let parity = json["gates"].as_array().unwrap().iter().find(|gate| gate["id"] == "parity").unwrap();
        assert_eq!(parity["ok"], true, "{call}: {parity}");
        for record in RunDir::open(&folder.join("run")).read().unwrap().rounds {
            for window in &record.windows {
                let load = &window.load;
                assert!(load.requests > 50 && load.errors.total() == 0, "{call}: {load:?}");
                // All three messages of a call are read.
                let least = if call == STREAM { 70_009 * load.requests } else { 0 };
                assert!(load.bytes_read >= least, "{call}: {load:?}");
            }
        }
    }
    let wrong = ["compare", &arms[0], &arms[1], "--grpc", "grpc.testing.TestService/Nothing", "--no-why"];
    let printed = whyslow_in(&fresh_folder(), &[&wrong[..], &["--format", "json"], &SHORT].concat());
    assert_eq!(printed.code, Some(1), "{printed:?}");
    assert!(printed.json()["arms"][0]["error"].as_str().unwrap().contains("UNIMPLEMENTED"), "{printed:?}");
}
