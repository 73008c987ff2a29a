//! Which processes descend from which, from `/proc`.

use std::collections::BTreeSet;
use std::fs;

/// A process as `/proc/PID/stat` names it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Member {
    pub(crate) pid: u32,
    pub(crate) parent: u32,
    pub(crate) group: u32,
}

/// The processes below `root`, without it, those that ended and were not waited for left out.
pub(crate) fn descendants(root: u32) -> Vec<Member> {
    below(root, all())
}

fn below(root: u32, mut rest: Vec<Member>) -> Vec<Member> {
    let mut family = BTreeSet::from([root]);
    let mut found = Vec::new();
    loop {
        let (children, others): (Vec<_>, Vec<_>) =
            rest.into_iter().partition(|member| family.contains(&member.parent));
        if children.is_empty() {
            return found;
        }
        family.extend(children.iter().map(|child| child.pid));
        found.extend(children);
        rest = others;
    }
}

fn all() -> Vec<Member> {
    let Ok(entries) = fs::read_dir("/proc") else { return Vec::new() };
    entries
        .filter_map(Result::ok)
        .filter_map(|entry| entry.file_name().to_str()?.parse::<u32>().ok())
        .filter_map(|pid| member(&fs::read_to_string(format!("/proc/{pid}/stat")).ok()?))
        .collect()
}

/// Reads pid, parent and group. The name in brackets may hold anything, so that the fields after it are counted
/// from its last bracket. Source: proc_pid_stat(5).
fn member(stat: &str) -> Option<Member> {
    let (pid, rest) = stat.split_once(' ')?;
    let mut fields = rest.rsplit_once(')')?.1.split_ascii_whitespace();
    let state = fields.next()?;
    let (parent, group) = (fields.next()?, fields.next()?);
    (state != "Z" && state != "X").then_some(())?;
    Some(Member { pid: pid.parse().ok()?, parent: parent.parse().ok()?, group: group.parse().ok()? })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn placed(pid: u32, parent: u32) -> Member {
        Member { pid, parent, group: pid }
    }

    #[test]
    fn names_with_spaces_and_brackets_do_not_shift_the_fields() {
        let expected = Some(Member { pid: 7, parent: 3, group: 5 });
        for name in ["a", "a b", "a) R 1 2 (b", ")", ""] {
            assert_eq!(member(&format!("7 ({name}) S 3 5 5 0 -1")), expected, "{name}");
        }
    }

    #[test]
    fn the_dead_and_the_damaged_are_left_out() {
        for stat in ["7 (a) Z 3 5", "7 (a) X 3 5", "", "7", "7 (a) S", "7 (a) S x 5"] {
            assert_eq!(member(stat), None, "{stat}");
        }
    }

    #[test]
    fn descendants_are_found_in_any_order_and_strangers_are_not() {
        let found =
            below(10, vec![placed(30, 20), placed(40, 1), placed(20, 10), placed(50, 30), placed(10, 1)]);
        let pids: BTreeSet<u32> = found.iter().map(|member| member.pid).collect();
        assert_eq!(pids, BTreeSet::from([20, 30, 50]));
    }
}
