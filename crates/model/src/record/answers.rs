use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

/// What every arm answered when it was asked a few times for each request, before anything was scored.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct AnswersRecord {
    /// Schema version.
    pub schema: u32,
    /// The arms that were asked, in the order of the plan.
    pub arms: Vec<ArmAnswers>,
}

/// What one arm answered.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct ArmAnswers {
    /// Its name.
    pub arm: String,
    /// Each request that it was asked for.
    pub requests: Vec<RequestAnswers>,
}

/// The answers to one request.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RequestAnswers {
    /// Its name; `METHOD PATH` where it has none.
    pub request: String,
    /// The answers in their order.
    pub replies: Vec<Reply>,
    /// Whether the server left the connection open although the request asked it to close it.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub left_open: bool,
}

/// One answer.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Reply {
    /// Status.
    pub status: u16,
    /// Names and values of its fields, in order.
    pub fields: Vec<(String, String)>,
    /// Whether the server closes the connection after it.
    pub closed: bool,
    /// Length of the body without the framing of chunks.
    pub body_bytes: u64,
    /// SHA-256 of the body, hexadecimal.
    pub body_sha256: String,
    /// The body, or as much of its begin as is kept; text where it is UTF-8, else a list of bytes.
    #[serde(with = "crate::job::body", default)]
    #[schemars(with = "serde_json::Value")]
    pub body: Vec<u8>,
}

impl Reply {
    /// Longest body that is kept, in bytes: pages and lists of JSON are shorter, and a run has a few for each arm.
    pub const KEPT_BYTES: usize = 64 * 1024;

    /// An answer with this body.
    #[must_use]
    pub fn new(status: u16, fields: Vec<(String, String)>, closed: bool, body: &[u8]) -> Self {
        Self {
            status,
            fields,
            closed,
            body_bytes: body.len() as u64,
            body_sha256: Sha256::digest(body).iter().map(|byte| format!("{byte:02x}")).collect(),
            body: body[..body.len().min(Self::KEPT_BYTES)].to_vec(),
        }
    }

    /// The body, where all of it was kept.
    #[must_use]
    pub fn whole_body(&self) -> Option<&[u8]> {
        (self.body.len() as u64 == self.body_bytes).then_some(self.body.as_slice())
    }
}
