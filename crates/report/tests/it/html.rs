//! The page as HTML, with or without its charts.

use analyse::{Detail, Findings};
use report::{PageData, PageRun, Place, Unreadable, page, worded};

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
    PageRun {
        findings: vec![worded(findings)],
        detail: Detail::default(),
        profiles: Vec::new(),
        ladder: None,
        damaged: Vec::new(),
        elsewhere: Vec::new(),
    }
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
        "pr is 1.100x [1.095, 1.105] dearer than main in CPU per request",
        "Next: --blocks 12 would decide at this spread:</p>",
        "whyslow compare 'main=./old --port {port}' --seed 7 --blocks 12</code></pre>",
        "what stall saw",
        "pr: its CPU (98 % of 1 busy)",
        "user_time was weighed",
        "context_switches was weighed",
        "ruled out",
        "something that the reader must know",
        "This run is no ladder",
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
    let run =
        PageRun { findings: [about("a", "b"), about("b", "a")].map(worded).to_vec(), ..shown(findings()) };
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
        host: Some(host("Some CPU")),
        rounds: vec![round("pr")],
    };
    let html = readable(&html(vec![shown(findings()), shown(other)], vec![lost]));
    for words in [
        "were made on unlike hosts",
        "kernel: 6.1 against 6.2",
        "Runs beside each other",
        "it has schema 9",
        "made on Some CPU, 2 CPUs",
        "<td>not judged</td>",
    ] {
        assert!(html.contains(words), "the page does not say: {words}");
    }
    assert!(html.contains("<section id=\"verdict-2\""), "anchors of the second run are its own");
}

fn host(cpu_model: &str) -> model::record::Host {
    model::record::Host { cpu_model: cpu_model.to_owned(), cpus: 2, ..model::record::Host::default() }
}

fn round(arm: &str) -> analyse::RoundDetail {
    analyse::RoundDetail {
        block: 0,
        position: 0,
        attempt: 0,
        arm: arm.to_owned(),
        started_unix_ms: 0,
        void: None,
        warmup_per_turn: Vec::new(),
        steady: true,
        windows: Vec::new(),
    }
}

#[test]
fn a_run_of_another_host_or_of_one_that_is_not_known_says_so() {
    let away = PageRun { elsewhere: vec!["kernel: 6.1 against 6.2".to_owned()], ..shown(findings()) };
    let html = readable(&html(vec![away], Vec::new()));
    assert!(html.contains("Made on another host than this page was written on (kernel: 6.1 against 6.2)."));
    let mut lost = findings();
    lost.host = model::record::Host::unknown();
    let html = readable(&self::html(vec![shown(findings()), shown(lost)], Vec::new()));
    assert!(html.contains("host: unknown") && html.contains("Nothing is known of it"));
    assert!(html.contains("are alike is not known") && !html.contains("unlike hosts"));
}

#[test]
fn what_is_about_one_arm_stands_together_under_its_name() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    for id in ["use", "profile"] {
        let part = part(&html, id);
        let of = &part[part.find("<div data-arm=\"pr\">").expect(id)..];
        assert!(of.contains("<h3>pr") && of.contains("<table>"), "{id}: {of}");
    }
}

#[test]
fn a_change_has_its_interval_and_the_pairs_behind_it() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    let row = "<td>system</td><td class=\"figure\">+100 ns</td><td class=\"figure\">[-5 ns, +110 ns]</td>\
               <td class=\"figure\">95.1 %</td><td class=\"figure\">10</td>";
    assert!(part(&html, "waterfall").contains(row), "{}", part(&html, "waterfall"));
    assert!(part(&html, "limits").contains("<td class=\"figure\">[97.5 %, 98.1 %]</td>"));
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

/// What stands in one part of a page.
fn part<'a>(html: &'a str, id: &str) -> &'a str {
    let start = html.find(&format!("<section id=\"{id}\"")).expect(id);
    &html[start..start + html[start..].find("</section>").unwrap()]
}

#[test]
fn a_table_stands_under_what_it_is_about() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    let cases = [
        ("use", "<h3>pr</h3><div class=\"scroll\"", "<caption>Utilisation, saturation, errors: pr</caption>"),
        (
            "profile",
            "<h3>pr against main (3000 and 3100 samples; ± is of sampling alone)</h3>",
            "<caption>Where in the code: pr against main",
        ),
    ];
    for (id, heading, caption) in cases {
        let part = part(&html, id);
        assert!(part.contains(heading) && part.contains(caption), "{id}: {part}");
        assert!(part.find("class=\"chart\"") < part.find("<h3>"), "{id}: a name is not torn from its table");
    }
}

#[test]
fn the_first_screen_says_why_and_leads_to_the_limits_and_the_causes() {
    let html = readable(&html(vec![shown(findings()), shown(about("a", "b"))], Vec::new()));
    let first = part(&html, "verdict");
    assert!(first.contains("<a href=\"#limits\">What limits each: main: its CPU"), "{first}");
    assert!(first.contains("<a href=\"#ledger\">Every cause, and what was ruled out"), "{first}");
    let why = report::findings_why(&report::worded(findings()));
    assert!(!why.is_empty() && why.iter().all(|line| first.contains(line)), "{why:?}: {first}");
    assert!(first.contains("<dt>noise floor</dt>"), "{first}");
    assert!(part(&html, "verdict-2").contains("<a href=\"#limits-2\">"), "each run leads to its own");
    assert!(html.contains("<a href=\"#verdict-2\">"), "and the bar to each run");
}

#[test]
fn what_no_cause_carries_has_its_row() {
    let mut findings = findings();
    findings.unattributed_share = Some(0.125);
    let html = readable(&html(vec![shown(findings)], Vec::new()));
    let row = "<th scope=\"row\">unattributed</th><td>pr</td>";
    assert!(part(&html, "ledger").contains(row) && part(&html, "ledger").contains("12.5 %"));
}

#[test]
fn one_equal_rate_is_said_to_be_too_few_for_a_line() {
    let curve = |condition: &str| analyse::LatencyCurve {
        arm: "pr".to_owned(),
        condition: condition.to_owned(),
        closed_loop: condition == "capacity",
        rate_per_s: 1000.0,
        requests: 10_000,
        points: vec![analyse::LatencyPoint { quantile: 0.5, ns: 1e6, low_ns: 9e5, high_ns: 2e6, rounds: 6 }],
    };
    for (conditions, wanted) in [(&["capacity", "1/s"][..], true), (&["capacity", "1/s", "2/s"], false)] {
        let latency = conditions.iter().map(|condition| curve(condition)).collect();
        let run = PageRun { detail: Detail { latency, ..Detail::default() }, ..shown(findings()) };
        let html = readable(&html(vec![run], Vec::new()));
        assert_eq!(part(&html, "latency").contains("--equal-rates 25,50,75"), wanted, "{conditions:?}");
    }
}

#[test]
fn a_pair_is_a_row_with_its_ratio_in_every_metric() {
    let html = readable(&html(vec![shown(findings())], Vec::new()));
    let pairs = part(&html, "pairs");
    assert!(pairs.contains("CPU per request</th>") && pairs.contains("p99</th>"), "{pairs}");
    // Three metrics, two blocks, and e to the 0.0953 each time.
    assert_eq!(pairs.matches("<th scope=\"row\">").count(), 2, "{pairs}");
    assert_eq!(pairs.matches("<td class=\"figure\">1.100</td>").count(), 6, "{pairs}");
}
