//! A command line as records and pages may show it.

/// What stands for a value that is not shown.
const HIDDEN: &str = "...";
/// Parts of the names of parameters whose values may be secret.
const SECRET: [&str; 10] =
    ["token", "secret", "passw", "pwd", "key", "sig", "auth", "session", "credential", "jwt"];

/// A URL, or a path with its query, without what may be secret: a user's name and password, and the values of parameters that are called
/// a token, a key and the like.
#[must_use]
pub fn without_secrets(url: &str) -> String {
    let start = url.find("://").map_or(0, |at| at + "://".len());
    let end = url[start..].find(['/', '?']).map_or(url.len(), |at| start + at);
    let user = url[start..end].rfind('@').filter(|_| start > 0);
    let (hidden, rest) = user.map_or(("", &url[start..]), |at| (HIDDEN, &url[start + at..]));
    let (path, query) = rest.split_once('?').map_or((rest, None), |(path, query)| (path, Some(query)));
    let query = query.map(|query| query.split('&').map(without_value).collect::<Vec<_>>().join("&"));
    let query = query.map_or_else(String::new, |query| format!("?{query}"));
    format!("{}{hidden}{path}{query}", &url[..start])
}

fn without_value(parameter: &str) -> String {
    match parameter.split_once('=') {
        Some((name, _)) if SECRET.iter().any(|part| name.to_ascii_lowercase().contains(part)) => {
            format!("{name}={HIDDEN}")
        }
        _ => parameter.to_owned(),
    }
}

/// The words of a command without the values of fields, bodies and messages, which may be secret.
#[must_use]
pub fn without_values(command: &[String]) -> Vec<String> {
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
            _ => without_secrets(word),
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
            ("--path|/a?page=2&api_key=s3", "--path|/a?page=2&api_key=..."),
            ("--path=/a?Token=s3&n=1", "--path=/a?Token=...&n=1"),
            ("http://me:s3@host:80/a?q=1", "http://...@host:80/a?q=1"),
            ("a=http://h/@b?x|main@variant|pr=git:HEAD@{1}", "a=http://h/@b?x|main@variant|pr=git:HEAD@{1}"),
        ];
        for (given, wanted) in hidden {
            let words: Vec<String> = given.split('|').map(str::to_owned).collect();
            assert_eq!(without_values(&words).join("|"), wanted);
        }
    }
}
