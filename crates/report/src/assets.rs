//! The script and the style sheet of `charts/`, which `make web` builds, and what stands in for them without it.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use sha2::{Digest, Sha256};

/// The charts; absent where whyslow was built without them.
#[cfg(charts)]
pub(crate) const SCRIPT: Option<&str> = Some(include_str!("../charts/report.js"));
/// The charts; absent where whyslow was built without them.
#[cfg(not(charts))]
pub(crate) const SCRIPT: Option<&str> = None;

/// How the page looks, charts or not.
pub(crate) const STYLE: &str = include_str!("page.css");

/// What the charts add to it.
#[cfg(charts)]
pub(crate) const CHART_STYLE: &str = include_str!("../charts/report.css");
/// What the charts add to it.
#[cfg(not(charts))]
pub(crate) const CHART_STYLE: &str = "";

/// What the page may do: run its own script and nothing else. Nothing is fetched; `connect` is what a served page
/// may ask of its server (`'none'` in a file).
///
/// Styles may stand inline: the chart library puts a style element into each drawing.
/// Source: Content Security Policy Level 3, section 6.
pub(crate) fn policy(connect: &str) -> String {
    let script = SCRIPT.map_or_else(|| "'none'".to_owned(), |script| format!("'sha256-{}'", hash(script)));
    format!(
        "default-src 'none'; script-src {script}; style-src 'unsafe-inline'; img-src data:; \
         connect-src {connect}; base-uri 'none'; form-action 'none'"
    )
}

fn hash(text: &str) -> String {
    STANDARD.encode(Sha256::digest(text.as_bytes()))
}
