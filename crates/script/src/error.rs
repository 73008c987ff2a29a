use mlua::Error;

/// What is wrong with a script: one sentence that names the file and, where there is one, the line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct ScriptError(pub(crate) String);

impl ScriptError {
    /// An error of Lua in the script called `file`.
    pub(crate) fn from_lua(error: &Error, file: &str) -> Self {
        let (text, traceback) = root(error);
        let first = text.lines().next().unwrap_or("it failed without a word").to_owned();
        if first.starts_with(file) {
            return Self(first);
        }
        let place = traceback.and_then(|traceback| place(traceback, file));
        Self(format!("{}: {first}", place.unwrap_or_else(|| file.to_owned())))
    }

    /// An error that has no line: what a function returned.
    pub(crate) fn in_file(file: &str, sentence: &str) -> Self {
        Self(format!("{file}: {sentence}"))
    }
}

/// What began it, and the call stack at the time.
fn root(error: &Error) -> (String, Option<&str>) {
    match error {
        Error::RuntimeError(text) | Error::SyntaxError { message: text, .. } => {
            (text.clone(), text.split_once("stack traceback:").map(|(_, after)| after))
        }
        Error::CallbackError { traceback, cause } => {
            let (text, deeper) = root(cause);
            (text, deeper.or(Some(traceback)))
        }
        Error::BadArgument { cause, .. } => root(cause),
        other => (other.to_string(), None),
    }
}

/// The innermost `file:line` of a call stack.
fn place(traceback: &str, file: &str) -> Option<String> {
    traceback.lines().find_map(|line| {
        let rest = line.trim_start().strip_prefix(file)?.strip_prefix(':')?;
        let digits = rest.find(|digit: char| !digit.is_ascii_digit()).unwrap_or(rest.len());
        (digits > 0).then(|| format!("{file}:{}", &rest[..digits]))
    })
}
