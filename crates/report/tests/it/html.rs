//! The page as HTML, with or without its charts.

use analyse::{Detail, Findings};
use report::{PageData, PageRun, Place, Unreadable, page};

use crate::support::{about, findings};

const PARTS: [&str; 10] = [
    "verdict",
    "limits",
    "waterfall",
    "ledger",
    "profile",
    "latency",
    "pairs",
    "use",
    "ladder",
    "environment",
];

fn shown(findings: Findings) -> PageRun {
    PageRun { findings: vec![findings], detail: Detail::default(), damaged: Vec::new() }
}

fn html(runs: Vec<PageRun>, unreadable: Vec<Unreadable>) -> String {
    page(&PageData::new(runs, unreadable), Place::File).html
}

/// The page without its script, its style and its data: what a reader without scripts gets.
fn readable(html: &str) -> String {
    let mut text = html.to_owned();
    for element in ["script", "style"] {
        while let Some(start) = text.find(&format!("<{element}")) {
            let end = text[start..].find(&format!("</{element}>")).unwrap() + start + element.len() + 3;
            text.replace_range(start..end, "");
        }
    }
    text
}

#[test]
fn the_ten_parts_stand_in_their_order() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    let places: Vec<usize> =
        PARTS.iter().map(|id| html.find(&format!("<section id=\"{id}\"")).expect(id)).collect();
    assert!(places.is_sorted(), "{places:?}");
}

#[test]
fn what_matters_is_readable_without_scripts() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    let wanted = [
        "pr is 1.100x [1.095, 1.105] slower than main in CPU per request",
        "Next: --blocks 12 would decide at this spread.",
        "what stall saw",
        "pr: its CPU (98 % of 1 busy)",
        "user_time was weighed",
        "context_switches was weighed",
        "ruled out",
        "something that the reader must know",
        "This run has no profile.",
        "repeat with: whyslow compare",
    ];
    for words in wanted {
        assert!(html.contains(words), "the page does not say: {words}");
    }
}

#[test]
fn a_name_is_text_wherever_it_stands() {
    let evil = "<img src=x onerror=alert(1)></script><script>alert(2)</script>";
    let html = html(vec![shown(about("main", evil))], Vec::new());
    assert!(!html.contains("<img") && !html.contains("<script>alert"), "markup from a name");
    assert!(html.contains("&lt;img src=x"));
    // The data still says the name as it is.
    let start = html.find("id=\"whyslow-data\">").unwrap() + "id=\"whyslow-data\">".len();
    let json = &html[start..start + html[start..].find("</script>").unwrap()];
    let data: serde_json::Value = serde_json::from_str(json).unwrap();
    assert_eq!(data["runs"][0]["findings"][0]["arms"][1]["name"], evil);
}

#[test]
fn a_file_may_ask_nothing_of_anyone() {
    let data = PageData::new(vec![shown(findings())], Vec::new());
    let file = page(&data, Place::File);
    for directive in ["default-src 'none'", "connect-src 'none'", "base-uri 'none'", "form-action 'none'"] {
        assert!(file.policy.contains(directive) && file.html.contains(directive.split('\'').next().unwrap()));
    }
    let served = page(&data, Place::Served { events: Some("/run/1/events") });
    assert!(served.policy.contains("connect-src 'self'"));
    assert!(served.html.contains("data-events=\"/run/1/events\""));
    let words = readable(&file.html);
    for outside in ["http://", "https://", "src=", "@import"] {
        assert!(!words.contains(outside), "{outside} in the page");
    }
}

#[test]
fn each_choice_of_the_baseline_has_its_text_and_one_is_shown() {
    let run = PageRun { findings: vec![about("a", "b"), about("b", "a")], ..shown(findings()) };
    let html = readable(&html(vec![run], Vec::new()));
    assert!(html.contains("b is 1.100x") && html.contains("a is 1.100x"));
    let verdict =
        &html[html.find("<section id=\"verdict\"").unwrap()..html.find("<section id=\"limits\"").unwrap()];
    assert!(
        verdict.contains("data-baseline=\"a\">") && verdict.contains("data-baseline=\"b\" hidden>"),
        "{verdict}"
    );
}

#[test]
fn what_is_wrong_with_a_run_is_said_first() {
    let mut partial = findings();
    partial.partial = Some("interrupted in block 3".to_owned());
    partial.arms[1].error = Some("it ended in the window".to_owned());
    let run = PageRun { damaged: vec!["b000-p0.json is damaged".to_owned()], ..shown(partial) };
    let html = readable(&html(vec![run], Vec::new()));
    for banner in
        ["Partial run: interrupted in block 3.", "Left out: b000-p0.json is damaged.", "pr failed: it ended"]
    {
        let place = html.find(banner).expect(banner);
        assert!(place < html.find("<section").unwrap(), "{banner} comes too late");
    }
}

#[test]
fn runs_of_unlike_hosts_and_runs_that_cannot_be_read_have_their_place() {
    let mut other = findings();
    other.host.kernel = "6.2".to_owned();
    other.run_id = "other".to_owned();
    let lost = Unreadable {
        name: "lost".to_owned(),
        error: "it has schema 9".to_owned(),
        facts: vec![("status".to_owned(), "complete".to_owned())],
    };
    let html = readable(&html(vec![shown(findings()), shown(other)], vec![lost]));
    for words in
        ["were made on unlike hosts", "kernel: 6.1 against 6.2", "Runs beside each other", "it has schema 9"]
    {
        assert!(html.contains(words), "the page does not say: {words}");
    }
    assert!(html.contains("<section id=\"verdict-2\""), "anchors of the second run are its own");
}

#[test]
fn only_columns_of_figures_stand_to_the_right() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    for cell in [
        "<td class=\"figure\">1.100</td>",
        "<td>what parity saw</td>",
        "<td class=\"word ok\">ok</td>",
        "<td class=\"word slower\">slower</td>",
    ] {
        assert!(html.contains(cell), "no {cell}");
    }
}
