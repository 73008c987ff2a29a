//! Goroutines of an arm that waited, by what for and where, per request, where that was seen. By Little's law, how many wait at a time over
//! the rate is how long each request waits.

use std::collections::BTreeMap;

use model::job::Protocol;
use model::record::{Frame, PassKind, Waits, WaitsFor, Window};

use super::asker::{asker, place};
use super::passes::{PassFindings, answers_alike, is_used};
use super::sheet::Sheet;

/// Readings of all goroutines below which they tell nothing.
const FEWEST: u64 = 10;
/// Functions under which requests are answered, each in a goroutine that waits for the network until the next one comes. Source: Go,
/// net/http/server.go, h2_bundle.go; golang.org/x/net/http2; github.com/valyala/fasthttp; google.golang.org/grpc.
const ANSWERS: [&str; 5] = [
    "net/http.(*conn).serve",
    "net/http.(*http2serverConn).runHandler",
    "golang.org/x/net/http2.(*serverConn).runHandler",
    "github.com/valyala/fasthttp.(*Server).serveConn",
    "google.golang.org/grpc.(*Server).handleStream",
];

/// Beginnings of the names of functions that are no handler's: of these servers, and of what they read with.
const SERVES: [&str; 11] = [
    "net/http.",
    "golang.org/x/net/http2.",
    "github.com/valyala/fasthttp.",
    "google.golang.org/grpc",
    "net.",
    "bufio.",
    "io.",
    "crypto/",
    "internal/",
    "runtime.",
    "sync.",
];
/// The same of functions that read the request itself, for a handler.
const READS_REQUEST: [&str; 2] = ["net/http.(*connReader)", "net/http.(*body)"];

/// Goroutines that waited for one thing in one function.
#[derive(Debug, Clone)]
pub(crate) struct ParkedAt {
    pub(crate) waits_for: WaitsFor,
    /// The function of the program, in the line in which most of them are.
    pub(crate) place: Option<Frame>,
    /// Whether that is a function that asked to wait, and not one of what waiting is made of.
    pub(crate) is_asked: bool,
    /// Whether they answer requests: what they wait, a request waits.
    pub(crate) answers: bool,
    /// How many wait at a time.
    pub(crate) at_a_time: f64,
    /// How long, of each request, in nanoseconds.
    pub(crate) ns: f64,
}

/// What tells places apart.
type Key = (WaitsFor, Option<String>, bool, bool);

/// How many goroutines wait at a time in the lines of one place, in windows of a time, as the sum of their products in nanoseconds.
type Lines = BTreeMap<Option<Frame>, f64>;

/// The goroutines of `arm`, most first; nothing where they were not seen, or watching changed the server. They tell where it waits, and
/// so they need less than what ended its waits does: that it was not shown to answer at another rate.
pub(crate) fn parked(sheet: &Sheet, arm: &str, passes: &[PassFindings]) -> Option<Vec<ParkedAt>> {
    if !is_used(passes, arm, PassKind::Waking) && !answers_alike(sheet, arm, PassKind::Waking) {
        return None;
    }
    let records = sheet.run.diagnostics.iter().filter(|record| record.arm == arm);
    let watched = records.flat_map(|record| &record.passes);
    let watched: Vec<(&Window, &Waits)> = watched
        .filter_map(|pass| Some((&pass.window, pass.waits.as_ref()?)))
        .filter(|(_, waits)| waits.goroutines.iter().any(|process| process.readings > 0))
        .collect();
    let readings: u64 = watched.iter().flat_map(|(_, waits)| &waits.goroutines).map(|one| one.readings).sum();
    if readings < FEWEST {
        return None;
    }
    let sum =
        |of: fn(&Window) -> u64| watched.iter().map(|(window, _)| of(window)).sum::<u64>().max(1) as f64;
    let (wall_ns, requests) = (sum(|window| window.load.window_ns), sum(|window| window.load.requests));
    let mut places: BTreeMap<Key, Lines> = BTreeMap::new();
    // Who talks over a connection that was upgraded waits for the client in a handler.
    let asks = !matches!(sheet.plan().workload.job.protocol, Protocol::WebSocket { .. });
    watched.iter().for_each(|(window, waits)| add(&mut places, window, waits, asks));
    let at = |((waits_for, _, is_asked, answers), lines): (Key, Lines)| {
        let ns: f64 = lines.values().sum();
        let most = lines.into_iter().max_by(|a, b| a.1.total_cmp(&b.1));
        let place = most.and_then(|(frame, _)| frame);
        ParkedAt { waits_for, place, is_asked, answers, at_a_time: ns / wall_ns, ns: ns / requests }
    };
    let mut parked: Vec<ParkedAt> = places.into_iter().map(at).collect();
    parked.sort_by(|a, b| b.ns.total_cmp(&a.ns));
    Some(parked)
}

/// Adds the goroutines of all processes in one window; of those that wait for the network the ones that `asks` and a handler tell have asked
/// somebody.
fn add(places: &mut BTreeMap<Key, Lines>, window: &Window, waits: &Waits, asks: bool) {
    for process in waits.goroutines.iter().filter(|process| process.readings > 0) {
        for leaf in &process.leaves {
            let frames = || waits.frames_of(&leaf.waited_in);
            if leaf.waits_for == WaitsFor::Network && !(asks && has_asked(frames())) {
                continue;
            }
            let place = place(frames).cloned();
            let answers = frames().any(|frame| ANSWERS.contains(&frame.name.as_str()));
            let function = place.as_ref().map(|frame| frame.name.clone());
            let key = (leaf.waits_for, function, asker(frames()).is_some(), answers);
            let at_a_time = leaf.count as f64 / process.readings as f64;
            let line = places.entry(key).or_default().entry(place).or_default();
            *line += at_a_time * window.load.window_ns as f64;
        }
    }
}

/// Whether a goroutine that waits for the network is in a handler that waits for somebody else than the client.
fn has_asked<'a>(frames: impl Iterator<Item = &'a Frame>) -> bool {
    let names = frames.map(|frame| frame.name.as_str());
    let mut served = names.skip_while(|name| !ANSWERS.contains(name));
    let begins = |name: &str, with: &[&str]| with.iter().any(|begin| name.starts_with(begin));
    let in_handler = served.any(|name| !begins(name, &SERVES));
    in_handler && !served.any(|name| begins(name, &READS_REQUEST))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_goroutine_that_waits_for_the_network_has_asked_somebody_or_waits_for_a_request() {
        let read = "net.(*conn).Read internal/poll.(*FD).Read runtime.netpollblock";
        let serve = "runtime.goexit net/http.(*conn).serve";
        let handler = "net/http.serverHandler.ServeHTTP net/http.HandlerFunc.ServeHTTP main.find";
        for (stack, asked) in [
            (format!("{serve} bufio.(*Reader).Peek net/http.(*connReader).Read {read}"), false),
            (format!("{serve} {handler} github.com/miekg/dns.(*Conn).ReadMsg {read}"), true),
            (
                format!(
                    "{serve} {handler} io.ReadAll net/http.(*body).Read net/http.(*connReader).Read {read}"
                ),
                false,
            ),
            (
                format!(
                    "runtime.goexit github.com/valyala/fasthttp.(*Server).serveConn bufio.(*Reader).fill {read}"
                ),
                false,
            ),
            (
                format!(
                    "runtime.goexit github.com/valyala/fasthttp.(*Server).serveConn main.find github.com/valyala/fasthttp.(*HostClient).Do {read}"
                ),
                true,
            ),
            // The reader of a client's connection: whoever asked waits elsewhere.
            (format!("runtime.goexit net/http.(*persistConn).readLoop {read}"), false),
        ] {
            let frame = |name: &str| Frame { name: name.to_owned(), ..Frame::default() };
            let frames: Vec<Frame> = stack.split_whitespace().map(frame).collect();
            assert_eq!(has_asked(frames.iter()), asked, "{stack}");
        }
    }
}
