//! Protocols other than HTTP/1.1 in plain: each beside a generator that speaks it too.

use super::tool::{Load, Tool};
use super::wire::Wire;
use super::{Bench, Cpus, Server, Taken, page};

/// Speaks all of them on one port.
pub(super) const SERVER: &str = "protocols";
/// Debian's, which answers what it has read at once.
const OTHER_SERVER: &str = "h2o";
/// Connections where each has several requests in flight, and how many.
const CONNECTIONS: u32 = 16;
const STREAMS: u32 = 16;
/// Most that a request may cost beside one of another generator.
const BESIDE_OTHERS: f64 = 0.9;
/// The same for a gRPC call beside one of ghz, which uses reflection and a garbage collector.
const BESIDE_GHZ: f64 = 0.3;
/// Most that a request over HTTP/3 may cost beside one over HTTP/2 and TLS: QUIC encrypts and confirms in this process.
const HTTP3_COST: f64 = 1.5;

/// What is compared: the title, what of it is ours, what it is held against, and the most that it may cost.
struct Pair {
    title: &'static str,
    server: &'static str,
    ours: Tool,
    theirs: Tool,
    most: f64,
}

/// The columns of [`Taken::rows_beside`] where not plain whyslow is what is compared.
pub(super) const BESIDE: [&str; 5] =
    ["generator", "CPU µs/request", "the first / it", "requests/s", "memory MiB"];

impl Pair {
    /// Measures it in turns, as `load` says, and writes its section.
    fn section(&self, bench: &Bench, load: &Load, note: &str) -> anyhow::Result<String> {
        let Self { title, server, ours, theirs, most } = self;
        let taken: Taken = bench.tools(load, &[*ours, *theirs])?;
        let table = page::table(&BESIDE, &taken.rows_beside(*ours));
        let note = format!(
            " {} connections with {} in flight on each; the server is `{server}`, and CPUs may go idle.{note}{}",
            load.connections,
            load.pipeline,
            taken.missing_note()
        );
        Ok(bench.section(title, &taken.present, &note, &table, &[taken.bar(*ours, *theirs, *most)]))
    }
}

/// The same bench with another server. CPUs may go idle, as they may where a generator is run by itself: what keeps them awake is
/// another process, and to change between processes costs more than to sleep, which only a generator pays that has time to.
fn on_server(bench: &mut Bench, name: &str) -> anyhow::Result<Bench> {
    let cpus = Cpus::halves()?;
    let mut server = Server::of_target(name, &cpus)?;
    bench.server.let_cpus_idle();
    server.let_cpus_idle();
    Ok(Bench { cpus, server, blocks: bench.blocks, window_s: bench.window_s })
}

fn with_streams(bench: &Bench) -> Load {
    Load { connections: CONNECTIONS, pipeline: STREAMS, ..Load::closed(bench.window_s) }
}

/// HTTP/1.1 over TLS.
pub(super) fn tls(bench: &mut Bench) -> anyhow::Result<String> {
    let bench = on_server(bench, SERVER)?;
    let (ours, theirs) = (Tool::Over(Wire::Tls), Tool::H2loadOver(Wire::Tls));
    let pair = Pair { title: "HTTP/1.1 over TLS", server: SERVER, ours, theirs, most: BESIDE_OTHERS };
    pair.section(&bench, &Load::closed(bench.window_s), "")
}

/// HTTP/2 by prior knowledge: with a server that answers together what it has read together, and with one that writes each answer
/// by itself.
pub(super) fn http2(bench: &mut Bench) -> anyhow::Result<String> {
    let titles = [(OTHER_SERVER, "HTTP/2"), (SERVER, "HTTP/2, each answer in a write of its own")];
    let sections = titles.map(|(server, title)| {
        let bench = on_server(bench, server)?;
        let (ours, theirs) = (Tool::Over(Wire::Http2), Tool::H2loadOver(Wire::Http2));
        let pair = Pair { title, server, ours, theirs, most: BESIDE_OTHERS };
        pair.section(&bench, &with_streams(&bench), "")
    });
    Ok(sections.into_iter().collect::<anyhow::Result<Vec<_>>>()?.join("\n"))
}

/// HTTP/2 over TLS.
pub(super) fn http2_tls(bench: &mut Bench) -> anyhow::Result<String> {
    let bench = on_server(bench, SERVER)?;
    let (ours, theirs) = (Tool::Over(Wire::Http2Tls), Tool::H2loadOver(Wire::Http2Tls));
    let title = "HTTP/2 over TLS, each answer in a write of its own";
    let pair = Pair { title, server: SERVER, ours, theirs, most: BESIDE_OTHERS };
    pair.section(&bench, &with_streams(&bench), "")
}

/// Our own two protocols with streams over encrypted transport.
pub(super) fn http3(bench: &mut Bench) -> anyhow::Result<String> {
    let bench = on_server(bench, SERVER)?;
    let (ours, theirs) = (Tool::Over(Wire::Http3), Tool::Over(Wire::Http2Tls));
    let pair =
        Pair { title: "HTTP/3 beside HTTP/2 over TLS", server: SERVER, ours, theirs, most: HTTP3_COST };
    pair.section(&bench, &with_streams(&bench), " h2load of Debian 12 has no HTTP/3, so that both are ours.")
}

/// Unary calls.
pub(super) fn grpc(bench: &mut Bench) -> anyhow::Result<String> {
    let bench = on_server(bench, SERVER)?;
    let pair = Pair {
        title: "Calls of gRPC",
        server: SERVER,
        ours: Tool::Over(Wire::Grpc),
        theirs: Tool::Ghz,
        most: BESIDE_GHZ,
    };
    let note = " ghz is Go's: `go install github.com/bojand/ghz/cmd/ghz@latest`.";
    pair.section(&bench, &with_streams(&bench), note)
}

/// Messages that are sent back.
pub(super) fn websocket(bench: &mut Bench) -> anyhow::Result<String> {
    let bench = on_server(bench, SERVER)?;
    let pair = Pair {
        title: "Messages of WebSocket",
        server: SERVER,
        ours: Tool::Over(Wire::WebSocket),
        theirs: Tool::K6,
        most: BESIDE_OTHERS,
    };
    let note = " k6 is Go's: `go install go.k6.io/k6@latest`; its users are JavaScript.";
    pair.section(&bench, &Load::closed(bench.window_s), note)
}
