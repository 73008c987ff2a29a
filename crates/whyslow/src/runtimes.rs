//! Runtimes tell profilers who called whom, and what their compiled functions are called, only when they are started so.

use std::collections::BTreeMap;

/// Where a JVM looks for options beside those of its command line, and what it is to do: without it a compiled method's
/// caller cannot be found, and the profile is flat.
const JAVA: (&str, &str) = ("JAVA_TOOL_OPTIONS", "-XX:+PreserveFramePointer");
/// Likewise Node, which then writes `/tmp/perf-PID.map` as it compiles, and gives each function that it interprets code of
/// its own.
const NODE: (&str, &str) = ("NODE_OPTIONS", "--perf-basic-prof --interpreted-frames-native-stack");

/// Has what is started with `env`, be it by a script, say what a profile needs; other programs do not look.
pub(crate) fn let_be_profiled(env: &mut BTreeMap<String, String>) {
    for (variable, options) in [JAVA, NODE] {
        let given = env.get(variable).cloned().or_else(|| std::env::var(variable).ok());
        let all = given.map_or_else(|| options.to_owned(), |given| format!("{given} {options}"));
        env.insert(variable.to_owned(), all);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_were_given_stay() {
        let mut env = BTreeMap::from([(JAVA.0.to_owned(), "-Xmx1g".to_owned())]);
        let_be_profiled(&mut env);
        assert_eq!(env[JAVA.0], "-Xmx1g -XX:+PreserveFramePointer");
        assert!(env[NODE.0].ends_with(NODE.1), "{env:?}");
    }
}
