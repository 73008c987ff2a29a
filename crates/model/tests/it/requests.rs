//! Requests from files: what each format gives, what is refused and where, and that no text does more than that.

use std::panic::catch_unwind;
use std::time::{Duration, Instant};

use model::job::fill::{Piece, Place, check, in_part, in_target, pieces, whole_path};
use model::job::read::{Given, Read, ReadError, read};
use model::job::{Data, Request, Requests};
use model::plan::SplitMix64;

fn attached(name: &str) -> Result<Vec<u8>, String> {
    match name {
        "./body.json" | "body.json" => Ok(b"{\"a\":\r\n1}".to_vec()),
        _ => Err(format!("cannot read {name}")),
    }
}

fn read_with(text: &str, pattern: &Request, data: Option<&Data>) -> Result<Read, ReadError> {
    read(&Given { file: "f", text, pattern, data, attached: &attached })
}

fn plain(text: &str) -> Result<Read, ReadError> {
    read_with(text, &Request::get(), None)
}

/// One line for each request: name, weight, method, target, fields, body.
fn shown(read: &Read) -> Vec<String> {
    let one = |named: &model::job::NamedRequest| {
        let request = &named.request;
        let fields: Vec<String> =
            request.fields.iter().map(|(name, value)| format!("{name}: {value}")).collect();
        format!(
            "{}|{}|{} {}|{}|{}",
            named.name,
            named.weight,
            request.method,
            request.target.as_deref().unwrap_or("-"),
            fields.join(", "),
            request.body.escape_ascii()
        )
    };
    read.requests.iter().map(one).collect()
}

/// A file and what it asks.
const READ: [(&str, &[&str]); 16] = [
    ("/a\n# no\n\n2 POST /b?x={random 1 9}\n", &["|1|GET /a||", "|2|POST /b?x={random 1 9}||"]),
    ("GET http://h:1/a\nhttp://H:1\n", &["|1|GET /a||", "|1|GET /||"]),
    ("GET /a HTTP/1.1\n", &["|1|GET /a||"]),
    (
        "### first\nGET http://h/a\n  ?x=1\n  &y=2\nA: b\n\n###\n# @name second\n// @weight 3\nPOST http://h/b HTTP/1.1\n# c\nC: d\n\n{\"a\": {\"b\": 1}}\n\nend\n\n",
        &["first|1|GET /a?x=1&y=2|A: b|", "second|3|POST /b|C: d|{\\\"a\\\": {\\\"b\\\": 1}}\\n\\nend"],
    ),
    (
        "@host = http://h\n@all = {{host}}/all\n\nGET {{all}}/{{$guid}}\nX: {{n}} {{$randomInt 1 5}}\n",
        &["|1|GET /all/{uuid}|X: {n} {random 1 5}|"],
    ),
    ("POST /a HTTP/1.1\n\n< ./body.json\n", &["|1|POST /a||{\\\"a\\\":\\r\\n1}"]),
    ("POST /a HTTP/1.1\n\nx\n\n> {%\n client.log()\n%}\n", &["|1|POST /a||x"]),
    (
        r#"{"log":{"entries":[{"request":{"method":"POST","url":"https://h/a?b=c#d","headers":[{"name":":path","value":"/a"},{"name":"Host","value":"h"},{"name":"Cookie","value":"x=y"}],"postData":{"text":"aGk=","encoding":"base64"}}},{"request":{"method":"GET","url":"data:x"}}]}}"#,
        &["POST /a|1|POST /a?b=c|Cookie: x=y|hi"],
    ),
    ("curl http://h/a", &["|1|GET /a||"]),
    (
        "# @name login\n# @weight 2\ncurl 'https://h/login' \\\n  -H 'accept: */*' \\\n  --data-raw $'a=\\'b\\'\\n\\u00e9' \\\n  --compressed ;\n",
        &[
            "login|2|POST /login|accept: */*, Content-Type: application/x-www-form-urlencoded, Accept-Encoding: deflate, gzip, br, zstd|a=\\'b\\'\\n\\xc3\\xa9",
        ],
    ),
    (
        "curl -sSXPUT h/a -u me:secret -b 'a=b' -H 'X;' -H 'Accept:'",
        &["|1|PUT /a|Authorization: Basic bWU6c2VjcmV0, Cookie: a=b, X: |"],
    ),
    (
        "curl h/a --json '{\"a\":1}'",
        &["|1|POST /a|Content-Type: application/json, Accept: application/json|{\\\"a\\\":1}"],
    ),
    ("curl -G h/a?x=1 -d b=2 --data-urlencode 'c=d e'", &["|1|GET /a?x=1&b=2&c=d%20e||"]),
    (
        "curl h/a -d @body.json --data-binary @body.json",
        &["|1|POST /a|Content-Type: application/x-www-form-urlencoded|{\\\"a\\\":1}&{\\\"a\\\":\\r\\n1}"],
    ),
    ("curl -I h/a\ncurl h/b && curl h/c\n", &["|1|HEAD /a||", "|1|GET /b||", "|1|GET /c||"]),
    ("curl -k \"h/a\\\"b\" -X DELETE", &["|1|DELETE /a\"b||"]),
];

#[test]
fn every_format_gives_its_requests() {
    for (text, wanted) in READ {
        let read = plain(text).unwrap_or_else(|error| panic!("{text}: {error}"));
        assert_eq!(shown(&read), wanted, "{text}");
    }
}

/// A file, the line that is refused, and words of the sentence.
const REFUSED: [(&str, usize, &str); 31] = [
    ("", 0, "no request"),
    ("# only this\n", 0, "no request"),
    ("\nhello world of words\n", 2, "its first line begins with 'hello'"),
    ("127.0.0.1 - - [10/Oct/2000:13:55:36 -0700] \"GET / HTTP/1.1\" 200 1\n", 1, "--replay"),
    ("0 /a\n", 0, "no request with a weight above 0"),
    ("/a\n\n# c\n1 GET /b c d\n", 4, "it is not '[WEIGHT] [METHOD] PATH'"),
    ("-1 /a\n", 1, "its weight is not a number from 0 on"),
    ("GET a\n", 1, "'a' is not a path"),
    ("/a\u{e9}\n", 1, "must be percent-encoded"),
    ("GE(T /a\n", 1, "is not a word such as GET"),
    ("http://one/a\nhttp://other/a\n", 2, "another server (other) than those before it (one)"),
    ("### a\n", 0, "no request"),
    ("###\nGET /a b c HTTP/1.1\n", 2, "is not 'METHOD URL HTTP/1.1'"),
    ("###\nGET /a\nno field\n", 3, "it is not a field 'Name: value'"),
    ("###\nGET /{{a}}\n", 2, "{{a}} is not a variable of this file"),
    ("###\n# @weight x\nGET /a\n", 2, "its weight"),
    ("###\n# @status ok\nGET /a\n", 2, "'ok' is no status: write a number from 100 to 599"),
    ("###\nPOST /a\n\n< ./gone\n", 4, "cannot read ./gone"),
    ("###\nGET ftp://h/a\n", 2, "is not of http or https"),
    ("{\"log\": {\n\"entries\": [}", 2, "no HAR"),
    ("{\"a\": 1}", 1, "no HAR"),
    ("{\"log\":{\"entries\":[]}}", 0, "no request of http or https"),
    (
        r#"{"log":{"entries":[{"request":{"method":"P","url":"http://h/","postData":{"text":"%","encoding":"base64"}}}]}}"#,
        0,
        "entry 1: its body is not base64",
    ),
    (
        r#"{"log":{"entries":[{"request":{"method":"P","url":"http://h/"}},{"request":{"method":"P","url":"http://i/"}}]}}"#,
        0,
        "another server",
    ),
    ("curl http://h/ -H 'a", 1, "never closed"),
    ("curl h/a\nwget h/a\n", 2, "'wget' is not a curl command"),
    ("curl -s", 1, "no URL"),
    ("curl h/a \\\n -F a=b", 2, "-F of curl is not known here"),
    ("curl h/a h/b", 1, "two URLs"),
    ("curl h/a -b jar", 1, "a file of cookies"),
    ("curl h/a -H $'a: b\\nc'", 1, "on one line"),
];

#[test]
fn a_file_that_cannot_be_used_is_refused_with_its_line() {
    for (text, line, words) in REFUSED {
        let error = plain(text).expect_err(text);
        assert_eq!(error.line, line, "{text}: {error}");
        let message = error.to_string();
        assert!(
            message.contains(words) && message.starts_with("f:") && !message.contains('\n'),
            "{text}: {message}"
        );
    }
}

#[test]
fn flags_are_the_pattern_of_every_request() {
    let field = |name: &str, value: &str| (name.to_owned(), value.to_owned());
    let pattern = Request { fields: vec![field("X-A", "flag")], ..Request::get() };
    let curl = read_with("curl h/a -H 'x-a: file' -H 'b: c'", &pattern, None).unwrap();
    assert_eq!(shown(&curl), ["|1|GET /a|b: c, X-A: flag|"]);
    let pattern = Request { method: "POST".to_owned(), body: b"x".to_vec(), ..pattern };
    let list = read_with("/a\nGET /b\n", &pattern, None).unwrap();
    assert_eq!(shown(&list), ["|1|POST /a|X-A: flag|x", "|1|GET /b|X-A: flag|"]);
    let error = read_with("curl h/a", &pattern, None).unwrap_err().to_string();
    assert!(error.contains("leave --method and --body out"), "{error}");
}

fn data() -> Data {
    Data::csv("d", "id,name\n1,\"a, b\"\n2,\"c\"\"d\"\n3,é\n").unwrap()
}

fn filled(text: &str, arrival: u64, seed: u64) -> String {
    let data = data();
    let place = Place { seed, arrival, data: Some(&data), taken: &[] };
    let mut out = Vec::new();
    for (nth, piece) in pieces(text.as_bytes(), Some(&data)).unwrap().iter().enumerate() {
        piece.write(&place, nth as u64, &mut out);
    }
    String::from_utf8(out).unwrap()
}

#[test]
fn placeholders_are_filled_by_number_and_seed_alone() {
    assert_eq!(filled("/u/{id}?n={n}", 4, 1), "/u/2?n=4");
    assert_eq!(filled("{name}", 0, 1), "a, b");
    assert_eq!(filled("{name}", 1, 1), "c\"d");
    assert_eq!(filled("{{id}} {{n}} {{other}}", 0, 1), "{id} {n} {other}");
    let uuid = filled("{uuid}", 7, 3);
    assert_eq!((uuid.len(), &uuid[14..15]), (36, "4"), "{uuid}");
    assert_eq!(uuid, filled("{uuid}", 7, 3));
    assert_ne!(uuid, filled("{uuid}", 8, 3));
    assert_ne!(uuid, filled("{uuid}", 7, 4));
    let pair = filled("{uuid} {uuid}", 7, 3);
    assert_ne!(pair[..36], pair[37..], "each place has its own");
    let mut seen = [0; 3];
    for arrival in 0..300 {
        let drawn: usize = filled("{random 1 3}", arrival, 9).parse().unwrap();
        seen[drawn - 1] += 1;
    }
    // 100 each, with four standard deviations of 8.2.
    assert!(seen.iter().all(|count| (67..=133).contains(count)), "{seen:?}");
    filled(&format!("{{random 0 {}}}", u64::MAX), 0, 1).parse::<u64>().unwrap();
}

#[test]
fn braces_that_are_no_placeholder_stay() {
    for text in [
        "{\"a\": {\"b\": 1}}",
        "{}",
        "{{}}",
        "{x}",
        "{{x}}",
        "a}b{",
        "{random 5}",
        "{random 5 1}",
        "{user{id}}",
    ] {
        assert_eq!(pieces(text.as_bytes(), None), Ok(vec![Piece::Text(text.as_bytes().to_vec())]), "{text}");
    }
    assert_eq!(filled("{\"a\": {\"b\": \"{id}\"}}", 0, 1), "{\"a\": {\"b\": \"1\"}}");
    assert_eq!(filled("{user{{id}}}", 0, 1), "{user{id}}");
    let error = pieces(b"/{nmae}", Some(&data())).unwrap_err();
    assert!(error.contains("{nmae} is no column of the data (it has id, name)"), "{error}");
}

#[test]
fn a_table_that_cannot_be_used_is_refused_with_its_line() {
    for (text, line, words) in [
        ("", 0, "no row"),
        ("a,b\n", 0, "no row"),
        ("a,b\n1,2\n3\n", 3, "it has 1 cells, and the header has 2"),
        ("a,b\n1,\"2\n2\"\n3,4,5\n", 4, "it has 3 cells"),
        ("a b\n1\n", 1, "'a b' is no name"),
        ("a,b,a\n1,2,3\n", 1, "two columns are called 'a'"),
        ("a,b\n1,\"2\n3,4\n", 2, "a quote opens there and is not closed"),
        ("a\n\"x\"\"y\n", 2, "a quote opens there and is not closed"),
    ] {
        let error = Data::csv("d", text).expect_err(text);
        assert!(error.line == line && error.to_string().contains(words), "{text}: {error}");
    }
    let broken = Data::csv("d", "a\n\"1\n2\"\n").unwrap();
    let fields = vec![("X".to_owned(), "{a}".to_owned())];
    let error = check(&Request { fields, ..Request::get() }, Some(&broken)).unwrap_err();
    assert!(error.contains("column a, which has a line break in row 1"), "{error}");
    assert_eq!(in_target("a é/?b=%20".as_bytes()).as_ref(), b"a%20%C3%A9/?b=%20");
    assert_eq!(in_part("a é/?&b=%+#-._~".as_bytes()).as_ref(), b"a%20%C3%A9%2F%3F%26b%3D%25%2B%23-._~");
    assert!(Data::csv("d", "a,b\n\"x \"\"y\"\"\",5\" disk\n").is_ok());
}

#[test]
fn a_summary_shows_no_value() {
    let read = plain("curl 'h/a?token=hunter2' -u me:hunter2 -b 's=hunter2' -H 'X-Key: hunter2' -d hunter2")
        .unwrap();
    let summary = Requests::Drawn(read.requests).summary();
    let json = serde_json::to_string(&summary).unwrap();
    assert!(!json.contains("hunter2") && !json.contains("bWU6"), "{json}");
    let request = &summary.requests[0];
    assert_eq!((request.path.as_deref(), request.body_bytes), (Some("/a"), 7));
    // The first half of `printf hunter2 | sha256sum`'s first 16 digits.
    assert_eq!(request.body_sha256.as_deref(), Some("f52fbd32"));
    assert_eq!(request.fields[2].sha256, "f52fbd32");
}

/// What inputs are made of beside whole files.
const PARTS: [&str; 24] = [
    "###",
    "\n",
    "\n\n",
    "GET ",
    "POST /a ",
    "http://h/",
    "{{",
    "}}",
    "{n}",
    "@a = {{a}}",
    "# @weight 2",
    "curl ",
    "-H ",
    "'",
    "\"",
    "$'\\x",
    "\\",
    "-d @",
    "--json ",
    "{\"log\":{\"entries\":[",
    "]}}",
    "< ./body.json",
    "> {%",
    "\u{e9}",
];

fn generated(random: &mut SplitMix64) -> String {
    let mut bytes = Vec::new();
    if random.below(4) > 0 {
        bytes.extend_from_slice(READ[random.below(READ.len() as u64) as usize].0.as_bytes());
    }
    for _ in 0..random.below(6) {
        let part = PARTS[random.below(PARTS.len() as u64) as usize].as_bytes();
        let place = random.below(bytes.len() as u64 + 1) as usize;
        bytes.splice(place..place, part.iter().copied());
    }
    for _ in 0..random.below(3) {
        if !bytes.is_empty() {
            let place = random.below(bytes.len() as u64) as usize;
            bytes[place] = random.below(256) as u8;
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

/// Generated files for as long as `FUZZ_SECONDS` says (2 by default), from `FUZZ_SEED` (0 by default) on.
#[test]
#[expect(clippy::print_stdout, reason = "a check says how much it checked")]
fn fuzz_files_are_read_or_refused() {
    let number =
        |name, default| std::env::var(name).map_or(default, |value| value.parse().expect("it is a number"));
    let (time, first) = (Duration::from_secs(number("FUZZ_SECONDS", 2)), number("FUZZ_SEED", 0));
    let (start, mut inputs, mut taken) = (Instant::now(), 0, 0);
    while inputs < 1_000 || start.elapsed() < time {
        let seed = first + inputs;
        let text = generated(&mut SplitMix64::fork(seed, "requests", 0));
        let verdict = catch_unwind(|| {
            let data = (seed % 2 == 0).then(data);
            if let Ok(table) = Data::csv("d", &text) {
                assert!(table.rows.iter().all(|row| row.len() == table.columns.len()));
            }
            match read_with(&text, &Request::get(), data.as_ref()) {
                Ok(read) => {
                    assert!(!read.requests.is_empty());
                    read.requests.iter().for_each(|one| check(&one.request, data.as_ref()).unwrap());
                    true
                }
                Err(error) => {
                    assert!(!error.to_string().is_empty() && error.line <= text.lines().count() + 1);
                    false
                }
            }
        })
        .unwrap_or_else(|_| panic!("seed {seed}: {text:?}"));
        inputs += 1;
        taken += u64::from(verdict);
    }
    println!("files of requests, {} s: {inputs} inputs, {taken} taken", time.as_secs());
    assert!(taken > inputs / 20 && taken < inputs * 19 / 20, "{taken} of {inputs} taken");
}

#[test]
fn a_value_that_is_a_whole_path_is_one_of_the_server_that_is_asked() {
    for (value, path) in [
        ("/a?b=c#d", Some("/a?b=c")),
        ("http://h:80/a", Some("/a")),
        ("https://H", Some("/")),
        ("//h/a", Some("/a")),
        ("//other/a", None),
        ("http://other/a", None),
        ("http://h:81/a", None),
        ("a/b", None),
        ("", None),
    ] {
        assert_eq!(whole_path(value.as_bytes(), "h"), path.map(str::as_bytes), "{value}");
    }
}
