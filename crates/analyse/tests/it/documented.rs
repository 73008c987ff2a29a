//! Tables of METHODOLOGY.md against the constants of the code.

use analyse::Metric;
use stats::looks::{LOOKS, MOST_QUICK};

const METHODOLOGY: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../METHODOLOGY.md");

fn cells(line: &str) -> Vec<&str> {
    line.trim_matches('|').split('|').map(str::trim).collect()
}

#[test]
fn the_tables_of_the_methodology_are_those_of_the_code() {
    let page = std::fs::read_to_string(METHODOLOGY).unwrap();
    let rows: Vec<Vec<&str>> = page.lines().filter(|line| line.starts_with('|')).map(cells).collect();
    let percent = |share: f64| format!("{} %", (share * 1e5).round() / 1e3);
    for metric in Metric::ALL {
        let name = if metric == Metric::Rss { "memory" } else { metric.label() };
        let of_metric = |row: &&Vec<&str>| row.len() == 3 && row[0].split(", ").any(|word| word == name);
        let differs = [percent(metric.delta()), percent(metric.least())];
        let row = rows.iter().filter(of_metric).find(|row| row[1].ends_with('%'));
        assert_eq!(row.map(|row| &row[1..]), Some(&[&*differs[0], &*differs[1]][..]), "{name}");
    }
    let [first, second, last] = LOOKS;
    let blocks = format!("{first}, {second} or {last}");
    let row = rows.iter().find(|row| row.first() == Some(&"blocks")).unwrap();
    let quick = format!("{first} to {MOST_QUICK} by what a start takes, one look ");
    assert!(row[1] == blocks && row[2].starts_with(&quick), "{row:?}");
    assert!(page.contains(&format!("After {first}, {second} and {last} blocks")));
}
