//! Files of scenarios.

use std::time::Duration;

use model::job::scenario::{From, Scenario, Think};
use model::job::{Data, Request};

fn read(text: &str) -> Result<Scenario, String> {
    let data = Data::csv("users.csv", "id,name\n1,Ann\n").unwrap();
    Scenario::read("s.toml", text, &Request::get(), Some(&data)).map_err(|error| error.to_string())
}

const GOOD: &str = r#"
[[step]]
request = "/login?user={name}"
take.token = { json = "/a/0" }
take.etag = { header = "ETag" }

[[step]]
name = "order"
request = "POST /orders"
headers = { Authorization = "Bearer {token}" }
body = '{"id": "{etag}", "{{id}}": 7}'
think = { mean = "2s" }

[[step]]
request = "DELETE /orders"
think = "150ms"
"#;

#[test]
fn a_scenario_has_its_steps_with_what_they_take_and_how_long_users_think() {
    let scenario = read(GOOD).unwrap();
    let names: Vec<&str> = scenario.steps.iter().map(|step| step.request.name.as_str()).collect();
    assert_eq!(names, ["/login?user={name}", "order", "DELETE /orders"]);
    assert_eq!(scenario.steps[0].request.request.method, "GET");
    assert_eq!(scenario.data.taken, ["etag", "token"]);
    let takes: Vec<String> = scenario.steps[0].takes.iter().map(|take| take.from.to_string()).collect();
    assert_eq!(takes, ["header ETag", "JSON /a/0"]);
    let thinks: Vec<Think> = scenario.steps.iter().map(|step| step.think).collect();
    let [none, mean, same] = [0, 2_000, 150].map(Duration::from_millis);
    assert_eq!(thinks, [Think::For(none), Think::About(mean), Think::For(same)]);
    let waits: Vec<u64> = (0..20_000).map(|user| thinks[1].wait_ns(7, user, 1)).collect();
    let average = waits.iter().sum::<u64>() as f64 / waits.len() as f64;
    assert!((average / 2e9 - 1.0).abs() < 0.03, "{average}");
    assert_eq!(waits[5], thinks[1].wait_ns(7, 5, 1), "the same seed, user and step wait the same");
}

#[test]
fn what_is_wrong_with_a_scenario_is_said_in_a_sentence() {
    let step = |more: &str| format!("[[step]]\nname = 'one'\nrequest = 'GET /'\n{more}\n");
    let cases = [
        (String::new(), "it has 0 steps"),
        ("[[step]]\nreqest = 'GET /'".to_owned(), "s.toml:2: unknown field `reqest`"),
        ("[[step]]\nrequest = 'GET items'".to_owned(), "write such as 'GET /items'"),
        (step("think = '1s'"), "the first step follows none"),
        (step("body = '{token}'"), "{token} is no column of the data (it has id, name)"),
        (
            step("body = '{token}'\ntake.token = { json = '/t' }"),
            "uses {token}, which no step before it takes",
        ),
        (step("take.id = { json = '/t' }"), "'id' cannot be the name of a value"),
        (step("take.n = { json = '/t' }"), "'n' cannot be the name of a value"),
        (step("take.t = { json = 't' }"), "'t' is no JSON pointer"),
        (step("take.t = { json = '/t', header = 'T' }"), "taken from one place"),
        (step("take.t = { before = 'x' }"), "taken from one place"),
        (step("take.t = { regex = 'x', header = 'T' }"), "taken from one place"),
        (step("take.t = { regex = '(' }"), "'(' is no regular expression: error: unclosed group"),
        (step("take.t = { regex = '(a{1000}){1000}' }"), "is no regular expression: "),
        (step("") + &step(""), "another step has the same name"),
        (step("") + "[[step]]\nrequest = 'GET /a'\nthink = 'soon'", "soon"),
    ];
    for (text, words) in cases {
        let error = read(&text).unwrap_err();
        assert!(error.contains(words) && error.starts_with("s.toml"), "{text}: {error}");
        assert!(!error.contains('\n'), "{error}");
    }
}

#[test]
fn values_are_found_where_they_stand_and_only_if_they_can_be_sent() {
    let json = |pointer: &str| From::Json(pointer.to_owned());
    let text = |after: &str, before: &str| From::Between(after.to_owned(), before.to_owned());
    let fields: [(&[u8], &[u8]); 2] = [(b"ETag", b"\"7\""), (b"Set-Cookie", b"id=5; Path=/")];
    let body = br#"{"a": ["x\ny", "z", 18446744073709551615, true, null, {}], "b": {"c/d": "e"}}"#;
    let cases = [
        (json("/a/1"), Some("z")),
        (json("/a/2"), Some("18446744073709551615")),
        (json("/a/3"), Some("true")),
        (json("/b/c~1d"), Some("e")),
        (json("/a/0"), None),
        (json("/a/4"), None),
        (json("/a/5"), None),
        (json("/a/6"), None),
        (From::Header("etag".to_owned()), Some("\"7\"")),
        (From::Header("Location".to_owned()), None),
        (text("\"c/d\": \"", "\""), Some("e")),
        (text("nowhere", "\""), None),
        (text("null", "nowhere"), None),
        (text("\"e\"", ""), Some("}}")),
    ];
    for (from, want) in cases {
        let found = from.find(fields.into_iter(), body);
        assert_eq!(found.as_deref(), want.map(str::as_bytes), "{from}");
    }
    assert_eq!(json("").find(fields.into_iter(), b"{"), None, "half an answer");
    let long = format!("\"{}\"", "x".repeat(20_000));
    assert_eq!(json("").find(fields.into_iter(), long.as_bytes()), None, "too long to be kept for each user");
}

#[test]
fn a_value_is_the_first_group_of_what_matches_or_all_of_it() {
    let take = |regex: &str| {
        let step = format!("[[step]]\nname = 'one'\nrequest = 'GET /'\ntake.t = {{ regex = '{regex}' }}\n");
        read(&step).unwrap().steps[0].takes[0].from.clone()
    };
    let body = b"<input name=\"csrf\" value=\"a1\"> \xff <b>7</b> <b>8</b>";
    for (regex, wanted) in [
        ("name=\"csrf\" value=\"([^\"]+)\"", Some("a1")),
        ("<b>[0-9]</b>", Some("<b>7</b>")),
        ("<b>([0-9])</b> <b>([0-9])</b>", Some("7")),
        ("(?:x)?([0-9])</b> <", Some("7")),
        ("name=\"none\"", None),
        // A group that takes no part.
        ("csrf(x)?", None),
    ] {
        let found = take(regex).find(std::iter::empty(), body);
        assert_eq!(found.as_deref(), wanted.map(str::as_bytes), "{regex}");
    }
    assert_eq!(take("a"), take("a"));
    assert_ne!(take("a"), take("b"));
    assert_eq!(take("a").to_string(), "match of 'a'");
}
