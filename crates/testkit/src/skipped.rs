use std::io::Write as _;

/// The variable that names a file: each test that is left out adds a line to it.
pub const LIST: &str = "SKIPPED_TESTS";
/// The variable that names what this machine is said to have, as words with commas between them; `all` for everything. A test that is
/// left out for want of it fails.
pub const REQUIRED: &str = "REQUIRED_CAPABILITIES";

/// Says that a test is left out here and why: in a clause that names what is missing.
///
/// # Panics
/// Where the variable [`REQUIRED`] says that it is there.
pub fn skipped(why: &str) {
    let test = std::thread::current().name().unwrap_or("a test").to_owned();
    let line = format!("skipped: {test}: {why}\n");
    // Not through the harness, which shows what passes nobody.
    let _ = std::io::stderr().write_all(line.as_bytes());
    if let Some(list) = std::env::var_os(LIST) {
        let file = std::fs::OpenOptions::new().create(true).append(true).open(list);
        let written = file.and_then(|mut file| file.write_all(line.as_bytes()));
        assert!(written.is_ok(), "the list of skipped tests cannot be written: {written:?}");
    }
    let required = std::env::var(REQUIRED).unwrap_or_default();
    assert!(!is_required(&required, why), "{REQUIRED} says that it is there: {why}");
}

fn is_required(required: &str, why: &str) -> bool {
    required.split(',').map(str::trim).any(|word| word == "all" || (!word.is_empty() && why.contains(word)))
}

#[cfg(test)]
mod tests {
    use super::is_required;

    #[test]
    fn what_is_required_is_found_by_its_word() {
        assert!(is_required("go, podman", "podman is not installed") && is_required("all", "anything"));
        assert!(
            !is_required("", "podman is not installed") && !is_required("psql", "podman is not installed")
        );
    }
}
