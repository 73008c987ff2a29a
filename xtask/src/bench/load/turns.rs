//! One generator with its connections open to several servers that it loads in turns, beside one that has a single server.

use std::io::{BufRead, BufReader, Write};
use std::net::SocketAddr;
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::time::Duration;

use anyhow::{Context, bail};
use model::job::{self, Endpoint, Event, Job, Turn, TurnPace, TurnReport};
use model::record::LoadReport;
use model::units::Rate;
use observe::Group;

use super::bar::{Bar, leading_number};
use super::tool::Tool;
use super::{Bench, Blocks, SERVER, Server, page};
use crate::bench::whyslow;

/// Servers of the generator that has several.
const SERVERS: usize = 3;
/// Connections to each server.
const CONNECTIONS: u32 = 64;
/// A turn, as `whyslow compare` takes them where nothing asks for longer ones.
const TURN: Duration = Duration::from_millis(200);
/// How long the last answers of a turn are waited for.
const DRAIN: Duration = Duration::from_secs(1);
/// Requests per second of the turns whose send lag is read.
const PER_S: f64 = 20_000.0;
/// Most that a request may cost with several servers, over one with a single server.
const MOST: f64 = 1.02;

const SEVERAL: &str = "three servers in turns";
const ONE: &str = "one server";

/// A generator that waits for turns.
struct Generator {
    servers: usize,
    child: Child,
    commands: ChildStdin,
    events: BufReader<ChildStdout>,
    group: Group,
}

/// What the turns of a generator took.
#[derive(Debug, Default)]
struct Taken {
    cpu_ns: u64,
    requests: u64,
    /// For so many nanoseconds requests were sent.
    sent_ns: u64,
    /// Requests that failed, or were unanswered when answers were no longer waited for.
    lost: u64,
    /// Requests that were due in an open loop and not sent when their turn ended: the generator had no CPU just then.
    unsent: u64,
}

/// Measures it, block by block with fresh generators.
pub(super) fn run(bench: &Bench) -> anyhow::Result<String> {
    let mut servers = vec![bench.server.address];
    let mut others = Vec::new();
    for _ in 1..SERVERS {
        let mut other = Server::of_target(SERVER, &bench.cpus)?;
        // The first one keeps the CPUs awake.
        other.let_cpus_idle();
        servers.push(other.address);
        others.push(other);
    }
    let (mut cpu, mut rate, mut lag, mut lost) = (Blocks::default(), Blocks::default(), Blocks::default(), 0);
    let mut unsent = Blocks::default();
    for block in 0..bench.blocks {
        let one = servers[block as usize % SERVERS];
        for (name, taken, load) in bench.block(block, &servers, one)? {
            let cpu_us = taken.cpu_ns as f64 / 1e3 / taken.requests.max(1) as f64;
            let per_s = taken.requests as f64 * 1e9 / taken.sent_ns.max(1) as f64;
            let late_us = load.send_lag_ns.p99.map(|ns| ns as f64 / 1e3);
            println!(
                "{block} {name}: {cpu_us:.3} us, {per_s:.0}/s, send lag p99 {} us",
                page::figure(late_us, 1)
            );
            cpu.add(name, block, cpu_us);
            rate.add(name, block, per_s);
            late_us.into_iter().for_each(|us| lag.add(name, block, us));
            lost += taken.lost;
            unsent.add(name, block, taken.unsent as f64);
        }
    }
    let row = |name: &str| {
        vec![
            name.to_owned(),
            page::figure(cpu.median(name), 3),
            cpu.ratio(SEVERAL, name),
            page::figure(rate.median(name), 0),
            page::figure(lag.median(name), 1),
            lag.ratio(SEVERAL, name),
            page::figure(unsent.sum(name), 0),
        ]
    };
    let head = [
        "generator",
        "CPU µs/request",
        "the first / it",
        "requests/s",
        "send lag p99 at 20 000/s, µs",
        "the first / it",
        "unsent when a turn ended, in all",
    ];
    let bars = [
        Bar::at_most(
            "CPU per request, several servers / one",
            MOST,
            leading_number(&cpu.ratio(SEVERAL, ONE)),
        ),
        Bar::at_most("requests lost in all turns", 0.0, Some(lost as f64)),
    ];
    let note = format!(
        " Both generators take turns of {} ms: the first goes from server to server, the second stays with one. CPU is that of the whole \
         process.",
        TURN.as_millis()
    );
    let table = page::table(&head, &[row(SEVERAL), row(ONE)]);
    Ok(bench.section("Several servers in turns beside one", &[Tool::Whyslow], &note, &table, &bars))
}

impl Bench {
    /// One block: closed turns for what a request costs, then open ones for how late requests are sent.
    fn block(
        &self,
        block: u32,
        servers: &[SocketAddr],
        one: SocketAddr,
    ) -> anyhow::Result<[(&'static str, Taken, LoadReport); 2]> {
        let mut generators =
            [Generator::start(servers, &self.cpus.load)?, Generator::start(&[one], &self.cpus.load)?];
        let mut taken = [Taken::default(), Taken::default()];
        let turns = (u128::from(self.window_s) * 1000 / TURN.as_millis()) as usize;
        let (closed, open) = (
            TurnPace::Closed { poll: false },
            TurnPace::Open { rate: Rate::per_s(PER_S).context("it is a rate")?, poisson: false },
        );
        for (pace, pool) in [(closed, None), (open, Some(0))] {
            for turn in 0..=turns {
                // Every second pair of turns has the other order, every second block the other first.
                let first = (turn + block as usize) % 2;
                for which in [first, 1 - first] {
                    // The first turn warms up.
                    let pool = pool.filter(|_| turn > 0);
                    let (cpu_ns, report) = generators[which].turn(turn, pace, pool)?;
                    if turn > 0 && pool.is_none() {
                        taken[which].cpu_ns += cpu_ns;
                        taken[which].requests += report.requests;
                        taken[which].sent_ns += report.end_ns - report.start_ns;
                    }
                    taken[which].lost += report.errors.total() + report.given_up;
                    taken[which].unsent += report.unsent;
                }
            }
        }
        let loads = [generators[0].report()?, generators[1].report()?];
        let ([several, one], [several_load, one_load]) = (taken, loads);
        Ok([(SEVERAL, several, several_load), (ONE, one, one_load)])
    }
}

impl Generator {
    /// Starts one on `cpus` and waits until its connections are open.
    fn start(servers: &[SocketAddr], cpus: &str) -> anyhow::Result<Self> {
        let endpoint = |address: &SocketAddr| Endpoint {
            name: address.to_string(),
            url: format!("http://{address}/plaintext"),
            unix: None,
            expected_status: None,
        };
        let job = Job { endpoints: servers.iter().map(endpoint).collect(), ..Job::get(CONNECTIONS) };
        let mut child = Command::new("taskset")
            .args(["-c", cpus])
            .arg(whyslow::release().join("whyslow"))
            .args(["load", "--job"])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .context("cannot start a generator")?;
        let pipes = child.stdin.take().zip(child.stdout.take());
        let (commands, events) = pipes.context("its input and output are piped")?;
        let group = Group::from_pid(child.id())?;
        let mut generator =
            Self { servers: servers.len(), child, commands, events: BufReader::new(events), group };
        match generator.exchange(&job)? {
            Event::Connected { established }
                if established.iter().all(|&open| open == u64::from(CONNECTIONS)) =>
            {
                Ok(generator)
            }
            other => bail!("a generator did not connect: {other:?}"),
        }
    }

    fn exchange(&mut self, line: &impl serde::Serialize) -> anyhow::Result<Event> {
        writeln!(self.commands, "{}", serde_json::to_string(line)?).context("a generator does not listen")?;
        let mut answer = String::new();
        self.events.read_line(&mut answer).context("a generator says nothing")?;
        serde_json::from_str(&answer).with_context(|| format!("a generator said '{answer}'"))
    }

    /// Its next turn, at the next server: the CPU time of the process in nanoseconds, and what the generator says of it.
    fn turn(
        &mut self,
        number: usize,
        pace: TurnPace,
        pool: Option<u32>,
    ) -> anyhow::Result<(u64, TurnReport)> {
        let turn = Turn {
            endpoint: number % self.servers,
            pace,
            seed: 1,
            begin_ns: None,
            length_ns: TURN.as_nanos() as u64,
            requests: None,
            drain_ns: DRAIN.as_nanos() as u64,
            pool,
        };
        let before = self.group.snapshot()?;
        let event = self.exchange(&job::Command::Turn(turn))?;
        let cpu_ns = self.group.snapshot()?.since(&before).cpu.total_ns;
        match event {
            Event::Turn(report) => Ok((cpu_ns, report)),
            other => bail!("a turn ended with {other:?}"),
        }
    }

    /// The turns of its pool as one window.
    fn report(&mut self) -> anyhow::Result<LoadReport> {
        match self.exchange(&job::Command::Report { pool: 0, hlog: None })? {
            Event::Report { report, .. } => Ok(*report),
            other => bail!("a report is {other:?}"),
        }
    }
}

impl Drop for Generator {
    fn drop(&mut self) {
        self.child.kill().ok();
        self.child.wait().ok();
    }
}
