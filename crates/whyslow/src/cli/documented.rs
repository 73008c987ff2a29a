//! Every command in the documentation is one that the program takes.

use std::path::{Path, PathBuf};

use clap::Parser;
use clap::error::{ContextKind, ContextValue, ErrorKind};
use model::plan::split_command;

use super::Cli;

/// Fewer commands than this were not found, but missed.
const FEWEST: usize = 80;

fn pages() -> Vec<PathBuf> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("../..");
    let mut pages: Vec<PathBuf> = ["README.md", "METHODOLOGY.md", "cases/README.md", "targets/README.md"]
        .map(|name| root.join(name))
        .into();
    for folder in
        ["docs", "docs/ci", "docs/method", "docs/answers", "docs/benchmarks", "docs/examples/service"]
    {
        let listed = std::fs::read_dir(root.join(folder)).unwrap();
        let files = listed.map(|entry| entry.unwrap().path());
        pages.extend(files.filter(|file| file.extension().is_some_and(|end| end == "md")));
    }
    pages
}

/// Lines of code blocks, and what stands between backticks, that begin with the program's name.
fn commands(page: &str) -> Vec<String> {
    let page = page.replace("\\\n", " ");
    let mut fenced = false;
    let lines = page.lines().filter_map(|line| {
        fenced ^= line.starts_with("```");
        let indented = line.strip_prefix("    ").or_else(|| line.strip_prefix("$ "));
        indented.or_else(|| Some(line).filter(|_| fenced))
    });
    let inline = page.split('`').skip(1).step_by(2).filter(|code| !code.contains("\n\n"));
    let all = lines.map(str::to_owned).chain(inline.map(|code| code.replace('\n', " ")));
    all.map(|command| command.trim().to_owned()).filter(|command| command.starts_with("whyslow ")).collect()
}

/// Whether a command has a word that stands for others: `…`, `COMMAND`, or flags in brackets.
fn is_a_pattern(words: &[String]) -> bool {
    words.iter().any(|word| word == "COMMAND" || word.contains('…') || word.starts_with('['))
}

/// Whether a command is only named: it lacks what it needs.
fn is_only_named(error: &clap::Error) -> bool {
    match error.kind() {
        ErrorKind::MissingRequiredArgument
        | ErrorKind::MissingSubcommand
        | ErrorKind::DisplayHelp
        | ErrorKind::DisplayHelpOnMissingArgumentOrSubcommand => true,
        // A flag without its value.
        ErrorKind::InvalidValue => {
            matches!(error.get(ContextKind::InvalidValue), Some(ContextValue::String(value)) if value.is_empty())
        }
        _ => false,
    }
}

#[test]
fn every_documented_command_is_one_that_the_program_takes() {
    let (mut tried, mut wrong) = (0, Vec::new());
    for page in pages() {
        let text = std::fs::read_to_string(&page).unwrap();
        for command in commands(&text) {
            let Ok(words) = split_command("whyslow", &command) else {
                wrong.push(format!("{}: {command}: quotes do not match", page.display()));
                continue;
            };
            let ends = |word: &String| ["|", "||", "&&", ">", "2>", "&"].contains(&word.as_str());
            let words: Vec<String> = words.iter().take_while(|word| !ends(word)).cloned().collect();
            if is_a_pattern(&words) {
                continue;
            }
            tried += 1;
            if let Err(error) = Cli::try_parse_from(&words)
                && !is_only_named(&error)
            {
                wrong.push(format!("{}: {command}: {error}", page.display()));
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(tried >= FEWEST, "{tried} commands");
}
