//! Every kind of arm against every other: which is slower is found, and nothing is left of a comparison that is killed.

use std::net::TcpListener;
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use analyse::{Comparison, Metric, Verdict};
use model::record::RunDir;

use crate::composed;
use crate::containers::IMAGE;
use crate::revisions::Repository;
use crate::support::{FIXTURE, Printed, WHYSLOW, living, within};

/// Steps of a request, in percent: each kind of arm does a fifth more than the one before it.
const STEPS: [u32; 3] = [100, 120, 144];
/// Until a crowded machine has everything running.
const START_LIMIT: Duration = Duration::from_secs(60);
/// After this long nothing may be left of a run that was killed.
const CLEAR_LIMIT: Duration = Duration::from_secs(5);

/// A server that somebody else has started; its command line has `mark` in it.
pub(crate) struct Elsewhere {
    child: Child,
    pub(crate) port: u16,
}

impl Elsewhere {
    pub(crate) fn start(fault: &str, mark: &str) -> Self {
        Self::of_server(Path::new(FIXTURE), &[fault, mark])
    }

    fn of_server(server: &Path, args: &[&str]) -> Self {
        let port = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
        let mut command = Command::new(server);
        let child = command.arg(port.to_string()).args(args).stdout(Stdio::null()).spawn().unwrap();
        let started = within(START_LIMIT, || std::net::TcpStream::connect(("127.0.0.1", port)).is_ok());
        assert!(started, "nobody listens on {port}");
        Self { child, port }
    }
}

impl Drop for Elsewhere {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// A repository whose only commit is a server that does `percent` of the usual work.
fn revision(percent: u32) -> Repository {
    let repository = Repository::new();
    repository.write("fault", &format!("heavy-{percent}\n"));
    repository.commit("as heavy as that");
    repository
}

/// Verdicts on CPU time of every arm against each that does less.
fn verdicts(run: &Path) -> Vec<Comparison> {
    let run = RunDir::open(run).read().unwrap();
    let place = |name: &str| run.manifest.plan.arms.iter().position(|arm| arm.name == name);
    let rows = analyse::analyse_each_baseline(&run).into_iter().flat_map(|findings| findings.comparisons);
    rows.filter(|row| row.metric == Metric::CpuPerRequest && place(&row.baseline) < place(&row.arm)).collect()
}

/// CPU time of the lightest request of those that servers in containers take too, in nanoseconds.
const LIGHTEST_NS: f64 = 200_000.0;
/// How much more each kind of arm does than the one before it.
const MORE: f64 = 1.2;

#[test]
fn a_fifth_more_work_is_found_between_every_two_kinds_of_arms_in_containers_and_outside() {
    let Some((shop, _)) = composed::shop() else { return };
    let [command, git, url, image, service] =
        [0, 1, 2, 3, 4].map(|step| (LIGHTEST_NS * MORE.powi(step)) as u64);
    let server = shop.server.display();
    // Other work on the machine can hide a fifth: there are three tries.
    let attempt = |number: u32| {
        let repository = Repository::new();
        repository.write("fault", &git.to_string());
        let file = format!(
            "services:\n  web:\n    image: {IMAGE}\n    network_mode: host\n    command: [\"${{PORT}}\", \"{service}\"]\n"
        );
        repository.write("compose.yaml", &file);
        repository.commit("as heavy as that");
        let elsewhere = Elsewhere::of_server(&shop.server, &[&url.to_string()]);
        let out = repository.cache.with_file_name(format!("run-{number}"));
        let mut whyslow = shop.whyslow(&repository.folder);
        whyslow.env("WHYSLOW_CACHE", &repository.cache).env("WHYSLOW_COMPOSE", "podman");
        whyslow.args(["compare", &format!("command={server} {{port}} {command}"), "git=git:HEAD"]);
        whyslow.args(["--run", &format!("sh -c 'exec {server} {{port}} $(cat fault)'")]);
        whyslow.arg(format!("url=http://127.0.0.1:{}", elsewhere.port));
        whyslow.arg(format!("image=podman:{IMAGE} {{port}} {image}")).arg("service=compose:compose.yaml#web");
        whyslow.args([
            "--equal-rates",
            "none",
            "--no-why",
            "--connections",
            "4",
            "--blocks",
            "6",
            "--cycles",
            "3",
        ]);
        whyslow.args(["--warmup", "100ms", "--warmup-cap", "300ms", "--out"]).arg(&out);
        let printed = Printed::from_output(whyslow.output().unwrap());
        let verdicts = verdicts(&out);
        assert_eq!(verdicts.len(), 10, "{printed:?}");
        verdicts.iter().any(|row| row.verdict != Verdict::Slower).then_some((printed, verdicts))
    };
    let wrong: Vec<_> = (0..3).map_while(attempt).collect();
    assert!(wrong.len() < 3, "{wrong:#?}");
}

#[test]
fn a_fifth_more_work_is_found_between_every_two_kinds_of_arms() {
    if composed::shop().is_some() {
        // The test above has these kinds, too.
        return;
    }
    let [command, git, url] = STEPS;
    // Other work on the machine can hide a fifth: there are three tries.
    let attempt = |number: u32| {
        let repository = revision(git);
        let elsewhere = Elsewhere::start(&format!("heavy-{url}"), "by-url");
        let of_command = format!("command='{FIXTURE}' {{port}} heavy-{command}");
        let of_url = format!("url=http://127.0.0.1:{}", elsewhere.port);
        let out = repository.cache.with_file_name(format!("run-{number}"));
        let run = format!("sh -c 'exec {FIXTURE} {{port}} $(cat fault)'");
        let mut args = vec!["compare", &of_command, "git=git:HEAD", &of_url, "--run", &run];
        args.extend(["--equal-rates", "none", "--no-why", "--connections", "4", "--out"]);
        args.extend([out.to_str().unwrap(), "--blocks", "6", "--cycles", "3"]);
        let printed =
            repository.whyslow(&[&args[..], &["--warmup", "100ms", "--warmup-cap", "300ms"]].concat());
        let verdicts = verdicts(&out);
        assert_eq!(verdicts.len(), 3, "{printed:?}");
        verdicts.iter().any(|row| row.verdict != Verdict::Slower).then_some((printed, verdicts))
    };
    let wrong: Vec<_> = (0..3).map_while(attempt).collect();
    assert!(wrong.len() < 3, "{wrong:#?}");
}

#[test]
fn a_comparison_of_every_kind_that_is_killed_leaves_nothing_but_what_ran_before() {
    let repository = revision(100);
    let mark = format!("mark-{}", std::process::id());
    let mut elsewhere = Elsewhere::start("none", &format!("{mark}-url"));
    let service = format!("[service.db]\nrun = \"'{FIXTURE}' {{port}} none {mark}-service\"\n");
    repository.write("whyslow.toml", &service);
    repository.commit("with a service");
    let of_command = format!("command='{FIXTURE}' {{port}} none {mark}-command");
    let of_url = format!("url=http://127.0.0.1:{}", elsewhere.port);
    let run = format!("'{FIXTURE}' {{port}} none {mark}-git");
    let mut command = Command::new(WHYSLOW);
    command.args(["compare", &of_command, "git=git:HEAD", &of_url, "--run", &run, "--out"]);
    command.arg(repository.cache.with_file_name("run"));
    command.args(["--blocks", "1", "--cycles", "2000", "--allow-difference"]);
    command.current_dir(&repository.folder).env("WHYSLOW_CACHE", &repository.cache);
    let mut killed = command.stdout(Stdio::null()).stderr(Stdio::null()).spawn().unwrap();
    let all = ["command", "git", "service"].map(|kind| format!("{mark}-{kind}"));
    // A supervisor, and what it has started: both have the words in their command lines.
    let runs = |word: &String| living(word).iter().any(|pid| program_of(pid) == Some(FIXTURE.into()));
    let running = within(START_LIMIT, || all.iter().all(runs) || killed.try_wait().unwrap().is_some());
    assert!(running && all.iter().all(runs), "not everything was started");
    killed.kill().unwrap();
    killed.wait().unwrap();
    for word in &all {
        assert!(within(CLEAR_LIMIT, || living(word).is_empty()), "{word}: {:?}", living(word));
    }
    assert!(elsewhere.child.try_wait().unwrap().is_none(), "what ran before runs on");
    assert_eq!(repository.git(&["worktree", "list"]).lines().count(), 1, "no worktree is left");
    assert_eq!(repository.git(&["status", "--porcelain"]), "");
}

fn program_of(pid: &str) -> Option<std::path::PathBuf> {
    std::fs::read_link(Path::new("/proc").join(pid).join("exe")).ok()
}
