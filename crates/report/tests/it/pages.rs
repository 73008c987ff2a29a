//! Text and Markdown.

use analyse::{Findings, Metric, Sent, Verdict};
use model::job::Reuse;
use model::plan::{GateId, Machines, Placement};
use report::{TEXT_COLUMNS, load_details, load_markdown, load_text};

use crate::support::{about, findings, findings_details, findings_markdown, headline};

/// Longest arm name there may be.
const LONG: &str = "a-name-as-long-as-a-name-may-be-1234567890123456789012345678901@";

fn all_fit(text: &str) {
    for line in text.lines() {
        assert!(line.chars().count() <= TEXT_COLUMNS, "{} columns: {line}", line.chars().count());
        assert_eq!(line, line.trim_end(), "no space at the end");
        assert!(!line.chars().any(char::is_control), "{line:?}");
    }
}

/// Findings with everything in them that is long, odd, or somebody else's.
fn nasty() -> Findings {
    let mut findings = about(LONG, &LONG.replace('a', "b"));
    findings.arms[1].error = Some("it ".to_owned() + &"answered wrongly ".repeat(20));
    findings.arms[1].log =
        vec!["x".repeat(500), "\u{1b}[31mred\u{1b}[0m \u{7} bell".to_owned(), "ünï 漢字 ".repeat(40)];
    findings.gates[0].text = format!("{} no space anywhere", "/a/path".repeat(60));
    findings.warnings = vec!["word ".repeat(100)];
    findings.command.push("very-long-flag=".repeat(30));
    findings.next = Some(format!(
        "try this\nwhyslow 'it'\\''s {}' {}",
        "odd \u{1b}[31m words ".repeat(20),
        "x".repeat(200)
    ));
    findings.arms[0].rate_per_s = Some(1e12);
    findings.arms[0].rss_peak_bytes = Some(1e15);
    findings
}

#[test]
fn text_fits_a_terminal_whatever_is_in_it() {
    all_fit(&findings_details(&findings()));
    all_fit(&findings_details(&nasty()));
    let mut three = nasty();
    let more: Vec<_> = three
        .comparisons
        .iter()
        .cloned()
        .map(|row| analyse::Comparison { arm: "c".to_owned(), ..row })
        .collect();
    three.comparisons.extend(more);
    three.arms.push(analyse::ArmFindings { name: "c".to_owned(), ..three.arms[1].clone() });
    all_fit(&findings_details(&three));
}

#[test]
fn a_load_reports_text_fits_too() {
    let mut report = testkit::load_report(98_000.0);
    report.url = format!("http://127.0.0.1/{}", "x".repeat(300));
    report.schedule.rate_per_s = Some(1e9);
    report.rate_ratio = Some(0.5);
    report.warnings = vec![model::record::Warning { id: "x".to_owned(), text: "why ".repeat(80) }];
    all_fit(&load_details(&report));
    all_fit(&load_text(&report));
}

#[test]
fn a_run_says_what_was_sent_over_which_connections() {
    let placement = "server on CPU 0, generator on CPU 1";
    for (depth, reuse, words) in [
        (1, Reuse::All, ""),
        (8, Reuse::Requests(1), ", 8 in flight on each, a new one for each request"),
        (1, Reuse::Requests(100), ", a new one after 100 requests"),
    ] {
        let sent = Sent {
            requests: "GET /".to_owned(),
            connections: 64,
            depth,
            reuse,
            placement: Placement {
                server: "0".parse().unwrap(),
                load: "1".parse().unwrap(),
                shared: false,
                polls: false,
                machines: Machines::default(),
            },
        };
        let found = report::worded(Findings { sent: Some(sent), ..findings() });
        assert_eq!(found.workload, format!("GET / over 64 connections{words}; {placement}"));
    }
}

#[test]
fn nothing_is_lost_when_long_words_are_broken() {
    let text = findings_details(&nasty());
    let joined: String = text.split_whitespace().collect();
    assert!(joined.contains(&"x".repeat(500)), "the log line is whole");
    assert!(joined.contains(&"/a/path".repeat(60)));
}

#[test]
fn sections_come_in_the_order_of_the_questions() {
    let mut findings = findings();
    findings.partial = Some("interrupted in block 7".to_owned());
    findings.arms[0].error = Some("it crashed".to_owned());
    let order = [
        "PARTIAL RUN: interrupted in block 7.",
        "pr is 1.100x [1.095, 1.105] dearer than main in CPU per request at capacity",
        "What limits each",
        "Why",
        "Ruled out",
        "Next: --blocks 12 would decide at this spread:\n",
        "\n  whyslow compare 'main=./old --port {port}' --seed 7 --blocks 12\n",
        "Verdicts (arm against baseline)",
        "Arms at capacity",
        "Response at 20000 requests/s",
        "What a request costs",
        "Watching",
        "Gates",
        "Warnings",
        "Failed",
        "Run",
    ];
    let text = findings_details(&findings);
    let places: Vec<usize> = order
        .iter()
        .map(|title| text.find(title).unwrap_or_else(|| panic!("no '{title}' in:\n{text}")))
        .collect();
    assert!(places.is_sorted(), "{places:?} in:\n{text}");
}

/// A shell that is given the lines of a command as they are printed hands on the words that were meant.
#[test]
fn the_next_command_can_be_pasted_into_a_shell() {
    let words =
        ["pr='./it'\\''s new'", &format!("'{}'", "a  b ' ".replace('\'', "'\\''").repeat(40)), "''", "x"];
    for command in
        [words.join(" "), "y".repeat(300), format!("{} {}", "z".repeat(70), "--blocks ".repeat(30))]
    {
        let mut findings = findings();
        findings.next = Some(format!("a reason\nprintf '<%s>' {command}"));
        let text = findings_details(&findings);
        all_fit(&text);
        let after = text.split_once("Next: a reason:\n\n").unwrap().1;
        let lines = after.split_once("\n\n").unwrap().0;
        let run = |script: &str| {
            let output = std::process::Command::new("sh").args(["-c", script]).output().unwrap();
            String::from_utf8(output.stdout).unwrap()
        };
        assert_eq!(run(lines), run(&format!("printf '<%s>' {command}")), "{lines}");
    }
    let mut odd = findings();
    odd.next = Some("a reason\nwhyslow compare '<b>*bold*'".to_owned());
    assert!(findings_markdown(&odd).contains("Next: a reason:\n\n    whyslow compare '<b>*bold*'\n"));
}

#[test]
fn empty_sections_are_left_out() {
    let mut findings = findings();
    findings.warnings.clear();
    findings.causes.clear();
    findings.unattributed_share = None;
    findings.next = None;
    let text = findings_details(&findings);
    for title in ["\nWarnings\n", "\nWhy\n", "\nRuled out\n", "\nFailed\n", "Next:"] {
        assert!(!text.contains(title), "'{title}' in:\n{text}");
    }
}

#[test]
fn each_verdict_has_its_sentence() {
    let cases = [
        (Verdict::Slower, "pr is 1.100x [1.095, 1.105] dearer than main in CPU per request at capacity"),
        (Verdict::Faster, "pr is 1.100x [1.095, 1.105] cheaper than main in CPU per request at capacity"),
        (Verdict::Equal, "pr equals main in CPU per request at capacity: ratio 1.100 [1.095, 1.105]"),
        (Verdict::Inconclusive, "pr against main: inconclusive in CPU per request at capacity, ratio 1.100"),
        (Verdict::Invalid, "pr against main: no verdict in CPU per request at capacity: gate parity failed."),
    ];
    for (verdict, want) in cases {
        let mut findings = findings();
        findings.comparisons.truncate(1);
        findings.comparisons[0].verdict = verdict;
        findings.comparisons[0].void_by = vec![GateId::Parity];
        let found = headline(&findings, "pr");
        assert!(found.starts_with(want), "{found}");
    }
    let mut failed = findings();
    failed.arms[1].error = Some("it exited with 7 before it was ready".to_owned());
    assert_eq!(headline(&failed, "pr"), "pr gave no verdict: it exited with 7 before it was ready.");
}

#[test]
fn a_smaller_ratio_is_said_as_times_cheaper() {
    let mut findings = findings();
    let row = &mut findings.comparisons[0];
    (row.verdict, row.ratio, row.ci_low, row.ci_high) = (Verdict::Faster, Some(0.5), Some(0.4), Some(0.625));
    let found = headline(&findings, "pr");
    assert!(found.starts_with("pr is 2.000x [1.600, 2.500] cheaper than main"), "{found}");
}

#[test]
fn a_rate_that_cpu_time_does_not_explain_is_said_as_well() {
    let mut findings = findings();
    let mut rate = findings.comparisons[0].clone();
    rate.metric = Metric::Rate;
    let cpu = findings.comparisons[0].clone();
    // The same slowdown seen from the other side, one that is a little larger, and one that is another altogether.
    for (ratio, begins, ends) in [
        (0.909, "pr is 1.100x [1.095, 1.105] dearer than main in CPU per request", ")."),
        (0.85, "pr is 1.100x [1.095, 1.105] dearer", ". In rate it is 1.176x [1.165, 1.188] slower."),
        (
            0.02,
            "pr is 50.000x [49.505, 50.505] slower",
            ". In CPU per request it is 1.100x [1.095, 1.105] dearer.",
        ),
    ] {
        (rate.verdict, rate.ratio, rate.ci_low, rate.ci_high) =
            (Verdict::Slower, Some(ratio), Some(ratio * 0.99), Some(ratio * 1.01));
        findings.comparisons = vec![cpu.clone(), rate.clone()];
        let found = headline(&findings, "pr");
        assert!(found.starts_with(begins) && found.ends_with(ends), "{found}");
    }
    rate.verdict = Verdict::Inconclusive;
    findings.comparisons[1] = rate;
    assert!(!headline(&findings, "pr").contains(" In rate"));
}

#[test]
fn a_red_gate_says_what_it_voids_and_a_note_does_not() {
    let text = findings_details(&findings());
    for line in [
        "ok parity: what parity saw.",
        "FAILED stall: what stall saw. Voids p50.",
        "NOTE fairness: what fairness saw.",
    ] {
        assert!(text.contains(line), "'{line}' is not in:\n{text}");
    }
}

#[test]
fn the_command_that_repeats_a_run_can_be_pasted() {
    let text = findings_details(&findings());
    let at = text.find("repeat with: ").unwrap();
    let line: Vec<&str> = text[at + "repeat with: ".len()..].lines().take(2).map(str::trim).collect();
    let words = shlex::split(&line.join(" ")).unwrap();
    assert_eq!(words[..5], findings().command[..5], "{line:?}");
}

#[test]
fn markdown_acts_on_nothing_that_came_from_outside() {
    let mut findings = findings();
    findings.arms[1].error = Some("<script>alert(1)</script> & *bold* `code` [a](http://b) a|b".to_owned());
    let page = findings_markdown(&findings);
    assert!(!page.contains("<script>"), "{page}");
    let want = r"&lt;script&gt;alert(1)&lt;/script&gt; &amp; \*bold\* \`code\` \[a](http://b) a\|b";
    assert!(page.contains(want), "{page}");
}

#[test]
fn markdown_tables_have_as_many_cells_in_every_row() {
    let mut report = testkit::load_report(98_000.0);
    report.schedule.rate_per_s = Some(1e5);
    for page in [findings_markdown(&findings()), findings_markdown(&nasty()), load_markdown(&report)] {
        let rows = |line: &&str| line.starts_with('|');
        let cells: Vec<usize> =
            page.lines().filter(rows).map(|line| line.replace(r"\|", "").matches('|').count()).collect();
        assert!(cells.len() >= 4, "{page}");
        assert!(
            page.split("\n\n").all(|part| {
                let mut counts =
                    part.lines().filter(rows).map(|line| line.replace(r"\|", "").matches('|').count());
                let first = counts.next();
                counts.all(|count| Some(count) == first)
            }),
            "{page}"
        );
    }
}

#[test]
fn a_case_says_what_was_repeated_before_its_tables() {
    let findings = crate::support::case();
    let text = report::case_details(&report::worded(findings.clone()));
    let mut rest = text.as_str();
    for want in [
        "Question: Which is faster?",
        "PARTLY: pr is slower. Published: x0.500. Here: x0.9 [0.8, 0.95]",
        "(89091)",
        "A rate in brackets is void",
        "PR: here pr in 'c'; published mean 2.00 ms",
        "left: nothing",
        "repeat with: whyslow case run x",
        "2026-01-02 (UTC)",
        "c, d: fewer connections",
        "pr is 1.100x [1.095, 1.105] dearer than main in CPU per request",
        "what the profile counted",
    ] {
        let at = rest.find(want).unwrap_or_else(|| panic!("'{want}' is not there, or too early, in\n{text}"));
        rest = &rest[at + want.len()..];
    }
    assert_eq!(text.matches("fewer connections").count(), 1, "{text}");
    let first = report::case_text(&report::worded(findings.clone()), report::Style::Plain);
    for want in ["Question: Which is faster?", "pr  1.10x dearer than main", "partly: pr is slower"] {
        assert!(first.contains(want), "'{want}' is not in\n{first}");
    }
    assert!(!first.contains("repeat with") && first.lines().count() < text.lines().count() / 2, "{first}");
    let markdown = report::case_markdown(&report::worded(findings.clone()));
    assert!(markdown.contains("| system | published/s |"), "{markdown}");
}

#[test]
fn responses_with_several_peaks_are_told_beside_what_limits_their_arm() {
    let peak = |at_ns| analyse::ResponsePeak {
        at_ns,
        range_ns: [0, 1 << 40],
        share: 0.5,
        windows: 10,
        coincides_with: None,
        remarks: Vec::new(),
    };
    let shape = |text: &str, peaks: &[f64]| analyse::ResponseShape {
        condition: "capacity".to_owned(),
        windows: 10,
        responses: 1000,
        peaks: peaks.iter().map(|at_ns| peak(*at_ns)).collect(),
        text: format!("responses at capacity have {text}"),
    };
    let mut findings = findings();
    findings.arms[0].response_shapes = vec![shape("one peak", &[1e6])];
    findings.arms[1].response_shapes = vec![shape("two peaks", &[1e6, 4e7])];
    let text = findings_details(&findings);
    assert!(!text.contains("have one peak"), "{text}");
    let place = |words: &str| text.find(words).unwrap_or_else(|| panic!("{words}: {text}"));
    let peaks = place("pr: responses at capacity have two peaks");
    assert!(place("What limits each") < peaks && peaks < place("\nWhy"), "{text}");
}

#[test]
fn a_ladder_says_how_sure_the_difference_of_its_product_is() {
    let rung = |from: &str, to: &str, ratio| analyse::Rung {
        from: from.to_owned(),
        to: to.to_owned(),
        verdict: Verdict::Faster,
        ratio: Some(ratio),
        ci_low: Some(ratio - 0.01),
        ci_high: Some(ratio + 0.01),
        level: Some(0.95),
        blocks: 10,
        void_by: Vec::new(),
    };
    let page_with = |unfinished: Option<analyse::Unfinished>| {
        let metric = analyse::MetricLadder {
            metric: analyse::Metric::CpuPerRequest,
            rungs: vec![rung("a", "b", 0.9), rung("b", "c", 0.8)],
            whole: rung("a", "c", 0.73),
            product: Some(0.72),
            product_over_whole_ci: Some([0.97, 0.99]),
            alone: vec![analyse::Alone {
                step: "c".to_owned(),
                by_itself: rung("a", "c-alone", 0.7),
                interaction: analyse::Rung {
                    verdict: Verdict::Slower,
                    ci_low: Some(1.1),
                    ci_high: Some(1.2),
                    ..rung("c-alone", "c", 0.8 / 0.7)
                },
            }],
        };
        let ladder = analyse::Ladder {
            schema: 1,
            run_id: "made-up".to_owned(),
            steps: ["a", "b", "c"].map(str::to_owned).to_vec(),
            metrics: vec![metric],
            unfinished,
            of_rungs: vec![findings()],
        };
        let text = report::ladder_text(&ladder);
        let why = report::findings_why(&report::worded(findings()));
        assert!(!why.is_empty() && why.iter().all(|line| text.contains(line)), "{text}");
        assert!(text.contains("main → pr\n"), "{text}");
        text.split_whitespace().collect::<Vec<_>>().join(" ")
    };
    let whole = page_with(None);
    assert!(whole.contains("The steps multiply to 0.720; the last against the first is 0.730. "), "{whole}");
    assert!(whole.starts_with("Ladder: "), "{whole}");
    let partial = page_with(Some(analyse::Unfinished { interrupted: true, block: Some(3) }));
    assert!(
        partial.starts_with(
            "PARTIAL RUN: interrupted after block 3: figures are of what was measured. Ladder: "
        ),
        "{partial}"
    );
    let row = "c-alone 0.700 [0.690, 0.710] 1.143 [1.100, 1.200] less on top";
    assert!(whole.contains(row), "{whole}");
}

#[test]
fn what_is_known_only_as_at_least_so_late_is_printed_so() {
    let mut report = testkit::load_report(20_000.0);
    report.schedule.rate_per_s = Some(25_000.0);
    // A twentieth was still on its way when the window ended.
    report.unfinished = report.response_ns.count / 20;
    let page = load_details(&report);
    let row = page.lines().find(|line| line.trim_start().starts_with("response ")).unwrap();
    assert_eq!(row.matches('≥').count(), 4, "p99, p99.9, max and mean: {row}");
    assert!(page.contains("p99 3.20 ms or more"), "{page}");
    report.unfinished = 1;
    assert!(!load_details(&report).contains('≥'));
    // Of a closed loop every connection has one on its way, at the end as at any other moment.
    report.schedule.rate_per_s = None;
    report.unfinished = report.response_ns.count / 20;
    assert!(!load_details(&report).contains('≥'));
}

#[test]
fn a_load_is_told_in_six_lines() {
    let mut report = testkit::load_report(98_000.0);
    report.warnings.clear();
    let text = load_text(&report);
    assert!(text.lines().filter(|line| !line.is_empty()).count() <= 6, "{text}");
    assert!(
        text.contains("98000 requests/s") && text.contains("p99.9") && text.contains("errors: none"),
        "{text}"
    );
    report.errors.timeout = 3;
    report.warnings = vec![model::record::Warning { id: "x".to_owned(), text: "the rate fell".to_owned() }];
    let text = load_text(&report);
    assert!(text.contains("errors: timeout 3") && text.contains("the rate fell"), "{text}");
    assert!(load_details(&report).contains("generator CPU") && !text.contains("generator CPU"));
}

#[test]
fn a_load_is_told_in_words_that_fit_its_counts() {
    let mut report = testkit::load_report(0.25);
    (report.requests, report.connections.established) = (1, 1);
    let text = report::load_text(&report).replace('\n', " ");
    assert!(text.starts_with("0.25 requests/s from "), "{text}");
    assert!(text.contains("(1 request over 1 connection, 1 thread)"), "{text}");
    report.url = format!("http://h/{}", "a".repeat(5000));
    report.response_ns = model::record::Percentiles::default();
    let text = report::load_text(&report);
    assert!(text.contains("(5009 bytes)") && text.len() < 2000, "{text}");
    let row = text.lines().find(|line| line.trim_start().starts_with("response")).unwrap();
    assert_eq!(row.split_whitespace().filter(|cell| *cell == "-").count(), 7, "{row}");
    (report.partial, report.window_ns) = (true, 0);
    for text in [report::load_text(&report), report::load_details(&report)] {
        let text = text.replace('\n', " ");
        assert!(text.starts_with("Interrupted before the window began"), "{text}");
        assert!(!text.contains("requests/s"), "{text}");
    }
}
