//! Services beside the arms, such as a database: started before them, stopped after them, and watched apart.

use std::cell::{Cell, RefCell};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use anyhow::{Context, anyhow};
use launch::{LaunchError, Launcher, Process, Spec, free_port, log_tail};
use model::plan::{Arm, Each, Placeholders, Placement, Service, ServicePlace, SplitMix64, fill};
use observe::Group;

use super::Early;

/// Between two looks at whether a service is ready.
const LOOK: Duration = Duration::from_millis(50);
/// Lines of its log that go with a failure.
const LOG_LINES: usize = 10;

/// What services are started with.
pub(crate) struct Around<'a> {
    pub(crate) launcher: &'a Launcher,
    pub(crate) services: &'a [Service],
    pub(crate) placement: &'a Placement,
    /// What their ports come from.
    pub(crate) seed: u64,
    pub(crate) ready_limit: Duration,
    /// Where their folders and their logs are.
    pub(crate) folder: &'a Path,
    pub(crate) interrupt: &'a AtomicBool,
}

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
    /// Has all services running, those of a block anew.
    pub(super) fn begin_block(&self, around: &Around) -> Result<(), Early> {
        self.running.borrow_mut().retain(|beside| beside.each == Each::Run);
        for service in around.services {
            self.check()?;
            if !self.running.borrow().iter().any(|beside| beside.place.name == service.name) {
                let beside = self.start(around, service)?;
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

    fn start(&self, around: &Around, service: &Service) -> Result<Beside, Early> {
        let number = self.starts.replace(self.starts.get() + 1);
        let seed = SplitMix64::fork(around.seed, "service", number).next_u64();
        let port = free_port(seed).map_err(anyhow::Error::new)?;
        let dir = around.folder.join("services").join(format!("{}-{number}", service.name));
        std::fs::create_dir_all(&dir).with_context(|| format!("cannot make {}", dir.display()))?;
        let dir = std::path::absolute(&dir).context("cannot resolve the run directory")?;
        let place = ServicePlace {
            name: service.name.clone(),
            port: port.number(),
            dir: dir.to_str().context("the run directory has a name that is not text")?.to_owned(),
        };
        let starting = Starting { around, service, values: self.values(around, &place) };
        let process =
            around.launcher.start(&starting.spec(&service.run)).map_err(|error| starting.failed(&error))?;
        let group = Group::below(process.supervisor_pid())?;
        let mut beside = Beside { place, each: service.each, group, process: Some(process) };
        starting.wait_ready(beside.process.as_mut().expect("it was just started"), beside.place.port)?;
        if let Some(line) = &service.setup {
            let setup = starting.shell(line);
            around.launcher.finish("setup", &setup).map_err(|error| starting.failed(&error))?;
        }
        Ok(beside)
    }

    fn values(&self, around: &Around, place: &ServicePlace) -> Placeholders {
        Placeholders {
            port: place.port,
            host: Ipv4Addr::LOCALHOST.to_string(),
            workers: around.placement.server.len() as u32,
            dir: place.dir.clone(),
            build: String::new(),
            services: self.places(),
        }
    }
}

/// Services of servers that are started one after another to be looked at. Those of one go on where the next needs the same.
pub(crate) struct InTurn {
    services: Services,
    wanted: Vec<Service>,
    folder: PathBuf,
}

impl InTurn {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU64 = AtomicU64::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let folder = std::env::temp_dir().join(format!("whyslow-services-{}-{number}", std::process::id()));
        Self { services: Services::default(), wanted: Vec::new(), folder }
    }

    /// Where the services of `arm` are, which run from now on.
    pub(crate) fn places(
        &mut self,
        arm: &Arm,
        launcher: &Launcher,
        placement: &Placement,
        ready_limit: Duration,
    ) -> anyhow::Result<Vec<ServicePlace>> {
        if self.wanted != arm.services {
            self.services.running.borrow_mut().clear();
            self.wanted.clone_from(&arm.services);
        }
        if self.wanted.is_empty() {
            return Ok(Vec::new());
        }
        let logs = self.folder.join("logs");
        std::fs::create_dir_all(&logs).with_context(|| format!("cannot make {}", logs.display()))?;
        let around = Around {
            launcher,
            services: &self.wanted,
            placement,
            // Any port will do: nothing is measured.
            seed: u64::from(std::process::id()),
            ready_limit,
            folder: &self.folder,
            interrupt: &AtomicBool::new(false),
        };
        match self.services.begin_block(&around) {
            Ok(()) => Ok(self.services.places()),
            Err(Early::Broken(error)) => Err(error),
            Err(Early::Arm(_, failure)) => Err(anyhow!(failure.text)),
            Err(Early::Interrupted) => Err(anyhow!("interrupted")),
        }
    }
}

impl Drop for InTurn {
    fn drop(&mut self) {
        self.services.running.borrow_mut().clear();
        // Logs, which were for the text of a failure only.
        let _ = std::fs::remove_dir_all(&self.folder);
    }
}

/// A service that is being started.
struct Starting<'a> {
    around: &'a Around<'a>,
    service: &'a Service,
    values: Placeholders,
}

impl Starting<'_> {
    fn spec(&self, words: &[String]) -> Spec {
        Spec {
            argv: words.iter().map(|word| fill(word, &self.values)).collect(),
            dir: Some(PathBuf::from(&self.service.folder)),
            cpus: Some(self.around.placement.server.clone()),
            log: self.around.folder.join("logs").join(format!("service-{}.log", self.service.name)),
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
        let limit = self.around.ready_limit;
        let deadline = Instant::now() + limit;
        loop {
            if let Some(exit) = process.try_exit() {
                let what =
                    format!("service '{}' {exit} before it was ready{}", self.service.name, tail(process));
                return Err(Early::Broken(anyhow!(what)));
            }
            if self.around.interrupt.load(Ordering::Relaxed) || process.is_unwanted() {
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
            Some(line) => self.around.launcher.finish("ready", &self.shell(line)).is_ok(),
            None => TcpStream::connect_timeout(&SocketAddr::from((Ipv4Addr::LOCALHOST, port)), LOOK).is_ok(),
        }
    }
}

/// The end of a service's log, to follow a sentence on it.
fn tail(process: &Process) -> String {
    let lines = log_tail(process.log(), LOG_LINES);
    if lines.is_empty() { String::new() } else { format!("; its log ends: {}", lines.join(" / ")) }
}
