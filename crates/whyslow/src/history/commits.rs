//! Series in the order of the commits that were measured: a run of today may be of a commit of last year.

use std::collections::{BTreeMap, BTreeSet};

use launch::Repository;
use report::{HistoryPoint, HistorySeries};

/// Orders each series by commits where the repository here has all of them; the others stay as they are.
pub(super) fn order(series: &mut [HistorySeries]) {
    let points = series.iter().flat_map(|one| &one.points);
    let commits: BTreeSet<&str> = points.filter_map(|point| point.commit.as_deref()).collect();
    // What a run says is not yet known to be a commit: a word with a dash would be an option.
    let commits: Vec<&str> = commits.into_iter().filter(|name| is_hash(name)).collect();
    if commits.len() < 2 {
        return;
    }
    let places = places(&commits).unwrap_or_default();
    series.iter_mut().for_each(|one| by_commit(&mut one.points, &places));
}

fn is_hash(name: &str) -> bool {
    !name.is_empty() && name.bytes().all(|byte| byte.is_ascii_hexdigit())
}

/// The place of each commit in the history that leads to any of them; nothing where there is no repository.
fn places(commits: &[&str]) -> Option<BTreeMap<String, usize>> {
    let repository = Repository::find(&std::env::current_dir().ok()?).ok()?;
    let args = [&["rev-list", "--topo-order", "--reverse", "--ignore-missing"][..], commits].concat();
    let listed = repository.git(&args).ok()?;
    Some(listed.lines().enumerate().map(|(place, hash)| (hash.to_owned(), place)).collect())
}

/// Sorts points by the places of their commits, of one commit the earliest run first; leaves them where one has no place.
fn by_commit(points: &mut [HistoryPoint], places: &BTreeMap<String, usize>) {
    let place = |point: &HistoryPoint| places.get(point.commit.as_ref()?).copied();
    if points.iter().all(|point| place(point).is_some()) {
        points.sort_by_key(|point| (place(point), point.changed, point.started_unix_s));
    }
}
