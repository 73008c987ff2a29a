//! Another machine: `whyslow agent` there, reached by the system's ssh, does what this process would do here
//! ([why](../../../../docs/decisions/0063-another-machine-by-ssh.md)).

pub(crate) mod agent;
mod arrival;
pub(super) mod clock;
pub(crate) mod fleet;
mod window;
mod words;

use std::fs::File;
use std::io::{BufRead, BufReader, ErrorKind, Write};
use std::net::{IpAddr, Ipv4Addr, Shutdown, SocketAddr};
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::mpsc::{RecvTimeoutError, Sender, channel};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use anyhow::{Context, bail};
use launch::{Launcher, Process, Spec, log_tail};
use model::plan::{Engine, Machine, Machines, Placement, Plan};
use model::record::Link;
use model::units::CpuSet;

pub(super) use words::{Command, Event, Hello};

use super::{Early, contained, planning, several};
use crate::cli::CompareArgs;
use crate::interrupt::{Interrupt, Waited};

/// How often an agent is told that we are there.
const ALIVE_EVERY: Duration = Duration::from_secs(10);
/// Lines of what ssh wrote that are searched for a reason.
const LOG_LINES: usize = 20;
/// Lines that a login shell may say before the script does.
const MOST_GREETINGS: usize = 1000;
/// How long a machine may say nothing until its agent is there: ssh itself waits 10 s for a connection, and what was sent last may be
/// on its way for some seconds.
const FIRST_WORD: Duration = Duration::from_secs(60);
/// How long ssh may take to say why it ends, and an agent to end all that it started.
const LAST_WORDS: Duration = Duration::from_secs(10);

/// Where servers and the generator run, where that is not here.
#[derive(Default)]
pub(super) struct Elsewhere {
    pub(super) server: Option<Arc<Remote>>,
    /// The machines of the generators.
    pub(super) load: Vec<Arc<Remote>>,
    /// CPUs that were asked for on each of them.
    load_cpus: Option<CpuSet>,
    /// The address at which servers are asked, where that is no loopback.
    host: Option<IpAddr>,
}

impl Elsewhere {
    /// Connects to the machines that the flags name.
    pub(super) fn connect(args: &CompareArgs) -> anyhow::Result<Self> {
        let server = args.on.as_ref().map(Remote::connect).transpose()?.map(Arc::new);
        let load: Vec<_> = Remote::connect_all(&args.load_on)?.into_iter().map(Arc::new).collect();
        let reached = |remote: &Arc<Remote>, end: usize| remote.hello.ends.map(|ends| ends[end]);
        let host = args.server_address.or_else(|| match (&server, load.first()) {
            (Some(server), _) => reached(server, 1),
            (None, Some(load)) => reached(load, 0),
            (None, None) => None,
        });
        if host.is_none() && args.is_elsewhere() {
            bail!(
                "ssh does not tell at which address the servers' machine is reached: give it with --server-address"
            );
        }
        Ok(Self { server, load, load_cpus: args.load_cpus.clone(), host })
    }

    /// The address at which servers are asked.
    pub(super) fn host(&self) -> IpAddr {
        self.host.unwrap_or(Ipv4Addr::LOCALHOST.into())
    }

    /// The machines of the generators, each with its CPUs; `first` are those of the first.
    pub(super) fn generators(&self, first: &CpuSet) -> Vec<(Arc<Remote>, CpuSet)> {
        let with_cpus = |(index, remote): (usize, &Arc<Remote>)| {
            let own = if index == 0 { first } else { &remote.hello.cpus };
            (Arc::clone(remote), self.load_cpus.as_ref().unwrap_or(own).clone())
        };
        self.load.iter().enumerate().map(with_cpus).collect()
    }

    /// The link between the machines, measured before anything else goes over it: by all generators at the same time, as they will
    /// use it.
    pub(super) fn link(&self) -> Result<Link, Early> {
        if self.load.is_empty() {
            return Ok(measure(self.listen()?)?);
        }
        let places = self.load.iter().map(|_| self.listen()).collect::<Result<Vec<_>, _>>()?;
        let links = several::each(self.load.iter().zip(places), |(remote, place)| {
            match remote.ask(&Command::Measure { place })? {
                Event::Link(link) => Ok(link),
                other => Err(remote.unexpected(&other)),
            }
        })?;
        let round_trip_ns = links.iter().map(|link| link.round_trip_ns).max().unwrap_or(0);
        Ok(Link { round_trip_ns, bytes_per_s: links.iter().map(|link| link.bytes_per_s).sum() })
    }

    /// Listens once where servers will.
    fn listen(&self) -> Result<SocketAddr, Early> {
        match &self.server {
            None => Ok(listen(self.host())?),
            Some(remote) => match remote.ask(&Command::Listen)? {
                Event::Listening(place) => Ok(place),
                other => Err(remote.unexpected(&other)),
            },
        }
    }

    /// The place of a server with this port.
    pub(super) fn address(&self, port: u16) -> SocketAddr {
        (self.host(), port).into()
    }

    /// Who runs where, of the CPUs that may be used there.
    pub(super) fn placement(&self, args: &CompareArgs) -> anyhow::Result<Placement> {
        let here = super::allowed_cpus()?;
        let allowed = |remote: Option<&Arc<Remote>>| {
            remote.map_or_else(|| here.clone(), |remote| remote.hello.cpus.clone())
        };
        // What is asked for must be there on each of them.
        let for_all = self.load.iter().map(|remote| remote.hello.cpus.clone());
        let on_generators = match args.load_cpus {
            Some(_) => {
                for_all.reduce(|some, other| some.intersection(&other)).unwrap_or_else(|| here.clone())
            }
            None => allowed(self.load.first()),
        };
        let mut load_on = args.load_on.iter().cloned();
        let machines =
            Machines { server: args.on.clone(), load: load_on.next(), more_load: load_on.collect() };
        let (server, load) = (args.server_cpus.as_ref(), args.load_cpus.as_ref());
        Ok(Placement::apart([&allowed(self.server.as_ref()), &on_generators], server, load, machines)?)
    }

    /// An error where a connection has ended: what else goes wrong then is its consequence.
    pub(super) fn check(&self) -> anyhow::Result<()> {
        self.server.iter().chain(&self.load).try_for_each(|remote| remote.check())
    }

    /// Tells the agents what is run from now on.
    pub(super) fn begin(&self, plan: &Plan) -> Result<(), Early> {
        for remote in self.server.iter().chain(&self.load) {
            let command = Command::Plan { plan: Box::new(plan.clone()), host: self.host() };
            remote.done(&command)?;
        }
        Ok(())
    }
}

/// Listens where servers will.
fn listen(host: IpAddr) -> anyhow::Result<SocketAddr> {
    observe::listen_for_link(host).with_context(|| {
        format!("servers cannot listen on {host}: --server-address takes an address of their machine")
    })
}

/// Measures the link to where servers will listen.
fn measure(place: SocketAddr) -> anyhow::Result<Link> {
    observe::measure_link(place).with_context(|| {
        format!(
            "the generator does not reach {place}: let firewalls pass ports of the servers' machine, or give another of its \
             addresses with --server-address"
        )
    })
}

/// Refuses machines of generators that are named twice, or that are too many for the connections.
pub(crate) fn check_generators(machines: &[Machine], connections: u32) -> anyhow::Result<()> {
    let twice = |(index, machine): &(usize, &Machine)| machines[..*index].contains(machine);
    if let Some((_, machine)) = machines.iter().enumerate().find(twice) {
        bail!("--load-on names {machine} twice: name each machine once");
    }
    if (connections as usize) < machines.len() {
        bail!(
            "--connections {connections} are fewer than the {} machines of --load-on: give at least one to each",
            machines.len()
        );
    }
    Ok(())
}

/// Refuses what is not done on other machines, and what is wrong with the flags, before any of them is reached.
pub(super) fn refuse(args: &CompareArgs) -> anyhow::Result<()> {
    if args.on.as_ref().is_some_and(|on| args.load_on.contains(on)) {
        bail!("--on and --load-on name the same machine: start whyslow there, without either");
    }
    check_generators(&args.load_on, args.connections.unwrap_or(u32::MAX))?;
    let files = [(args.request.cacert.is_some(), "--cacert"), (args.request.cert.is_some(), "--cert")];
    if let Some((_, flag)) = files.iter().find(|(given, _)| *given && !args.load_on.is_empty()) {
        bail!(
            "{flag} names a file of this machine, and with --load-on the generator is on another: leave it out"
        );
    }
    if args.verify {
        bail!("--verify is for servers that run here: leave it out");
    }
    let is_contained =
        |what: &str| Engine::split_prefix(what).is_some() || what.starts_with(contained::COMPOSE);
    let is_made_here = |words: &&String| {
        super::is_from_git(words) || words.split_once('=').is_some_and(|(_, what)| is_contained(what))
    };
    if let Some(words) = args.arms.iter().find(is_made_here) {
        bail!(
            "with --on and --load-on an arm is a command of its machine, or built in: have what '{words}' names ready there, \
             and give the command that starts it"
        );
    }
    // As if all ran here: what the CPUs there are is of no matter yet.
    check(&planning::placed(args, Placement::choose(&super::allowed_cpus()?, None, None)?)?)
}

/// What is not done on other machines, each in one sentence.
fn check(plan: &Plan) -> anyhow::Result<()> {
    let started = |arm: &&model::plan::Arm| arm.source.running().is_some() || arm.build_dir.is_some();
    if let Some(arm) = plan.arms.iter().find(started) {
        bail!(
            "with --on and --load-on an arm is a command of its machine, or built in: give the command that starts '{}'",
            arm.name
        );
    }
    let contained = |arm: &&model::plan::Arm| arm.source.image().is_some() || arm.source.compose().is_some();
    if let Some(arm) = plan.arms.iter().find(contained) {
        bail!(
            "with --on and --load-on no containers are started: give the command that starts '{}' on its machine, outside one",
            arm.name
        );
    }
    if plan.workload.reach.unix.is_some() {
        bail!("--unix names a socket of one machine: leave it out with --on and --load-on");
    }
    if let Some(service) = plan.services.first() {
        bail!("service '{}' would not run beside its server: start it there yourself", service.name);
    }
    if plan.design.confirm {
        bail!("--confirm changes servers that run here: leave it out with --on and --load-on");
    }
    Ok(())
}

/// Another machine with an agent at work. Dropping it ends everything there.
pub(super) struct Remote {
    machine: Machine,
    pub(super) hello: Hello,
    line: Mutex<Line>,
    /// Commands to it are written here, also while somebody waits for an answer.
    say: Arc<Mutex<UnixStream>>,
    /// Dropped, it ends the thread that says that we are there.
    _alive: Sender<()>,
}

/// The connection.
struct Line {
    machine: Machine,
    process: Option<Process>,
    lines: BufReader<UnixStream>,
    /// The same stream, which two threads write lines to.
    say: Arc<Mutex<UnixStream>>,
    log: PathBuf,
    interrupt: Interrupt,
    /// How long it may say nothing; an agent that is at work may for as long as that takes.
    patience: Option<Duration>,
    /// Whether anything came from there: who is silent after that was reached.
    reached: bool,
    /// Whether an answer is still to come that nobody waits for any more.
    lost: bool,
}

impl Remote {
    /// Reaches `machine`, puts this program there if it is not yet, and has its agent begin.
    pub(super) fn connect(machine: &Machine) -> anyhow::Result<Self> {
        let exe = std::env::current_exe().context("cannot find this program's own file")?;
        let (sha256, bytes) = launch::sha256_file(&exe).context("cannot read this program's own file")?;
        let mut line = Line::open(machine, &arrival::script(&sha256, bytes))?;
        let has = line.greeting()?;
        if !has {
            crate::say(&format!("copying whyslow to {machine} ({} MiB)", bytes >> 20));
            line.send(&exe)?;
        }
        let event = line.next().map_err(Early::into_error)?;
        line.be_patient(None)?;
        let Event::Hello(hello) = event else { bail!("the agent on {machine} does not say who it is") };
        let ours = env!("CARGO_PKG_VERSION");
        if hello.version != ours {
            bail!(
                "whyslow on {machine} is {}, here it is {ours}: remove ~/.cache/whyslow/agents there",
                hello.version
            );
        }
        let say = line.say.clone();
        let alive = keep_alive(say.clone());
        Ok(Self { machine: machine.clone(), hello: *hello, line: Mutex::new(line), say, _alive: alive })
    }

    /// Reaches several machines at once; the first that cannot be reached is the error.
    pub(super) fn connect_all(machines: &[Machine]) -> anyhow::Result<Vec<Self>> {
        several::each(machines.iter(), |machine| Ok(Self::connect(machine)?)).map_err(Early::into_error)
    }

    /// Asks the agent, and waits for its answer.
    pub(super) fn ask(&self, command: &Command) -> Result<Event, Early> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        if line.lost {
            return Err(Early::Interrupted);
        }
        line.say(command)?;
        self.answered(line.next()?)
    }

    /// The same for what takes long: when we are to stop, so is the agent, and what it has by then is its answer.
    pub(super) fn ask_until_stopped(&self, command: &Command) -> Result<Event, Early> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        line.say(command)?;
        if !line.is_there() {
            self.enough();
        }
        let event = line.next_whatever_is_asked()?;
        self.answered(event)
    }

    /// Has the agent cut short what it does.
    pub(super) fn enough(&self) {
        // Where it cannot be written, whoever waits for an answer hears of it.
        let _ = say(&self.say, &Command::Enough);
    }

    fn answered(&self, event: Event) -> Result<Event, Early> {
        match event {
            Event::Refused(text) => Err(anyhow::anyhow!("{}: {text}", self.machine).into()),
            event => Ok(event),
        }
    }

    /// The same where there is nothing to be answered.
    pub(super) fn done(&self, command: &Command) -> Result<(), Early> {
        match self.ask(command)? {
            Event::Done => Ok(()),
            other => Err(self.unexpected(&other)),
        }
    }

    /// The machine.
    pub(super) fn machine(&self) -> &Machine {
        &self.machine
    }

    /// Whether ssh is still there.
    fn check(&self) -> anyhow::Result<()> {
        let mut line = self.line.lock().unwrap_or_else(PoisonError::into_inner);
        match line.process.as_mut().and_then(Process::try_exit) {
            Some(_) => Err(line.ended()),
            None => Ok(()),
        }
    }

    pub(super) fn unexpected(&self, event: &Event) -> Early {
        anyhow::anyhow!("the agent on {} answered out of turn: {event:?}", self.machine).into()
    }
}

impl Drop for Line {
    fn drop(&mut self) {
        // The end of its input tells the agent to end all that it started; ssh ends after it.
        let _ = self.lines.get_ref().shutdown(Shutdown::Write);
        if let Some(mut process) = self.process.take() {
            let _ = process.wait(LAST_WORDS);
            let _ = process.stop();
        }
        let _ = std::fs::remove_file(&self.log);
    }
}

impl Line {
    fn open(machine: &Machine, script: &str) -> anyhow::Result<Self> {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let log = arrival::log_file(NEXT.fetch_add(1, Ordering::Relaxed));
        let spec = Spec { argv: arrival::ssh(machine, script)?, log: log.clone(), ..Spec::default() };
        let started = Launcher::this_program().start_talking(&spec).inspect_err(|_| {
            // Nothing was started that could have said anything.
            let _ = std::fs::remove_file(&log);
        });
        let (process, stream) = started?;
        let mut line = Self::over(stream, machine, log)?;
        line.process = Some(process);
        line.be_patient(Some(FIRST_WORD))?;
        Ok(line)
    }

    /// A connection on which nothing was said yet.
    fn over(stream: UnixStream, machine: &Machine, log: PathBuf) -> anyhow::Result<Self> {
        let say = stream.try_clone().context("cannot share a socket")?;
        Ok(Self {
            machine: machine.clone(),
            process: None,
            lines: BufReader::new(stream),
            say: Arc::new(Mutex::new(say)),
            log,
            interrupt: Interrupt::listen()?,
            patience: None,
            reached: false,
            lost: false,
        })
    }

    /// Sets how long the other side may say nothing, and take nothing.
    fn be_patient(&mut self, patience: Option<Duration>) -> anyhow::Result<()> {
        self.patience = patience;
        let stream = self.lines.get_ref();
        let set = stream.set_read_timeout(patience).and_then(|()| stream.set_write_timeout(patience));
        set.context("cannot set how long a socket is waited for")
    }

    /// Waits for what the script tells of the machine; whether this program is there.
    fn greeting(&mut self) -> anyhow::Result<bool> {
        for _ in 0..MOST_GREETINGS {
            let line = self.read().map_err(Early::into_error)?;
            if let Some(has) = arrival::parse_greeting(&self.machine, line.trim_end())? {
                return Ok(has);
            }
        }
        bail!(
            "{} printed other text than whyslow's script: a start-up file of its shell may print something; leave that out where no terminal is",
            self.machine
        )
    }

    /// Sends this program, which the script waits for.
    fn send(&mut self, exe: &std::path::Path) -> anyhow::Result<()> {
        let mut file = File::open(exe).context("cannot read this program's own file")?;
        let mut say = self.say.lock().unwrap_or_else(PoisonError::into_inner);
        let sent = say.write_all(b"go\n").and_then(|()| std::io::copy(&mut file, &mut *say));
        drop(say);
        sent.map(drop).map_err(|error| self.cut(&error))
    }

    fn say(&mut self, command: &Command) -> anyhow::Result<()> {
        say(&self.say, command)?.map_err(|_| self.ended())
    }

    fn next(&mut self) -> Result<Event, Early> {
        let line = self.read()?;
        self.understood(&line)
    }

    /// The same, also when we are to stop.
    fn next_whatever_is_asked(&mut self) -> Result<Event, Early> {
        let line = self.read_whatever_is_asked()?;
        self.understood(&line)
    }

    fn understood(&self, line: &str) -> Result<Event, Early> {
        let event = serde_json::from_str(line);
        Ok(event.with_context(|| format!("the agent on {} printed '{}'", self.machine, line.trim_end()))?)
    }

    /// Waits until something can be read; false where we are to stop before.
    fn is_there(&self) -> bool {
        self.wait(None) == Waited::Readable
    }

    fn wait(&self, patience: Option<Duration>) -> Waited {
        match self.lines.buffer().is_empty() {
            true => self.interrupt.wait_readable(self.lines.get_ref(), patience),
            false => Waited::Readable,
        }
    }

    fn read(&mut self) -> Result<String, Early> {
        match self.wait(self.patience) {
            Waited::Readable => self.read_whatever_is_asked(),
            Waited::Interrupted => {
                self.lost = true;
                Err(Early::Interrupted)
            }
            Waited::TooLong => Err(self.silent().into()),
        }
    }

    fn read_whatever_is_asked(&mut self) -> Result<String, Early> {
        let mut line = String::new();
        let read = self.lines.read_line(&mut line);
        match read {
            Err(error) => Err(self.cut(&error).into()),
            Ok(0) => Err(self.ended().into()),
            Ok(_) => {
                self.reached = true;
                Ok(line)
            }
        }
    }

    /// Why nothing more was read or written.
    fn cut(&mut self, error: &std::io::Error) -> anyhow::Error {
        if error.kind() == ErrorKind::WouldBlock { self.silent() } else { self.ended() }
    }

    /// That the other side says nothing, and takes nothing.
    fn silent(&mut self) -> anyhow::Error {
        self.lost = true;
        let patience = self.patience.unwrap_or_default().as_secs();
        anyhow::anyhow!(arrival::silence(&self.machine, patience))
    }

    /// Why there is no connection any more.
    fn ended(&mut self) -> anyhow::Error {
        self.lost = true;
        if let Some(process) = &mut self.process {
            process.wait(LAST_WORDS);
        }
        anyhow::anyhow!(arrival::complaint(&self.machine, self.reached, &log_tail(&self.log, LOG_LINES)))
    }
}

/// Writes one line.
fn say(stream: &Mutex<UnixStream>, command: &Command) -> anyhow::Result<std::io::Result<()>> {
    let mut text = serde_json::to_vec(command).context("a command is JSON")?;
    text.push(b'\n');
    Ok(stream.lock().unwrap_or_else(PoisonError::into_inner).write_all(&text))
}

/// Says again and again that we are there, until what it gives is dropped.
fn keep_alive(stream: Arc<Mutex<UnixStream>>) -> Sender<()> {
    let (alive, ended) = channel();
    std::thread::spawn(move || {
        while ended.recv_timeout(ALIVE_EVERY) == Err(RecvTimeoutError::Timeout) {
            // Where it cannot be written, the next command cannot either, and says so.
            let _ = say(&stream, &Command::Alive);
        }
    });
    alive
}

#[cfg(test)]
mod tests {
    use clap::Parser;
    use model::plan::{ArmSource, Compose, Engine};

    use super::*;
    use crate::cli::{Cli, Command};
    use crate::compare::planning;

    #[test]
    fn a_machine_that_says_nothing_is_not_waited_for_for_ever() {
        for said in ["", "whyslow-host Lin"] {
            let (ours, mut theirs) = UnixStream::pair().unwrap();
            theirs.write_all(said.as_bytes()).unwrap();
            let mut line = Line::over(ours, &"ssh://me@big".parse().unwrap(), PathBuf::new()).unwrap();
            line.be_patient(Some(Duration::from_millis(50))).unwrap();
            let error = line.greeting().unwrap_err().to_string();
            assert!(error.contains("ssh://me@big says nothing") && line.lost, "{error}");
            // Who takes nothing of the program is as silent.
            let (ours, _theirs) = UnixStream::pair().unwrap();
            let mut line = Line::over(ours, &"ssh://me@big".parse().unwrap(), PathBuf::new()).unwrap();
            line.be_patient(Some(Duration::from_millis(50))).unwrap();
            let error = line.send(&std::env::current_exe().unwrap()).unwrap_err().to_string();
            assert!(error.contains("says nothing"), "{error}");
        }
    }

    #[test]
    fn what_is_started_in_a_container_is_refused_on_another_machine() {
        let cli = Cli::parse_from(["whyslow", "compare", "a=./a {port}", "b=./b {port}"]);
        let Command::Compare(args) = cli.command else { panic!("it is a comparison") };
        let mut plan = planning::plan(&args, &"0-3".parse().unwrap()).unwrap();
        assert!(check(&plan).is_ok());
        plan.arms[1].source = ArmSource::Compose(Compose {
            engine: Engine::Podman,
            asked: "c.yaml".to_owned(),
            file: "/srv/c.yaml".to_owned(),
            sha256: String::new(),
            service: "web".to_owned(),
            beside: Vec::new(),
            flags: Vec::new(),
            run_flags: Vec::new(),
        });
        let refused = check(&plan).unwrap_err().to_string();
        assert!(refused.contains("no containers are started: give the command that starts 'b'"), "{refused}");
    }
}
