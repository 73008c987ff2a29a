//! What TechEmpower's tests are made of, whoever answers them: rows, statements, and the page of fortunes.

use serde::Serialize;
use std::cell::Cell;
use std::fmt::Write;
use std::hash::{BuildHasher, RandomState};

/// Rows of the table of worlds, numbered from 1.
const WORLDS: u32 = 10_000;
/// Most rows that one request may ask for.
const ROWS_MAX: usize = 500;

pub(crate) const ONE_WORLD: &str = "select id, randomnumber from world where id = $1";
pub(crate) const ALL_WORLDS: &str = "select id, randomnumber from world";
pub(crate) const FORTUNES: &str = "select id, message from fortune";
pub(crate) const UPDATE: &str = "update world set randomnumber = new.number \
    from unnest($1::int[], $2::int[]) as new (id, number) where world.id = new.id";

#[derive(Serialize)]
pub(crate) struct Greeting {
    pub(crate) message: &'static str,
}

#[derive(Clone, Copy, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct World {
    pub(crate) id: i32,
    pub(crate) random_number: i32,
}

/// Gives each world a new number; the ids and the numbers, to be written.
pub(crate) fn renew(worlds: &mut [World]) -> (Vec<i32>, Vec<i32>) {
    // Whoever writes the same rows locks them in the same order; one that was drawn twice is written once.
    worlds.sort_unstable_by_key(|world| world.id);
    let mut before = None;
    for world in worlds.iter_mut() {
        world.random_number = match before {
            Some(World { id, random_number }) if id == world.id => random_number,
            _ => random(),
        };
        before = Some(*world);
    }
    worlds.iter().map(|world| (world.id, world.random_number)).unzip()
}

/// How many rows are asked for: 1 where that is no number, and never more than [`ROWS_MAX`].
pub(crate) fn rows(query: Option<&str>, name: &str) -> usize {
    let mut pairs = query.unwrap_or_default().split('&').filter_map(|pair| pair.split_once('='));
    let value = pairs.find(|(key, _)| *key == name).and_then(|(_, value)| value.parse().ok());
    value.unwrap_or(1).clamp(1, ROWS_MAX)
}

/// A number of a world, by a generator of this thread's own (xorshift, Marsaglia 2003).
pub(crate) fn random() -> i32 {
    thread_local! {
        static STATE: Cell<u64> = Cell::new(RandomState::new().hash_one(()) | 1);
    }
    let mut state = STATE.get();
    state ^= state << 13;
    state ^= state >> 7;
    state ^= state << 17;
    STATE.set(state);
    let number = ((state >> 32) * u64::from(WORLDS)) >> 32;
    i32::try_from(number).unwrap_or(0) + 1
}

/// The page of fortunes, written as a compiled template would write it.
/// One more is added, and all are sorted.
pub(crate) fn page(mut fortunes: Vec<(i32, &str)>) -> String {
    fortunes.push((0, "Additional fortune added at request time."));
    fortunes.sort_unstable_by_key(|(_, message)| *message);
    let mut page = String::with_capacity(2048);
    page.push_str("<!DOCTYPE html><html><head><title>Fortunes</title></head><body><table>");
    page.push_str("<tr><th>id</th><th>message</th></tr>");
    for (id, message) in fortunes {
        page.push_str("<tr><td>");
        write!(page, "{id}").expect("writing to a text cannot fail");
        page.push_str("</td><td>");
        escape(message, &mut page);
        page.push_str("</td></tr>");
    }
    page.push_str("</table></body></html>");
    page
}

/// Appends a text as HTML shows it.
fn escape(mut text: &str, page: &mut String) {
    // Each of them is one byte, which is in no other letter.
    while let Some(at) = text.bytes().position(|byte| matches!(byte, b'&' | b'<' | b'>' | b'"' | b'\'')) {
        page.push_str(&text[..at]);
        page.push_str(match text.as_bytes()[at] {
            b'&' => "&amp;",
            b'<' => "&lt;",
            b'>' => "&gt;",
            b'"' => "&quot;",
            _ => "&#39;",
        });
        text = &text[at + 1..];
    }
    page.push_str(text);
}
