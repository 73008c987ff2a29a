//! One server, started for a row that `whyslow compare` has no schedule for.

use std::net::{SocketAddr, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use model::plan::{Placeholders, TargetFile, fill};
use observe::{Awake, Group};
use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::awake;
use crate::shell::root;

/// Longest wait for a server to listen, or to end.
const PATIENCE: Duration = Duration::from_secs(10);

/// The CPUs of servers and of clients: each half of what this process may use.
pub(crate) struct Cpus {
    /// As a list, for `taskset` and `whyslow`.
    pub(crate) server: String,
    pub(crate) load: String,
    load_set: CpuSet,
}

impl Cpus {
    pub(crate) fn halves() -> anyhow::Result<Self> {
        let allowed = sched_getaffinity(None).context("cannot read the CPUs of this process")?;
        let all: Vec<usize> = (0..CpuSet::MAX_CPU).filter(|&cpu| allowed.is_set(cpu)).collect();
        // Servers have one CPU, whatever there is: that is what is compared.
        let (server, load) = all.split_first().context("there is no CPU")?;
        if load.is_empty() {
            bail!("a server and its load need a CPU each");
        }
        let mut load_set = CpuSet::new();
        load.iter().for_each(|&cpu| load_set.set(cpu));
        let list = load.iter().map(usize::to_string).collect::<Vec<_>>().join(",");
        Ok(Self { server: server.to_string(), load: list, load_set })
    }

    /// Two CPUs that a server of two shards and its clients share: there are seldom as many as each would need for itself.
    pub(crate) fn shared_by_two() -> anyhow::Result<Self> {
        let halves = Self::halves()?;
        let second = halves.load.split(',').next().unwrap_or_default();
        let both = format!("{},{second}", halves.server);
        let mut load_set = CpuSet::new();
        both.split(',').filter_map(|cpu| cpu.parse().ok()).for_each(|cpu| load_set.set(cpu));
        Ok(Self { server: both.clone(), load: both, load_set })
    }

    /// Runs `work` on a thread on the clients' CPUs.
    pub(crate) fn on_load<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let pinned = || {
            // Without it the figures are worse, not wrong.
            sched_setaffinity(None, &self.load_set).ok();
            work()
        };
        std::thread::scope(|scope| scope.spawn(pinned).join().expect("the work does not panic"))
    }
}

/// A running server, ended when dropped.
pub(crate) struct Server {
    child: Child,
    /// A virtual CPU that idled may go on elsewhere, at another price. Where `whyslow compare` measures, it sees to this.
    awake: Option<Awake>,
    pub(crate) address: SocketAddr,
}

impl Server {
    /// Starts a target of `targets/` by its name, with or without a variant, on `cpus`.
    pub(crate) fn of_target(name: &str, cpus: &Cpus) -> anyhow::Result<Self> {
        let (folder, variant) = name.split_once('@').map_or((name, None), |(name, v)| (name, Some(v)));
        let targets = root().join("targets");
        let (dir, builds) = (targets.join(folder), targets.join(".build"));
        let text = std::fs::read_to_string(dir.join("target.toml"))
            .with_context(|| format!("there is no target {folder}"))?;
        let file: TargetFile = toml::from_str(&text).with_context(|| format!("{folder}/target.toml"))?;
        let arm = file.arm(variant, &dir.to_string_lossy(), &builds.to_string_lossy())?;
        let build = arm.build_dir.clone().unwrap_or_default();
        std::fs::create_dir_all(&build).with_context(|| format!("cannot make {build}"))?;
        let port = free_port()?;
        let dir = dir.to_string_lossy().into_owned();
        let values = Placeholders {
            port,
            host: "127.0.0.1".into(),
            workers: 1,
            dir,
            build,
            ..Placeholders::default()
        };
        let words: Vec<String> = arm.run.iter().map(|word| fill(word, &values)).collect();
        Self::start(&words, port, cpus)
    }

    /// Starts the planted server with so much of a plant.
    pub(crate) fn planted(plant: &str, amount: u32, cpus: &Cpus) -> anyhow::Result<Self> {
        let port = free_port()?;
        let program = root().join("targets/.build/planted/plain/planted").to_string_lossy().into_owned();
        let line = format!("--host 127.0.0.1 --port {port} --plant {plant} --amount {amount}");
        let words: Vec<String> = std::iter::once(program).chain(line.split(' ').map(str::to_owned)).collect();
        Self::start(&words, port, cpus)
    }

    /// Starts one of whyslow's built-in models with one worker.
    pub(crate) fn built_in(model: &str, cpus: &Cpus) -> anyhow::Result<Self> {
        let port = free_port()?;
        let program = super::whyslow::release().join("whyslow").to_string_lossy().into_owned();
        let line = format!("serve --model {model} --port {port} --workers 1");
        let words: Vec<String> = std::iter::once(program).chain(line.split(' ').map(str::to_owned)).collect();
        Self::start(&words, port, cpus)
    }

    /// Starts straightline's example `measured`, with coroutines or with threads.
    pub(crate) fn measured(threads: bool, cpus: &Cpus) -> anyhow::Result<Self> {
        let model: &[&str] = if threads { &["threads"] } else { &[] };
        Self::measured_with(1, model, cpus)
    }

    /// The same with so many shards, each with a CPU of its own if `cpus` has as many for servers.
    pub(crate) fn measured_on_shards(shards: usize, cpus: &Cpus) -> anyhow::Result<Self> {
        Self::measured_with(shards, &[], cpus)
    }

    fn measured_with(shards: usize, model: &[&str], cpus: &Cpus) -> anyhow::Result<Self> {
        let port = free_port()?;
        let program = super::whyslow::release().join("examples/measured").to_string_lossy().into_owned();
        let mut words = vec![program, format!("127.0.0.1:{port}"), shards.to_string()];
        words.extend(model.iter().map(|word| (*word).to_owned()));
        Self::start(&words, port, cpus)
    }

    /// Starts `words`, which listen on `port`, and ends them should this process end.
    pub(crate) fn start(words: &[String], port: u16, cpus: &Cpus) -> anyhow::Result<Self> {
        let child = Command::new("setpriv")
            .args(["--pdeathsig", "TERM", "taskset", "-c", &cpus.server])
            .args(words)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .spawn()
            .with_context(|| format!("cannot start {}", words.join(" ")))?;
        let address = SocketAddr::from(([127, 0, 0, 1], port));
        let mut server = Self { child, awake: None, address };
        server.keep_cpus_awake(cpus)?;
        let begin = Instant::now();
        while TcpStream::connect(server.address).is_err() {
            if begin.elapsed() > PATIENCE || server.child.try_wait()?.is_some() {
                bail!("{} does not listen", words.join(" "));
            }
            std::thread::sleep(Duration::from_millis(5));
        }
        Ok(server)
    }

    /// Where no CPU time is measured: what keeps a CPU awake takes half of it from whoever has a session of its own.
    pub(crate) fn let_cpus_idle(&mut self) {
        self.awake = None;
    }

    /// As it was from the start.
    pub(crate) fn keep_cpus_awake(&mut self, cpus: &Cpus) -> anyhow::Result<()> {
        self.awake = awake::keep(&format!("{},{}", cpus.server, cpus.load))?;
        Ok(())
    }

    /// All of its processes.
    pub(crate) fn group(&self) -> anyhow::Result<Group> {
        Group::from_pid(self.child.id()).context("the server is gone")
    }

    /// Memory of its own in all of its processes, in bytes: neither files nor what the kernel keeps for it.
    pub(crate) fn own_bytes(&self) -> u64 {
        own_bytes(self.child.id())
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if let Some(pid) = Pid::from_raw(self.child.id().cast_signed()) {
            kill_process(pid, Signal::TERM).ok();
        }
        let begin = Instant::now();
        while begin.elapsed() < PATIENCE && matches!(self.child.try_wait(), Ok(None)) {
            std::thread::sleep(Duration::from_millis(5));
        }
        self.child.kill().ok();
        self.child.wait().ok();
    }
}

/// A port that is free now.
fn free_port() -> anyhow::Result<u16> {
    let listener = TcpListener::bind("127.0.0.1:0").context("there is no free port")?;
    Ok(listener.local_addr()?.port())
}

/// Source: `proc_pid_status(5)`, `RssAnon`; `proc_tid_children(5)`.
fn own_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap_or_default();
    let line = status.lines().find_map(|line| line.strip_prefix("RssAnon:"));
    let kib: u64 = line.and_then(|line| line.split_whitespace().next()?.parse().ok()).unwrap_or(0);
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children")).unwrap_or_default();
    let children = children.split_whitespace().filter_map(|child| child.parse().ok());
    kib * 1024 + children.map(own_bytes).sum::<u64>()
}
