//! What `strace -c` prints, for hosts where perf events may not be counted.

use std::collections::BTreeMap;

/// Calls by name from the table of `strace -c`; lines that are none of its rows are left out.
///
/// A row is `% time, seconds, usecs/call, calls, errors, name`, of which `errors` is often blank.
#[must_use]
pub fn strace_calls(table: &str) -> BTreeMap<String, u64> {
    table.lines().filter_map(row).collect()
}

fn row(line: &str) -> Option<(String, u64)> {
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, calls) = match words[..] {
        [_, _, _, calls, name] | [_, _, _, calls, _, name] => (name, calls),
        _ => return None,
    };
    // The last row is a sum, and rules are dashes.
    let is_name =
        name != "total" && name.starts_with(|first: char| first.is_ascii_alphabetic() || first == '_');
    calls.parse().ok().filter(|_| is_name).map(|calls| (name.to_owned(), calls))
}

#[cfg(test)]
mod tests {
    use super::*;

    const TABLE: &str = "\
% time     seconds  usecs/call     calls    errors syscall
------ ----------- ----------- --------- --------- ----------------
 60.00    0.000120           2        60         4 recvfrom
 40.00    0.000080           2        40           sendto
  0.00    0.000000           0         1         1 _llseek
------ ----------- ----------- --------- --------- ----------------
100.00    0.000200           1       101         5 total
";

    #[test]
    fn rows_are_read_with_and_without_errors() {
        let calls = strace_calls(TABLE);
        let expected = [("_llseek", 1), ("recvfrom", 60), ("sendto", 40)];
        assert_eq!(calls, expected.map(|(name, count)| (name.to_owned(), count)).into());
        assert!(strace_calls("strace: Process 1 attached\n").is_empty());
    }
}
