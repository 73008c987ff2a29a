//! Whether arms answer alike, where answers differ by themselves.

use analyse::AnswersDiffer;
use analyse::sameness::differences;
use model::plan::{Same, SplitMix64};
use model::record::Reply;
use serde_json::Value;

fn reply(body: &str) -> Reply {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let fields = vec![field("Content-Type", "application/json"), field("Date", "now")];
    Reply::new(200, fields, false, body.as_bytes())
}

fn texts(baseline: &[Reply], other: &[Reply], same: Same) -> Vec<String> {
    let words = |found| {
        let (baseline, other) = ("old".to_owned(), "new".to_owned());
        report::difference(&AnswersDiffer { baseline, other, requests: vec![(None, vec![found])] })
    };
    differences(baseline, other, same).into_iter().map(words).collect()
}

#[test]
fn bodies_are_alike_by_their_shape() {
    let cases: [(&[&str], &[&str], &[&str]); 10] = [
        (&["{\"id\": 1, \"t\": \"x\"}"], &["{\"t\": \"longer\", \"id\": 2}"], &[]),
        (&["{\"id\": 1}"], &["{\"id\": \"1\"}"], &["at $.id 'new' has a string and 'old' has a number"]),
        (&["{\"a\": {\"b\": 1}}"], &["{\"a\": {}}"], &["at $.a.b 'new' has nothing and 'old' has a number"]),
        (&["{\"a\": {\"b\": 1}}"], &["{\"a\": 1}"], &["at $.a 'new' has a number and 'old' has an object"]),
        (&["[{\"a\": 1}]"], &["[{\"a\": 1}, {\"a\": 2}]"], &[]),
        (&["[1]"], &["[1, \"x\"]"], &["at $[] 'new' has a number or a string and 'old' has a number"]),
        (&["[]"], &["[{\"a\": 1}]"], &[]),
        // A key that comes and goes in one arm is not compared.
        (&["{\"a\": 1}", "{\"a\": 1, \"b\": 2}"], &["{\"a\": 1}"], &[]),
        (&["hello, world"], &["hello"], &["'new' answers with a body of 5 bytes and 'old' with one of 12"]),
        (&["hello", "hello, world"], &["hello, you"], &[]),
    ];
    for (baseline, other, wanted) in cases {
        let replies = |bodies: &[&str]| bodies.iter().map(|body| reply(body)).collect::<Vec<_>>();
        assert_eq!(texts(&replies(baseline), &replies(other), Same::Shape), wanted, "{baseline:?} {other:?}");
    }
}

#[test]
fn each_part_of_an_answer_is_compared_where_it_is_asked_for() {
    let base = reply("{}");
    let status = Reply { status: 404, ..base.clone() };
    let mut field = base.clone();
    field.fields.push(("X-Cache".to_owned(), "hit".to_owned()));
    field.fields.push(("Connection".to_owned(), "keep-alive".to_owned()));
    let mut kind = base.clone();
    kind.fields[0].1 = "text/plain; charset=utf-8".to_owned();
    let cases = [
        (&status, Same::Status, "'new' answers with status 404 and 'old' with 200"),
        (&field, Same::Shape, "'new' sends a field x-cache and 'old' does not"),
        (
            &kind,
            Same::Shape,
            "'new' answers with content type text/plain;charset=utf-8 and 'old' with application/json",
        ),
    ];
    for (other, same, wanted) in cases {
        assert_eq!(texts(std::slice::from_ref(&base), std::slice::from_ref(other), same), [wanted]);
    }
    assert!(texts(std::slice::from_ref(&base), &[field], Same::Status).is_empty());
    let (a, b) = (reply("time 1 x"), reply("time 2 x"));
    assert!(texts(std::slice::from_ref(&a), std::slice::from_ref(&b), Same::Shape).is_empty());
    assert_eq!(
        texts(std::slice::from_ref(&a), std::slice::from_ref(&b), Same::Body),
        ["the bodies of 'new' and 'old' differ from byte 5 on"]
    );
    // What moves within one arm is not compared.
    assert!(texts(&[a.clone(), b.clone()], &[reply("time 3 x"), a.clone()], Same::Body).is_empty());
    assert_eq!(texts(&[a.clone(), b], &[reply("time 3 y")], Same::Body).len(), 1);
    assert!(texts(&[], &[a], Same::Body).is_empty(), "nothing is known of an arm that gave no answer");
}

fn value(random: &mut SplitMix64, depth: u32) -> Value {
    let many = |random: &mut SplitMix64| random.below(4);
    match random.below(if depth > 3 { 4 } else { 6 }) {
        0 => Value::Null,
        1 => Value::Bool(true),
        2 => random.below(1000).into(),
        3 => "x".repeat(random.below(9) as usize).into(),
        4 => (0..many(random)).map(|_| value(random, depth + 1)).collect(),
        _ => {
            let members = (0..many(random)).map(|key| (format!("k{key}"), value(random, depth + 1)));
            Value::Object(members.collect())
        }
    }
}

fn any(random: &mut SplitMix64) -> Reply {
    let body = match random.below(3) {
        0 => "x".repeat(random.below(2000) as usize),
        _ => value(random, 0).to_string(),
    };
    let mut reply = reply(&body);
    reply.status = [200, 201, 500][random.below(3) as usize];
    reply.closed = random.below(4) == 0;
    reply.fields.truncate(random.below(3) as usize);
    reply
}

#[test]
fn an_arm_never_differs_from_itself_whatever_it_answers_and_no_order_matters() {
    let mut unlike = 0;
    for seed in 0..5_000 {
        let mut random = SplitMix64::fork(seed, "sameness", 0);
        let arm: Vec<Reply> = (0..=random.below(4)).map(|_| any(&mut random)).collect();
        let mut again = arm.clone();
        random.shuffle(&mut again);
        let other: Vec<Reply> = (0..=random.below(4)).map(|_| any(&mut random)).collect();
        for same in [Same::Status, Same::Shape, Same::Body] {
            assert_eq!(differences(&arm, &again, same), [], "seed {seed}, {same:?}");
            let both = [differences(&arm, &other, same).len(), differences(&other, &arm, same).len()];
            assert_eq!(both[0], both[1], "seed {seed}, {same:?}");
            unlike += both[0];
        }
    }
    assert!(unlike > 1000, "{unlike} differences between arms that have nothing to do with each other");
}
