//! A planted server under load with something that watches it.

use std::fs;
use std::net::{Ipv4Addr, TcpListener, TcpStream};
use std::process::{Child, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use serde_json::Value;

use crate::shell::{command, root, run};

/// Length of a window in seconds.
pub(super) const WINDOW_S: u32 = 2;
/// Readings and attaching begin before the load and end after it, in seconds.
const MARGIN_S: f64 = 0.5;
/// Length of what an observer sees.
pub(super) const WATCHED_S: f64 = WINDOW_S as f64 + MARGIN_S;

/// One window.
pub(super) struct Window {
    pub(super) rate_per_s: f64,
    pub(super) cpu_ns_per_request: f64,
    /// What the observer printed.
    pub(super) observed: String,
}

/// Builds what every window needs.
pub(super) fn build() -> anyhow::Result<()> {
    run(&["cargo", "build", "--quiet", "--release", "--package", "whyslow"])?;
    run(&[
        "cargo",
        "build",
        "--quiet",
        "--release",
        "--package",
        "whyslow-observe",
        "--example",
        "observer",
    ])?;
    run(&[&release("whyslow"), "targets", "build", "planted"])
}

fn release(name: &str) -> String {
    let target = std::env::var("CARGO_TARGET_DIR").unwrap_or_else(|_| "target".to_owned());
    format!("{target}/release/{name}")
}

/// The planted server on the first CPU; generator and observer have the second, as in a comparison.
pub(super) struct Server {
    child: Child,
    port: u16,
}

impl Server {
    /// Starts it with this plant.
    pub(super) fn start(plant: &str) -> anyhow::Result<Self> {
        let port = TcpListener::bind((Ipv4Addr::LOCALHOST, 0))?.local_addr()?.port();
        let program = root().join("targets/.build/planted/plain/planted");
        let program = program.to_str().context("the workspace has a name that is not text")?;
        let child = command(&["taskset", "-c", "0", program, "--port", &port.to_string(), "--plant", plant])
            .stdout(Stdio::null())
            .spawn()
            .context("cannot start the server (taskset is in util-linux)")?;
        let server = Self { child, port };
        for _ in 0..100 {
            if TcpStream::connect((Ipv4Addr::LOCALHOST, port)).is_ok() {
                return Ok(server);
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        bail!("the server does not listen")
    }

    /// One window, watched in the way named or not at all.
    pub(super) fn window(&self, mode: Option<&str>) -> anyhow::Result<Window> {
        let observer = mode.map(|mode| self.observer(mode)).transpose()?;
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
        let output = command(&argv).output().context("cannot run whyslow load")?;
        let cpu_ns = self.cpu_ns()? - before_ns;
        let observed = observer.map(end).transpose()?.unwrap_or_default();
        let report: Value = serde_json::from_slice(&output.stdout).context("whyslow load printed no JSON")?;
        let requests = report["requests"].as_f64().context("a report has requests")?;
        let rate_per_s = report["rate_per_s"].as_f64().context("a report has a rate")?;
        Ok(Window { rate_per_s, cpu_ns_per_request: cpu_ns as f64 / requests, observed })
    }

    fn observer(&self, mode: &str) -> anyhow::Result<Child> {
        let (pid, seconds) = (self.child.id().to_string(), WATCHED_S.to_string());
        let example = release("examples/observer");
        let argv: Vec<&str> = match mode {
            "strace" => vec!["taskset", "-c", "1", "strace", "-c", "-f", "-p", &pid],
            mode => vec!["taskset", "-c", "1", &example, mode, &pid, &seconds],
        };
        command(&argv)
            .stdout(Stdio::piped())
            .stderr(Stdio::null())
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

/// What an observer printed. Ours end by themselves; strace watches until it is interrupted.
fn end(mut observer: Child) -> anyhow::Result<String> {
    for _ in 0..20 {
        if let Some(status) = observer.try_wait()? {
            if !status.success() {
                bail!("the observer failed: {status}");
            }
            return Ok(String::from_utf8(observer.wait_with_output()?.stdout)?);
        }
        std::thread::sleep(Duration::from_millis(100));
    }
    let interrupted = command(&["kill", "-INT", &observer.id().to_string()]).status()?;
    if !interrupted.success() {
        bail!("cannot interrupt the observer");
    }
    observer.wait()?;
    Ok(String::new())
}
