//! One generator, run once, and what it took.

use std::io::Read;
use std::process::{Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use model::record::LoadReport;

use super::super::whyslow;
use super::wire::{self, Wire};
use crate::shell::{exists, root};

/// Tools of the closed loop.
pub(super) const CLOSED: [Tool; 4] = [Tool::Whyslow, Tool::Wrk, Tool::H2load, Tool::Oha];
/// The generator with one request, and with several that are filled.
pub(super) const JOBS: [Tool; 2] = [Tool::Whyslow, Tool::Filled];
/// Tools that pipeline.
pub(super) const PIPELINED: [Tool; 2] = [Tool::Whyslow, Tool::Wrk];
/// Tools with a schedule that does not wait for answers, or nearly so.
pub(super) const OPEN: [Tool; 3] = [Tool::Whyslow, Tool::InLots, Tool::Oha];

/// Single requests, and users who have them as steps.
pub(super) const STEPS: [Tool; 2] = [Tool::Whyslow, Tool::Steps];

/// A list of several requests that nothing fills, a list of one, and no list.
pub(super) const LISTS: [Tool; 3] = [Tool::Several, Tool::One, Tool::Whyslow];

/// How often the memory of a running tool is read: its peak is kept by the kernel, so that only the last reading counts.
const LOOK: Duration = Duration::from_millis(100);
/// Clock ticks of `/proc/PID/stat` in a second. Source: `proc(5)`; USER_HZ is 100 on every Linux.
const TICKS_PER_S: f64 = 100.0;

/// Slack of [`Tool::InLots`]: the grain of the timers that oha (tokio) and wrk2 wait by.
const SLACK: &str = "1ms";

/// Requests of [`Tool::Filled`], each with a row of its own; the server answers one path alone, so that fields are filled.
const REQUESTS: &str = "\
### item\n# @weight 5\nGET /plaintext\nX-Id: {id}\n\n\
### user\n# @weight 4\nGET /plaintext\nX-User: {user}\n\n\
### order\n# @weight 3\nGET /plaintext\nX-Id: {id}\n\n\
### cart\n# @weight 2\nGET /plaintext\nX-User: {user}\n\n\
### plain\nGET /plaintext\nX-Id: 0\n";
/// Requests of [`Tool::Several`], whose paths differ by what the server does not look at.
const PATHS: &str = "\
### items\n# @weight 5\nGET /plaintext?items\n\n\
### users\n# @weight 4\nGET /plaintext?users\n\n\
### orders\n# @weight 3\nGET /plaintext?orders\n\n\
### carts\n# @weight 2\nGET /plaintext?carts\n\n\
### root\nGET /plaintext?root\n";
/// The request of [`Tool::One`].
const PATH: &str = "### items\nGET /plaintext?items\n";
/// What fills [`REQUESTS`].
const DATA: &str = "id,user\n17,ann\n4711,bob\n8,charlotte\n234567,dave\n";

/// A generator.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Tool {
    Whyslow,
    /// whyslow with [`REQUESTS`], filled from [`DATA`].
    Filled,
    /// whyslow where requests may wait for each other for [`SLACK`].
    InLots,
    /// whyslow with users of two steps, the second of which needs a value of the first one's answer.
    Steps,
    /// whyslow with the requests of [`PATHS`].
    Several,
    /// whyslow with a file of one request, [`PATH`].
    One,
    /// whyslow over another protocol.
    Over(Wire),
    Wrk,
    H2load,
    H2loadOver(Wire),
    Ghz,
    K6,
    Oha,
}

/// What it is asked for.
#[derive(Debug, Clone, Copy)]
pub(super) struct Load {
    pub(super) connections: u32,
    pub(super) pipeline: u32,
    /// Requests per second; a closed loop where there is none.
    pub(super) rate: Option<u32>,
    pub(super) seconds: u32,
}

impl Load {
    pub(super) fn closed(seconds: u32) -> Self {
        Self { connections: 64, pipeline: 1, rate: None, seconds }
    }
}

/// What one run took.
#[derive(Debug, Clone, Copy)]
pub(super) struct Ran {
    /// User and system time per request in microseconds.
    pub(super) cpu_us: f64,
    pub(super) per_s: f64,
    /// Largest resident set in MiB.
    pub(super) mib: f64,
    /// Send lag in microseconds, p50, p99, p99.9, where the tool knows it.
    pub(super) lag_us: [Option<f64>; 3],
    pub(super) rate_ratio: Option<f64>,
    /// Connections that were open when the window began, where the tool says.
    pub(super) established: Option<u64>,
}

impl Tool {
    pub(super) fn name(self) -> &'static str {
        match self {
            Self::Whyslow => "whyslow load",
            Self::Filled => "whyslow load --requests --data",
            Self::InLots => "whyslow load --slack 1ms",
            Self::Steps => "whyslow load --scenario",
            Self::Several => "whyslow load --requests, five paths",
            Self::One => "whyslow load --requests, one path",
            Self::Over(wire) => wire.name(),
            Self::Wrk => "wrk",
            Self::H2load | Self::H2loadOver(_) => "h2load",
            Self::Ghz => "ghz",
            Self::K6 => "k6",
            Self::Oha => "oha",
        }
    }

    pub(super) fn is_here(self) -> bool {
        match self {
            _ if self.is_ours() => true,
            // wrk has no option that only prints and succeeds; its version ends with 1.
            Self::Wrk => Command::new("wrk").arg("--version").output().is_ok(),
            _ => exists(self.name()),
        }
    }

    fn is_ours(self) -> bool {
        match self {
            Self::Whyslow | Self::Filled | Self::InLots | Self::Steps | Self::Several | Self::One => true,
            Self::Over(_) => true,
            Self::Wrk | Self::H2load | Self::H2loadOver(_) | Self::Ghz | Self::K6 | Self::Oha => false,
        }
    }

    /// Its name and version, in its own words.
    pub(super) fn version(self) -> String {
        let whyslow = whyslow::release().join("whyslow").to_string_lossy().into_owned();
        let program = if self.is_ours() { whyslow.as_str() } else { self.name() };
        let text = Command::new(program).arg("--version").output().map(|output| {
            let printed = if output.stdout.is_empty() { output.stderr } else { output.stdout };
            String::from_utf8_lossy(&printed).into_owned()
        });
        // "wrk debian/4.1.0-3+b2 [epoll] Copyright (C) 2012 Will Glozer"; "k6 v1.4.0 (go1.26.8, linux/amd64)"
        let text = text.unwrap_or_default();
        let first =
            text.lines().next().unwrap_or_default().split(['[', '(']).next().unwrap_or_default().trim();
        if first.is_empty() { format!("{} ?", self.name()) } else { first.to_owned() }
    }

    /// The command line, pinned to `cpus`.
    fn words(self, load: &Load, address: &str, cpus: &str) -> anyhow::Result<Vec<String>> {
        let Load { connections, pipeline, rate, seconds } = load;
        let url = format!("http://{address}/plaintext");
        let line = match self {
            Self::Wrk if *pipeline > 1 => {
                format!("wrk -t 1 -c {connections} -d {seconds}s -s {} {url}", script(*pipeline)?)
            }
            Self::Wrk => format!("wrk -t 1 -c {connections} -d {seconds}s {url}"),
            Self::H2load => format!("h2load --h1 -t 1 -c {connections} -D {seconds} {url}"),
            Self::H2loadOver(wire) => wire.of_h2load(load, address),
            Self::Ghz => wire::ghz(load, address)?,
            Self::K6 => wire::k6(load, address)?,
            Self::Oha => {
                let rate = rate.map_or_else(String::new, |rate| format!("-q {rate}"));
                format!("oha --no-tui --output-format json -c {connections} {rate} -z {seconds}s {url}")
            }
            ours => ours.own_line(load, address)?,
        };
        let words = ["taskset", "-c", cpus].into_iter().chain(line.split_whitespace());
        Ok(words.map(str::to_owned).collect())
    }

    /// The same of whyslow.
    fn own_line(self, load: &Load, address: &str) -> anyhow::Result<String> {
        let Load { connections, pipeline, rate, seconds } = load;
        let program = whyslow::release().join("whyslow");
        let rate = rate.map_or_else(String::new, |rate| format!("-R {rate}"));
        let flags = match self {
            Self::Over(wire) => wire.flags(*pipeline, address)?,
            _ => format!("--pipeline {pipeline} {} http://{address}/plaintext", self.own_flags()?),
        };
        Ok(format!(
            "{} load -t 1 -c {connections} {rate} -d {seconds}s --format json {flags}",
            program.display()
        ))
    }

    /// What of its flags is not about the load.
    fn own_flags(self) -> anyhow::Result<String> {
        Ok(match self {
            Self::Filled => filled()?,
            Self::InLots => format!("--slack {SLACK}"),
            Self::Steps => format!("--scenario {}", scenario()?),
            Self::Several => format!("--requests {}", written("paths.http", PATHS)?),
            Self::One => format!("--requests {}", written("path.http", PATH)?),
            _ => String::new(),
        })
    }

    /// Runs it once.
    pub(super) fn run(self, load: &Load, address: &str, cpus: &str) -> anyhow::Result<Ran> {
        self.run_watched(load, address, cpus, LOOK, &mut |_| {})
    }

    /// Runs it once, and calls `look` with its process every so often.
    pub(super) fn run_watched(
        self,
        load: &Load,
        address: &str,
        cpus: &str,
        every: Duration,
        look: &mut dyn FnMut(u32),
    ) -> anyhow::Result<Ran> {
        let words = self.words(load, address, cpus)?;
        let before = children_cpu_s()?;
        let (text, mib) = finish(&words, every, look)?;
        let cpu_s = children_cpu_s()? - before;
        let requests = self.requests(&text).with_context(|| format!("{} printed no count", self.name()))?;
        let report: Option<LoadReport> = self.is_ours().then(|| serde_json::from_str(&text)).transpose()?;
        let us = |ns: Option<u64>| ns.map(|ns| ns as f64 / 1e3);
        Ok(Ran {
            cpu_us: cpu_s * 1e6 / requests,
            per_s: requests / f64::from(load.seconds),
            mib,
            lag_us: report.as_ref().map_or([None; 3], |report| {
                let lag = &report.send_lag_ns;
                [us(lag.p50), us(lag.p99), us(lag.p99_9)]
            }),
            rate_ratio: report.as_ref().and_then(|report| report.rate_ratio),
            established: report.map(|report| report.connections.established),
        })
    }

    /// Requests completed, as the tool itself counts them.
    fn requests(self, text: &str) -> Option<f64> {
        let json = || serde_json::from_str::<serde_json::Value>(text).ok();
        match self {
            _ if self.is_ours() => json()?["requests"].as_f64(),
            // "1234567 requests in 6.00s, 155.42MB read"
            Self::Wrk => text.split_once(" requests in ")?.0.split_whitespace().last()?.parse().ok(),
            // "requests: 1234567 total, …, 1234560 succeeded, …"
            Self::H2load | Self::H2loadOver(_) => {
                text.split_once(" succeeded")?.0.split_whitespace().last()?.parse().ok()
            }
            Self::Ghz => json()?["statusCodeDistribution"]["OK"].as_f64(),
            // Its summary is one number, as its script says.
            Self::K6 => text.trim().parse().ok(),
            _ => {
                let counts = &json()?["statusCodeDistribution"];
                Some(counts.as_object()?.values().filter_map(serde_json::Value::as_f64).sum())
            }
        }
    }
}

/// wrk pipelines by a script only.
fn script(pipeline: u32) -> anyhow::Result<String> {
    let text = format!(
        "init = function()\n  local all = {{}}\n  for i = 1, {pipeline} do all[i] = wrk.format() end\n  \
         batch = table.concat(all)\nend\nrequest = function() return batch end\n"
    );
    written("pipeline.lua", &text)
}

/// The flags of [`Tool::Filled`].
fn filled() -> anyhow::Result<String> {
    Ok(format!("--requests {} --data {}", written("requests.http", REQUESTS)?, written("data.csv", DATA)?))
}

/// Two steps of a user.
fn scenario() -> anyhow::Result<String> {
    let text = "[[step]]\nname = 'first'\nrequest = 'GET /plaintext'\ntake.who = { after = 'Hello, ', before = '!' }\n\n\
                [[step]]\nname = 'second'\nrequest = 'GET /plaintext'\nheaders = { X-Who = '{who}' }\n";
    written("steps.toml", text)
}

/// Writes a file for a generator and says where.
pub(super) fn written(name: &str, text: &str) -> anyhow::Result<String> {
    let file = root().join("target/bench/load").join(name);
    std::fs::create_dir_all(file.parent().expect("it lies in a folder"))
        .and_then(|()| std::fs::write(&file, text))
        .with_context(|| format!("cannot write {name}"))?;
    Ok(file.to_string_lossy().into_owned())
}

/// Runs `words` to their end: what they print, and the largest resident set on the way in MiB.
fn finish(words: &[String], every: Duration, look: &mut dyn FnMut(u32)) -> anyhow::Result<(String, f64)> {
    let mut child = Command::new(&words[0])
        .args(&words[1..])
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .with_context(|| format!("cannot run {}", words.join(" ")))?;
    // An hour second by second is more than a pipe holds, and who is not read does not end.
    let mut stdout = child.stdout.take().context("its output is piped")?;
    let reader = std::thread::spawn(move || {
        let mut text = String::new();
        stdout.read_to_string(&mut text).map(|_| text)
    });
    let mut peak_kib = 0;
    let status = loop {
        if let Some(status) = child.try_wait()? {
            break status;
        }
        peak_kib = peak_kib.max(kib_of(child.id(), "VmHWM:"));
        look(child.id());
        std::thread::sleep(every);
    };
    let text = reader.join().expect("reading does not panic")?;
    if !status.success() {
        bail!("{} failed: {status}", words.join(" "));
    }
    Ok((text, peak_kib as f64 / 1024.0))
}

/// A line of a process' status. Source: `proc_pid_status(5)`, `VmHWM`, `VmRSS`.
pub(super) fn kib_of(pid: u32, name: &str) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0)
}

/// User and system time of all children that ended, in seconds. Source: `proc_pid_stat(5)`, `cutime` and `cstime`.
fn children_cpu_s() -> anyhow::Result<f64> {
    let stat = std::fs::read_to_string("/proc/self/stat").context("cannot read /proc/self/stat")?;
    let (_, rest) = stat.rsplit_once(')').context("/proc/self/stat has no name")?;
    let fields: Vec<&str> = rest.split_whitespace().collect();
    let ticks = |index: usize| fields.get(index).and_then(|field| field.parse::<f64>().ok());
    // Behind the name comes field 3; cutime is field 16, cstime 17.
    let (user, system) = ticks(13).zip(ticks(14)).context("/proc/self/stat is short")?;
    Ok((user + system) / TICKS_PER_S)
}
