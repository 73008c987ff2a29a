//! A command line as records and pages may show it.

/// The words of a command without the values of fields, bodies and messages, which may be secret.
#[must_use]
pub fn without_values(command: &[String]) -> Vec<String> {
    const HIDDEN: &str = "...";
    let mut words = Vec::new();
    let mut before = "";
    for word in command {
        let (flag, value) = match word.split_once('=') {
            Some((flag @ ("--header" | "--body" | "--message"), value)) => (flag, Some(value)),
            _ => (word.strip_prefix("-H").filter(|rest| !rest.is_empty()).map_or(before, |_| "-H"), None),
        };
        let joined = if value.is_some() { format!("{flag}=") } else { String::new() };
        let text = value.unwrap_or(word);
        words.push(match (flag, text.split_once(':')) {
            ("-H" | "--header", Some((name, _))) => format!("{joined}{name}: {HIDDEN}"),
            ("--body" | "--message", _) if !text.starts_with('@') => format!("{joined}{HIDDEN}"),
            _ => word.clone(),
        });
        before = word;
    }
    words
}

#[cfg(test)]
mod tests {
    use super::without_values;

    #[test]
    fn a_command_is_shown_without_values_that_may_be_secret() {
        let hidden = [
            ("-H|Authorization: Bearer s3", "-H|Authorization: ..."),
            ("-HX-Key: s3", "-HX-Key: ..."),
            ("--header=Cookie: s3", "--header=Cookie: ..."),
            ("--body|s3", "--body|..."),
            ("--body=s3", "--body=..."),
            ("--message|{s3}", "--message|..."),
            ("--body|@file", "--body|@file"),
            ("a=./x --H: {port}|--path|/a:b", "a=./x --H: {port}|--path|/a:b"),
        ];
        for (given, wanted) in hidden {
            let words: Vec<String> = given.split('|').map(str::to_owned).collect();
            assert_eq!(without_values(&words).join("|"), wanted);
        }
    }
}
