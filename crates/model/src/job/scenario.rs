//! Scenarios: what one user does, step by step, with values that answers give.
//!
//! Nothing here opens a file or reads a clock: the text is an argument, and so are answers.

use std::collections::BTreeMap;
use std::time::Duration;

use regex::bytes::{Regex, RegexBuilder};
use serde::Deserialize;
use serde_json::Value;

use super::fill::{Data, Piece, check, is_word, pieces};
use super::read::ReadError;
use super::{NamedRequest, Request};
use crate::plan::SplitMix64;
use crate::units::Span;

/// Steps of a scenario at most: each has a row and a histogram in each thread.
pub const MAX_STEPS: usize = 64;
/// Values that a scenario takes at most: each user holds all of them.
pub const MAX_VALUES: usize = 32;
/// Longest value in bytes that is taken: above any token that goes into a header.
pub const MAX_VALUE_BYTES: usize = 16 * 1024;
/// Largest expression in bytes once it is compiled: it is tried on each answer, which takes time in proportion to the body, and to this
/// at worst.
const MAX_EXPRESSION_BYTES: usize = 1024 * 1024;

/// What each user does.
#[derive(Debug, Clone, PartialEq)]
pub struct Scenario {
    /// In their order; at least one.
    pub steps: Vec<Step>,
    /// What fills their placeholders: columns, and the values that steps take.
    pub data: Data,
}

/// One request of a user, and what becomes of its answer.
#[derive(Debug, Clone, PartialEq)]
pub struct Step {
    /// The request, with a name of its own; its weight means nothing.
    pub request: NamedRequest,
    /// What the user waits for before it.
    pub think: Think,
    /// What is taken from its answer.
    pub takes: Vec<Take>,
}

/// How long a user waits after an answer.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Think {
    /// The same each time.
    For(Duration),
    /// At random, exponentially, with this mean.
    About(Duration),
}

/// A value that is taken from an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Take {
    /// Which of [`Data::taken`] it is.
    pub value: usize,
    /// Where it stands.
    pub from: From,
}

/// Where a value stands in an answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum From {
    /// At this pointer of a body of JSON. Source: RFC 6901.
    Json(String),
    /// In this field.
    Header(String),
    /// In the body, behind the first of these and before what follows it of the second, or up to the end where that is empty.
    Between(String, String),
    /// What the first group of this expression matches in the body, or all of it where it has none.
    Matched(Expression),
}

/// A regular expression, which is alike where its text is.
#[derive(Debug, Clone)]
pub struct Expression(Regex);

impl Expression {
    fn read(text: &str) -> Result<Self, String> {
        let built = RegexBuilder::new(text).size_limit(MAX_EXPRESSION_BYTES).build();
        built.map(Self).map_err(|error| {
            // Its last line says what is wrong; those before it show where.
            let why = error.to_string();
            format!("'{text}' is no regular expression: {}", why.lines().last().unwrap_or_default().trim())
        })
    }

    fn find<'b>(&self, body: &'b [u8]) -> Option<&'b [u8]> {
        let found = self.0.captures(body)?;
        found.get(usize::from(self.0.captures_len() > 1)).map(|group| group.as_bytes())
    }
}

impl PartialEq for Expression {
    fn eq(&self, other: &Self) -> bool {
        self.0.as_str() == other.0.as_str()
    }
}

impl Eq for Expression {}

impl std::fmt::Display for From {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Json(pointer) => write!(f, "JSON {pointer}"),
            Self::Header(name) => write!(f, "header {name}"),
            Self::Between(after, before) => write!(f, "text after '{after}' and before '{before}'"),
            Self::Matched(expression) => write!(f, "match of '{}'", expression.0.as_str()),
        }
    }
}

impl Think {
    /// The wait in nanoseconds of user `arrival` before step `step`; the same seed gives the same.
    #[must_use]
    pub fn wait_ns(self, seed: u64, arrival: u64, step: usize) -> u64 {
        let ns = |duration: Duration| u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX);
        match self {
            Self::For(duration) => ns(duration),
            Self::About(mean) => {
                let of_step = seed ^ (step as u64 + 1).rotate_left(32);
                let unit = SplitMix64::fork(of_step, "think", arrival).unit();
                (-(1.0 - unit).ln() * ns(mean) as f64) as u64
            }
        }
    }
}

/// Why a value cannot be taken from an answer.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Lack {
    /// It is not there.
    Absent,
    /// It has more than [`MAX_VALUE_BYTES`].
    TooLong,
    /// It has a line break or a NUL, which could end a field.
    LineBreak,
    /// It is to be the whole path, and is none, or a URL of another host.
    OtherHost,
}

impl std::fmt::Display for Lack {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Absent => "is not there",
            Self::TooLong => "is longer than 16 KiB, the most that is kept",
            Self::LineBreak => "has a line break or a NUL, which no request may have",
            Self::OtherHost => "is neither a path nor a URL of the host that is asked",
        })
    }
}

impl From {
    /// The value in an answer with these `fields` and `body`; nothing where it is not there, or cannot stand in a request.
    #[must_use]
    pub fn find<'a>(
        &self,
        fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) -> Option<Vec<u8>> {
        self.look(fields, body).ok()
    }

    /// The same, with why there is none.
    ///
    /// # Errors
    /// [`Lack`]
    pub fn look<'a>(
        &self,
        mut fields: impl Iterator<Item = (&'a [u8], &'a [u8])>,
        body: &[u8],
    ) -> Result<Vec<u8>, Lack> {
        let found = match self {
            Self::Json(pointer) => json(pointer, body),
            Self::Header(wanted) => {
                let is = |name: &[u8]| name.eq_ignore_ascii_case(wanted.as_bytes());
                fields.find(|(name, _)| is(name)).map(|(_, value)| value.to_vec())
            }
            Self::Between(after, before) => {
                between(after.as_bytes(), before.as_bytes(), body).map(<[u8]>::to_vec)
            }
            Self::Matched(expression) => expression.find(body).map(<[u8]>::to_vec),
        };
        // What it fills may be a field, which a line break would end.
        match found {
            None => Err(Lack::Absent),
            Some(value) if value.len() > MAX_VALUE_BYTES => Err(Lack::TooLong),
            Some(value) if value.iter().any(|byte| b"\r\n\0".contains(byte)) => Err(Lack::LineBreak),
            Some(value) => Ok(value),
        }
    }
}

/// A text, a number or a truth value; anything else is none to fill in.
fn json(pointer: &str, body: &[u8]) -> Option<Vec<u8>> {
    let whole: Value = serde_json::from_slice(body).ok()?;
    match whole.pointer(pointer)? {
        Value::String(text) => Some(text.clone().into_bytes()),
        scalar @ (Value::Number(_) | Value::Bool(_)) => Some(scalar.to_string().into_bytes()),
        Value::Null | Value::Array(_) | Value::Object(_) => None,
    }
}

fn between<'a>(after: &[u8], before: &[u8], body: &'a [u8]) -> Option<&'a [u8]> {
    let begin = position(after, body)? + after.len();
    let rest = &body[begin..];
    Some(&rest[..if before.is_empty() { rest.len() } else { position(before, rest)? }])
}

fn position(wanted: &[u8], bytes: &[u8]) -> Option<usize> {
    bytes.windows(wanted.len()).position(|window| window == wanted)
}

/// A file as it is written.
#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct File {
    #[serde(default)]
    step: Vec<Written>,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct Written {
    name: Option<String>,
    request: String,
    #[serde(default)]
    headers: BTreeMap<String, String>,
    body: Option<String>,
    think: Option<WrittenThink>,
    #[serde(default)]
    take: BTreeMap<String, WrittenTake>,
}

#[derive(Deserialize)]
#[serde(untagged)]
enum WrittenThink {
    For(String),
    About { mean: String },
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WrittenTake {
    json: Option<String>,
    header: Option<String>,
    after: Option<String>,
    before: Option<String>,
    regex: Option<String>,
}

impl Scenario {
    /// Reads the text of a scenario. Fields of `pattern` are added to all requests, in the place of those of the same name;
    /// `data` has columns that fill them.
    ///
    /// # Errors
    /// [`ReadError`], one sentence.
    pub fn read(file: &str, text: &str, pattern: &Request, data: Option<&Data>) -> Result<Self, ReadError> {
        let wrong = |line, why: String| ReadError { file: file.to_owned(), line, why };
        let written: File = toml::from_str(text).map_err(|error| {
            let line = error.span().map_or(0, |span| 1 + text[..span.start].matches('\n').count());
            wrong(line, error.message().trim().replace('\n', " "))
        })?;
        let mut scenario = Self { steps: Vec::new(), data: data.cloned().unwrap_or_default() };
        if !(1..=MAX_STEPS).contains(&written.step.len()) {
            let count = written.step.len();
            return Err(wrong(0, format!("it has {count} steps: write from 1 to {MAX_STEPS} of [[step]]")));
        }
        for step in &written.step {
            scenario.declare(step).map_err(|why| wrong(0, why))?;
        }
        let mut taken = vec![false; scenario.data.taken.len()];
        for (index, step) in written.step.iter().enumerate() {
            let title = step.name.as_ref().unwrap_or(&step.request);
            scenario
                .add(index, step, pattern, &mut taken)
                .map_err(|why| wrong(0, format!("step '{title}': {why}")))?;
        }
        Ok(scenario)
    }

    /// Notes the values that a step takes.
    fn declare(&mut self, step: &Written) -> Result<(), String> {
        for name in step.take.keys() {
            let built_in = ["n", "uuid", "random"].contains(&name.as_str());
            if !is_word(name) || built_in || self.data.columns.contains(name) {
                return Err(format!(
                    "'{name}' cannot be the name of a value: write letters, digits, '-', '_' and '.', and no column nor n, uuid or random"
                ));
            }
            if !self.data.taken.contains(name) {
                self.data.taken.push(name.clone());
            }
        }
        match self.data.taken.len() {
            0..=MAX_VALUES => Ok(()),
            count => Err(format!("it takes {count} values: take at most {MAX_VALUES}")),
        }
    }

    fn add(
        &mut self,
        index: usize,
        step: &Written,
        pattern: &Request,
        taken: &mut [bool],
    ) -> Result<(), String> {
        let request = step.request(pattern)?;
        check(&request, Some(&self.data))?;
        self.check_taken(&request, taken)?;
        let think = step.think(index)?;
        let name = step.name.clone().unwrap_or_else(|| step.request.clone());
        if self.steps.iter().any(|other| other.request.name == name) {
            return Err("another step has the same name: give each its own".to_owned());
        }
        let mut takes = Vec::new();
        for (value, from) in &step.take {
            let place = self.data.taken.iter().position(|name| name == value);
            let value = place.ok_or_else(|| format!("{value} was not noted"))?;
            taken[value] = true;
            takes.push(Take { value, from: from.read()? });
        }
        let request = NamedRequest { name, weight: 1.0, request, expected_status: None };
        self.steps.push(Step { request, think, takes });
        Ok(())
    }

    /// Whether every value that a request needs was taken before it.
    fn check_taken(&self, request: &Request, taken: &[bool]) -> Result<(), String> {
        let values = request.fields.iter().map(|(_, value)| value.as_bytes());
        let target = request.target.as_deref().unwrap_or_default().as_bytes();
        for text in values.chain([target, &request.body]) {
            for piece in pieces(text, Some(&self.data))? {
                if let Piece::Taken(value) = piece
                    && !taken[value]
                {
                    let name = &self.data.taken[value];
                    return Err(format!("it uses {{{name}}}, which no step before it takes"));
                }
            }
        }
        Ok(())
    }
}

/// Whether `target` is one word in braces.
fn is_one_word(target: &str) -> bool {
    target.strip_prefix('{').and_then(|rest| rest.strip_suffix('}')).is_some_and(is_word)
}

impl Written {
    fn request(&self, pattern: &Request) -> Result<Request, String> {
        let (method, target) = match self.request.split_once(' ') {
            Some((method, target)) => (method, target.trim()),
            None => ("GET", self.request.as_str()),
        };
        if !target.starts_with('/') && !is_one_word(target) {
            return Err(format!(
                "'{}' is not METHOD /path: write such as 'GET /items', or 'GET {{name}}' where the value of a name is the whole path",
                self.request
            ));
        }
        let added = |name: &String| pattern.fields.iter().any(|(other, _)| other.eq_ignore_ascii_case(name));
        let own = self.headers.iter().filter(|(name, _)| !added(name));
        let fields = own.map(|(name, value)| (name.clone(), value.clone())).chain(pattern.fields.clone());
        Ok(Request {
            method: method.to_owned(),
            target: Some(target.to_owned()),
            fields: fields.collect(),
            body: self.body.clone().unwrap_or_default().into_bytes(),
        })
    }

    fn think(&self, index: usize) -> Result<Think, String> {
        let span = |text: &str| text.parse::<Span>().map(|span| span.0).map_err(|error| error.to_string());
        match &self.think {
            None => Ok(Think::For(Duration::ZERO)),
            Some(_) if index == 0 => {
                Err("users think after an answer, and the first step follows none: leave think out"
                    .to_owned())
            }
            Some(WrittenThink::For(text)) => span(text).map(Think::For),
            Some(WrittenThink::About { mean }) => span(mean).map(Think::About),
        }
    }
}

impl WrittenTake {
    fn read(&self) -> Result<From, String> {
        match (&self.json, &self.header, &self.after, &self.regex) {
            (Some(pointer), None, None, None) if self.before.is_none() => {
                match pointer.is_empty() || pointer.starts_with('/') {
                    true => Ok(From::Json(pointer.clone())),
                    false => Err(format!("'{pointer}' is no JSON pointer: write such as /items/0/id")),
                }
            }
            (None, Some(name), None, None) if self.before.is_none() => Ok(From::Header(name.clone())),
            (None, None, None, Some(text)) if self.before.is_none() => Expression::read(text).map(From::Matched),
            (None, None, Some(after), None) if !after.is_empty() => {
                Ok(From::Between(after.clone(), self.before.clone().unwrap_or_default()))
            }
            _ => Err(
                "a value is taken from one place: write { json = \"/pointer\" }, { header = \"Name\" }, { after = \"text\", before = \"text\" } or { regex = 'expression' }"
                    .to_owned(),
            ),
        }
    }
}
