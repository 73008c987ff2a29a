//! Requests as records and pages may show them: without what may be secret.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{Data, Job, NamedRequest, Request, Requests};

/// Bytes of a hash that are kept: enough to tell values apart.
const KEPT_BYTES: usize = 4;

/// What is asked, without values of fields, of queries and of bodies.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestsSummary {
    /// The requests in their order.
    pub requests: Vec<RequestSummary>,
}

/// One request without its secrets. Hashes are the first 8 hexadecimal digits of SHA-256.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
pub struct RequestSummary {
    /// Its name; empty for none.
    pub name: String,
    /// How often it is asked, in proportion to the others.
    pub weight: f64,
    /// Method.
    pub method: String,
    /// Path without its query; `None` for that of the endpoint's URL.
    pub path: Option<String>,
    /// Hash of the query, where there is one.
    pub query_sha256: Option<String>,
    /// Its fields.
    pub fields: Vec<FieldSummary>,
    /// Length of the body.
    pub body_bytes: u64,
    /// Hash of the body, where there is one.
    pub body_sha256: Option<String>,
}

/// A field by its name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldSummary {
    /// Its name.
    pub name: String,
    /// Hash of its value.
    pub sha256: String,
}

impl Requests {
    /// What may be shown of them.
    #[must_use]
    pub fn summary(&self) -> RequestsSummary {
        let requests = match self {
            Self::Same(request) => vec![request.summary("", 1.0)],
            Self::Drawn(requests) => requests.iter().map(NamedRequest::summary).collect(),
        };
        RequestsSummary { requests }
    }
}

impl NamedRequest {
    fn summary(&self) -> RequestSummary {
        self.request.summary(&self.name, self.weight)
    }
}

impl RequestSummary {
    /// Its name, or method and path; `path` is that of an endpoint whose own is asked.
    #[must_use]
    pub fn title(&self, path: &str) -> String {
        match self.name.is_empty() {
            true => format!("{} {}", self.method, self.path.as_deref().unwrap_or(path)),
            false => self.name.clone(),
        }
    }

    /// It in words: method, path, names of its fields, length of its body.
    #[must_use]
    pub fn text(&self, path: &str) -> String {
        let mut text = format!("{} {}", self.method, self.path.as_deref().unwrap_or(path));
        if self.body_bytes > 0 {
            text += &format!(" with {} bytes", self.body_bytes);
        }
        // How connections are used is said of them.
        let names = self.fields.iter().map(|field| field.name.to_ascii_lowercase());
        let names: Vec<String> = names.filter(|name| name != "connection").collect();
        if !names.is_empty() {
            text += &format!(" and {}", names.join(", "));
        }
        text
    }
}

/// What stands before the hash of a value that is kept.
const MASKED: &str = "sha256:";
/// What stands before the length of a body that is kept as its hash.
const OF: &str = ", bytes: ";
/// A field that tells how connections are used, which is no secret.
const CONNECTION: &str = "connection";

impl Job {
    /// The same with hashes in the place of the values of fields, of queries, of bodies and of data, as it is kept: they may be secret.
    #[must_use]
    pub fn masked(&self) -> Self {
        let mut job = self.clone();
        job.each_request(|request| {
            for (name, value) in &mut request.fields {
                if !name.eq_ignore_ascii_case(CONNECTION) && !is_masked(value) {
                    *value = masked(value.as_bytes());
                }
            }
            if let Some(target) = &mut request.target {
                *target = masked_query(target);
            }
            if !request.body.is_empty() && masked_body(&request.body).is_none() {
                request.body = format!("{}{OF}{}", masked(&request.body), request.body.len()).into_bytes();
            }
        });
        if let Some(data) = &mut job.data {
            data.rows = masked_rows(data);
        }
        job
    }

    /// The first 8 hexadecimal digits of SHA-256 of all that is sent: requests and what fills them; `path` is that of the
    /// endpoints.
    #[must_use]
    pub fn sent_sha256(&self, path: &str) -> String {
        let masked = self.masked();
        let all = serde_json::to_vec(&(masked_query(path), &masked.requests, &masked.data));
        hash(&all.expect("requests are plain data"))
    }
}

impl Request {
    fn summary(&self, name: &str, weight: f64) -> RequestSummary {
        let (path, query) = match self.target.as_deref() {
            Some(target) => {
                target.split_once('?').map_or((Some(target), None), |(path, query)| (Some(path), Some(query)))
            }
            None => (None, None),
        };
        let field = |(name, value): &(String, String)| FieldSummary {
            name: name.clone(),
            sha256: hash(value.as_bytes()),
        };
        RequestSummary {
            name: name.to_owned(),
            weight,
            method: self.method.clone(),
            path: path.map(str::to_owned),
            query_sha256: query.map(|query| match is_masked(query) {
                true => query.trim_start_matches(MASKED).to_owned(),
                false => hash(query.as_bytes()),
            }),
            fields: self.fields.iter().map(field).collect(),
            body_bytes: masked_body(&self.body).map_or(self.body.len() as u64, |(_, bytes)| bytes),
            body_sha256: (!self.body.is_empty())
                .then(|| masked_body(&self.body).map_or_else(|| hash(&self.body), |(sha256, _)| sha256)),
        }
    }
}

fn masked(value: &[u8]) -> String {
    format!("{MASKED}{}", hash(value))
}

/// A path with a hash in the place of its query.
pub(crate) fn masked_query(path: &str) -> String {
    match path.split_once('?') {
        Some((before, query)) if !is_masked(query) => format!("{before}?{}", masked(query.as_bytes())),
        _ => path.to_owned(),
    }
}

/// Hash and length of a body that has been masked.
fn masked_body(body: &[u8]) -> Option<(String, u64)> {
    let (sha256, bytes) = std::str::from_utf8(body).ok()?.split_once(OF)?;
    let sha256 = is_masked(sha256).then(|| sha256.trim_start_matches(MASKED).to_owned())?;
    Some((sha256, bytes.parse().ok()?))
}

/// One row in the place of all: the hash of each column.
fn masked_rows(data: &Data) -> Vec<Vec<String>> {
    if let [row] = data.rows.as_slice()
        && row.iter().all(|cell| is_masked(cell))
    {
        return data.rows.clone();
    }
    let column = |column: usize| {
        let cells: Vec<&str> =
            data.rows.iter().filter_map(|row| row.get(column)).map(String::as_str).collect();
        masked(cells.join("\n").as_bytes())
    };
    vec![(0..data.columns.len()).map(column).collect()]
}

fn is_masked(value: &str) -> bool {
    let digits = value.strip_prefix(MASKED);
    digits
        .is_some_and(|digits| digits.len() == 2 * KEPT_BYTES && digits.bytes().all(|b| b.is_ascii_hexdigit()))
}

fn hash(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().take(KEPT_BYTES).map(|byte| format!("{byte:02x}")).collect()
}
