//! Services beside the arms, such as a database: started before them, stopped after them, and watched apart.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use launch::{LaunchError, Process, Spec, free_port, log_tail};
use model::plan::{Each, Placeholders, Service, ServicePlace, SplitMix64, fill};
use observe::Group;

use super::Early;
use super::server::Bench;

/// Between two looks at whether a service is ready.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of its log that go with a failure.
const LOG_LINES: usize = 10;

/// The services of a run; none before they are first wanted.
#[derive(Default)]
pub(super) struct Services {
    running: RefCell<Vec<Beside>>,
    /// Starts so far: each has a port and a folder of its own.
    starts: Cell<u64>,
}

/// A service at work.
struct Beside {
    place: ServicePlace,
    each: Each,
    group: Group,
    process: Option<Process>,
}

impl Drop for Beside {
    fn drop(&mut self) {
        if let Some(process) = self.process.take() {
            let _ = process.stop();
        }
        // Its data were for this run only.
        let _ = std::fs::remove_dir_all(&self.place.dir);
    }
}

impl Services {
    /// Has all services of the plan running, those of a block anew.
    pub(super) fn begin_block(&self, bench: &Bench) -> Result<(), Early> {
        self.running.borrow_mut().retain(|beside| beside.each == Each::Run);
        for service in &bench.plan.services {
            self.check()?;
            if !self.running.borrow().iter().any(|beside| beside.place.name == service.name) {
                let beside = self.start(bench, service)?;
                self.running.borrow_mut().push(beside);
            }
        }
        Ok(())
    }

    /// A service that ended by itself ends the run.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        for beside in self.running.borrow_mut().iter_mut() {
            if let Some(process) = &mut beside.process
                && let Some(exit) = process.try_exit()
            {
                return Err(anyhow!("service '{}' {exit}{}", beside.place.name, tail(process)));
            }
        }
        Ok(())
    }

    /// Where they are.
    pub(super) fn places(&self) -> Vec<ServicePlace> {
        self.running.borrow().iter().map(|beside| beside.place.clone()).collect()
    }

    /// Their processes, by name.
    pub(super) fn groups(&self) -> Vec<(String, Group)> {
        let running = self.running.borrow();
        running.iter().map(|beside| (beside.place.name.clone(), beside.group.clone())).collect()
    }

    fn start(&self, bench: &Bench, service: &Service) -> Result<Beside, Early> {
        let number = self.starts.replace(self.starts.get() + 1);
        let port = SplitMix64::fork(bench.plan.seed, "service", number).next_u64();
        let dir = bench.dir.path().join("services").join(format!("{}-{number}", service.name));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = std::path::absolute(&dir).context("cannot resolve the run directory")?;
        let place = ServicePlace {
            name: service.name.clone(),
            port: free_port(port).map_err(anyhow::Error::new)?,
            dir: dir.to_str().context("the run directory has a name that is not text")?.to_owned(),
        };
        let asked = Asked { bench, service, values: self.values(bench, &place) };
        let process =
            bench.launcher.start(&asked.spec(&service.run)).map_err(|error| asked.failed(&error))?;
        let group = Group::below(process.supervisor_pid())?;
        let mut beside = Beside { place, each: service.each, group, process: Some(process) };
        asked.wait_ready(beside.process.as_mut().expect("it was just started"), beside.place.port)?;
        if let Some(line) = &service.setup {
            let setup = asked.shell(line);
            bench.launcher.finish("setup", &setup).map_err(|error| asked.failed(&error))?;
        }
        Ok(beside)
    }

    fn values(&self, bench: &Bench, place: &ServicePlace) -> Placeholders {
        Placeholders {
            port: place.port,
            host: Ipv4Addr::LOCALHOST.to_string(),
            workers: bench.plan.placement.server.len() as u32,
            dir: place.dir.clone(),
            build: String::new(),
            services: self.places(),
        }
    }
}

/// A service that is being started.
struct Asked<'a> {
    bench: &'a Bench<'a>,
    service: &'a Service,
    values: Placeholders,
}

impl Asked<'_> {
    fn spec(&self, words: &[String]) -> Spec {
        Spec {
            argv: words.iter().map(|word| fill(word, &self.values)).collect(),
            dir: Some(PathBuf::from(&self.service.folder)),
            cpus: Some(self.bench.plan.placement.server.clone()),
            log: self.bench.dir.path().join("logs").join(format!("service-{}.log", self.service.name)),
            ..Spec::default()
        }
    }

    fn shell(&self, line: &str) -> Spec {
        self.spec(&["sh", "-c", line].map(str::to_owned))
    }

    fn failed(&self, error: &LaunchError) -> Early {
        if matches!(error, LaunchError::Interrupted) {
            return Early::Interrupted;
        }
        let log = error.failure().log.join(" / ");
        let tail = if log.is_empty() { log } else { format!("; its log ends: {log}") };
        Early::Broken(anyhow!("service '{}': {error}{tail}", self.service.name))
    }

    /// Waits until it is ready, or ends, or has had its time.
    fn wait_ready(&self, process: &mut Process, port: u16) -> Result<(), Early> {
        let limit = self.bench.plan.timing.ready_limit.0;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(exit) = process.try_exit() {
                let what =
                    format!("service '{}' {exit} before it was ready{}", self.service.name, tail(process));
                return Err(Early::Broken(anyhow!(what)));
            }
            if self.bench.interrupt.is_set() {
                return Err(Early::Interrupted);
            }
            if self.is_ready(port) {
                return Ok(());
            }
            if Instant::now() >= deadline {
                let waited = limit.as_secs_f64();
                let what = format!("service '{}' was not ready within {waited:.1} s", self.service.name);
                return Err(Early::Broken(anyhow!("{what}{}", tail(process))));
            }
            std::thread::sleep(LOOK);
        }
    }

    fn is_ready(&self, port: u16) -> bool {
        match &self.service.ready {
            Some(line) => self.bench.launcher.finish("ready", &self.shell(line)).is_ok(),
            None => TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), LOOK).is_ok(),
        }
    }
}

/// The end of a service's log, to follow a sentence on it.
fn tail(process: &Process) -> String {
    let lines = log_tail(process.log(), LOG_LINES);
    if lines.is_empty() { String::new() } else { format!("; its log ends: {}", lines.join(" / ")) }
}
