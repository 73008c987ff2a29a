//! HAR: what a browser recorded.
//!
//! Source: HTTP Archive 1.2, `log.entries[].request`.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Deserialize;

use super::{Contents, Entry, Given, NamedRequest, Refusal, Request, refuse, split_url};

/// Fields of one connection, or that are made anew. Source: RFC 9110, section 7.6.1.
const DROPPED: [&str; 10] = [
    "connection",
    "content-length",
    "host",
    "keep-alive",
    "proxy-authenticate",
    "proxy-connection",
    "te",
    "trailer",
    "transfer-encoding",
    "upgrade",
];

#[derive(Deserialize)]
struct Har {
    log: Log,
}

#[derive(Deserialize)]
struct Log {
    entries: Vec<HarEntry>,
}

#[derive(Deserialize)]
struct HarEntry {
    request: Recorded,
}

#[derive(Deserialize)]
struct Recorded {
    method: String,
    url: String,
    #[serde(default)]
    headers: Vec<Pair>,
    #[serde(rename = "postData")]
    body: Option<Body>,
}

#[derive(Deserialize)]
struct Pair {
    name: String,
    #[serde(default)]
    value: String,
}

#[derive(Deserialize)]
struct Body {
    #[serde(default)]
    text: String,
    #[serde(alias = "_encoding")]
    encoding: Option<String>,
    #[serde(default)]
    params: Vec<Pair>,
}

/// What is wrong with JSON, without the text that stands there: it may be a secret.
fn without_value(message: &str) -> String {
    match (message.find('"'), message.rfind('"')) {
        (Some(first), Some(last)) if first < last => {
            format!("{}\"...{}", &message[..first], &message[last..])
        }
        _ => message.to_owned(),
    }
}

pub(super) fn read(given: &Given<'_>) -> Result<Contents, Refusal> {
    let text = given.text.trim_start_matches('\u{feff}');
    let har: Har = serde_json::from_str(text).map_err(|error| Refusal {
        line: error.line(),
        why: format!("it is JSON and no HAR (log.entries[].request): {}", without_value(&error.to_string())),
    })?;
    let mut contents = Contents::default();
    let mut others = 0;
    for (index, entry) in har.log.entries.into_iter().enumerate() {
        let recorded = entry.request;
        if !recorded.url.starts_with("http://") && !recorded.url.starts_with("https://") {
            others += 1;
            continue;
        }
        // A parser of JSON tells no lines of what it has read.
        let read = request_entry(recorded)
            .map_err(|why| Refusal { line: 0, why: format!("entry {}: {why}", index + 1) })?;
        contents.entries.push(read);
    }
    if others > 0 {
        contents
            .notes
            .push(format!("{}: {others} entries are not of http or https and are left out", given.file));
    }
    if contents.entries.is_empty() { refuse(0, "it has no request of http or https") } else { Ok(contents) }
}

fn request_entry(recorded: Recorded) -> Result<Entry, String> {
    let (host, target) = split_url(&recorded.url)?;
    let path = target.split('?').next().unwrap_or_default();
    let name = format!("{} {path}", recorded.method);
    let kept = |field: &Pair| {
        !field.name.starts_with(':') && !DROPPED.iter().any(|name| field.name.eq_ignore_ascii_case(name))
    };
    let fields = recorded.headers.into_iter().filter(kept).map(|field| (field.name, field.value)).collect();
    let body = recorded.body.map_or(Ok(Vec::new()), body)?;
    let request = Request { method: recorded.method, target: Some(target), fields, body };
    Ok(Entry { line: 0, host, named: NamedRequest { name, weight: 1.0, request, expected_status: None } })
}

fn body(body: Body) -> Result<Vec<u8>, String> {
    match body.encoding.as_deref() {
        Some("base64") => {
            STANDARD.decode(body.text.trim()).map_err(|error| format!("its body is not base64: {error}"))
        }
        Some(other) if !other.is_empty() => {
            Err(format!("its body is in an encoding that is not known: {other}"))
        }
        _ if body.text.is_empty() && !body.params.is_empty() => {
            Err("its body is given as parameters without the text that was sent: record it again".to_owned())
        }
        _ => Ok(body.text.into_bytes()),
    }
}
