//! Schemas, completions and man pages: all from the definitions that the program itself runs on.

use anyhow::Context;
use clap::CommandFactory;

use crate::cli::{Cli, CompletionsArgs, ManArgs, Output, SchemaArgs};
use crate::exit::{Exit, Outcome, Stop};

pub(crate) fn schema(args: &SchemaArgs) -> Outcome {
    let schema = match args.output {
        Output::Compare => report::findings_schema(),
        Output::Report => report::page_schema(),
        Output::Load => report::load_schema(),
        Output::Capacity => report::capacity_schema(),
        Output::Watch => report::watch_schema(),
        Output::Whyslow => model::plan::ConfigFile::schema().to_value(),
        Output::Case => report::case_schema(),
        Output::Bisect => report::bisect_schema(),
    };
    let text = serde_json::to_string_pretty(&schema).context("a schema is JSON")?;
    crate::print(&format!("{text}\n"))?;
    Ok(Exit::Done)
}

pub(crate) fn completions(args: &CompletionsArgs) -> Outcome {
    let mut text = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "whyslow", &mut text);
    crate::print(&String::from_utf8(text).context("completions are text")?)?;
    Ok(Exit::Done)
}

pub(crate) fn man(args: &ManArgs) -> Outcome {
    let mut program = Cli::command();
    program.build();
    let name = args.command.join("-");
    let command = match name.is_empty() {
        true => &program,
        false => called(&program, &format!("whyslow-{name}")).ok_or_else(|| {
            let name = args.command.join(" ");
            Stop::usage(anyhow::anyhow!("there is no command '{name}': see whyslow --help"))
        })?,
    };
    let command = command.clone().override_usage(synopsis(command));
    let mut page = Vec::new();
    clap_mangen::Man::new(command).render(&mut page).context("cannot lay out the man page")?;
    crate::print(&String::from_utf8(page).context("a man page is text")?)?;
    Ok(Exit::Done)
}

/// The flags that a command takes, with their values, and what comes after them. Shorter names of flags stand with what they do.
fn synopsis(command: &clap::Command) -> String {
    let shown = || command.get_arguments().filter(|arg| !arg.is_hide_set());
    let flags = shown().filter(|arg| !arg.is_positional()).map(|arg| match arg.is_required_set() {
        true => arg.to_string(),
        false => format!("[{arg}]"),
    });
    let name = command.get_bin_name().unwrap_or_else(|| command.get_name()).to_owned();
    let commands = command.has_subcommands().then(|| "<COMMAND>".to_owned());
    let rest = shown().filter(|arg| arg.is_positional()).map(ToString::to_string);
    std::iter::once(name).chain(flags).chain(rest).chain(commands).collect::<Vec<_>>().join(" ")
}

/// The command below `parent` whose page has this name: `whyslow-case` or `whyslow-case-run`.
fn called<'a>(parent: &'a clap::Command, page: &str) -> Option<&'a clap::Command> {
    let here = parent.get_subcommands().find(|command| command.get_display_name() == Some(page));
    here.or_else(|| parent.get_subcommands().find_map(|command| called(command, page)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_synopsis_has_the_values_of_flags() {
        let mut program = Cli::command();
        program.build();
        let text = synopsis(called(&program, "whyslow-load").unwrap());
        for words in ["whyslow load [--threads <THREADS>]", " [--insecure] ", " [URL]"] {
            assert!(text.contains(words), "{words}: {text}");
        }
        assert!(synopsis(called(&program, "whyslow-case").unwrap()).ends_with(" <COMMAND>"));
    }

    #[test]
    fn commands_of_commands_have_pages_too() {
        let mut program = Cli::command();
        program.build();
        for page in ["whyslow-compare", "whyslow-case", "whyslow-case-run", "whyslow-targets-build"] {
            assert_eq!(called(&program, page).and_then(clap::Command::get_display_name), Some(page));
        }
        assert!(called(&program, "whyslow-case-nothing").is_none());
    }
}
