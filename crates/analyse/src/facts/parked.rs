//! Goroutines of an arm that waited, by what for and where, per request, where that was seen. By Little's law, how many wait at a time over
//! the rate is how long each request waits.

use std::collections::BTreeMap;

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
    watched.iter().for_each(|(window, waits)| add(&mut places, window, waits));
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

/// Adds the goroutines of all processes in one window.
fn add(places: &mut BTreeMap<Key, Lines>, window: &Window, waits: &Waits) {
    for process in waits.goroutines.iter().filter(|process| process.readings > 0) {
        for leaf in &process.leaves {
            let frames = || waits.frames_of(&leaf.waited_in);
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
