//! The file that valgrind's callgrind writes.

use std::collections::BTreeMap;

/// Self cost by function from the text of a `callgrind.out`, in its first event (instructions by default).
///
/// Names are written once as `(number) name` and then as `(number)`. A line of figures is a position and costs; the one
/// after `calls=` is what was called and not the function's own. Source: Valgrind manual, "Callgrind Format Specification".
#[must_use]
pub fn callgrind_self_costs(text: &str) -> BTreeMap<String, u64> {
    let mut names: BTreeMap<&str, &str> = BTreeMap::new();
    let mut costs: BTreeMap<String, u64> = BTreeMap::new();
    let mut current = "";
    let mut called = false;
    for line in text.lines() {
        if let Some(named) = line.strip_prefix("fn=").or_else(|| line.strip_prefix("cfn=")) {
            let name = resolve(named, &mut names);
            if line.starts_with("fn=") {
                current = name;
            }
        } else if line.starts_with("calls=") {
            called = true;
        } else if line.starts_with(|first: char| first.is_ascii_digit() || "+-*".contains(first)) {
            let own = !std::mem::take(&mut called);
            let cost = line.split_whitespace().nth(1).and_then(|word| word.parse::<u64>().ok());
            if let Some(cost) = cost.filter(|_| own && !current.is_empty()) {
                *costs.entry(current.to_owned()).or_default() += cost;
            }
        }
    }
    costs
}

/// `(number) name` defines and gives the name, `(number)` gives it; anything else is the name itself.
fn resolve<'a>(text: &'a str, names: &mut BTreeMap<&'a str, &'a str>) -> &'a str {
    let Some((number, name)) = text.strip_prefix('(').and_then(|rest| rest.split_once(')')) else {
        return text;
    };
    let name = name.trim_start();
    if name.is_empty() {
        return names.get(number).copied().unwrap_or("");
    }
    names.insert(number, name);
    name
}

#[cfg(test)]
mod tests {
    use super::callgrind_self_costs;

    /// After the manual's extended example.
    const TEXT: &str = "\
# callgrind format
version: 1
positions: line
events: Instructions

fl=(1) file1.c
fn=(1) main
16 400
cfn=(2) func1
calls=1 50
16 400
cfi=(2) file2.c
cfn=(3) func2
calls=3 20
+1 400

fn=(2)
51 100
fi=(3) inlined.h
* 5
fe=(1)
cfn=(3)
calls=2 20
-3 300

fl=(2)
fn=(3)
20 700
totals: 1205
";

    #[test]
    fn own_cost_is_told_from_that_of_calls() {
        let costs: Vec<(String, u64)> = callgrind_self_costs(TEXT).into_iter().collect();
        let want = [("func1", 105), ("func2", 700), ("main", 400)];
        assert_eq!(costs, want.map(|(name, cost)| (name.to_owned(), cost)));
    }

    #[test]
    fn what_is_no_profile_has_no_costs() {
        for text in ["", "hello", "12 13", "calls=1 2\n3 4"] {
            assert!(callgrind_self_costs(text).is_empty(), "{text}");
        }
    }
}
