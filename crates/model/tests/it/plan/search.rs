use model::plan::{Search, Try};

/// Runs a search against a server that holds up to `knee` in a window, and up to `steady` in a longer one.
fn run(mut search: Search, knee: f64, steady: f64) -> (Try, Vec<f64>) {
    let mut tried = Vec::new();
    for _ in 0..200 {
        let holds = match search.next() {
            Try::Probe(rate) => {
                tried.push(rate);
                rate <= knee
            }
            Try::Confirm(rate) => rate <= steady,
            end => return (end, tried),
        };
        search.record(holds);
    }
    panic!("the search does not end: {tried:?}");
}

#[test]
fn the_knee_is_found_within_the_precision_from_below_and_from_above() {
    for (first, knee) in [(100.0, 12_345.0), (50_000.0, 12_345.0), (1.0, 1.5), (12_345.0, 12_345.0)] {
        let (end, tried) = run(Search::new(first, 1e9, 0.05), knee, knee);
        let Try::Found(Some(rate)) = end else { panic!("{first} {knee}: {end:?}") };
        assert!(rate <= knee && rate * 1.05 >= knee, "from {first}: {rate} for {knee}");
        assert!(tried.len() <= 24, "from {first}: {} tries", tried.len());
    }
}

#[test]
fn a_server_that_holds_at_no_rate_ends_the_search() {
    assert_eq!(run(Search::new(1000.0, 1e9, 0.05), 0.0, 0.0).0, Try::Found(None));
}

#[test]
fn a_search_that_meets_its_ceiling_says_at_least() {
    assert_eq!(run(Search::new(1000.0, 30_000.0, 0.05), 1e6, 1e6).0, Try::AtLeast(30_000.0));
}

#[test]
fn what_a_longer_window_does_not_confirm_counts_as_failed() {
    let (end, _) = run(Search::new(1000.0, 1e9, 0.05), 10_000.0, 9_300.0);
    let Try::Found(Some(rate)) = end else { panic!("{end:?}") };
    assert!(rate <= 9_300.0 && rate > 8_500.0, "{rate}");
    assert_eq!(run(Search::new(1000.0, 1e9, 0.05), 10_000.0, 10.0).0, Try::Found(None));
}
