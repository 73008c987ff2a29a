//! Whether arms answer alike, where real answers differ from one to the next by themselves.
//!
//! Each arm is asked several times. What differs between two answers of the *same* arm (a time, the id of a request) is
//! not compared between arms; all else is. Whether the connection is closed after it is no part of an answer: new connections
//! are a cost, and have their place among the causes. A server that leaves one open when asked to close it does differ.

use std::collections::{BTreeMap, BTreeSet};

use model::plan::Same;
use model::record::{ArmAnswers, Reply};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::AnswersDiffer;
use super::encoding::decoded;

/// Relative difference in length of bodies that are no JSON and still alike.
const MAX_LENGTH_DIFFERENCE: f64 = 0.02;
/// Depth of JSON that is looked at; what is deeper counts as alike, so that no answer exhausts the stack.
const MAX_DEPTH: usize = 64;

/// What one arm answers and the other does not.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "what", rename_all = "snake_case")]
pub enum Difference {
    /// Another status.
    Status {
        /// Of the baseline.
        baseline: u16,
        /// Of the other arm.
        other: u16,
    },
    /// A field that only one has.
    Field {
        /// Its name, in lower case.
        name: String,
        /// Whether it is the baseline that has it.
        baseline: bool,
    },
    /// Another content type.
    ContentType {
        /// Of the baseline.
        baseline: String,
        /// Of the other arm.
        other: String,
    },
    /// Another type of a value in the JSON, or a key that only one has.
    Json {
        /// Where, such as `$.items[].id`.
        path: String,
        /// Types of the baseline there; empty where it has nothing there.
        baseline: BTreeSet<String>,
        /// Types of the other arm there.
        other: BTreeSet<String>,
    },
    /// Bodies of another length.
    Length {
        /// Bytes of the baseline.
        baseline: u64,
        /// Bytes of the other arm.
        other: u64,
    },
    /// Only one leaves a connection open when asked to close it.
    LeftOpen {
        /// Whether it is the baseline.
        baseline: bool,
    },
    /// Other bytes.
    Body {
        /// The first byte that differs, from 0.
        at: u64,
    },
}

/// What differs between the answers of two arms; empty where they answer alike, or where one of them gave none.
#[must_use]
pub fn differences(baseline: &[Reply], other: &[Reply], same: Same) -> Vec<Difference> {
    if baseline.is_empty() || other.is_empty() {
        return Vec::new();
    }
    let [baseline, other] = &[baseline, other].map(|replies| replies.iter().map(decoded).collect::<Vec<_>>());
    let mut found = Vec::new();
    if let (Some(a), Some(b)) = (common(baseline, |reply| reply.status), common(other, |reply| reply.status))
        && a != b
    {
        found.push(Difference::Status { baseline: a, other: b });
    }
    if same >= Same::Shape {
        fields(baseline, other, &mut found);
        content_type(baseline, other, &mut found);
        body(baseline, other, same, &mut found);
    }
    found
}

/// What all answers of one arm agree on.
fn common<T: PartialEq>(replies: &[Reply], of: impl Fn(&Reply) -> T) -> Option<T> {
    let first = of(replies.first()?);
    replies.iter().all(|reply| of(reply) == first).then_some(first)
}

/// Whether a field says how the connection and the body are framed: that is compared as what it does.
pub(super) fn is_framing(name: &str) -> bool {
    const FRAMING: [&str; 4] = ["connection", "keep-alive", "content-length", "transfer-encoding"];
    FRAMING.iter().any(|framing| name.eq_ignore_ascii_case(framing))
}

/// Names of fields of each answer, but those of framing.
fn names(reply: &Reply) -> BTreeSet<String> {
    let fields = reply.fields.iter().filter(|(name, _)| !is_framing(name));
    fields.map(|(name, _)| name.to_ascii_lowercase()).collect()
}

fn fields(baseline: &[Reply], other: &[Reply], found: &mut Vec<Difference>) {
    let sides = [baseline, other].map(|replies| replies.iter().map(names).collect::<Vec<_>>());
    let all: BTreeSet<&String> = sides.iter().flatten().flatten().collect();
    for name in all {
        let always = |side: &Vec<BTreeSet<String>>| side.iter().all(|names| names.contains(name));
        let never = |side: &Vec<BTreeSet<String>>| !side.iter().any(|names| names.contains(name));
        if (always(&sides[0]) && never(&sides[1])) || (never(&sides[0]) && always(&sides[1])) {
            found.push(Difference::Field { name: name.clone(), baseline: always(&sides[0]) });
        }
    }
}

/// Type and parameters without white space, in lower case.
fn type_of(reply: &Reply) -> Option<String> {
    let field = reply.fields.iter().find(|(name, _)| name.eq_ignore_ascii_case("content-type"))?;
    Some(field.1.split_whitespace().collect::<String>().to_ascii_lowercase())
}

fn content_type(baseline: &[Reply], other: &[Reply], found: &mut Vec<Difference>) {
    if let (Some(Some(a)), Some(Some(b))) = (common(baseline, type_of), common(other, type_of))
        && a != b
    {
        found.push(Difference::ContentType { baseline: a, other: b });
    }
}

fn body(baseline: &[Reply], other: &[Reply], same: Same, found: &mut Vec<Difference>) {
    let parsed = [baseline, other].map(|replies| replies.iter().map(json).collect::<Option<Vec<Value>>>());
    if same == Same::Body {
        return bytes(baseline, other, found);
    }
    match parsed {
        [Some(a), Some(b)] => shapes(&a, &b, found),
        _ => length(baseline, other, found),
    }
}

/// An answer's JSON, where it is an object or an array: a lone word or number is as good as text.
fn json(reply: &Reply) -> Option<Value> {
    serde_json::from_slice(reply.whole_body()?)
        .ok()
        .filter(|value: &Value| value.is_object() || value.is_array())
}

/// The types at each path of one value.
type Shape = BTreeMap<String, BTreeSet<String>>;

fn shape(value: &Value) -> Shape {
    let mut shape = Shape::new();
    note(value, "$", 0, &mut shape);
    shape
}

fn note(value: &Value, path: &str, depth: usize, shape: &mut Shape) {
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "a truth value",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "an array",
        Value::Object(_) => "an object",
    };
    shape.entry(path.to_owned()).or_default().insert(kind.to_owned());
    if depth >= MAX_DEPTH {
        return;
    }
    match value {
        Value::Array(items) => {
            items.iter().for_each(|item| note(item, &format!("{path}[]"), depth + 1, shape))
        }
        Value::Object(members) => {
            members.iter().for_each(|(key, member)| note(member, &format!("{path}.{key}"), depth + 1, shape));
        }
        _ => {}
    }
}

/// Compares what each arm always has. A path that an arm has only sometimes (in an array that is empty now and then) is
/// compared by no one.
fn shapes(baseline: &[Value], other: &[Value], found: &mut Vec<Difference>) {
    let sides = [baseline, other].map(|values| values.iter().map(shape).collect::<Vec<Shape>>());
    let paths: BTreeSet<&String> = sides.iter().flatten().flat_map(BTreeMap::keys).collect();
    let mut differing: Vec<&str> = Vec::new();
    for path in paths {
        // What is below a difference differs with it.
        if differing
            .iter()
            .any(|above| path.strip_prefix(above).is_some_and(|rest| rest.starts_with(['.', '['])))
        {
            continue;
        }
        let at = |side: &[Shape]| agreed(side, path);
        if let (Some(a), Some(b)) = (at(&sides[0]), at(&sides[1]))
            && a != b
            && !unknown(path, &sides)
        {
            differing.push(path);
            found.push(Difference::Json { path: path.clone(), baseline: a, other: b });
        }
    }
}

/// The types that all values have at `path`, none included.
fn agreed(side: &[Shape], path: &str) -> Option<BTreeSet<String>> {
    let at = |shape: &Shape| shape.get(path).cloned().unwrap_or_default();
    let first = at(side.first()?);
    side.iter().all(|shape| at(shape) == first).then_some(first)
}

/// Whether `path` is below an array that has no element on one side: nothing is known of elements there.
fn unknown(path: &str, sides: &[Vec<Shape>; 2]) -> bool {
    let arrays = path.match_indices("[]").map(|(at, _)| &path[..at + 2]);
    arrays.into_iter().any(|elements| {
        let array = &elements[..elements.len() - 2];
        let empty = |shape: &Shape| {
            shape.get(array).is_some_and(|types| types.contains("an array")) && !shape.contains_key(elements)
        };
        sides.iter().any(|side| side.iter().any(empty))
    })
}

fn range(replies: &[Reply]) -> (u64, u64) {
    let lengths = || replies.iter().map(|reply| reply.body_bytes);
    (lengths().min().unwrap_or(0), lengths().max().unwrap_or(0))
}

/// Lengths that one arm has are alike those of the other if their ranges come near enough.
fn length(baseline: &[Reply], other: &[Reply], found: &mut Vec<Difference>) {
    let ((low, high), (least, most)) = (range(baseline), range(other));
    let apart = |short: u64, long: u64| long as f64 > short as f64 * (1.0 + MAX_LENGTH_DIFFERENCE);
    if high < least && apart(high, least) {
        found.push(Difference::Length { baseline: high, other: least });
    } else if most < low && apart(most, low) {
        found.push(Difference::Length { baseline: low, other: most });
    }
}

/// Bytes that all answers of both arms have in the same place; where lengths move, only those up to the shortest.
fn bytes(baseline: &[Reply], other: &[Reply], found: &mut Vec<Difference>) {
    let fixed = |replies: &[Reply], at: usize| common(replies, |reply| reply.body.get(at).copied());
    let (a, b) = (common(baseline, |reply| reply.body_bytes), common(other, |reply| reply.body_bytes));
    if let (Some(a), Some(b)) = (a, b)
        && a != b
    {
        return found.push(Difference::Length { baseline: a, other: b });
    }
    let kept = |replies: &[Reply]| replies.iter().map(|reply| reply.body.len()).min().unwrap_or(0);
    let shortest = kept(baseline).min(kept(other));
    let differs =
        |at: &usize| matches!((fixed(baseline, *at), fixed(other, *at)), (Some(a), Some(b)) if a != b);
    let first = (0..shortest).find(differs);
    // Of what is not kept only the hash is known: of bodies that are always the same it says whether they are alike.
    let hash = |replies: &[Reply]| common(replies, |reply| reply.body_sha256.clone());
    let beyond = || match (hash(baseline), hash(other)) {
        (Some(a), Some(b)) => (a != b).then_some(shortest),
        _ => None,
    };
    found.extend(first.or_else(beyond).map(|at| Difference::Body { at: at as u64 }));
}

/// What differs between the answers of two arms, request by request; nothing where they answer alike.
#[must_use]
pub fn difference(baseline: &ArmAnswers, other: &ArmAnswers, same: Same) -> Option<AnswersDiffer> {
    let several = baseline.requests.len() > 1;
    let mut requests = Vec::new();
    for expected in &baseline.requests {
        let Some(answers) = other.requests.iter().find(|answers| answers.request == expected.request) else {
            continue;
        };
        let mut found = differences(&expected.replies, &answers.replies, same);
        if same >= Same::Shape && expected.left_open != answers.left_open {
            found.push(Difference::LeftOpen { baseline: expected.left_open });
        }
        if !found.is_empty() {
            requests.push((several.then(|| expected.request.clone()), found));
        }
    }
    let differ = !requests.is_empty();
    differ.then(|| AnswersDiffer { baseline: baseline.arm.clone(), other: other.arm.clone(), requests })
}
