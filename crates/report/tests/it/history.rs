//! The list of runs and how figures moved.

use analyse::Metric;
use report::{
    HistoryPoint, HistorySeries, ListedRun, history_json, history_markdown, history_page, history_text,
    runs_page,
};

fn series() -> HistorySeries {
    let point = |index: u64, value: f64| HistoryPoint {
        run: format!("run-{index}"),
        started_unix_s: 1_800_000_000 + 86_400 * index,
        state: Some(format!("c0ffee{index}")),
        value,
        low: value - 100.0,
        high: value + 100.0,
        rounds: 10,
        commit: None,
        changed: false,
        change_p: (index == 2).then_some(0.004),
    };
    HistorySeries {
        arm: "<b>main</b>".to_owned(),
        metric: Metric::CpuPerRequest,
        condition: "capacity".to_owned(),
        workload: "compare: GET /".to_owned(),
        host: "Some CPU, 2 CPUs".to_owned(),
        points: vec![point(0, 9_000.0), point(1, 9_100.0), point(2, 12_000.0)],
    }
}

#[test]
fn a_history_says_value_spread_and_change_in_every_format() {
    let series = [series()];
    let text = history_text(&series);
    for words in [
        "CPU per request at capacity",
        "c0ffee2",
        "2027-01-15 08:00",
        "9.00 µs",
        "[11.9 µs, 12.1 µs]",
        "p = 0.004",
    ] {
        assert!(text.contains(words), "{words} in {text}");
        assert!(history_page(&series).html.contains(words), "{words} on the page");
    }
    assert!(history_markdown(&series).contains("| run-2 |"));
    let json: serde_json::Value = serde_json::from_str(&history_json(&series)).unwrap();
    assert_eq!(json[0]["points"][2]["change_p"], 0.004);
    let page = history_page(&series).html;
    assert!(!page.contains("<b>"), "a name is text");
    assert!(page.contains("<td><a href=\"/run/run-2\">run-2</a></td>"), "a figure leads to its run");
    assert!(history_text(&[]).contains("No run kept here"));
}

#[test]
fn a_terminal_shows_the_whole_state_and_leaves_out_what_the_names_say() {
    let mut series = series();
    for (index, point) in series.points.iter_mut().enumerate() {
        point.run = format!("2027011{index}-080000-9f3c");
        point.state = Some("092d9b0776 with changes".to_owned());
        point.changed = true;
    }
    let text = history_text(std::slice::from_ref(&series));
    assert!(text.contains("  092d9b0776 with changes  20270112-080000-9f3c  12.0 µs  ["), "{text}");
    assert!(!text.contains("begun") && text.contains("each of 10 rounds"), "{text}");
    assert!(text.contains("From 20270112-080000-9f3c on it differs from before: p = 0.004"), "{text}");
    assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    // What an earlier version kept of the same tree.
    series.points[1].state = Some("092d9b0776".to_owned());
    series.points[1].run = "by-hand".to_owned();
    let page = history_markdown(&[series]);
    assert!(page.contains("| 092d9b0776 with changes | 2027-01-16 08:00 | by-hand |"), "{page}");
}

#[test]
fn the_list_of_runs_links_to_each_by_its_encoded_name() {
    let run = |name: &str, case: &str| ListedRun {
        name: name.to_owned(),
        started_unix_s: 1_800_000_000,
        case: case.to_owned(),
        status: "complete".to_owned(),
        host: "Some CPU".to_owned(),
        says: vec!["pr is <slower>".to_owned()],
    };
    let html = runs_page(&[run("a b/..\"", "compare"), run("plain-1", "nagle")]).html;
    assert!(html.contains("href=\"/run/a%20b%2F..%22\"") && html.contains("href=\"/run/plain-1\""), "{html}");
    assert!(html.contains("pr is &lt;slower&gt;"));
    assert!(html.find("<h2>compare</h2>") < html.find("<h2>nagle</h2>"));
}
