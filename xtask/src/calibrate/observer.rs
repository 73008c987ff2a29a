//! What watching a server costs it: the same server under the same load, watched and not, in turn.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use observe::{Awake, DistanceWatch};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{Args, Question};
use crate::awake;
use crate::shell::{command, root, run};

/// Length of a window in seconds.
const WINDOW_S: u32 = 2;
/// Readings and attaching begin before the load and end after it, in seconds.
const MARGIN_S: f64 = 0.5;
/// Tries to have a pair between whose windows no CPU was moved.
const ATTEMPTS: u32 = 10;
/// Level of the interval.
const LEVEL: f64 = 0.95;
/// Where results are kept between calls.
const RESULTS: &str = "target/calibrate/observer.ndjson";
const PAGE: &str = "docs/benchmarks/observer.md";

/// What one way of watching cost.
#[derive(Debug, Clone, Serialize, Deserialize)]
struct Cost {
    mode: String,
    pairs: usize,
    /// Watched over unwatched: estimate, low, high.
    cpu: [f64; 3],
    rate: [f64; 3],
}

/// One window.
struct Window {
    rate_per_s: f64,
    cpu_ns_per_request: f64,
    /// Samples of the way from the server's CPU to the generator's and back.
    distances_ns: Vec<f64>,
}

/// Runs the pairs and writes the page anew.
pub(super) fn calibrate(args: &Args) -> anyhow::Result<()> {
    run(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
    run(&["cargo", "build", "--quiet", "--release", "--package", "observe", "--example", "observer"])?;
    run(&[&release("whyslow"), "targets", "build", "planted"])?;
    let server = Server::start()?;
    server.window(None)?;
    let mode = mode(args.question)?;
    let (mut cpu, mut rate) = (Vec::new(), Vec::new());
    for pair in 0..args.runs() {
        // Watched first as often as last.
        let order = if pair % 2 == 0 { [None, Some(mode)] } else { [Some(mode), None] };
        let windows = server.pair(order)?;
        let [plain, watched] = if pair % 2 == 0 { [0, 1] } else { [1, 0] }.map(|place| &windows[place]);
        cpu.push((watched.cpu_ns_per_request / plain.cpu_ns_per_request).ln());
        rate.push((watched.rate_per_s / plain.rate_per_s).ln());
        println!("{}/{}: CPU x{:.4}, rate x{:.4}", pair + 1, args.runs(), exp(&cpu), exp(&rate));
    }
    let cost = Cost { mode: mode.to_owned(), pairs: cpu.len(), cpu: interval(&cpu)?, rate: interval(&rate)? };
    let mut all = read()?;
    all.retain(|other| other.mode != cost.mode);
    all.push(cost);
    all.sort_by(|a, b| a.mode.cmp(&b.mode));
    write(&all)
}

fn mode(question: Question) -> anyhow::Result<&'static str> {
    match question {
        Question::Tier0 => Ok("tier0"),
        Question::Tier1 => Ok("tier1"),
        Question::Tier2 => Ok("tier2"),
        Question::Tier3 => Ok("tier3"),
        Question::Strace => Ok("strace"),
        _ => bail!("{question:?} is no way of watching"),
    }
}

fn exp(logs: &[f64]) -> f64 {
    logs.last().copied().unwrap_or(f64::NAN).exp()
}

fn interval(logs: &[f64]) -> anyhow::Result<[f64; 3]> {
    let found = stats::paired::estimate(logs, LEVEL).context("more pairs are needed (--runs)")?;
    Ok([found.value.exp(), found.interval.low.exp(), found.interval.high.exp()])
}

fn release(name: &str) -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    format!("{target}/release/{name}")
}

/// The planted server without a plant, on the first CPU; generator and observer have the second, as in a comparison.
struct Server {
    child: Child,
    port: u16,
    /// As in a comparison.
    _awake: Option<Awake>,
}

impl Server {
    fn start() -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let program = root().join("targets/.build/planted/plain/planted");
        let program = program.to_str().context("the workspace has a name that is not text")?;
        let child = command(&["taskset", "-c", "0", program, "--port", &port.to_string(), "--plant", "none"])
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the server (taskset is in util-linux)")?;
        let server = Self { child, port, _awake: awake::keep("0,1")? };
        for _ in 0..100 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not listen")
    }

    /// Two windows between which no CPU was moved.
    fn pair(&self, modes: [Option<&str>; 2]) -> anyhow::Result<[Window; 2]> {
        for _ in 0..ATTEMPTS {
            let windows = [self.window(modes[0])?, self.window(modes[1])?];
            if !analyse::moved_between(&windows[0].distances_ns, &windows[1].distances_ns) {
                return Ok(windows);
            }
            println!("a CPU was moved: once more");
        }
        bail!("a CPU was moved in each of {ATTEMPTS} pairs: come back at a quieter time")
    }

    /// One window, watched in the way named or not at all.
    fn window(&self, mode: Option<&str>) -> anyhow::Result<Window> {
        let mut observer = mode.map(|mode| self.observer(mode)).transpose()?;
        std::thread::sleep(Duration::from_secs_f64(MARGIN_S / 2.0));
        let before_ns = self.cpu_ns()?;
        let (url, seconds) = (format!("http://127.0.0.1:{}/plaintext", self.port), format!("{WINDOW_S}s"));
        let argv = [
            &release("whyslow"),
            "load",
            "-t1",
            "-c64",
            "--cpus",
            "1",
            "-d",
            &seconds,
            "--format",
            "json",
            &url,
        ];
        let distances = DistanceWatch::start(&"0".parse()?, &"1".parse()?)?;
        let output = command(&argv).output().context("cannot run whyslow load")?;
        let distances_ns = distances.stop();
        let cpu_ns = self.cpu_ns()? - before_ns;
        if let Some(observer) = &mut observer {
            end(observer)?;
        }
        let report: Value = serde_json::from_slice(&output.stdout).context("whyslow load printed no JSON")?;
        let requests = report["requests"].as_f64().context("a report has requests")?;
        let rate_per_s = report["rate_per_s"].as_f64().context("a report has a rate")?;
        Ok(Window { rate_per_s, cpu_ns_per_request: cpu_ns as f64 / requests, distances_ns })
    }

    fn observer(&self, mode: &str) -> anyhow::Result<Child> {
        let (pid, seconds) = (self.child.id().to_string(), (f64::from(WINDOW_S) + MARGIN_S).to_string());
        let example = release("examples/observer");
        let argv: Vec<&str> = match mode {
            "strace" => vec!["taskset", "-c", "1", "strace", "-c", "-f", "-p", &pid],
            mode => vec!["taskset", "-c", "1", &example, mode, &pid, &seconds],
        };
        let quiet = || Stdio::null();
        command(&argv)
            .stdout(quiet())
            .stderr(quiet())
            .spawn()
            .with_context(|| format!("cannot watch by {mode}"))
    }

    /// CPU time of all its threads so far.
    fn cpu_ns(&self) -> anyhow::Result<u64> {
        let mut sum = 0;
        for entry in fs::read_dir(format!("/proc/{}/task", self.child.id())).context("the server is gone")? {
            let text = fs::read_to_string(entry?.path().join("schedstat")).unwrap_or_default();
            sum += text.split(' ').next().and_then(|word| word.parse::<u64>().ok()).unwrap_or(0);
        }
        Ok(sum)
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Ours end by themselves; strace watches until it is interrupted.
fn end(observer: &mut Child) -> anyhow::Result<()> {
    for _ in 0..20 {
        if let Some(status) = observer.try_wait()? {
            return if status.success() { Ok(()) } else { bail!("the observer failed: {status}") };
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let interrupted = command(&["kill", "-INT", &observer.id().to_string()]).status()?;
    if !interrupted.success() {
        bail!("cannot interrupt the observer");
    }
    observer.wait()?;
    Ok(())
}

fn read() -> anyhow::Result<Vec<Cost>> {
    let Ok(text) = fs::read_to_string(root().join(RESULTS)) else { return Ok(Vec::new()) };
    text.lines().map(|line| serde_json::from_str(line).context("an earlier result does not read")).collect()
}

fn write(all: &[Cost]) -> anyhow::Result<()> {
    let lines: Vec<String> = all.iter().map(serde_json::to_string).collect::<Result<_, _>>()?;
    fs::create_dir_all(root().join("target/calibrate"))?;
    fs::create_dir_all(root().join("docs/benchmarks"))?;
    fs::write(root().join(RESULTS), lines.join("\n") + "\n")?;
    let text = page(all);
    print!("{text}");
    fs::write(root().join(PAGE), text).context("cannot write the page")
}

fn page(all: &[Cost]) -> String {
    let mut text = format!(
        "# What watching costs the server\n\n`cargo xtask calibrate tier0` (likewise `tier1`, `tier2`, `tier3`, `strace`): the \
         planted C server without a plant on CPU 0, generator (closed loop, 64 connections) and observer on CPU 1, windows \
         of {WINDOW_S} s in pairs, watched and not, in alternating order; a pair between whose windows a CPU was moved is \
         repeated. Ratio watched / unwatched: Hodges–Lehmann, exact \
         Wilcoxon interval at {:.0} %. What it may cost: tier 0 0.5 %, tier 1 1 % of CPU per request; what costs more is \
         never in a scored window.\n\n| watched by | pairs | CPU per request | rate |\n|---|--:|--:|--:|\n",
        LEVEL * 100.0
    );
    let ratio = |[value, low, high]: [f64; 3]| format!("{value:.4} [{low:.4}, {high:.4}]");
    for cost in all {
        let name = match cost.mode.as_str() {
            "tier0" => "tier 0: all readings, once a second",
            "tier1" => "tier 1: counting perf events",
            "tier2" => "tier 2: stacks at 997 Hz",
            "tier3" => "tier 3: a stack at every switch",
            "strace" => "`strace -c -f`, for comparison",
            other => other,
        };
        text.push_str(&format!("| {name} | {} | {} | {} |\n", cost.pairs, ratio(cost.cpu), ratio(cost.rate)));
    }
    text
}
