//! The generator against other generators: the rows of its proof.

mod bar;
mod hour;
mod lateness;
mod protocols;
mod tool;
mod turns;
mod wire;

use anyhow::ensure;
use clap::{Parser, ValueEnum};
use stats::descriptive;

use super::blocks::Blocks;
use super::page::{self, Page};
use super::target::{Cpus, Server};
use super::whyslow::Instrument;
use bar::{Bar, leading_number};
use tool::{Load, Ran, Tool};

/// The server that all tools load: it copies a fixed answer, so that it is never the limit before them.
const SERVER: &str = "epoll-limit";
/// Work of the witness' server in each request: five times what a generator needs to ask.
const WITNESS_WORK_NS: u32 = 20_000;
/// How far apart two generators may count there: what windows of a few seconds differ by on a shared machine.
const WITNESS_APART: f64 = 0.03;

/// CPU per request at 20 000 requests/s of tools that are not run here, in microseconds: measured on another day and not in
/// the same run as anything on the page.
const PUBLISHED: [(&str, f64); 2] = [("wrk2", 6.9), ("k6", 50.0)];
/// Connections of the row `many`.
const MANY: u32 = 10_000;

const PAGE: Page = Page::new(
    "load",
    "whyslow load against other generators",
    "One server (`epoll-limit`: an epoll loop with a fixed answer) has one CPU, the generator another, on loopback; 64 \
     connections and one thread where nothing else is said. Generators take turns in blocks; CPU is user plus system \
     time of the generator's process over the requests that it completed, its start and end included; ratios are from \
     pairs within blocks (Hodges–Lehmann, exact Wilcoxon interval at 95 %, or all pairs where there are fewer than \
     six). Repeat with `cargo xtask bench load [ROW…]`.",
);

/// What is measured.
#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Row {
    /// CPU per request in a closed loop
    Closed,
    /// CPU per request with 16 requests in flight on each connection
    Pipeline,
    /// CPU per request of five requests filled from CSV, beside one plain request
    Job,
    /// CPU per request of users with two steps, beside single requests
    Scenario,
    /// CPU per request of five paths in a file of requests, beside one
    Paths,
    /// CPU per request and send lag of several servers in turns, beside one
    Endpoints,
    /// CPU per request over HTTP/1.1 and TLS, beside h2load
    Tls,
    /// CPU per request over HTTP/2, beside h2load
    Http2,
    /// CPU per request over HTTP/2 and TLS, beside h2load
    Http2Tls,
    /// CPU per request over HTTP/3, beside our own HTTP/2 over TLS: h2load of Debian has no HTTP/3
    Http3,
    /// CPU per call of gRPC, beside ghz
    Grpc,
    /// CPU per message of WebSocket, beside k6
    Websocket,
    /// CPU per request in an open loop at 20 000 requests/s
    Open,
    /// Send lag at 50 000 requests/s, beside how late this host's timers are
    Lag,
    /// 10 000 connections at 30 000 requests/s
    Many,
    /// Requests/s beside wrk's where the server, not the generator, is the limit
    Witness,
    /// The generator's memory over an hour (--hour-s) at 50 000 requests/s
    Hour,
}

impl Row {
    /// Its name on the page.
    fn name(self) -> String {
        self.to_possible_value().map(|value| value.get_name().to_owned()).unwrap_or_default()
    }

    /// Blocks and the length of a window in seconds, where nothing is said. What is held against its like has many short
    /// slices: a bar of a few hundredths needs them, and what drifts is the same for both.
    fn slices(self) -> (u32, u32) {
        match self {
            Self::Job | Self::Scenario | Self::Paths | Self::Endpoints => (24, 2),
            Self::Tls | Self::Http2 | Self::Http3 | Self::Grpc | Self::Websocket => (12, 3),
            _ => (8, 6),
        }
    }
}

/// Arguments of `bench load`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What is measured; everything but the hour where nothing is said
    #[arg(value_enum)]
    rows: Vec<Row>,
    /// Length of the row `hour` in seconds
    #[arg(long, default_value_t = 3600)]
    hour_s: u32,
    /// Two blocks of windows of one second: to see that it works, not to be believed, and not written to the page
    #[arg(long)]
    quick: bool,
    /// Blocks [default: 24 where whyslow is held against itself, 12 over other protocols, else 8]
    #[arg(long)]
    blocks: Option<u32>,
    /// Length of a window in seconds [default: 2 where whyslow is held against itself, 3 over other protocols, else 6]
    #[arg(long)]
    window_s: Option<u32>,
}

impl Args {
    /// Blocks of a row, and the length of its windows in seconds.
    fn slices(&self, row: Row) -> (u32, u32) {
        let (blocks, window_s) = if self.quick { (2, 1) } else { row.slices() };
        (self.blocks.unwrap_or(blocks), self.window_s.unwrap_or(window_s))
    }
}

/// One block of the row `lag`: a thread that only sleeps, one that only reads the clock, and the generator.
type Block = ([lateness::Lateness; 2], Ran);

/// What a row is run with.
struct Bench {
    cpus: Cpus,
    server: Server,
    blocks: u32,
    window_s: u32,
}

/// Runs the rows, and writes each to the page when it is done.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    let known = Row::value_variants();
    let usual = || known.iter().copied().filter(|row| *row != Row::Hour).collect();
    let rows: Vec<Row> = if args.rows.is_empty() { usual() } else { args.rows.clone() };
    Instrument::new(None)?.build(&[SERVER, protocols::SERVER, "planted"].map(str::to_owned))?;
    let cpus = Cpus::halves()?;
    let server = Server::of_target(SERVER, &cpus)?;
    let mut bench = Bench { cpus, server, blocks: 0, window_s: 0 };
    let names: Vec<String> = known.iter().map(|row| row.name()).collect();
    let names: Vec<&str> = names.iter().map(String::as_str).collect();
    for row in rows {
        (bench.blocks, bench.window_s) = args.slices(row);
        let section = bench.section_of(row, args.hour_s)?;
        print!("{section}");
        if !args.quick {
            println!("written: {}", PAGE.keep(&row.name(), &section, &names)?.display());
        }
    }
    Ok(())
}

/// What every tool took under the same load.
#[derive(Default)]
struct Taken {
    present: Vec<Tool>,
    missing: Vec<&'static str>,
    cpu: Blocks,
    memory: Blocks,
    rate: Blocks,
}

impl Taken {
    /// CPU per request of `ours` over that of `tool`, as it is printed.
    fn ratio(&self, ours: Tool, tool: Tool) -> String {
        self.cpu.ratio(ours.name(), tool.name())
    }

    /// A bar on it.
    fn bar(&self, ours: Tool, tool: Tool, most: f64) -> Bar {
        let what = format!("CPU per request, {} / {}", ours.name(), tool.name());
        Bar::at_most(what, most, leading_number(&self.ratio(ours, tool)))
    }

    /// The same on a published figure.
    fn published_bar(&self, ours: Tool, (name, us): (&str, f64), most: f64) -> Bar {
        let what = format!("CPU per request, {} / {name} as published", ours.name());
        Bar::at_most(what, most, self.cpu.median(ours.name()).map(|ours| ours / us))
    }

    /// A row for each tool, with what `ours` costs over it.
    fn rows_beside(&self, ours: Tool) -> Vec<Vec<String>> {
        let row = |tool: &Tool| {
            let name = tool.name();
            vec![
                name.to_owned(),
                page::figure(self.cpu.median(name), 3),
                self.ratio(ours, *tool),
                page::figure(self.rate.median(name), 0),
                page::figure(self.memory.median(name), 1),
            ]
        };
        self.present.iter().map(row).collect()
    }

    /// Which tools are not here, where any are not.
    fn missing_note(&self) -> String {
        match self.missing[..] {
            [] => String::new(),
            _ => format!(" Not here: {}.", self.missing.join(", ")),
        }
    }

    fn rows(&self) -> Vec<Vec<String>> {
        self.rows_beside(Tool::Whyslow)
    }
}

/// The columns of [`Taken::rows`].
const COLUMNS: [&str; 5] = ["generator", "CPU µs/request", "whyslow / it", "requests/s", "memory MiB"];

impl Bench {
    fn section_of(&mut self, row: Row, hour_s: u32) -> anyhow::Result<String> {
        match row {
            Row::Closed => self.closed(),
            Row::Pipeline => self.pipeline(),
            Row::Job => self.job(),
            Row::Scenario => self.scenario(),
            Row::Paths => self.paths(),
            Row::Endpoints => turns::run(self),
            Row::Tls => protocols::tls(self),
            Row::Http2 => protocols::http2(self),
            Row::Http2Tls => protocols::http2_tls(self),
            Row::Http3 => protocols::http3(self),
            Row::Grpc => protocols::grpc(self),
            Row::Websocket => protocols::websocket(self),
            Row::Open => self.open(),
            Row::Lag => self.lag(),
            Row::Many => self.many(),
            Row::Witness => self.witness(),
            Row::Hour => hour::run(self, hour_s),
        }
    }

    fn closed(&self) -> anyhow::Result<String> {
        let taken = self.tools(&Load::closed(self.window_s), &tool::CLOSED)?;
        let memory = taken.memory.median(Tool::Whyslow.name());
        let bars = [taken.bar(Tool::Whyslow, Tool::Wrk, 0.80), Bar::at_most("memory, MiB", 9.0, memory)];
        Ok(self.compared("Closed loop", &taken, taken.rows(), &bars))
    }

    fn pipeline(&self) -> anyhow::Result<String> {
        let load = Load { pipeline: 16, ..Load::closed(self.window_s) };
        let taken = self.tools(&load, &tool::PIPELINED)?;
        let bars = [taken.bar(Tool::Whyslow, Tool::Wrk, 0.66)];
        Ok(self.compared("Closed loop, 16 in flight on each connection", &taken, taken.rows(), &bars))
    }

    /// What it costs that requests differ and are filled: the same server, and the same generator with one plain request.
    fn job(&self) -> anyhow::Result<String> {
        let taken = self.tools(&Load::closed(self.window_s), &tool::JOBS)?;
        let bars = [taken.bar(Tool::Filled, Tool::Whyslow, 1.1)];
        Ok(self.compared("Closed loop, five requests filled from CSV", &taken, taken.rows(), &bars))
    }

    /// What users cost, who take a value of each second answer.
    fn scenario(&self) -> anyhow::Result<String> {
        let taken = self.tools(&Load::closed(self.window_s), &tool::STEPS)?;
        let bars = [taken.bar(Tool::Steps, Tool::Whyslow, 1.5)];
        Ok(self.compared("Users with two steps beside single requests", &taken, taken.rows(), &bars))
    }

    /// What it costs that requests are of several paths, which nothing fills.
    fn paths(&self) -> anyhow::Result<String> {
        let taken = self.tools(&Load::closed(self.window_s), &tool::LISTS)?;
        let bars = [taken.bar(Tool::Several, Tool::One, 1.02)];
        let table = page::table(&protocols::BESIDE, &taken.rows_beside(Tool::Several));
        Ok(self.section("Five paths beside one", &taken.present, "", &table, &bars))
    }

    /// The open loop, with the published figures of tools that are not run.
    fn open(&self) -> anyhow::Result<String> {
        let load = Load { rate: Some(20_000), ..Load::closed(self.window_s) };
        let taken = self.tools(&load, &tool::OPEN)?;
        let ours = taken.cpu.median(Tool::Whyslow.name());
        let against = |us: f64| ours.map(|ours| ours / us);
        let mut rows = taken.rows();
        rows.extend(PUBLISHED.map(|(name, us)| {
            let cells = [format!("{name}, published"), us.to_string(), page::figure(against(us), 2)];
            cells.into_iter().chain(["–".to_owned(), "–".to_owned()]).collect()
        }));
        let bars: Vec<Bar> = [Tool::Whyslow, Tool::InLots]
            .into_iter()
            .flat_map(|ours| {
                let [wrk2, k6] = PUBLISHED;
                [
                    taken.bar(ours, Tool::Oha, 0.6),
                    taken.published_bar(ours, wrk2, 1.0),
                    taken.published_bar(ours, k6, 0.15),
                ]
            })
            .collect();
        let note = "Like with like is `--slack 1ms` beside oha: both send what is due once a millisecond, oha because its timers \
                    are no finer. Without slack each request is sent at its own time, and pays for a timer and a waking of its \
                    own. wrk2 and k6 are not run: their figures are published ones, measured on another day and not in this \
                    run, so that their ratios are of two machines as much as of two programs.";
        Ok(format!("{}\n{note}\n", self.compared("Open loop, 20 000 requests/s", &taken, rows, &bars)))
    }

    /// Every tool that is here under the same load, in turns.
    fn tools(&self, load: &Load, tools: &[Tool]) -> anyhow::Result<Taken> {
        let (present, missing): (Vec<Tool>, Vec<Tool>) = tools.iter().partition(|tool| tool.is_here());
        let missing = missing.iter().map(|tool| tool.name()).collect();
        let mut taken = Taken { present, missing, ..Taken::default() };
        for block in 0..self.blocks {
            for turn in 0..taken.present.len() {
                // Every tool comes first, second … as often: what drifts meets all of them.
                let tool = taken.present[(turn + block as usize) % taken.present.len()];
                let ran = tool.run(load, &self.server.address.to_string(), &self.cpus.load)?;
                let Ran { cpu_us, per_s, mib, .. } = ran;
                println!("{block} {}: {cpu_us:.3} us, {per_s:.0}/s, {mib:.1} MiB", tool.name());
                taken.cpu.add(tool.name(), block, cpu_us);
                taken.memory.add(tool.name(), block, mib);
                taken.rate.add(tool.name(), block, per_s);
            }
        }
        Ok(taken)
    }

    fn compared(&self, title: &str, taken: &Taken, rows: Vec<Vec<String>>, bars: &[Bar]) -> String {
        let table = page::table(&COLUMNS, &rows);
        self.section(title, &taken.present, &taken.missing_note(), &table, bars)
    }

    fn section(&self, title: &str, tools: &[Tool], note: &str, table: &str, bars: &[Bar]) -> String {
        let mut versions: Vec<String> = tools.iter().map(|tool| tool.version()).collect();
        versions.dedup();
        format!(
            "## {title}\n\nn = {} blocks, windows of {} s, {}; {}. Medians over blocks.{note}\n\n{table}\n{}\n",
            self.blocks,
            self.window_s,
            page::today(),
            versions.join(", "),
            bar::table(bars)
        )
    }

    /// The send lag, and beside it how late a thread is that only sleeps. CPUs may go idle, as they may where the generator is
    /// run by itself: how late a thread is that shares its CPU with one that keeps it awake is another question. And how late one is that
    /// reads the clock all the time, with the server's CPU busy as it is under load: what a host takes of CPUs that are busy, no timer sees.
    fn lag(&mut self) -> anyhow::Result<String> {
        self.server.let_cpus_idle();
        let load = Load { rate: Some(50_000), ..Load::closed(self.window_s) };
        let mut rows = Vec::new();
        for block in 0..self.blocks {
            let timer = self.cpus.on_load(|| lateness::sleeping(50_000, self.window_s));
            self.server.keep_cpus_awake(&self.cpus)?;
            let clock = self.cpus.on_load(|| lateness::polling(50_000, self.window_s));
            self.server.let_cpus_idle();
            let ran = Tool::Whyslow.run(&load, &self.server.address.to_string(), &self.cpus.load)?;
            let us = |p999: Option<f64>| page::figure(p999, 1);
            let [slept, polled] = [&timer, &clock].map(|host| us(Some(host.us[2])));
            println!("{block} p99.9: timer {slept} us, clock {polled} us, send lag {} us", us(ran.lag_us[2]));
            rows.push(([timer, clock], ran));
        }
        self.server.keep_cpus_awake(&self.cpus)?;
        let medians = |read: fn(&Block) -> [Option<f64>; 3]| {
            [0, 1, 2].map(|index| {
                let values: Vec<f64> = rows.iter().filter_map(|row| read(row)[index]).collect();
                descriptive::median(&values)
            })
        };
        let (timer, clock) =
            (medians(|(host, _)| host[0].us.map(Some)), medians(|(host, _)| host[1].us.map(Some)));
        let ours = medians(|(_, ran)| ran.lag_us);
        let row = |name: &str, us: [Option<f64>; 3]| {
            let cells = us.map(|us| page::figure(us, 1));
            std::iter::once(name.to_owned()).chain(cells).collect::<Vec<_>>()
        };
        let table = page::table(
            &["µs late", "p50", "p99", "p99.9"],
            &[
                row("a timer of this host, nothing else running", timer),
                row("a loop that only reads the clock, all CPUs busy", clock),
                row("whyslow load, send lag", ours),
            ],
        );
        let bars = [
            Bar::at_most("send lag p99, µs", 50.0, ours[1]),
            Bar::at_most("send lag p99.9, µs", 200.0, ours[2])
                .where_reached_by("a loop that only reads the clock", clock[2]),
        ];
        let note = " CPUs may go idle here, as where the generator is run by itself.";
        Ok(self.section("Send lag at 50 000 requests/s", &[Tool::Whyslow], note, &table, &bars))
    }

    /// Whether the schedule is kept over 10 000 connections, and what they take.
    fn many(&self) -> anyhow::Result<String> {
        let load = Load { rate: Some(30_000), connections: MANY, ..Load::closed(self.window_s) };
        let (mut rows, mut ratios, mut sizes) = (Vec::new(), Vec::new(), Vec::new());
        for block in 0..self.blocks {
            let ran = Tool::Whyslow.run(&load, &self.server.address.to_string(), &self.cpus.load)?;
            let open = ran.established.unwrap_or(0);
            ensure!(open == u64::from(MANY), "only {open} of {MANY} connections were open: it measured less");
            rows.push(vec![
                block.to_string(),
                open.to_string(),
                page::figure(ran.rate_ratio, 4),
                page::figure(Some(ran.mib), 1),
                page::figure(Some(ran.cpu_us), 2),
            ]);
            ratios.extend(ran.rate_ratio);
            sizes.push(ran.mib);
        }
        let table =
            page::table(&["block", "connections", "rate ratio", "memory MiB", "CPU µs/request"], &rows);
        let bars = [
            Bar::at_least("rate ratio, the lowest", 0.99, descriptive::quantile(&ratios, 0.0)),
            Bar::at_most("memory, the largest, MiB", 15.0, descriptive::quantile(&sizes, 1.0)),
        ];
        Ok(self.section("10 000 connections at 30 000 requests/s", &[Tool::Whyslow], "", &table, &bars))
    }

    /// Requests per second of whyslow and of wrk against a server that costs more than either.
    fn witness(&self) -> anyhow::Result<String> {
        let work = Server::planted("spin", WITNESS_WORK_NS, &self.cpus)?;
        let mut rows = self.beside_wrk(&format!("{} µs of work a request", WITNESS_WORK_NS / 1000), &work)?;
        drop(work);
        // The last cell of the last row is the ratio to wrk.
        let ratio = rows.last().and_then(|row| leading_number(row.last()?));
        let what = "requests/s where the work is fixed, whyslow / wrk";
        let bars =
            [Bar::at_least(what, 1.0 - WITNESS_APART, ratio), Bar::at_most(what, 1.0 + WITNESS_APART, ratio)];
        rows.extend(
            self.beside_wrk("whyslow serve --model threads", &Server::built_in("threads", &self.cpus)?)?,
        );
        let table = page::table(&["server", "generator", "requests/s", "whyslow / it"], &rows);
        let note = "Where the server does the same work whatever the generator does, both count the same. A server whose \
                    threads are woken for each request does less of its own where requests come in batches, and that is \
                    the generator's doing: a cheaper one leaves it more.";
        let tools = [Tool::Whyslow, Tool::Wrk];
        let section = self.section("Requests/s where the server is the limit", &tools, "", &table, &bars);
        Ok(format!("{section}\n{note}\n"))
    }

    /// Both generators on one server, in turns.
    fn beside_wrk(&self, title: &str, server: &Server) -> anyhow::Result<Vec<Vec<String>>> {
        let load = Load::closed(self.window_s);
        let (ours, theirs) = (Tool::Whyslow, Tool::Wrk);
        let mut rate = Blocks::default();
        for block in 0..self.blocks {
            let order = if block % 2 == 0 { [ours, theirs] } else { [theirs, ours] };
            for tool in order {
                let ran = tool.run(&load, &server.address.to_string(), &self.cpus.load)?;
                println!("{block} {}: {:.0}/s", tool.name(), ran.per_s);
                rate.add(tool.name(), block, ran.per_s);
            }
        }
        let row = |tool: Tool, ratio: String| {
            vec![title.to_owned(), tool.name().to_owned(), page::figure(rate.median(tool.name()), 0), ratio]
        };
        Ok(vec![row(ours, "1".to_owned()), row(theirs, rate.ratio(ours.name(), theirs.name()))])
    }
}
