//! `whyslow report`: one file from run directories, whole, spoilt and foreign ones.

use std::fs;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::support::{fresh_folder, repository, whyslow, whyslow_in};

/// Largest page of such a run, in bytes.
const MAX_PAGE_BYTES: u64 = 2 << 20;

/// A copy of the run that is kept for tests.
pub(crate) fn kept_run() -> PathBuf {
    let folder = fresh_folder().join("run");
    let from = repository("web/fixtures/demo");
    fs::create_dir_all(folder.join("rounds")).unwrap();
    for name in ["manifest.json", "host.json"] {
        fs::copy(from.join(name), folder.join(name)).unwrap();
    }
    for entry in fs::read_dir(from.join("rounds")).unwrap() {
        let entry = entry.unwrap();
        fs::copy(entry.path(), folder.join("rounds").join(entry.file_name())).unwrap();
    }
    folder
}

/// Changes one field of a file of a run.
pub(crate) fn spoil(file: &Path, field: &str, value: Value) {
    let mut object: Value = serde_json::from_str(&fs::read_to_string(file).unwrap()).unwrap();
    object[field] = value;
    fs::write(file, object.to_string()).unwrap();
}

fn report(run: &Path) -> (Option<i32>, String) {
    let printed = whyslow_in(run, &["report", ".", "-o", "page.html"]);
    (printed.code, fs::read_to_string(run.join("page.html")).unwrap())
}

fn data(page: &str) -> Value {
    let after = page.split_once("id=\"whyslow-data\">").unwrap().1;
    serde_json::from_str(after.split_once("</script>").unwrap().0).unwrap()
}

#[test]
fn a_page_carries_the_findings_that_analyse_prints() {
    let run = kept_run();
    let (code, page) = report(&run);
    assert_eq!(code, Some(0));
    assert!((page.len() as u64) < MAX_PAGE_BYTES, "{} bytes", page.len());
    let mut analysed = whyslow_in(&run, &["analyse", ".", "--format", "json"]).json();
    analysed.as_object_mut().unwrap().remove("text");
    let data = data(&page);
    assert_eq!(data["runs"][0]["findings"][0], analysed);
    let validator = jsonschema::validator_for(&whyslow(&["schema", "report"]).json()).unwrap();
    let errors: Vec<String> = validator.iter_errors(&data).map(|error| error.to_string()).collect();
    assert_eq!(errors, [""; 0]);
}

#[test]
fn a_damaged_round_is_left_out_by_name() {
    let run = kept_run();
    fs::write(run.join("rounds/b002-p1.json"), "{\"schema\":1,").unwrap();
    let (code, page) = report(&run);
    assert_eq!(code, Some(0));
    assert!(page.contains("Left out: ") && page.contains("b002-p1.json is damaged"));
}

#[test]
fn one_damaged_file_leaves_the_rest_to_be_read() {
    let run = kept_run();
    fs::write(run.join("host.json"), "{").unwrap();
    let (code, page) = report(&run);
    assert_eq!(code, Some(0));
    assert!(page.contains("Left out: ") && page.contains("host.json is damaged"));
    assert!(page.contains("<section id=\"verdict\"") && page.contains("host: unknown"));
    let printed = whyslow_in(&run, &["analyse", ".", "--details"]);
    assert!(printed.code == Some(0) && printed.out.contains("host.json is damaged"), "{printed:?}");
    fs::write(run.join("manifest.json"), "{").unwrap();
    let (code, page) = report(&run);
    assert_eq!(code, Some(1), "no run could be read");
    assert!(page.contains("manifest.json is damaged") && page.contains("<td>not judged</td>"));
}

#[test]
fn a_run_of_another_host_says_so() {
    let run = kept_run();
    spoil(&run.join("host.json"), "kernel", Value::from("0.1"));
    let page = report(&run).1;
    assert!(page.contains("Made on another host") && page.contains("kernel: 0.1 against "));
    assert_eq!(
        data(&page)["runs"][0]["findings"][0]["host"]["kernel"],
        "0.1",
        "its figures are of its own host"
    );
}

#[test]
fn a_run_that_was_killed_is_called_partial() {
    let run = kept_run();
    spoil(&run.join("manifest.json"), "status", Value::from("running"));
    assert!(report(&run).1.contains("Partial run: not ended"));
}

#[test]
fn of_a_run_that_cannot_be_read_there_is_what_can_be_made_out() {
    let run = kept_run();
    spoil(&run.join("manifest.json"), "schema", Value::from(999));
    let (code, page) = report(&run);
    assert_eq!(code, Some(1), "no run could be read");
    assert!(page.contains("has schema 999") && page.contains("20261120-220443-eda6"), "{page}");
}

#[test]
fn a_page_that_is_there_is_kept_where_there_is_nothing_to_show() {
    let folder = fresh_folder();
    fs::write(folder.join("page.html"), "kept").unwrap();
    let printed = whyslow_in(&folder, &["report", "no-such-run", "-o", "page.html"]);
    assert_eq!((printed.code, printed.err.lines().count()), (Some(1), 1), "{printed:?}");
    assert!(
        printed.err.starts_with("error: no run could be read, so that page.html is not written: "),
        "{printed:?}"
    );
    assert_eq!(fs::read_to_string(folder.join("page.html")).unwrap(), "kept");
}

#[test]
fn a_run_that_is_missing_leaves_a_page_of_the_others_and_is_an_error() {
    let run = kept_run();
    let folder = run.parent().unwrap();
    let printed = whyslow_in(folder, &["report", "run", "no-such-run", "-o", "page.html"]);
    assert_eq!(printed.code, Some(1), "{printed:?}");
    let said = printed.err.lines().filter(|line| line.starts_with("error: 1 of 2 runs could not be read: "));
    assert!(
        said.clone().count() == 1 && said.clone().all(|line| line.contains("no-such-run")),
        "{printed:?}"
    );
    let page = fs::read_to_string(folder.join("page.html")).unwrap();
    assert_eq!(data(&page)["runs"].as_array().unwrap().len(), 1);
    assert!(page.contains("no-such-run"), "the page names it, too");
    assert_eq!(whyslow_in(folder, &["report", "run", "run", "-o", "page.html"]).code, Some(0));
}

#[test]
fn a_page_that_cannot_be_written_is_an_error() {
    let run = kept_run();
    let printed = whyslow_in(&run, &["report", ".", "-o", "no/such/folder/page.html"]);
    assert_eq!(printed.code, Some(1));
    assert!(printed.err.contains("give another file with -o"), "{printed:?}");
    assert_eq!(whyslow(&["report"]).code, Some(2));
}
