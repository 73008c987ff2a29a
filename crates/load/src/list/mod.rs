//! Requests that differ: drawn by weight, or an access log that is replayed with its own timing.

mod access_log;
mod rendered;

use std::collections::{HashMap, HashSet};
use std::sync::Arc;

use model::job::fill::Place;
use model::job::read::{MAX_NAMES, MAX_REQUESTS};
use model::job::{self, Data, NamedRequest, Requests};
use model::plan::SplitMix64;

use crate::schedule::{Arrival, Dispatch, Intensity, Pace, Part};
use crate::session::{Batch, Feed, FeedError};
use crate::{LoadError, Request, Target};
pub(crate) use rendered::Rendered;

/// Requests at most in a list: a day's log of a busy server, rendered in memory.
pub const MAX_ENTRIES: usize = 10_000_000;

/// Requests to choose from. Which one arrival k gets depends on k and the seed alone, so that shards and threads send
/// together what one alone would send.
#[derive(Debug, Clone, PartialEq)]
pub struct List {
    /// Rendered requests; what a log asks for again is here once.
    requests: Vec<Rendered>,
    /// Where the name of each request is in `names`; empty where none has one.
    labels: Vec<Option<u16>>,
    names: Vec<String>,
    /// The only status that is right for each name, where it has one of its own.
    expected: Vec<Option<u16>>,
    data: Option<Arc<Data>>,
    order: Order,
    /// Lines of a log that hold no request: their clients connected and said nothing that was HTTP.
    pub skipped: u64,
}

#[derive(Debug, Clone, PartialEq)]
enum Order {
    /// Drawn at random; up to which part of 1 each request has its share.
    Drawn { up_to: Vec<f64> },
    /// One after the other.
    Logged {
        /// Which request each arrival is.
        sequence: Vec<u32>,
        /// When each is due, in seconds after the first, never falling.
        instants_s: Arc<[f64]>,
    },
}

impl List {
    /// Requests that are drawn at random by weight, their placeholders filled; `target` says what they leave open.
    ///
    /// # Errors
    /// [`LoadError::List`] with the number of the request.
    pub fn drawn(
        requests: &[NamedRequest],
        data: Option<Arc<Data>>,
        target: &Target,
    ) -> Result<Self, LoadError> {
        let mut names: Vec<String> = requests.iter().map(|named| named.name.clone()).collect();
        names.sort_unstable();
        names.dedup();
        names.retain(|name| !name.is_empty());
        let label = |named: &NamedRequest| Some(names.binary_search(&named.name).ok()? as u16);
        let labels = requests.iter().map(label).collect();
        let of_name = |name: &String| requests.iter().find(|named| named.name == *name)?.expected_status;
        let expected = names.iter().map(of_name).collect();
        let rendered = requests.iter().enumerate().map(|(index, named)| {
            Rendered::new(&named.request, data.as_deref(), target).map_err(at(index + 1))
        });
        let rendered: Vec<Rendered> = rendered.collect::<Result<_, _>>()?;
        let whole: f64 = requests.iter().map(|named| named.weight).sum();
        if !whole.is_finite() || whole <= 0.0 {
            return Err(at(0)("it has no request with a weight above 0".to_owned()));
        }
        let mut sum = 0.0;
        let share = |named: &NamedRequest| {
            sum += named.weight / whole;
            sum
        };
        let order = Order::Drawn { up_to: requests.iter().map(share).collect() };
        Ok(Self { requests: rendered, labels, names, expected, data, order, skipped: 0 })
    }

    /// The names that have rows, in the order of their labels.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// Reads an access log in common or combined format. Each line is a request with the template's fields, due
    /// after the first as much later as the log says, divided by `speed`. A log tells whole seconds: what falls
    /// into the same one is spread over it evenly.
    ///
    /// # Errors
    /// [`LoadError::List`] with the number of the line.
    pub fn access_log(text: &str, template: &Request, speed: f64) -> Result<Self, LoadError> {
        if !(speed.is_finite() && speed > 0.0) {
            return Err(LoadError::Config("the speed of a replay must be above 0"));
        }
        let (mut seconds, mut skipped) = (Vec::new(), 0);
        let mut known = access_log::Known::default();
        for (number, line) in lines(text) {
            let Some((second, request)) = access_log::entry(line, template).map_err(at(number))? else {
                skipped += 1;
                continue;
            };
            let index = known.index(&request).map_err(|error| at(number)(error.to_string()))?;
            seconds.push((second, index));
            limit(seconds.len(), number, MAX_ENTRIES)?;
        }
        if seconds.is_empty() {
            return Err(at(0)("it has no request".to_owned()));
        }
        // A server writes a line when it has answered: requests that took longer come later than they were sent.
        seconds.sort_by_key(|(second, _)| *second);
        let instants_s = access_log::spread(&seconds, speed);
        let sequence = seconds.into_iter().map(|(_, index)| index).collect();
        let order = Order::Logged { sequence, instants_s: instants_s.into() };
        let requests = known.rendered.into_iter().map(Rendered::Fixed).collect();
        let (labels, names, expected) = (Vec::new(), Vec::new(), Vec::new());
        Ok(Self { requests, labels, names, expected, data: None, order, skipped })
    }

    /// The schedule that goes with the list, if it has one of its own.
    #[must_use]
    pub fn pace(&self) -> Option<Pace> {
        match &self.order {
            Order::Drawn { .. } => None,
            Order::Logged { instants_s, .. } => Some(Pace::Open {
                intensity: Intensity::Recorded(Arc::clone(instants_s)),
                arrival: Arrival::Constant,
                dispatch: Dispatch::Shared,
            }),
        }
    }

    /// When the last request is due, in seconds after the first, if the list says.
    #[must_use]
    pub fn lasts_s(&self) -> Option<f64> {
        match &self.order {
            Order::Drawn { .. } => None,
            Order::Logged { instants_s, .. } => instants_s.last().copied(),
        }
    }

    /// How many requests there are, if the list says when each is due and all are within the first `window_s` seconds.
    #[must_use]
    pub fn whole_within(&self, window_s: f64) -> Option<u64> {
        match &self.order {
            Order::Logged { instants_s, .. } if self.lasts_s() < Some(window_s) => {
                Some(instants_s.len() as u64)
            }
            _ => None,
        }
    }

    /// Which request arrival `k` is.
    fn index(&self, seed: u64, k: u64) -> usize {
        match &self.order {
            Order::Drawn { up_to } => {
                let drawn = SplitMix64::fork(seed, "requests", k).unit();
                // The sum of the shares may fall short of 1 by a rounding.
                up_to.partition_point(|edge| *edge <= drawn).min(up_to.len() - 1)
            }
            // Only a request that is sent again asks for more than there are.
            Order::Logged { sequence, .. } => sequence[(k % sequence.len() as u64) as usize] as usize,
        }
    }

    /// Adds the request of arrival `k` to a batch.
    fn ask(&self, seed: u64, k: u64, scratch: &mut Vec<u8>, batch: &mut Batch) {
        let index = self.index(seed, k);
        let place = Place { seed, arrival: k, data: self.data.as_deref(), taken: &[] };
        let label = self.labels.get(index).copied().flatten();
        batch.write(label, |out| self.requests[index].write(&place, scratch, out));
    }
}

/// What a job asks of one server.
#[derive(Debug)]
pub enum JobRequests {
    /// One request again and again, which nothing fills.
    Same,
    /// Requests that differ.
    Each(List),
}

impl JobRequests {
    /// What `requests` are to `target`; `data` fills their placeholders.
    ///
    /// # Errors
    /// [`LoadError`] where one cannot be sent.
    pub fn new(requests: &Requests, data: Option<Arc<Data>>, target: &Target) -> Result<Self, LoadError> {
        match requests {
            Requests::Drawn(requests) => List::drawn(requests, data, target).map(Self::Each),
            Requests::Same(request) => {
                if Request::for_target(request, target).is_literal(data.as_deref()) {
                    return Ok(Self::Same);
                }
                let only = NamedRequest {
                    name: String::new(),
                    weight: 1.0,
                    request: request.clone(),
                    expected_status: None,
                };
                List::drawn(&[only], data, target).map(Self::Each).map_err(without_list)
            }
        }
    }
}

/// The requests of an access log, each as often as it is in there, with the fields of `pattern`; and how many lines hold none.
/// Those of one method and path share a name, but for a log of more paths than can have rows.
///
/// # Errors
/// [`LoadError::List`] with the number of the line.
pub fn logged(text: &str, pattern: &job::Request) -> Result<(Vec<NamedRequest>, u64), LoadError> {
    let template = Request {
        method: pattern.method.clone(),
        path: "/".to_owned(),
        headers: pattern.fields.clone(),
        body: pattern.body.clone(),
    };
    let (mut requests, mut known, mut skipped) = (Vec::<NamedRequest>::new(), HashMap::new(), 0);
    for (number, line) in lines(text) {
        let Some((_, request)) = access_log::entry(line, &template).map_err(at(number))? else {
            skipped += 1;
            continue;
        };
        let index = *known.entry((request.method.clone(), request.path.clone())).or_insert(requests.len());
        if index == requests.len() {
            limit(requests.len(), number, MAX_REQUESTS)?;
            requests.push(of_log(request));
        }
        requests[index].weight += 1.0;
    }
    if requests.is_empty() {
        return Err(at(0)("it has no request".to_owned()));
    }
    let names: HashSet<&str> = requests.iter().map(|named| named.name.as_str()).collect();
    if names.len() > MAX_NAMES {
        requests.iter_mut().for_each(|named| named.name.clear());
    }
    Ok((requests, skipped))
}

/// A request that was not seen yet.
fn of_log(request: Request) -> NamedRequest {
    let path = request.path.split('?').next().unwrap_or_default();
    NamedRequest {
        name: format!("{} {path}", request.method),
        weight: 0.0,
        request: job::Request {
            method: request.method,
            target: Some(request.path),
            fields: request.headers,
            body: request.body,
        },
        expected_status: None,
    }
}

/// What one worker takes from a list.
#[derive(Debug)]
pub(crate) struct ListFeed {
    list: Arc<List>,
    seed: u64,
    part: Part,
    next: u64,
    /// For bodies, so that none is allocated.
    scratch: Vec<u8>,
}

impl ListFeed {
    pub(crate) fn new(list: Arc<List>, seed: u64, part: Part) -> Self {
        Self { list, seed, part, next: part.part, scratch: Vec::new() }
    }
}

impl Feed for ListFeed {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        self.list.ask(self.seed, self.next, &mut self.scratch, batch);
        self.next += self.part.parts;
        Ok(())
    }

    fn labels(&self) -> Vec<Option<u16>> {
        self.list.expected.clone()
    }

    fn window_begins(&mut self) {
        self.next = self.part.part;
    }
}

/// The lines that count, with their numbers from 1.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let numbered = text.lines().enumerate().map(|(index, line)| (index + 1, line.trim()));
    numbered.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'))
}

fn at(line: usize) -> impl Fn(String) -> LoadError {
    move |why| LoadError::List { line, why }
}

/// An error of the only request there is, which stands in no list.
fn without_list(error: LoadError) -> LoadError {
    match error {
        LoadError::List { why, .. } => LoadError::List { line: 0, why },
        other => other,
    }
}

fn limit(entries: usize, line: usize, most: usize) -> Result<(), LoadError> {
    if entries <= most {
        return Ok(());
    }
    Err(at(line)(format!("there are more than {most} requests: give a part of them")))
}
