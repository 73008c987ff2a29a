//! The generator against other generators: the rows of its proof.

mod lateness;
mod tool;

use clap::{Parser, ValueEnum};
use stats::descriptive;

use super::blocks::Blocks;
use super::page::{self, Page};
use super::target::{Cpus, Server};
use super::whyslow;
use tool::{Load, Ran, Tool};

/// The server that all tools load: it copies a fixed answer, so that it is never the limit before them.
const SERVER: &str = "epoll-limit";
/// Work of the witness' server in each request: five times what a generator needs to ask.
const WITNESS_WORK_NS: u32 = 20_000;

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
    /// CPU per request in an open loop at 20 000 requests/s
    Open,
    /// Send lag at 50 000 requests/s, beside how late this host's timers are
    Lag,
    /// 10 000 connections at 30 000 requests/s
    Many,
    /// Requests/s beside wrk's where the server, not the generator, is the limit
    Witness,
}

const ROWS: [Row; 6] = [Row::Closed, Row::Pipeline, Row::Open, Row::Lag, Row::Many, Row::Witness];
/// Their names, in the order of the page.
const NAMES: [&str; 6] = ["closed", "pipeline", "open", "lag", "many", "witness"];

/// Arguments of `bench load`.
#[derive(Debug, Parser)]
pub(crate) struct Args {
    /// What is measured; everything where nothing is said
    #[arg(value_enum)]
    rows: Vec<Row>,
    /// Two blocks of windows of one second: to see that it works, not to be believed
    #[arg(long)]
    quick: bool,
    /// Blocks
    #[arg(long, default_value_t = 8)]
    blocks: u32,
    /// Length of a window in seconds
    #[arg(long, default_value_t = 6)]
    window_s: u32,
}

/// One block of the row `lag`: the host alone, and the generator.
type Block = (lateness::Lateness, Ran);

/// What a row is run with.
struct Bench {
    cpus: Cpus,
    server: Server,
    blocks: u32,
    window_s: u32,
}

/// Runs the rows and writes the page.
pub(super) fn run(args: &Args) -> anyhow::Result<()> {
    whyslow::build(&[SERVER, "planted"].map(str::to_owned))?;
    let cpus = Cpus::halves()?;
    let server = Server::of_target(SERVER, &cpus)?;
    let (blocks, window_s) = if args.quick { (2, 1) } else { (args.blocks, args.window_s) };
    let bench = Bench { cpus, server, blocks, window_s };
    let rows = if args.rows.is_empty() { ROWS.to_vec() } else { args.rows.clone() };
    for row in rows {
        let section = match row {
            Row::Closed => bench.tools("Closed loop", &Load::closed(window_s), &tool::CLOSED)?,
            Row::Pipeline => bench.tools(
                "Closed loop, 16 in flight on each connection",
                &Load { pipeline: 16, ..Load::closed(window_s) },
                &tool::PIPELINED,
            )?,
            Row::Open => bench.tools(
                "Open loop, 20 000 requests/s",
                &Load { rate: Some(20_000), ..Load::closed(window_s) },
                &tool::OPEN,
            )?,
            Row::Lag => bench.lag()?,
            Row::Many => bench.many()?,
            Row::Witness => bench.witness()?,
        };
        let name = NAMES[ROWS.iter().position(|known| *known == row).expect("every row is listed")];
        PAGE.keep(name, &section)?;
        print!("{section}");
    }
    println!("written: {}", PAGE.write(&NAMES)?.display());
    Ok(())
}

impl Bench {
    /// Every tool that is here under the same load, in turns.
    fn tools(&self, title: &str, load: &Load, tools: &[Tool]) -> anyhow::Result<String> {
        let present: Vec<Tool> = tools.iter().copied().filter(|tool| tool.is_here()).collect();
        let (mut cpu, mut memory, mut rate) = (Blocks::default(), Blocks::default(), Blocks::default());
        for block in 0..self.blocks {
            for turn in 0..present.len() {
                // Every tool comes first, second … as often: what drifts meets all of them.
                let tool = present[(turn + block as usize) % present.len()];
                let ran = tool.run(load, &self.server.address.to_string(), &self.cpus.load)?;
                println!(
                    "{block} {}: {:.3} us, {:.0}/s, {:.1} MiB",
                    tool.name(),
                    ran.cpu_us,
                    ran.per_s,
                    ran.mib
                );
                cpu.add(tool.name(), block, ran.cpu_us);
                memory.add(tool.name(), block, ran.mib);
                rate.add(tool.name(), block, ran.per_s);
            }
        }
        let ours = Tool::Whyslow.name();
        let rows: Vec<Vec<String>> = present
            .iter()
            .map(|tool| {
                let name = tool.name();
                vec![
                    name.to_owned(),
                    page::figure(cpu.median(name), 3),
                    if name == ours { "1".to_owned() } else { cpu.ratio(ours, name) },
                    page::figure(rate.median(name), 0),
                    page::figure(memory.median(name), 1),
                ]
            })
            .collect();
        let missing: Vec<&str> =
            tools.iter().filter(|tool| !tool.is_here()).map(|tool| tool.name()).collect();
        Ok(self.section(
            title,
            &page::table(&["generator", "CPU µs/request", "whyslow / it", "requests/s", "memory MiB"], &rows),
            &missing,
        ))
    }

    fn section(&self, title: &str, table: &str, missing: &[&str]) -> String {
        let missing =
            if missing.is_empty() { String::new() } else { format!(" Not here: {}.", missing.join(", ")) };
        format!(
            "## {title}\n\nn = {} blocks, windows of {} s, {}. Medians over blocks.{missing}\n\n{table}\n",
            self.blocks,
            self.window_s,
            page::today()
        )
    }

    /// The send lag, and beside it how late a thread is that only sleeps: no generator can be better than that.
    fn lag(&self) -> anyhow::Result<String> {
        let load = Load { rate: Some(50_000), ..Load::closed(self.window_s) };
        let mut rows = Vec::new();
        for block in 0..self.blocks {
            let host = self.cpus.on_load(|| lateness::measure(50_000, self.window_s));
            let ran = Tool::Whyslow.run(&load, &self.server.address.to_string(), &self.cpus.load)?;
            rows.push((host, ran));
            println!("{block} done");
        }
        let of = |name: &str, read: fn(&Block) -> [Option<f64>; 3]| {
            let mut cells = vec![name.to_owned()];
            for index in 0..3 {
                let values: Vec<f64> = rows.iter().filter_map(|row| read(row)[index]).collect();
                cells.push(page::figure(descriptive::median(&values), 1));
            }
            cells
        };
        let table = page::table(
            &["µs late", "p50", "p99", "p99.9"],
            &[
                of("a timer of this host, nothing else running", |(host, _)| host.us.map(Some)),
                of("whyslow load, send lag", |(_, ran)| ran.lag_us),
            ],
        );
        Ok(self.section("Send lag at 50 000 requests/s", &table, &[]))
    }

    /// Whether the schedule is kept over 10 000 connections, and what they take.
    fn many(&self) -> anyhow::Result<String> {
        let load = Load { rate: Some(30_000), connections: 10_000, ..Load::closed(self.window_s) };
        let mut rows = Vec::new();
        for block in 0..self.blocks {
            let ran = Tool::Whyslow.run(&load, &self.server.address.to_string(), &self.cpus.load)?;
            rows.push(vec![
                block.to_string(),
                page::figure(ran.rate_ratio, 4),
                page::figure(Some(ran.mib), 1),
                page::figure(Some(ran.cpu_us), 2),
            ]);
        }
        let table = page::table(&["block", "rate ratio", "memory MiB", "CPU µs/request"], &rows);
        Ok(self.section("10 000 connections at 30 000 requests/s", &table, &[]))
    }

    /// Requests per second of whyslow and of wrk against a server that costs more than either.
    fn witness(&self) -> anyhow::Result<String> {
        let work = Server::planted("spin", WITNESS_WORK_NS, &self.cpus)?;
        let mut rows = self.beside_wrk(&format!("{} µs of work a request", WITNESS_WORK_NS / 1000), &work)?;
        drop(work);
        rows.extend(
            self.beside_wrk("whyslow serve --model threads", &Server::built_in("threads", &self.cpus)?)?,
        );
        let table = page::table(&["server", "generator", "requests/s", "whyslow / it"], &rows);
        let note = "Where the server does the same work whatever the generator does, both count the same. A server whose \
                    threads are woken for each request does less of its own where requests come in batches, and that is \
                    the generator's doing: a cheaper one leaves it more.";
        Ok(format!("{}\n{note}\n", self.section("Requests/s where the server is the limit", &table, &[])))
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
