//! Users who go through the steps of a scenario.

use std::fmt;
use std::sync::Arc;

use http1::response::headers;
use model::job;
use model::job::fill::{Piece, Place, pieces, whole_path};
use model::job::scenario::{Lack, Take, Think};

use crate::list::Rendered;
use crate::schedule::Part;
use crate::session::{Batch, Feed, FeedError, Heard, Missing, Next, User};
use crate::{LoadError, Target};

/// Users under way at most, over all threads: whoever comes then waits, and is late.
const MAX_USERS: u32 = 100_000;
/// Bytes of values that users of all threads hold; whoever comes when they are used up waits, too.
const MAX_HELD_BYTES: usize = 256 * 1024 * 1024;

/// A scenario whose requests are rendered as far as they can be.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    steps: Vec<Step>,
    names: Vec<String>,
    /// The only status that is right for each of them, where it has one of its own.
    expected: Vec<Option<u16>>,
    data: job::Data,
    /// Of each value whether it is the whole path of a step.
    whole: Vec<bool>,
    /// Host and port of the server.
    authority: String,
}

#[derive(Debug, Clone, PartialEq)]
struct Step {
    request: Rendered,
    think: Think,
    takes: Vec<Take>,
}

impl Scenario {
    /// The steps of `scenario` as requests to `target`.
    ///
    /// # Errors
    /// [`LoadError::List`], which names the step.
    pub fn new(scenario: &job::scenario::Scenario, target: &Target) -> Result<Self, LoadError> {
        let step = |(index, step): (usize, &job::scenario::Step)| {
            let request =
                Rendered::new(&step.request.request, Some(&scenario.data), target).map_err(|why| {
                    LoadError::List { line: 0, why: format!("step {} of the scenario: {why}", index + 1) }
                })?;
            Ok(Step { request, think: step.think, takes: step.takes.clone() })
        };
        Ok(Self {
            steps: scenario.steps.iter().enumerate().map(step).collect::<Result<_, LoadError>>()?,
            names: scenario.steps.iter().map(|step| step.request.name.clone()).collect(),
            expected: scenario.steps.iter().map(|step| step.request.expected_status).collect(),
            whole: whole_paths(scenario),
            authority: target.authority.clone(),
            data: scenario.data.clone(),
        })
    }

    /// The names of its steps, in their order, which is that of their labels.
    #[must_use]
    pub fn names(&self) -> &[String] {
        &self.names
    }

    /// What value `take` of step `step` is, in words.
    pub(crate) fn value(&self, missing: Missing) -> String {
        let step = usize::from(missing.step);
        let take = &self.steps[step].takes[usize::from(missing.take)];
        let (name, value) = (&self.names[step], &self.data.taken[take.value]);
        match missing.why {
            Lack::Absent => format!("'{name}' had no {value} ({})", take.from),
            why => format!("'{name}' had a {value} that {why} ({})", take.from),
        }
    }

    /// Why a value that was found cannot stand where it is to.
    fn misfit(&self, value: usize, found: &[u8]) -> Option<Lack> {
        let whole = self.whole.get(value).copied().unwrap_or_default();
        (whole && whole_path(found, &self.authority).is_none()).then_some(Lack::OtherHost)
    }
}

/// Of each value that `scenario` takes whether it is the whole path of a step.
fn whole_paths(scenario: &job::scenario::Scenario) -> Vec<bool> {
    let mut whole = vec![false; scenario.data.taken.len()];
    for step in &scenario.steps {
        let target = step.request.request.target.as_deref().unwrap_or_default();
        if let Ok([Piece::Taken(value)]) = pieces(target.as_bytes(), Some(&scenario.data)).as_deref() {
            whole[*value] = true;
        }
    }
    whole
}

/// One user under way.
#[derive(Debug, Default)]
struct Visitor {
    arrival: u64,
    step: u16,
    /// When the first step was due.
    begun_ns: u64,
    values: Vec<Vec<u8>>,
}

impl Visitor {
    fn held_bytes(&self) -> usize {
        self.values.iter().map(Vec::len).sum()
    }
}

/// The users of one worker.
pub(crate) struct Visitors {
    scenario: Arc<Scenario>,
    seed: u64,
    part: Part,
    next: u64,
    users: Vec<Visitor>,
    free: Vec<User>,
    most: usize,
    held_bytes: usize,
    most_bytes: usize,
    scratch: Vec<u8>,
}

impl fmt::Debug for Visitors {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visitors").field("under_way", &self.under_way()).finish_non_exhaustive()
    }
}

impl Visitors {
    pub(crate) fn new(scenario: Arc<Scenario>, seed: u64, part: Part, threads: u32) -> Self {
        Self {
            scenario,
            seed,
            part,
            next: part.part,
            users: Vec::new(),
            free: Vec::new(),
            most: (MAX_USERS / threads).max(1) as usize,
            held_bytes: 0,
            most_bytes: MAX_HELD_BYTES / threads as usize,
            scratch: Vec::new(),
        }
    }

    fn ask(&mut self, user: User, batch: &mut Batch) {
        let visitor = &self.users[user as usize];
        let step = &self.scenario.steps[usize::from(visitor.step)];
        let place = Place {
            seed: self.seed,
            arrival: visitor.arrival,
            data: Some(&self.scenario.data),
            taken: &visitor.values,
        };
        let scratch = &mut self.scratch;
        batch.write(Some(visitor.step), |out| step.request.write(&place, scratch, out));
        batch.of_user(user, !step.takes.is_empty());
    }

    /// Takes the values of a step, or says which is not there.
    fn take(&mut self, user: User, heard: Option<&Heard>) -> Result<(), Missing> {
        let visitor = &mut self.users[user as usize];
        for (nth, take) in self.scenario.steps[usize::from(visitor.step)].takes.iter().enumerate() {
            let missing = |why| Missing { step: visitor.step, take: nth as u16, why };
            let heard = heard.ok_or(missing(Lack::Absent))?;
            let value = take.from.look(headers(&heard.head), &heard.body).map_err(missing)?;
            if let Some(why) = self.scenario.misfit(take.value, &value) {
                return Err(missing(why));
            }
            let before = std::mem::replace(&mut visitor.values[take.value], value);
            self.held_bytes = self.held_bytes - before.len() + visitor.values[take.value].len();
        }
        Ok(())
    }
}

impl Feed for Visitors {
    fn next(&mut self, batch: &mut Batch) -> Result<(), FeedError> {
        let user = self.free.pop().unwrap_or_else(|| {
            self.users.push(Visitor::default());
            (self.users.len() - 1) as User
        });
        let values = vec![Vec::new(); self.scenario.data.taken.len()];
        self.users[user as usize] = Visitor { arrival: self.next, step: 0, begun_ns: 0, values };
        self.next += self.part.parts;
        self.ask(user, batch);
        Ok(())
    }

    fn labels(&self) -> Vec<Option<u16>> {
        self.scenario.expected.clone()
    }

    fn window_begins(&mut self) {
        self.next = self.part.part;
    }

    fn listens(&self) -> bool {
        self.scenario.steps.iter().any(|step| !step.takes.is_empty())
    }

    fn has_users(&self) -> bool {
        true
    }

    fn limit_users(&mut self, most: u32) {
        self.most = self.most.min(most as usize);
    }

    fn has_room(&self) -> bool {
        self.under_way() < self.most && self.held_bytes < self.most_bytes
    }

    fn under_way(&self) -> usize {
        self.users.len() - self.free.len()
    }

    fn resume(&mut self, user: User, batch: &mut Batch) {
        self.ask(user, batch);
    }

    fn answered(&mut self, user: User, heard: Option<&Heard>, due_ns: u64, at: u64) -> Next {
        if self.users[user as usize].step == 0 {
            self.users[user as usize].begun_ns = due_ns;
        }
        if let Err(missing) = self.take(user, heard) {
            self.lost(user);
            return Next::Missing(missing);
        }
        let visitor = &mut self.users[user as usize];
        visitor.step += 1;
        let (arrival, step) = (visitor.arrival, usize::from(visitor.step));
        match self.scenario.steps.get(step) {
            Some(next) => Next::After { wait_ns: next.think.wait_ns(self.seed, arrival, step) },
            None => {
                let took_ns = at.saturating_sub(visitor.begun_ns);
                self.lost(user);
                Next::Finished { took_ns }
            }
        }
    }

    fn lost(&mut self, user: User) {
        let visitor = std::mem::take(&mut self.users[user as usize]);
        self.held_bytes -= visitor.held_bytes();
        self.free.push(user);
    }
}
